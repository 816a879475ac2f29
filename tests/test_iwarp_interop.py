# SPDX-License-Identifier: BSD-2-Clause
"""iWARP between urnic and Linux's siw, which runs in a VM: both directions, with and
without CRCs."""

import pytest

import lab
import peervm
from test_cm import wait_service

URNIC = {"v4": "10.77.2.1", "v6": "fd77:2::1"}
SIW = {"v4": "10.77.2.11", "v6": "fd77:2::11"}
FLAGS = "/sys/module/siw/parameters"


@pytest.fixture(scope="module")
def vm_session(stage, can_namespace):
    vm = peervm.PeerVM(stage, 1500)
    yield vm
    vm.down()


@pytest.fixture
def vm(vm_session):
    yield vm_session
    vm_session.reap()


def set_siw(vm, flag, on):
    rc, out = vm.guest(f"echo {'Y' if on else 'N'} >{FLAGS}/{flag}")
    assert rc == 0, out


@pytest.fixture(params=["none", "urnic", "siw"])
def crc(vm, request):
    """Who asks for CRCs."""
    set_siw(vm, "mpa_crc_required", request.param == "siw")
    yield {"URNIC_DEVICES": "iwarp_iwarp0",
           "URNIC_MPA_CRC": "yes" if request.param == "urnic" else "no"}
    set_siw(vm, "mpa_crc_required", False)


RPING = "rping -{side} -V -C 3 -a {ip} -p {port}"
# siw has no atomics and no immediates.  perftest has IPv4 only, and needs the
# device: that of the transport decides how it counts credits.
PERFTEST = {name: f"ib_{name} -R -F -n 50 -s 9001 -d {{dev}} -p {{port}}"
            for name in ("write_bw", "read_bw", "send_bw")}


def commands(row, family, ip, dev):
    """Server's and client's, where the one is urnic's and the other siw's."""
    port = lab.next_port()
    if row == "rping":
        return port, [RPING.format(side=s, ip=ip, port=port) for s in "sc"]
    if family == "v6":
        pytest.skip("perftest resolves IPv4 only")
    words = [PERFTEST[row].format(dev=d, port=port) for d in dev]
    return port, [words[0], f"{words[1]} {ip}"]


ROWS = [("rping", "v4"), ("rping", "v6"), *((name, "v4") for name in PERFTEST)]


@pytest.mark.parametrize("row,family", ROWS)
def test_urnic_serves(vm, crc, row, family):
    port, (server, client) = commands(row, family, URNIC[family],
                                      ("iwarp_iwarp0", "siw0"))
    ours = vm.start(*server.split(), env=crc)
    wait_service(ours, port)
    ours.wait_listening(port)
    rc, out = vm.guest(f"timeout 30 {client}", 50)
    assert rc == 0, f"siw: {rc} {out}\n{ours.describe()}"
    assert ours.wait(10) == 0, ours.describe()


@pytest.mark.parametrize("row,family", ROWS)
def test_siw_serves(vm, crc, row, family):
    port, (server, client) = commands(row, family, SIW[family],
                                      ("siw0", "iwarp_iwarp0"))
    rc, job = vm.guest(f"peer-bg 'timeout 40 {server}'; n=0\n"
                       f"until rdma res show cm_id | grep -q 'LISTEN.*:{port}' || "
                       "[ $n -gt 200 ]; do n=$((n + 1)); usleep 20000; done")
    assert rc == 0, job
    ours = vm.start(*client.split(), env=crc)
    rc = ours.wait(30)
    _, out = vm.guest(f"job={job.strip()} seconds=10\n{peervm.FINISH}")
    assert rc == 0, f"{ours.describe()}\nsiw: {out}"


def test_siw_is_peer_to_peer(vm):
    """ucmatose's server sends first: so the client has to know the RTR."""
    set_siw(vm, "peer_to_peer", True)
    try:
        port = lab.next_port()
        ours = vm.start("ucmatose", "-c", "3", "-C", "5", "-b", URNIC["v4"], "-p",
                        str(port), env={"URNIC_DEVICES": "iwarp_iwarp0"})
        wait_service(ours, port)
        rc, out = vm.guest(f"timeout 30 ucmatose -c 3 -C 5 -s {URNIC['v4']} -p {port}",
                           50)
        assert rc == 0, f"siw: {rc} {out}\n{ours.describe()}"
        assert ours.wait(10) == 0, ours.describe()
    finally:
        set_siw(vm, "peer_to_peer", False)


def test_siw_says_no(vm):
    out = vm.start("rping", "-c", "-C", "1", "-a", SIW["v4"], "-p", "9",
                   env={"URNIC_DEVICES": "iwarp_iwarp0"})
    assert out.wait(20) != 0
    assert "REJECTED, error -111" in out.out, out.describe()
