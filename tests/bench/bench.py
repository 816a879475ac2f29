# SPDX-License-Identifier: BSD-2-Clause
"""How fast urnic is, beside its peers and beside the machine's own limits, in one run.

Each figure is measured in rounds that alternate with those of its yardstick.  docs/performance.md,
its plots and the figures in docs/performance.json are written when everything has been measured, and
not before.
"""

import argparse
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
import connections  # noqa: E402
import fabric  # noqa: E402
import figures  # noqa: E402
import lab  # noqa: E402
import report  # noqa: E402
import rivals  # noqa: E402
import sizes  # noqa: E402
import spread  # noqa: E402
import targets  # noqa: E402
from peers import Programs  # noqa: E402
from rows import Runner  # noqa: E402
from vms import TwoVMs  # noqa: E402

ROUNDS = 5
QUICK_SIZES = [8, 32 << 10]

PAGE, FIGURES = "performance.md", "performance.json"


class Bench:
    def __init__(self, args, programs, runner):
        self.args, self.p, self.runner = args, programs, runner
        self.section, _, self.text = (args.only or "").partition("/")

    def wanted(self, what):
        return self.text in what

    def rows(self, name, rows):
        return self.runner.table(name, [row for row in rows if self.wanted(row.what)])

    def charts(self, charts):
        done = []
        for chart in charts:
            chart.paths = [path for path in chart.paths if self.wanted(f"{chart.title} {path.name}")]
            if chart.paths:
                chart.measure(self.runner, QUICK_SIZES if self.args.quick else sizes.SIZES)
                done.append(chart.figures())
        return done

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
        """Measure the sections; return their figures."""
        tables = {"targets": self.targets,
                  "spread": lambda: spread.measure(self.p, self.runner, self.args.quick, self.wanted),
                  "connections": lambda: self.rows("connections", connections.rows(self.p)),
                  "fabric": self.fabric,
                  "programs": lambda: self.rows("programs", rivals.rows(self.p))}
        charts = {"one-host": lambda: self.charts(sizes.one_host(self.p)),
                  "two-hosts": lambda: self.charts(sizes.two_hosts(self.p))}
        got = figures.Figures(self.runner.rounds)
        for name in report.SECTIONS:
            if self.section not in ("", name):
                continue
            if name in tables:
                got.tables[name] = tables[name]()
            else:
                got.charts[name] = charts[name]()
        return got


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, few sizes and messages, no file")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"so many instead of {ROUNDS}")
    parser.add_argument("--only", metavar="SECTION[/TEXT]",
                        help=f"no file, and one section: {', '.join(report.SECTIONS)}; of it the rows that have this text")
    parser.add_argument("--keep", action="store_true",
                        help="with --only: these figures take the place of the older ones in the files")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from the figures that are kept")
    args = parser.parse_args()
    if args.only and args.only.partition("/")[0] not in report.SECTIONS:
        parser.error(f"no section {args.only}: {', '.join(report.SECTIONS)}")
    if args.keep and (args.quick or not args.only):
        parser.error("--keep needs --only, and no --quick")
    return args


def measured(args):
    """Measure what the arguments ask for; return the figures."""
    machine = report.machine()
    stage = lab.Stage()
    pairs = []
    try:
        pairs += [lab.Pair(stage, 1500)]
        pairs += [lab.Pair(stage, 9000)]
        runner = Runner(1 if args.quick else args.rounds, lambda: [pair.reap() for pair in pairs])
        runner.say(machine)
        got = Bench(args, Programs(stage, *pairs, quick=args.quick), runner).measure()
        got.machines[figures.today()] = machine
        runner.say("done")
    finally:
        for pair in pairs:
            pair.remove()
        stage.remove()
    return got


def kept(docs):
    return figures.Figures.load((docs / FIGURES).read_text())


def write(got, docs):
    """Write the figures, and the page and the plots that are made of them."""
    svgs = report.plots(got)
    report.write({**svgs, PAGE: report.page(got, svgs), FIGURES: got.dump()}, docs)


def main(docs=lab.ROOT / "docs"):
    args = arguments()
    if args.page:
        write(kept(docs), docs)
        return
    if args.keep and args.rounds != kept(docs).rounds:
        sys.exit(f"bench: --keep needs --rounds {kept(docs).rounds}: the page names one number for all figures")
    got = measured(args)
    print(report.page(got))
    if args.keep:
        whole = kept(docs)
        whole.merge(got)
        write(whole, docs)
    elif not args.quick and not args.only:
        write(got, docs)


if __name__ == "__main__":
    for number in signal.SIGTERM, signal.SIGHUP:     # so that main() tidies up
        signal.signal(number, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; docs/performance.md is as it was")
