# SPDX-License-Identifier: BSD-2-Clause
"""Read figures from the output of the benchmark's programs."""

import csv
import json
import re

import programs

QPERF = {"ns": 1e-3, "us": 1, "ms": 1e3, "KB/sec": 1e-6, "MB/sec": 1e-3, "GB/sec": 1}
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}


class Unread(Exception):
    """The output is not as expected."""


class Untimed(Unread):
    """The program ran, but could not time itself."""


def perftest(out):
    """The columns of the last row, as numbers."""
    rows = re.findall(r"^\s*\d+\s+\d+\s+[\d.].*$", out, re.M)
    if not rows:
        raise Unread(f"no row of figures: {last_line(out)}")
    return [float(x) for x in rows[-1].split()]


def perftest_timed(out):
    """perftest()'s columns, if they are times or rates that mean anything."""
    if not programs.perftest_timed(out):
        raise Untimed(programs.CLOCK.search(out)[0])
    return perftest(out)


def ucx(out):
    """The tables of ucx_perftest -b -f -v: {name of the test: {column: figure}}."""
    lines = out.splitlines()
    starts = [i for i, line in enumerate(lines) if ",iterations," in line]
    if not starts:
        raise Unread(f"no table: {last_line(out)}")
    head = next(csv.reader([lines[starts[0]]]))
    tests = {}
    for cells in csv.reader(lines[starts[0] + 1:]):
        if len(cells) == len(head):
            tests[cells[0]] = dict(zip(head[1:], map(float, cells[1:])))
    return tests


def fi_pingpong(out):
    """{message bytes: half a round trip in us}."""
    rows = re.findall(r"^([\d.]+)([km]?)\s+\d+\s+=\d+\s+\S+\s+[\d.]+s\s+[\d.]+\s+([\d.]+)",
                      out, re.M)
    if not rows:
        raise Unread(f"no row of figures: {last_line(out)}")
    return {int(float(n) * UNITS[unit]): float(us) for n, unit, us in rows}


def iperf3(out):
    """The received Gb/s."""
    try:
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e9
    except (ValueError, KeyError):
        raise Unread(f"no figures: {last_line(out)}") from None


def netpipe(out):
    """{message bytes: the seconds that one takes, one way}."""
    rows = [line.split() for line in out.splitlines() if line.strip()]
    if not rows or any(len(row) != 3 for row in rows):
        raise Unread(f"no row of figures: {last_line(out)}")
    return {int(size): float(seconds) for size, _, seconds in rows}


def fio(out, idle=0):
    """The GB/s of a client that did nothing in the first `idle` seconds."""
    try:
        done = json.loads(out[out.index("{"):])["jobs"][0]["write"]
        return done["io_bytes"] / (done["runtime"] / 1e3 - idle) / 1e9
    except (ValueError, KeyError, IndexError, ZeroDivisionError):
        raise Unread(f"no figures: {last_line(out)}") from None


def qperf(out):
    """A latency in us, or a bandwidth in GB/s."""
    found = re.search(r"(latency|bw)\s*=\s*([\d.,]+)\s*(\S+)", out)
    if not found:
        raise Unread(f"no figure: {last_line(out)}")
    return float(found[2].replace(",", "")) * QPERF[found[3]]


def number(out):
    try:
        return float(out)
    except ValueError:
        raise Unread(f"no number: {last_line(out)}") from None


def last_line(out):
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"
