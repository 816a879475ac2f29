# SPDX-License-Identifier: BSD-2-Clause
"""Connection management and rsockets between urnic and Linux's rdma_rxe, which runs in a VM; each
is the server in turn."""

import hashlib
import re

import pytest

import lab
from test_cm import status, wait_end, wait_service

URNIC = {"v4": "10.77.1.1", "v6": "fd77:1::1"}
FORM = {"v4": "ip", "v6": "ipv6"}
RXE = {"v4": "10.77.1.11", "v6": "fd77:1::11"}


ROWS = {    # server, client, port space
    "rping": ("rping -s -V -C 3 -a {ip} -p {port}",
              "rping -c -V -C 3 -a {ip} -p {port}", 0x0106),
    "rping-big": ("rping -s -V -C 3 -S 30000 -a {ip} -p {port}",
                  "rping -c -V -C 3 -S 30000 -a {ip} -p {port}", 0x0106),
    "ucmatose": ("ucmatose -c 3 -C 5 -b {ip} -p {port}",
                 "ucmatose -c 3 -C 5 -s {ip} -p {port}", 0x0106),
    "udaddy": ("udaddy -b {ip}", "udaddy -s {ip}", 0x0111),
    "rstream": ("rstream -b {ip} -f {form} -T v -I 3 -C 5 -S 300000 -p {port}",
                "rstream -s {ip} -f {form} -T v -I 3 -C 5 -S 300000 -p {port}", 0x0106),
    "rstream-small": ("rstream -b {ip} -f {form} -I 3 -C 500 -S 100 -p {port}",
                      "rstream -s {ip} -f {form} -I 3 -C 500 -S 100 -p {port}", 0x0106),
    "riostream": ("riostream -b {ip} -f {form} -T v -I 3 -C 5 -S 5000 -p {port}",
                  "riostream -s {ip} -f {form} -T v -I 3 -C 5 -S 5000 -p {port}", 0x0106),
}


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", ROWS)
def test_urnic_serves(vm, row, family):
    server, client, space = ROWS[row]
    port = 7174 if row == "udaddy" else lab.next_port()
    words = {"ip": URNIC[family], "port": port, "form": FORM[family]}
    ours = vm.start(*server.format(**words).split())
    wait_service(ours, port, space)
    rc, out = vm.guest("timeout 60 " + client.format(**words))
    assert status(client.split()[0], rc, out) == 0, f"rxe: {rc} {out}\n{ours.describe()}"
    assert wait_end(ours, server.split()[0], lab.HANGS) == 0, ours.describe()


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", ROWS)
def test_rxe_serves(vm, row, family):
    server, client, _ = ROWS[row]
    port = 7174 if row == "udaddy" else lab.next_port()
    words = {"ip": RXE[family], "port": port, "form": FORM[family]}
    job = vm.serve(server.format(**words), port)
    ours = vm.start(*client.format(**words).split())
    rc = wait_end(ours, client.split()[0], lab.HANGS)
    _, out = vm.finish(job)
    assert rc == 0, f"{ours.describe()}\nrxe: {out}"


def test_rxe_says_no(vm):
    out = vm.start("rping", "-c", "-C", "1", "-a", RXE["v4"], "-p", "9")
    assert out.wait(lab.HANGS) != 0
    assert "REJECTED, error 8" in out.out, out.describe()


def test_urnic_says_no(vm):
    port = lab.next_port()
    ours = vm.start("rping", "-s", "-P", "-a", URNIC["v4"], "-p", str(port))
    wait_service(ours, port)
    rc, out = vm.guest(f"timeout 20 rping -c -C 1 -a {URNIC['v4']} -p 9")
    assert rc != 0 and "REJECTED, error 8" in out, out


MANY_ROUNDS = 200   # seconds; 400 rounds of 1 to 40 ms each take less

# The client's program is stopped for 12 s, so that urnic asks its kernel at least twice whether
# the connection still exists; the kernel answers.
STANDS_STILL = """
rping -c -C 400 -a {ip} -p {port} & p=$!
until rdma res show cm_id | grep -q 'CONNECT.*:{port} ' || ! kill -0 $p; do
    usleep 20000
done
kill -STOP $p
sleep 12
kill -CONT $p
wait $p
"""


def times_asked(ours):
    found = re.search(r" tx_again (\d+)", ours.out)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("family", ["v4", pytest.param("v6", marks=pytest.mark.full)])
def test_a_client_that_stands_still_stays_connected(vm, family):
    port, ip = lab.next_port(), URNIC[family]
    ours = vm.start("rping", "-s", "-C", "400", "-a", ip, "-p", str(port),
                    env={"URNIC_LOG": "info"})
    wait_service(ours, port)
    rc, out = vm.guest(STANDS_STILL.format(ip=ip, port=port), MANY_ROUNDS)
    assert status("rping", rc, out) == 0, f"rxe: {rc} {out}\n{ours.describe()}"
    assert wait_end(ours, "rping", lab.HANGS) == 0, ours.describe()
    assert times_asked(ours) >= 2, ours.describe()


def test_a_server_that_stands_still_stays_connected(vm):
    port = lab.next_port()
    vm.serve(f"rping -s -C 400 -a {RXE['v4']} -p {port}", port, seconds=MANY_ROUNDS)
    ours = vm.start("rping", "-c", "-C", "400", "-a", RXE["v4"], "-p", str(port),
                    env={"URNIC_LOG": "info"})
    ours.wait_dump(": established, active;")
    rc, out = vm.guest("p=$(pidof rping); kill -STOP $p; sleep 12; kill -CONT $p")
    assert rc == 0, out
    assert wait_end(ours, "rping", MANY_ROUNDS) == 0, ours.describe()
    assert times_asked(ours) >= 2, ours.describe()


# --- rcopy, whose server does not end ---------------------------------------------------
#
# rsockets' datagrams have no test here: rdma-core makes an address handle without a GRH for its
# own use, which rxe refuses, as all of RoCE does.

def test_rcopy_to_rxe(vm):
    port = lab.next_port()
    data = hashlib.shake_128(b"rcopy").digest(1_000_001)
    source = vm.stage.tmp / f"rcopy-{port}"
    source.write_bytes(data)
    source.chmod(0o644)
    vm.serve(f"rcopy -p {port}", port)
    ours = vm.start("rcopy", str(source), f"{RXE['v4']}:/tmp/copied", "-p", str(port))
    assert ours.wait(lab.HANGS) == 0, ours.describe()
    rc, out = vm.guest("sha256sum /tmp/copied")
    assert rc == 0 and hashlib.sha256(data).hexdigest() in out, out


def test_rcopy_from_rxe(vm):
    port = lab.next_port()
    target = vm.stage.tmp / f"copied-{port}"
    ours = vm.start("rcopy", "-p", str(port))
    wait_service(ours, port)
    rc, out = vm.guest("dd if=/dev/urandom of=/tmp/source bs=1000 count=1000 2>/dev/null; "
                       f"timeout 60 rcopy /tmp/source {URNIC['v4']}:{target} -p {port}; "
                       "echo $?; sha256sum /tmp/source")
    assert rc == 0, out
    assert hashlib.sha256(target.read_bytes()).hexdigest() in out, out
