# SPDX-License-Identifier: BSD-2-Clause
"""Faults of verbs: calls that fail, completions with an error, events, ports that go down; from
the start and while a program runs."""

import re
import signal

import pytest

from lab import HANGS, eventually
from tool import bad
from workers import RIGHT, Two, worker


def fault(ns, *words, status=0):
    proc = ns.start(ns.stage.urnic, "fault", *map(str, words))
    assert proc.wait(HANGS) == status, proc.describe()
    return proc.out


def end(proc):
    proc.signal(signal.SIGTERM)
    assert proc.wait(HANGS) == 0 and RIGHT in proc.out, proc.describe()


# the program itself makes one of each before it begins to count
@pytest.mark.parametrize("call,error,says", [
    ("reg_mr", "", "Cannot allocate memory"),
    ("create_cq", ":EINVAL", "Invalid argument"),
    ("create_qp", ":ENOSPC", "No space left on device"),
    ("alloc_pd", ":eagain", "Resource temporarily unavailable"),
])
def test_the_nth_call_from_the_start(shared_pair, faults, call, error, says):
    ns = shared_pair().a
    proc = ns.start(faults, "calls", env={"URNIC_FAULT": f"fail={call}:4{error}"})
    proc.wait_output(f"{call} 3: {says}")
    end(proc)
    assert len(re.findall(rf"^{call} \d+:", proc.out, re.M)) == 1, proc.describe()


@pytest.mark.parametrize("call", ["reg_mr", "create_cq", "create_qp", "alloc_pd", "post_recv"])
def test_calls_while_it_runs(shared_pair, faults, call):
    ns = shared_pair().a
    proc = ns.start(faults, "calls")
    proc.wait_output("works")
    fault(ns, proc.pid, f"fail={call}:2:EBUSY")
    assert eventually(lambda: "resource busy" in proc.out), proc.describe()
    assert eventually(lambda: re.search(r"verbs: of [1-9]\d* calls 1 failed",
                                        fault(ns, proc.pid, "show")))
    fault(ns, proc.pid, f"fail={call}:1+:EPERM")
    assert eventually(lambda: proc.out.count("not permitted") > 3), proc.describe()
    fault(ns, proc.pid, "clear")
    end(proc)
    assert proc.out.count("resource busy") == 1, proc.describe()


def test_a_completion_fails(shared_pair, faults):
    """The program sees the error; its peer, whose requests are flushed or refused, too."""
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    number = re.search(r"qpn (0x[0-9a-f]+)", two.client.out)[1]
    fault(pair.b, two.client.pid, f"wc=100:rem_access_err:{number}")
    assert two.client.wait(HANGS) == 2, two.client.describe()
    assert "remote access error" in two.client.out
    assert two.server.wait(HANGS) == 2, two.server.describe()


@pytest.mark.parametrize("when", ["start", "later"])
def test_requests_that_are_built(shared_pair, faults, when):
    """From the start, and of a QP that exists already."""
    ns = shared_pair().a
    spec = "fail=post_send:2:EBUSY"
    proc = ns.start(faults, "extended", env={"URNIC_FAULT": spec} if when == "start" else {})
    proc.wait_output("works")
    if when == "later":
        fault(ns, proc.pid, spec)
    proc.wait_output(": Device or resource busy")
    fault(ns, proc.pid, "fail=post_send:1+:EPERM")
    assert eventually(lambda: proc.out.count("not permitted") > 3), proc.describe()
    fault(ns, proc.pid, "clear")
    assert "verbs:" not in fault(ns, proc.pid, "show")
    end(proc)
    assert proc.out.count("resource busy") == 1 and "completion" not in proc.out, proc.describe()


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["start", "later"])
def test_completions_that_are_read(shared_pair, faults, when, nth):
    """The first by ibv_start_poll() or the second, perhaps by ibv_next_poll(); the QP fails, too."""
    ns = shared_pair().a
    spec = f"wc={nth}:rem_access_err"
    proc = ns.start(faults, "extended", env={"URNIC_FAULT": spec} if when == "start" else {})
    proc.wait_output("works")
    if when == "later":
        fault(ns, proc.pid, spec)
    proc.wait_output("remote access error")
    fault(ns, proc.pid, "clear")
    end(proc)
    assert proc.out.count("remote access error") == 1, proc.describe()


def test_a_port_stays_down(shared_pair, faults):
    """Whatever its interface does, until it is asked for no more."""
    ns = shared_pair().a
    proc = ns.start(faults, "watch")
    proc.wait_output("start: active")
    fault(ns, proc.pid, "port=down")
    proc.wait_output("port error: down")
    try:
        ns.sh("ip addr add 10.99.0.1/24 dev eth0")
        proc.wait_output("GID table change: down")
        fault(ns, proc.pid, "clear")
        proc.wait_output("port active: active")
    finally:
        ns.sh("ip addr del 10.99.0.1/24 dev eth0")


@pytest.mark.parametrize("what,says", [
    ("async=gid_change", "GID table change: active"),
    ("async=port_err", "port error: active"),
    ("port=down", "port error: down"),
    ("async=IBV_EVENT_CLIENT_REREGISTER", "client reregistration: active"),
])
def test_events(shared_pair, faults, what, says):
    ns = shared_pair().a
    proc = ns.start(faults, "watch")
    proc.wait_output("start: active")
    fault(ns, proc.pid, what)
    proc.wait_output(says)
    if what == "port=down":
        fault(ns, proc.pid, "port=up")
        proc.wait_output("port active: active")
    assert proc.running()


@pytest.mark.parametrize("what,says", [
    ("async=gid_change", "GID table change: active"),
    ("port=down", "start: down"),
    ("async=port_err,port=down", "port error: down"),
])
def test_events_from_the_start(shared_pair, faults, what, says):
    """A context that is opened gets them."""
    ns = shared_pair().a
    proc = ns.start(faults, "watch", env={"URNIC_FAULT": what})
    proc.wait_output(says)
    assert proc.running()


def test_a_device_that_is_lost_from_the_start(shared_pair, faults):
    ns = shared_pair().a
    proc = ns.start(faults, "watch", env={"URNIC_FAULT": "async=device_fatal"})
    assert proc.wait(HANGS) != 0 and "Input/output error" in proc.out, proc.describe()


def test_an_event_of_no_qp(shared_pair, faults):
    """It is said, and the faults that act stay."""
    ns = shared_pair().a
    proc = ns.start(faults, "calls")
    proc.wait_output("works")
    fault(ns, proc.pid, "fail=create_srq:1")
    assert "there is no QP 0x000777" in fault(ns, proc.pid, "async=comm_est:0x777", status=1)
    assert "faults: fail=create_srq:1" in fault(ns, proc.pid, "show")
    end(proc)


def test_the_device_is_lost(shared_pair, faults):
    ns = shared_pair().a
    proc = ns.start(faults, "watch")
    proc.wait_output("start: active")
    fault(ns, proc.pid, "async=device_fatal")
    assert proc.wait(HANGS) != 0    # its next call answers EIO
    assert "ibv_query_port" in proc.out, proc.describe()


def test_a_qp_is_lost(shared_pair, faults):
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    number = re.search(r"qpn (0x[0-9a-f]+)", two.client.out)[1]
    fault(pair.b, two.client.pid, f"async=qp_fatal:{number}")
    assert two.client.wait(HANGS) == 2, two.client.describe()
    assert "Work Request Flushed" in two.client.out


def test_of_verbs_and_of_the_wire_in_one(shared_pair, faults):
    pair = shared_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_working()
    said = fault(pair.b, two.client.pid, "drop=0.02,fail=reg_mr:1+;peer=10.9.9.9,drop=1")
    assert "1 QP is hit" in said
    assert eventually(lambda: re.search(r"packets [1-9]\d* dropped",
                                        fault(pair.b, two.client.pid, "show")))
    fault(pair.b, two.client.pid, "fail=reg_mr:1")     # those of the wire end
    assert "1 QP " not in fault(pair.b, two.client.pid, "show")
    two.finish()


@pytest.mark.parametrize("words,says", [
    ("fail=reg_mrs:1", "no call that can fail is called reg_mrs; did you mean reg_mr?"),
    ("fail=reg_mr:0", "a count from 1"),
    ("fail=reg_mr:1:ENOMEMM", "did you mean ENOMEM?"),
    ("wc=1:retry_exc", "no status is called retry_exc"),
    ("wc=1", "N:STATUS is wanted"),
    ("async=qp_fatal", "a QP's event: of which?"),
    ("async=gid_change:5", "no QP's event"),
    ("port=sideways", "no state of a port"),
    ("fial=reg_mr:1", "did you mean fail?"),
])
def test_wrong_words(words, says):
    bad(2, says, "fault", "1", words)
