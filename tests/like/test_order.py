# SPDX-License-Identifier: BSD-2-Clause
"""URNIC_ORDER: a program that relies on an order which verbs do not promise fails, and its repaired
twin does not."""

import pytest

from test_like import run, said
from tool import bad, good

# program: the spec that finds it, and what it says
FOUND = {
    "last-byte": ("write=1", "torn: the last byte came before others"),
    "two-qps": ("swap=0.5", "exchanged: the second QP's completion came first"),
    "two-senders": ("swap=0.5", "crossed: the later message was received first"),
    "one-poll": ("one", "one: a poll for two completions found one"),
    "late-send": ("delay=5ms:0.3", "late: the answer came before the request's completion"),
}
ALL = "write=0.5,delay=1ms:0.3,swap=0.3,one"


@pytest.fixture
def ns(shared_pair):
    return shared_pair().place("host")[0]


@pytest.fixture(scope="module")
def program(stage):
    return stage.tool("like/like")


@pytest.mark.parametrize("what", ["last-byte", "two-qps", "two-senders"])
def test_passes_without(ns, program, what):
    """The others may fail on any machine."""
    proc = run(ns, program, what)
    assert said(proc) == ["ok"], proc.describe()


@pytest.mark.parametrize("what", FOUND)
def test_is_found(ns, program, what):
    spec, text = FOUND[what]
    proc = run(ns, program, what, URNIC_ORDER=spec)
    assert proc.popen.returncode == 3 and said(proc) == [text], proc.describe()
    assert "processes of this host are reached by UDP: URNIC_ORDER is set" in proc.out


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("what", FOUND)
def test_the_repaired_twin_is_not(ns, program, what, seed):
    for spec in (FOUND[what][0], ALL):
        proc = run(ns, program, f"{what}-repaired", URNIC_ORDER=f"{spec},seed={seed}")
        assert said(proc) == ["ok"], (spec, proc.describe())


@pytest.mark.parametrize("argv", [["ibv_rc_pingpong", "-n", "100"], ["ibv_rc_pingpong", "-e", "-n", "100"],
                                  ["ibv_rc_pingpong", "-t", "-n", "100"], ["ibv_ud_pingpong", "-n", "100"],
                                  ["ibv_srq_pingpong", "-e", "-n", "100"]])
def test_good_programs_go_on(shared_pair, argv):
    """With events and without, between two hosts: nothing is lost, and no thread sleeps on."""
    there, here = (n.with_env(URNIC_ORDER=ALL) for n in shared_pair().place("pair"))
    words = [*argv, "-g", "1", "-d", "roce_eth0"]
    server = there.start(*words, "-p", "18590")
    server.wait_listening(18590)
    client = here.run(*words, "-p", "18590", there.ip4)
    assert server.wait(60) == 0, server.describe()
    assert "100 iters" in client.out


def test_bad_specs():
    for spec, why in (("wirte=1", "did you mean write?"), ("write=2", "'write=2' is no item: it is write=P, where P is a probability from 0 to 1"),
                      ("delay=2s", "1s at most"), ("one=1", "'one=1' is no item")):
        assert why in bad(2, "--order: ", "run", "--order", spec, "true")
    assert "order = one,seed=3\t(URNIC_ORDER)" in good("conf", env={"URNIC_ORDER": "one,seed=3"})
