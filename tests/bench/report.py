# SPDX-License-Identifier: BSD-2-Clause
"""Write docs/performance.md and its plots."""

import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess

import sizes

HEAD = ("what", "urnic", "yardstick", "ratio", "goal", "met")


def markdown(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


class Machine:
    """The machine and its load before the measurements."""

    def __init__(self):
        cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
        memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
        self.cpu = cpu[1] if cpu else platform.machine()
        self.cores = len(os.sched_getaffinity(0))
        self.gib = int(memory[1]) / (1 << 20)
        self.load = os.getloadavg()[0]

    def __str__(self):
        return (f"{self.cpu}, {self.cores} cores, {self.gib:.1f} GiB of memory, Linux {platform.release()}, "
                f"a load of {self.load:.2f} at the start")


# --- plots ---------------------------------------------------------------------------

def script(chart, svg):
    """The gnuplot script of a chart: both axes are logarithmic, and what urnic is compared with
    is dashed."""
    paths = [path for path in chart.paths if path.values]
    data = []
    for path in paths:
        data += [f"{size} {middle:.6g}" for size, (middle, _) in chart.points(path).items()]
        data.append("e")
    lines = ", ".join(
        f"'-' with linespoints lc {i + 1} pt {i % 13 + 1} ps 0.6 dt {2 if path.limit else 1} "
        f"lw {1 if path.limit else 2} title '{path.name}'" for i, path in enumerate(paths))
    return "\n".join([
        "set terminal svg size 900,520 font 'sans-serif,12' noenhanced name 'plot' background 'white'",
        f"set output '{svg}'", "set logscale x 2", "set logscale y 10", "set grid",
        "set key outside right", f"set title '{chart.title}'", f"set ylabel '{chart.unit}'",
        "set xtics (" + ", ".join(f"'{sizes.stats.size_name(s)}' {s}" for s in sizes.SIZES)
        + ") rotate by -30", f"plot {lines}", *data, ""])


def plot(chart, svg):
    """Plot the chart to `svg`; False if there is nothing to plot, or no gnuplot."""
    if not shutil.which("gnuplot") or not any(path.values for path in chart.paths):
        return False
    subprocess.run(["gnuplot"], input=script(chart, svg), text=True, check=True)
    return True


# --- the page ------------------------------------------------------------------------

def chart_section(chart, file=None):
    picture = f"![{chart.title}]({file})\n\n" if file else ""
    notes = "".join(f"\n{path.name}: failed, {path.reason}\n" for path in chart.paths if path.reason)
    return f"### {chart.title}, {chart.unit}\n\n{picture}{markdown(*sizes.table(chart))}{notes}"


def page(sections, rounds, machine):
    """The text of docs/performance.md; `sections` has (heading, text, tables) of each."""
    out = [
        "# Performance\n\n"
        f"Written by `make bench` on {datetime.date.today()}: {machine}.\n\n"
        f"Each figure is the median of {rounds} rounds, in which urnic and its yardsticks alternate; *worst* is the worst of\n"
        "the rounds, *p99* the median of what 99 of 100 messages did not exceed. A ratio is the median of the rounds'\n"
        "ratios. Machines differ: only the ratios mean something. perftest rounds latencies to 10 ns.\n"]
    for heading, text, tables in sections:
        out.append(f"## {heading}\n\n{text}\n\n" + "\n".join(tables))
    return "\n".join(out)


def write(files, docs):
    """Write {name: content} into the folder `docs`.  All files are written under temporary names
    first, so that a failure leaves the old ones."""
    for name, content in files.items():
        (docs / f".{name}.new").write_text(content)
    for name in files:
        (docs / f".{name}.new").rename(docs / name)
