# SPDX-License-Identifier: BSD-2-Clause
"""urnic explain: it knows codes, names, texts and lines of logs."""

import json
import pathlib
import re

import pytest
from tool import ROOT, bad, good


def explained(*args):
    return json.loads(good("explain", "--json", *args))


def test_explain_knows_every_vendor_code():
    table = (ROOT / "src/verbs/verr.def").read_text()
    codes = re.findall(r"^VERR\((\d+), *(\w+),", table, re.M)
    assert len(codes) >= 20
    for code, name in codes:
        for word in (code, name, name.lower(), f"VERR_{name}"):
            found = explained(f"vendor:{word}")
            assert [(e["code"], e["name"]) for e in found] == [(int(code), name)]


@pytest.mark.parametrize("kind,first,prefix", [
    ("status", "IBV_WC_SUCCESS", "IBV_WC_"),
    ("event", "IBV_EVENT_CQ_ERR", "IBV_EVENT_"),
])
def test_explain_knows_every_name_of_verbs(kind, first, prefix):
    header = pathlib.Path("/usr/include/infiniband/verbs.h").read_text()
    body = re.search(rf"\{{\s*{first},.*?\}}", header, re.S)[0]
    names = re.findall(r"^\s*(IBV_\w+)", body, re.M)
    assert len(names) >= 20
    for code, name in enumerate(names):
        for word in (name, name[len(prefix):].lower(), str(code)):
            found = explained(f"{kind}:{word}")
            assert [(e["code"], e["name"]) for e in found] == [(code, name)]
            assert found[0]["what"]
        # as ibv_wc_status_str() and ibv_event_type_str() return it
        for words in (found[0]["text"], found[0]["text"].upper()):
            assert [(e["kind"], e["name"]) for e in explained(words)] == \
                [(kind, name)]


def test_explain_knows_every_event_of_rdma_cm():
    header = pathlib.Path("/usr/include/rdma/rdma_cma.h").read_text()
    body = re.search(r"enum rdma_cm_event_type \{(.*?)\}", header, re.S)[1]
    names = re.findall(r"RDMA_CM_EVENT_\w+", body)
    assert len(names) == 16
    for code, name in enumerate(names):
        for word in (name, name[len("RDMA_CM_EVENT_"):].lower(), str(code)):
            found, = explained(f"cm_event:{word}")
            assert (found["code"], found["name"]) == (code, name)
            assert found["what"]
        assert ("cm_event", code) in codes_of(f"main: cma event {name}, error -1")


def codes_of(*words):
    return sorted((e["kind"], e["code"]) for e in explained(*words))


def test_explain_knows_every_reason_of_rdma_cm():
    header = (ROOT / "src/wire/cm_mad.h").read_text()
    reasons = re.findall(r"(CM_REJ_\w+) = (\d+)", header)
    assert len(reasons) >= 12
    for name, code in reasons:
        assert codes_of(name) == [("cm_status", int(code))]
        assert ("cm_status", int(code)) in codes_of(
            f"cma event RDMA_CM_EVENT_REJECTED, error {code}")


@pytest.mark.parametrize("table,kind,least", [
    ("src/verbs/counter.def", "counter", 20), ("src/cm/counter.def", "cm_counter", 15)])
def test_explain_knows_every_counter(table, kind, least):
    names = re.findall(r"^COUNT(?:ER)?\((\w+), *(\w+)", (ROOT / table).read_text(),
                       re.M)
    assert len(names) >= least
    for code, (upper, name) in enumerate(names):
        for word in (f"{kind}:{name}", upper.lower()) if kind != "counter" else (name,):
            assert (kind, code) in codes_of(word), word
            assert all(e["what"] for e in explained(word))
    if kind == "cm_counter":
        line = "connection management: " + " ".join(f"{n} 1" for _, n in names)
        assert codes_of(line) == [(kind, i) for i in range(len(names))] + [("log", 0)]


# The last %s of these lines is the message proper: a vendor_err's text or one of abi/live.c's,
# which explain knows by themselves.
BY_THEIR_END = {"%s", "%s refused: a %s %s"}


def lines_of_the_log():
    """The format strings that src/ and fabric/ log, as (level, text)."""
    for file in [*ROOT.glob("src/*/*.c"), *ROOT.glob("fabric/**/*.c")]:
        if file.name.endswith("_test.c"):
            continue
        for level, call in re.findall(
                r'\blog_(error|warn|info|hint)\(((?:\s*(?:"(?:[^"\\]|\\.)*"|PRI\w+))+)',
                file.read_text()):
            text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', call))
            if text not in BY_THEIR_END:
                yield level, text


def test_explain_knows_every_line_of_the_log():
    lines = list(lines_of_the_log())
    assert len(lines) >= 110
    for level, text in lines:
        line = re.sub(r"%#?[0-9.*]*l*z?[a-z]?", "7", re.sub(r"(\w)%s", r"\1 7", text))
        assert ("log", 0) in codes_of(f"urnic[7] {level}: {line}"), line


@pytest.mark.parametrize("line,name", [
    ("urnic[7] warn: UDP port 4791 (IPv4) is held by the urnic of user 5, process 8: it "
     "forwards what comes for this process, and can read and change it (URNIC_SHARE=user "
     "refuses that, host permits it)", "is held by the urnic of ... it forwards"),
    ("urnic[7] warn: roce_eth0: address (sgid_index 0, port 1) refused: RoCE needs a GRH "
     "(is_global): give the program a GID index", "needs a GRH"),
    ("urnic[7] info: QP 0x00000a: post refused: the send queue is full: a place returns "
     "when the completion that covers its request is polled",
     "post refused: ... is full: a place returns"),
    ("urnic[7] info: SRQ 0x00000a: post refused: it is full: a place returns when the "
     "completion of its receive is polled", "post refused: ... is full: a place returns"),
    ("urnic[7] info: QP 0x00000a: post refused: the state of the QP is RTR: it sends from "
     "RTS on",
     "post refused: ... it sends from RTS on"),
])
def test_explain_says_what_a_warning_means(line, name):
    entry = next(e for e in explained(line) if e["name"] == name)
    assert entry["what"] and entry["do"]


def test_explain_takes_every_counter_of_a_line():
    assert codes_of("urnic[7] info: counters: rx 20, tx 7, tx_timeout 3") == \
        sorted([("counter", 0), ("counter", 1), ("counter", 18), ("log", 0)])


TIMED_OUT = ("vendor", 5)
REJECTED = ("cm_event", 8)
UNREACHABLE = ("cm_event", 7)
EXCEEDED = ("status", 12)


@pytest.mark.parametrize("line,codes", [
    ("vendor_err:5", [TIMED_OUT]),
    ("urnic[7] info: QP 0x0a: IBV_WC_RETRY_EXC_ERR: SEND of 8 bytes, work request 0x2 to QP 0x0b, "
     "PSN 5: the peer did not answer within timeout and retry_cnt", [EXCEEDED, TIMED_OUT, ("log", 0)]),
    ("the peer's process, on this host, has ended", [("vendor", 21)]),
    ("rx_stale", [("cm_counter", 11), ("counter", 10)]),
    ("counter:tx_probe", [("counter", 19)]),
    ("vendor_err=5", [TIMED_OUT]),
    ("vendor_err 0x05", [TIMED_OUT]),
    ("Vendor error 5", [TIMED_OUT]),
    ("wc.vendor_err: 5", [TIMED_OUT]),
    ("VENDOR:TIMEOUT", [TIMED_OUT]),
    ("transport retry counter exceeded", [EXCEEDED]),
    ("Transport Retry Counter Exceeded.", [EXCEEDED]),
    ("status: transport retry counter exceeded", [EXCEEDED]),
    ("wc.status = 12", [EXCEEDED]),
    ("ibv_wc_retry_exc_err (12)", [EXCEEDED]),
    ("event type 15", [("event", 15)]),
    ("syndrome 0x62", [("nak", 0x62)]),
    # printed by perftest and ibv_rc_pingpong
    (" Failed status 12: wr_id 0 syndrom 0x5", [TIMED_OUT, EXCEEDED]),
    (" Failed status 12: wr_id 0 syndrom 0x15", [("vendor", 21), EXCEEDED]),
    (" Failed status 12: wr_id 0 syndrom 0x81", [("vendor", 0x81), EXCEEDED]),
    ("vendor_err=136", [("vendor", 0x88)]),
    ("Vendor error 65544", [("vendor", 0x10008)]),
    ("Failed status transport retry counter exceeded (12) for wr_id 2",
     [EXCEEDED]),
    ("status 12 (IBV_WC_RETRY_EXC_ERR), vendor_err 5", [TIMED_OUT, EXCEEDED]),
    # printed by rping and other rdma_cm programs
    ("cma event RDMA_CM_EVENT_REJECTED, error 8", [REJECTED, ("cm_status", 8)]),
    ("cma event RDMA_CM_EVENT_REJECTED, error -111", [REJECTED, ("cm_status", -111)]),
    ("event: RDMA_CM_EVENT_REJECTED, status: 28", [REJECTED, ("cm_status", 28)]),
    ("RDMA_CM_EVENT_UNREACHABLE, error -110", [UNREACHABLE, ("cm_status", -110)]),
    ("cma event RDMA_CM_EVENT_ADDR_ERROR, error -19",
     [("cm_event", 1), ("cm_status", -19)]),
    ("cma event RDMA_CM_EVENT_ADDR_ERROR, error -101",
     [("cm_event", 1), ("cm_status", -101)]),
    ("cma event 8", [REJECTED]),
    ("error 8", [("cm_status", 8)]),
    ("rdma_connect: Connection refused", [("cm_status", -111)]),
    ("urnic[7] info: iWARP connection to 192.0.2.1, TCP port 7174: Connection refused",
     [("cm_status", -111), ("log", 0)]),
    ("program: Connection refused, status 12", [EXCEEDED]),
    ("RDMA WRITE failed, status 12, Vendor error 5", [TIMED_OUT, EXCEEDED]),
])
def test_explain_takes_what_logs_say(line, codes):
    for words in ([line], line.split()):
        found = explained(*words)
        assert sorted((e["kind"], e["code"]) for e in found) == sorted(codes)


def test_explain_knows_the_line_of_a_first_failure():
    assert codes_of("urnic[7] warn: QP 0x0a: IBV_WC_LOC_LEN_ERR: receive, work request 0x2 from QP "
                    "0x0b, PSN 5: the message is longer than the receive posted for it (later "
                    "failures are not shown: for a line about each, use `urnic run --log info' or "
                    "URNIC_LOG=info)") == [("log", 0), ("status", 1), ("vendor", 4)]


@pytest.mark.parametrize("words", [
    ["-98"], ["errno", "-98"], ["errno", "98"], ["EADDRINUSE"],
    ["ibv_modify_qp: Address already in use"], ["modify QP to RTR: error -98"]])
def test_explain_takes_the_errno_of_a_call(words):
    entry = next(e for e in explained(*words) if e["kind"] == "errno")
    assert entry["code"] == -98
    assert "URNIC_SHARE" in entry["what"] and "URNIC_SHARE=host" in entry["do"]


@pytest.mark.parametrize("words", [
    ["ENOSYS"], ["Failed to get IB devices list: Function not implemented"]])
def test_explain_knows_of_a_program_without_urnic(words):
    entry, = explained(*words)
    assert (entry["kind"], entry["code"]) == ("errno", -38)
    assert "urnic run" in entry["do"]


def test_explain_minds_the_sign():
    assert {e["kind"] for e in explained("-12")} == {"errno"}
    assert "errno" not in {e["kind"] for e in explained("12")}
    assert [e["name"] for e in explained("status", "-12")] == ["-ENOMEM"]
    # an errno to which urnic gives no meaning of its own
    assert [(e["code"], e["name"]) for e in explained("-18")] == [(-18, "-EXDEV")]
    bad(1, "-4000'", "explain", "-4000")


@pytest.mark.parametrize("word", ["status:12", "vendor:5"])
def test_explain_says_that_a_stopped_peer_times_out(word):
    entry, = explained(word)
    assert "SIGSTOP" in entry["do"] and "retry_cnt" in entry["do"]


def test_explain_suggests():
    for word in ("IBV_WC_RETRY_EXE_ERR", "status:rtry_exc_err",
                 "transport rety counter exceded"):
        err = bad(1, f"'{word}'; did you mean IBV_WC_RETRY_EXC_ERR?", "explain",
                  word)
        assert "`urnic explain' lists all codes" in err
    err = bad(1, "'vendor:99'", "explain", "vendor:99")
    assert "did you mean" not in err
    for kind in ("vendor", "status", "event", "nak", "counter", "cm_event", "cm_status",
                 "cm_counter", "errno", "log"):
        assert f"{kind} (" in err


def test_explain_wire_codes():
    assert explained("0x62")[0]["name"] == "NAK_REMOTE_ACCESS"
    assert "0.64 ms" in explained("nak:0x2c")[0]["what"]
    assert "655.36 ms" in explained("nak:0x20")[0]["what"]
    assert explained("nak:0")[0]["name"] == "ACK"
    for reserved in ("nak:0x65", "nak:0x40", "nak:0x80", "nak:0x100"):
        bad(1, reserved, "explain", reserved)


def test_explain_ambiguous_and_unknown():
    assert {e["kind"] for e in explained("12")} == {"vendor", "status", "event",
                                                     "cm_event"}
    # errnos are looked for only where the text can mean one
    assert "cm_status" not in {e["kind"] for e in explained("19")}
    assert any(e["name"] == "IBV_EVENT_CQ_ERR" for e in explained("overran"))
    bad(1, "'nonsense'", "explain", "nonsense")
    bad(1, "'9999'", "explain", "9999")
    assert len(explained()) >= 60
    assert len(good("explain").splitlines()) == len(explained())
    text = good("explain", "status:12")
    assert "IBV_WC_RETRY_EXC_ERR" in text and "to do:" in text
