# SPDX-License-Identifier: BSD-2-Clause
"""XRC domains of several processes: requests for SRQs of processes other than the target QP's,
and what becomes of them when one of these processes stops or ends (tests/xrc/xrc.c, docs/dev/xrc.md).
"""

import pathlib
import re
import signal
import subprocess
import tempfile
import time

import lab
import pytest
from subnet import Fabric, TWO
from tool import need

RTS, ERR = 3, 6
SUCCESS, REM_INV_REQ, RETRY_EXC, RNR_EXC, REM_ACCESS = 0, 9, 12, 13, 10
FATAL, REQ_ERR = 1, 2


class Agent:
    """A process of the test; tests/xrc/xrc.c lists its commands."""

    def __init__(self, ns, dev, gid):
        self.proc = ns.start(ns.stage.tool("xrc/xrc"), dev, gid, stdin=subprocess.PIPE)
        self.asked = 0
        self.pid = None
        assert self.answer() == ["ready"]

    def say(self, *words):
        self.proc.popen.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.proc.popen.stdin.flush()

    def answer(self, timeout=lab.HANGS):
        """Return the next answer that has not been read yet."""
        end = time.monotonic() + timeout
        while True:
            lines = [s for s in self.proc.out.splitlines(True)
                     if s.startswith(("ok ", "no ")) and s.endswith("\n")]
            if len(lines) > self.asked:
                break
            assert self.proc.running() and time.monotonic() < end, self.proc.describe()
            time.sleep(0.001)
        self.asked += 1
        word, *rest = lines[self.asked - 1].split()
        return rest if word == "ok" else word + " " + rest[0]

    def do(self, *words, timeout=lab.HANGS):
        self.say(*words)
        return self.answer(timeout)

    def must(self, *words, timeout=lab.HANGS):
        got = self.do(*words, timeout=timeout)
        assert isinstance(got, list), f"{words}: {got}: {self.proc.describe()}"
        return [int(x) if x.isdigit() else x for x in got]

    def signal(self, number):
        self.proc.signal(number)

    def stop(self):
        """Stop the process; no thread of it runs when this returns."""
        self.signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.proc.pid}/task")
        assert lab.eventually(lambda: all(
            re.search(r"^State:\s+T", (t / "status").read_text(), re.M)
            for t in tasks.iterdir()))

    def kill(self):
        self.proc.signal(signal.SIGKILL)
        self.proc.popen.wait()


class Srq:
    def __init__(self, agent, cqe=1000):
        self.agent = agent
        self.index, self.num, self.rkey, self.addr = agent.must("srq", cqe)


class Lab:
    """Places for agents: (namespace, device, GID index) of the targets' host and of the
    senders'."""

    def __init__(self, there, here, tmp):
        self.there, self.here = there, here
        self.file = tmp / "domain"
        self.file.write_text("")
        self.file.chmod(0o644)
        tmp.chmod(0o755)

    def member(self, how="c"):
        a = Agent(*self.there)
        a.must("domain", self.file, how)
        return a

    def sender(self):
        return Agent(*self.here)


def connect(sender, target, timeout=14, retry=7, rnr=7):
    """Make an initiator QP and a target QP, and connect them."""
    q, qn = sender.must("initiator")
    t, tn = target.must("target")
    for a, mine, peer, to in ((target, t, sender, qn), (sender, q, target, tn)):
        lid, gid = peer.do("address")
        a.must("connect", mine, to, lid, gid, timeout, retry, rnr)
    return q, t, tn


@pytest.fixture
def folder(stage):
    """A folder that every user can read; pytest closes its own to others whenever pytest starts
    again."""
    return pathlib.Path(tempfile.mkdtemp(dir=stage.tmp))


@pytest.fixture(params=["host", "veth", "fabric"])
def place(request, stage, folder):
    if request.param == "fabric":
        need("opensm")
        f = Fabric(request.getfixturevalue("netns"), TWO)
        f.opensm("a")
        return Lab((f.at("b"), "ib_b", 0), (f.at("a"), "ib_a", 0), folder)
    pair = request.getfixturevalue("shared_pair")(1500)
    ns = pair.a if request.param == "host" else pair.b
    return Lab((pair.a, "roce_eth0", 1), (ns, "roce_eth0", 1), folder)


def trio(place, **kw):
    """A sender, the target QP's process, and another process with an SRQ."""
    t, s, i = place.member(), place.member(), place.sender()
    q, tq, tn = connect(i, t, **kw)
    return i, t, s, q, tq, tn, Srq(s)


def test_each_kind_of_request(place):
    i, t, s, q, _, tn, srq = trio(place)
    s.must("recv", 0, 11, 0, 100000)
    i.must("fill", 0, 70000, 3)
    i.must("post", q, "send", 1, srq.num, 0, 70000, 0, 0)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 1]
    assert s.must("got", 0, 5000)[:4] == [SUCCESS, 11, 70000, tn]
    assert s.do("sum", 0, 70000) == i.do("sum", 0, 70000)

    i.must("fill", 0, 50000, 4)
    i.must("post", q, "write", 2, srq.num, 0, 50000, srq.addr + 200000, srq.rkey)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 2]
    assert s.do("sum", 200000, 50000) == i.do("sum", 0, 50000)

    s.must("fill", 300000, 200000, 5)
    i.must("post", q, "read", 3, srq.num, 400000, 200000, srq.addr + 300000, srq.rkey)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 3]
    assert s.do("sum", 300000, 200000) == i.do("sum", 400000, 200000)

    s.must("recv", 0, 12, 0, 1000)
    i.must("post", q, "writeimm", 4, srq.num, 0, 100, srq.addr + 1000000, srq.rkey)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 4]
    assert s.must("got", 0, 5000)[:3] == [SUCCESS, 12, 100]

    before = s.do("sum", 2000000, 8)
    i.must("post", q, "add", 5, srq.num, 600000, 8, srq.addr + 2000000, srq.rkey)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 5]
    assert i.do("sum", 600000, 8) == before != s.do("sum", 2000000, 8)


def test_an_empty_srq_is_waited_for(place):
    i, t, s, q, _, _, srq = trio(place)
    own = Srq(t)
    t.must("recv", 0, 21, 0, 1000)
    i.must("post", q, "send", 1, srq.num, 0, 100, 0, 0)
    i.must("post", q, "send", 2, own.num, 0, 100, 0, 0)
    assert t.must("got", 0, 100) == ["none"]    # in order
    s.must("recv", 0, 11, 0, 1000)
    assert s.must("got", 0, 5000)[:2] == [SUCCESS, 11]
    assert t.must("got", 0, 5000)[:2] == [SUCCESS, 21]
    assert [i.must("sent", 5000)[:2] for _ in range(2)] == [[SUCCESS, 1], [SUCCESS, 2]]


def test_an_empty_srq_is_not_waited_for_for_ever(place):
    i, t, s, q, _, _, srq = trio(place, rnr=2)
    i.must("post", q, "send", 1, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [RNR_EXC, 1]


def test_what_is_refused(place):
    """Requests for another domain's SRQ, for another process's key, and for an SRQ number that
    nobody has are refused."""
    i, t, s, q, tq, _, srq = trio(place)
    i.must("post", q, "write", 1, srq.num, 0, 100, srq.addr, srq.rkey ^ 0x700)
    assert i.must("sent", 5000)[:2] == [REM_ACCESS, 1]
    assert t.must("query", tq)[0] == ERR
    other = place.file.with_name("other")
    other.write_text("")
    u = Agent(*place.there)
    u.must("domain", other, "c")
    for num in (Srq(u).num, srq.num ^ 1, (srq.num + (1 << 14)) & 0xffffff):
        q, tq, _ = connect(i, t)
        i.must("post", q, "send", 2, num, 0, 100, 0, 0)
        assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 2]
        assert t.must("query", tq)[0] == ERR
    q, tq, _ = connect(i, t)            # the refused requests have harmed no other QP
    s.must("recv", 0, 11, 0, 1000)
    i.must("post", q, "send", 3, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 3]


@pytest.mark.parametrize("size,count", [(64, 3000), (3000, 999)])
def test_many_senders_many_srqs(place, size, count):
    t = place.member()
    members = [t, place.member(), place.member()]
    srqs = [Srq(m) for m in members]
    for m in members:
        m.must("stock", 0, size)
    senders = [place.sender() for _ in range(3)]
    # Ten processes share the processors with other tests: 0.5 s without one is no silence.
    qs = [connect(i, t, timeout=18)[0] for i in senders]
    for m in members:
        m.say("sink", 0, count, size)
    for who, (i, q) in enumerate(zip(senders, qs)):
        i.say("flood", q, who, count, size, ",".join(str(s.num) for s in srqs))
    assert [i.answer(60) for i in senders] == [[str(count)]] * 3
    assert [m.answer(60) for m in members] == [[str(count)]] * 3


def test_the_srqs_process_ends(place):
    i, t, s, q, tq, _, srq = trio(place)
    s.must("recv", 0, 11, 0, 1000)
    i.must("post", q, "send", 1, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 1]
    s.kill()
    i.must("post", q, "send", 2, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 2]
    assert t.must("event", 5000) == [REQ_ERR, tq]
    assert t.must("query", tq)[0] == ERR


@pytest.mark.parametrize("op", ["send", "write", "read", "add"])
def test_the_srqs_process_stops_and_ends(place, op):
    """When the SRQ's process ends, the requests that it was passed and has not answered fail."""
    i, t, s, q, tq, _, srq = trio(place)
    if op == "read":    # for READ, the response is missing, too
        i.must("post", q, op, 1, srq.num, 0, 300000, srq.addr, srq.rkey)
        assert i.must("sent", 5000)[:2] == [SUCCESS, 1]
    s.stop()
    i.must("post", q, op, 2, srq.num, 0, 8 if op == "add" else 5000, srq.addr, srq.rkey)
    assert i.must("sent", 200) == ["none"]
    s.kill()
    assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 2]
    assert t.must("query", tq)[0] == ERR


def test_the_srqs_process_stops_and_goes_on(place):
    i, t, s, q, _, _, srq = trio(place)
    for n in range(10):
        s.must("recv", 0, n, n * 1000, 1000)
    s.stop()
    for n in range(10):
        i.must("post", q, "send", n, srq.num, 0, 1000, 0, 0)
    assert i.must("sent", 1500) == ["none"]
    s.signal(signal.SIGCONT)
    assert [i.must("sent", 5000)[:2] for n in range(10)] == [[SUCCESS, n] for n in range(10)]
    assert [s.must("got", 0, 5000)[:2] for n in range(10)] == [[SUCCESS, n] for n in range(10)]
    assert s.must("got", 0, 100) == ["none"]    # each message came once


def test_a_process_that_stopped_is_not_waited_for_for_ever(place):
    i, t, s, q, _, _, srq = trio(place, rnr=3)
    s.stop()
    i.must("post", q, "send", 1, srq.num, 0, 1000, 0, 0)
    assert i.must("sent", 20000)[:2] in ([RNR_EXC, 1], [RETRY_EXC, 1])


def test_the_targets_process_ends(place):
    """When the target QP's process ends, a receive that was being filled is flushed, and the SRQ
    serves other QPs."""
    i, t, s, q, _, _, srq = trio(place, retry=1)
    s.must("recv", 0, 11, 0, 1000)
    t.kill()
    i.must("post", q, "send", 1, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 20000)[:2] == [RETRY_EXC, 1]
    u = place.member("-")
    q, _, _ = connect(i, u)
    i.must("post", q, "send", 2, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 2]
    assert s.must("got", 0, 5000)[:2] == [SUCCESS, 11]


def test_the_srq_is_destroyed(place):
    i, t, s, q, tq, _, srq = trio(place)
    more = Srq(s)
    s.must("recv", 0, 11, 0, 1000)
    i.must("post", q, "send", 1, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 1]
    assert s.must("unsrq", 0)
    s.must("recv", 1, 12, 0, 1000)
    i.must("post", q, "send", 2, more.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [SUCCESS, 2]
    i.must("post", q, "send", 3, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 3]


@pytest.mark.parametrize("who", ["sender", "target", "member"])
def test_a_kill_in_the_middle(place, who):
    """When a process is killed in the middle of traffic, nothing hangs, and the other processes
    go on."""
    t, s, i = place.member(), place.member(), place.sender()
    srqs = [Srq(t), Srq(s)]
    q, _, _ = connect(i, t, retry=2)
    for m in (t, s):
        m.must("stock", 0, 2000)
        m.say("sink", 0, 0, 2000)
    i.say("flood", q, 1, 0, 2000, ",".join(str(x.num) for x in srqs))
    time.sleep(0.5)
    {"sender": i, "target": t, "member": s}[who].kill()
    if who != "sender":
        answer = i.answer(20)
        assert answer[0] == "bad" and int(answer[2]) > 0, answer
    for left in {t, s} - {{"target": t, "member": s}.get(who)}:
        left.kill()
    u, v, j = place.member(), place.member(), place.sender()
    again, num = connect(j, u)[0], Srq(v).num
    v.must("recv", 0, 5, 0, 1000)
    j.must("post", again, "send", 1, num, 0, 100, 0, 0)
    assert j.must("sent", 5000)[:2] == [SUCCESS, 1]


def test_a_domain_is_known_on_the_host(place):
    """The host's processes know a domain by its file: O_CREAT and O_EXCL act as with the kernel,
    whichever process made the domain."""
    a, b = Agent(*place.there), Agent(*place.there)
    assert a.do("domain", place.file, "-") == "no EAGAIN"
    a.must("domain", place.file, "cx")
    assert b.do("domain", place.file, "cx") == "no EINVAL"
    b.must("domain", place.file, "-")
    a.must("undomain")
    assert a.do("domain", place.file, "cx") == "no EINVAL"
    b.kill()
    assert a.do("domain", place.file, "-") == "no EAGAIN"
    a.must("domain", place.file, "cx")


def test_another_user_is_not_of_the_domain(stage, shared_pair, folder):
    if lab.IN_USERNS:
        pytest.skip("a user namespace has one user")
    a = shared_pair(1500).a
    place = Lab((a, "roce_eth0", 1), (a, "roce_eth0", 1), folder)
    t, i = place.member(), place.sender()
    s = Agent(a.with_(user=lab.SECOND_USER), "roce_eth0", 1)
    s.must("domain", place.file, "cx")
    q, tq, _ = connect(i, t)
    srq = Srq(s)
    s.must("recv", 0, 11, 0, 1000)
    i.must("post", q, "send", 1, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 1]
    assert s.must("got", 0, 100) == ["none"]


# --- target QPs that are opened by their number -------------------------------------


def opened(target, opener):
    """Make a target QP, and open it in another process (or its own) by its number."""
    t, tn = target.must("target")
    h, hn = opener.must("open", tn)
    assert hn == tn
    return t, h, tn


def join(sender, opener, handle, tn):
    """Make an initiator QP, and connect it to the target QP by the opener's handle."""
    q, qn = sender.must("initiator")
    for a, mine, peer, to in ((opener, handle, sender, qn), (sender, q, opener, tn)):
        lid, gid = peer.do("address")
        a.must("connect", mine, to, lid, gid, 14, 7, 7)
    return q, qn


def works(sender, q, *srqs):
    for n, srq in enumerate(srqs):
        srq.agent.must("recv", srq.index, 50 + n, 0, 1000)
        sender.must("post", q, "send", n, srq.num, 0, 100, 0, 0)
        assert sender.must("sent", 5000)[:2] == [SUCCESS, n]
        assert srq.agent.must("got", srq.index, 5000)[:2] == [SUCCESS, 50 + n]


@pytest.mark.parametrize("itself", [False, True])
def test_a_target_qp_is_opened_by_its_number(place, itself):
    t, s, i = place.member(), place.member(), place.sender()
    o = t if itself else s
    tq, h, tn = opened(t, o)
    q, qn = join(i, o, h, tn)
    works(i, q, Srq(t), Srq(s))
    for a, mine in ((t, tq), (o, h)):
        assert a.must("query", mine)[1:] == [qn, 10]
    i.must("post", q, "send", 9, tn, 0, 100, 0, 0)      # tn is a QP number, which no SRQ has
    assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 9]
    events = [(t, tq), (o, h)]
    if itself:
        assert sorted([t.must("event", 5000), t.must("event", 5000)]) == \
            [[REQ_ERR, tq], [REQ_ERR, h]]
    for a, mine in events:
        assert itself or a.must("event", 5000) == [REQ_ERR, mine]
        assert a.must("query", mine)[0] == ERR
    o.must("state", h, 0)
    q, _ = join(i, o, h, tn)
    o.must("unqp", h)
    works(i, q, Srq(t))


def test_the_qp_lives_until_its_last_handle_is_destroyed(place):
    t, s, i = place.member(), place.member(), place.sender()
    tq, h, tn = opened(t, s)
    more, _ = t.must("open", tn)
    q, _ = join(i, t, tq, tn)
    t.must("unqp", tq)
    srqs = [Srq(t), Srq(s)]
    works(i, q, *srqs)
    t.must("unqp", more)
    works(i, q, *srqs)
    assert s.must("query", h)[0] == RTS
    s.must("unqp", h)
    assert lab.eventually(lambda: s.do("open", tn) == "no EINVAL")
    i.must("post", q, "send", 5, srqs[0].num, 0, 100, 0, 0)
    assert i.must("sent", 20000)[:2] == [RETRY_EXC, 5]


def test_another_context_of_the_process_keeps_the_qp(place):
    t, s, i = place.member(), place.member(), place.sender()
    tq, tn = t.must("target")
    q, _ = join(i, t, tq, tn)
    t.must("context")
    assert t.do("open", tn) == "no EINVAL"      # the domain belongs to the first context
    t.must("domain", place.file, "-")
    h, _ = t.must("open", tn)
    srq = Srq(s)
    works(i, q, srq)
    t.must("uncontext")
    works(i, q, srq, Srq(t))
    i.must("post", q, "send", 9, tn, 0, 100, 0, 0)      # tn is a QP number, which no SRQ has
    assert i.must("sent", 5000)[:2] == [REM_INV_REQ, 9]
    assert t.must("event", 5000) == [REQ_ERR, h]
    t.must("unqp", h)
    assert s.do("open", tn) == "no EINVAL"


def test_the_creators_process_ends(place):
    """The QP ends with its creator's process; openers and the peer are told."""
    t, s, i = place.member(), place.member(), place.sender()
    tq, h, tn = opened(t, s)
    q, _ = join(i, s, h, tn)
    srq = Srq(s)
    works(i, q, srq)
    t.kill()
    assert s.must("event", 5000) == [FATAL, h]
    assert s.must("query", h)[0] == ERR
    assert s.do("state", h, 0) == "no EIO"
    assert s.do("open", tn) == "no EINVAL"
    s.must("unqp", h)
    i.must("post", q, "send", 6, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 20000)[:2] == [RETRY_EXC, 6]
    works(i, connect(i, s)[0], srq)     # the domain lives on


def test_an_openers_process_ends(place):
    t, s, i = place.member(), place.member(), place.sender()
    tq, h, tn = opened(t, s)
    q, _ = join(i, s, h, tn)
    srq = Srq(t)
    s.kill()
    works(i, q, srq)
    u = place.member()
    u.must("open", tn)
    t.must("unqp", tq)
    works(i, q, srq)
    u.kill()                            # u had the domain's last handle
    i.must("post", q, "send", 7, srq.num, 0, 100, 0, 0)
    assert i.must("sent", 20000)[:2] == [RETRY_EXC, 7]


def test_a_creator_that_stopped_is_not_waited_for_for_ever(place):
    t, s = place.member(), place.member()
    tq, h, tn = opened(t, s)
    t.stop()
    assert s.do("state", h, 1) == "no ETIMEDOUT"
    s.must("unqp", h)
    t.signal(signal.SIGCONT)
    h, _ = s.must("open", tn)
    assert s.must("query", h)[0] == 0


def test_what_cannot_be_opened(place):
    t, s, i = place.member(), place.member(), place.sender()
    q, qn = i.must("initiator")
    tq, tn = t.must("target")
    other = place.file.with_name("other")
    other.write_text("")
    u = Agent(*place.there)
    u.must("domain", other, "c")
    for a, num in ((s, qn), (s, tn ^ 1), (s, (tn + (1 << 14)) & 0xffffff), (s, 1 << 24),
                   (u, tn), (t, tn ^ 1)):
        assert a.do("open", num) == "no EINVAL", (a, num)
    s.must("open", tn)


def test_another_user_opens_nothing(stage, shared_pair, folder):
    if lab.IN_USERNS:
        pytest.skip("a user namespace has one user")
    a = shared_pair(1500).a
    place = Lab((a, "roce_eth0", 1), (a, "roce_eth0", 1), folder)
    t = place.member()
    s = Agent(a.with_(user=lab.SECOND_USER), "roce_eth0", 1)
    s.must("domain", place.file, "cx")
    _, tn = t.must("target")
    assert s.do("open", tn) == "no EINVAL"
