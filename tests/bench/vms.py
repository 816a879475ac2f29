# SPDX-License-Identifier: BSD-2-Clause
"""Two virtual machines of Debian's kernel, joined by virtual Ethernet (tests/peer-vm), in which
urnic and Linux's own drivers, rdma_rxe and siw, take turns at the same perftest commands.

perftest measures the frequency of the processor's clock when it starts, and prints 0 if the
machine was busy meanwhile.  No figure here depends on that: a latency is read in cycles, and
divided by the frequency that the guest's kernel has found; a bandwidth is the number of messages
that ended in a given time.

The bandwidth of iWARP is that of READs.  siw ends a WRITE when its socket has the bytes, and breaks
the connection once a socket has been full, so the peer VM's sockets hold up to 32 MiB; WRITEs
would measure how fast these are filled.
"""

import os
import pathlib
import re
import shlex
from dataclasses import dataclass

import lab
import parse
import peervm
from rows import NotRun

LIMIT = 120             # seconds for a program in a guest
MARGIN = 1              # seconds that a test of bandwidth runs before and after it counts messages
FOLDER = "/opt/urnic"   # of urnic's libraries in the guests
SERVER, CLIENT = 1, 2   # the guests


@dataclass(frozen=True)
class Stack:
    """What carries messages between the VMs."""
    device: str
    options: str            # perftest's, to find the peer
    server: str             # the server's address, for the client
    listens: str            # a shell condition: the server listens (peervm.py)
    module: str = ""        # the driver; "" if it is urnic
    link: str = ""          # words of `rdma link add`
    ready: str = ""         # a shell condition in sysfs: the device can be used

    def command(self, program, words, port):
        env = f"env LD_LIBRARY_PATH={FOLDER} URNIC_DEVICES={self.device} " if not self.module else ""
        return f"{env}{program} -d {self.device} {self.options} -F -u 17 -p {port} {words}"


# RoCE ends find each other over the control interface, and iWARP ends by rdma_cm.
ROCE = {"options": "-x 1", "server": "10.77.0.11"}
IWARP = {"options": "-R", "server": "10.77.2.11"}
RXE = Stack("rxe0", **ROCE, listens=peervm.TCP, module="rdma_rxe",
            link="rxe0 type rxe netdev eth0", ready="grep -q ACTIVE state && grep -q ffff gids/1")
SIW = Stack("siw0", **IWARP, listens=peervm.RDMA, module="siw",
            link="siw0 type siw netdev eth1", ready="grep -q ACTIVE state")
URNIC_ROCE = Stack("roce_eth0", **ROCE, listens=peervm.TCP)
URNIC_IWARP = Stack("iwarp_eth1", **IWARP, listens=peervm.TCP)

# rdma_rxe would keep UDP port 4791 even without a device.
UNLOAD = """
for dev in rxe0 siw0; do rdma link delete $dev 2>/dev/null; done
for module in rdma_rxe siw; do
    if [ -e /sys/module/$module ]; then rmmod $module || exit 1; fi
done
"""
# The port is active, and a RoCE device's GID 1 its IPv4 address, a moment after the link is added.
LOAD = """
set -e
modprobe {module}
rdma link add {link}
cd /sys/class/infiniband/{device}/ports/1
n=0
until {ready}; do
    n=$((n + 1))
    [ $n -lt 500 ]
    usleep 20000
done
"""


def virtualises():
    """Whether KVM runs an ordinary kernel here: what else offers /dev/kvm may not."""
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return bool(flags) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def latency(out, mhz):
    """(t_typical, 99th percentile) in us, of a test that counted cycles."""
    row = parse.perftest(out)
    return row[4] / mhz, row[7] / mhz


def bandwidth(out, seconds):
    """The Gb/s of a test that counted messages for so many seconds."""
    size, count = parse.perftest(out)[:2]
    if not count:
        raise parse.Unread(f"no message of {size:.0f} bytes ended in {seconds} s")
    return count * size * 8 / seconds / 1e9


class TwoVMs:
    def __init__(self, stage, short=False):
        self.stage = stage
        self.round_trips, self.seconds = (200, 2) if short else (1000, 4)
        self.accel = os.environ.get("PEER_VM_ACCEL") or ("kvm" if virtualises() else "tcg,thread=multi")
        self.cpus = max(1, min(2, len(os.sched_getaffinity(0)) // 2))
        self.vm, self.why_not, self.module, self.mhz = None, "", None, 0

    def __str__(self):
        how = self.accel.partition(",")[0].upper()
        return f"two VMs ({how}, {self.cpus} CPU{'s' * (self.cpus > 1)} each)"

    # --- the machines ----------------------------------------------------------------

    def started(self):
        """The VMs, which the first call starts, and only that one tries to."""
        if not self.vm and not self.why_not:
            try:
                self._start()
            except Exception as e:      # whatever it is, the rows say it
                self.close()
                self.why_not = parse.last_line(str(e))
        if self.why_not:
            raise NotRun(self.why_not)
        return self.vm

    def _start(self):
        self.vm = peervm.PeerVM(self.stage, 1500, 2, PEER_VM_ACCEL=self.accel, PEER_VM_OFFLOAD="1",
                                PEER_VM_CPUS=str(self.cpus))
        tar = self.stage.tmp / "vms.tar"
        ours = {f"{FOLDER[1:]}/{file.name}": file for file in self.stage.lib.iterdir()}
        needed = peervm.libraries(ours.values(), {"LD_LIBRARY_PATH": str(self.stage.lib)})
        peervm.pack(tar, ours, [file for file in needed if file.parent != self.stage.lib])
        for n in (SERVER, CLIENT):
            self.vm.unpack(tar, n)
        self.mhz = parse.number(self.do("sed -n 's/^cpu MHz.*: //p' /proc/cpuinfo | head -n 1", CLIENT))

    def do(self, script, n):
        rc, out = self.vm.guest(f"timeout {LIMIT} sh -c {shlex.quote(script)}", LIMIT + lab.HANGS, n)
        assert rc == 0, f"guest {n}: {parse.last_line(out)}"
        return out

    def use(self, stack):
        """Have the stack's driver in both guests, and no other; none for urnic."""
        if self.module != stack.module:
            self.module = None
            for n in (SERVER, CLIENT):
                self.do(UNLOAD + (LOAD.format(**vars(stack)) if stack.module else ""), n)
            self.module = stack.module

    def close(self):
        if self.vm:
            self.vm.down()
        self.vm = None

    # --- measures --------------------------------------------------------------------

    def run(self, stack, program, words):
        """Run a perftest program in both guests; return what the client printed."""
        vm = self.started()
        self.use(stack)
        port = lab.next_port()
        command = stack.command(program, words, port)
        job = vm.serve(command, port, stack.listens, seconds=LIMIT)
        rc, out = vm.guest(f"timeout {LIMIT} {command} {stack.server}", LIMIT + lab.HANGS, n=CLIENT)
        src, said = vm.finish(job, lab.HANGS if rc == 0 else 1)
        assert rc == 0 and src == 0, (f"client: {rc} ({parse.last_line(out)[:50]}), "
                                      f"server: {src} ({parse.last_line(said)[:50]})\n{out}\n{said}")
        return out

    def lat(self, stack, program):
        return latency(self.run(stack, program, f"-C -s 8 -n {self.round_trips}"), self.mhz)

    def gbits(self, stack, program, size):
        words = f"--report_gbits -s {size} -D {self.seconds + 2 * MARGIN} -f {MARGIN}"
        return bandwidth(self.run(stack, program, words), self.seconds)
