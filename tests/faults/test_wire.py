# SPDX-License-Identifier: BSD-2-Clause
"""Faults of the wire (--fault): programs that check what they receive go on under each of them,
and end as the specification says when the network is cut for longer than their patience."""

import re
import signal

import pytest

from lab import HANGS
from workers import Two, worker

DIED = "transport retry counter exceeded"
COUNTED = re.compile(r"fault: (tx|rx) datagram \d+ (\S+)")


def two_with(pair, faults, spec, *more, **env):
    """Two workers on two hosts; the client has the faults."""
    client = pair.b.with_env(URNIC_FAULT=spec, URNIC_LOG="debug", **env)
    return Two(pair.a, client, worker(faults, *more))


SPECS = {
    "burst=0.01:0.3": "dropped",
    "delay=200us~200us": "delayed",
    "rate=200mbit:16k": "held",
    "ecn=0.05": "marked",
    "tx:drop=0.02;rx:dup=0.05,reorder=0.02": "dropped",
    "opcode=ack+response,drop=0.05": "dropped",
    "opcode=write,corrupt=0.05": "corrupted",
    "drop=1,at=200ms,for=20ms,every=100ms": "dropped",
}


@pytest.mark.parametrize("gid", ["v4", "v6"])
@pytest.mark.parametrize("spec", SPECS)
def test_data_stay_right(shared_pair, faults, spec, gid):
    pair = shared_pair()
    number = ["-g", str(pair.GIDS[gid])]
    two = two_with(pair, faults, f"{spec},seed=5", "-t", "1", *number)
    two.expect_right()
    done = {what.rstrip(",:") for _, what in COUNTED.findall(two.client.out)}
    assert SPECS[spec] in done, two.client.describe()


def test_one_way_only(shared_pair, faults):
    two = two_with(shared_pair(), faults, "rx:drop=0.05", "-t", "1")
    two.expect_right()
    assert {way for way, _ in COUNTED.findall(two.client.out)} == {"rx"}


def test_another_peer_is_not_hit(shared_pair, faults):
    two = two_with(shared_pair(), faults, "peer=10.1.2.3,drop=1", "-t", "1")
    two.expect_right()
    assert "fault:" not in two.client.out


def gap(proc):
    return float(re.search(r"after ([\d.]+) s", proc.out)[1])


# timeout 14 is 67 ms, and of seven retries one may be used by a NAK: 400 ms are survived, ten seconds
# are not
@pytest.mark.parametrize("cut, survives", [("400ms", True), ("10s", False)])
def test_a_cut_lasts(shared_pair, faults, cut, survives):
    two = two_with(shared_pair(), faults, f"drop=1,at=300ms,for={cut}", "-T", "14", "-r", "7",
                   "-t", "2")
    if survives:
        two.expect_right()
        return
    for proc in (two.server, two.client):
        assert proc.wait(HANGS) == 2, proc.describe()
        assert DIED in proc.out, proc.describe()
        assert gap(proc) >= 0.45, proc.describe()    # seven tries of at least 67 ms


def test_one_packet_by_its_number(shared_pair, faults, stage):
    events = stage.tmp / "events"
    events.write_text("# what is lost twice is sent three times\n"
                      "flow1 +3 1 drop\nflow1 +3 2 drop\nflow1 +9 * corrupt\n")
    events.chmod(0o644)
    two = two_with(shared_pair(), faults, f"tx:events={events}", "-T", "10")
    two.wait_joined()
    for proc in (two.server, two.client):
        proc.signal(signal.SIGTERM)
    hits = re.compile(r"(dropped|corrupted) by event (\d): .*PSN (\d+)")
    # the corrupted one never arrives
    assert two.client.wait(HANGS) == 2, two.client.describe()
    found = [(what, int(n), int(psn)) for what, n, psn in hits.findall(two.client.out)]
    first = found[0][2]
    lost = [(n, psn) for what, n, psn in found if what == "dropped"]
    assert lost == [(1, first), (2, first)], two.client.describe()
    spoilt = {(n, psn) for what, n, psn in found if what == "corrupted"}
    assert spoilt == {(3, (first + 6) & 0xffffff)}, two.client.describe()
