# SPDX-License-Identifier: BSD-2-Clause
"""Write docs/performance.md and its plots, from the figures alone."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

import gains
import sizes
import spread
import stats

HEAD = ("what", "urnic", "yardstick", "ratio", "goal", "met")

INTRO = """\
# Performance

Written by `make bench`. Each figure is the median of {rounds} rounds, in which urnic and what it is compared with
alternate. Machines differ: compare figures of one line, not figures of two machines.
"""

GAINS = """\
What programs get on a machine without RDMA hardware, and what they would use otherwise. *One host* is two processes;
`urnic run` maps their memory, so that a WRITE or READ is a copy in memory, without a system call. A program that finds
urnic by LD_LIBRARY_PATH alone has its memory read and written by system calls of the peer. *Two hosts* are two network
namespaces and a veth pair: RoCE v2 over UDP. Times are half a round trip, or one operation's. The columns
*compared* have the median of the rounds' ratios, which may differ from the ratio of the two medians beside them.
"""

DEVELOPERS = """\
## For developers

What follows are all figures, with the goals that urnic has set itself. *Worst* is the worst of the rounds, *p99* the
median of what 99 of 100 messages did not exceed. A ratio is the median of the rounds' ratios. perftest rounds latencies
to 10 ns.
"""

SECTIONS = {
    "targets": ("Targets", "What urnic is to reach. One host: two processes that `urnic run` starts (map), or that find urnic by\n"
                "LD_LIBRARY_PATH alone (auto: private memory is not mapped).\n"
                "Two hosts: two network namespaces and a veth pair. Each end has a processor of its own.\n"
                "Two VMs: virtual machines of Debian's kernel by QEMU, virtio-net with its offloads on a bridge, MTU 1500; what Linux's drivers\n"
                "do is measured in the same boot. By TCG, not KVM, QEMU emulates the processor. iWARP's bandwidth is of READs, since siw ends\n"
                "a WRITE when its socket has the bytes."),
    "one-host": ("One host, by size", f"{sizes.ROUNDS} rounds. Two processes, by each way that there is between them (URNIC_LOCAL; map is what\n"
                 "`urnic run` does, auto is without its library). The median, and in brackets the worst of the rounds. What is dashed\n"
                 "in the plots is not urnic: UCX, libfabric, and what memory and sockets take by themselves. Each end has a processor\n"
                 "of its own where nothing else is said."),
    "two-hosts": ("Two hosts, by size", "Two network namespaces and a veth pair, MTU 1500; a fabric: two adapters of `urnic fabric run`.\n"
                  "Rounds and plots are as above."),
    "spread": ("Spread", f"{spread.RUNS} runs with each end on a processor of its own, and {spread.RUNS} where the scheduler decides; of the figures\n"
               "of whole runs, the one in the middle and the 99th of 100. What is bad is larger."),
    "connections": ("Connections, and many", "How many connections a second are made, used once and ended, one after the other, with a QP, CQs and\n"
                    "memory of their own; TCP's are bare sockets."),
    "programs": ("Programs of others", "On one host, with the threads and defaults that they have, each against the other ways that the program\n"
                 "itself knows: UCX, Open MPI and libfabric by their shared memory and by TCP, fio and qperf by TCP.\n"
                 "By `urnic run` (map) and by LD_LIBRARY_PATH alone (auto)."),
    "fabric": ("A fabric", "Adapters of `urnic fabric run`. From DISCOVERING to SUBNET UP, of the same OpenSM; ib_write_bw and ib_send_lat\n"
               "from one end of a line of switches to the other, against the same between two processes of one host by the\n"
               "pipe; and what the fabric's thread takes for what it carries."),
}


def markdown(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


def machine():
    """The machine, and its load before the measurements."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return (f"{cpu[1] if cpu else platform.machine()}, {len(os.sched_getaffinity(0))} cores, "
            f"{int(memory[1]) / (1 << 20):.1f} GiB of memory, Linux {platform.release()}, "
            f"a load of {os.getloadavg()[0]:.2f} at the start")


# --- plots ---------------------------------------------------------------------------

def script(chart, svg):
    """The gnuplot script of a chart: both axes are logarithmic, and what urnic is compared with
    is dashed."""
    curves = [curve for curve in chart.curves if curve.points]
    data = []
    for curve in curves:
        data += [f"{size} {middle:.6g}" for size, (middle, _) in curve.points.items()]
        data.append("e")
    lines = ", ".join(
        f"'-' with linespoints lc {i + 1} pt {i % 13 + 1} ps 0.6 dt {2 if curve.limit else 1} "
        f"lw {1 if curve.limit else 2} title '{curve.name}'" for i, curve in enumerate(curves))
    return "\n".join([
        "set terminal svg size 900,520 font 'sans-serif,12' noenhanced name 'plot' background 'white'",
        f"set output '{svg}'", "set logscale x 2", "set logscale y 10", "set grid",
        "set key outside right", f"set title '{chart.title}'", f"set ylabel '{chart.unit}'",
        "set xtics (" + ", ".join(f"'{stats.size_name(s)}' {s}" for s in stats.SIZES)
        + ") rotate by -30", f"plot {lines}", *data, ""])


def plot(chart, svg):
    """Plot the chart to `svg`; False if there is nothing to plot, or no gnuplot."""
    if not shutil.which("gnuplot") or not any(curve.points for curve in chart.curves):
        return False
    subprocess.run(["gnuplot"], input=script(chart, svg), text=True, check=True)
    return True


def file_of(chart):
    return f"performance-{chart.name}.svg"


def plots(figures):
    """{file: SVG} of all plots."""
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for chart in [*gains.plots(figures), *(c for charts in figures.charts.values() for c in charts)]:
            svg = pathlib.Path(folder) / file_of(chart)
            if plot(chart, svg):
                files[svg.name] = svg.read_text()
    return files


# --- the page ------------------------------------------------------------------------

def dated(head, lines):
    """A table of (cells, date). Where the dates differ, a column has them."""
    dates = {when for _, when in lines}
    if len(dates) == 1:
        return markdown(head, [cells for cells, _ in lines]) + f"\nMeasured on {dates.pop()}.\n"
    return markdown((*head, "measured on"), [(*cells, when) for cells, when in lines])


def sizes_table(chart):
    """A cell has the median of the rounds, and the worst one."""
    every = [size for size in stats.SIZES if any(size in c.points for c in chart.curves)]
    return markdown(("", *(c.name for c in chart.curves)),
                    [(stats.size_name(size), *(size_cell(c.points.get(size)) for c in chart.curves))
                     for size in every])


def size_cell(at):
    if at is None:
        return "-"
    middle, worst = map(stats.number, at)
    return middle if middle == worst else f"{middle} ({worst})"


def curves_dates(curves):
    """When the curves were measured; those that were not on the last day by name."""
    last = max(c.when for c in curves)
    old = {}
    for c in curves:
        if c.when != last:
            old.setdefault(c.when, []).append(c.name)
    more = "".join(f"; on {when}: {', '.join(names)}" for when, names in sorted(old.items()))
    return f"Measured on {last}{more}.\n"


def picture(chart, files):
    return f"![{chart.title}]({file_of(chart)})\n\n" if file_of(chart) in files else ""


def chart_section(chart, files=()):
    notes = "".join(f"\n{c.name}: failed, {c.reason}\n" for c in chart.curves if c.reason)
    return (f"#### {chart.title}, {chart.unit}\n\n{picture(chart, files)}{sizes_table(chart)}\n"
            f"{curves_dates(chart.curves)}{notes}")


def tables(figures, section, files):
    """The tables of a section: of its lines, or of its charts."""
    lines = figures.tables.get(section)
    if lines:
        head = spread.HEAD if section == "spread" else HEAD
        return [dated(head, [(line.cells if section == "spread" else line.cells(), line.when)
                             for line in lines])]
    return [chart_section(chart, files) for chart in figures.charts.get(section, [])]


def user_section(figures, files):
    lines = gains.table(figures)
    if not lines:
        return []
    charts = list(gains.plots(figures))
    return [f"## What you get\n\n{GAINS}", dated(gains.HEAD, lines),
            *(picture(chart, files) + curves_dates(chart.curves) for chart in charts)]


def machines(figures):
    return "The machine:\n\n" + "".join(f"- {date}: {text}\n" for date, text in sorted(figures.machines.items()))


def page(figures, files=()):
    """The text of docs/performance.md; `files` are the plots that it may show."""
    out = [INTRO.format(rounds=figures.rounds), *user_section(figures, files), machines(figures), DEVELOPERS]
    for name, (heading, text) in SECTIONS.items():
        found = tables(figures, name, files)
        if found:
            out += [f"### {heading}\n\n{text}\n", *found]
    return "\n".join(out)


def write(files, docs):
    """Write {name: content} into the folder `docs`.  All files are written under temporary names
    first, so that a failure leaves the old ones."""
    for name, content in files.items():
        (docs / f".{name}.new").write_text(content)
    for name in files:
        (docs / f".{name}.new").rename(docs / name)
