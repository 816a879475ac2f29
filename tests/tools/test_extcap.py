# SPDX-License-Identifier: BSD-2-Clause
"""urnic extcap: Wireshark's programs capture from processes that already run."""

import os
import re
import shutil
import signal
import time

import pytest

import lab
from lab import HANGS, eventually
from tool import bad
from workers import Two, worker

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="there is no tshark")
needs_second_user = pytest.mark.skipif(lab.IN_USERNS, reason="a user namespace has one user")


@pytest.fixture(name="wireshark")
def _wireshark(stage):
    """What leads Wireshark's programs to urnic."""
    folder = stage.path / "extcap"
    if not folder.exists():
        folder.mkdir(mode=0o755)
        (folder / "urnic-extcap").symlink_to(stage.urnic)
    return {"WIRESHARK_EXTCAP_DIR": str(folder)}


def tshark(ns, env, *words):
    return ns.start("tshark", *words, env=env, library=False)


def extcap(ns, name, to, **kw):
    return ns.start(ns.stage.urnic, "extcap", "--capture", "--extcap-interface", name, "--fifo", to,
                    **kw)


def descriptors(proc):
    """What the process's descriptors lead to; one that is just being closed is left out."""
    folder, found = f"/proc/{proc.pid}/fd", set()
    for fd in os.listdir(folder):
        try:
            found.add(os.readlink(f"{folder}/{fd}"))
        except FileNotFoundError:
            pass
    return found


def between_hosts(pair, faults, *more):
    return Two(pair.a, pair.b, worker(faults, "-z", "4", *more)).wait_working()


@needs_tshark
def test_it_is_listed(shared_pair, faults, wireshark):
    pair = shared_pair()
    two = between_hosts(pair, faults)
    listed = tshark(pair.b, wireshark, "-D")
    assert listed.wait(HANGS) == 0, listed.describe()
    assert "urnic-all (urnic: all processes)" in listed.out
    assert f"urnic-{two.client.pid} (urnic: process {two.client.pid} " in listed.out
    assert f"urnic-{two.server.pid}" not in listed.out      # in another network namespace
    links = tshark(pair.b, wireshark, "-L", "-i", f"urnic-{two.client.pid}")
    assert links.wait(HANGS) == 0 and "RoCE v2 (IP packets)" in links.out, links.describe()
    two.finish()


@needs_tshark
@pytest.mark.parametrize("name", ["one", "all"])
def test_packets_of_a_running_process(shared_pair, faults, wireshark, name):
    """It costs nothing when it is over."""
    pair = shared_pair()
    two = between_hosts(pair, faults)
    before = descriptors(two.client)
    name = "urnic-all" if name == "all" else f"urnic-{two.client.pid}"
    for _ in range(2):
        shark = tshark(pair.b, wireshark, "-i", name, "-c", "300", "-T", "fields", "-e", "ip.src",
                       "-e", "infiniband.bth.opcode", "-e", "frame.interface_description")
        assert shark.wait(HANGS) == 0, shark.describe()
        lines = re.findall(rf"^(10\.88\.0\.[12])\t(\d+)\tprocess {two.client.pid} ", shark.out, re.M)
        assert len(lines) > 250 and len({ip for ip, _ in lines}) == 2, shark.describe()
        assert eventually(lambda: descriptors(two.client) <= before)
    two.finish()


def test_requests_through_memory_are_counted(shared_pair, faults, stage):
    ns, _ = shared_pair().place("host")
    two = Two(ns, ns, worker(faults, "-z", "4")).wait_working()
    two.client.wait_dump(r", local to QP")
    file = stage.tmp / "memory.pcapng"
    live = extcap(ns, f"urnic-{two.client.pid}", file)
    assert eventually(lambda: file.exists() and b"requests to processes of this host" in file.read_bytes())
    live.signal(signal.SIGTERM)
    assert live.wait(HANGS) == 0, live.describe()
    said = re.search(rf"process {two.client.pid}: 0 packets; 0 packets dropped because the reader was "
                     r"slow, (\d+) requests to processes of this host not shown", live.out)
    assert said and int(said[1]) > 0, live.describe()
    two.finish()


def test_processes_that_begin_meanwhile(shared_pair, faults, stage):
    pair = shared_pair()
    file = stage.tmp / "all.pcapng"
    live = extcap(pair.b, "urnic-all", file)
    assert eventually(file.exists)
    pairs = [between_hosts(pair, faults) for _ in range(2)]
    for two in pairs:
        words = f"process {two.client.pid} ".encode()
        assert eventually(lambda words=words: words in file.read_bytes())
        two.finish()
    live.signal(signal.SIGTERM)
    assert live.wait(HANGS) == 0, live.describe()


PROCESS = re.compile(rb"process (\d+) ")


def test_stopped_processes_delay_no_other(shared_pair, faults, stage):
    """All are asked at once, for a second."""
    ns, stopped = shared_pair().a, []
    for _ in range(10):
        stopped.append(ns.start(faults, "watch"))
    for proc in stopped:
        proc.wait_dump("slot ")
        proc.signal(signal.SIGSTOP)
    file = stage.tmp / "stopped.pcapng"
    began = time.monotonic()
    live = extcap(ns, "urnic-all", file)
    for proc in stopped:
        live.wait_output(f"process {proc.pid} does not answer")
    took = time.monotonic() - began
    live.signal(signal.SIGTERM)
    assert live.wait(HANGS) == 0, live.describe()
    for proc in stopped:
        proc.kill()
    assert took < 5, live.describe()    # 10 s one after another


def test_many_processes_one_after_another(shared_pair, faults, stage):
    """As many as it can show at a time, and then others."""
    ns = shared_pair().a
    file, many, seen = stage.tmp / "many.pcapng", 90, 0
    live = extcap(ns, "urnic-all", file)
    assert eventually(file.exists)
    for _ in range(3):
        proc = ns.start("sh", "-c", f"for i in $(seq {many}); do {faults} watch & done; wait")
        seen += many
        assert eventually(lambda seen=seen: len(set(PROCESS.findall(file.read_bytes()))) >= seen), \
            live.describe()
        proc.kill()     # and its group
    live.signal(signal.SIGTERM)
    assert live.wait(HANGS) == 0, live.describe()


@needs_tshark
def test_a_port_of_a_fabric(fabric, wireshark):
    f = fabric()
    listed = tshark(f.ns, wireshark, "-D")
    assert listed.wait(HANGS) == 0, listed.describe()
    assert re.search(r"urnic-fabric:\S+ \(urnic: fabric .*, all links\)", listed.out), listed.out
    name = re.search(r"(urnic-fabric:\S+/(?:H-)?b/1) \(urnic: fabric ", listed.out)[1]
    live = extcap(f.ns, name, f.dir / "live")
    live.wait_output("the capture has begun")
    f.opensm("a")
    live.signal(signal.SIGTERM)
    assert live.wait(HANGS) == 0, live.describe()
    read = tshark(f.ns, None, "-r", f.dir / "live", "-Y", "infiniband.bth.destqp == 0")
    assert read.wait(HANGS) == 0 and "UD Send Only" in read.out, read.describe()


# the first packet is spoiled, its first repetition lost; dup and reorder harm nobody, each time
EVENTS = [(0, "1", "corrupt"), (0, "2", "drop"), (1, "*", "dup"), (2, "*", "reorder")]
COMMENT = re.compile(r"^0x0*([0-9a-f]+)\t(\d+)\tfault=(\w+) event=(\d) qp=0x0*([0-9a-f]+) psn=(\d+) "
                     r"iteration=(\d+)$", re.M)


@needs_tshark
@pytest.mark.parametrize("way", ["tx", "rx"])
def test_a_capture_says_what_faults_did(shared_pair, faults, stage, way):
    """The list of QP, PSN, iteration and type is found again."""
    pair = shared_pair()
    events, file = stage.tmp / f"{way}.events", stage.tmp / f"{way}.pcapng"
    events.write_text("".join(f"flow1 +{psn} {n} {what}\n" for psn, n, what in EVENTS))
    events.chmod(0o644)
    two = Two(pair.b, pair.a, worker(faults, "-z", "4"),
              server_env={"URNIC_FAULT": f"{way}:events={events}", "URNIC_PCAP": str(file)})
    two.wait_working()
    two.finish()
    read = tshark(pair.b, None, "-r", file, "-T", "fields", "-e", "infiniband.bth.destqp", "-e",
                  "infiniband.bth.psn", "-e", "frame.comment")
    assert read.wait(HANGS) == 0, read.describe()
    hits = COMMENT.findall(read.out)
    assert read.out.count("fault=") == len(hits), read.describe()
    assert len({qp for qp, *_ in hits}) == 1
    first = min(int(hit[1]) for hit in hits)
    for qp, psn, what, n, its_qp, its_psn, iteration in hits:
        at, when, is_ = EVENTS[int(n) - 1]
        assert (qp, psn, what) == (its_qp, its_psn, is_)
        assert int(psn) - first == at and when in ("*", iteration)
    found = [(int(n), iteration) for *_, n, _, _, iteration in hits]
    assert {n for n, _ in found} == {1, 2, 3, 4}, read.out
    # what was lost is there as well, and a duplicate that was sent is there twice
    assert all(found.count(x) == (2 if x[0] == 3 and way == "tx" else 1) for x in found), found


# --- what is wrong, and what the program does not notice -------------------------------------------

@pytest.mark.parametrize("words,status,says", [
    ([], 2, "what is to be done?"),
    (["--instal"], 2, "--instal: --install is written in full"),
    (["--extcap-dlts"], 2, "no --extcap-interface is named"),
    (["--extcap-dlts", "--extcap-interface", "eth0"], 1, "no interface 'eth0'"),
    (["--extcap-dlts", "--extcap-interface", "urnic-0"], 1, "no interface 'urnic-0'"),
    (["--extcap-dlts", "--extcap-interface", "urnic-fabric:f/n/0"], 1, "no interface"),
    (["--extcap-config", "--extcap-interface", "urnic-fabric:f/n"], 1, "no interface"),
    (["--capture", "--extcap-interface", "urnic-all"], 2, "no --fifo is named"),
    (["--capture", "--extcap-dlts", "--extcap-interface", "urnic-all"], 2, "one task at a time"),
    (["--capture", "--extcap-interface", "urnic-all", "--fifo", "/no/such"], 1, "/no/such: No such"),
    (["--capture", "--extcap-interface", "urnic-all", "--fifo", "/tmp/x",
      "--extcap-capture-filter", "udp"], 1, "takes no capture filter"),
])
def test_wrong_words(words, status, says):
    bad(status, says, "extcap", *words)


def test_what_wireshark_asks(stage, netns):
    def ask(*words, status=0):
        proc = netns.start(stage.urnic, "extcap", *words)
        assert proc.wait(HANGS) == status, proc.describe()
        return proc.out
    listed = ask("--extcap-interfaces", "--extcap-version=4.0")
    assert re.match(r"extcap \{version=[\d.]+\}\{display=urnic\}\n"
                    r"interface \{value=urnic-all\}\{display=urnic: all processes\}\n$", listed)
    assert re.match(r"dlt \{number=101\}\{name=RAW\}\{display=.*\}\n$",
                    ask("--extcap-dlts", "--extcap-interface", "urnic-all"))
    assert re.match(r"dlt \{number=197\}\{name=ERF\}\{display=.*\}\n$",
                    ask("--extcap-dlts", "--extcap-interface", "urnic-fabric:f"))
    assert ask("--extcap-config", "--extcap-interface", "urnic-7") == ""
    assert "display filter" in ask("--extcap-interface", "urnic-7", "--extcap-capture-filter", "x",
                                   status=1)
    assert ask("--extcap-interface", "urnic-7", "--extcap-capture-filter", "") == ""


def test_install(stage, netns):
    """A user's folder; a link is replaced, another file is not."""
    home = stage.tmp / "home"
    home.mkdir(exist_ok=True)
    home.chmod(0o777)
    for _ in range(2):
        done = netns.run(stage.urnic, "extcap", "--install", env={"HOME": str(home)})
        link = re.match(rf"({home}/\S+/urnic-extcap) leads Wireshark to urnic\.\n", done.out)[1]
        assert os.readlink(link) == str(stage.urnic)
    os.remove(link)
    open(link, "w", encoding="ascii").close()
    done = netns.start(stage.urnic, "extcap", "--install", env={"HOME": str(home)})
    assert done.wait(HANGS) == 1 and "no link" in done.out, done.describe()


def test_no_such_process(shared_pair, stage):
    ns = shared_pair().a
    for pid in (os.getpid(), 2 ** 31 - 1):
        live = extcap(ns, f"urnic-{pid}", stage.tmp / "none.pcapng")
        assert live.wait(HANGS) == 1 and "has no device open" in live.out, live.describe()


@needs_second_user
def test_another_user(shared_pair, faults, stage):
    pair = shared_pair()
    two = between_hosts(pair, faults)
    live = extcap(pair.b, f"urnic-{two.client.pid}", stage.tmp / "other.pcapng",
                  user=lab.SECOND_USER)
    assert live.wait(HANGS) == 1 and "answers that user only" in live.out, live.describe()
    listed = pair.b.run(stage.urnic, "extcap", "--extcap-interfaces", user=lab.SECOND_USER)
    assert f"urnic-{two.client.pid}" not in listed.out
    two.finish()


def test_a_process_that_is_stopped(shared_pair, faults, stage):
    pair = shared_pair()
    two = between_hosts(pair, faults, "-T", "19")   # its peer has patience
    two.client.signal(signal.SIGSTOP)
    live = extcap(pair.b, f"urnic-{two.client.pid}", stage.tmp / "stopped.pcapng")
    assert live.wait(HANGS) == 1 and "does not answer: is it stopped?" in live.out, live.describe()
    two.client.signal(signal.SIGCONT)
    two.finish()


def test_a_process_that_ends(shared_pair, faults, stage):
    pair = shared_pair()
    two = between_hosts(pair, faults)
    file = stage.tmp / "ends.pcapng"
    live = extcap(pair.b, f"urnic-{two.client.pid}", file)
    assert eventually(lambda: file.exists() and file.stat().st_size > 10000)
    two.client.kill()
    assert live.wait(HANGS) == 0 and live.out == "", live.describe()


def test_a_full_disk(shared_pair, faults):
    pair = shared_pair()
    two = between_hosts(pair, faults)
    before = descriptors(two.client)
    live = extcap(pair.b, f"urnic-{two.client.pid}", "/dev/full")
    assert live.wait(HANGS) == 1, live.describe()
    assert "/dev/full: No space left on device" in live.out, live.describe()
    assert eventually(lambda: descriptors(two.client) <= before)
    two.finish()


DROPPED = re.compile(rb"[1-9]\d* packets dropped because the reader was slow")


def sent(proc):
    """The bytes that the process's QPs have sent."""
    return sum(int(n) for n in re.findall(r"sent \d+ of (\d+) bytes", proc.dump()))


def drain(fd, got):
    """Take what the FIFO has, behind what it had."""
    while True:
        try:
            piece = os.read(fd, 1 << 16)
        except BlockingIOError:
            return got
        if not piece:
            return got
        got += piece


@pytest.mark.parametrize("how", ["leaves", "is killed", "never reads"])
def test_a_reader_that(shared_pair, faults, stage, how):
    """The program goes on, whatever its reader does."""
    pair = shared_pair()
    two = between_hosts(pair, faults)
    before, got = descriptors(two.client), bytearray()
    fifo = stage.tmp / f"fifo.{how.replace(' ', '-')}"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    live = extcap(pair.b, f"urnic-{two.client.pid}", fifo)
    assert eventually(lambda: drain(fd, got))   # the process has answered
    if how == "never reads":
        # more than the socket and both buffers hold
        assert eventually(lambda: sent(two.client) > 4 << 20), two.client.describe()
        assert eventually(lambda: DROPPED.search(drain(fd, got))), live.describe()
        live.kill()
    elif how == "leaves":
        os.close(fd)
        assert live.wait(HANGS) == 0, live.describe()
    else:
        live.kill()
    assert eventually(lambda: descriptors(two.client) <= before)
    two.finish()
    if how != "leaves":
        os.close(fd)
