# SPDX-License-Identifier: BSD-2-Clause
"""Programs that live by hardware's timing: their receives are posted a little after the messages
come, and their connections have rnr_retry 0.  A message waits 2 to 120 ms for its receive, and up to
480 ms while the program has to poll (docs/dev/ib.md), so these programs need processors that are not
taken from them for longer: the tests run alone."""

import re

import pytest

import lab
from test_cm import ours, run_pair, stand  # noqa: F401
from tool import need

pytestmark = pytest.mark.alone

PLACES = [("pair", "v4"), ("host", "v4"), ("pipe", "v4"), ("udp", "v4")]


@pytest.mark.parametrize("place,family", [*PLACES, ("pair", "v6")])
def test_receives(shared_pair, ours, place, family):  # noqa: F811
    """A program of rdma_cm that posts each receive when it is about to wait for the message."""
    server_ns, client_ns, ip = stand(shared_pair(), place, family)
    port = str(lab.next_port())
    _, client = run_pair(server_ns, client_ns, [ours, "late-serve", ip, port, "300"],
                         [ours, "late", ip, port, "300"], int(port), timeout=60)
    assert "300 late" in client.out


@pytest.mark.parametrize("place,family", [("pair", "v4"), ("pair", "v6"), ("host", "v4")])
def test_receives_of_iwarp(shared_pair, ours, place, family):  # noqa: F811
    """The same over iWARP, where no RNR exists: TCP waits (docs/dev/iwarp.md)."""
    *both, ip = stand(shared_pair(), place, family)
    server_ns, client_ns = (ns.with_env(URNIC_DEVICES="iwarp_eth0") for ns in both)
    port = str(lab.next_port())
    _, client = run_pair(server_ns, client_ns, [ours, "late-serve", ip, port, "300"],
                         [ours, "late", ip, port, "300"], int(port), timeout=60)
    assert "300 late" in client.out


@pytest.mark.parametrize("place", [place for place, _ in PLACES])
@pytest.mark.parametrize("verb,depth", [
    ("send", 1), ("send", 4), ("send", 8), ("send", 64), ("write", 8), ("read", 8)])
def test_fio(shared_pair, place, verb, depth):
    """fio's rdma engine posts its receives in rounds."""
    server = fio(shared_pair(), place, verb, "--bs=4k", "--size=2m", f"--iodepth={depth}")
    assert server.wait(60) == 0, server.describe()


@pytest.mark.parametrize("place", [place for place, _ in PLACES])
def test_fio_beside_others(shared_pair, place):
    """Some of its 10,000s of messages come while its thread has no processor."""
    pair = shared_pair()
    for _ in range(2):
        pair.a.start("sh", "-c", "while :; do :; done", library=False)
    fio(pair, place, "send", "--bs=64k", "--size=64g", "--iodepth=4",
        client=("--time_based", "--runtime=2"))


def fio(pair, place, verb, *words, client=()):
    """A client runs to its end; returns its server."""
    need("fio")
    server_ns, client_ns, ip = stand(pair, place, "v4")
    port = lab.next_port()
    words = ["fio", "--ioengine=rdma", "--thread", f"--port={port}", *words]
    server = server_ns.start(*words, "--name=server", "--rw=read")
    server.wait_output("waiting for connection")
    proc = client_ns.run(*words, "--name=client", "--rw=write", f"--verb={verb}", *client,
                         f"--hostname={ip}", timeout=60)
    assert re.search(r"err= *0", proc.out)
    return server
