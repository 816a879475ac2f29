# SPDX-License-Identifier: BSD-2-Clause
"""rdma_cm at a fabric's adapters: addresses come from the fabric's directory, paths from OpenSM,
and messages go from QP1 to QP1 by LIDs.  See docs/dev/fabric.md."""

import re
import signal

import lab
import pytest
from test_cm import ROWS, ours, run_pair, wait_end, wait_listener  # noqa: F401
from subnet import Fabric, TWO, leaves, tshark
from test_libfabric import TESTS
from tool import need

A, B = "127.1.0.1", "127.1.0.2"


@pytest.fixture
def fabric(netns):
    need("opensm")

    def start(text=TWO, *args):
        return Fabric(netns, text, "--fabric", "default", *args)
    return start


def connect(f, port, *, server="b", client="a", ip=B, **kw):
    words = ("rping", "-C", "3", "-p", str(port))
    return run_pair(f.at(server), f.at(client), (*words, "-s"), (*words, "-c", "-V", "-a", ip),
                    port, space=None, **kw)


# rows of libfabric have tests of their own below
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


def test_static_rate(fabric, netns):
    """A path's rate is that of the slowest of its links, and QPs do not send faster."""
    settings = netns.stage.tmp / "settings"
    settings.write_text("[b]\nrate = 1xSDR\n")
    f = fabric(TWO, "-s", str(settings))
    f.opensm("a")
    port = lab.next_port()
    words = ["ib_write_bw", "-R", "-n", "2000", "-p", str(port)]
    _, c = run_pair(f.at("b"), f.at("a"), words, [*words, B], port, space=None,
                    timeout=lab.HANGS)
    bw = float(re.search(r"^ *65536 +2000 +\S+ +(\S+)", c.out, re.M)[1])
    assert bw < 1.02 * 2500 / 8 * 1e6 / 2 ** 20, c.describe()


def test_servers_of_one_port(fabric):
    """Each adapter is a host of its own: two servers listen at all addresses and the same port."""
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


def test_a_source_port_is_reserved(two, ours):
    two.at("b").run(ours, "source-port", B, str(lab.next_port()))


def test_in_turn(two, ours):
    """A connection stands before the next is asked for, and the server is told in that order."""
    port = lab.next_port()
    run_pair(two.at("b"), two.at("a"), (ours, "in-turn-serve", B, str(port), "300"),
             (ours, "in-turn", B, str(port), "300"), port, space=None, timeout=lab.HANGS)


def test_one_port_is_one_programs(two):
    port = str(lab.next_port())
    first = two.at("b").start("rping", "-s", "-p", port)
    wait_listener(first, port)
    second = two.at("b").start("rping", "-s", "-p", port)
    assert second.wait(lab.HANGS) not in (0, None) and "Address already in use" in second.out, second.describe()
    first.signal(signal.SIGKILL)
    first.wait(lab.HANGS)
    connect(two, port)  # the port is free at once after the kill


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
reads, writes = os.pipe()
if os.fork() == 0:
    print("child")
    os.close(writes)
    time.sleep(10)
os.close(writes)
os.read(reads, 1)   # until the child has printed
os._exit(0)
"""


def test_ports_with_signals_and_a_child(two):
    """Signals of a timer disturb no call, each of many ids gets a port, and a child that outlives
    its parent holds none of the parent's ports."""
    port = lab.next_port()
    proc = two.at("b").start("/usr/bin/python3", "-c", FORKS, str(port))
    assert proc.wait(lab.HANGS) == 0 and "child" in proc.out, proc.describe()
    connect(two, port)


def test_two_servers_at_one_adapter(two):
    """The fabric keeps the messages for two servers at one adapter apart."""
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
    """At an adapter without programs, the fabric answers as a kernel would."""
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
    """An IPv6 address that is a port's GID names that port."""
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


@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("killed", ["client", "server"])
def test_connections_end_with_their_process(two, killed, at):
    """When a process is killed, its peer is told at once, sooner than by a send that fails;
    another process at the adapter goes on."""
    port = lab.next_port()
    s = two.at("b").start("rping", "-s", "-p", str(port))
    wait_listener(s, port)
    other = two.at("b").start("rping", "-s", "-p", (others := str(lab.next_port())))
    wait_listener(other, others)
    c = two.at(at).start("rping", "-c", "-v", "-a", B, "-p", str(port))
    c.wait_output("ping data")
    victim, peer = (c, s) if killed == "client" else (s, c)
    victim.signal(signal.SIGKILL)
    peer.wait_output(f"{'server' if peer is s else 'client'} DISCONNECT EVENT", 5)
    d = two.at(at).start("rping", "-c", "-C", "5", "-a", B, "-p", others)
    assert wait_end(d, "rping", lab.HANGS) == 0, d.describe()


STOPS = """
import ctypes, os, signal, sys, time
sys.stdout.reconfigure(line_buffering=True)
cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def address(ip, port):
    return (2).to_bytes(2, "little") + port.to_bytes(2, "big") + bytes(map(int, ip.split("."))) + bytes(8)
def new():
    cid = ctypes.c_void_p()
    cm.rdma_create_id.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
    assert cm.rdma_create_id(None, ctypes.byref(cid), None, 0x106) == 0
    return cid
cm.rdma_resolve_addr.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
cm.rdma_bind_addr.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
def both():
    for name, call in (("resolve", lambda i: cm.rdma_resolve_addr(i, None, address(sys.argv[1], 9000), 30000)),
                       ("bind", lambda i: cm.rdma_bind_addr(i, address("0.0.0.0", 0)))):
        began = time.monotonic()
        rc = call(new())
        print(name, os.strerror(ctypes.get_errno()) if rc else "fine", "soon" if time.monotonic() - began < 3 else "late")
both()
print("ready")
signal.sigwait([signal.SIGUSR1])
both()
"""


def test_a_stopped_fabric(two):
    """When the fabric's process is stopped, no call waits for it, and a line says why it failed."""
    c = two.at("a").start("/usr/bin/python3", "-c", STOPS, B)
    c.wait_output("ready")
    assert "resolve fine soon" in c.out and "bind fine soon" in c.out, c.describe()
    two.proc.signal(signal.SIGSTOP)
    c.signal(signal.SIGUSR1)
    assert c.wait(lab.HANGS) == 0, c.describe()
    two.proc.signal(signal.SIGCONT)
    assert "resolve Host is down soon" in c.out and "bind Host is down soon" in c.out, c.describe()
    assert "the fabric's process is stopped" in c.out


# Multicast

MCKEY = ("stdbuf", "-oL", "mckey")
MGIDS = {"239.77.1.1": "ff12:4001:ffff::f4d:101", "ff15::77": "ff12:6001:ffff::77"}


def receive(f, hca, group="239.77.1.1", *args):
    """Start a receiver, and return it when it has joined the group."""
    proc = f.at(hca).start(*MCKEY, "-m", group, *args)
    proc.wait_output("joined dgid")
    return proc


def members(f, mgid="ff12:4001:ffff::f4d:101"):
    """The SA's members of the group: the GID of each port with its JoinState."""
    out = f.run("n0", "saquery", "--smkey", "1", "-m")
    return re.findall(rf"MGID\.+{mgid}\n.*\n\s+PortGid\.+(\S+)", out)


def send(f, hca, group="239.77.1.1", *args):
    """Send from a port that is in the group already.  mckey waits only 3 s after its join, which
    is too short for a subnet manager that must change routes for a new port."""
    proc = f.at(hca).start("mckey", "-m", group, "-s", *args)
    assert proc.wait(lab.HANGS) == 0, proc.describe()
    return proc


@pytest.fixture
def four(fabric):
    """Four adapters at two switches, with OpenSM at adapter n0."""
    f = fabric(leaves(1, 2, 2))
    f.sm = f.opensm("n0")
    return f


@pytest.mark.parametrize("group", MGIDS)
def test_multicast(four, group):
    assert members(four, MGIDS[group]) == []
    receivers = [receive(four, n, group) for n in ("n0", "n1", "n2", "n3")]
    assert f"joined dgid: {MGIDS[group]} " in receivers[0].out, receivers[0].describe()
    assert len(members(four, MGIDS[group])) == 4
    send(four, "n0", group)
    for r in receivers:
        assert r.wait(lab.HANGS) == 0, r.describe()
    assert members(four, MGIDS[group]) == []


def test_multicast_of_ipoib(four):
    """IPoIB's groups (port space 2) have another signature in the MGID, and another Q_Key."""
    words = ("239.77.1.1", "-p", "0x2")
    receivers = [receive(four, n, *words) for n in ("n1", "n2")]
    assert "dgid: ff12:401b:ffff::f4d:101 " in receivers[0].out
    send(four, "n2", *words)
    for r in receivers:
        assert r.wait(lab.HANGS) == 0, r.describe()


def test_multicast_by_gid(four):
    """A group whose MGID the program chooses (AF_IB)."""
    group = ("-M", "ff15:1::4:7")
    receivers = [four.at(n).start(*MCKEY, *group, "-b", ip)
                 for n, ip in (("n1", "127.1.0.2"), ("n3", "127.1.0.4"))]
    for r in receivers:
        r.wait_output("joined dgid: ff15:1::4:7")
    sender = four.at("n3").start("mckey", *group, "-b", "127.1.0.4", "-s", "-o")
    assert sender.wait(lab.HANGS) == 0, sender.describe()
    for r in receivers:
        assert r.wait(lab.HANGS) == 0, r.describe()


def test_multicast_within_an_adapter(four):
    """An adapter's port stays in the group while any of its programs does, however the others
    end. A message from one program reaches the adapter's other programs."""
    receivers = [receive(four, "n1") for _ in range(3)]
    assert len(members(four)) == 1
    receivers[0].signal(signal.SIGKILL)
    receivers[0].wait(lab.HANGS)
    receivers[1].signal(signal.SIGTERM)
    receivers[1].wait(lab.HANGS)
    assert len(members(four)) == 1
    send(four, "n1")
    assert receivers[2].wait(lab.HANGS) == 0, receivers[2].describe()
    assert members(four) == []
    last = receive(four, "n2")
    assert len(members(four)) == 1
    last.signal(signal.SIGKILL)
    last.wait(lab.HANGS)
    assert lab.eventually(lambda: members(four) == [])


def test_multicast_and_another_subnet_manager(four):
    """A new subnet manager knows no members: it asks all ports to register again, and gets the
    group."""
    receivers = [receive(four, n) for n in ("n1", "n2")]
    four.sm.signal(signal.SIGKILL)
    four.sm.wait(lab.HANGS)
    four.opensm("n3")
    assert lab.eventually(lambda: len(members(four)) == 2)
    send(four, "n1")
    for r in receivers:
        assert r.wait(lab.HANGS) == 0, r.describe()


def mlid(f, mgid):
    out = f.run("n0", "saquery", "--smkey", "1", "-g")
    found = re.search(rf"MGID\.+{mgid}\n\s+Mlid\.+(\S+)", out)
    return found and found[1]


TWO_GROUPS = {"239.77.1.1": "ff12:4001:ffff::f4d:101", "239.77.1.2": "ff12:4001:ffff::f4d:102"}


@pytest.fixture
def moved(four):
    """Two groups, one of n1 and one of n2.  n1's program is stopped while another subnet manager
    starts, so that it hears of n2's group first."""
    four.receivers = [receive(four, n, ip) for n, ip in zip(("n1", "n2"), TWO_GROUPS)]
    four.lids = [mlid(four, mgid) for mgid in TWO_GROUPS.values()]
    assert four.lids[0] < four.lids[1]
    four.receivers[0].signal(signal.SIGSTOP)
    four.sm.signal(signal.SIGKILL)
    four.sm.wait(lab.HANGS)
    four.opensm("n3")
    assert lab.eventually(lambda: mlid(four, TWO_GROUPS["239.77.1.2"]))
    return four


def test_groups_keep_their_lids(moved):
    """The groups get their old LIDs again, so a message to one does not reach the other's
    members."""
    moved.receivers[0].signal(signal.SIGCONT)
    assert lab.eventually(lambda: mlid(moved, TWO_GROUPS["239.77.1.1"]))
    assert [mlid(moved, mgid) for mgid in TWO_GROUPS.values()] == moved.lids
    for n, ip, r in zip(("n1", "n2"), TWO_GROUPS, moved.receivers):
        send(moved, n, ip)
        assert r.wait(lab.HANGS) == 0, r.describe()


def test_a_group_without_its_lid(moved):
    """The first group's LID has gone to another group: the program is told that it must join
    again."""
    other = receive(moved, "n0", "239.77.1.3")
    assert mlid(moved, "ff12:4001:ffff::f4d:103") == moved.lids[0]
    moved.receivers[0].signal(signal.SIGCONT)
    moved.receivers[0].wait_output("the same LID again")
    assert mlid(moved, TWO_GROUPS["239.77.1.1"]) not in moved.lids
    send(moved, "n0", "239.77.1.3")
    assert other.wait(lab.HANGS) == 0, other.describe()


def test_joining_while_the_subnet_manager_is_replaced(four):
    """The port of one that has ended answers that it does not know what it is asked: the program
    goes on asking, until there is another."""
    four.sm.signal(signal.SIGKILL)
    four.sm.wait(lab.HANGS)
    receiver = four.at("n1").start(*MCKEY, "-m", "239.77.1.1")
    receiver.wait_output("joining")
    four.opensm("n3")
    receiver.wait_output("joined dgid")
    send(four, "n1")
    assert receiver.wait(lab.HANGS) == 0, receiver.describe()


def test_multicast_without_a_subnet_manager(fabric):
    r = fabric().at("a").start("mckey", "-m", "239.77.1.1")
    r.wait(lab.HANGS)
    assert "RDMA_CM_EVENT_MULTICAST_ERROR, error: -110" in r.out and "opensm" in r.out, r.describe()


# By GIDs alone (AF_IB)

def gid_of(f, hca):
    return re.search(r"GID\[ *0\]:\s+(\S+)", f.run(hca, "ibv_devinfo", "-v"))[1]


BY_GID = {
    "ucmatose": ("ucmatose -f gid -p {port}", "ucmatose -f gid -s {gid} -p {port}"),
    "ucmatose-ib": ("ucmatose -f gid -P ib -p {port}", "ucmatose -f gid -P ib -s {gid} -p {port}"),
    "ucmatose-bound": ("ucmatose -f gid -b {gid} -p {port}",
                       "ucmatose -f gid -b {own} -s {gid} -p {port}"),
    "udaddy": ("udaddy -f gid", "udaddy -f gid -s {gid}"),
    "rstream": ("rstream -f gid -p {port} -T v -S 4096 -C 100",
                "rstream -f gid -s {gid} -p {port} -T v -S 4096 -C 100"),
}


@pytest.mark.parametrize("name", BY_GID)
def test_by_gid_alone(two, name):
    port = 7174 if name == "udaddy" else lab.next_port()
    server, client = (words.format(gid=gid_of(two, "b"), own=gid_of(two, "a"), port=port).split()
                      for words in BY_GID[name])
    run_pair(two.at("b"), two.at("a"), server, client, port, space=None)


def test_nobody_listens_by_gid(two):
    c = two.at("a").start("ucmatose", "-f", "gid", "-s", gid_of(two, "b"), "-p", str(lab.next_port()))
    assert c.wait(lab.HANGS) != 0 and "RDMA_CM_EVENT_REJECTED, error: 8" in c.out, c.describe()


def test_libfabric(two):
    port = str(lab.next_port())
    words = ("fi_pingpong", "-p", "verbs", "-e", "msg")
    s = two.at("b").start(*words, "-B", port)
    s.wait_listening(int(port))
    c = two.at("a").start(*words, "-P", port, B)
    rc = c.wait(lab.HANGS)
    lab.both_ended_well(c, rc, s, s.wait(lab.HANGS if rc == 0 else 1))


def test_libfabric_rdm(netns):
    """fi_pingpong's server names no address, so libfabric takes the address of an interface for
    which rdma_cm has a device.  Here adapters have such addresses, as hardware has by IP over
    InfiniBand."""
    need("opensm")
    netns.sh("ip link add ib0 type veth peer name ib0p; ip link set ib0p up; ip link set ib0 up;"
             "ip address add 10.9.0.1/24 dev ib0; ip address add 10.9.0.2/24 dev ib0")
    settings = netns.stage.tmp / f"settings{lab.next_port()}"
    settings.write_text("[a]\naddress = 10.9.0.1\n[b]\naddress = 10.9.0.2\n")
    f = Fabric(netns, TWO, "--fabric", "default", "--settings", str(settings))
    f.opensm("a")
    port = str(lab.next_port())
    words = ("fi_pingpong", "-p", "verbs;ofi_rxm", "-e", "rdm")
    s = f.at("b").start(*words, "-B", port)
    s.wait_listening(int(port))
    c = f.at("a").start(*words, "-P", port, "10.9.0.2")
    rc = c.wait(lab.HANGS)
    lab.both_ended_well(c, rc, s, s.wait(lab.HANGS if rc == 0 else 1))


@pytest.mark.parametrize("test", [name for name in TESTS if name.startswith("rdm-")])
def test_rxm(two, test):
    """Adapters without an interface's address: the program names an address itself."""
    if not (lab.ROOT / "build/obj/tests/libfabric/fabric").exists():
        pytest.skip("not built: libfabric-dev was not installed; rm -r build, make tests")
    program, port = two.ns.stage.tool("libfabric/fabric"), str(lab.next_port())
    env = {"FI_PROVIDER": "verbs;ofi_rxm"}
    s = two.at("b", **env).start(program, test, "serve", B, port)
    s.wait_output("listening")
    c = two.at("a", **env).start(program, test, "ask", B, port)
    rc = c.wait(lab.HANGS)
    lab.both_ended_well(c, rc, s, s.wait(lab.HANGS if rc == 0 else 1))


def test_on_the_wire(two):
    """tshark recognises the messages of a connection in a capture."""
    file = two.dir / "cm.erf"
    need("tshark")
    capture = two.ns.start(two.ns.stage.urnic, "fabric", "pcap", file, "a", "1")
    capture.wait_output("the capture has begun")
    # Both ends wait for the DREP; rping's client does not, and nobody answers a program that
    # has ended.
    port = lab.next_port()
    words = ("ucmatose", "-c", "1", "-p", str(port))
    run_pair(two.at("b"), two.at("a"), words, (*words, "-s", B), port, space=None)
    capture.signal(signal.SIGINT)
    assert capture.wait(lab.HANGS) == 0, capture.describe()
    assert tshark(file, "-Y", "_ws.malformed") == ""
    said = tshark(file, "-Y", "infiniband.mad")
    order = [re.search(rf"\b{word}\b", said) for word in
             ("ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest",
              "DisconnectReply")]
    assert all(order) and order == sorted(order, key=lambda m: m.start()), said
