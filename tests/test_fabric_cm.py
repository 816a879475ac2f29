# SPDX-License-Identifier: BSD-2-Clause
"""rdma_cm at a fabric's adapters: addresses from its directory, paths from OpenSM, messages
from QP1 to QP1 by LIDs.  docs/fabric.md.
"""

import re
import signal

import lab
import pytest
from test_cm import ROWS, run_pair, wait_end, wait_listener
from test_fabric import Fabric, TWO, leaves, tshark
from tool import need

A, B = "127.1.0.1", "127.1.0.2"


@pytest.fixture
def fabric(netns):
    need("opensm")

    def start(text=TWO, *args):
        return Fabric(netns, text, "--fabric", "default", *args)
    return start


@pytest.fixture
def two(fabric):
    """Two adapters at one switch, managed."""
    f = fabric()
    f.sm = f.opensm("a")
    return f


def connect(f, port, *, server="b", client="a", ip=B, **kw):
    words = ("rping", "-C", "3", "-p", str(port))
    return run_pair(f.at(server), f.at(client), (*words, "-s"), (*words, "-c", "-V", "-a", ip),
                    port, space=None, **kw)


# libfabric wants AF_IB addresses there
RUN = [row for row in ROWS if not row.name.startswith("fi_")]


@pytest.mark.parametrize("row", RUN, ids=lambda row: row.name)
def test_programs(two, row):
    port = row.port or lab.next_port()
    words = {"ip": B, "port": port}
    server, client = ([w.format(**words) for w in text.split()]
                      for text in (row.server, row.client))
    _, c = run_pair(two.at("b"), two.at("a"), server, client, port, space=None,
                    by_tcp=row.by_tcp, stays=row.stays, timeout=lab.HANGS)
    assert row.said in c.out, c.describe()


def test_servers_of_one_port(fabric):
    """Each adapter is a host of its own: both serve all addresses, at one port."""
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    port = lab.next_port()
    servers = [f.at(n).start("rping", "-s", "-C", "2", "-p", str(port)) for n in ("n1", "n2")]
    for s in servers:
        wait_listener(s, port)
    for n, ip in enumerate(("127.1.0.2", "127.1.0.3")):
        c = f.at("n3").start("rping", "-c", "-C", "2", "-a", ip, "-p", str(port))
        assert wait_end(c, "rping", lab.HANGS) == 0, c.describe()
        assert wait_end(servers[n], "rping", lab.HANGS) == 0, servers[n].describe()


def test_one_port_is_one_programs(two):
    port = str(lab.next_port())
    first = two.at("b").start("rping", "-s", "-p", port)
    wait_listener(first, port)
    second = two.at("b").start("rping", "-s", "-p", port)
    assert second.wait(lab.HANGS) not in (0, None) and "Address already in use" in second.out, second.describe()
    first.signal(signal.SIGKILL)
    first.wait(lab.HANGS)
    connect(two, port)  # it is free at once


FORKS = """
import ctypes, os, signal, sys, time
sys.stdout.reconfigure(line_buffering=True)
cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
ids = []
def bind(port):
    channel, cid = cm.rdma_create_event_channel, ctypes.c_void_p()
    channel.restype = ctypes.c_void_p
    cm.rdma_create_id.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    assert cm.rdma_create_id(channel(), ctypes.byref(cid), None, 0x106) == 0
    a = (2).to_bytes(2, "little") + port.to_bytes(2, "big") + bytes(12)
    cm.rdma_bind_addr.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    ids.append(cid)
    return cm.rdma_bind_addr(cid, a)
port = int(sys.argv[1])
assert bind(port) == 0
signal.signal(signal.SIGALRM, lambda *a: None)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in range(400):
    assert bind(0) == 0, os.strerror(ctypes.get_errno())
signal.setitimer(signal.ITIMER_REAL, 0)
if os.fork() == 0:
    print("child")
    time.sleep(10)
os._exit(0)
"""


def test_ports_with_signals_and_a_child(two):
    """A timer disturbs no call, each of many ids gets a port, and a child that goes on holds
    none of its parent's."""
    port = lab.next_port()
    proc = two.at("b").start("/usr/bin/python3", "-c", FORKS, str(port))
    assert proc.wait(lab.HANGS) == 0 and "child" in proc.out, proc.describe()
    connect(two, port)


def test_two_servers_at_one_adapter(two):
    """The fabric tells their requests, and all that follows, apart."""
    ports = [lab.next_port(), lab.next_port()]
    servers = [two.at("b").start("rping", "-s", "-C", "50", "-p", str(p)) for p in ports]
    for s, p in zip(servers, ports):
        wait_listener(s, p)
    clients = [two.at(hca).start("rping", "-c", "-C", "50", "-a", B, "-p", str(p))
               for hca, p in zip(("a", "b"), ports)]
    for c, s in zip(clients, servers):
        assert wait_end(c, "rping", lab.HANGS) == 0, c.describe()
        assert wait_end(s, "rping", lab.HANGS) == 0, s.describe()


def test_nobody_listens(two):
    other = two.at("b").start("rping", "-s", "-p", (port := str(lab.next_port())))
    wait_listener(other, port)
    c = two.at("a").start("rping", "-c", "-a", B, "-p", str(lab.next_port()))
    assert c.wait(lab.HANGS) != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in c.out, c.describe()


def test_no_program_is_there(two):
    """The fabric answers as a kernel would."""
    c = two.at("a").start("rping", "-c", "-a", B, "-p", str(lab.next_port()))
    assert c.wait(lab.HANGS) != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in c.out, c.describe()
    u = two.at("a").start("udaddy", "-s", B)
    assert u.wait(lab.HANGS) != 0 and "RDMA_CM_EVENT_UNREACHABLE" in u.out, u.describe()


def test_no_such_address(two):
    c = two.at("a").start("rping", "-c", "-a", "127.1.0.77", "-p", "9000")
    assert c.wait(lab.HANGS) != 0 and "RDMA_CM_EVENT_ADDR_ERROR" in c.out, c.describe()


def test_no_subnet_manager(fabric):
    f = fabric()
    c = f.at("a", URNIC_LOG="info").start("rping", "-c", "-a", B, "-p", "9000")
    assert c.wait(lab.HANGS) != 0 and "RDMA_CM_EVENT_ROUTE_ERROR" in c.out, c.describe()
    assert "opensm" in c.out


def test_by_gid(two):
    """An IPv6 address of the fabric is a port's GID."""
    out = two.run("b", "ibv_devinfo", "-v")
    gid = re.search(r"GID\[ *0\]:\s+(\S+)", out)[1]
    port = lab.next_port()
    words = ("ucmatose", "-p", str(port))
    s = two.at("b").start(*words, "-b", gid)
    wait_listener(s, port)
    c = two.at("a").start(*words, "-s", gid)
    assert c.wait(lab.HANGS) == 0 and s.wait(lab.HANGS) == 0, c.describe()


def test_an_address_of_the_second_file(netns, tmp_path):
    need("opensm")
    settings = netns.stage.tmp / f"settings{lab.next_port()}"
    settings.write_text("[b]\naddress = 10.9.8.7\n")
    f = Fabric(netns, TWO, "--fabric", "default", "--settings", str(settings))
    f.opensm("a")
    connect(f, lab.next_port(), ip="10.9.8.7")


def test_connections_end_with_their_process(two):
    """The peer is told when it sends; others at the adapter go on."""
    port = lab.next_port()
    s = two.at("b").start("rping", "-s", "-P", "-p", str(port))
    wait_listener(s, port)
    words = ("rping", "-c", "-a", B, "-p", str(port))
    victim = two.at("a").start(*words, "-v")
    victim.wait_output("ping data")
    victim.signal(signal.SIGKILL)
    victim.wait(lab.HANGS)
    c = two.at("a").start(*words, "-C", "5")
    assert wait_end(c, "rping", lab.HANGS) == 0, c.describe()
    assert s.running()


def test_on_the_wire(two):
    """tshark knows the messages."""
    file = two.dir / "cm.erf"
    need("tshark")
    capture = two.ns.start(two.ns.stage.urnic, "fabric", "pcap", file, "a", "1")
    capture.wait_output("it captures")
    connect(two, lab.next_port())
    capture.signal(signal.SIGINT)
    assert capture.wait(lab.HANGS) == 0, capture.describe()
    assert tshark(file, "-Y", "_ws.malformed") == ""
    said = tshark(file, "-Y", "infiniband.mad")
    order = [re.search(rf"\b{word}\b", said) for word in
             ("ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest",
              "DisconnectReply")]
    assert all(order) and order == sorted(order, key=lambda m: m.start()), said
