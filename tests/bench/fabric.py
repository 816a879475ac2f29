# SPDX-License-Identifier: BSD-2-Clause
"""A fabric: how long OpenSM needs for one, beside ibsim; and what a hop costs, and an idle
fabric.

A packet counts once, when it leaves its adapter.  Data packets, of 4 KiB each, and the packets
that acknowledge them count.  callgrind counts the instructions of all that the fabric's process
does.
"""

import functools
import os
import pathlib
import re
import subprocess

import lab
import parse
from rows import Row
from stats import KIB, Goal, at_most
from subnet import Fabric, leaves, read, wait_log

HOPS = {1: ("n0", "n1"), 3: ("n0", "n4"), 5: ("n0", "n8")}
SWITCHES, AT_EACH = 5, 2
TICK = 1 / os.sysconf("SC_CLK_TCK")
IBSIM = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"


def line():
    """A topology of switches in a row, with adapters at each."""
    out = []
    for s in range(SWITCHES):
        out.append(f'Switch {AT_EACH + 2} "S-{s}"')
        out += [f'[{h + 1}] "H-n{s * AT_EACH + h}"[1]' for h in range(AT_EACH)]
        if s:
            out.append(f'[{AT_EACH + 1}] "S-{s - 1}"[{AT_EACH + 2}]')
        if s < SWITCHES - 1:
            out.append(f'[{AT_EACH + 2}] "S-{s + 1}"[{AT_EACH + 1}]')
        out.append("")
    for n in range(SWITCHES * AT_EACH):
        out += [f'Ca 1 "H-n{n}"', f'[1] "S-{n // AT_EACH}"[{n % AT_EACH + 1}]', ""]
    return "\n".join(out)


def took(log):
    """The seconds between OpenSM's log lines DISCOVERING and SUBNET UP."""
    def at(text):
        h, m, s, us = map(int, re.search(
            rf"(\d\d):(\d\d):(\d\d) (\d+) .*{text}", read(log)).groups())
        return h * 3600 + m * 60 + s + us / 1e6
    return (at("SUBNET UP") - at("DISCOVERING")) % 86400


def processor(pid):
    """The processor time of a process, in seconds."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * TICK


class Line:
    """A fabric whose switches are in a row, started for each measurement, with processes at two
    of its adapters."""

    def __init__(self, p, hops=1):
        self.p, self.hops = p, hops

    def at(self, path):
        """`path` makes a measure of sizes (see sizes.py) from a place.  Return such a measure,
        which starts a fabric and gives `path` the place in it."""
        def measure(sizes):
            ns = self.p.a.with_(procs=[])
            try:
                f = Fabric(ns, line())
                f.opensm("n0", "-s", "0")
                return path(self.p.pinned([f.at(n) for n in HOPS[self.hops]]))(sizes)
            finally:
                ns.reap()
        return measure


class FabricBench:
    """Its programs are on a list of their own, so that the end of a measurement does not kill
    them."""

    def __init__(self, p):
        self.p, self.ns = p, p.a.with_(procs=[])
        self.f = None

    # --- the subnet manager ------------------------------------------------------

    def subnet(self, text, then=lambda f: None):
        f = Fabric(self.ns, text)
        sm = f.opensm("n0")
        seconds = took(sm.log)
        then(f)
        self.end(f, sm)
        return seconds

    @staticmethod
    def end(f, sm):
        sm.kill()
        f.proc.kill()

    def over_ibsim(self, text):
        place = self.ns.stage.tmp / f"ibsim{lab.next_port()}"
        place.mkdir()
        place.chmod(0o777)
        (place / "topology").write_text(text)
        (place / "conf").write_text("force_log_flush TRUE\n")
        sim = self.ns.start("ibsim", "-s", str(place / "topology"), library=False,
                            stdin=subprocess.PIPE)
        sim.wait_output("sim>")
        sm = self.ns.start("sh", "-c", f"cd {place} && exec opensm -F conf -f {place}/log", library=False,
                           env={"LD_PRELOAD": IBSIM, "SIM_HOST": "H-n0", "OSM_CACHE_DIR": place,
                                "OSM_TMP_DIR": place})
        sm.log = place / "log"
        wait_log(sm, "SUBNET UP")
        seconds = took(sm.log)
        sm.kill()
        sim.kill()
        return seconds

    # --- hops ------------------------------------------------------------------------

    @property
    def line(self):
        """A fabric with switches in a row, which runs until the section ends."""
        if not self.f:
            self.f = Fabric(self.ns, line())
            self.f.opensm("n0", "-s", "0")
        return self.f

    def between(self, f, hops, column, *words):
        server, client = (f.at(n) for n in HOPS[hops])
        _, done = lab.run_both(server, client, words, "127.0.0.1", timeout=120)
        return parse.perftest(done.out)[column]

    def packets(self, f, hops):
        counters = f.ns.run(f.ns.stage.urnic, "fabric", "counters").out
        return sum(int(re.search(rf"^H-{n} 1 +(\d+)", counters, re.M)[1]) for n in HOPS[hops])

    def a_second(self, hops):
        """Millions of packets in a second of the fabric's processor time."""
        f = self.line
        was = self.packets(f, hops), processor(f.proc.pid)
        self.between(f, hops, 3, "ib_write_bw", "-s", "65536", "-n", "10000")
        now = self.packets(f, hops), processor(f.proc.pid)
        return (now[0] - was[0]) / (now[1] - was[1]) / 1e6

    def close(self):
        self.ns.reap()
        self.f = None

    # --- instructions -----------------------------------------------------------------

    @functools.cache
    def instructions(self, hops):
        """Instructions for a packet and all that goes with it: the difference of two runs."""
        self.close()        # a namespace has one fabric at a time
        ns = self.ns
        f = Fabric(ns, line(), run=("valgrind", "-q", "--tool=callgrind",
                                    f"--callgrind-out-file={ns.stage.tmp}/callgrind.%p"))
        sm = f.opensm("n0", "-s", "0")
        words = "ib_write_bw", "-s", "65536"
        counts = []
        for n in ("500", "2500"):
            self.dump(f)
            was = self.packets(f, hops)
            self.between(f, hops, 3, *words, "-n", n)
            counts.append((self.dump(f), self.packets(f, hops) - was))
        self.end(f, sm)
        return (counts[1][0] - counts[0][0]) / (counts[1][1] - counts[0][1])

    def dump(self, f):
        """The instructions counted since the last dump."""
        f.ns.run("callgrind_control", "-d", str(f.proc.pid), library=False)
        newest = max(f.ns.stage.tmp.glob(f"callgrind.{f.proc.pid}.*"),
                     key=lambda p: int(p.suffix[1:]))
        return int(re.search(r"^(?:summary|totals): (\d+)", newest.read_text(), re.M)[1])

    def idle(self):
        pid = self.line.proc.pid
        was = processor(pid)
        self.ns.run("sleep", "5", library=False)
        return (processor(pid) - was) / 5 * 100

    def memory(self, text):
        """The resident memory of the fabric's process, in KiB."""
        kib = []
        self.subnet(text, lambda f: kib.append(int(re.search(
            r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{f.proc.pid}/status").read_text())[1])))
        return kib[0]


def rows(bench):
    small, big, huge = leaves(4, 4, 4), leaves(18, 18, 18), leaves(12, 60, 50)
    far = {"1 hop": 1, "3 hops": 3, "5 hops": 5}
    p, once = bench.p, {"once": True}
    yield Row("SUBNET UP, 8 switches, 16 adapters", "ms", {"": lambda: bench.subnet(small) * 1000},
              "over ibsim", lambda: bench.over_ibsim(small) * 1000, at_most(1))
    yield Row("SUBNET UP, 36 switches, 324 adapters", "s", {"": lambda: bench.subnet(big)},
              goal=Goal(5, less=True), **once)
    yield Row("SUBNET UP, 72 switches, 3,000 adapters", "s", {"": lambda: bench.subnet(huge)}, **once)
    yield Row("memory of the fabric's process with them", "MiB",
              {"": lambda: bench.memory(huge) / 1024}, **once)
    yield Row("processor time of an idle fabric", "%", {"": bench.idle}, goal=Goal(0, less=True), **once)
    yield Row("ib_write_bw, 64 KiB", "Gb/s",
              {name: lambda h=h: bench.between(bench.line, h, 3, "ib_write_bw", "--report_gbits",
                                               "-s", "65536", "-n", "5000") for name, h in far.items()},
              "one host, pipe", lambda: p.gbits(p.host("pipe", pin=False), "ib_write_bw", 64 * KIB, 20000))
    yield Row("ib_send_lat, 2 bytes", "us",
              {name: lambda h=h: bench.between(bench.line, h, 4, "ib_send_lat", "-s", "2", "-n", "20000")
               for name, h in far.items()},
              "one host, pipe", lambda: p.lat(p.host("pipe", pin=False), "ib_send_lat", 2), less=True)
    yield Row("packets of ib_write_bw in a second of processor time", "M/s",
              {name: lambda h=h: bench.a_second(h) for name, h in far.items()})
    yield Row("instructions for such a packet, 1 hop", "", {"": lambda: bench.instructions(1)}, **once)
    yield Row("instructions for each hop more", "",
              {"": lambda: (bench.instructions(5) - bench.instructions(1)) / 4}, **once)
