# SPDX-License-Identifier: BSD-2-Clause
"""urnic res: the objects of running processes, a line each."""

import json
import os
import re
import signal
import time

import lab
import pytest
from tool import bad
from known import FEW, Known


@pytest.fixture
def known(netns):
    return Known(netns, "-q", "3", "send", "8", str(FEW))


def test_numbers_of_objects(known):
    out = known.urnic("res").out
    assert sorted(out.splitlines()) == sorted(
        f"pid {pid} comm live-known: qp 3 cq 1 mr 1 pd 1 cm_id 0"
        for pid in (known.poster, known.other))
    rows = json.loads(known.urnic("res", "-j", "pid", str(known.other)).out)
    assert rows == [{"pid": known.other, "comm": "live-known", "qp": 3, "cq": 1, "mr": 1,
                     "pd": 1, "cm_id": 0}]


def test_queue_pairs(known):
    lines = known.urnic("res", "show", "qp", "pid", str(known.poster)).out.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert re.fullmatch(rf"qp number 0x\w+ type RC state RTS device roce_lo by \w+ peer_qp 0x\w+ "
                            rf"peer ::1 sends 0 receives 0 pd \d+ send_cq \d+ receive_cq \d+ "
                            rf"pid {known.poster} comm live-known", line), line
    assert len(known.urnic("res", "qp").out.splitlines()) == 6
    qp = json.loads(known.urnic("res", "show", "qp", "-j").out)[0]
    assert qp["pid"] in (known.poster, known.other) and "posted" in qp
    assert " posted 100 " in known.urnic("res", "-d", "qp", "pid", str(known.poster)).out


@pytest.mark.parametrize("kind, has", [
    ("cq", r"cq handle \d+ entries \d+ size \d+ armed no users 6 pid"),
    ("mr", r"mr key 0x\w+ length 1048576 address 0x\w+ access 0x\w+ pd \d+ pid"),
    ("pd", r"pd handle \d+ users 4 pid")])
def test_other_kinds(known, kind, has):
    assert re.match(has, known.urnic("res", "show", kind, "pid", str(known.other)).out)


def test_connections(netns):
    netns.start("rping", "-s", "-a", "127.0.0.1", "-p", "7174").wait_dump("listener port 7174")
    out = netns.run(netns.stage.urnic, "res", "show", "cm_id").out
    assert re.match(r"cm_id .*7174.* pid \d+ comm rping\n", out), out


@pytest.mark.parametrize("words, says", [
    (["qqp"], "'qqp' is none of"), (["show", "qp", "cq"], "'cq' is none of"),
    (["pid"], "no process is named"), (["pid", "x"], "'x' is no process id")])
def test_wrong_arguments(words, says):
    bad(2, says, "res", *words)


def test_no_process(netns):
    assert "no process has a device" in netns.run(netns.stage.urnic, "res").out
    assert netns.run(netns.stage.urnic, "res", "-j", "show", "qp").out.strip() == "[]"
    told = netns.run(netns.stage.urnic, "res", "qp", "pid", "1", check=False)
    assert told.wait(1) == 1 and "has no device open" in told.out


def test_processes_that_are_stopped(netns):
    """They are waited for at the same time."""
    stopped = [pid for _ in range(2) for k in [Known(netns, "send", "8", "10")] for pid in (k.poster, k.other)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    told = netns.run(netns.stage.urnic, "res", check=False)
    assert told.wait(1) == 1 and time.monotonic() - begin < 15
    assert all(f"process {pid} does not answer" in told.out for pid in stopped), told.describe()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(lab.IN_USERNS, reason="a user namespace has one user")
def test_another_users(known):
    told = known.urnic("res", user=lab.SECOND_USER).out
    assert told.count("answers that user only") == 2 and "comm" not in told
