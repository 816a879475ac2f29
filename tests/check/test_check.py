# SPDX-License-Identifier: BSD-2-Clause
"""urnic run --check finds what is wrong with small programs, and nothing in the same programs
repaired."""

import re
import subprocess

import lab
import pytest

# What the first line of the report says, for each row of `tests/check/bugs`.
FOUND = {
    "sq-overflow": r"RDMA_WRITE refused \(ENOMEM\): all 8 places of the send queue \(max_send_wr\) "
                   r"are held, 8 by signalled requests",
    "sq-unsignaled": r"RDMA_WRITE refused \(ENOMEM\), and all that follow will be: none of the 8 requests",
    "cq-overrun": r"a completion queue of 8 entries is overrun: .*; the queues that complete to it "
                  r"have 64 places",
    "cq-too-small": r"completes to a queue of 8 entries, and all queues that do have 16 places",
    "bad-wr-ignored": r"a list that begins with wr_id 0x7 is posted again from its head, though only "
                      r"what follows wr_id 0x9 \(\*bad_wr\) was refused",
    "posted-twice": r"a receive of wr_id 0x408 is posted, and another of wr_id 0x3e8 with the same memory",
    "post-limit/sges": r"num_sge is 3, and max_send_sge of the queue pair is 2",
    "post-limit/inline": r"the inline data is 100, and max_inline_data of the queue pair is 16",
    "post-limit/receives": r"the number of receives is 9, and max_recv_wr of the queue pair is 8",
    "post-in-error": r"RDMA_WRITE posted \(wr_id 0x2\), though the program has put the queue pair into ERR",
    "flush-not-drained": r"is in ERR and is destroyed with 2 requests whose completions were not polled",
    "destroy-busy": r"is destroyed with 1 signalled send requests outstanding, the first a SEND of wr_id 0x1",
    "destroyed-twice": r"a queue pair QP 0x\w+ is destroyed a second time",
    "use-after-destroy/post": r"a queue pair QP 0x\w+ is used that was destroyed",
    "use-after-destroy/poll": r"a completion queue is used that was destroyed",
    "use-after-destroy/modify": r"a queue pair QP 0x\w+ is used that was destroyed",
    "leak-object": r"the process ends with a memory region that is not destroyed$",
    "leak-work": r"the process ends, and the completion of a RDMA_WRITE of wr_id 0x1 was not polled",
    "wc-trusted/length": r"a SEND of wr_id 0x1 has the length 0x5a5a5a5a: byte_len of a completion with an error",
    "wc-trusted/read": r"ibv_wc_read_byte_len\(\) of a completion with an error",
    "lost-wakeup": r"a thread waits for an event of a CQ that was armed when a completion was waiting in it",
    "event-unacked": r"ibv_destroy_cq waits until all events are acknowledged .*: 1 were fetched, 0 acknowledged",
    "region-in-use": r"the region of 65536 bytes at .* is deregistered while a receive of wr_id 0x3e8",
    "unmapped-first": r"the region of 4096 bytes at .* is deregistered, and its memory was unmapped before",
    "unmapped-first/moved": r"the region of 4096 bytes at .* is deregistered, and its memory was unmapped before",
    "unmapped-first/mapped-anew": r"and its memory was given back \(madvise\), or mapped anew, before",
    "unmapped-first/given-back": r"and its memory was given back \(madvise\), or mapped anew, before",
    "region-unmapped": r"the RDMA_WRITE of wr_id 0x1 has failed: its memory is registered and not mapped",
    "stale-key/lkey": r"a request with 64 bytes at 0x\w+ by lkey 0x\w+ is refused: its region was deregistered",
    "stale-key/rkey": r"a request of the peer for 64 bytes at 0x\w+ by rkey 0x\w+ is refused: its region was",
    "access-flag/remote": r"the region was registered without IBV_ACCESS_REMOTE_WRITE",
    "access-flag/local": r"the region was registered without IBV_ACCESS_LOCAL_WRITE",
    "access-flag/qp": r"qp_access_flags of the queue pair lack IBV_ACCESS_REMOTE_READ",
    "wrong-pd": r"the region belongs to another protection domain",
    "region-range": r"a request of the peer for 64 bytes at .* is refused: the region has 65536 bytes at",
    "fork-unaligned": r"the process forks, and 1 regions share pages with other data, such as that of 100 bytes",
    "receive-late": r"the first receive is posted when a message has come already, which RNICs answer",
    "receive-late/rnr-retry": r"the SEND of wr_id 0x1 has failed: the peer had no receive posted, and "
                              r"rnr_retry is 0",
    "ends-differ": r"do not fit: path_mtu is 1024 here, 256 there",
}
# What else is wrong with a program, and with its repaired twin
ALSO = {"region-unmapped": {"unmapped-first"}, "cq-overrun": {"cq-too-small", "flush-not-drained"}, "bad-wr-ignored": {"sq-overflow"},
        "wc-trusted/length": {"flush-not-drained"}, "leak-work": {"leak-object"}}
LEFT = {"bad-wr-ignored": {"sq-overflow"}}
FOUND_STATUS = 86


@pytest.fixture
def bugs(shared_pair):
    """bugs(name, repaired): run a row of tests/check/bugs with all checks."""
    def run(name, repaired=False, **env):
        ns, _ = shared_pair().place("host")
        return ns.run(ns.stage.tool("check/bugs"), name, *(["repaired"] if repaired else []), check=False,
                      env={"URNIC_CHECK": "all", "URNIC_CHECK_EXIT": "yes", **env})
    return run


def reports(out):
    return re.findall(r"^urnic\[\d+\] error: check ([a-z0-9-]+): (.*)$", out, re.M)


@pytest.mark.parametrize("name", FOUND)
def test_is_found(bugs, name):
    proc = bugs(name)
    found = reports(proc.out)
    check = name.partition("/")[0]
    assert [text for what, text in found if what == check and re.search(FOUND[name], text)], proc.describe()
    assert {what for what, _ in found} == {check} | ALSO.get(name, set()), proc.describe()
    assert proc.popen.returncode == FOUND_STATUS, proc.describe()


@pytest.mark.parametrize("name", FOUND)
def test_is_not_found_when_repaired(bugs, name):
    proc = bugs(name, repaired=True)
    left = LEFT.get(name, set())
    assert {what for what, _ in reports(proc.out)} == left and "done" in proc.out, proc.describe()
    assert proc.popen.returncode == (FOUND_STATUS if left else 0), proc.describe()


def test_a_report_says_where(bugs):
    out = bugs("sq-overflow").out
    assert re.search(r"error:   in rig_post \(check-bugs\+0x\w+\)\n.*called by sq_overflow \(check-bugs\+"
                     r"0x\w+\)\n.*called by main ", out), out
    assert re.search(r"the oldest of them was posted [0-9.]+ ms before, by rig_post ", out), out


def test_a_frame_is_the_line_of_the_call(bugs, stage):
    """And not the one behind it, to which the call returns."""
    address = re.search(r"called by sq_overflow \(check-bugs\+(0x\w+)\)", bugs("sq-overflow").out)[1]
    at = subprocess.run(["addr2line", "-e", stage.tool("check/bugs"), address], text=True, check=True,
                        stdout=subprocess.PIPE).stdout
    name, line = re.search(r"([^/]+):(\d+)", at).groups()
    assert "rig_post(" in (lab.ROOT / "tests/check" / name).read_text().splitlines()[int(line) - 1], at


@pytest.mark.parametrize("name,made", [("access-flag/remote", "registered in ibv_reg_mr"),
                                       ("access-flag/qp", "created in ibv_create_qp"),
                                       ("cq-overrun", "created in ibv_create_cq")])
def test_of_what_peers_do_a_report_says_where_the_object_was_made(bugs, name, made):
    assert f"error:   {made}" in bugs(name).out


def test_the_first_report_of_each_check_says_what_explains_it(bugs):
    out = bugs("cq-overrun").out
    assert out.count("`urnic explain check:cq-overrun'") == 1
    assert out.count("`urnic explain check:cq-too-small'") == 1


def test_only_what_is_asked_for(bugs):
    assert "check" not in bugs("sq-overflow", URNIC_CHECK="sq-unsignaled").out
    assert "check" not in bugs("sq-overflow", URNIC_CHECK="all,-sq-overflow").out
    assert "check" not in bugs("sq-overflow", URNIC_CHECK="").out


def test_suppressions(bugs, shared_pair):
    file = shared_pair().place("host")[0].stage.tmp / "suppress"
    for line, found in [("sq-overflow:rig_p*", False), ("*:sq_overflow", False), ("*:check-bugs", False),
                        ("sq-overflow:nothing", True), ("sq-unsignaled:*", True)]:
        file.write_text(f"# a comment\n\n{line}\n")
        proc = bugs("sq-overflow", URNIC_CHECK_SUPPRESS=str(file))
        assert bool(reports(proc.out)) == found, (line, proc.describe())
        assert proc.popen.returncode == (FOUND_STATUS if found else 0), (line, proc.describe())


@pytest.mark.parametrize("line,why", [("sq-overflow", "not CHECK:PATTERN"), ("sq-over:x", "no such check"),
                                      ("sq-overflow: x", "no name begins with a space")])
def test_wrong_suppressions(bugs, shared_pair, line, why):
    file = shared_pair().place("host")[0].stage.tmp / "wrong"
    file.write_text(f"{line}\n")
    proc = bugs("sq-overflow", URNIC_CHECK_SUPPRESS=str(file))
    assert f"error: URNIC_CHECK_SUPPRESS: {file}:1: {line}: {why}" in proc.out
    assert "FAILED" in proc.out and "r->ctx" in proc.out, proc.describe()  # no device is opened


def test_abort(bugs):
    assert bugs("sq-overflow", URNIC_CHECK_ABORT="yes").popen.returncode == -6


def test_each_row_has_a_test():
    listed = subprocess.run([lab.ROOT / "build/obj/tests/check/bugs"], capture_output=True, text=True,
                                check=True).stdout.split()
    assert sorted(listed) == sorted(FOUND)
