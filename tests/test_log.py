# SPDX-License-Identifier: BSD-2-Clause
"""What URNIC_LOG tells of a run."""

import re

import lab


def pingpong(ns, env=None, client_env=None, status=0):
    """What server and client wrote, over loopback."""
    port = lab.next_port()
    words = ["ibv_rc_pingpong", "-d", "roce_lo", "-g", "1", "-n", "20", "-s", "3000",
             "-p", str(port)]
    server = ns.start(*words, env=env)
    server.wait_listening(port)
    client = ns.start(*words, "127.0.0.1", env={**(env or {}), **(client_env or {})})
    assert client.wait(30) == status, client.describe()
    if status == 0:
        assert server.wait(10) == 0, server.describe()
    return server.out, client.out


def counters(out):
    line, = re.findall(r"^urnic\[\d+\] info: counters: (.*)$", out, re.M)
    return {name: int(n) for name, n in (w.split() for w in line.split(", "))}


def test_counters_at_close(netns):
    server, client = (counters(out) for out in
                      pingpong(netns, {"URNIC_LOG": "info", "URNIC_LOCAL": "off"}))
    assert server["rx"] == client["tx"] >= 20 * 3
    assert server["rx_bytes"] == client["tx_bytes"] > 20 * 3000
    assert client["rx"] == server["tx"]
    assert all(n > 0 for n in (*server.values(), *client.values()))


def test_counters_at_exit(netns):
    """A program that has failed ends with its device open."""
    _, client = pingpong(netns, {"URNIC_LOG": "info"},
                         {"URNIC_FAULT": "tx:drop=1"}, status=1)
    assert "transport retry counter exceeded" in client
    assert counters(client)["tx_timeout"] == 8


def test_no_counters_without_info(netns):
    for out in pingpong(netns):
        assert "counters" not in out


def test_each_fault_is_a_line(netns):
    for spec, want in (
            ("rx:nth=5", r"fault: rx datagram 5 dropped: RC \w+ to QP 0x\w{6}, "
                         r"PSN \d+, \d+ bytes"),
            ("tx:nth=3", r"fault: tx datagram 3 dropped: RC SEND_LAST to QP "
                         r"0x\w{6}, PSN \d+, \d+ bytes")):
        _, client = pingpong(netns, client_env={"URNIC_LOG": "debug",
                                                "URNIC_FAULT": spec})
        line, = re.findall(r"debug: (fault: .*)$", client, re.M)
        assert re.fullmatch(want, line), line
    _, client = pingpong(netns, client_env={"URNIC_LOG": "info",
                                            "URNIC_FAULT": "dup=0.5"})
    assert "fault" not in client
