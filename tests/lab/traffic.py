# SPDX-License-Identifier: BSD-2-Clause
"""Programs that exchange data at a fabric's adapters, for tests."""

import re
import signal
import time

from lab import eventually, next_port, run_both
from subnet import sent


def both(f, *argv, server="a", client="b", **kw):
    return run_both(f.at(server), f.at(client), argv, "127.0.0.1", **kw)


def load(f, server, client, *words):
    """Start a program as server and client; return (server, client) once packets cross the
    client's link."""
    port = next_port()
    words = [*words, "-p", str(port)]
    s = f.at(server).start(*words)
    s.wait_listening(port)
    was = sent(f, f"H-{client}")
    c = f.at(client).start(*words, "127.0.0.1")
    assert eventually(lambda: sent(f, f"H-{client}") > was + 100)
    return s, c


def well(*procs):
    for p in procs:
        assert p.wait(100) == 0, p.describe()


LATE = 0.25     # s; a little later packets that wait for a stopped program are dropped


def full(f, senders, receiver=None):
    """Stop the receiver, if there is one, wait until the fabric has no room for more, and return
    each sender's number of completed sends. The fabric must have slept meanwhile, and each sender
    must have polled often enough to see all completions that the fabric had given back before.

    On a busy machine that takes longer than packets wait for the receiver. They are dropped
    then, and go on being dropped until the receiver has run, so it runs for as long."""
    def stands():
        nonlocal was, runs
        assert all(s.proc.running() for s in senders)
        if receiver and (int((time.monotonic() - began) / LATE) % 2 == 1) != runs:
            runs = not runs
            receiver.signal(signal.SIGCONT if runs else signal.SIGSTOP)
            was = None
        if runs:
            return False
        slept, said = sleeps(f.proc.pid), [s.said() for s in senders]
        if was and (slept is None or slept != was[0] or
                    any(now[0] != then[0] for now, then in zip(said, was[1]))):
            was = None
        if not was:
            was = slept and (slept, said)
            return False
        return all(now[1] > then[1] + 50 for now, then in zip(said, was[1]))
    was, runs, began = None, False, time.monotonic()
    if receiver:
        receiver.signal(signal.SIGSTOP)
    assert eventually(stands, step=0.001), [s.said() for s in senders]
    return [gone for gone, _ in was[1]]


def sleeps(pid):
    """How often the process has gone to sleep, or None if it is awake."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = dict(re.findall(r"^(\w+):\s+(\S+)", file.read(), re.M))
    return int(status["voluntary_ctxt_switches"]) if status["State"] == "S" else None
