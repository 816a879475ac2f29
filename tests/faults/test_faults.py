# SPDX-License-Identifier: BSD-2-Clause
"""What happens to processes outside the protocol: they die, fork, lose descriptors or memory,
never call verbs, or are many.

The programs are those of tests/faults.  Each checks its events and completions, and that it is
unprivileged; it prints "all right" or ends with an exit status that says what is wrong.
"""

import itertools
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile

import pytest

import lab
from lab import HANGS, eventually, uid, urnic_names
from tool import need
from workers import RIGHT, Two, stress, worker

DIED = "transport retry counter exceeded"


def elapsed(proc):
    return float(re.search(r"after ([\d.]+) s", proc.out)[1])


# --- deaths ------------------------------------------------------------------

@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_kill_one_of_several(shared_pair, stage, faults, place):
    server, client = shared_pair().place(place)
    # the retries take at least 4 * 67 ms, and at most four times that
    victim = Two(server, client, worker(faults, "-T", "14", "-r", "3"))
    others = [Two(server, client, worker(faults)),
              Two(server, client, worker(faults, "-e"))]
    verified = Two(server, client, stress(stage, 1))
    for two in (victim, *others):
        two.wait_working()
    victim.server.signal(signal.SIGKILL)
    Two(server, client, worker(faults)).finish()
    assert victim.client.wait(HANGS) == 2, victim.client.describe()
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
        s.wait_output("squatting")
    old.server.signal(signal.SIGKILL)
    old.server.wait(HANGS)
    gid = ["-g", "2"] if address == "other" else []  # GID 2 is the second IPv4 address
    new = Two(pair.b, pair.a, worker(faults, "-z", "5"),
              extra=(["-q", qpn], gid), server_env={"URNIC_PCAP": str(capture)})
    new.wait_joined()
    assert new.qpn() == qpn
    assert old.client.running(), old.client.describe()
    assert old.client.wait(HANGS) == 2 and DIED in old.client.out, old.client.describe()
    new.finish()
    if gid:     # the old peer's packets, from 10.88.0.1 to 10.88.0.2, have arrived
        assert bytes((10, 88, 0, 1, 10, 88, 0, 2)) in capture.read_bytes()
    capture.unlink()


# --- debuggers, and what they are given ---------------------------------------

LOOKED_AT = [*lab.Pair.WAYS, "map", "pair"]

# The worker's variable, to gdb: a function of urnic in which the thread stands may have a `w` too
W = "'worker.c'::w"


@pytest.mark.parametrize("place", LOOKED_AT)
def test_a_debugger_attaches_for_a_moment(shared_pair, faults, place):
    """Each end is stopped in mid-traffic, its threads are looked at, and it goes on."""
    need("gdb")
    server, client = shared_pair().place(place)
    two = Two(server, client, worker(faults, "-T", "19")).wait_working()
    for proc in (two.server, two.client, two.server):
        gdb = proc.place.run("gdb", "-q", "-batch", "-nx", "-p", str(proc.pid), "-ex",
                             "thread apply all backtrace", "-ex", f"print {W}.rounds", "-ex",
                             "detach", user=None, library=False, env={"HOME": "/tmp"})
        assert re.search(r"^\$1 = [1-9]", gdb.out, re.M), gdb.describe()
        assert "one_round" in gdb.out or "rig_wait" in gdb.out or "worker" in gdb.out, \
            gdb.describe()
    two.finish()


# A shell's words: leave cores in a folder
LEAVES_CORES = 'cd "$0" && ulimit -c "$(ulimit -Hc)" && exec "$@"'


def core_of(proc, folder):
    """Abort the program; return its core.  gdb writes it before where the kernel writes it to
    another place, or may write none."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    kernel = pattern[:1] not in ("", "|", "/") and resource.getrlimit(resource.RLIMIT_CORE)[1] != 0
    if not kernel:
        subprocess.run(["gdb", "-q", "-batch", "-nx", "-p", str(proc.pid), "-ex",
                        f"generate-core-file {folder / 'core'}", "-ex", "detach"], check=True)
    proc.signal(signal.SIGABRT)
    assert proc.wait(HANGS) == -signal.SIGABRT, proc.describe()
    file, = folder.iterdir()
    return file


@pytest.mark.parametrize("place", LOOKED_AT)
def test_a_core_is_complete(shared_pair, stage, faults, place):
    """It holds registered memory, mapped or not; and the peer is told of the death."""
    need("gdb")
    server, client = shared_pair().place(place)
    with tempfile.TemporaryDirectory(dir=stage.tmp) as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o777)
        at = server.with_(cores=True, inner=["sh", "-c", LEAVES_CORES, folder])
        two = Two(at, client, worker(faults, "-T", "14", "-r", "3")).wait_working()
        core = core_of(two.server, folder)
        assert two.client.wait(HANGS) == 2, two.client.describe()
        gdb = subprocess.run(
            ["gdb", "-q", "-batch", "-nx", str(faults), str(core),
             "-ex", f"print *(unsigned long *){W}.rig.buf",
             "-ex", f"dump binary memory {folder}/buf {W}.rig.buf {W}.rig.buf+{W}.rig.mr->length",
             "-ex", "thread apply all backtrace"],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        assert "Cannot access" not in gdb.stdout and "one_round" in gdb.stdout, gdb.stdout
        buf = (folder / "buf").read_bytes()
    assert len(buf) == 384 << 10 and any(buf[4096:64 << 10]) and any(buf[64 << 10:128 << 10])
    # The client counts its rounds in the server's memory, as an RNIC would until the process has
    # ended; the last answer may be lost.
    count = int(re.search(r"^\$1 = (\d+)", gdb.stdout, re.M)[1])
    done = int(re.search(r"and (\d+) rounds", two.client.out)[1])
    assert 0 < count <= done + 1, (gdb.stdout, two.client.describe())
    assert elapsed(two.client) < 10, two.client.describe()


# --- forks -------------------------------------------------------------------

@pytest.mark.parametrize("how", [[], ["-e"]], ids=["polling", "sleeping"])
@pytest.mark.parametrize("mode", ["children", "deep", "exec"])
@pytest.mark.parametrize("way", ["auto", "map"])
def test_fork(shared_pair, faults, way, mode, how):
    ns = shared_pair().a.with_env(URNIC_LOCAL=way)
    assert RIGHT in ns.run(faults, "fork", "-m", mode, *how).out


def test_fork_storm(shared_pair, faults):
    assert RIGHT in shared_pair().a.run(faults, "storm", "-t", "2").out


def test_fork_orphan(netns_pair, faults):
    ns = netns_pair().a
    parent = ns.start(faults, "fork", "-m", "orphan")
    assert eventually(lambda: "orphan" in parent.out), parent.describe()
    orphan = int(re.search(r"^orphan (\d+)$", parent.out, re.M)[1])
    try:
        assert parent.wait(HANGS) == 0, parent.describe()
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
@pytest.mark.parametrize("mode", ["idle", "poll", "work", "unseen", "files", "keep"])
def test_program_closes_all_descriptors(shared_pair, stage, faults, mode, capture):
    env = {"URNIC_PCAP": f"{stage.tmp}/closed.%p.pcapng"} if capture else {}
    proc = shared_pair().a.run(faults, "close", "-m", mode, env=env)
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
        proc = ns.run("/usr/bin/prlimit", f"--nofile={limit}:{limit}", "--",
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
    proc = shared_pair().a.run(faults, "memory", "-m", f"{handler}-{what}",
                               env={"URNIC_LOG": "info"})
    assert RIGHT in proc.out, proc.describe()
    assert "mapped" in proc.out, proc.describe()


@pytest.mark.parametrize("what", ["own", "fix"])
@pytest.mark.parametrize("handler", HANDLERS[1:])
def test_own_fault_reaches_its_handler(shared_pair, faults, handler, what):
    out = shared_pair().a.run(faults, "memory", "-m", f"{handler}-{what}").out
    assert RIGHT in out


@pytest.mark.parametrize("when", ["before", "after"])
def test_stack_overflow_reaches_its_handler(shared_pair, faults, when):
    mode = f"altstack-{when}-overflow"
    assert RIGHT in shared_pair().a.run(faults, "memory", "-m", mode).out


def test_own_fault_kills(shared_pair, faults):
    proc = shared_pair().a.run(faults, "memory", "-m", "none-before-own",
                               check=False)
    assert proc.popen.returncode == -signal.SIGSEGV, proc.describe()


@pytest.mark.parametrize("way", ["auto", "map"])
def test_little_address_space(shared_pair, faults, way):
    """With too little address space, as where the kernel does not overcommit, a program gets an
    error; it neither crashes nor hangs."""
    ns = shared_pair().a.with_env(URNIC_LOCAL=way)
    worked = []
    for mib in (*range(4, 80, 3), 120, 250):
        proc = ns.run("/usr/bin/prlimit", f"--as={mib << 20}", "--", faults, "fork", "-m",
                      "children", check=False)
        # 3: a call failed; 4: RTR; 127: the loader found no memory
        assert proc.popen.returncode in (0, 3, 4, 127), (mib, proc.describe())
        worked.append(proc.popen.returncode == 0)
    assert worked == sorted(worked), f"fails with more memory than is needed: {worked}"
    assert worked[-1] and not worked[0], worked


@pytest.mark.parametrize("way", ["auto", "map"])
def test_valgrind_allows_to_register_heap_blocks(shared_pair, faults, way):
    need("valgrind")
    ns = shared_pair().a.with_env(URNIC_LOCAL=way)
    ns = ns.with_(inner=["valgrind", "-q", "--error-exitcode=9"])
    proc = ns.run(faults, "heap")
    assert RIGHT in proc.out and "==" not in proc.out, proc.describe()


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
