# SPDX-License-Identifier: BSD-2-Clause
"""Processes of one host: stopped, killed, restricted, numerous, or hostile.

The programs are those of tests/local.  Each forks the processes that it needs and checks their
events and completions; it prints "all right" or ends with an exit status that says what is wrong.
"""

import re
import shutil
import subprocess

import pytest

import lab
from lab import HANGS, eventually, needs_second_user, urnic_names
from workers import RIGHT

OBJ = lab.ROOT / "build/obj/tests"
LOCAL_WAYS = ["host", "pipe"]
MAP = "map"     # as "host", and urnic maps the peer's private memory


@pytest.fixture(scope="module")
def tools(stage):
    """{name: path} of copies of the built programs, which every user may run."""
    files = ("local/local", "local/deny", "local/libundumpable.so",
             "local/libloading.so", "local/libfirst.so", "local/freed", "stress/stress")
    return {name.split("/")[1]: str(shutil.copy(OBJ / name, stage.path))
            for name in files}


@pytest.fixture
def full(request):
    return request.config.getoption("--full")


@pytest.fixture
def run(shared_pair, tools):
    """run(way, word, ...): run a command of tests/local by that way; return its output."""
    def run(way, *words, timeout=HANGS, **kw):
        ns, _ = shared_pair().place(way)
        proc = ns.run(tools["local"], "-d", ns.dev, *words, timeout=timeout, **kw)
        assert RIGHT in proc.out, proc.describe()
        assert urnic_names(ns) == []
        return proc.out
    return run


# --- stopped -----------------------------------------------------------------

@pytest.mark.parametrize("way,mode", [("host", "direct"), ("pipe", "pipe"),
                                      ("udp", "pipe")])
def test_stopped_target(run, way, mode):
    """WRITE and READ succeed although the target is stopped, if its memory is reached directly.
    All other requests fail after their retries, or complete when the target goes on."""
    run(way, "stopped", "-m", mode)


@pytest.mark.parametrize("way", lab.Pair.WAYS)
def test_stopped_before_it_has_agreed(run, way):
    run(way, "early")


@pytest.mark.parametrize("mode,count,all_of_them", [
    ("signal", 12, 600), ("entry", 9, 180), ("exit", 9, 180)])
def test_stopped_writer(run, full, mode, count, all_of_them):
    """A process that deregisters memory or destroys a QP does not wait for a stopped writer, and
    the writer writes nothing afterwards."""
    run("host", "held", "-m", mode, "-n", all_of_them if full else count, timeout=600)


@pytest.fixture
def midcopy(run):
    """midcopy(mode, way): the writer's process is held in the middle of a copy, by a page that
    userfaultfd delivers late."""
    def midcopy(mode, way="host", *words):
        out = run(way, "midcopy", "-m", mode, *words)
        if "userfaultfd is forbidden" in out:
            pytest.skip("userfaultfd is forbidden")
    return midcopy


def test_stands_in_a_copy_of_what_is_mapped(midcopy):
    """A writer that is held in a copy to memory which it maps cannot be shut out.  The process
    that deregisters the memory or destroys the QP is told so, and at most one piece is written
    late."""
    midcopy("stands", "host", "-S")


def test_becomes_another_program_in_a_copy(midcopy):
    """After the writer's exec no thread is in the copy any more, although the process lives."""
    midcopy("exec", "host", "-S")


def test_stands_in_a_copy_of_memory_that_is_private_again(midcopy):
    """When mapped memory is private again, the writer is shut out after a moment: nothing is
    refused, and nothing is written late."""
    midcopy("taken", MAP)


# --- killed, or stopped, at any point ----------------------------------------

# (how often, distance from one point to the next); the distance is in steps of 7 us, in requests,
# or in beginnings and ends of system calls
POINTS = {"time": (80, 5), "work": (60, 1), "call": (25, 3), "start": (70, 11),
          "stop": (50, 5), "wait": (40, 5), "late": (100, 7)}


@pytest.mark.parametrize("way", [*LOCAL_WAYS, MAP])
@pytest.mark.parametrize("mode", POINTS)
def test_dies_or_stops(run, mode, way):
    count, step = POINTS[mode]
    run(way, "deaths", "-m", mode, "-n", count, "-k", step)


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize("way", LOCAL_WAYS)
@pytest.mark.parametrize("mode", POINTS)
def test_dies_or_stops_at_every_point(run, mode, way, seed):
    count = {"call": 1000, "start": 2000}.get(mode, 1500)
    run(way, "deaths", "-m", mode, "-n", count, "-s", seed, timeout=900)


# --- forks, descriptors, other programs --------------------------------------

@pytest.mark.parametrize("way", [*LOCAL_WAYS, MAP])
@pytest.mark.parametrize("mode,count", [("fork", 30), ("close", 10), ("exec", 40)])
def test_forks_closes_or_becomes_another(run, full, way, mode, count):
    """A process that forks or closes descriptors works on; of one that became another program by
    exec, the peer knows, and touches none of its memory."""
    run(way, "forked", "-m", mode, "-n", count * (20 if full else 1), timeout=300)


# --- ways that are forbidden -------------------------------------------------

DIRECT = "WRITE and READ of its memory go directly"
THROUGH = "WRITE and READ of its memory go through shared memory, too: "
FORBIDDEN = {
    # the line in the server's log and the one in the client's; if WRITE and READ do not go
    # directly, the line says why
    "nothing": (DIRECT, DIRECT),
    "users": (THROUGH + "that process is another user's",) * 2,
    # the client's pid namespace is below the server's
    "pid-namespaces": (DIRECT, THROUGH + "that process is in another pid namespace"),
    "eperm": (THROUGH + "process_vm_readv is not permitted",) * 2,
    "enosys": (THROUGH + "this kernel has no process_vm_readv",) * 2,
    "eperm-at-one": (DIRECT, THROUGH + "process_vm_readv is not permitted"),
    "undumpable": (DIRECT, THROUGH + "process_vm_readv is not permitted"),
    "pipe-at-one": (THROUGH + "URNIC_LOCAL is pipe", THROUGH),
    "off-at-one": ("messages go through UDP: URNIC_LOCAL is off",
                   "messages go through UDP: "),
}


class Ends:
    """Starts programs as server and as client; `kind` says what one or both may not do."""

    def __init__(self, ns, tools, kind):
        self.ns, self.tools, self.kind = ns, tools, kind

    def start(self, is_client, argv):
        env, user = {"URNIC_LOG": "info"}, "nobody"
        if self.kind in ("eperm", "enosys") or (
                self.kind == "eperm-at-one" and is_client):
            argv = [self.tools["deny"], self.kind[:6].rstrip("-"), *argv]
        elif self.kind == "users" and is_client:
            user = lab.SECOND_USER
        elif self.kind == "undumpable" and not is_client:
            env["LD_PRELOAD"] = self.tools["libundumpable.so"]
        elif self.kind == "off-at-one" and not is_client:
            env["URNIC_LOCAL"] = "off"
        elif self.kind == "pipe-at-one" and not is_client:
            env["URNIC_LOCAL"] = "pipe"
        elif self.kind == "pid-namespaces" and is_client:
            argv = ["unshare", "--pid", "--fork", "--kill-child",
                    *lab.unprivileged(), *argv]
            user = None
        return self.ns.start(*argv, env=env, user=user)


def forbidden_programs(tools, dev):
    yield [tools["stress"], "-d", dev, "-t", "0.4", "-q", "2", "-m", "65536",
           "-M", "8192"], "-p"
    yield ["ibv_rc_pingpong", "-d", dev, "-g", "1", "-c", "-n", "500"], "-p"
    for name in ("ib_write_bw", "ib_send_bw"):
        yield [name, "-d", dev, "-x", "1", "-n", "500"], "-p"


@pytest.mark.parametrize("kind", [
    pytest.param(k, marks=needs_second_user if k == "users" else ())
    for k in FORBIDDEN])
def test_forbidden(shared_pair, tools, kind):
    """All programs run at once; the log of each end says how the other end is reached, and why."""
    ns = shared_pair().a
    ends = Ends(ns, tools, kind)
    twos = []
    for argv, port_option in forbidden_programs(tools, ns.dev):
        words = [argv[0], port_option, str(lab.next_port()), *argv[1:]]
        server = ends.start(False, words)
        if "stress" not in argv[0]:
            server.wait_listening(int(words[2]))
        twos.append((server, ends.start(True, [*words, ns.ip4])))
    for server, client in twos:
        for proc, line in zip((server, client), FORBIDDEN[kind]):
            assert proc.wait(HANGS) == 0, (server.describe(), client.describe())
            said = re.findall(r"info: slot \d+, process \d+: (messages go .*)", proc.out)
            assert said and all(line in x for x in said), (kind, proc.describe())


@needs_second_user
@pytest.mark.parametrize("mode", ["first", "later"])
@pytest.mark.parametrize("way", lab.Pair.WAYS)
def test_daemon_that_becomes_another_user(run, way, mode):
    """A process counts as the user that it had when it opened its device.  By UDP, root accepts
    datagrams that another user's process forwards only with URNIC_SHARE=host."""
    out = run(way, "dropped", "-m", mode, user=None, env={"URNIC_SHARE": "host"})
    assert "is ignored" not in out, out


# A process with a slot of its own asks the only other process for a pipe.  It prints whether the
# answer is an offer, whether the offer has an address of memory, and how many descriptors come
# with it.
ASK_FOR_A_PIPE = """
import re, socket, struct
slot = int(re.search(r"@urnic/(\\d+)$", open("/proc/net/unix").read(), re.M)[1])
mine = 768 - (slot == 768)
name = lambda n: b"\\0urnic/%d" % n
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(name(mine))
listener.listen()
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(20)
s.connect(name(slot))
s.send(struct.pack("=3sBB3xH22x", b"urh", HOST, 1, mine))
assert len(s.recv(4096)) == 32          # it greets, too
s.send(struct.pack("=3sBB3xBBBxIQQQ", b"urh", HOST, 4, VERSION, 1, 1, 0, 0, 0, 0))
data, fds, _, _ = socket.recv_fds(s, 4096, 4)
_, _, kind, _, what, yes, _, at, *_ = struct.unpack("=3sBB3xBBBxIQQQ", data)
print("offer" if (kind, what, yes) == (4, 2, 1) else "no offer", at != 0, len(fds))
"""


@needs_second_user
@pytest.mark.parametrize("user,said", [("nobody", "offer False 1"),
                                       (lab.SECOND_USER, "offer True 2")])
def test_users_that_look_alike_are_told_apart(shared_pair, user, said):
    """In the holder's user namespace every other user has the uid 65534, and so has its own user;
    only a process of its own user may be offered its memory."""
    ns = shared_pair().a
    version = lab.constant("src/shm/rec.h", "PIPE_VERSION")
    host = lab.constant("src/host/msg.h", "MSG_VERSION")
    holder = ns.with_(inner=["unshare", "-U"]).start(
        ns.stage.tool("cm/cm_test_program"), "hold", ns.ip4, lab.next_port(),
        user=lab.SECOND_USER)
    holder.wait_output("listening")
    script = ASK_FOR_A_PIPE.replace("VERSION", version).replace("HOST", host)
    proc = ns.run("/usr/bin/python3", "-c", script, user=user)
    assert said in proc.out, (proc.describe(), holder.describe())
    holder.kill()


# --- many --------------------------------------------------------------------

@pytest.mark.parametrize("way", lab.Pair.WAYS)
def test_crowd(run, full, way):
    """64 processes on one host, each of which talks to all others. The number of pairs of
    processes is quadratic, so the bounded run has 32 for the ways that are not the default."""
    run(way, "crowd", "-n", 64 if full or way == "host" else 32)


@pytest.mark.parametrize("way", lab.Pair.WAYS)
def test_thousand_qps(run, way):
    """1000 QPs share one pipe, and each takes less than 64 KiB."""
    run(way, "qps", "-n", "1000")


@pytest.mark.parametrize("way", lab.Pair.WAYS)
def test_qps_come_and_go(run, full, way):
    run(way, "churn", "-e", "-n", 100000 if full else 2000, timeout=600)


@pytest.mark.parametrize("way", LOCAL_WAYS)
def test_clients_come_and_go(run, full, way):
    """Clients come one after the other; each ends, closes its descriptors or is killed."""
    run(way, "clients", "-e", "-n", 500 if full else 120, timeout=120)


# --- a hostile peer ----------------------------------------------------------

def hostile(ns, tools, user, count, seed):
    port = lab.next_port()
    words = [tools["local"], "-d", ns.dev, "-p", port]
    victim = ns.start(*words, "victim")
    attacker = ns.start(*words, "hostile", "-n", count, "-s", seed, "127.0.0.1",
                        user=user)
    for proc in (attacker, victim):
        assert proc.wait(HANGS + count) == 0 and RIGHT in proc.out, (
            attacker.describe(), victim.describe())


@pytest.mark.parametrize("way", [*LOCAL_WAYS, MAP])
@pytest.mark.parametrize("user", [
    "nobody", pytest.param(lab.SECOND_USER, marks=needs_second_user)])
def test_hostile_peer(shared_pair, tools, full, way, user):
    """A hostile peer says and writes what urnic never does; only its own QPs suffer."""
    ns, _ = shared_pair().place(way)
    for seed in range(20 if full else 1):
        hostile(ns, tools, user, 200 if full else 24, 1000 * seed + 1)


# --- memory, descriptors -----------------------------------------------------

@pytest.mark.parametrize("way", [*lab.Pair.WAYS, MAP])
@pytest.mark.parametrize("mode", ["gone", "none", "readonly", "shrunk"])
def test_memory_of_another_process_goes_away(run, mode, way):
    run(way, "unmapped", "-m", mode)


@pytest.mark.parametrize("way", lab.Pair.WAYS)
@pytest.mark.parametrize("mode", ["private", "shared", "hidden"])
def test_memory_that_is_write_protected(run, mode, way):
    """Write-protected memory is written as pinned memory would be, and no signal handler is
    called."""
    run(way, "protected", "-m", mode)


@pytest.mark.parametrize("way", [*lab.Pair.WAYS, MAP])
def test_nothing_is_written_once_deregistered(run, full, way):
    run(way, "deregistered", "-n", 5000 if full else 100, timeout=300)


@needs_second_user
@pytest.mark.parametrize("way", LOCAL_WAYS)
def test_nothing_is_written_once_a_daemon_deregisters(run, full, way):
    """A daemon that has become another user deregisters its memory; until then, root's client
    goes on to reach it."""
    run(way, "deregistered", "-m", "dropped", "-n", 5000 if full else 100,
        timeout=300, user=None)


@pytest.mark.parametrize("way", [*lab.Pair.WAYS, MAP])
def test_files_are_truncated_in_mid_traffic(run, full, way):
    """Somebody truncates the files behind regions all the time, at both ends of the requests."""
    for seed in range(30 if full else 1):
        run(way, "truncated", "-n", 20, "-s", 1 + seed, timeout=120)


@pytest.mark.parametrize("way", [*lab.Pair.WAYS, MAP])
@pytest.mark.parametrize("memory", [[], ["-S"]], ids=["private", "shared"])
def test_thousands_of_regions(run, full, memory, way):
    run(way, "regions", "-n", 50000 if full else 4000, *memory, timeout=300)


# --- private memory that is mapped -------------------------------------------

NOTICED = ["zeros", "zeros-by-number", "free", "advice", "locked", "moved", "thread",
           "timer", "queue", "aio", "lookup", "unseen-thread", "cancelled", "cloned-thread", "fork", "_Fork", "clone", "fork-by-number",
           "clone-by-number", "clone3-by-number", "vfork",
           "vfork-by-number", "forks", "fork-inside", "_Fork-inside"]


# the environment of `urnic run`, and map, which needs no library
NOTICING = {"URNIC_LOG": "info", "URNIC_LOCAL": "map",
            "LD_PRELOAD": "liburnic-map.so"}


@pytest.mark.parametrize("mode", NOTICED)
def test_program_does_not_notice(run, mode):
    """Each mode uses a call for which private memory behaves otherwise than a file's; on mapped
    memory it must behave like private memory."""
    out = run("host", "noticed", "-m", mode, env=NOTICING)
    assert MAPPED in out


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_use_of_memory(run, full, seed):
    """Whatever a program does to its memory, in random order, a model knows what it must hold
    while another process reads and writes regions of it."""
    for s in range(seed, 400 if full else seed + 1, 4):
        run("host", "model", "-n", 400, "-s", s, env=NOTICING)


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_use_of_memory_beside_threads(shared_pair, tools, full, seed):
    ns = shared_pair().a.with_(caps=("sys_ptrace",))
    for s in range(seed, 400 if full else seed + 1, 4):
        proc = ns.run(tools["local"], "-d", ns.dev, "model", "-n", 400, "-s", s, timeout=HANGS,
                      env={**NOTICING, "URNIC_MAP_THREADS": "yes",
                           "URNIC_TEST_CAPS": "sys_ptrace"})
        assert RIGHT in proc.out and "beside running threads" in proc.out, proc.describe()


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_memory_is_mapped_beside_running_threads(shared_pair, tools, full, threads):
    """Threads and their system calls store to memory while it is registered, while another process
    uses it, while a child is made, and afterwards."""
    ns = shared_pair().a.with_(caps=("sys_ptrace",))
    for _ in range(30 if full else 1):
        proc = ns.run(tools["local"], "-d", ns.dev, "beside", "-n", threads, timeout=HANGS,
                      env={**NOTICING, "URNIC_MAP_THREADS": "yes"})
        assert RIGHT in proc.out and MAPPED in proc.out, proc.describe()
        assert "beside running threads, by userfaultfd" in proc.out


STORMS = ["nothing", "fork", "exec", "vfork", "spawn", "clone", "malloc", "heap", "signal", "begin", "stack",
          "close", "empty", "protect", "lock", "huge", "direct", "limit",
          "sem", "mutex", "private", "shared"]


def run_storm(ns, tools, mode, threads, rounds, before=""):
    proc = ns.run(tools["local"], "-d", ns.dev, "storm", "-m", mode, "-k", threads, "-n", rounds,
                  timeout=HANGS * (1 + rounds // 8),
                  env={**NOTICING, "LD_PRELOAD": NOTICING["LD_PRELOAD"] + before,
                       "URNIC_MAP_THREADS": "yes"})
    assert RIGHT in proc.out, proc.describe()
    return int(re.search(r"mapped in (\d+) of", proc.out)[1])


@pytest.mark.parametrize("mode", STORMS)
def test_storm_beside_registration(shared_pair, tools, full, mode):
    """Whatever a thread does while memory is registered that others store to, no store is lost and
    nobody sleeps for ever. Memory where threads sleep by the page stays private."""
    ns = shared_pair().a.with_(caps=("sys_ptrace",))
    for threads in (1, 2, 16) if full else (2,):
        rounds = 64 if full else 3
        mapped = run_storm(ns, tools, mode, threads, rounds)
        if mode in ("nothing", "fork", "malloc", "heap", "private"):
            assert mapped > rounds / 2
        if mode in ("sem", "mutex"):
            assert mapped == 0


@pytest.mark.full
@pytest.mark.parametrize("mode", ["time", "stop", "wait"])
def test_dies_or_stops_while_memory_is_mapped_beside_threads(shared_pair, tools, full, mode):
    """A process that registers private memory, which its threads store to, is killed or stopped at
    any moment of that. If it goes on, no store is lost; its peer gets an error at most. (Of a
    process with a tracer, which could stop it at each system call, nothing is mapped so.)"""
    ns = shared_pair().a.with_(caps=("sys_ptrace",))
    count, step = POINTS[mode]
    for threads in (1, 2, 16) if full else (2,):
        proc = ns.run(tools["local"], "-d", ns.dev, "deaths", "-m", mode, "-t", threads,
                      "-n", count * 10 if full else count, "-k", step,
                      timeout=900, env={**NOTICING, "URNIC_MAP_THREADS": "yes"})
        assert RIGHT in proc.out, proc.describe()
        assert int(re.search(r"(\d+) pieces were mapped", proc.out)[1]) > count, proc.describe()


@pytest.mark.parametrize("allocator", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_storm_with_an_allocator(shared_pair, tools, full, allocator):
    if not shutil.which("ldconfig") or allocator not in subprocess.run(
            ["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout:
        pytest.skip(f"{allocator} is not installed")
    ns = shared_pair().a.with_(caps=("sys_ptrace",))
    for threads in (1, 2, 16) if full else (2,):
        assert run_storm(ns, tools, "malloc", threads, 64 if full else 3, ":" + allocator)


def test_without_the_right_memory_stays_private_beside_threads(run):
    out = run("host", "before", "-m", "nothing", env={**NOTICING, "URNIC_MAP_THREADS": "yes"})
    assert "beside running threads: Operation not permitted" in out


@pytest.mark.parametrize("words,memory", [
    (("run", "--"), "a file's"), (("run", "-L", "vm", "--"), "private"),
    (("run", "-L", "pipe", "--"), "private"), (("run", "-L", "map", "--"), "a file's"),
    ((), "private")])
def test_urnic_run_maps_private_memory(shared_pair, tools, words, memory):
    """Programs that `urnic run` starts share private memory, unless a lesser way was asked for.
    Programs that find urnic by LD_LIBRARY_PATH alone do not."""
    ns = shared_pair().a
    argv = [ns.stage.urnic, *words] if words else []
    out = ns.run(*argv, tools["local"], "-d", ns.dev, "before", "-m", "nothing",
                 library=not words).out
    assert f"its region is {memory}" in out and RIGHT in out


@pytest.mark.parametrize("mode", ["nothing", "clone", "clone-by-number", "userfaultfd",
                                  "deep", "namespace", "chroot", "traced"])
def test_what_was_done_before_the_first_device_counts(run, tools, mode):
    """Memory stays private if, before the first device is opened, something exists that could
    touch memory without urnic's notice."""
    out = run("host", "before", "-m", mode,
              env={**NOTICING, "URNIC_TEST_LOADS": tools["libloading.so"]})
    assert ("its region is a file's" in out) == (mode == "nothing")


@pytest.mark.parametrize("mode", ["ring", "lock", "ring-thread", "lock-thread", "partial"])
def test_what_is_done_after_a_registration(run, mode):
    """What keeps memory private if it is done before a registration does not keep it a file's if it
    is done afterwards."""
    run("host", "late", "-m", mode, env=NOTICING)


def test_deregistrations_beside_pages_that_stay(run):
    """While pages must stay a file's, deregistrations do not cost what grows with the process."""
    run("host", "late", "-m", "cost", env={"URNIC_LOCAL": "map"})


@pytest.mark.parametrize("preload", ["", "liburnic-map.so"])
def test_memory_of_a_sanitized_heap_stays_private(shared_pair, tools, preload):
    """AddressSanitizer reports no store of urnic's to memory that the program has freed."""
    ns = shared_pair().a
    env = {**NOTICING, "LD_PRELOAD": preload,
           "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    proc = ns.run(tools["freed"], "-d", ns.dev, "freed", env=env)
    assert RIGHT in proc.out and "AddressSanitizer" not in proc.out, proc.describe()
    assert "the program has a sanitizer" in proc.out


def test_what_is_told_is_told_first(run, tools):
    """If another library's constructor runs before that of liburnic-map.so, memory
    stays private."""
    both = f"liburnic-map.so:{tools['libfirst.so']}"
    out = run("host", "before", "-m", "nothing", env={**NOTICING, "LD_PRELOAD": both})
    assert "its region is private" in out
    assert "another preloaded library comes before it" in out


def test_first_calls_do_not_wait_for_the_loader(run, tools):
    """A thread in dlopen() holds the loader's lock while it waits for another thread's first
    madvise() or mlock(), which therefore must not need that lock."""
    run("host", "loads", env={**NOTICING, "URNIC_TEST_LOADS": tools["libloading.so"]})


# --- memory that is shared already -------------------------------------------

MAPPED = "carried out by the threads that posted them"
ON_SHARED = {
    "unmapped-shrunk": ("unmapped", "-m", "shrunk"),
    "unmapped-blocked": ("unmapped", "-m", "blocked"),
    "unmapped-handled": ("unmapped", "-m", "handled"),
    "deregistered": ("deregistered", "-n", "100"),
    "killed": ("deaths", "-m", "time", "-n", "60", "-k", "7"),
    "killed-at-work": ("deaths", "-m", "work", "-n", "60", "-k", "3"),
    "stopped": ("deaths", "-m", "stop", "-n", "30", "-k", "5"),
    "forked": ("forked", "-m", "fork", "-n", "30"),
    "crowd": ("crowd", "-n", "16"),
}


@pytest.mark.parametrize("what", ON_SHARED)
def test_on_memory_that_is_shared(run, what):
    """On shared memory the process that posts a request executes it; all else, such as errors,
    deaths and forks, is as on private memory."""
    out = run("host", *ON_SHARED[what], "-S", timeout=300, env={"URNIC_LOG": "info"})
    if what != "crowd":  # each of the crowd posts too few requests
        assert MAPPED in out


def test_nothing_is_left(shared_pair, tools):
    """Killed processes leave no socket name and no shared memory behind."""
    ns, _ = shared_pair().place("host")
    proc = ns.start(tools["local"], "-d", ns.dev, "churn", "-n", "1000000")
    assert eventually(lambda: len(urnic_names(ns)) >= 2)
    proc.kill()
    assert eventually(lambda: urnic_names(ns) == [])


# --- both ways at once -------------------------------------------------------

@pytest.mark.parametrize("way", LOCAL_WAYS)
def test_local_and_wire_share_a_cq_an_srq_and_a_counter(run, way):
    run(way, "mixed")
