# SPDX-License-Identifier: BSD-2-Clause
"""The peer VM (tests/peer-vm) as a fixture of the tests: a guest with Linux's rdma_rxe and siw."""

import os
import pathlib
import shlex
import shutil
import subprocess
import tarfile
import tempfile

import lab

SCRIPT = lab.ROOT / "tests/peer-vm/peer-vm"

# Run in the guest: start $command in the background, and print its job number once $listens
# holds.
START = """
job=$(peer-bg "timeout $seconds $command")
n=0
until eval "$listens"; do
    n=$((n + 1))
    if [ $n -gt 2000 ] || [ -e /run/bg/$job.rc ]; then
        cat /run/bg/$job.log >&2
        exit 1
    fi
    usleep 20000
done
echo $job
"""
# Shell conditions that hold once a server listens on the port, by TCP or by rdma_cm.
TCP = "ss -Hltn 'sport = :{port}' | grep -q ."
RDMA = "rdma res show cm_id | grep -q 'LISTEN.*:{port} '"

FINISH = """
n=0
until [ -e /run/bg/$job.rc ]; do
    n=$((n + 1))
    if [ $n -gt $((50 * seconds)) ]; then
        echo '[no end]'
        kill $(cat /run/bg/$job.pid)
        break
    fi
    usleep 20000
done
cat /run/bg/$job.log
exit $(cat /run/bg/$job.rc || echo 124)
"""


# Unpacks at / what pack() has packed.  A library that the guest has already stays the guest's.
UNPACK = ("cd / && tar xf - && cd /opt/lib && for l in *; do "
          "[ -e /usr/lib/x86_64-linux-gnu/$l ] || mv $l /usr/lib/x86_64-linux-gnu/; done")

# Show what rxe and the guest's interface have counted, and what waits in its queue.
COUNTED = "rdma statistic show link rxe0/1; tc -s qdisc show dev eth0; ip -s link show eth0"


def libraries(files, env=None):
    """The shared libraries that these files need, as paths of this host."""
    out = subprocess.run(["ldd", *files], check=False, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}).stdout
    return {pathlib.Path(line.split("=> ")[1].split()[0])
            for line in out.splitlines() if "=> /" in line}


def pack(path, files, needed, fit=None):
    """Pack what PeerVM.unpack() unpacks at /: {place in the guest: file or folder}, and the
    libraries that these need."""
    with tarfile.open(path, "w", dereference=True) as tar:
        for place, file in files.items():
            tar.add(file, place, filter=fit)
        for library in needed:
            tar.add(library, f"opt/lib/{library.name}")


def cache():
    """The folder that keeps the image between runs: in the user's cache if possible, else in
    build/."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = pathlib.Path(home) / "urnic" / "peer-vm"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return place
    except OSError:
        pass
    return lab.ROOT / "build" / "peer-vm"


class PeerVM:
    """A guest with rxe0 (or several, joined to each other) and, on the host's side, a namespace
    that is joined to it."""

    DEV, RXE = "roce_roce0", "rxe0"
    HOST, GUEST = "10.77.0.1", "10.77.0.11"      # the control interface, not the one for RDMA
    GIDS = {"ll": 0, "v4": 1, "v6": 2}
    HOST_ADDRESSES = {"10.77.1.1", "fd77:1::1"}

    def __init__(self, stage, mtu, guests=1, **settings):
        """`settings` are environment variables of the peer-vm script."""
        self.stage, self.mtu, self.settings = stage, mtu, settings
        self.path_mtu = 4096 if mtu >= 4200 else 1024
        image = cache()
        self._script("build", state=image, timeout=1200)
        # This run has its own state, but uses the image that all runs share.
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="urnic-vm-"))
        (self.state / "image").symlink_to(image / "image")
        self.procs = []
        try:
            self._script("up", str(guests), timeout=300)
        except BaseException:
            self.down()
            raise

    def _env(self, state=None):
        return {**os.environ, **self.settings, "PEER_VM_DIR": str(state or self.state),
                "PEER_VM_MTU": str(self.mtu)}

    def _script(self, *words, state=None, timeout=60, check=True):
        done = subprocess.run([SCRIPT, *words], env=self._env(state), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout)
        if check:
            assert done.returncode == 0, f"peer-vm {words}: {done.stdout}"
        return done

    def guest(self, command, timeout=2 * lab.HANGS, n=1):
        """Run a shell command in guest n; return (exit status, output)."""
        done = self._script("run", "-g", str(n), command, timeout=timeout, check=False)
        return done.returncode, done.stdout

    def answers(self):
        """Whether the guest still does what it is told."""
        try:
            return self._script("run", "true", check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def counted(self):
        """Why a run failed may show here, if the guest still answers."""
        return self.guest(COUNTED)[1] if self.answers() else "the guest does not answer"

    def feed(self, command, file, timeout=120, n=1):
        """Run a shell command in guest n with `file` as its input."""
        return subprocess.run([SCRIPT, "run", "-g", str(n), "-i", command], env=self._env(), text=True,
                              stdin=file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout, check=False)

    def unpack(self, path, n=1):
        """Unpack a file of pack() in guest n."""
        with open(path, "rb") as file:
            done = self.feed(UNPACK, file, n=n)
        assert done.returncode == 0, done.stdout

    def serve(self, command, port, listens=RDMA, seconds=60):
        """Start a server in the guest, wait until it listens, and return its job for finish()."""
        words = {"command": command, "seconds": seconds, "listens": listens.format(port=port)}
        script = "".join(f"{k}={shlex.quote(str(v))}\n" for k, v in words.items())
        rc, job = self.guest(script + START)
        assert rc == 0, f"guest: {command}: {job}"
        return job.strip()

    def finish(self, job, seconds=10):
        """Return a job's (exit status, output).  A job that has not ended after `seconds` is
        killed, and its output begins with "[no end]"."""
        return self.guest(f"job={job} seconds={seconds}\n{FINISH}", seconds + lab.HANGS)

    def set_siw(self, crc=False, p2p=False):
        """Set what siw, Linux's iWARP driver, demands of peers that connect."""
        rc, out = self.guest("cd /sys/module/siw/parameters; "
                             f"echo {'NY'[crc]} >mpa_crc_required; "
                             f"echo {'NY'[p2p]} >peer_to_peer")
        assert rc == 0, out

    def start(self, *argv, env=None, user="nobody"):
        """Start a program that uses urnic on the host's side, beside the guest."""
        words = [SCRIPT, "exec", *(lab.unprivileged() if user else []), *argv]
        full = {**os.environ, "PEER_VM_DIR": str(self.state),
                "TMPDIR": str(self.stage.tmp), **(env or {})}
        if user:
            # Only the program, not the peer-vm script before it, may load our library.
            more = [f"LD_LIBRARY_PATH={self.stage.lib}"]
            if str(argv[0]).startswith("ibv_"):      # patient.c does what -u does for perftest
                more.append(f"LD_PRELOAD={self.stage.tool('peer-vm/libpatient.so')}")
            words[len(words) - len(argv):len(words) - len(argv)] = ["/usr/bin/env", *more]
        proc = lab.Proc(words, full, place=self)
        self.procs.append(proc)
        return proc

    def reap(self):
        for proc in self.procs:
            if proc.running():
                proc.kill()
            proc.file.close()
        self.procs = []

    def down(self):
        self.reap()
        self._script("down", check=False)
        shutil.rmtree(self.state, ignore_errors=True)

    # The two sides of a program.  `options` has no -d, -g or -x, and no -p; these are added.

    def _words(self, program, options, dev, gid, port):
        pingpong = program.startswith("ibv_")
        # -u 17: a timeout of half a second, since an emulated guest may stand still for a while
        return [program, "-d", dev, "-g" if pingpong else "-x", str(gid), "-p",
                str(port), *([] if pingpong else ["-F", "-u", "17"]), *options]

    def guest_serves(self, program, options, family, timeout=60, env=None):
        port, gid = lab.next_port(), self.GIDS[family]
        command = shlex.join(self._words(program, options, self.RXE, gid, port))
        job = self.serve(command, port, TCP)
        ours = self.start(*self._words(program, options, self.DEV, gid, port),
                          self.GUEST, env=env)
        ours_rc = ours.wait(timeout)
        rc, out = self.finish(job, lab.HANGS if ours_rc == 0 else 1)
        return self._judge(ours, ours_rc, command, rc, out)

    def host_serves(self, program, options, family, timeout=60, env=None):
        port, gid = lab.next_port(), self.GIDS[family]
        ours = self.start(*self._words(program, options, self.DEV, gid, port),
                          env=env)
        ours.wait_listening(port)
        command = shlex.join([*self._words(program, options, self.RXE, gid, port),
                              self.HOST])
        rc, out = self.guest(f"timeout {timeout} {command}", timeout + 20)
        return self._judge(ours, ours.wait(lab.HANGS if rc == 0 else 1), command, rc, out)

    def _judge(self, ours, ours_rc, command, rc, out):
        assert ours_rc == 0 and rc == 0, (
            f"urnic: {ours_rc}, rxe: {rc}\nurnic: {ours.describe()}\n"
            f"rxe: {command}\n{out}\n{self.counted()}")
        return ours.out, out
