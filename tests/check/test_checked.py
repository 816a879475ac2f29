# SPDX-License-Identifier: BSD-2-Clause
"""The default checks, and buffer-touched, say nothing of programs that are used every day."""

import lab
import pytest
from tool import need
from workers import RIGHT

PERFTEST = ["ib_send_bw -n 500", "ib_send_bw -n 500 -e", "ib_send_bw -n 500 -c UD", "ib_send_bw -n 500 -b",
            "ib_send_bw -n 500 -r 512 -q 4", "ib_send_bw -n 500 --use-srq", "ib_send_lat -n 500 -e",
            "ib_write_bw -n 500 -q 8", "ib_write_bw -n 512 --post_list=8", "ib_write_lat -n 500",
            "ib_read_bw -n 500", "ib_atomic_bw -n 500"]
PINGPONG = ["ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_rc_pingpong -N", "ibv_uc_pingpong",
            "ibv_ud_pingpong -e", "ibv_srq_pingpong", "ibv_srq_pingpong -e"]


@pytest.mark.parametrize("place", ["host", "pair"])
@pytest.mark.parametrize("words", PERFTEST + [f"{p} -g 1" for p in PINGPONG])
def test_nothing_is_found(shared_pair, words, place, checks="default"):
    words = words.split()
    need(words[0])
    server, client = shared_pair().place(place)
    for proc in lab.run_both(server, client, words, server.ip4, env={"URNIC_CHECK": checks}):
        assert "check " not in proc.out, proc.describe()


@pytest.mark.parametrize("place", ["host", "pair"])
@pytest.mark.parametrize("words", PERFTEST + [f"{p} -g 1 -s 16384" for p in PINGPONG if "_ud_" not in p])
def test_nothing_is_touched(shared_pair, words, place):
    test_nothing_is_found(shared_pair, words, place, checks="buffer-touched")


@pytest.mark.parametrize("mode", ["write-write", "send-own-send", "poll-own-write", "reg-write", "write-fork"])
def test_signal_handlers_wait_for_no_lock(shared_pair, mode):
    """A handler that interrupts a check is not looked at, and goes on."""
    ns, _ = shared_pair().place("host")
    proc = ns.run(ns.stage.tool("signals/signals"), "-d", ns.dev, "timer", "-m", mode, "-s", "0.1",
                  env={"URNIC_CHECK": "all"})
    assert RIGHT in proc.out, proc.describe()
