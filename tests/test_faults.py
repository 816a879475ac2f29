# SPDX-License-Identifier: BSD-2-Clause
"""Faults outside the protocol: processes that die or fork, descriptors, memory, users, limits,
and interfaces.

The programs are those of tests/faults.  Each checks its events and completions, and that it is
unprivileged; it prints "all right" or ends with an exit status that says what is wrong.
"""

import itertools
import os
import re
import shutil
import signal
import time

import pytest

import lab
from lab import eventually

OBJ = lab.ROOT / "build/obj/tests"
RIGHT = "all right"
DIED = "transport retry counter exceeded"
LONG = 60       # seconds; on the slowest machine, no step takes longer

needs_second_user = pytest.mark.skipif(
    lab.IN_USERNS, reason="a user namespace has one user")


@pytest.fixture(scope="module")
def tools(stage):
    """{name: path} of copies of the built programs, which every user may run."""
    made = {}
    for name in ("faults", "stress"):
        made[name] = str(shutil.copy(OBJ / name / name, stage.path))
    return made


@pytest.fixture
def faults(tools):
    return tools["faults"]


class Two:
    """A server and a client that exchange messages."""

    def __init__(self, server_ns, client_ns, words, to=None, users=("nobody",) * 2,
                 extra=((), ()), server_env=None):
        port = lab.next_port()
        words = [*words, "-p", port]
        self.server = server_ns.start(*words, *extra[0], user=users[0],
                                      env=server_env)
        self.client = client_ns.start(*words, *extra[1], to or server_ns.ip4,
                                      user=users[1])

    def wait_joined(self):
        self.server.wait_output("joined", LONG)
        self.client.wait_output("joined", LONG)
        return self

    def wait_working(self):
        """Of workers: wait until each has had a request executed by the other."""
        self.server.wait_output("works", LONG)
        self.client.wait_output("works", LONG)
        return self

    def finish(self):
        """Of workers: let both do a few more rounds and end, and assert that they end well."""
        self.wait_joined()
        for proc in (self.server, self.client):
            proc.signal(signal.SIGTERM)
        self.expect_right()

    def expect_right(self):
        for proc in (self.server, self.client):
            assert proc.wait(LONG) == 0, (self.server.describe(),
                                          self.client.describe())

    def qpn(self):
        return re.search(r"qpn (0x[0-9a-f]+)", self.server.out)[1]


def worker(faults, *more):
    return [faults, "worker", *more]


def run(ns, *argv, **kw):
    return ns.run(*argv, timeout=LONG, **kw)


def stress(tools, seconds, seed=1):
    return [tools["stress"], "-t", str(seconds), "-q", "2", "-m", "65536",
            "-M", "8192", "-s", str(seed)]


def elapsed(proc):
    return float(re.search(r"after ([\d.]+) s", proc.out)[1])


def packets_out(ns, dev="eth0"):
    return int(ns.sh(f"cat /sys/class/net/{dev}/statistics/tx_packets"))


def urnic_names(ns):
    """The socket names and the UDP port that urnic's processes hold in the namespace."""
    return ns.sh("ss -xlnH | grep -o 'urnic/[0-9]*' || true; "
                 "ss -ulnH 'sport = 4791'").split("\n")[:-1]


# --- deaths ------------------------------------------------------------------

@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_kill_one_of_several(shared_pair, tools, faults, place):
    server, client = shared_pair().place(place)
    # the retries take at least 4 * 67 ms, and at most four times that
    victim = Two(server, client, worker(faults, "-T", "14", "-r", "3"))
    others = [Two(server, client, worker(faults)),
              Two(server, client, worker(faults, "-e"))]
    verified = Two(server, client, stress(tools, 1))
    for two in (victim, *others):
        two.wait_working()
    victim.server.signal(signal.SIGKILL)
    Two(server, client, worker(faults)).finish()
    assert victim.client.wait(LONG) == 2, victim.client.describe()
    assert DIED in victim.client.out, victim.client.describe()
    least = 0.2 if place in ("pair", "udp") else 0     # on one host the death is known at once
    assert least <= elapsed(victim.client) < 10, victim.client.describe()
    for two in others:
        two.finish()
    verified.expect_right()


# Make a new process get the slot and the QP number of a dead one.  The dead one's peer goes on to
# send to that QP, from the same address as the new peer or from another.
SQUAT = """
import socket, sys, time
skip, first, last = map(int, sys.argv[1:])
held = []
for slot in range(first, last):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        s.bind(b"\\0urnic/%d" % slot if slot != skip else b"")
        held.append(s)
    except OSError:
        pass
print("squatting", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("address", ["same", "other"])
def test_reborn_with_the_same_qp_number(netns_pair, stage, faults, address):
    pair = netns_pair()
    capture = stage.tmp / "reborn.pcapng"
    pair.a.sh("ip addr add 10.88.0.11/24 dev eth0")
    # its client retries for at least 9 s, in which the new pair has to connect
    old = Two(pair.b, pair.a, worker(faults, "-T", "18"))
    old.wait_working()
    qpn = old.qpn()
    slot = int(qpn, 0) >> 14
    squatters = [pair.b.start("/usr/bin/python3", "-c", SQUAT, slot, *part)
                 for part in ((1, 512), (512, 1023))]
    for s in squatters:
        s.wait_output("squatting", LONG)
    old.server.signal(signal.SIGKILL)
    old.server.wait(LONG)
    gid = ["-g", "2"] if address == "other" else []  # GID 2 is the second IPv4 address
    new = Two(pair.b, pair.a, worker(faults, "-z", "5"),
              extra=(["-q", qpn], gid), server_env={"URNIC_PCAP": str(capture)})
    new.wait_joined()
    assert new.qpn() == qpn
    assert old.client.running(), old.client.describe()
    assert old.client.wait(LONG) == 2 and DIED in old.client.out, \
        old.client.describe()
    new.finish()
    if gid:     # the old peer's packets, from 10.88.0.1 to 10.88.0.2, have arrived
        assert bytes((10, 88, 0, 1, 10, 88, 0, 2)) in capture.read_bytes()
    capture.unlink()


# --- forks -------------------------------------------------------------------

@pytest.mark.parametrize("how", [[], ["-e"]], ids=["polling", "sleeping"])
@pytest.mark.parametrize("mode", ["children", "deep", "exec"])
@pytest.mark.parametrize("way", ["auto", "map"])
def test_fork(shared_pair, faults, way, mode, how):
    ns = shared_pair().a.with_env(URNIC_LOCAL=way)
    assert RIGHT in run(ns, faults, "fork", "-m", mode, *how).out


def test_fork_storm(shared_pair, faults):
    assert RIGHT in run(shared_pair().a, faults, "storm", "-t", "2").out


def test_fork_orphan(netns_pair, faults):
    ns = netns_pair().a
    parent = ns.start(faults, "fork", "-m", "orphan")
    assert eventually(lambda: "orphan" in parent.out), parent.describe()
    orphan = int(re.search(r"^orphan (\d+)$", parent.out, re.M)[1])
    try:
        assert parent.wait(LONG) == 0, parent.describe()
        assert urnic_names(ns) == []
        Two(ns, ns, worker(faults)).finish()
        os.kill(orphan, signal.SIGUSR1)
        assert eventually(lambda: "orphan all right" in parent.out), \
            parent.describe()
        assert eventually(lambda: not os.path.exists(f"/proc/{orphan}"))
        assert urnic_names(ns) == []
    finally:
        if os.path.exists(f"/proc/{orphan}"):
            os.kill(orphan, signal.SIGKILL)


# --- descriptors -------------------------------------------------------------

@pytest.mark.parametrize("capture", [False, True], ids=["plain", "captured"])
@pytest.mark.parametrize("mode", ["idle", "poll", "work", "unseen", "keep"])
def test_program_closes_all_descriptors(shared_pair, stage, faults, mode, capture):
    env = {"URNIC_PCAP": f"{stage.tmp}/closed.%p.pcapng"} if capture else {}
    proc = run(shared_pair().a, faults, "close", "-m", mode, env=env)
    assert RIGHT in proc.out, proc.describe()
    assert proc.out.count("descriptors that it does not own") == 1, proc.describe()


@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_few_descriptors(shared_pair, faults, place):
    server, client = shared_pair().place(place)
    words = ["/usr/bin/prlimit", "--nofile=64:64", "--", *worker(faults)]
    for two in [Two(server, client, words) for _ in range(3)]:
        two.finish()


def test_no_descriptors(shared_pair, faults):
    """With too few descriptors to open a device, a program gets an error; it neither crashes nor
    hangs."""
    ns = shared_pair().a
    opened = []
    for limit in range(4, 34, 2):
        proc = run(ns, "/usr/bin/prlimit", f"--nofile={limit}:{limit}", "--",
                   "ibv_devinfo", "-d", ns.dev, check=False)
        assert proc.popen.returncode in (0, 1, 127, 255), proc.describe()
        opened.append(proc.popen.returncode == 0)
    assert opened == sorted(opened), "fails with more descriptors than are needed"
    assert opened[-1] and not opened[0], opened


# --- memory ------------------------------------------------------------------

HANDLERS = ["none-before"] + ["-".join(h) for h in itertools.product(
    ("plain", "siginfo", "altstack"), ("before", "after"))]


@pytest.mark.parametrize("what", ["local", "remote", "bus"])
@pytest.mark.parametrize("handler", HANDLERS)
def test_registered_memory_goes_away(shared_pair, faults, handler, what):
    proc = run(shared_pair().a, faults, "memory", "-m", f"{handler}-{what}",
               env={"URNIC_LOG": "info"})
    assert RIGHT in proc.out, proc.describe()
    assert "mapped" in proc.out, proc.describe()


@pytest.mark.parametrize("what", ["own", "fix"])
@pytest.mark.parametrize("handler", HANDLERS[1:])
def test_own_fault_reaches_its_handler(shared_pair, faults, handler, what):
    out = run(shared_pair().a, faults, "memory", "-m", f"{handler}-{what}").out
    assert RIGHT in out


@pytest.mark.parametrize("when", ["before", "after"])
def test_stack_overflow_reaches_its_handler(shared_pair, faults, when):
    mode = f"altstack-{when}-overflow"
    assert RIGHT in run(shared_pair().a, faults, "memory", "-m", mode).out


def test_own_fault_kills(shared_pair, faults):
    proc = run(shared_pair().a, faults, "memory", "-m", "none-before-own",
               check=False)
    assert proc.popen.returncode == -signal.SIGSEGV, proc.describe()


# --- users and the port ------------------------------------------------------

def port_users(ns, table="udp"):
    """The user ids that hold port 4791."""
    rows = [line.split() for line in
            ns.sh(f"cat /proc/net/{table}").splitlines()[1:]]
    return {int(r[7]) for r in rows if r[1].endswith(":12B7")}


def uid(ns, user):
    return int(ns.sh(f"id -u {user}"))


@needs_second_user
def test_two_users(netns_pair, tools, faults):
    """The first user's process forwards the second user's datagrams."""
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = [
        Two(pair.b, pair.a, worker(faults), users=(lab.SECOND_USER, "nobody")),
        Two(pair.b, pair.a, worker(faults), users=(lab.SECOND_USER,) * 2),
        Two(pair.a, pair.b, worker(faults, "-g", "2"), to=pair.a.ip6,
            users=(lab.SECOND_USER, "nobody")),
        Two(pair.b, pair.b, worker(faults), users=(lab.SECOND_USER, "nobody")),
    ]
    verified = Two(pair.b, pair.a, stress(tools, 0.5),
                   users=("nobody", lab.SECOND_USER))
    second[0].wait_joined()
    assert port_users(pair.b) == {uid(pair.b, "nobody")}
    for two in second:
        two.finish()
    verified.expect_right()
    first.finish()


@needs_second_user
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_second_user_takes_the_port_over(netns_pair, faults, end):
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = Two(pair.b, pair.a, worker(faults), users=(lab.SECOND_USER,) * 2)
    second.wait_joined()
    assert port_users(pair.b) == {uid(pair.b, "nobody")}
    if end == "kill":
        first.server.signal(signal.SIGKILL)
    else:
        first.finish()
    assert eventually(lambda: port_users(pair.b) == {uid(pair.b, lab.SECOND_USER)}), \
        second.server.describe()
    # now the first user is the second one to come
    third = Two(pair.b, pair.a, worker(faults)).wait_joined()
    assert port_users(pair.b) == {uid(pair.b, lab.SECOND_USER)}
    third.finish()
    second.finish()


def said_of_port(proc, level):
    return [x for x in proc.out.splitlines() if f"{level}: UDP port 4791" in x]


@needs_second_user
@pytest.mark.parametrize("user,share,warned", [
    (lab.SECOND_USER, "auto", 1), (lab.SECOND_USER, "host", 0), ("root", "host", 0)])
def test_second_user_is_warned(netns_pair, faults, user, share, warned):
    """The user who holds the port can read and change what it forwards, so the second user is
    warned."""
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = Two(pair.b, pair.a, worker(faults), users=(user, "nobody"),
                 server_env={"URNIC_SHARE": share})
    second.finish()
    lines = said_of_port(second.server, "warn")
    assert len(lines) == warned, second.server.describe()
    for line in lines:
        assert f"user {uid(pair.b, 'nobody')}, process {first.server.pid}:" in line
        assert "can read and change" in line and "URNIC_SHARE" in line
    assert not said_of_port(first.server, "warn")
    first.finish()


@needs_second_user
@pytest.mark.parametrize("user,share", [(lab.SECOND_USER, "user"), ("root", "auto")])
def test_second_user_refuses(netns_pair, faults, user, share):
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = Two(pair.b, pair.a, worker(faults), users=(user, "nobody"),
                 server_env={"URNIC_SHARE": share})
    assert second.server.wait(LONG) == 4, second.server.describe()
    assert "RTR: Address already in use" in second.server.out
    lines = said_of_port(second.server, "error")
    assert len(lines) == 1, second.server.describe()
    assert f"user {uid(pair.b, 'nobody')}, process {first.server.pid}" in lines[0]
    assert "URNIC_SHARE=host" in lines[0]
    second.client.kill()
    first.finish()


SQUAT_ALL = """
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192),) * 2)
claims, kept = int(sys.argv[1]), []
names = [f"urnic/{i}" for i in range(1, 1023)]
names += [f"urnic/{i}/{k:016x}" for i in range(769, 1023) for k in range(claims)]
for name in names:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(b"\\0" + name.encode())
    s.listen(1)
    kept.append(s)
print("squatting", flush=True)
time.sleep(600)
"""


@needs_second_user
@pytest.mark.parametrize("claims", [0, 2])
def test_all_slots_are_squatted(netns_pair, faults, claims):
    """A user holds the names of all slots and accepts no connection: other users get slots
    nevertheless, and reach each other."""
    pair = netns_pair()
    squatter = pair.b.start("/usr/bin/python3", "-c", SQUAT_ALL, str(claims),
                            user=lab.SECOND_USER)
    squatter.wait_output("squatting", LONG)
    working = [
        Two(pair.b, pair.a, worker(faults)),
        Two(pair.b, pair.b, worker(faults)),
        Two(pair.b, pair.b, worker(faults), users=("root", "root")),
        Two(pair.b, pair.b, worker(faults), users=("root", "nobody"),
            server_env={"URNIC_SHARE": "host"}),
    ]
    for two in working:
        two.wait_joined()
    for two in working:
        two.finish()
    squatter.kill()


HOLD = """
import socket, sys, time
s = socket.socket(int(sys.argv[1]), socket.SOCK_DGRAM)
s.bind(("", 4791))
print("holding", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("user", [
    "nobody", None, pytest.param(lab.SECOND_USER, marks=needs_second_user)])
@pytest.mark.parametrize("family,gid", [(2, "1"), (10, "2")], ids=["v4", "v6"])
def test_port_held_by_another(netns_pair, faults, user, family, gid):
    ns, _ = netns_pair().place("udp")
    holder = ns.start("/usr/bin/python3", "-c", HOLD, family, user=user)
    holder.wait_output("holding", LONG)
    proc = run(ns, faults, "fork", "-g", gid, "-m", "children", check=False)
    assert proc.popen.returncode == 4, proc.describe()
    assert "RTR: Address already in use" in proc.out, proc.describe()
    line = [x for x in proc.out.splitlines() if "error: UDP port 4791" in x]
    assert len(line) == 1, proc.describe()
    if user == "nobody":
        assert f"process {holder.pid} (python3)" in line[0], line
    else:
        assert f"user {uid(ns, user or 'root') if not lab.IN_USERNS else 0}" \
            in line[0], line
    holder.kill()
    assert RIGHT in run(ns, faults, "fork", "-g", gid, "-m", "children").out


# --- the program need not poll -----------------------------------------------

@pytest.mark.parametrize("place", lab.Pair.PLACES)
@pytest.mark.parametrize("mode", ["sleep", "spin", "compute"])
def test_target_calls_no_verbs(shared_pair, faults, mode, place):
    server, client = shared_pair().place(place)
    Two(server, client, [faults, "target", "-m", mode]).expect_right()


# --- limits ------------------------------------------------------------------

def test_unprivileged(shared_pair, faults):
    """Look from outside for what tests/faults/rig.c asserts in every program here."""
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_joined()
    for proc in (two.server, two.client):
        with open(f"/proc/{proc.pid}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f)
        with open(f"/proc/{proc.pid}/limits") as f:
            locked = re.search(r"Max locked memory +(\d+) +(\d+)", f.read())
        assert locked.groups() == ("65536", "65536")
        for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[caps], 16) == 0, caps
        assert status["NoNewPrivs"] == "1"
        if not lab.IN_USERNS:
            assert int(status["Uid"].split()[0]) == uid(pair.a, "nobody")
    two.finish()


@pytest.mark.parametrize("way", lab.Pair.WAYS)
def test_many_processes(netns_pair, faults, way):
    """64 processes on one host, in pairs that talk to each other."""
    ns, _ = netns_pair().place(way)
    twos = [Two(ns, ns, worker(faults, "-e", "-T", "18")) for _ in range(32)]
    for two in twos:
        two.wait_joined()
    for two in twos:
        two.finish()
    assert urnic_names(ns) == []


# --- interfaces --------------------------------------------------------------

class Watch:
    """`faults watch`, which prints a line for each event: its lines, and a way to wait for one."""

    def __init__(self, ns, faults, *options, dev=None):
        self.proc = ns.start(faults, "watch", "-d", dev or ns.dev, *options)
        self.wait("start")

    def lines(self):
        return self.proc.out.splitlines()

    def wait(self, *words):
        """Wait until the last line has all these words, and return it."""
        if not eventually(lambda: self.lines() and
                          all(w in self.lines()[-1] for w in words)):
            raise AssertionError(f"no {words} in: {self.proc.describe()}")
        return self.lines()[-1]


def test_gid_table_follows(netns_pair, faults):
    ns = netns_pair().a
    watch = Watch(ns, faults)
    assert f"1=::ffff:{ns.ip4} 2={ns.ip6}" in watch.lines()[0]
    ns.sh("ip addr add 10.88.0.77/24 dev eth0")
    watch.wait("GID", "3=::ffff:10.88.0.77")
    ns.sh("ip addr add fd88::77/64 dev eth0 nodad")
    watch.wait("GID", "4=fd88::77")
    ns.sh("ip addr del 10.88.0.77/24 dev eth0")
    last = watch.wait("GID", "4=fd88::77", f"1=::ffff:{ns.ip4}", f"2={ns.ip6}")
    assert eventually(lambda: "10.88.0.77" not in watch.lines()[-1]), last
    # the next address takes the place that is free in the table
    ns.sh("ip addr add 10.88.0.78/24 dev eth0")
    watch.wait("GID", "3=::ffff:10.88.0.78", "4=fd88::77")


def test_who_lists_devices_misses_no_event(netns_pair, faults):
    """When a program lists devices often, the listing itself usually finds a change first; the
    event must come nevertheless."""
    ns = netns_pair().a
    watch = Watch(ns, faults, "-m", "list")
    for i in range(3, 13):
        ns.sh(f"ip addr add 10.88.2.{i}/32 dev eth0")
        watch.wait("GID", f"{i}=::ffff:10.88.2.{i}")


def test_port_follows(netns_pair, faults):
    ns = netns_pair().a
    watch = Watch(ns, faults)
    assert ": active mtu 5 3" in watch.lines()[0]
    ns.sh("ip link set eth0 down")
    assert eventually(lambda: any("port error" in x for x in watch.lines()))
    assert eventually(lambda: ": down " in watch.lines()[-1]), watch.lines()
    ns.sh("ip link set eth0 up")
    assert eventually(lambda: any("port active" in x for x in watch.lines()))
    assert eventually(lambda: ": active " in watch.lines()[-1]), watch.lines()


def test_mtu_follows(netns_pair, faults):
    pair = netns_pair()
    watch = Watch(pair.a, faults)
    for mtu, active in ((9000, 5), (600, 2), (1500, 3)):
        for ns in (pair.a, pair.b):
            ns.sh(f"ip link set eth0 mtu {mtu}")
        pair.a.sh(f"ip addr add 10.88.1.{mtu % 251}/32 dev eth0")
        watch.wait(f"mtu 5 {active}", f"10.88.1.{mtu % 251}")


class Renamed:
    """`faults renamed`, which prints whether new QPs can be connected and datagrams arrive."""

    def __init__(self, ns, faults, dev, env=None):
        self.proc = ns.start(faults, "renamed", "-d", dev,
                             env={"URNIC_LOG": "info", **(env or {})})
        self.wait("works")

    def wait(self, word, after=0):
        said = ("works", "fails")
        if not eventually(lambda: [x for x in self.proc.out[after:].splitlines()
                                   if x in said][-1:] == [word]):
            raise AssertionError(f"no {word!r} in: {self.proc.describe()}")


def make_link(ns, name, ip):
    ns.sh(f"ip link add {name} type veth peer name to-{ip}; "
          f"ip addr add {ip}/24 dev {name}; ip link set to-{ip} up; "
          f"ip link set {name} up")


RENAME = "ip link set {0} down; ip link set {0} name {1}; ip link set {1} up"


@pytest.mark.parametrize("way", ["auto", "off"])
def test_a_renamed_interface_keeps_its_device(netns_pair, faults, way):
    """A process keeps a renamed interface's device under its old name; UD and new QPs work on."""
    ns = netns_pair().a
    watch = Watch(ns, faults)
    works = Renamed(ns, faults, ns.dev, {"URNIC_LOCAL": way})
    for old, new in (("eth0", "lan0"), ("lan0", "lan1"), ("lan1", "eth0")):
        ns.sh(RENAME.format(old, new))
        works.proc.wait_output(f"interface {old} is called {new} now; "
                               "device roce_eth0 stays its device")
        watch.wait(": active ", f"1=::ffff:{ns.ip4}")
        works.wait("works")
        assert new in ns.sh(f"{ns.stage.urnic} devices")


def test_two_interfaces_swap_their_names(netns, faults):
    """A third interface that gets the name of a renamed one is a device of its own."""
    for i in range(2):
        make_link(netns, f"d{i}", f"10.88.{i}.1")
    works = [Renamed(netns, faults, f"roce_d{i}") for i in range(2)]
    watch = Watch(netns, faults, dev="roce_d0")
    netns.sh("ip link set d0 down; ip link set d1 down; ip link set d0 name d2; "
             "ip link set d1 name d0; ip link set d2 name d1; "
             "ip link set d0 up; ip link set d1 up")
    watch.wait(": active ", "1=::ffff:10.88.0.1")
    for w in works:
        w.wait("works")
    netns.sh(RENAME.format("d1", "d7"))
    make_link(netns, "d1", "10.88.7.1")
    watch.wait(": active ", "1=::ffff:10.88.0.1")
    for w in works:
        w.wait("works")
        w.proc.kill()


def test_an_interface_that_is_made_anew_gets_its_device_back(netns, faults):
    """An interface that is made anew, as for a container, has its old name and another index."""
    make_link(netns, "d0", "10.88.0.1")
    watch = Watch(netns, faults, dev="roce_d0")
    works = Renamed(netns, faults, "roce_d0")
    for _ in range(3):
        said = len(works.proc.out)
        netns.sh("ip link del d0")
        watch.wait(": down ")
        works.wait("fails", said)
        make_link(netns, "d0", "10.88.0.1")
        watch.wait(": active ", "1=::ffff:10.88.0.1")
        works.wait("works")
    assert "interface d0 was made anew; device roce_d0 is its device" in works.proc.out


def test_traffic_outlives_a_short_outage(netns_pair, faults):
    pair = netns_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_joined()
    pair.a.sh("ip link set eth0 down; sleep 0.1; ip link set eth0 up")
    two.finish()


def test_traffic_and_a_new_mtu(netns_pair, faults):
    """With a larger or a smaller MTU, traffic goes on as far as it fits the path."""
    pair = netns_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_joined()
    for mtu in (9000, 1280, 1500):
        for ns in (pair.a, pair.b):
            ns.sh(f"ip link set eth0 mtu {mtu}")
        before = packets_out(pair.a)
        assert eventually(lambda: packets_out(pair.a) > before + 100), two.client.describe()
    two.finish()
