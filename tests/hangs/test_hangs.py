# SPDX-License-Identifier: BSD-2-Clause
"""What a program does not see for itself is a line of its log at the default level: the first
request that failed, and what it has waited for for a second.  What ends as it should says
nothing."""

import json
import re
import subprocess

import lab
import pytest

SILENT = (r"QP 0x\w+: for 1 s nothing has come from QP 0x\w+ at ADDRESS, to which a request \(SEND, PSN 7\) "
          r"was sent again and again: does its process run, and are QP number, address and PSNs right\? "
          r"\(timeout 0: this QP never gives up\)")
WAITS = (r"completion queue \d+: for 1 s a thread has slept in ibv_get_cq_event\(\) while 1 entries "
         r"wait to be polled; the queue HOW: arm it \(ibv_req_notify_cq\), then poll until it is "
         r"empty, and then wait")
LINES = {
    "no-receive": [
        r"QP 0x(\w+): for 1 s there has been no receive here for a message \(PSN 7, answered with "
        r"RNR\) from QP 0x(\w+) at 10\.88\.0\.1.*: post receives",
        r"QP 0x(\w+): for 1 s the peer has had no receive for PSN 7 \(RNR\), and 1 send requests "
        r"wait here: does QP 0x(\w+) at 10\.88\.0\.1.* post receives\?"],
    "wrong-psn": [
        r"QP 0x\w+: for 1 s PSNs have been refused: 107 is expected here, and 7 came from QP "
        r"0x\w+ at 10\.88\.0\.1.*: is rq_psn here the peer's sq_psn\?"],
    "wrong-qpn": [
        r"QP 0x\w+: for 1 s packets from (10\.88\.0\.1|QP 0x\w+ of this host) have been dropped "
        r"\(SEND_ONLY, PSN 7\): this process has no such QP .*",
        SILENT.replace("ADDRESS", r"10\.88\.0\.1.*")],
    "not-ready": [
        r"QP 0x\w+: for 1 s packets from (10\.88\.0\.1|QP 0x\w+ of this host) have been dropped "
        r"\(SEND_ONLY, PSN 7\): the QP takes packets from RTR on, and not in ERR",
        SILENT.replace("ADDRESS", r"10\.88\.0\.1.*")],
    "no-peer": [SILENT.replace("ADDRESS", r"10\.88\.0\.99")],
    "never-armed": [WAITS.replace("HOW", "was never armed")],
    "not-armed-again": [WAITS.replace("HOW", "is not armed")],
    "not-polled": [WAITS.replace("HOW", "has raised its event for them")],
    "not-solicited": [WAITS.replace("HOW", "is armed for solicited entries only")],
    "cq-events": [
        r"destroy_cq waits: the program has fetched 1 events of completion queue \d+ and "
        r"acknowledged 0 \(ibv_ack_cq_events\)"],
    "srq-events": [
        r"destroy_srq of SRQ 0x\w+ waits: the program has fetched 1 events that it has not "
        r"acknowledged \(ibv_ack_async_event\): IBV_EVENT_SRQ_LIMIT_REACHED"],
    "id-events": [
        r"rdma_destroy_id waits: the program has read 1 events of the id and acknowledged 0 "
        r"\(rdma_ack_cm_event\): RDMA_CM_EVENT_ADDR_RESOLVED"],
}
FAILED = (r"QP 0x\w+: IBV_WC_REM_ACCESS_ERR: RDMA_WRITE of 64 bytes at 0x\w+ there by rkey 0x\w+, work "
          r"request 0x2a to QP 0x\w+ at 10\.88\.0\.1, (in this process, )?PSN 7: the peer says that "
          r"rkey, range or access rights do not allow it \(NAK 0x62\)")
ADVICE = (r" \(later failures are not shown: for a line about each, use `urnic run --log info' or "
          r"URNIC_LOG=info\)")


@pytest.fixture
def start(shared_pair):
    """start(way, what): start tests/hangs, which does that and then waits."""
    started = []

    def start(way, what, **env):
        ns, _ = shared_pair().place(way)
        proc = ns.with_env(**env).start(ns.stage.tool("hangs/hangs"), "-d", ns.dev, what,
                                        stdin=subprocess.PIPE)
        started.append(proc)
        return proc
    yield start
    for proc in started:
        proc.kill()


def warnings(proc):
    return re.findall(r"^urnic\[\d+\] warn: (.*)$", proc.out, re.M)


@pytest.mark.parametrize("way", ["host", "udp"])
@pytest.mark.parametrize("what", LINES)
def test_a_hang_says_what_it_waits_for(start, what, way):
    proc = start(way, what)
    for line in LINES[what]:
        assert lab.eventually(lambda line=line: any(
            re.fullmatch(line, w) for w in warnings(proc))), proc.describe()
    assert len(warnings(proc)) == len(LINES[what]), proc.describe()


@pytest.mark.parametrize("way", ["host", "udp"])
def test_both_ends_of_a_missing_receive_are_named(start, way):
    proc = start(way, "no-receive")
    assert lab.eventually(lambda: len(warnings(proc)) == 2), proc.describe()
    here, there = [re.match(LINES["no-receive"][i], w).groups()
                   for i in range(2) for w in warnings(proc)
                   if re.match(LINES["no-receive"][i], w)]
    assert here == there[::-1]


@pytest.mark.parametrize("way", ["host", "udp"])
def test_the_first_failure_is_said_once(start, way):
    proc = start(way, "wrong-rkey")
    proc.wait_output("done")
    line, = warnings(proc)
    assert re.fullmatch(FAILED + ADVICE, line), line
    proc = start(way, "wrong-rkey", URNIC_LOG="info")
    proc.wait_output("done")
    assert re.search(rf"info: {FAILED}$", proc.out, re.M), proc.describe()
    assert not warnings(proc)
    proc = start(way, "wrong-rkey", URNIC_LOG="error")
    proc.wait_output("done")
    assert "urnic[" not in proc.out


@pytest.mark.parametrize("what", ["good", "flushed", "armed-late", "waits-well"])
def test_an_ordinary_end_says_nothing(start, what):
    proc = start("host", what)
    proc.wait_output("done")
    proc.popen.stdin.close()
    assert proc.wait(lab.HANGS) == 0 and proc.out == "done\n", proc.describe()


def test_an_event_that_is_not_acknowledged_is_named(start):
    proc = start("host", "qp-events")
    proc.wait_output("IBV_EVENT_QP_ACCESS_ERR")
    failed, waits = warnings(proc)
    assert re.fullmatch(FAILED + ADVICE, failed), failed
    assert re.fullmatch(r"destroy_qp of QP 0x\w+ waits: the program has fetched 1 events that it "
                        r"has not acknowledged \(ibv_ack_async_event\): IBV_EVENT_QP_ACCESS_ERR",
                        waits), waits


def test_lines_are_objects_of_json(start):
    proc = start("host", "wrong-rkey", URNIC_LOG="info", URNIC_LOG_FORMAT="json")
    proc.wait_output("done")
    lines = [json.loads(line) for line in proc.out.splitlines() if line != "done"]
    assert all({"time", "pid", "level", "room", "text"} <= line.keys() for line in lines)
    failed, = [line for line in lines if "status" in line]
    assert (failed["status"], failed["vendor_err"], failed["room"]) == ("IBV_WC_REM_ACCESS_ERR", 9, "verbs")
    assert failed["text"].startswith(f"QP 0x{failed['qpn']:06x}: ")
    proc = start("host", "good", URNIC_LOG_FORMAT="xml")
    assert "URNIC_LOG_FORMAT: 'xml' is not text or json" in proc.out or \
        proc.wait(lab.HANGS) and "URNIC_LOG_FORMAT" in proc.out, proc.describe()
