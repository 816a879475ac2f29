# SPDX-License-Identifier: BSD-2-Clause
"""The iWARP transport and Linux's siw, which runs in a VM: rping, each being the server in turn."""

import shutil

import pytest

import lab
from test_cm import status

PEER = lab.ROOT / "build/obj/tests/iwarp/siw_peer"
OURS, SIW = "10.77.2.1", "10.77.2.11"


@pytest.fixture(scope="module", ids=["mtu1500", "mtu4200"], params=[
    1500, pytest.param(4200, marks=pytest.mark.full)])
def vm_session(request, stage, vms):
    vm = vms(request.param)
    vm.siw_peer = shutil.copy(PEER, stage.path)
    return vm


@pytest.fixture
def vm(vm_session):
    yield vm_session
    vm_session.set_siw()
    vm_session.reap()


def we_are_client(vm, rounds, size, *words, served=None):
    port = lab.next_port()
    vm.serve(f"rping -s -C {served or rounds} -S {size} -a {SIW} -p {port}", port)
    ours = vm.start(vm.siw_peer, "client", SIW, str(port), str(rounds), str(size), *words,
                    env={"URNIC_LOG": "info"})
    assert ours.wait(60) == 0, ours.describe()
    return ours.out


def we_are_server(vm, rounds, size, *words):
    port = lab.next_port()
    ours = vm.start(vm.siw_peer, "server", OURS, str(port), str(rounds), str(size), *words,
                    env={"URNIC_LOG": "info"})
    ours.wait_listening(port)
    rc, out = vm.guest(f"timeout 60 rping -c -v -C {rounds} -S {size} -a {OURS} -p {port}")
    assert status("rping", rc, out) == 0 and f"rdma-ping-{rounds - 1}" in out, out
    assert ours.wait(lab.HANGS) == 0, ours.describe()
    return ours.out


@pytest.mark.parametrize("crc", [False, True], ids=["plain", "crc"])
@pytest.mark.parametrize("p2p", [False, True], ids=["client-server", "peer-to-peer"])
@pytest.mark.parametrize("size", [64, 60000])
def test_siw_serves(vm, crc, p2p, size):
    vm.set_siw(crc=crc, p2p=p2p)
    out = we_are_client(vm, 10, size, *["p2p"] * p2p, *["crc"] * crc)
    assert f"crc {int(crc)}, rtr {2 * p2p}" in out and "10 rounds" in out


@pytest.mark.parametrize("crc", [False, True], ids=["plain", "crc"])
@pytest.mark.parametrize("p2p", [False, True], ids=["client-server", "peer-to-peer"])
@pytest.mark.parametrize("size", [64, 60000])
def test_siw_asks(vm, crc, p2p, size):
    vm.set_siw(crc=crc, p2p=p2p)
    out = we_are_server(vm, 10, size)
    assert f"crc {int(crc)}, rtr {2 * p2p}" in out and "10 rounds" in out


def test_siw_refuses(vm):
    vm.set_siw(p2p=True)
    # The server ends the connection itself once it has done its rounds, which may be before the
    # bad WRITE.  siw closes without a Terminate if it is still busy sending.
    out = we_are_client(vm, 2, 64, "p2p", "bad-write", served=100)
    assert "refused" in out
    assert "terminates" not in out or \
        "the peer terminates the connection: DDP: invalid STag" in out
