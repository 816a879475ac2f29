# SPDX-License-Identifier: BSD-2-Clause
"""What a user gets: the first table of docs/performance.md, and its two plots.  They choose from
the figures of the other sections."""

from typing import Callable, NamedTuple, Optional

import stats
from figures import Chart, Curve

HEAD = ("what", "otherwise", "`urnic run`", "compared", "LD_LIBRARY_PATH alone", "compared")


class Beside(NamedTuple):
    """A figure of urnic's beside what one would use otherwise."""
    ours: float
    other: Optional[float]
    ratio: Optional[float]
    unit: str
    less: bool
    when: str


def row(section, what, yard=None):
    """The figure of a line in the table of a section."""
    def find(figures):
        line = figures.line(section, what, yard)
        if not line or line.ours.reason or line.yard and line.yard.reason:
            return None
        return Beside(line.ours.middle, line.yard.middle if line.yard else None, line.ratio,
                      line.unit, line.less, line.when)
    return find


def point(chart, size, ours, other):
    """The figure of a curve at one size."""
    def find(figures):
        of = figures.chart(chart)
        curves = [of.curve(name) for name in (ours, other)] if of else [None]
        if not all(c and size in c.points for c in curves):
            return None
        mine, theirs = (c.points[size][0] for c in curves)
        return Beside(mine, theirs, mine / theirs, of.unit, of.unit == "us", min(c.when for c in curves))
    return find


class Gain(NamedTuple):
    what: str
    otherwise: str
    run: Callable
    alone: Optional[Callable] = None    # without the library that `urnic run` loads; None: the same


def one_host(what, name, yard, otherwise):
    return Gain(f"one host: {what}", otherwise, row("targets", f"one host, {name}, map", yard),
                row("targets", f"one host, {name}, auto", yard))


SHM = "UCX, shared memory"
GAINS = [
    one_host("8-byte WRITE, latency", "ib_write_lat, 8 B", "UCX posix, ucp_put_lat", SHM),
    one_host("8-byte READ, latency", "ib_read_lat, 8 B", "UCX posix, ucp_get", SHM),
    one_host("atomic, latency", "ib_atomic_lat, 8 B", "UCX posix, ucp_fadd", SHM),
    one_host("8-byte SEND, latency", "ib_send_lat, 8 B", "UCX posix, tag_lat", SHM),
    Gain("one host: 8-byte SEND, latency", "TCP, loopback interface",
         point("one-host-latency", 8, "urnic map", "TCP that spins"),
         point("one-host-latency", 8, "urnic auto", "TCP that spins")),
    one_host("8-byte SENDs, messages a second", "ib_send_bw, 8 B", "UCX posix, tag_bw", SHM),
    one_host("64-KiB WRITEs, bandwidth", "ib_write_bw, 64 KiB", "UCX posix, ucp_put_bw", SHM),
    one_host("1-MiB WRITEs, bandwidth", "ib_write_bw, 1 MiB", "UCX posix, ucp_put_bw", SHM),
    one_host("1-MiB SENDs, bandwidth", "ib_send_bw, 1 MiB", "UCX cma, tag_bw", "UCX, shared memory and CMA"),
    Gain("two hosts: 8-byte SEND, latency", "TCP",
         point("two-hosts-latency", 8, "RoCE v2", "TCP that spins")),
    Gain("two hosts: 64-KiB WRITEs, bandwidth, MTU 1500", "iperf3, one TCP stream",
         row("targets", "veth, ib_write_bw, 64 KiB, 1 QP, ICRC, MTU 1500, RoCE v2", "iperf3, one TCP stream")),
    Gain("two hosts: 64-KiB WRITEs, bandwidth, MTU 9000", "iperf3, one TCP stream, MTU 9000",
         row("targets", "veth, ib_write_bw, 64 KiB, 1 QP, ICRC, MTU 9000, RoCE v2", "iperf3, one TCP stream")),
    Gain("two hosts: connections a second, by rdma_cm", "TCP",
         row("targets", "veth, rdma_cm connections, RoCE v2", "TCP")),
    Gain("memory of a connected QP, where a process has 1,000", "",
         row("connections", "memory of a connected QP (of 1,000), auto")),
    Gain("processor time of a process that waits", "",
         row("connections", "processor time of a process that waits")),
]

# (name, title, unit, [(curve's name here, chart, curve)])
PLOTS = [
    ("latency", "A SEND: half a round trip", "us", [
        ("one host, urnic run", "one-host-latency", "urnic map"),
        ("one host, UCX shared memory", "one-host-latency", "UCX posix, tag_lat"),
        ("one host, TCP", "one-host-latency", "TCP that spins"),
        ("two hosts, urnic", "two-hosts-latency", "RoCE v2"),
        ("two hosts, TCP", "two-hosts-latency", "TCP that spins")]),
    ("bandwidth", "WRITEs: bandwidth", "MB/s", [
        ("one host, urnic run", "one-host-bandwidth", "urnic map"),
        ("one host, UCX shared memory", "one-host-bandwidth", "UCX posix, ucp_put_bw"),
        ("one host, UCX over TCP", "one-host-bandwidth", "UCX tcp, tag_bw"),
        ("two hosts, urnic", "two-hosts-bandwidth", "RoCE v2"),
        ("two hosts, iperf3 (TCP)", "two-hosts-bandwidth", "iperf3, TCP")]),
]


def two_digits(x):
    return f"{x:.0f}" if x >= 9.95 else f"{x:.1f}"


def words(ratio, less):
    """A ratio as one says it: ours to theirs, of times (less) or of rates."""
    if 0.95 <= ratio <= 1.05:
        return "the same"
    if less:
        return f"{two_digits(ratio)} times as long" if ratio > 1 else f"{two_digits(1 / ratio)} times as fast"
    return f"{two_digits(ratio)} times as much" if ratio > 1 else f"{100 * ratio:.2g} %"


def cells(beside):
    if beside is None:
        return "-", "-"
    return (f"{stats.number(beside.ours)} {beside.unit}",
            words(beside.ratio, beside.less) if beside.other is not None else "")


def table(figures):
    """(cells, date) of each line that there are figures for."""
    lines = []
    for gain in GAINS:
        run, alone = gain.run(figures), gain.alone(figures) if gain.alone else None
        if not run:
            continue
        other = f"{gain.otherwise}: {stats.number(run.other)} {run.unit}" if gain.otherwise else ""
        same = "the same" if gain.otherwise else ""
        lines.append(((gain.what, other, *cells(run), *(cells(alone) if gain.alone else (same, ""))),
                      run.when))
    return lines


def plots(figures):
    for name, title, unit, wanted in PLOTS:
        curves = []
        for here, chart, curve in wanted:
            of = figures.chart(chart)
            found = of.curve(curve) if of else None
            if found and found.points:
                curves.append(Curve(here, found.points, found.limit, when=found.when))
        if curves:
            yield Chart(name, title, unit, curves)
