# SPDX-License-Identifier: BSD-2-Clause
"""urnic and Linux's rdma_rxe, which runs in a VM; each is the server in turn."""

import re
import shutil

import pytest

import lab
import programs
import wirecheck

URNIC4, URNIC6 = "10.77.1.1", "fd77:1::1"


MTUS = (1500, 4200)
FAMILIES = ("v4", "v6")


@pytest.fixture(scope="module", params=MTUS, ids=["mtu1500", "mtu4200"])
def vm_session(request, vms):
    return vms(request.param)


# The program and its options, to which -m with the path MTU is added.  rxe takes no inline data
# above a few hundred bytes.  perftest has no UD test that a slow guest could not make lose a
# packet.
ROWS = {
    "rc_pingpong": ("ibv_rc_pingpong", "-c", "-n", "30", "-s", "9000"),
    "rc_pingpong_events": ("ibv_rc_pingpong", "-c", "-e", "-n", "30", "-s", "3001"),
    "uc_pingpong": ("ibv_uc_pingpong", "-c", "-n", "30", "-s", "9001"),
    "ud_pingpong": ("ibv_ud_pingpong", "-c", "-n", "30", "-s", "1001"),
    "srq_pingpong": ("ibv_srq_pingpong", "-c", "-n", "20", "-q", "4", "-r", "100"),
    "send_bw": ("ib_send_bw", "-n", "50", "-s", "9001"),
    "write_bw": ("ib_write_bw", "-n", "50", "-s", "65537"),
    "read_bw": ("ib_read_bw", "-n", "50", "-s", "9001"),
    "atomic_bw": ("ib_atomic_bw", "-n", "50"),
    "atomic_cmp_swap": ("ib_atomic_bw", "-n", "50", "-A", "CMP_AND_SWAP"),
}
FULL_ROWS = {
    "send_bw_all": ("ib_send_bw", "-a", "-n", "5"),
    "write_bw_all": ("ib_write_bw", "-a", "-n", "5"),
    "read_bw_all": ("ib_read_bw", "-a", "-n", "5"),
    "write_bw_q16": ("ib_write_bw", "-q", "16", "-n", "20"),
    "read_bw_q16": ("ib_read_bw", "-q", "16", "-n", "20"),
    "send_bw_srq": ("ib_send_bw", "--use-srq", "-q", "4", "-n", "50"),
    "send_bw_bidir": ("ib_send_bw", "-b", "-n", "50"),
    "write_bw_bidir": ("ib_write_bw", "-b", "-n", "50"),
    "write_bw_mtu256": ("ib_write_bw", "-n", "50", "-s", "9001", "-m", "256"),
    "uc_write_bw": ("ib_write_bw", "-c", "UC", "-n", "5", "-s", "3001"),
    "send_lat": ("ib_send_lat", "-n", "100", "-s", "3001"),
    "write_lat": ("ib_write_lat", "-n", "100", "-s", "3001"),
    "read_lat": ("ib_read_lat", "-n", "100", "-s", "3001"),
    "atomic_lat": ("ib_atomic_lat", "-n", "100"),
}


def options_of(vm, row):
    program, *options = row
    if "-m" not in options and "atomic" not in program and "ud_" not in program:
        options += ["-m", str(vm.path_mtu)]
    return program, options


def run_row(vm, row, family, server):
    program, options = options_of(vm, row)
    serve = vm.guest_serves if server == "rxe" else vm.host_serves
    ours, theirs = serve(program, options, family)
    for out in (ours, theirs):
        if program.startswith("ibv_"):
            assert "usec/iter" in out and "invalid data" not in out, out
    if not program.startswith("ibv_"):
        client = ours if server == "rxe" else theirs
        assert programs.perftest_results(client), client


def elsewhere(params):
    """True for the cells that only --full runs: each row runs in one combination of MTUS and
    FAMILIES, the next row in the next one."""
    place = len(FAMILIES) * MTUS.index(params["vm_session"]) + FAMILIES.index(params["family"])
    return list(ROWS).index(params["row"]) % (len(MTUS) * len(FAMILIES)) != place


@pytest.mark.full(of=elsewhere)
@pytest.mark.parametrize("server", ["rxe", "urnic"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("row", ROWS)
def test_rxe(vm, row, family, server):
    run_row(vm, ROWS[row], family, server)


@pytest.mark.full
@pytest.mark.parametrize("server", ["rxe", "urnic"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("row", FULL_ROWS)
def test_rxe_full(vm, row, family, server):
    run_row(vm, FULL_ROWS[row], family, server)


@pytest.mark.parametrize("server", ["rxe", "urnic"])
def test_rxe_loses_packets(vm, server):
    """Both ends repair a wire that loses a twentieth of what rxe sends.

    There is no pingpong here: it ends without waiting for its peer, and if the last ACK is lost,
    no process is left to send it again.
    """
    rc, out = vm.guest("modprobe sch_netem; tc qdisc add dev eth0 root netem loss 5%")
    assert rc == 0, out
    try:
        for name in ("send_bw", "write_bw", "read_bw", "atomic_bw"):
            run_row(vm, ROWS[name], "v4", server)
    finally:
        vm.guest("tc qdisc del dev eth0 root")


@pytest.mark.parametrize("qps", [8, 16])
def test_qps_that_overtake_each_other(vm, qps):
    """rxe gives a packet its IP identification before the packet waits, and fq_codel then
    reorders the packets of different QPs.  The ICRC covers the identification, which a UDP socket
    does not show, so urnic guesses it from the packets before.  Of 1,000 packets, urnic may take
    at most one for corrupt, which is then sent again."""
    ours, _ = vm.host_serves("ib_write_bw", ["-q", str(qps), "-n", "40", "-s", "65536",
                                             "-m", str(vm.path_mtu)], "v4",
                             env={"URNIC_LOG": "info"})
    taken = re.search(r"counters: rx (\d+)", ours)
    refused = re.search(r"rx_icrc (\d+)", ours)
    assert taken, ours[-2000:]
    assert not refused or int(refused[1]) * 1000 <= int(taken[1]), ours[-2000:]


def capture(vm, path, work):
    """Capture what work() sends and receives.  A packet that is sent after it shows when the
    capture is complete."""
    dump = vm.start("tcpdump", "-Z", "root", "-i", "roce-g1", "-B", "32768", "-s", "0", "-U",
                    "-w", str(path), "udp port 4791 or udp port 65000", user=None)
    dump.wait_output("listening on")
    work()
    vm.start("bash", "-c", "echo all is there >/dev/udp/10.77.1.11/65000", user=None)
    assert lab.eventually(lambda: b"all is there" in path.read_bytes()), dump.describe()
    dump.signal(2)
    assert dump.wait(lab.HANGS) == 0, dump.describe()
    assert "0 packets dropped" in dump.out, dump.out


# Opcodes of the IBTA specification's table 35 that the rows below must make urnic send
WANTED = {0x00: "RC SEND First", 0x01: "RC SEND Middle", 0x02: "RC SEND Last",
          0x06: "RC WRITE First", 0x0C: "RC READ Request",
          0x0D: "RC READ response First", 0x11: "RC Acknowledge",
          0x12: "RC Atomic Acknowledge", 0x13: "RC CmpSwap", 0x14: "RC FetchAdd",
          0x20: "UC SEND First", 0x64: "UD SEND Only"}


@pytest.mark.full(of=lambda p: (p["family"] == "v4") != (p["vm_session"] == 1500))
@pytest.mark.parametrize("family,source", [("v4", URNIC4), ("v6", URNIC6)])
def test_others_find_nothing_wrong(vm, family, source, tmp_path):
    """tshark has no complaint about urnic's packets, and every ICRC is right."""
    if not shutil.which("tshark") or not shutil.which("tcpdump"):
        pytest.skip("no tshark or no tcpdump")
    path = tmp_path / "wire.pcap"

    def work():
        for name in ("rc_pingpong", "uc_pingpong", "ud_pingpong", "write_bw",
                     "read_bw", "atomic_bw", "atomic_cmp_swap"):
            for server in ("rxe", "urnic"):
                run_row(vm, ROWS[name], family, server)

    capture(vm, path, work)
    opcodes = wirecheck.tshark_opcodes(path, source)
    assert not set(WANTED) - set(opcodes), (
        "not captured", [WANTED[o] for o in set(WANTED) - set(opcodes)])
    complaints = wirecheck.tshark_complaints(path, source)
    assert not complaints, complaints[:5]
    total, wrong = wirecheck.wrong_icrcs(path)
    assert total > 500 and not wrong, (total, wrong[:10])
