# SPDX-License-Identifier: BSD-2-Clause
"""Connection management between urnic and Linux's, which runs in a VM with
rdma_rxe: both directions."""

import pytest

import lab
import peervm
from test_cm import wait_service

URNIC = {"v4": "10.77.1.1", "v6": "fd77:1::1"}
RXE = {"v4": "10.77.1.11", "v6": "fd77:1::11"}


@pytest.fixture(scope="module")
def vm_session(stage, can_namespace):
    vm = peervm.PeerVM(stage, 1500)
    yield vm
    vm.down()


@pytest.fixture
def vm(vm_session):
    yield vm_session
    vm_session.reap()


ROWS = {    # server, client, port space
    "rping": ("rping -s -V -C 3 -a {ip} -p {port}",
              "rping -c -V -C 3 -a {ip} -p {port}", 0x0106),
    "rping-big": ("rping -s -V -C 3 -S 30000 -a {ip} -p {port}",
                  "rping -c -V -C 3 -S 30000 -a {ip} -p {port}", 0x0106),
    "ucmatose": ("ucmatose -c 3 -C 5 -b {ip} -p {port}",
                 "ucmatose -c 3 -C 5 -s {ip} -p {port}", 0x0106),
    "udaddy": ("udaddy -b {ip}", "udaddy -s {ip}", 0x0111),
}


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", ROWS)
def test_urnic_serves(vm, row, family):
    server, client, space = ROWS[row]
    port = 7174 if row == "udaddy" else lab.next_port()
    words = {"ip": URNIC[family], "port": port}
    ours = vm.start(*server.format(**words).split())
    wait_service(ours, port, space)
    rc, out = vm.guest("timeout 40 " + client.format(**words), 60)
    assert rc == 0, f"rxe: {rc} {out}\n{ours.describe()}"
    assert ours.wait(10) == 0, ours.describe()


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", ROWS)
def test_rxe_serves(vm, row, family):
    server, client, _ = ROWS[row]
    words = {"ip": RXE[family], "port": lab.next_port()}
    rc, job = vm.guest(f"peer-bg 'timeout 60 {server.format(**words)}'; usleep 500000")
    assert rc == 0, job
    ours = vm.start(*client.format(**words).split())
    rc = ours.wait(40)
    _, out = vm.guest(f"job={job.strip()} seconds=10\n{peervm.FINISH}")
    assert rc == 0, f"{ours.describe()}\nrxe: {out}"


def test_rxe_says_no(vm):
    out = vm.start("rping", "-c", "-C", "1", "-a", RXE["v4"], "-p", "9")
    assert out.wait(20) != 0
    assert "REJECTED, error 8" in out.out, out.describe()


def test_urnic_says_no(vm):
    port = lab.next_port()
    ours = vm.start("rping", "-s", "-P", "-a", URNIC["v4"], "-p", str(port))
    wait_service(ours, port)
    rc, out = vm.guest(f"timeout 20 rping -c -C 1 -a {URNIC['v4']} -p 9")
    assert rc != 0 and "REJECTED, error 8" in out, out
