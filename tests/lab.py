# SPDX-License-Identifier: BSD-2-Clause
"""What the system tests stand on: namespaces, and unprivileged programs in them.

A test's programs run as user nobody without capabilities, with 64 KiB of
lockable memory, from a copy of build/ that everybody may read.  Inside a user
namespace (scripts/system-tests) there is no user nobody: they run as its root
with every capability dropped.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
IN_USERNS = os.environ.get("URNIC_IN_USERNS") == "1"
# URNIC_LOCAL of the programs of tests that leave it at its default, "auto".
LOCAL = os.environ.get("URNIC_TEST_LOCAL", "auto")
CAN_NAMESPACE = os.geteuid() == 0
SECOND_USER = "games"
HANGS = 60      # seconds that nothing takes which does not hang, on the slowest machine

PREFIX = "/usr/bin/prlimit", "--memlock=65536:65536", "--core=0:0", "--"
DROP_CAPS = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs",
             "--pdeathsig=KILL")
NOBODY = "/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"


def unprivileged(user="nobody", caps=()):
    """The words before a program that make it an ordinary user's, who has these
    capabilities (net_raw) and no others."""
    more = "".join(f",+{cap}" for cap in caps)
    drop = [w.replace("-all", f"-all{more}") for w in DROP_CAPS]
    if IN_USERNS:
        return [*PREFIX, "/usr/bin/setpriv", *drop]
    who = NOBODY if user == "nobody" else (
        "/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return [*PREFIX, *who, *drop, *([f"--ambient-caps=-all{more}"] if caps else [])]


class Stage:
    """A copy of what was built, where user nobody can read it."""

    def __init__(self, build=ROOT / "build"):
        missing = [f for f in ("lib/libibverbs.so.1", "urnic")
                   if not (build / f).exists()]
        if missing:
            raise FileNotFoundError(f"{build} lacks {missing}: run make tests")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="urnic-test-"))
        self.lib = self.path / "lib"
        shutil.copytree(build / "lib", self.lib)
        shutil.copy(build / "urnic", self.path)
        self.urnic = self.path / "urnic"
        self.tmp = self.path / "tmp"
        self.tmp.mkdir()
        for folder in (self.path, self.lib):
            folder.chmod(0o755)
        self.tmp.chmod(0o1777)

    def tool(self, name):
        """A program of tests/, where everybody may run it."""
        path = self.path / name.replace("/", "-")
        if not path.exists():
            shutil.copy(ROOT / "build/obj/tests" / name, path)
        return path

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Proc:
    """A program that was started in `place`; its output goes to a file."""

    def __init__(self, argv, env, stdin=None, place=None):
        self.argv = [str(a) for a in argv]
        self.place = place
        self.file = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(
            self.argv, env=env, stdin=stdin or subprocess.DEVNULL,
            stdout=self.file, stderr=subprocess.STDOUT, cwd="/",
            start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def out(self):
        """Read in place: the program shares the file's position, and writes there."""
        fd = self.file.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        """To the program itself: unshare, which has a child, ignores SIGTERM."""
        pid = self.pid
        if "unshare" in self.argv and self.running():
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
            pid = int(children) if children else pid
        if self.running():
            os.kill(pid, number)

    def wait(self, timeout):
        """The exit status; None, and killed, if it did not end in time."""
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
        """Until this process, or another of its namespace, has this port of UDP."""
        self.wait_listening(port, tables=("udp", "udp6"), state="07")

    def wait_listening(self, port, timeout=HANGS, tables=("tcp", "tcp6"), state="0A"):
        """Until this process, or another of its namespace, listens on TCP."""
        end = time.monotonic() + timeout
        want = f":{port:04X} "
        while time.monotonic() < end and self.running():
            for table in tables:
                try:
                    lines = pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text()
                except OSError:
                    continue
                # local address, remote address, state 0A is LISTEN
                if any(want in f"{f[1]} " and f[3] == state
                       for f in map(str.split, lines.splitlines()[1:])):
                    return
            time.sleep(0.01)
        raise AssertionError(f"not listening on {port}: {self.describe()}")

    def wait_output(self, text, timeout=HANGS):
        end = time.monotonic() + timeout
        running = True
        while running and time.monotonic() < end:
            running = self.running()    # what it writes before it ends counts
            if text in self.out:
                return
            time.sleep(0.01)
        raise AssertionError(f"no {text!r} in: {self.describe()}")

    def dump(self):
        """What `urnic dump` says of it, as its own user: no other is told."""
        uid = os.stat(f"/proc/{self.pid}").st_uid
        dump = self.place.start(self.place.stage.urnic, "dump", str(self.pid),
                                user=pwd.getpwuid(uid).pw_name if uid else None)
        dump.wait(HANGS)
        return dump.out

    def wait_dump(self, pattern, timeout=HANGS):
        """The first dump that the pattern is found in; from before it opened a device on."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and self.running():
            out = self.dump()
            if re.search(pattern, out, re.M):
                return out
        raise AssertionError(f"no {pattern!r} in a dump of: {self.describe()}\n{self.dump()}")

    @property
    def last(self):
        """The last line of its output that is not empty."""
        return next((line.strip() for line in reversed(self.out.splitlines())
                     if line.strip()), "")

    def describe(self):
        """The end first: of a failure, a summary shows one line."""
        rc = self.popen.poll()
        return f"[exit status {rc}] {self.last}\n{' '.join(self.argv)}\n{self.out}"


_count = itertools.count()


class Namespace:
    """A network namespace; `eth` names its interfaces, if it has any."""

    def __init__(self, stage):
        self.stage = stage
        self.name = f"ur{os.getpid()}n{next(_count)}"
        self.procs = []
        self.extra = {}
        self.user = "nobody"
        self.caps = ()
        self.outer, self.inner = [], []     # words around setpriv's
        _ip("netns", "add", self.name)
        try:
            self.sh("echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad;"
                    "echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad;"
                    "ip link set lo up")
        except BaseException:
            self.remove()
            raise

    def sh(self, script):
        """Run a shell script here with the tests' own privilege."""
        return subprocess.run(
            ["ip", "netns", "exec", self.name, "sh", "-euc", script],
            check=True, text=True, stdout=subprocess.PIPE).stdout

    def enter(self):
        return ["ip", "netns", "exec", self.name]

    def start(self, *argv, env=None, user="nobody", library=True, stdin=None):
        """Start a program here; user None: with the tests' own privilege."""
        if user == "nobody":
            user = self.user
        words = [*self.enter(), *self.outer, *(unprivileged(user, self.caps) if user else []),
                 *self.inner, *argv]
        proc = Proc(words, self.environment(env, library), stdin, self)
        self.procs.append(proc)
        return proc

    def with_(self, **changes):
        other = copy.copy(self)
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def with_env(self, **env):
        """The same namespace, in which programs get these variables, too."""
        return self.with_(extra={**self.extra, **env})

    def environment(self, extra=None, library=True):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
               "HOME": "/nonexistent", "LC_ALL": "C.UTF-8",
               "TMPDIR": str(self.stage.tmp)}
        if library:
            env["LD_LIBRARY_PATH"] = str(self.stage.lib)
        env.update({**self.extra, **(extra or {})})
        if library and env.get("URNIC_LOCAL", "auto") == "auto" != LOCAL:
            env["URNIC_LOCAL"] = LOCAL
            if LOCAL == "map":      # as `urnic run -L map` does
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
    """Two namespaces, a and b, and a veth pair: eth0 in each.

    GID 0 of either is its link-local address, 1 IPv4, 2 the fd.. address.
    """

    GIDS = {"ll": 0, "v4": 1, "v6": 2}

    # Where two processes may stand: in two namespaces, or on one host, by each
    # way that there is.
    WAYS = {"host": "auto", "pipe": "pipe", "udp": "off"}
    # ... and processes of one host that are set apart: two users', in two pid
    # namespaces, without process_vm_* (seccomp).
    APART = ["users", "pids", "seccomp"]
    PLACES = ["pair", *WAYS, *(pytest.param(p, marks=pytest.mark.full)
                               for p in ("vm", *APART))]

    def place(self, name):
        """The namespaces of a server and of a client."""
        a = self.a
        if name == "pair":
            return a, self.b
        if name == "users":
            if IN_USERNS:
                pytest.skip("a user namespace has one user")
            return a, a.with_(user=SECOND_USER)
        if name == "pids":
            return a, a.with_(outer=["unshare", "--pid", "--fork", "--kill-child"])
        if name == "seccomp":
            a = a.with_(inner=[a.stage.tool("local/deny"), "eperm"])
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
        for n, ns in enumerate((self.a, self.b), 1):
            ns.ip4, ns.ip6, ns.dev = f"10.88.0.{n}", f"fd88::{n}", "roce_eth0"
            ns.sh(f"ip addr add {ns.ip4}/24 dev eth0;"
                  f"ip addr add {ns.ip6}/64 dev eth0 nodad;"
                  "ip link set eth0 up")
        for ns in (self.a, self.b):
            # the kernel tells of a new link's carrier up to a second late
            assert eventually(lambda ns=ns: "state UP" in ns.sh("ip link show dev eth0"))
            assert eventually(lambda ns=ns: "fe80::" in ns.sh(
                "ip -6 -o addr show dev eth0 scope link -tentative"))

    def reap(self):
        self.a.reap()
        self.b.reap()

    def remove(self):
        self.a.remove()
        self.b.remove()


def constant(path, name):
    """The value of an enum's constant, as the source has it."""
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
    """A TCP port for a program's own exchange, never given twice."""
    return next(_port)


def both_ended_well(client, rc, server, src):
    """The first line is all that a summary shows: it says how each ended, and its last word."""
    assert rc == 0 and src == 0, (
        f"client: {'no end' if rc is None else rc} ({client.last[:50]}), "
        f"server: {'no end' if src is None else src} ({server.last[:50]})\n"
        f"client: {client.describe()}\nserver: {server.describe()}")


def run_both(server_ns, client_ns, argv, connect, *, env=None, timeout=HANGS,
             port=None, port_option="-p", server_argv=None):
    """A program as server and as client: returns (server, client), both well."""
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
