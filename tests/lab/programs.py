# SPDX-License-Identifier: BSD-2-Clause
"""The tables of programs: which options of each program are run, and in which places.

A row is a program with its options.  A cell is a row in a place (between two namespaces, or
between two processes of one host by one of URNIC_LOCAL's ways), with one address family and one
interface MTU.  The full table has every row in every place.  The bounded one has every row once,
each row in the place after the previous row's, so that all places are used.  Options that a
program refuses by itself (ib_write_bw over UD, -e with ib_write_bw, ...) are not in the table.

UC and UD have no acknowledgements: packets that overrun the receiver's socket buffer (208 KiB for
an ordinary user) are lost, and perftest waits for them for ever.  So rows of UC and UD keep less
than that under way at a time.
"""

import dataclasses
import itertools
import re

import pytest

PLACES = [
    *itertools.product(("pair", "udp"), (1500, 9000), ("v4", "v6")),
    ("host", 1500, "v4"), ("pipe", 9000, "v4"), ("host", 9000, "v6"),
    ("pipe", 1500, "v6"),
]
# Places of the full table only: see lab.Pair.place().
APART = [("vm", 1500, "v4"), ("users", 9000, "v4"), ("pids", 1500, "v6"),
         ("seccomp", 9000, "v6")]


@dataclasses.dataclass(frozen=True)
class Row:
    program: str
    options: tuple = ()
    conn: str = "RC"

    @property
    def name(self):
        words = "".join(w.replace("--", "").replace("-", "", 1) if w.startswith("-")
                        else w for w in self.options)
        program = self.program.replace("ib_", "").replace("ibv_", "")
        return f"{program}-{self.conn}{'-' + words if words else ''}"


@dataclasses.dataclass(frozen=True)
class Cell:
    row: Row
    place: str
    mtu: int
    family: str

    @property
    def name(self):
        return f"{self.row.name}-{self.place}{self.mtu}{self.family}"


def is_long(row):
    """A ping-pong of every size up to 8 MiB has two programs spin for 15 seconds: the bounded
    run has the bandwidth programs at all sizes, and ping-pongs at a few."""
    return row.program.endswith("_lat") and "-a" in row.options and row.conn != "UD"


def table(rows, places=PLACES, extra=()):
    """pytest parameters: each row in every place; a bounded run keeps one place per row."""
    cells = []
    mtus = {p[1] for p in places}
    apart = [p for p in APART if p[1] in mtus]
    for i, row in enumerate(rows):
        for j, place in enumerate((*places, *apart)):
            marks = () if j == i % len(places) and not is_long(row) else pytest.mark.full
            cell = Cell(row, *place)
            cells.append(pytest.param(cell, id=cell.name, marks=marks))
    return cells + [pytest.param(c, id=c.name) for c in extra]


# --- ibv_*_pingpong ---------------------------------------------------------

def pingpong_rows():
    n = ("-n", "200", "-c")
    mtus = [("-m", m) for m in ("256", "512", "1024")]
    for kind in ("rc", "uc", "ud", "srq"):
        program = f"ibv_{kind}_pingpong"
        yield Row(program, n)
        yield Row(program, (*n, "-e"))
        yield Row(program, ("-n", "50", "-r", "20"))
        if kind != "ud":
            for mtu in mtus:
                yield Row(program, (*n, *mtu))
            yield Row(program, (*n, "-s", "30000"))
        if kind in ("rc", "srq"):
            yield Row(program, (*n, "-o"))
    yield Row("ibv_rc_pingpong", (*n, "-o", "-e"))
    yield Row("ibv_rc_pingpong", (*n, "-N"))
    yield Row("ibv_srq_pingpong", (*n, "-q", "4", "-e"))


def jumbo_pingpong_rows():
    for kind in ("rc", "uc", "srq"):
        for mtu in ("2048", "4096"):
            yield Row(f"ibv_{kind}_pingpong", ("-n", "200", "-c", "-m", mtu))


def above_the_port_rows():
    """Rows that ask for a path MTU above what an interface of MTU 1500 carries; urnic then uses
    the interface's."""
    for kind in ("rc", "uc", "srq"):
        for mtu in ("2048", "4096"):
            yield Row(f"ibv_{kind}_pingpong",
                      ("-n", "200", "-c", "-s", "30000", "-m", mtu))


# --- perftest ---------------------------------------------------------------

SIZES = {"RC": ("-n", "200"), "XRC": ("-n", "200"), "UC": ("-n", "20", "-s", "2000"),
         "UD": ("-n", "20", "-s", "1000")}


def _perftest(program, conn, *options):
    size = SIZES[conn]
    if "-a" in options:
        size = ("-n", "5")
    elif "-q" in options and conn != "RC":
        size = ("-n", "5", "-s", "500")
    elif program.startswith("ib_atomic"):
        size = size[:2]
    inline = ("-s", "64") if "-I" in options else ()
    if inline:
        size = size[:2]
    conn_words = () if conn == "RC" else ("-c", conn)
    return Row(program, (*conn_words, *size, *inline, *options), conn)


def perftest_rows():
    for program in ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_read_lat"):
        yield _perftest(program, "XRC")
    for conn in ("RC", "UC", "UD"):
        for options in ((), ("-a",), ("-e",), ("-q", "16"), ("-b",), ("-I", "64"),
                        ("--use-srq",), ("--use-srq", "-q", "4")):
            if conn != "RC" and "-a" in options and conn == "UC":
                continue  # 8 MiB messages without acknowledgements: see the module's docstring
            if conn == "UC" and "--use-srq" in options:
                continue  # perftest has SRQs for RC, UD and XRC only
            if conn == "UD" and {"--use-srq", "-q"} <= set(options):
                continue  # perftest posts fewer receives than it sends, so that more datagrams are lost
            yield _perftest("ib_send_bw", conn, *options)
        for options in ((), ("-a",), ("-e",), ("-I", "64"), ("--use-srq",)):
            if conn == "UC" and ("--use-srq" in options or "-a" in options):
                continue
            yield _perftest("ib_send_lat", conn, *options)
    for conn in ("RC", "UC"):
        for options in ((), ("-a",), ("-q", "16"), ("-b",), ("-I", "64")):
            yield _perftest("ib_write_bw", conn, *options)
        for options in ((), ("-a",), ("-I", "64")):
            if conn == "UC" and "-a" in options:
                continue
            yield _perftest("ib_write_lat", conn, *options)
    for options in ((), ("-a",), ("-e",), ("-q", "16"), ("-b",), ("-o", "1")):
        yield _perftest("ib_read_bw", "RC", *options)
    for options in ((), ("-a",), ("-e",)):
        yield _perftest("ib_read_lat", "RC", *options)
    for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        for options in ((), ("-e",), ("-q", "16"), ("-b",)):
            yield _perftest("ib_atomic_bw", "RC", "-A", kind, *options)
        for options in ((), ("-e",)):
            yield _perftest("ib_atomic_lat", "RC", "-A", kind, *options)
    for program in ("ib_send_lat", "ib_read_lat"):
        yield Row(program, ("-n", "5", "-s", "1000001"))


def path_mtu_rows(mtus):
    for mtu in mtus:
        for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_write_lat"):
            yield Row(program, ("-n", "50", "-s", "20000", "-m", mtu))
        yield Row("ib_write_bw", ("-c", "UC", "-n", "5", "-s", "9000", "-m", mtu), "UC")
        yield Row("ib_send_lat", ("-c", "UD", "-n", "50", "-s", "200", "-m", mtu), "UD")


# --- qperf ------------------------------------------------------------------

def qperf_rows():
    """qperf's RC tests with rdma_cm (-cm1).  Without rdma_cm, qperf sends to LIDs, which only
    InfiniBand has; with it, qperf has RC only.  qperf knows IPv4 alone."""
    for test in ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat",
                 "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_rdma_write_bw",
                 "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr",
                 "ver_rc_compare_swap", "ver_rc_fetch_add"):
        yield Row("qperf", ("-cm1", "-t", "1", test))


NUMBERS = re.compile(r"^[ \t]*(\d+)[ \t]+(\d+)((?:[ \t]+(?:[\d.]+|inf|-?nan)){2,})[ \t]*$", re.M)
# The warnings that perftest prints, in the middle of a line, on a machine whose clock is not
# steady.
CLOCK = re.compile(r"(?:Correlation coefficient|Conflicting CPU).*")


def perftest_timed(output):
    """Whether perftest's figures mean anything: without a steady clock, rates are 0 and times
    inf."""
    return "Correlation coefficient" not in output


def perftest_results(output):
    """The rows of a perftest report, as [(bytes, iterations, [figures])]."""
    return [(int(b), int(n), [float(f) for f in rest.split()])
            for b, n, rest in NUMBERS.findall(CLOCK.sub("", output))]
