# SPDX-License-Identifier: BSD-2-Clause
"""urnic fault: faults of the wire that begin, change and end while programs run."""

import os
import re
import signal
import subprocess
import time

import pytest

from lab import HANGS, SECOND_USER, eventually
from tool import bad
from workers import RIGHT, Two, worker

DIED = "transport retry counter exceeded"


def fault(ns, *words, status=0, user="nobody"):
    """Run urnic fault; return its output."""
    proc = ns.start(ns.stage.urnic, "fault", *map(str, words), user=user)
    assert proc.wait(HANGS) == status, proc.describe()
    return proc.out


def dropped(ns, proc):
    """How many packets the process has dropped, out and in; 0 if it has ended."""
    asked = ns.start(ns.stage.urnic, "fault", str(proc.pid), "show")
    if asked.wait(HANGS) != 0:
        assert proc.wait(HANGS) is not None, asked.describe()
    return sum(int(n) for n in re.findall(r"packets (\d+) dropped", asked.out))


def anew(faults, *more):
    return [faults, "anew", *more]


@pytest.mark.parametrize("gid", ["v4", "v6"])
def test_at_once_between_hosts(shared_pair, faults, gid):
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults, "-g", str(pair.GIDS[gid]))).wait_working()
    assert fault(pair.b, two.client.pid, "show") == "faults: none\n"
    said = fault(pair.b, two.client.pid, "drop=0.02,seed=4")
    assert said == "1 QP is hit from now on, and all that are made from now on\n"
    assert eventually(lambda: dropped(pair.b, two.client) > 10)
    assert "faults: drop=0.02,seed=4\n" in fault(pair.b, two.client.pid, "show")
    # another one replaces it; what waited then is not lost for ever
    fault(pair.b, two.client.pid, "delay=1ms~1ms")
    assert eventually(lambda: re.search(r"[1-9]\d+ delayed", fault(pair.b, two.client.pid, "show")))
    assert fault(pair.b, two.client.pid, "clear") == ""
    before = dropped(pair.b, two.client)
    two.finish()
    assert before > 10


@pytest.mark.parametrize("way", ["host", "pipe"])
def test_one_host_from_the_next_connection_on(shared_pair, faults, way):
    ns, _ = shared_pair().place(way)
    two = Two(ns, ns, anew(faults, "-z", "300"))
    two.client.wait_output("works")
    two.client.wait_dump(r"way=local|, local to QP")
    said = fault(ns, two.client.pid, "drop=0.02")
    assert re.search(r"^(0 QPs are hit from now on.*\n1 QP uses shared memory, and is hit only "
                     r"when it is made anew .*: 0x[0-9a-f]{6}$|0 QPs are hit)", said, re.M), said
    assert eventually(lambda: dropped(ns, two.client) > 0), two.client.describe()
    fault(ns, two.client.pid, "clear")
    two.client.wait_dump(r", local to QP")
    for proc in (two.client, two.server):
        proc.signal(signal.SIGTERM)
    two.expect_right()


def test_connections_while_faults_come_and_go(shared_pair, faults):
    """At each moment of a connection's making the two ends agree on the way."""
    ns, _ = shared_pair().place("host")
    two = Two(ns, ns, anew(faults, "-z", "3", "-t", "6", "-T", "12"))
    two.client.wait_output("works")
    end = time.monotonic() + 4
    while time.monotonic() < end and two.client.running():
        for what in ("drop=0.001", "clear"):
            if two.client.running() and two.server.running():
                fault(ns, two.client.pid, what)
    two.expect_right()


def test_a_cut_while_it_runs(shared_pair, faults):
    """400 ms are survived, 10 s are not: timeout 14 is 67 ms, and one of seven retries may have been
    used by a NAK of the cut's first packets."""
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults, "-T", "14", "-r", "7")).wait_working()
    fault(pair.b, two.client.pid, "peer=10.88.0.1,drop=1,for=400ms")
    assert eventually(lambda: dropped(pair.b, two.client) > 0)
    two.finish()    # its last rounds are behind the cut
    two = Two(pair.a, pair.b, worker(faults, "-T", "14", "-r", "7")).wait_working()
    fault(pair.b, two.client.pid, "peer=10.88.0.1,drop=1,for=10s")
    for proc in (two.server, two.client):
        assert proc.wait(HANGS) == 2, proc.describe()
        assert DIED in proc.out
        assert float(re.search(r"after ([\d.]+) s", proc.out)[1]) >= 0.45, proc.describe()


def test_one_way(shared_pair, faults):
    """The server hears the client no more, but the client hears the server: both give up, since
    their requests or their answers are lost."""
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults, "-T", "12", "-r", "3")).wait_working()
    fault(pair.b, two.client.pid, "tx:drop=1")
    for proc in (two.server, two.client):
        assert proc.wait(HANGS) == 2, proc.describe()
        assert DIED in proc.out


def test_only_one_qp(shared_pair, faults):
    """Of two processes, and of one QP in each direction."""
    pair = shared_pair()
    hit, other = (Two(pair.a, pair.b, worker(faults)).wait_working() for _ in range(2))
    number = re.search(r"qpn (0x[0-9a-f]+)", hit.client.out)[1]
    fault(pair.b, "all", f"qp={number},drop=0.05")
    assert eventually(lambda: dropped(pair.b, hit.client) > 10)
    assert re.search(r"tx: of \d+ packets [1-9]", fault(pair.b, hit.client.pid, "show"))
    assert re.search(r"rx: of \d+ packets [1-9]", fault(pair.b, hit.client.pid, "show"))
    assert dropped(pair.b, other.client) == 0
    for two in (hit, other):
        two.finish()


def test_all_processes(shared_pair, faults):
    pair = shared_pair()
    pairs = [Two(pair.a, pair.b, worker(faults)).wait_working() for _ in range(3)]
    said = fault(pair.b, "all", "drop=0.01")
    for two in pairs:
        assert f"process {two.client.pid}: 1 QP is hit" in said
    assert len(said.splitlines()) == 3
    for two in pairs:
        assert eventually(lambda two=two: dropped(pair.b, two.client) > 0)
    fault(pair.b, "all", "clear")
    for two in pairs:
        two.finish()


def test_before_there_is_a_qp(shared_pair, faults):
    """A process that has opened a device and has no QP yet: its first one is hit."""
    pair = shared_pair()
    idle = pair.b.start(faults, "worker", "-p", "18999")    # waits for its peer
    eventually(lambda: "0 QPs" in pair.b.start(pair.b.stage.urnic, "fault", str(idle.pid),
                                               "drop=0.02").out or idle.dump())
    assert "0 QPs are hit" in fault(pair.b, idle.pid, "drop=0.02")
    client = pair.a.start(faults, "worker", "-p", "18999", pair.b.ip4)
    client.wait_output("works")
    assert eventually(lambda: dropped(pair.b, idle) > 5)
    for proc in (idle, client):
        proc.signal(signal.SIGTERM)
    for proc in (idle, client):
        assert proc.wait(HANGS) == 0, proc.describe()
        assert RIGHT in proc.out


# --- who may not, and what is wrong ---------------------------------------------------------

@pytest.mark.parametrize("words,says", [
    (["1"], "which faults?"),
    ([], "no process is named"),
    (["x", "show"], "'x' is neither a process id nor all"),
    (["1", "show", "more"], "one too many"),
    (["1", "drap=1"], "did you mean drop?"),
    (["1", "drop=2"], "drop wants a probability"),
    (["1", "qp=5"], "has no fault of packets, only what it is for"),
    (["1", "port=down,at=1s"], "has no fault of packets, only what it is for"),
    (["1", "events=/no/such"], "/no/such: No such file"),
    (["1", "drop=1,every=1s"], "how long each time?"),
])
def test_wrong_words(words, says):
    bad(2, says, "fault", *words)


def test_no_such_process(shared_pair):
    ns = shared_pair().a
    assert "has no device open" in fault(ns, os.getpid(), "show", status=1)
    assert "has no device open" in fault(ns, 2 ** 31 - 1, "show", status=1)
    assert "no process of this user has a device open" in fault(ns, "all", "drop=1", status=1)


def test_another_user(shared_pair, faults):
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    said = fault(pair.b, two.client.pid, "drop=1", status=1, user=SECOND_USER)
    assert "answers that user only" in said
    said = fault(pair.b, "all", "drop=1", status=1, user=SECOND_USER)
    assert "no process of this user" in said
    assert f"process {two.client.pid} is not reached: it opened its device as user" in said
    assert fault(pair.b, two.client.pid, "show") == "faults: none\n"
    two.finish()


def waiting(ns):
    """How many connections the processes of the namespace have not accepted yet."""
    return sum(int(n) for n in re.findall(r"LISTEN +(\d+) +\d+ +@urnic/", ns.sh("ss -xlnH")))


def test_one_that_ends_meanwhile(shared_pair, faults):
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    two.client.signal(signal.SIGSTOP)
    asker = pair.b.start(pair.b.stage.urnic, "fault", str(two.client.pid), "drop=1")
    assert eventually(lambda: waiting(pair.b) > 1)      # the look for its process is one
    two.client.kill()
    assert asker.wait(HANGS) == 1
    # where the asker is late, the process has gone before it is found
    assert re.search("has (ended|closed its device|no device open)", asker.out), asker.describe()


def test_the_asker_is_killed(shared_pair, faults):
    """At each of its calls; the program goes on, and answers the next one."""
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    for n in range(1, 25):
        kill = f"inject=sendmsg,recvmsg,poll,epoll_wait,shutdown:signal=KILL:when={n}"
        asker = pair.b.start("strace", "-o", "/dev/null", "-e", kill, pair.b.stage.urnic, "fault",
                             str(two.client.pid), "drop=0.01" if n % 2 else "clear")
        assert asker.wait(HANGS) is not None, asker.describe()
    fault(pair.b, two.client.pid, "clear")
    assert fault(pair.b, two.client.pid, "show").startswith("faults: none\n")
    two.finish()


def test_long_lists_of_events(shared_pair, faults, stage):
    """The file is read by urnic fault; the process takes its lines."""
    pair = shared_pair()
    events = stage.tmp / "many"
    events.write_text("".join(f"flow1 +{n} 1 drop\n" for n in range(1, 251)))
    events.chmod(0o644)
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    fault(pair.b, two.client.pid, f"tx:events={events}")
    assert "event=flow1:+250:1:drop" in fault(pair.b, two.client.pid, "show")
    # how many of them go out before the first is sent again is chance: then their iteration is 2
    assert eventually(lambda: dropped(pair.b, two.client) > 0), two.client.describe()
    two.finish()
    events.write_text("".join(f"flow1 +{n} 1 drop\n" for n in range(300)))
    said = subprocess.run([str(stage.urnic), "fault", "1", f"events={events}"], text=True,
                          capture_output=True, check=False)
    assert said.returncode == 2 and "line 257: too many events" in said.stderr
