# SPDX-License-Identifier: BSD-2-Clause
"""What the system tests stand on: network namespaces, and unprivileged programs in them.

A test's programs run as user nobody without capabilities, with 64 KiB of lockable memory, from a
copy of build/ that every user may read.  Inside a user namespace (scripts/system-tests) there is
no user nobody: there the programs run as the namespace's root, with every capability dropped.
"""

import copy
import itertools
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
IN_USERNS = os.environ.get("URNIC_IN_USERNS") == "1"
# URNIC_LOCAL for programs whose test leaves it at its default, "auto".
LOCAL = os.environ.get("URNIC_TEST_LOCAL", "auto")
# Capabilities (sys_ptrace,net_raw) that programs of tests have beside those that the test gives.
CAPS = tuple(filter(None, os.environ.get("URNIC_TEST_CAPS", "").split(",")))
CAN_NAMESPACE = os.geteuid() == 0
SECOND_USER = "games"
HANGS = 60      # seconds; on the slowest machine, a step that takes longer hangs

needs_second_user = pytest.mark.skipif(IN_USERNS, reason="a user namespace has one user")

NO_CORE = "--core=0:0"
PREFIX = "/usr/bin/prlimit", "--memlock=65536:65536", NO_CORE, "--"
DROP_CAPS = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs",
             "--pdeathsig=KILL")
NOBODY = "/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"


def unprivileged(user="nobody", caps=()):
    """The command words that start a program as an ordinary user with the capabilities in `caps`
    (such as net_raw) and no others."""
    more = "".join(f",+{cap}" for cap in caps)
    drop = [w.replace("-all", f"-all{more}") for w in DROP_CAPS]
    if IN_USERNS:
        return [*PREFIX, "/usr/bin/setpriv", *drop]
    who = NOBODY if user == "nobody" else (
        "/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return [*PREFIX, *who, *drop, *([f"--ambient-caps=-all{more}"] if caps else [])]


PERFTEST = re.compile(r"ib_(send|write|read|atomic)_(bw|lat)|raw_ethernet_\w+")


def clock_forgiven(argv):
    """The command with perftest's option -F.  perftest compares its clock with the processor's
    when it has measured.  A busy machine can spoil the comparison; without -F the program then
    ends with 1 and prints no report, with -F its times are inf and its rates 0."""
    for i, word in enumerate(map(str, argv)):
        if PERFTEST.fullmatch(word) and "-F" not in argv:
            return [*argv[:i + 1], "-F", *argv[i + 1:]]
    return argv


class Stage:
    """A copy of the built libraries and of urnic, where user nobody can read it."""

    def __init__(self, build=ROOT / "build"):
        missing = [f for f in ("lib/libibverbs.so.1", "urnic")
                   if not (build / f).exists()]
        if missing:
            raise FileNotFoundError(f"{build} lacks {missing}: run make tests")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="urnic-test-"))
        self.lib = self.path / "lib"
        shutil.copytree(build / "lib", self.lib, symlinks=True)
        shutil.copy(build / "urnic", self.path)
        self.urnic = self.path / "urnic"
        self.tmp = self.path / "tmp"
        self.tmp.mkdir()
        for folder in (self.path, self.lib):
            folder.chmod(0o755)
        self.tmp.chmod(0o1777)

    def tool(self, name):
        """The path of a copy of the built program tests/`name`, which every user may run."""
        path = self.path / name.replace("/", "-")
        if not path.exists():
            shutil.copy(ROOT / "build/obj/tests" / name, path)
        return path

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Proc:
    """A program started in `place`, a Namespace or a PeerVM; its output goes to a file."""

    def __init__(self, argv, env, stdin=None, place=None):
        self.argv = [str(a) for a in argv]
        self.place = place
        self.file = tempfile.TemporaryFile()
        # In no session of its own: Linux schedules sessions as groups (autogroup), and 6.18 leaves
        # those almost no time beside one of which a thread runs and another wakes each ms.
        self.popen = subprocess.Popen(
            self.argv, env=env, stdin=stdin or subprocess.DEVNULL,
            stdout=self.file, stderr=subprocess.STDOUT, cwd="/",
            process_group=0)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def out(self):
        """The program's output so far.  It is read by pread(), because the program writes at the
        file position that it shares with this process."""
        fd = self.file.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        """Send the signal to the program itself and not to the unshare in front of it, which has
        the program as a child and ignores SIGTERM."""
        pid = self.pid
        if "unshare" in self.argv and self.running():
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
            pid = int(children) if children else pid
        if self.running():
            os.kill(pid, number)

    def wait(self, timeout):
        """Return the exit status, or None after killing a program that did not end within
        `timeout`."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()

    def wait_udp(self, port):
        """Wait until this process, or another one of its namespace, has bound this UDP port."""
        self.wait_listening(port, tables=("udp", "udp6"), state="07")

    def wait_listening(self, port, timeout=HANGS, tables=("tcp", "tcp6"), state="0A"):
        """Wait until this process, or another one of its namespace, listens on this TCP port."""
        end = time.monotonic() + timeout
        want = f":{port:04X} "
        while time.monotonic() < end and self.running():
            for table in tables:
                try:
                    lines = pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text()
                except OSError:
                    continue
                # f[1] is the local address, f[2] the remote one, f[3] the state; 0A is LISTEN
                if any(want in f"{f[1]} " and f[3] == state
                       for f in map(str.split, lines.splitlines()[1:])):
                    return
            time.sleep(0.01)
        raise AssertionError(f"not listening on {port}: {self.describe()}")

    def wait_output(self, text, timeout=HANGS):
        end = time.monotonic() + timeout
        running = True
        while running and time.monotonic() < end:
            running = self.running()    # first, so that its last output counts
            if text in self.out:
                return
            time.sleep(0.01)
        raise AssertionError(f"no {text!r} in: {self.describe()}")

    def dump(self):
        """The output of `urnic dump` for this process, run as the process's own user, since the
        process answers no other user."""
        uid = os.stat(f"/proc/{self.pid}").st_uid
        dump = self.place.start(self.place.stage.urnic, "dump", str(self.pid),
                                user=pwd.getpwuid(uid).pw_name if uid else None)
        dump.wait(HANGS)
        return dump.out

    def wait_dump(self, pattern, timeout=HANGS):
        """Return the first dump that matches the pattern; the program need not have opened a
        device yet."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.running():
            out = self.dump()
            if re.search(pattern, out, re.M):
                return out
        raise AssertionError(f"no {pattern!r} in a dump of: {self.describe()}\n{self.dump()}")

    @property
    def last(self):
        """The last line of the program's output that is not empty."""
        return next((line.strip() for line in reversed(self.out.splitlines())
                     if line.strip()), "")

    def describe(self):
        """Exit status and last line come first, since pytest's summary shows only the first line
        of a failure."""
        rc = self.popen.poll()
        return f"[exit status {rc}] {self.last}\n{' '.join(self.argv)}\n{self.out}"


_count = itertools.count()


class Namespace:
    """A network namespace."""

    def __init__(self, stage):
        self.stage = stage
        self.name = f"ur{os.getpid()}n{next(_count)}"
        self.procs = []
        self.extra = {}
        self.user = "nobody"
        self.caps = ()
        self.memlock = "65536:65536"
        self.cores = False      # whether programs may leave a core
        self.outer, self.inner = [], []     # command words before and after those of setpriv
        _ip("netns", "add", self.name)
        try:
            self.sh("echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad;"
                    "echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad;"
                    "ip link set lo up")
        except BaseException:
            self.remove()
            raise

    def sh(self, script):
        """Run a shell script in the namespace with the tests' own privileges."""
        return subprocess.run(
            ["ip", "netns", "exec", self.name, "sh", "-euc", script],
            check=True, text=True, stdout=subprocess.PIPE).stdout

    def enter(self):
        return ["ip", "netns", "exec", self.name]

    def start(self, *argv, env=None, user="nobody", library=True, stdin=None):
        """Start a program in the namespace; with user=None it has the tests' own privileges."""
        if user == "nobody":
            user = self.user
        words = [*self.enter(), *self.outer, *(unprivileged(user, {*self.caps, *CAPS}) if user else []),
                 *self.inner, *clock_forgiven(argv)]
        words = [f"--memlock={self.memlock}" if w == PREFIX[1] else w for w in words]
        if self.cores:
            words = [w for w in words if w != NO_CORE]
        proc = Proc(words, self.environment(env, library), stdin, self)
        self.procs.append(proc)
        return proc

    def with_(self, **changes):
        other = copy.copy(self)
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def with_env(self, **env):
        """The same namespace, where programs get these environment variables in addition."""
        return self.with_(extra={**self.extra, **env})

    def environment(self, extra=None, library=True):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
               "HOME": "/nonexistent", "LC_ALL": "C.UTF-8",
               "TMPDIR": str(self.stage.tmp)}
        if library:
            env["LD_LIBRARY_PATH"] = str(self.stage.lib)
        if CAPS:
            env["URNIC_TEST_CAPS"] = ",".join(CAPS)
            if "URNIC_MAP_THREADS" in os.environ:
                env["URNIC_MAP_THREADS"] = os.environ["URNIC_MAP_THREADS"]
        env.update({**self.extra, **(extra or {})})
        if library and env.get("URNIC_LOCAL", "auto") == "auto" != LOCAL:
            env["URNIC_LOCAL"] = LOCAL
            if LOCAL == "map":      # as `urnic run` does
                env["LD_PRELOAD"] = ":".join(filter(None, (
                    str(self.stage.lib / "liburnic-map.so"), env.get("LD_PRELOAD"))))
        return env

    def run(self, *argv, timeout=HANGS, check=True, **kw):
        proc = self.start(*argv, **kw)
        rc = proc.wait(timeout)
        assert rc is not None, f"no end after {timeout} s: {proc.describe()}"
        if check:
            assert rc == 0, proc.describe()
        return proc

    def reap(self):
        for proc in self.procs:
            if proc.running():
                proc.kill()
            proc.file.close()
        self.procs.clear()

    def remove(self):
        self.reap()
        subprocess.run(["ip", "netns", "del", self.name], check=False)


class Pair:
    """Two namespaces, a and b, joined by a veth pair: eth0 in each.

    GID 0 of each is its link-local address, GID 1 its IPv4 address, GID 2 its fd.. address.
    """

    GIDS = {"ll": 0, "v4": 1, "v6": 2}

    # Places for two processes: "pair" puts them into the two namespaces; each of WAYS puts both
    # on one host and sets URNIC_LOCAL to its value.
    WAYS = {"host": "auto", "pipe": "pipe", "udp": "off"}
    # Processes of one host that are kept apart: as two users, in two pid namespaces, or with
    # process_vm_* forbidden by seccomp.
    APART = ["users", "pids", "seccomp"]
    PLACES = ["pair", *WAYS, *(pytest.param(p, marks=pytest.mark.full)
                               for p in ("vm", *APART))]

    def place(self, name):
        """The namespaces of the server and of the client at the place of that name."""
        a = self.a
        if name == "pair":
            return a, self.b
        if name == "users":
            if IN_USERNS:
                pytest.skip("a user namespace has one user")
            return a, a.with_(user=SECOND_USER)
        if name == "pids":
            return a, a.with_(outer=["unshare", "--pid", "--fork", "--kill-child"])
        if name in ("seccomp", "docker"):
            how = {"seccomp": "eperm"}.get(name, name)
            a = a.with_(inner=[a.stage.tool("local/deny"), how])
            return a, a
        a = a.with_env(URNIC_LOCAL=self.WAYS.get(name, name))
        return a, a

    def __init__(self, stage, mtu=1500):
        self.mtu = mtu
        self.a = Namespace(stage)
        try:
            self.b = Namespace(stage)
        except BaseException:
            self.a.remove()
            raise
        try:
            self._connect()
        except BaseException:
            self.remove()
            raise

    def _connect(self):
        _ip("link", "add", "eth0", "netns", self.a.name, "mtu", str(self.mtu),
            "type", "veth", "peer", "name", "eth0", "netns", self.b.name,
            "mtu", str(self.mtu))
        self._address()

    def _address(self):
        """Give eth0 of each namespace its addresses, and wait until they can be used."""
        for n, ns in enumerate((self.a, self.b), 1):
            ns.ip4, ns.ip6, ns.dev = f"10.88.0.{n}", f"fd88::{n}", "roce_eth0"
            ns.sh(f"ip addr add {ns.ip4}/24 dev eth0;"
                  f"ip addr add {ns.ip6}/64 dev eth0 nodad;"
                  "ip link set eth0 up")
        for ns in (self.a, self.b):
            # the kernel reports a new link's carrier up to a second late
            assert eventually(lambda ns=ns: "state UP" in ns.sh("ip link show dev eth0"))
            assert eventually(lambda ns=ns: "fe80::" in ns.sh(
                "ip -6 -o addr show dev eth0 scope link -tentative"))

    def reap(self):
        self.a.reap()
        self.b.reap()

    def remove(self):
        self.a.remove()
        self.b.remove()


def uid(ns, user):
    return int(ns.sh(f"id -u {user}"))


def urnic_names(ns):
    """The socket names and the UDP port that urnic's processes hold in the namespace."""
    return ns.sh("ss -xlnH | grep -o 'urnic/[0-9]*' || true; "
                 "ss -ulnH 'sport = 4791'").split("\n")[:-1]


def constant(path, name):
    """The value of an enumerator, read from the source file."""
    return re.search(rf"\b{name} = (\d+)", (ROOT / path).read_text())[1]


def eventually(true, timeout=HANGS, step=0.02):
    end = time.monotonic() + timeout
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


_port = itertools.count(18600)


def next_port():
    """A TCP port for a program's own exchange; no port is given twice."""
    return next(_port)


def says_nothing(*procs):
    """Assert that urnic says of no program that a request has failed or that it hangs."""
    for proc in procs:
        assert not re.search(r"urnic\[\d+\] warn: .*(later failures are not|for 1 s|waits: the program)",
                             proc.out), proc.describe()


def both_ended_well(client, rc, server, src):
    """Assert that both programs exited with 0.  The message's first line, the only one in
    pytest's summary, has both exit statuses and last lines."""
    assert rc == 0 and src == 0, (
        f"client: {'no end' if rc is None else rc} ({client.last[:50]}), "
        f"server: {'no end' if src is None else src} ({server.last[:50]})\n"
        f"client: {client.describe()}\nserver: {server.describe()}")
    says_nothing(client, server)


def run_both(server_ns, client_ns, argv, connect, *, env=None, timeout=HANGS,
             port=None, port_option="-p", server_argv=None):
    """Run a program as server and as client, assert that both exit with 0, and return (server,
    client)."""
    port = port or next_port()
    words = [argv[0], port_option, str(port), *argv[1:]]
    swords = [*server_argv[:1], port_option, str(port), *server_argv[1:]] \
        if server_argv else words
    server = server_ns.start(*swords, env=env)
    server.wait_listening(port)
    client = client_ns.start(*words, connect, env=env)
    rc = client.wait(timeout)
    both_ended_well(client, rc, server, server.wait(HANGS if rc == 0 else 1))
    return server, client
