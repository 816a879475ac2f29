# SPDX-License-Identifier: BSD-2-Clause
"""`make bench`: its parsers and its arithmetic; and one row of each kind, so that none stops
working unnoticed.

The figures themselves do not matter here, since the machine has other work meanwhile.
"""

import os
import re
import subprocess
import sys
import types

import pytest

from lab import CAN_NAMESPACE, ROOT
from tool import need

sys.path.insert(0, str(ROOT / "tests/bench"))
import bench  # noqa: E402
import parse  # noqa: E402
import figures  # noqa: E402
import gains  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
import sizes  # noqa: E402
import spread  # noqa: E402
import stats  # noqa: E402
import targets  # noqa: E402
import vms  # noqa: E402

LAT = """ local address: LID 0000 QPN 0x0100 PSN 0xd1
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          0.49           5.14         0.52                0.53            0.08            0.60                    5.14
"""
UCX = """bench.batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
s8,1000,0.175,0.179,0.179,42.61,42.61,5584959,5584959
[1795480042.6] [vm:22004:0] perftest.c:434  UCX  WARN something, else
s4096,1000,2.885,3.106,3.106,1257.45,1257.45,321908,321908
"""
FI = """bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
0       20      =20      0           0.00s      0.00      23.55       0.04
64      20      =20      2.5k        0.00s      9.01       7.10       0.14
1.5k    20      =20      60k         0.00s    156.73       9.80       0.10
2m      20      =20      80m         0.02s   3854.88     544.03       0.00
"""


# --- what programs print --------------------------------------------------------------

def test_perftest():
    assert parse.perftest(LAT) == [8, 1000, 0.49, 5.14, 0.52, 0.53, 0.08, 0.60, 5.14]


@pytest.mark.parametrize("row", [" 8 1000 inf inf inf inf -nan inf inf", " 8 1000 0.00 0.00 0.000000"])
def test_perftest_without_a_clock(row):
    out = f"head Correlation coefficient r^2: 0.78 < 0.9\n{row}\n"
    with pytest.raises(parse.Untimed, match="r.2: 0.78"):
        parse.perftest_timed(out)


def test_perftest_is_run_again_where_it_has_no_clock(monkeypatch):
    outs = ["Correlation coefficient r^2: 0.78 < 0.9\n", LAT]
    place = [types.SimpleNamespace(ip4="")] * 2
    monkeypatch.setattr(peers.lab, "run_both",
                        lambda *_, **__: (None, types.SimpleNamespace(out=outs.pop(0))))
    assert peers.Programs.perftest(None, place, "ib_send_lat")[4] == 0.52 and not outs
    outs += [f"Correlation coefficient r^2: 0.{n} < 0.9\n" for n in range(4)]
    with pytest.raises(parse.Untimed, match="r.2: 0.2"):
        peers.Programs.perftest(None, place, "ib_send_lat")


def test_ucx():
    tests = parse.ucx(UCX)
    assert list(tests) == ["s8", "s4096"]
    assert tests["s8"]["50.0_percentile_lat"] == 0.175
    assert tests["s4096"]["overall_bw"] == 1257.45


def test_fi_pingpong():
    assert parse.fi_pingpong(FI) == {0: 23.55, 64: 7.10, 1536: 9.80, 2 << 20: 544.03}


def test_iperf3():
    assert parse.iperf3('{"end": {"sum_received": {"bits_per_second": 1.5e10}}}') == 15
    with pytest.raises(parse.Unread):
        parse.iperf3('{"error": "unable to connect"}')


def test_netpipe():
    assert parse.netpipe("       8    9.083219   0.00000672\n") == {8: 6.72e-6}


def test_fio():
    told = 'note: both\n{"jobs": [{"write": {"io_bytes": 3000000000, "runtime": 2000}}]}'
    assert parse.fio(told) == 1.5
    assert parse.fio(told, 0.5) == 2


def test_qperf():
    assert parse.qperf("rc_lat:\n    latency  =  12.5 us\n") == 12.5
    assert parse.qperf("tcp_bw:\n    bw  =  1.25 GB/sec\n") == 1.25
    assert parse.qperf("tcp_bw:\n    bw  =  940 MB/sec\n") == pytest.approx(0.94)


@pytest.mark.parametrize("read", [parse.perftest, parse.ucx, parse.fi_pingpong, parse.iperf3,
                                  parse.netpipe, parse.fio, parse.qperf, parse.number])
@pytest.mark.parametrize("out", ["", "  \n", "one\nConnection refused\n"])
def test_what_cannot_be_read(read, out):
    with pytest.raises(parse.Unread, match="Connection refused" if "one" in out else "nothing"):
        read(out)


# --- figures --------------------------------------------------------------------------

def test_percentiles():
    values = list(range(20, 0, -1))
    assert [stats.percentile(values, s) for s in (0.01, 0.5, 0.99)] == [1, 10, 20]
    assert stats.percentile([7], 0.99) == 7


def test_spread_is_median_and_worst():
    assert stats.spread([5, 1, 3], less=True) == (3, 5)
    assert stats.spread([5, 1, 3], less=False) == (3, 1)


@pytest.mark.parametrize("x, text", [(0, "0"), (0.0951, "0.095"), (0.5, "0.500"), (15.27, "15.3"),
                                     (2427, "2427"), (0.0004, "0.000")])
def test_numbers(x, text):
    assert stats.number(x) == text


@pytest.mark.parametrize("n, name", [(8, "8 B"), (4096, "4 KiB"), (8 << 20, "8 MiB"), (1500, "1500 B")])
def test_size_names(n, name):
    assert stats.size_name(n) == name


def test_goals():
    assert stats.at_least(0.95).met([(95, 100), (1, 100), (97, 100)])
    assert not stats.at_least(0.95).met([(94, 100)])
    plus = stats.at_most(1, 0.03, "us")
    assert str(plus) == "<= 1x + 30 ns" and str(stats.at_most(1, 60, "ns")) == "<= 1x + 60 ns"
    assert plus.met([(0.089, 0.06)]) and not plus.met([(0.1, 0.06)])
    assert stats.Goal(250, less=True).met([(250, 1)])


def test_spread_of_runs():
    good = spread.compare("lat", "us", True, [1.0] * 20, [1.4] * 20)
    assert good[6:] == ("1.40", "1.40", "< 1.5", "yes")
    assert spread.compare("lat", "us", True, [1.0] * 20, [1.0] * 19 + [100])[7:] == ("100", "< 1.5", "NO")
    assert spread.compare("rate", "M/s", False, [4.0] * 20, [4.0] * 19 + [1])[7:] == ("4.00", "< 1.5", "NO")


# --- rows -----------------------------------------------------------------------------

def cells(rounds, *table):
    return [line.cells() for line in rows.Runner(rounds).table("rows", list(table))]


def told(row, rounds=3):
    return cells(rounds, row)


def test_rounds_alternate():
    order = []

    def one(name, value):
        return lambda: order.append(name) or value
    row = rows.Row("w", "us", {"a": one("a", 2), "b": one("b", (3, 9))}, "yard", one("y", 4), stats.at_most(0.5))
    assert told(row, 2) == [
        ("w, a", "2.00 us (worst 2.00)", "yard: 4.00 us (worst 4.00)", "0.500", "<= 0.5", "yes"),
        ("w, b", "3.00 us (p99 9.00, worst 3.00)", "yard: 4.00 us (worst 4.00)", "0.750", "<= 0.5", "NO")]
    assert order == ["y", "a", "b"] * 2


def test_rows_share_the_runs_of_what_they_share():
    order = []

    def one(name, value):
        return lambda: order.append(name) or value
    ours = {"a": one("a", 2)}
    pair = [rows.Row("w", "us", ours, name, one(name, value), stats.at_most(1))
            for name, value in (("x", 1), ("y", 4))]
    lines = cells(2, *pair, rows.Row("v", "us", {"": one("b", 1)}, once=True))
    assert order == ["x", "y", "a"] * 2 + ["b"]
    assert [(line[0], line[3], line[5]) for line in lines] == [
        ("w, a", "2.00", "NO"), ("w, a", "0.500", "yes"), ("v", "", "")]


def test_a_row_that_fails_says_so():
    tries = []

    def fails():
        tries.append(1)
        raise AssertionError("client: 1 (no | device)\nand more")
    line = told(rows.Row("w", "us", {"a": fails, "b": lambda: 1}, "yard", lambda: 2, stats.at_most(1)))
    assert line[0] == ("w, a", "failed: client: 1 (no / device)", "yard: 2.00 us (worst 2.00)", "", "<= 1", "NO")
    assert line[1][-1] == "yes" and len(tries) == 1
    line = told(rows.Row("w", "us", {"": lambda: 1}, "yard", fails, stats.at_most(1)))
    assert line[0][1:3] == ("1.00 us (worst 1.00)", "yard: failed: client: 1 (no / device)")
    assert line[0][3:] == ("", "<= 1", "NO")


@pytest.mark.parametrize("text, reason", [
    ("client: 17 (#bytes)\n\n table\n Completion with error at client\n Failed status 9",
     "client: 17 (#bytes): Completion with error at client"),
    ("one\ntwo", "one"), ("", "ValueError")])
def test_why_something_failed(text, reason):
    assert rows.why(ValueError(text)) == reason


# --- two virtual machines --------------------------------------------------------------

CYCLES = """ #bytes #iterations    t_min[cycles]    t_max[cycles]  t_typical[cycles]    t_avg[cycles]    t_stdev[cycles]   99% percentile[cycles]   99.9% percentile[cycles]
 8       1000          1300000.00      9000000.00     2600000.00         2700000.00       1000.00     5200000.00              9000000.00
"""
TIMED = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   Correlation coefficient r^2: 0.784612 < 0.9
MsgRate[Mpps]
 65536      {}           0.000000            0.000000            0.000000
"""


class Guests:
    """Plays two VMs: tells what it is asked to run, and answers as perftest does."""

    def __init__(self, *_, **__):
        self.asked = []

    def guest(self, command, timeout=0, n=1):
        self.asked.append((n, command))
        return 0, CYCLES if "-C " in command else TIMED.format(1000)

    def serve(self, command, port, listens, seconds):
        self.asked.append((1, command))
        return "1"

    def finish(self, job, seconds):
        return 0, ""

    def down(self):
        pass


@pytest.fixture
def two_vms():
    two = vms.TwoVMs(None)
    two.vm, two.mhz = Guests(), 2600
    return two


def test_vms_figures_do_not_depend_on_perftest_s_clock():
    assert vms.latency(CYCLES, 2600) == (1000, 2000)
    assert vms.bandwidth(TIMED.format(1000), 4) == 1000 * 65536 * 8 / 4 / 1e9
    with pytest.raises(parse.Unread, match="no message"):
        vms.bandwidth(TIMED.format(0), 4)


def test_vms_take_turns(two_vms):
    """Each round of a row has the driver's run and urnic's, which no driver is loaded beside."""
    row = next(iter(targets.two_vms(two_vms)))
    line, = cells(2, row)
    assert "ib_send_lat, 8 B, RoCE v2" in line[0] and ("TCG" in line[0] or "KVM" in line[0])
    assert line[1:] == ("1000 us (p99 2000, worst 1000)", "rdma_rxe: 1000 us (p99 2000, worst 1000)", "1.00",
                        "<= 1", "yes")
    loads = [n for n, command in two_vms.vm.asked if "\nmodprobe rdma_rxe" in command]
    assert loads == [1, 2] * 2
    runs = [(n, "/opt/urnic" in command) for n, command in two_vms.vm.asked if "ib_send_lat" in command]
    assert runs == [(1, False), (2, False), (1, True), (2, True)] * 2


def test_vms_that_cannot_be_started(monkeypatch):
    tries = []

    def no_vm(*_, **__):
        tries.append(1)
        raise AssertionError("peer-vm ('build',): text\npeer-vm: no Debian package lists | none")
    monkeypatch.setattr(vms.peervm, "PeerVM", no_vm)
    lines = cells(2, *targets.two_vms(vms.TwoVMs(None)))
    why = "not run: peer-vm: no Debian package lists / none"
    assert len(lines) == 6 and len(tries) == 1
    assert {line[1:4] + line[5:] for line in lines} == {(why, f"{name}: {why}", "", "")
                                                       for name in ("rdma_rxe", "siw")}


def test_a_program_that_fails_in_a_vm(two_vms):
    two_vms.vm.finish = lambda job, seconds: (1, "Couldn't listen to port\n")
    line, = cells(2, next(iter(targets.two_vms(two_vms))))
    assert "server: 1 (Couldn't listen to port)" in line[1] and line[5] == "NO"


NOWHERE = types.SimpleNamespace(
    with_=lambda **_: NOWHERE, with_env=lambda **_: NOWHERE, inner=[], ip4="", dev="", name="")


# --- tables and plots -------------------------------------------------------------------

def chart():
    return sizes.Chart("x", "Title", "us", True, [
        sizes.Path("urnic", lambda s: {n: (n / 8, 1) for n in s}),
        sizes.Path("yard_stick", lambda s: dict.fromkeys(s, 2), True),
        sizes.Path("broken", lambda s: {}["no such size"])])


def test_charts():
    c = chart()
    c.measure(rows.Runner(2), [8, 4096])
    text = report.chart_section(c.figures())
    assert "|  | urnic | yard_stick | broken |" in text
    assert "| 8 B | 1.00 | 2.00 | - |\n| 4 KiB | 512 | 2.00 | - |\n" in text
    assert "broken: failed" in text


def test_plots_are_small_and_always_the_same(tmp_path):
    need("gnuplot")
    c = chart()
    c.measure(rows.Runner(1), stats.SIZES)
    texts = []
    for name in ("a.svg", "b.svg"):
        assert report.plot(c.figures(), tmp_path / name)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] and "yard_stick" in texts[0] and "broken" not in texts[0]
    assert len(texts[0]) < 40000 and "font-face" not in texts[0]


# --- the page from recorded figures ------------------------------------------------------

def line(what, ours, yard_name="", yard=None, ratio=None, unit="us", when="2026-01-01", **kw):
    return figures.Line(what, unit, unit == "us", figures.Figure(ours), yard_name,
                        yard and figures.Figure(yard), ratio, when=when, **kw)


def curve(name, points, when="2026-01-01", **kw):
    return figures.Curve(name, {size: (value, value) for size, value in points.items()}, when=when, **kw)


def recorded():
    """A few figures, as a whole bench has them."""
    return figures.Figures(5, {"2026-01-01": "a machine"}, {
        "targets": [
            line("one host, ib_write_lat, 8 B, map", 0.09, "UCX posix, ucp_put_lat", 0.06, 1.5, goal="<= 1", met="NO"),
            line("one host, ib_write_lat, 8 B, auto", 2.4, "UCX posix, ucp_put_lat", 0.06, 40),
            line("one host, ib_write_lat, 8 B, map", 0.09, "a cache line, one way", 0.05, 1.8),
            line("veth, rdma_cm connections, RoCE v2", 7000, "TCP", 10000, 0.7, unit="/s")],
        "spread": [figures.Spread(["ib_send_lat", *"1234567", "", "yes"], "2026-01-01")],
    }, {"one-host": [figures.Chart("one-host-latency", "One host: ib_send_lat", "us", [
        curve("urnic map", {8: 0.4, 64: 0.5}), curve("urnic auto", {8: 0.2}),
        curve("TCP that spins", {8: 4.0}, limit=True)])]})


def test_the_page_begins_with_what_a_user_gets():
    text = report.page(recorded())
    heads = re.findall(r"^#+ .*$", text, re.M)
    assert heads == ["# Performance", "## What you get", "## For developers", "### Targets",
                     "### One host, by size", "#### One host: ib_send_lat, us", "### Spread"]
    mine = text[:text.index("## For developers")]
    assert ("| one host: 8-byte WRITE, latency | UCX, shared memory: 0.060 us | 0.090 us | 1.5 times as long "
            "| 2.40 us | 40 times as long |\n") in mine
    assert ("| one host: 8-byte SEND, latency | TCP, loopback interface: 4.00 us | 0.400 us | 10 times as fast "
            "| 0.200 us | 20 times as fast |\n") in mine
    assert "| two hosts: connections a second, by rdma_cm | TCP: 10000 /s | 7000 /s | 70 % | the same |  |\n" in mine
    assert "goal" not in mine and "NO" not in mine and "- 2026-01-01: a machine" in mine
    assert "Measured on 2026-01-01." in mine and "measured on |" not in text


@pytest.mark.parametrize("ratio, less, text", [
    (1, True, "the same"), (0.96, False, "the same"), (1.5, True, "1.5 times as long"),
    (0.4, True, "2.5 times as fast"), (616, True, "616 times as long"), (4.63, False, "4.6 times as much"),
    (0.82, False, "82 %"), (0.004, False, "0.4 %")])
def test_ratios_in_words(ratio, less, text):
    assert gains.words(ratio, less) == text


def test_what_failed_is_no_gain():
    got = recorded()
    got.tables["targets"][0].ours = figures.Figure(reason="failed: no device")
    assert "8-byte WRITE" not in "".join(cells[0] for cells, _ in gains.table(got))


def test_each_gain_is_a_figure_of_the_bench(monkeypatch):
    """The names that the first table chooses by are names of rows and curves."""
    monkeypatch.setattr(stats, "SIZES", [8])
    p = peers.Programs(types.SimpleNamespace(urnic=""), *[types.SimpleNamespace(
        a=NOWHERE, b=NOWHERE)] * 2)
    got = figures.Figures()
    for name, module in (("targets", targets.rows(p, vms.TwoVMs(None))), ("connections", bench.connections.rows(p))):
        got.tables[name] = [line(f"{row.what}, {way}" if way else row.what, 1, row.yard_name, 1, 1, row.unit)
                            for row in module for way in row.ours]
    for name, charts in (("one-host", sizes.one_host(p)), ("two-hosts", sizes.two_hosts(p))):
        got.charts[name] = [figures.Chart(c.name, c.title, c.unit, [
            curve(path.name, {8: 1}, limit=path.limit) for path in c.paths]) for c in charts]
    assert len(gains.table(got)) == len(gains.GAINS)
    assert not [cells for cells, _ in gains.table(got) if "-" in cells]
    assert [len(c.curves) for c in gains.plots(got)] == [len(wanted) for *_, wanted in gains.PLOTS]


def test_figures_are_kept_as_they_are():
    assert figures.Figures.load(recorded().dump()) == recorded()


def test_figures_of_another_day_say_so():
    got = recorded()
    old = recorded()
    got.merge(figures.Figures(1, {"2026-02-02": "another load"}, {"targets": [
        line("one host, ib_write_lat, 8 B, map", 0.12, "UCX posix, ucp_put_lat", 0.06, 2.0, when="2026-02-02")],
        "spread": []}, {"one-host": [figures.Chart("one-host-latency", "", "us", [
            curve("urnic map", {8: 0.3}, when="2026-02-02")])]}))
    assert [x.ours.middle for x in got.tables["targets"]] == [0.12, *(x.ours.middle for x in old.tables["targets"][1:])]
    text = report.page(got)
    assert "- 2026-01-01: a machine\n- 2026-02-02: another load\n" in text
    assert re.search(r"\| one host: 8-byte WRITE, latency .*0.120 us \| 2.0 times as long .*\| 2026-02-02 \|", text)
    assert re.search(r"\| one host, ib_write_lat, 8 B, auto .*\| 2026-01-01 \|", text)
    assert "Measured on 2026-02-02; on 2026-01-01: urnic auto, TCP that spins.\n" in text
    got.merge(figures.Figures(1, {}, {name: [figures.dataclasses.replace(x, when="2026-02-02") for x in table]
                                      for name, table in got.tables.items()},
                              {name: [figures.dataclasses.replace(c, curves=[
                                  figures.dataclasses.replace(x, when="2026-02-02") for x in c.curves])
                                  for c in charts] for name, charts in got.charts.items()}))
    assert list(got.machines) == ["2026-02-02"]


def test_the_page_is_of_its_figures(tmp_path):
    """docs/performance.md is what `scripts/bench --page` makes of docs/performance.json."""
    need("gnuplot")
    docs = ROOT / "docs"
    bench.write(bench.kept(docs), tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir() if p.suffix != ".svg"} == {
        p.name: p.read_text() for p in docs.glob("performance*") if p.suffix != ".svg"}
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in docs.glob("performance*")}


def test_figures_that_are_kept_take_the_place_of_others(monkeypatch, tmp_path):
    bench.write(recorded(), tmp_path)
    fresh = figures.Figures(5, {"2026-02-02": "another load"}, {"targets": [
        line("one host, ib_write_lat, 8 B, map", 0.12, "UCX posix, ucp_put_lat", 0.06, 2.0, when="2026-02-02")]})
    monkeypatch.setattr(bench, "measured", lambda args: fresh)
    before = (tmp_path / bench.FIGURES).read_text()
    for words, changes in ((["--only", "targets"], False), (["--only", "targets", "--keep"], True)):
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        bench.main(tmp_path)
        assert ((tmp_path / bench.FIGURES).read_text() != before) == changes
    text = (tmp_path / bench.PAGE).read_text()
    assert "0.120 us" in text and "| one host, ib_write_lat, 8 B, auto | 2.40 us |" in text
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "targets", "--keep", "--rounds", "2"])
    with pytest.raises(SystemExit, match="needs --rounds 5"):
        bench.main(tmp_path)


def test_files_are_written_all_or_none(tmp_path):
    (tmp_path / "performance.md").write_text("old")
    with pytest.raises(TypeError):
        report.write({"a.svg": "new", "performance.md": None}, tmp_path)
    assert (tmp_path / "performance.md").read_text() == "old" and not (tmp_path / "a.svg").exists()
    report.write({"a.svg": "new", "performance.md": "new"}, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svg", "performance.md"]


# --- the whole --------------------------------------------------------------------------

BENCH = ROOT / "scripts/bench"
CHEAP = {"targets/8 B, single posts": r"ib_write_bw.*, map \| [\d.]+ M/s.*ucp_put_bw: [\d.]+ M/s \| [\d.]+ \| >= 0.6",
         "targets/veth, ib_write_lat": r"RoCE v2 \| [\d.]+ us.*helper thread: [\d.]+ us \| [\d.]+ \| <= 1.1",
         "two-hosts/ib_send_lat RoCE v2, raw": r"\| 32 KiB \| [\d.]+ \|",
         "spread/ib_send_lat, 8 B, auto": r"(\| [\d.]+ ){4}\| us \|",
         "programs/fio, write, 64 KiB, depth 16": r"fio, write, 64 KiB, depth 16, map \| [\d.]+ GB/s \| its net engine: [\d.]+ GB/s",
         "connections/connect, a word each way, part: one": r"one host, iWARP \| [\d.]+ /s.*TCP: [\d.]+ /s"}


# Two VMs start in 15 seconds of two processors, and are emulated.
VMS = "targets/each), ib_send_lat"
CHEAP[VMS] = r"two VMs \((TCG|KVM).*, 8 B, RoCE v2 \| [\d.]+ us .*rdma_rxe: [\d.]+ us .*<= 1 \|"


def page():
    docs = ROOT / "docs"
    return {p.name: p.read_bytes() for p in docs.glob("performance*")}


def quick(only, timeout=300, **env):
    if not CAN_NAMESPACE:
        pytest.skip("no root: run scripts/system-tests, which makes a user namespace")
    for program in ("ib_write_lat", "ucx_perftest", "iperf3", "gnuplot", "opensm", "ibsim", "fi_pingpong",
                    "valgrind", "qemu-system-x86_64"):
        need(program)
    before = page()
    done = subprocess.run([BENCH, "--quick", "--only", only], text=True, timeout=timeout, check=False,
                          env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert page() == before
    return done


@pytest.mark.full(of=lambda params: params["only"] == VMS)
@pytest.mark.parametrize("only", CHEAP)
def test_quick(only):
    done = quick(only, 900 if only == VMS else 300)
    assert re.search(CHEAP[only], done.stdout), done.stdout + done.stderr
    assert "failed" not in done.stdout, done.stdout


def test_vms_that_qemu_does_not_start():
    done = quick(VMS, PEER_VM_ACCEL="none-such")
    assert re.search(r"not run: .*none-such \| rdma_rxe: not run", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize("words, says", [(["--only", "hosts"], "targets"), (["--keep"], "--only"),
                                         (["--keep", "--quick", "--only", "spread"], "--quick")])
def test_what_cannot_be_asked_for(monkeypatch, capsys, words, says):
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    with pytest.raises(SystemExit):
        bench.arguments()
    assert says in capsys.readouterr().err


def test_what_is_interrupted_leaves_the_page(monkeypatch, tmp_path):
    """bench writes the page at the end and nowhere else, so an interrupted run leaves it as it
    was."""
    written = []

    def interrupted(*_):
        raise KeyboardInterrupt

    class Nothing:
        def __init__(self, *_, **__):
            self.a = self.b = None

        reap = remove = __init__
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(bench.lab, "Stage", Nothing)
    monkeypatch.setattr(bench.lab, "Pair", Nothing)
    monkeypatch.setattr(bench, "Programs", Nothing)
    monkeypatch.setattr(bench.Bench, "measure", interrupted)
    monkeypatch.setattr(report, "write", lambda *a: written.append(a))
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    assert not written
