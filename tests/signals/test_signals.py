# SPDX-License-Identifier: BSD-2-Clause
"""Verbs calls that a signal interrupts, whose handler makes verbs calls or forks: tests/signals."""

import pytest

from workers import RIGHT

PROGRAM = ["write", "send", "recv", "poll", "arm", "reg", "qp", "query", "fork"]
HANDLER = ["write", "send", "recv", "poll", "arm", "reg", "qp", "query", "fork",
           "own-write", "own-send", "own-recv", "own-poll", "own-arm"]
WAYS = ["host", "map", "udp"]


@pytest.fixture
def run(shared_pair):
    """run(way, word, ...): run a command of tests/signals by that way."""
    def run(way, *words, **kw):
        ns, _ = shared_pair().place(way)
        proc = ns.run(ns.stage.tool("signals/signals"), "-d", ns.dev, *words, timeout=100, **kw)
        assert RIGHT in proc.out, proc.describe()
    return run


def programs(names, handler):
    """Without those that call malloc(): glibc's fork() would wait for its locks."""
    return [n for n in names if handler != "fork" or n not in ("reg", "qp")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handler", HANDLER)
def test_a_handler_after_random_times(run, handler, way):
    for i, program in enumerate(programs(PROGRAM, handler)):
        run(way, "timer", "-m", f"{program}-{handler}", "-s", "0.1", "-r", str(i))


@pytest.mark.parametrize("handler", ["write", "send", "arm", "reg", "fork", "own-write",
                                     "own-send", "own-recv", "own-arm"])
def test_a_handler_at_any_instruction(run, handler, request):
    seconds = "30" if request.config.getoption("--full") else "2"
    for program in programs(["write", "send", "poll", "reg"], handler):
        run("host", "step", "-m", f"{program}-{handler}", "-n", "500", "-s", seconds)
