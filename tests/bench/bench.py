# SPDX-License-Identifier: BSD-2-Clause
"""How fast urnic is, beside its peers and beside the machine's own limits, in one run.

Each figure is measured in rounds that alternate with those of its yardstick.  docs/performance.md
is written when everything has been measured, and not before.
"""

import argparse
import pathlib
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import connections  # noqa: E402
import fabric  # noqa: E402
import lab  # noqa: E402
import report  # noqa: E402
import sizes  # noqa: E402
import spread  # noqa: E402
import targets  # noqa: E402
from peers import Programs  # noqa: E402
from rows import Runner  # noqa: E402
from vms import TwoVMs  # noqa: E402

ROUNDS = 5
QUICK_SIZES = [8, 32 << 10]

SECTIONS = {
    "targets": ("Targets", "What urnic is to reach. One host: two processes that `urnic run` starts (map), or that find urnic by\n"
                "LD_LIBRARY_PATH alone (auto: private memory is not mapped).\n"
                "Two hosts: two network namespaces and a veth pair. Each end has a processor of its own.\n"
                "Two VMs: virtual machines of Debian's kernel by QEMU, virtio-net with its offloads on a bridge, MTU 1500; what Linux's drivers\n"
                "do is measured in the same boot. By TCG, not KVM, QEMU emulates the processor. iWARP's bandwidth is of READs, since siw ends\n"
                "a WRITE when its socket has the bytes."),
    "one-host": ("One host, by size", f"{sizes.ROUNDS} rounds. Two processes, by each way that there is between them (URNIC_LOCAL; map is what `urnic run` does, auto is without its library). The\n"
                 "median, and in brackets the worst of the rounds. What is dashed in the plots is not urnic: UCX, libfabric, and\n"
                 "what memory and sockets take by themselves. Each end has a processor of its own where nothing else is said."),
    "two-hosts": ("Two hosts, by size", "Two network namespaces and a veth pair, MTU 1500; a fabric: two adapters of `urnic fabric run`.\n"
                  "Rounds and plots are as above."),
    "spread": ("Spread", f"{spread.RUNS} runs with each end on a processor of its own, and {spread.RUNS} where the scheduler decides; of the figures\n"
               "of whole runs, the one in the middle and the 99th of 100. What is bad is larger."),
    "connections": ("Connections, and many", "How many connections a second are made, used once and ended, one after the other, with a QP, CQs and\n"
                    "memory of their own; TCP's are bare sockets."),
    "fabric": ("A fabric", "Adapters of `urnic fabric run`. From DISCOVERING to SUBNET UP, of the same OpenSM; ib_write_bw and ib_send_lat\n"
               "from one end of a line of switches to the other, against the same between two processes of one host by the\n"
               "pipe; and what the fabric's thread takes for what it carries."),
}


class Bench:
    def __init__(self, args, programs, runner):
        self.args, self.p, self.runner = args, programs, runner
        self.section, _, self.text = (args.only or "").partition("/")
        self.files = {}

    def wanted(self, what):
        return self.text in what

    def rows(self, name, rows):
        rows = [row for row in rows if self.wanted(row.what)]
        return [report.markdown(report.HEAD, self.runner.table(name, rows))] if rows else []

    def charts(self, charts):
        tables = []
        for chart in charts:
            chart.paths = [path for path in chart.paths if self.wanted(f"{chart.title} {path.name}")]
            if not chart.paths:
                continue
            chart.measure(self.runner, QUICK_SIZES if self.args.quick else sizes.SIZES)
            tables.append(report.chart_section(chart, self.plot(chart)))
        return tables

    def plot(self, chart):
        file = f"performance-{chart.name}.svg"
        with tempfile.TemporaryDirectory() as folder:
            svg = pathlib.Path(folder) / file
            if not report.plot(chart, svg):
                return None
            self.files[file] = svg.read_text()
        return file

    def targets(self):
        vms = TwoVMs(self.p.stage, self.args.quick)
        try:
            return self.rows("targets", targets.rows(self.p, vms))
        finally:
            vms.close()

    def fabric(self):
        bench = fabric.FabricBench(self.p)
        try:
            return self.rows("fabric", fabric.rows(bench))
        finally:
            bench.close()

    def measure(self):
        """Measure the sections; return (heading, text, tables) of each."""
        how = {"targets": self.targets,
               "one-host": lambda: self.charts(sizes.one_host(self.p)),
               "two-hosts": lambda: self.charts(sizes.two_hosts(self.p)),
               "spread": lambda: [report.markdown(spread.HEAD, spread.measure(
                   self.p, self.runner, self.args.quick, self.wanted))],
               "connections": lambda: self.rows("connections", connections.rows(self.p)),
               "fabric": self.fabric}
        return [(*SECTIONS[name], how[name]()) for name in SECTIONS if self.section in ("", name)]


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, few sizes and messages, no file")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"so many instead of {ROUNDS}")
    parser.add_argument("--only", metavar="SECTION[/TEXT]",
                        help=f"no file, and one section: {', '.join(SECTIONS)}; of it the rows that have this text")
    args = parser.parse_args()
    if args.only and args.only.partition("/")[0] not in SECTIONS:
        parser.error(f"no section {args.only}: {', '.join(SECTIONS)}")
    return args


def main():
    args = arguments()
    machine = report.Machine()
    rounds = 1 if args.quick else args.rounds
    stage = lab.Stage()
    pairs = []
    try:
        pairs += [lab.Pair(stage, 1500)]
        pairs += [lab.Pair(stage, 9000)]
        runner = Runner(rounds, lambda: [pair.reap() for pair in pairs])
        runner.say(str(machine))
        bench = Bench(args, Programs(stage, *pairs, quick=args.quick), runner)
        page = report.page(bench.measure(), rounds, machine)
        runner.say("done")
    finally:
        for pair in pairs:
            pair.remove()
        stage.remove()
    print(page)
    if not args.quick and not args.only:
        report.write({**bench.files, "performance.md": page}, lab.ROOT / "docs")


if __name__ == "__main__":
    for number in signal.SIGTERM, signal.SIGHUP:     # so that main() tidies up
        signal.signal(number, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; docs/performance.md is as it was")
