# SPDX-License-Identifier: BSD-2-Clause
"""Connection management of iWARP devices: Debian's rdma_cm programs, unmodified, where
URNIC_DEVICES names iWARP devices alone or both kinds."""

import pytest

import lab
from test_cm import ROWS, ours, run_pair, wait_service  # noqa: F401

IWARP = {"URNIC_DEVICES": "iwarp_eth0"}     # which also serves 127.0.0.1 and ::1
PROGRAMS = [r for r in ROWS if r.name.startswith((
    "rping", "ucmatose", "cmtime", "rdma_", "send_", "write_", "read_", "fi_"))
            and r.name != "rdma_xclient-x"]      # iWARP has no XRC
PLACES = [("pair", "v4"), ("pair", "v6"), ("lo", "v4"), ("lo", "v6"), ("host", "v4")]


def cells():
    """Each row in two of its places; with --full in all of them."""
    out = []
    for i, row in enumerate(PROGRAMS):
        can = [p for p in PLACES if p[1] in row.families]
        for j, (place, family) in enumerate(can):
            marks = () if (j - i) % len(can) < 2 else pytest.mark.full
            out.append(pytest.param(row, place, family, marks=marks,
                                    id=f"{row.name}-{place}-{family}"))
    return out


def stand(pair, place, family, env):
    a, b = (ns.with_env(**env) for ns in (pair.a, pair.b))
    if place == "lo":
        return a, a, "127.0.0.1" if family == "v4" else "::1"
    return a, b if place == "pair" else a, pair.a.ip4 if family == "v4" else pair.a.ip6


@pytest.mark.parametrize("crc", ["yes", "no"])
@pytest.mark.parametrize("row,place,family", cells())
def test_programs(shared_pair, row, place, family, crc):
    server_ns, client_ns, ip = stand(shared_pair(), place, family,
                                     {**IWARP, "URNIC_MPA_CRC": crc})
    port = row.port or lab.next_port()
    words = {"ip": ip, "port": port}
    server = [w.format(**words) for w in row.server.split()]
    client = [w.format(**words) for w in row.client.split()]
    if row.name.startswith(("ucmatose", "cmtime")) and family == "v6":
        server += ["-b", ip]
    _, c = run_pair(server_ns, client_ns, server, client, port, by_tcp=row.by_tcp,
                    stays=row.stays)
    assert row.said in c.out, c.describe()


@pytest.mark.parametrize("kind", ["roce", "iwarp"])
def test_a_wildcard_serves_both(shared_pair, kind):
    pair = shared_pair()
    port = str(lab.next_port())
    server = pair.a.with_env(URNIC_DEVICES="eth0,iwarp_eth0")
    client = pair.b.with_env(URNIC_DEVICES=f"{kind}_eth0")
    run_pair(server, client, ["rping", "-s", "-C", "3", "-p", port],
             ["rping", "-c", "-V", "-C", "3", "-a", pair.a.ip4, "-p", port], int(port))


def test_all_of_127_is_loopback(shared_pair):
    ns = shared_pair().a.with_env(**IWARP)
    port = str(lab.next_port())
    run_pair(ns, ns, ["rping", "-s", "-C", "3", "-p", port],
             ["rping", "-c", "-V", "-C", "3", "-a", "127.0.0.2", "-p", port], int(port))


TCP_SERVER = """
import socket, sys, time
s = socket.create_server(("0.0.0.0", int(sys.argv[1])))
time.sleep(60)
"""
TCP_CLIENTS = """
import socket, sys, time
held = []
for i in range(20):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    s.sendall([b"", b"GET / HTTP/1.0\\r\\n\\r\\n", b"MPA ID Req Frame", bytes(100)][i % 4])
    held.append(s)
print("here", flush=True)
time.sleep(60)
"""


def test_a_tcp_program_has_the_port(shared_pair, ours):
    """A TCP program that has the port keeps a wildcard listener from iWARP clients, but not from
    RoCE ones; a listener on an iWARP device fails."""
    pair = shared_pair()
    port = str(lab.next_port())
    holder = pair.a.start("python3", "-c", TCP_SERVER, port, library=False)
    holder.wait_listening(int(port))
    run_pair(pair.a, pair.b.with_env(URNIC_DEVICES="roce_eth0"),
             ["rping", "-s", "-C", "3", "-p", port],
             ["rping", "-c", "-V", "-C", "3", "-a", pair.a.ip4, "-p", port], int(port))
    out = pair.a.with_env(**IWARP).run("rping", "-s", "-a", pair.a.ip4, "-p", port,
                                       check=False).out
    assert "Address already in use" in out or "rdma_listen" in out, out


@pytest.mark.parametrize("place,family", [("pair", "v4"), ("lo", "v6")])
def test_cycles(shared_pair, ours, place, family):
    """Connecting and disconnecting many times leaves nothing behind."""
    server_ns, client_ns, ip = stand(shared_pair(), place, family, IWARP)
    port = str(lab.next_port())
    run_pair(server_ns, client_ns, [ours, "serve", ip, port, "300"],
             [ours, "ask", ip, port, "300"], int(port), timeout=75)


REFUSED = [["RDMA_CM_EVENT_REJECTED -111"], ["RDMA_CM_EVENT_REJECTED -104"]]
ENDED = ["RDMA_CM_EVENT_ESTABLISHED 0", "RDMA_CM_EVENT_DISCONNECTED 0"]


@pytest.mark.parametrize("step,told", [
    ("requested", REFUSED), ("accepted", [*REFUSED, ENDED]),
    ("established", [ENDED]), ("exit", [ENDED]), ("disconnected", [ENDED])])
@pytest.mark.parametrize("place", ["host", "pair"])
def test_server_dies(shared_pair, ours, place, step, told):
    """When a server dies at a step, its client gets an event at once."""
    server_ns, client_ns, ip = stand(shared_pair(), place, "v4", IWARP)
    port = str(lab.next_port())
    server = server_ns.start(ours, "dying", ip, port, step)
    wait_service(server, int(port))
    out = client_ns.run(ours, "watch", ip, port, step, timeout=10).out
    assert out.splitlines() in told, out


def test_nobody_listens(shared_pair, ours):
    pair = shared_pair()
    ns = pair.b.with_env(**IWARP)
    out = ns.run(ours, "watch", pair.a.ip4, str(lab.next_port()), "-").out
    assert out.splitlines() in REFUSED


def test_strangers(shared_pair, ours):
    """A listener that browsers and port scanners connect to still serves its clients."""
    pair = shared_pair()
    server_ns, client_ns, ip = stand(pair, "pair", "v4", IWARP)
    port = str(lab.next_port())
    server = server_ns.start(ours, "serve", ip, port, "10")
    server.wait_listening(int(port))
    strangers = client_ns.start("python3", "-c", TCP_CLIENTS, ip, port, library=False)
    strangers.wait_output("here")
    client_ns.run(ours, "ask", ip, port, "10")
    assert server.wait(lab.HANGS) == 0, server.describe()


def warnings(out):
    return [line for line in out.splitlines() if " warn: " in line]


def test_a_program_without_rdma_cm_is_told(netns):
    """perftest without -R changes its QPs' states itself, which an iWARP device does not
    support."""
    ns = netns.with_env(URNIC_DEVICES="iwarp_lo")
    port = lab.next_port()
    words = ["ib_write_bw", "-p", str(port)]
    server = ns.start(*words)
    server.wait_listening(port)
    client = ns.start(*words, "127.0.0.1")
    assert client.wait(lab.HANGS) not in (0, None)
    line, = warnings(client.out)
    assert "connected by rdma_cm alone" in line and "perftest: -R" in line


def test_datagrams_are_told_to_be_roces(netns):
    """udaddy crashes on the ADDR_ERROR that it gets, but a warning before it says the reason."""
    ns = netns.with_env(URNIC_DEVICES="iwarp_lo")
    client = ns.start("udaddy", "-s", "127.0.0.1")
    assert client.wait(lab.HANGS) is not None
    line, = warnings(client.out)
    assert "no datagrams" in line and "URNIC_DEVICES" in line
