# SPDX-License-Identifier: BSD-2-Clause
"""A fabric: how long OpenSM takes for one, beside ibsim; what a hop costs, and nothing.

A packet counts once, when it leaves its adapter: those of data, which are of 4 KiB, and what
acknowledges them.  Instructions are callgrind's, of all that the fabric's process does.
"""

import os
import pathlib
import re
import statistics
import subprocess

import lab
from test_fabric import Fabric, leaves, read, wait_log

HOPS = {1: ("n0", "n1"), 3: ("n0", "n4"), 5: ("n0", "n8")}
SWITCHES, AT_EACH = 5, 2
TICK = 1 / os.sysconf("SC_CLK_TCK")
IBSIM = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"


def line():
    """Switches in a row, with adapters at each."""
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
    """From DISCOVERING to SUBNET UP, in seconds."""
    def at(text):
        h, m, s, us = map(int, re.search(
            rf"(\d\d):(\d\d):(\d\d) (\d+) .*{text}", read(log)).groups())
        return h * 3600 + m * 60 + s + us / 1e6
    return (at("SUBNET UP") - at("DISCOVERING")) % 86400


def processor(pid):
    """Seconds of a process."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * TICK


class FabricBench:
    def __init__(self, bench):
        self.bench, self.ns = bench, bench.a

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
        place = self.ns.stage.tmp / f"ibsim{self.bench.next_port()}"
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

    def between(self, f, hops, column, *words):
        server, client = (f.at(n) for n in HOPS[hops])
        _, done = lab.run_both(server, client, words, "127.0.0.1", timeout=120)
        rows = re.findall(r"^\s*\d+\s+\d.*$", done.out, re.M)
        return float(rows[-1].split()[column])

    def one_host(self, column, *words):
        ns = self.ns.with_env(URNIC_LOCAL="pipe")
        return self.bench.figure(column, *words, at=(ns, ns))

    def packets(self, f, hops):
        counters = f.ns.run(f.ns.stage.urnic, "fabric", "counters").out
        return sum(int(re.search(rf"^H-{n} 1 +(\d+)", counters, re.M)[1]) for n in HOPS[hops])

    def a_second(self, f, hops):
        """Packets that the thread can take from end to end."""
        was = self.packets(f, hops), processor(f.proc.pid)
        self.between(f, hops, 3, "ib_write_bw", "-s", "65536", "-D", "2")
        now = self.packets(f, hops), processor(f.proc.pid)
        return (now[0] - was[0]) / (now[1] - was[1]) / 1e6

    def speeds(self, f):
        b = self.bench
        bw = "ib_write_bw", "--report_gbits", "-s", "65536", "-D", "2"
        lat = "ib_send_lat", "-s", "2", "-n", "20000"
        far = {1: "1 hop", **{h: f"{h} hops" for h in HOPS if h > 1}}
        for hops in HOPS:
            b.against(f"ib_write_bw, 64 KiB, {far[hops]}", "Gb/s",
                      lambda h=hops: self.between(f, h, 3, *bw),
                      "one host, pipe", lambda: self.one_host(3, *bw), None)
        for hops in HOPS:
            b.against(f"ib_send_lat, 2 bytes, {far[hops]}", "us",
                      lambda h=hops: self.between(f, h, 4, *lat),
                      "one host, pipe", lambda: self.one_host(4, *lat), None)
        for hops in HOPS:
            b.alone(f"packets of ib_write_bw in a second of processor time, {far[hops]}", "M/s",
                    statistics.median(self.a_second(f, hops) for _ in range(b.rounds)))

    # --- instructions -----------------------------------------------------------------

    def instructions(self, hops):
        """Of a packet, and all that goes with it: the difference of two runs."""
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
        """What was counted since the last time."""
        f.ns.run("callgrind_control", "-d", str(f.proc.pid), library=False)
        newest = max(f.ns.stage.tmp.glob(f"callgrind.{f.proc.pid}.*"),
                     key=lambda p: int(p.suffix[1:]))
        return int(re.search(r"^(?:summary|totals): (\d+)", newest.read_text(), re.M)[1])

    def idle(self, f):
        was = processor(f.proc.pid)
        self.ns.run("sleep", "5", library=False)
        return (processor(f.proc.pid) - was) / 5 * 100

    def measure(self):
        b = self.bench
        small, big, huge = leaves(4, 4, 4), leaves(18, 18, 18), leaves(12, 60, 50)
        b.against("SUBNET UP, 8 switches, 16 adapters", "ms",
                  lambda: self.subnet(small) * 1000,
                  "over ibsim", lambda: self.over_ibsim(small) * 1000, 1.0, "less")
        b.alone("SUBNET UP, 36 switches, 324 adapters", "s", self.subnet(big), 5)
        memory = []
        b.alone("SUBNET UP, 72 switches, 3,000 adapters", "s",
                self.subnet(huge, lambda f: memory.append(int(re.search(
                    r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{f.proc.pid}/status").read_text())[1]))))
        b.alone("memory of the fabric's process with them", "MiB", memory[0] / 1024)
        f = Fabric(self.ns, line())
        sm = f.opensm("n0", "-s", "0")
        b.alone("processor time of an idle fabric", "%", self.idle(f), 0)
        self.speeds(f)
        self.end(f, sm)
        costs = {h: self.instructions(h) for h in HOPS}
        b.alone("instructions for such a packet, 1 hop", "", costs[1])
        b.alone("instructions for each hop more", "", (costs[5] - costs[1]) / 4)
