# SPDX-License-Identifier: BSD-2-Clause
"""urnic dump: the objects of a process, which goes on running meanwhile."""

import collections
import json
import re
import signal

import lab
import pytest
from tool import bad

needs_second_user = pytest.mark.skipif(
    lab.IN_USERNS, reason="a user namespace has one user")


def dump(ns, proc, status=0, **kw):
    """Run urnic dump on the program's pid.  setpriv and the other commands in front of the
    program have replaced themselves by it with exec, so that pid is the program's."""
    done = ns.run(ns.stage.urnic, "dump", str(proc.pid), check=False, **kw)
    assert done.wait(1) == status, done.describe()
    return done.out


@pytest.mark.parametrize("words,says", [
    (["abc"], "'abc' is no process id"), (["1x"], "'1x' is no process id"),
    (["1", "2"], "one process at a time"), ([], "no process is named"),
])
def test_wrong_arguments(words, says):
    bad(2, says, "dump", *words)


def bandwidth(ns, *words):
    """Start ib_write_bw over loopback; it runs longer than the test.  Return (server, client)."""
    port = lab.next_port()
    words = ["ib_write_bw", "-p", str(port), "-d", "roce_lo", "-D", "120", *words]
    server = ns.start(*words)
    server.wait_listening(port)
    client = ns.start(*words, "127.0.0.1")
    return server, client


def dump_moves(ns, proc):
    first = dump(ns, proc)
    assert any(dump(ns, proc) != first for _ in range(500)), f"it stands still: {first}"


@pytest.mark.parametrize("way,name", [("auto", "local"), ("off", "ib")])
def test_every_object_of_a_live_process(netns, way, name):
    ns = netns.with_env(URNIC_LOCAL=way)
    server, client = bandwidth(ns, "-q", "3")
    connected = rf"(?s)(on roce_lo, {name} to.*){{3}}"
    client.wait_dump(rf"(?s)(RC RTS on roce_lo, {name} to.*){{3}}")
    theirs = server.wait_dump(connected)
    out = dump(ns, client)  # asked again: a dump that began before the PD existed would not have it
    qps = re.findall(rf"^qp (0x\w+): RC \w+ on roce_lo, {name} to QP (0x\w+) at 127.0.0.1$",
                     out, re.M)
    assert len(qps) == 3
    assert sorted((b, a) for a, b in qps) == sorted(re.findall(
        rf"^qp (0x\w+): RC \w+ on roce_lo, {name} to QP (0x\w+) at", theirs, re.M))
    assert len(re.findall(r"^    oldest PSN without an ACK \d+, next \d+", out, re.M)) == 3
    pd, = re.findall(r"^pd (\d+): used by 4 objects$", out, re.M)
    assert re.search(rf"^mr key 0x\w+: \d+ bytes at 0x\w+ .* pd {pd}, windows 0$", out, re.M)
    assert re.search(r"^cq \d+: entries \d+ of \d+, armed no, used by 6 work queues$",
                     out, re.M)
    dump_moves(ns, client)


def as_json(ns, proc):
    done = ns.run(ns.stage.urnic, "dump", "--json", str(proc.pid))
    return json.loads(done.out)


@pytest.mark.parametrize("device,way", [("roce_lo", "ib"), ("iwarp_lo", "iwarp")])
def test_the_same_as_json(netns, device, way):
    """Each line of the text is an object with the line's values."""
    ns = netns.with_env(URNIC_LOCAL="off", URNIC_DEVICES=device)
    server = ns.start("rping", "-s", "-a", "127.0.0.1", "-p", "7174")
    server.wait_dump("listener port 7174 .*: listening")
    client = ns.start("rping", "-c", "-a", "127.0.0.1", "-p", "7174", "-C", "1000000")
    client.wait_dump(rf"RC RTS on {device}, {way}(?s:.*): established, active")
    server.signal(signal.SIGSTOP)   # nothing changes any more but for retransmissions
    text, objects = next((text, objects) for text, objects in
                         ((dump(ns, client), as_json(ns, client)) for _ in range(100))
                         if dump(ns, client) == text)
    assert re.search(r"^slot (\d+)$", text, re.M)[1] == str(objects.pop("slot"))
    kinds = re.findall(r"^(?!slot)(\w+) ", text, re.M)
    assert {kind: len(rows) for kind, rows in objects.items()} == collections.Counter(kinds)
    for kind, rows in objects.items():
        for row, lines in zip(rows, re.findall(rf"^{kind} .*(?:\n    .*)*", text, re.M)):
            assert len(row) > 1 and not [v for v in row.values() if str(v) not in lines], lines
    qp, = objects["qp"]
    assert (qp["type"], qp["state"], qp["device"], qp["way"]) == ("RC", "RTS", device, way)
    assert qp["send_cq"] in [cq["handle"] for cq in objects["cq"]]
    assert qp["pd"] in [pd["handle"] for pd in objects["pd"]]
    connection, = objects["connection"]
    assert (connection["state"], connection["side"]) == ("established", "active")
    assert connection["qp"] == qp["number"]
    assert not re.search(r"[{}=]", text)
    server.signal(signal.SIGCONT)


def test_connections_of_rdma_cm(netns):
    server = netns.start("rping", "-s", "-a", "127.0.0.1", "-p", "7174")
    server.wait_dump("listener port 7174 .*: listening")
    client = netns.start("rping", "-c", "-a", "127.0.0.1", "-p", "7174")
    out = client.wait_dump(": established, active;")
    ours, its = re.search(r"^connection (0x\w+) to (0x\w+) at \S+: established", out,
                          re.M).groups()
    assert f"connection {its} to {ours} at" in dump(netns, server)


def test_a_stopped_process_is_said_to_be(netns):
    _, client = bandwidth(netns)
    client.wait_dump("RC RTS")
    client.signal(signal.SIGSTOP)
    assert "does not answer: is it stopped?" in dump(netns, client, status=1)
    client.signal(signal.SIGCONT)
    client.wait_dump("qp 0x")


def test_no_such_process(netns):
    sleeper = netns.start("sleep", "60")
    assert "has no device open" in dump(netns, sleeper, status=1)
    for word in ("0", "-1", "x", "99999999999"):
        assert netns.run(netns.stage.urnic, "dump", "--", word, check=False).wait(1) == 2


@needs_second_user
def test_another_user_is_told_nothing(netns):
    _, client = bandwidth(netns)
    client.wait_dump("RC RTS")
    for user in (lab.SECOND_USER, None):
        out = dump(netns, client, status=1, user=user)
        assert "answers that user only" in out and "qp" not in out


ASKER = """
import array, os, socket, struct, sys
kind = socket.SOCK_SEQPACKET
for mine in range(1, 769):
    me = socket.socket(socket.AF_UNIX, kind)
    try:
        me.bind(b"\\0urnic/%d" % mine)
        break
    except OSError:
        pass
me.listen(8)
s = socket.socket(socket.AF_UNIX, kind)
s.connect(b"\\0urnic/%d" % int(sys.argv[1]))
s.send(struct.pack("=3sBB3xH22x", b"urh", HOST, 1, mine))
for _ in range(int(sys.argv[2])):
    s.send(struct.pack("=3sBB3xII", b"urh", HOST, 6, 0, 1))
s.settimeout(3)
assert len(s.recv(512)) == 32           # it greets, too
try:
    msg, fds, _, _ = socket.recv_fds(s, 512, 2)
    fd, = fds
    text = os.pread(fd, 1 << 20, 0)
    try:
        os.pwrite(fd, b"x", 0)
        print("it can be written to")
    except OSError:
        print("sealed", b"qp {number=0x" in text)
except TimeoutError:
    print("nothing")
"""


@pytest.mark.parametrize("user,says", [
    ("nobody", "sealed True"),
    pytest.param(lab.SECOND_USER, "nothing", marks=needs_second_user)])
def test_asked_by_a_stranger(netns, user, says):
    """A program other than urnic dump asks often: it gets answers if it belongs to the same
    user."""
    _, client = bandwidth(netns, "-q", "32")    # too long for a message
    slot = re.search(r"^slot (\d+)$", client.wait_dump("RC RTS"), re.M)[1]
    script = ASKER.replace("HOST", lab.constant("src/host/msg.h", "MSG_VERSION"))
    asker = netns.run("/usr/bin/python3", "-c", script, slot, "50", user=user)
    assert asker.out.strip() == says
    dump_moves(netns, client)
