# SPDX-License-Identifier: BSD-2-Clause
"""iWARP between urnic and Linux's siw, which runs in a VM; each is the server in turn, with and
without CRCs."""

import re

import pytest

import lab
from test_cm import status, wait_end, wait_service

URNIC = {"v4": "10.77.2.1", "v6": "fd77:2::1"}
SIW = {"v4": "10.77.2.11", "v6": "fd77:2::11"}


def environment(crc):
    return {"URNIC_DEVICES": "iwarp_iwarp0",
            "URNIC_MPA_CRC": "yes" if crc == "urnic" else "no"}


# siw has no atomics and no immediate data.  perftest has IPv4 only.  It needs -d, because the
# device's transport decides how perftest counts credits.
PERFTEST = "ib_{} -R -F -n 50 -s 9001 -d {{dev}} -p {{port}}"
ROWS = {    # server, client
    "rping": ("rping -s -V -C 3 -a {ip} -p {port}", "rping -c -V -C 3 -a {ip} -p {port}"),
    "rping-big": ("rping -s -V -C 10 -S 60000 -a {ip} -p {port}",
                  "rping -c -V -C 10 -S 60000 -a {ip} -p {port}"),
    "ucmatose": ("ucmatose -c 3 -C 5 -b {ip} -p {port}",
                 "ucmatose -c 3 -C 5 -s {ip} -p {port}"),
    **{name: (PERFTEST.format(name), PERFTEST.format(name) + " {ip}")
       for name in ("write_bw", "read_bw", "send_bw", "write_lat", "read_lat",
                    "send_lat")}}


# Programs whose server sends first.  By RFC 5044 (7.1) a responder waits for the initiator's
# first FPDU, so a client on siw has to send an RTR; siw itself does not wait.
SERVER_FIRST = {"ucmatose", "write_lat"}


def cells():
    """Each row with IPv4 and IPv6, where nobody, urnic or siw demands CRCs; a bounded run has
    each row and family once, without the latency tests."""
    out = []
    for i, row in enumerate(ROWS):
        families = ["v4", "v6"] if not row.endswith(("_bw", "_lat")) else ["v4"]
        for j, family in enumerate(families):
            for k, crc in enumerate(["none", "urnic", "siw"]):
                often = k == (i + j) % 3 and not row.endswith("_lat")
                out.append(pytest.param(row, family, crc, id=f"{row}-{family}-crc-{crc}",
                                        marks=() if often else pytest.mark.full))
    return out


def commands(row, ip, dev):
    """A port, and the server's and the client's command; `dev` has the device of each."""
    port = lab.next_port()
    return port, [words.format(dev=d, ip=ip, port=port)
                  for words, d in zip(ROWS[row], dev)]


def is_well(rc, out):
    """Whether a client on siw ended well.  perftest's server ends once it has answered the last
    message.  If its FIN arrives before siw's sender runs again, siw fails the SEND before,
    although that SEND went out whole and was answered (Linux 6.1 tests for the FIN before it
    tests whether that was the last segment).  All results have been printed by then, so this
    counts as well."""
    return rc == 0 or bool(
        re.search(r"^ *9001 +50 ", out, re.M) and "Bad wc status 2" in out and
        "Failed to close connection between server and client" in out)


@pytest.mark.parametrize("row,family,crc", cells())
def test_urnic_serves(vm, row, family, crc):
    vm.set_siw(crc == "siw", row in SERVER_FIRST)
    port, (server, client) = commands(row, URNIC[family], ("iwarp_iwarp0", "siw0"))
    ours = vm.start(*server.split(), env=environment(crc))
    wait_service(ours, port)
    ours.wait_listening(port)
    rc, out = vm.guest(f"timeout 60 {client}")
    assert is_well(status(client.split()[0], rc, out), out), f"siw: {rc} {out}\n{ours.describe()}"
    assert wait_end(ours, server.split()[0], lab.HANGS) == 0, ours.describe()


@pytest.mark.parametrize("row,family,crc", cells())
def test_siw_serves(vm, row, family, crc):
    vm.set_siw(crc == "siw")
    port, (server, client) = commands(row, SIW[family], ("siw0", "iwarp_iwarp0"))
    job = vm.serve(server, port, seconds=40)
    ours = vm.start(*client.split(), env=environment(crc))
    rc = wait_end(ours, client.split()[0], lab.HANGS)
    _, out = vm.finish(job)
    assert rc == 0, f"{ours.describe()}\nsiw: {out}"


def test_siw_says_no(vm):
    out = vm.start("rping", "-c", "-C", "1", "-a", SIW["v4"], "-p", "9",
                   env=environment("none"))
    assert out.wait(lab.HANGS) != 0
    assert "REJECTED, error -111" in out.out, out.describe()
