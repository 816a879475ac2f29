# SPDX-License-Identifier: BSD-2-Clause
"""Programs whose threads compete for locks or processors: tests/threads."""

import os
import subprocess

import pytest

from lab import urnic_names
from workers import RIGHT

WAYS = ["host", "udp"]


@pytest.fixture
def run(shared_pair):
    """run(way, word, ...): run a command of tests/threads by that way; return its output."""
    def run(way, *words, timeout=60, **kw):
        ns, _ = shared_pair().place(way)
        proc = ns.run(ns.stage.tool("threads/threads"), "-d", ns.dev, *words,
                      timeout=timeout, **kw)
        assert RIGHT in proc.out, proc.describe()
        assert urnic_names(ns) == []
        return proc.out
    return run


# --- while requests are built --------------------------------------------------

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["poll", "recv", "dereg", "fork", "error", "reset",
                                  "destroy", "posts", "lost"])
def test_nothing_stops_while_requests_are_built(run, mode, way):
    run(way, "build", "-m", mode)


# --- while others want the engine --------------------------------------------------

@pytest.mark.parametrize("way", WAYS)
def test_who_registers_keeps_nobody_from_sending(run, way):
    run(way, "register")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["one-mixed", "two-poll", "two-mixed", "two-sleep"])
def test_many_threads_make_use_and_destroy(run, how, way, request):
    full = request.config.getoption("--full")
    run(way, "many", "-m", how, "-n", 3000 if full else 150, timeout=600)


# --- on processors ----------------------------------------------------------------

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["send", "write", "paced", "other"])
def test_a_real_time_poller_starves_nobody_it_needs(stage, shared_pair, mode, way):
    real_time = ["/usr/bin/chrt", "-R", "-f", "1"]
    if subprocess.run([*real_time, "true"], check=False).returncode:
        pytest.skip("real-time priorities are not permitted")
    ns, _ = shared_pair().place(way)
    cpu = str(min(os.sched_getaffinity(0)))
    ns = ns.with_(outer=["/usr/bin/taskset", "-c", cpu, *real_time])
    proc = ns.run(stage.tool("threads/threads"), "-d", ns.dev, "fifo", "-m", mode,
                  timeout=60)
    assert RIGHT in proc.out, proc.describe()


@pytest.mark.parametrize("mode", ["free", "main", "other", "narrow", "worker", "moved"])
def test_where_the_engine_runs(stage, shared_pair, mode):
    ns, _ = shared_pair().place("host")
    if mode in ("narrow", "worker", "moved"):
        cpu = str(min(os.sched_getaffinity(0)))
        ns = ns.with_(outer=["/usr/bin/taskset", "-c", cpu])
    proc = ns.run(stage.tool("threads/threads"), "-d", ns.dev, "affinity", "-m", mode)
    assert RIGHT in proc.out, proc.describe()


# --- while nothing runs ----------------------------------------------------------

@pytest.mark.parametrize("way", ["host", "pipe", "udp"])
@pytest.mark.parametrize("mode", ["poll", "sleep", "post"])
def test_an_answer_that_came_in_while_stopped_counts(run, mode, way):
    run(way, "paused", "-m", mode, "-n", 5)


@pytest.mark.parametrize("way", ["host", "pipe", "udp"])
def test_who_was_stopped_before_its_first_packet_left_has_time(run, way):
    run(way, "paused", "-m", "first", "-n", 8)
