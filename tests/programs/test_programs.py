# SPDX-License-Identifier: BSD-2-Clause
"""Debian's RDMA programs, unmodified, as an ordinary user: the tables of programs.py."""

import os
import pathlib
import re

import pytest

import lab
import programs
from programs import Row, table
from tool import need, ucx_perftest

JUMBO = [p for p in programs.PLACES if p[1] == 9000]


def run_cell(shared_pair, cell, env=None, timeout=lab.HANGS):
    pair = shared_pair(cell.mtu)
    server, client = pair.place(cell.place)
    gid = str(pair.GIDS[cell.family])
    gid_option = "-g" if cell.row.program.startswith("ibv_") else "-x"
    words = [cell.row.program, "-d", pair.a.dev, gid_option, gid,
             *cell.row.options]
    return lab.run_both(server, client, words, pair.a.ip4, env=env,
                        timeout=timeout)


def check_perftest(cell, proc):
    results = programs.perftest_results(proc.out)
    assert results, f"no figures in {proc.describe()}"
    if "-a" in cell.row.options:
        sizes = [r[0] for r in results]
        top = 1 << 23
        if cell.row.conn == "UD":
            top = 1024 if cell.mtu == 1500 else 4096
        assert sizes == [2 ** n for n in range(1, top.bit_length())], sizes
    else:
        assert len(results) == 1, proc.describe()
    if not programs.perftest_timed(proc.out):
        return
    if cell.row.program.endswith("_lat"):
        assert all(r[2][0] > 0 for r in results), proc.describe()
    else:
        assert results[-1][2][-1] > 0, proc.describe()  # the message rate


# --- looking ----------------------------------------------------------------

def test_no_kernel_rdma():
    """The other tests would prove nothing on a machine whose kernel has RDMA devices."""
    for path in ("/dev/infiniband", "/sys/class/infiniband"):
        if os.path.exists(path):
            pytest.skip(f"{path} exists on this machine")


def test_ibv_devices(shared_pair):
    out = shared_pair().a.run("ibv_devices").out
    assert "roce_eth0" in out


@pytest.mark.parametrize("mtu,active", [(1500, "1024 (3)"), (9000, "4096 (5)")])
def test_ibv_devinfo(shared_pair, mtu, active):
    pair = shared_pair(mtu)
    out = pair.a.run("ibv_devinfo", "-v", "-d", "roce_eth0").out
    facts = dict(line.strip().split(":", 1) for line in out.splitlines()
                 if ":" in line)
    facts = {k.strip(): v.strip() for k, v in facts.items()}
    assert facts["transport"] == "InfiniBand (0)"
    assert facts["state"] == "PORT_ACTIVE (4)"
    assert facts["link_layer"] == "Ethernet"
    assert facts["active_mtu"] == active
    assert facts["GID[  0]"].startswith("fe80:"), out
    assert facts["GID[  1]"].startswith(f"::ffff:{pair.a.ip4}"), out
    assert facts["GID[  2]"].startswith(pair.a.ip6), out
    assert "RoCE v2" in facts["GID[  1]"]


def test_ibv_devinfo_all(shared_pair):
    out = shared_pair().a.run("ibv_devinfo").out
    assert out.count("hca_id:") >= 1 and "roce_eth0" in out


def test_ibv_asyncwatch_sees_an_address_change(netns_pair):
    ns = netns_pair().a
    watch = ns.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "roce_eth0")
    watch.wait_output("async event FD")
    ns.sh("ip addr add 10.88.0.77/24 dev eth0")
    watch.wait_output("IBV_EVENT_GID_CHANGE")
    assert watch.running()


def test_ibv_asyncwatch_sees_the_port_go(netns_pair):
    ns = netns_pair().a
    watch = ns.start("stdbuf", "-oL", "ibv_asyncwatch", "-d", "roce_eth0")
    watch.wait_output("async event FD")
    ns.sh("ip link set eth0 down")
    watch.wait_output("IBV_EVENT_PORT_ERR")
    ns.sh("ip link set eth0 up")
    watch.wait_output("IBV_EVENT_PORT_ACTIVE")


# --- under valgrind ---------------------------------------------------------

# No ib_write_bw or ib_atomic_bw: these servers write bytes to their TCP connection that they have
# never set, on any adapter.
@pytest.mark.parametrize("words", ["ibv_rc_pingpong -g 1 -n 100", "ib_write_lat -x 1 -n 100",
                                   "ib_send_bw -x 1 -n 100"])
@pytest.mark.parametrize("place", ["map", "udp"])
def test_valgrind_finds_no_error(shared_pair, place, words):
    """valgrind runs one thread at a time.  ib_write_lat waits in a loop for a byte to change, which
    its engine's thread writes: without --fair-sched that thread may not run for a second."""
    need("valgrind")
    server, client = (ns.with_(inner=["valgrind", "-q", "--fair-sched=yes", "--error-exitcode=9"])
                      for ns in shared_pair().place(place))
    words = words.split()
    for proc in lab.run_both(server, client, [words[0], "-d", server.dev, *words[1:]], server.ip4):
        assert "==" not in re.sub("=====+", "", proc.out), proc.describe()


# --- the tables -------------------------------------------------------------

@pytest.mark.parametrize("cell", table(list(programs.pingpong_rows()))
                         + table(list(programs.jumbo_pingpong_rows()), JUMBO))
def test_pingpong(shared_pair, cell):
    server, client = run_cell(shared_pair, cell)
    for proc in (server, client):
        assert "usec/iter" in proc.out and "invalid data" not in proc.out, \
            proc.describe()


@pytest.mark.parametrize("cell", table(list(programs.above_the_port_rows()),
                                       [p for p in programs.PLACES if p[1] == 1500]))
def test_path_mtu_above_the_port(shared_pair, cell):
    server, client = run_cell(shared_pair, cell)
    for proc in (server, client):
        assert "usec/iter" in proc.out and "invalid data" not in proc.out
        warned = proc.out.count("a program asked for path MTU")
        assert warned == (1 if cell.place == "pair" else 0), proc.describe()


def test_path_mtu_of_two_devices(shared_pair):
    """Two devices on one host carry any path MTU that a program asks for."""
    ns = shared_pair().a.with_env(URNIC_LOCAL="off", URNIC_DEVICES="eth0,lo")
    words = ["ibv_rc_pingpong", "-g", "1", "-n", "200", "-c", "-s", "30000",
             "-m", "4096", "-d"]
    server, client = lab.run_both(ns, ns, [*words, "roce_eth0"], ns.ip4,
                                  server_argv=[*words, "roce_lo"])
    for proc in (server, client):
        assert "usec/iter" in proc.out and "path MTU" not in proc.out, proc.describe()


@pytest.mark.parametrize("gid", sorted(lab.Pair.GIDS))
@pytest.mark.parametrize("kind", ["rc", "uc", "ud", "srq"])
@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_pingpong_gid(shared_pair, kind, gid, place):
    row = Row(f"ibv_{kind}_pingpong", ("-n", "100", "-c"))
    run_cell(shared_pair, programs.Cell(row, place, 1500, gid))


@pytest.fixture(scope="module", autouse=True)
def xrc_files():
    """The files by which perftest names its XRC domains, as every user may open them.  perftest
    would create them for the user that runs it first.  They stay, since tests that run beside
    these use them, too; and they are root's, since Linux may refuse O_CREAT on any other user's
    file in /tmp (fs.protected_regular)."""
    if os.geteuid() != 0 or lab.IN_USERNS:
        return      # then there is one user only
    for end in ("client", "server"):
        path = pathlib.Path(f"/tmp/xrc_domain_{end}")
        if not path.exists() or path.stat().st_uid != 0 or not path.stat().st_mode & 0o004:
            new = path.with_suffix(f".{os.getpid()}")
            new.touch()
            new.chmod(0o444)
            new.rename(path)


@pytest.mark.parametrize("cell", table(list(programs.perftest_rows())))
def test_perftest(shared_pair, cell):
    check_perftest(cell, run_cell(shared_pair, cell)[1])


@pytest.mark.parametrize(
    "cell", table(list(programs.path_mtu_rows(("256", "512", "1024"))))
    + table(list(programs.path_mtu_rows(("2048", "4096"))), JUMBO))
def test_path_mtu(shared_pair, cell):
    check_perftest(cell, run_cell(shared_pair, cell)[1])


@pytest.mark.parametrize("cell", table(
    list(programs.qperf_rows()), [p for p in programs.PLACES if p[2] == "v4"]))
def test_qperf(shared_pair, cell):
    pair = shared_pair(cell.mtu)
    here, other = pair.place(cell.place)
    port = lab.next_port()
    words = ["qperf", "-lp", port]
    server = here.start(*words)
    server.wait_listening(port)
    out = other.run(*words, pair.a.ip4, *cell.row.options, "quit").out
    assert re.search(r"^    (latency|bw|msg_rate) += +[\d.]+ ", out, re.M), out
    server.wait(5)


# When the device claims to be a ConnectX, perftest posts by ibv_wr_*.
CONNECTX = [r for r in programs.perftest_rows()
            if not {"-a", "-o", "-e"} & set(r.options)]


@pytest.mark.parametrize("cell", table(CONNECTX))
def test_perftest_as_connectx(shared_pair, cell):
    server, client = run_cell(shared_pair, cell,
                              env={"URNIC_IDENTITY": "connectx"})
    check_perftest(cell, client)


def test_default_gid(shared_pair):
    """Without -x, perftest chooses the GID itself: the IPv4 one."""
    pair = shared_pair()
    _, client = lab.run_both(pair.a, pair.b, ["ib_write_bw", "-n", "50"],
                             pair.a.ip4)
    assert re.search(r"GID index *: 1$", client.out, re.M), client.describe()


def test_urnic_run(shared_pair):
    """`urnic run`, as README.md shows it, without the tests' LD_LIBRARY_PATH."""
    pair = shared_pair()
    words = [pair.a.stage.urnic, "run", "--", "ib_write_bw", "-n", "50",
             "-d", "roce_eth0"]
    port = lab.next_port()
    server = pair.a.start(*words, "-p", port, library=False)
    server.wait_listening(port)
    pair.b.run(*words, "-p", port, pair.a.ip4, library=False)
    assert server.wait(lab.HANGS) == 0, server.describe()


# --- UCX --------------------------------------------------------------------

UCX_ENV = {"UCX_NET_DEVICES": "roce_eth0:1", "UCX_TLS": "rc_v,ud_v",
           "UCX_IB_GID_INDEX": "1", "UCX_WARN_UNUSED_ENV_VARS": "n"}


def ucx(pair, test, tls="rc_v,ud_v", place="pair", iterations=500, size=1024):
    env = {**UCX_ENV, "UCX_TLS": tls}
    words = [pair.a.stage.urnic, "run", "--", *ucx_perftest()]
    port = lab.next_port()
    here, other = pair.place(place)
    server = here.start(*words, "-p", port, env=env, library=False)
    server.wait_listening(port)
    client = other.run(*words, pair.a.ip4, "-p", port, "-t", test, "-n",
                       iterations, "-w", "10", "-s", size, "-f", env=env,
                       library=False, timeout=60)
    assert server.wait(lab.HANGS) == 0, server.describe()
    return client


def test_ucx_info(shared_pair):
    pair = shared_pair()
    out = pair.a.run(pair.a.stage.urnic, "run", "--", "ucx_info", "-d",
                     library=False).out
    assert "Device: roce_eth0:1" in out, out
    for transport in ("rc_verbs", "ud_verbs"):
        assert f"Transport: {transport}" in out, out


@pytest.mark.parametrize("place", lab.Pair.PLACES)
@pytest.mark.parametrize("test", ["tag_lat", "tag_bw", "ucp_put_bw", "ucp_get",
                                  "ucp_fadd", "stream_bw", "ucp_am_bw"])
def test_ucx_perftest(shared_pair, test, place):
    size = 8 if test == "ucp_fadd" else 1024
    ucx(shared_pair(), test, place=place, size=size)


@pytest.mark.parametrize("size", [8, 100000])
def test_ucx_perftest_ud(shared_pair, size):
    ucx(shared_pair(), "tag_bw", tls="ud_v", size=size)


@pytest.mark.parametrize("test", ["tag_bw", "ucp_put_bw", "ucp_get"])
def test_ucx_perftest_large(shared_pair, test):
    ucx(shared_pair(), test, size=1000000, iterations=50)
