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


@pytest.mark.parametrize("read", [parse.perftest, parse.ucx, parse.fi_pingpong, parse.iperf3,
                                  parse.number])
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

def told(row, rounds=3):
    return rows.Runner(rounds).table("rows", [row])


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
    lines = rows.Runner(2).table("rows", [*pair, rows.Row("v", "us", {"": one("b", 1)}, once=True)])
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
    line, = rows.Runner(2).table("rows", [row])
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
    lines = rows.Runner(2).table("rows", list(targets.two_vms(vms.TwoVMs(None))))
    why = "not run: peer-vm: no Debian package lists / none"
    assert len(lines) == 6 and len(tries) == 1
    assert {line[1:4] + line[5:] for line in lines} == {(why, f"{name}: {why}", "", "")
                                                       for name in ("rdma_rxe", "siw")}


def test_a_program_that_fails_in_a_vm(two_vms):
    two_vms.vm.finish = lambda job, seconds: (1, "Couldn't listen to port\n")
    line, = rows.Runner(2).table("rows", [next(iter(targets.two_vms(two_vms)))])
    assert "server: 1 (Couldn't listen to port)" in line[1] and line[5] == "NO"


# --- tables and plots -------------------------------------------------------------------

def chart():
    return sizes.Chart("x", "Title", "us", True, [
        sizes.Path("urnic", lambda s: {n: (n / 8, 1) for n in s}),
        sizes.Path("yard_stick", lambda s: dict.fromkeys(s, 2), True),
        sizes.Path("broken", lambda s: {}["no such size"])])


def test_charts():
    c = chart()
    c.measure(rows.Runner(2), [8, 4096])
    head, lines = sizes.table(c)
    assert head == ("", "urnic", "yard_stick", "broken")
    assert lines == [("8 B", "1.00", "2.00", "-"), ("4 KiB", "512", "2.00", "-")]
    assert "broken: failed" in report.chart_section(c)


def test_plots_are_small_and_always_the_same(tmp_path):
    need("gnuplot")
    c = chart()
    c.measure(rows.Runner(1), stats.SIZES)
    texts = []
    for name in ("a.svg", "b.svg"):
        assert report.plot(c, tmp_path / name)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] and "yard_stick" in texts[0] and "broken" not in texts[0]
    assert len(texts[0]) < 40000 and "font-face" not in texts[0]


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


def test_no_such_section(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "hosts"])
    with pytest.raises(SystemExit):
        bench.arguments()
    assert "targets" in capsys.readouterr().err


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
