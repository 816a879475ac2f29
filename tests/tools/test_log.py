# SPDX-License-Identifier: BSD-2-Clause
"""The lines of URNIC_LOG during a run."""

import re

import lab
import pytest


def pingpong(ns, env=None, client_env=None, status=0):
    """Run ibv_rc_pingpong over loopback; return what server and client printed."""
    port = lab.next_port()
    words = ["ibv_rc_pingpong", "-d", "roce_lo", "-g", "1", "-n", "20", "-s", "3000",
             "-p", str(port)]
    server = ns.start(*words, env=env)
    server.wait_listening(port)
    client = ns.start(*words, "127.0.0.1", env={**(env or {}), **(client_env or {})})
    assert client.wait(lab.HANGS) == status, client.describe()
    if status == 0:
        assert server.wait(lab.HANGS) == 0, server.describe()
    return server.out, client.out


def counters(out):
    line, = re.findall(r"^urnic\[\d+\] info: counters: (.*)$", out, re.M)
    return {name: int(n) for name, n in (w.split() for w in line.split(", "))}


def test_counters_at_close(netns):
    server, client = (counters(out) for out in
                      pingpong(netns, {"URNIC_LOG": "info", "URNIC_LOCAL": "off"}))
    assert server["rx"] >= 20 * 3 and server["rx_bytes"] > 20 * 3000
    assert all(n > 0 for n in (*server.values(), *client.values()))
    # A retransmitted packet and its answer may arrive when the other end has finished.
    again = {"tx_probe", "tx_timeout"} & {*server, *client}
    for frm, to in ((server, client), (client, server)):
        for what in ("", "_bytes"):
            sent, came = frm[f"tx{what}"], to[f"rx{what}"]
            assert sent == came or again and sent > came, (server, client)


def test_counters_at_exit(netns):
    """A program that fails and exits with its device open still logs its counters."""
    _, client = pingpong(netns, {"URNIC_LOG": "info"},
                         {"URNIC_FAULT": "tx:drop=1"}, status=1)
    assert "transport retry counter exceeded" in client
    assert counters(client)["tx_timeout"] == 8
    assert re.search(r"work request 0x\w+ to QP 0x\w{6} at 127\.0\.0\.1, PSN \d+: the peer did "
                     r"not answer", client), client


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


def test_a_wrong_gid_index_is_said(netns):
    port = lab.next_port()
    words = ["ibv_rc_pingpong", "-d", "roce_lo", "-p", str(port)]
    server = netns.start(*words, "-g", "77")
    server.wait_listening(port)
    netns.run(*words, "-g", "1", "127.0.0.1", check=False)
    assert server.wait(lab.HANGS) == 1, server.describe()
    # the advice names an index that there is
    assert "warn: roce_lo: address (sgid_index 77, port 1) refused: there is no GID at " \
        "sgid_index; use GID index 1 (127.0.0.1); urnic devices lists all" in server.out, server.out


@pytest.mark.parametrize("limit,says", [
    ("--nofile=12", "Too many open files; the limit of this process is ulimit -n"),
    ("--nproc=0", "threads are limited by ulimit -u"),
])
def test_a_limit_that_forbids_a_device_is_said(netns, limit, says):
    if limit.startswith("--nproc") and lab.IN_USERNS:
        pytest.skip("a user namespace has one user, who has processes")
    done = netns.run("prlimit", limit, "ibv_devinfo", "-d", "roce_lo", check=False,
                     user="nobody")
    line, = re.findall(r"error: roce_lo cannot be opened: .*$", done.out, re.M)
    assert says in line, line


def test_no_device_is_said(netns):
    done = netns.run("unshare", "-Urn", "ibv_devices", check=False)
    if "unshare:" in done.out:
        pytest.skip("user namespaces are forbidden here")
    assert "warn: there is no RDMA device: no network interface" in done.out, done.out


def test_what_rdma_cm_says_is_said(netns):
    done = netns.with_env(URNIC_LOG="info").run(
        "rping", "-c", "-a", "127.0.0.1", "-p", str(lab.next_port()), "-C", "1",
        check=False)
    assert re.search(r"info: rdma_cm, 127\.0\.0\.1, port \d+: "
                     r"RDMA_CM_EVENT_REJECTED, error 8$", done.out, re.M), done.out
