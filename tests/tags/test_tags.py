# SPDX-License-Identifier: BSD-2-Clause
"""Tag matching by its verbs: eager messages and rendezvous, expected and unexpected, in both
directions at once, by every way between two ends; and data that may not be read
(tests/tags/tags.c).
"""

import lab
import pytest


@pytest.mark.parametrize("way", ["auto", "pipe", "off"])
def test_one_process(stage, shared_pair, way):
    shared_pair(1500).a.with_env(URNIC_LOCAL=way).run(stage.tool("tags/tags"), "-d",
                                                      "roce_eth0", timeout=60)


@pytest.mark.parametrize("gid", ["v4", "v6"])
@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_two_processes(shared_pair, stage, place, gid):
    pair = shared_pair(1500)
    port = lab.next_port()
    there, here = pair.place(place)
    words = [stage.tool("tags/tags"), "-g", lab.Pair.GIDS[gid], "-p", port]
    b = there.start(*words, "-d", there.dev)
    b.wait_listening(port)
    a = here.start(*words, "-d", here.dev, "-c", there.ip4)
    rcs = a.wait(90), b.wait(lab.HANGS)
    assert rcs == (0, 0), f"{rcs}\na: {a.describe()}\nb: {b.describe()}"


@pytest.mark.parametrize("fault", ["drop=0.02,seed=3", "reorder=0.05,dup=0.05,seed=4"])
def test_with_loss(shared_pair, stage, fault):
    pair = shared_pair(1500)
    port = lab.next_port()
    words = [stage.tool("tags/tags"), "-l", "-p", port]
    b = pair.b.start(*words, "-d", "roce_eth0", env={"URNIC_FAULT": fault})
    b.wait_listening(port)
    a = pair.a.start(*words, "-d", "roce_eth0", "-c", pair.b.ip4,
                     env={"URNIC_FAULT": fault})
    rcs = a.wait(90), b.wait(lab.HANGS)
    assert rcs == (0, 0), f"{rcs}\na: {a.describe()}\nb: {b.describe()}"
