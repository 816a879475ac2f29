# SPDX-License-Identifier: BSD-2-Clause
"""urnic dump of programs at work: the counts of their QPs, and that nothing is left out."""

import json

import pytest
from known import FEW, Known, once


def qps(known, pid):
    return json.loads(known.urnic("dump", "--json", str(pid)).out)["qp"]


def test_segments(netns):
    known = Known(netns, "send", "100", str(FEW), env={"URNIC_LOCAL": "pipe"})
    qp, = qps(known, known.poster)
    assert (qp["posted"], qp["completed"], qp["received"]) == (FEW, FEW, 0)
    assert (qp["by"], once(qp, 100)) == ("ring", FEW)
    assert (qp["came"], qp["mapped"], qp["copies"]) == (0, 0, 0)
    other, = qps(known, known.other)
    assert (other["posted"], other["received"], other["sent"]) == (0, FEW, 0)
    assert (other["came"], other["came_bytes"]) == (qp["sent"], qp["sent_bytes"])


def test_packets(netns):
    """Bytes count from the BTH on."""
    known = Known(netns, "send", "1000", str(FEW), env={"URNIC_LOCAL": "off"})
    (one,), (other,) = qps(known, known.poster), qps(known, known.other)
    assert (one["posted"], one["completed"], one["by"]) == (FEW, FEW, "udp")
    assert once(one, 1000 + 12) == other["received"] == FEW
    assert (other["came"], other["came_bytes"]) == (one["sent"], one["sent_bytes"])
    assert 0 < one["came"] == other["sent"]        # ACKs
    assert one["window"] > 0 == one["in_flight"]


def test_mapped_memory_and_copies(netns):
    known = Known(netns, "write", "64", "20000", env={"URNIC_LOCAL": "auto"})
    qp, = qps(known, known.poster)
    assert (qp["posted"], qp["completed"]) == (20000, 20000)
    assert qp["mapped"] + qp["copies"] + once(qp, 64) == 20000
    assert (qp["mapped_bytes"], qp["copied_bytes"]) == (64 * qp["mapped"], 64 * qp["copies"])
    other, = qps(known, known.other)
    assert other["came"] == qp["sent"] and other["posted"] == other["received"] == 0


@pytest.mark.parametrize("way", ["pipe", "off"])
def test_a_receiver_that_is_not_ready(netns, way):
    known = Known(netns, "-r", "300", "send", "8", "10", env={"URNIC_LOCAL": way})
    one, = qps(known, known.poster)
    other, = qps(known, known.other)
    assert one["rnr_in"] == other["rnr_out"] > 0
    assert one["sent_again"] > 0 < other["early"]
    assert other["received"] == 10


@pytest.mark.alone
@pytest.mark.parametrize("words, env, qps", [
    (["-l", "32", "write", "8", "0"], {}, 1),
    (["-q", "64", "send", "64", "0"], {}, 64),
    (["-q", "64", "send", "4096", "0"], {"URNIC_LOCAL": "off"}, 64),
], ids=["one-sided", "segments", "udp"])
def test_it_answers_under_load(netns, words, env, qps):
    """With all objects, although the program's threads work on them: none is left out as locked."""
    known = Known(netns, *words, env=env, done=False)
    for pid in [known.poster, known.other] * 10:
        out = known.urnic("dump", str(pid)).out
        assert "busy" not in out
        assert (out.count("\nqp 0x"), out.count("\ncq ")) == (qps, 1)
