# SPDX-License-Identifier: BSD-2-Clause
"""What `urnic run --check` says of memory that requests touch (docs/dev/races.md): small programs
of two processes that are found, and their repaired twins that are not."""

import re
import subprocess

import lab
import pytest

FOUND_STATUS = 86
RACE = r"QP 0x\w+: {} of \d+ bytes at 0x\w+ \(rkey 0x\w+, wr_id 0x\w+\) meets the {} of QP 0x\w+ of \d+ " \
       r"bytes at 0x\w+ \(wr_id 0x\w+\), whose completion was not polled: nothing orders the two"
TWO_WRITES = RACE.format("RDMA_WRITE", "RDMA_WRITE")
EARLY = r"QP 0x\w+: this {} \(wr_id 0x\w+\) takes bytes that the RDMA_READ of QP 0x\w+ \(wr_id 0x\w+\) is " \
        r"still to fill: its completion was not polled{}$"
ANNOUNCED = r"QP 0x\w+: this SEND \(wr_id 0x\w+\) names 0x\w+, where the RDMA_WRITE of QP 0x\w+ \(wr_id " \
            r"0x\w+\) had no completion yet"
CHANGED = r"QP 0x\w+: the \d+ bytes of this {}, from 0x\w+ on, were changed before its completion was polled"
TOUCHED = r"QP 0x\w+: the program {} 0x\w+, which the {} of wr_id 0x\w+ {}: its completion was not polled"
DIFFER = r"QP 0x\w+ and its peer QP 0x\w+ do not fit: {}"
# What is said of each row of tests/check/races.
FOUND = {
    "one-sided-race/two-writes": TWO_WRITES,
    "one-sided-race/write-and-read": RACE.format("RDMA_READ", "RDMA_WRITE"),
    "one-sided-race/lock": RACE.format("ATOMIC_CMP_AND_SWP", "RDMA_WRITE"),
    "one-sided-race/one-queue": TWO_WRITES,
    "one-sided-race/covered": TWO_WRITES,
    "one-sided-race/message": TWO_WRITES,
    "one-sided-race/polled-memory": TWO_WRITES,
    "one-sided-race/nothing-shared": TWO_WRITES,
    "announce-before-done/send": ANNOUNCED,
    "announce-before-done/same-queue": ANNOUNCED,
    "announce-before-done/on-each": ANNOUNCED,
    "buffer-read-early/send": EARLY.format("SEND", ", and there is no IBV_SEND_FENCE"),
    "buffer-read-early/other-queue": EARLY.format("RDMA_WRITE", ""),
    "buffer-changed/send": CHANGED.format("SEND"),
    "buffer-changed/long-write": CHANGED.format("RDMA_WRITE"),
    "buffer-changed/unsignaled": CHANGED.format("RDMA_WRITE"),
    "buffer-changed/inline": CHANGED.format("SEND"),
    "buffer-changed/answered-by-write": CHANGED.format("RDMA_WRITE"),
    "buffer-changed/answered-by-send": CHANGED.format("RDMA_WRITE"),
    "buffer-changed/read-back": CHANGED.format("RDMA_WRITE"),
    "buffer-changed/unmapped": CHANGED.format("RDMA_WRITE"),
    "ends-differ/mtu": DIFFER.format("path_mtu is 256 here, 1024 there"),
    "ends-differ/first-number": DIFFER.format(r"the first PSN of requests \(rq_psn here, sq_psn there\) is 77 here, 0 there"),
    "ends-differ/reads": DIFFER.format(r"the number of READs and atomics under way \(max_dest_rd_atomic here, "
                                       r"max_rd_atomic there\) is 4 here, 8 there"),
    "buffer-touched/receive": TOUCHED.format("reads", "receive", "is to fill"),
    "buffer-touched/read": TOUCHED.format("(?:reads|writes to)", "RDMA_READ", "is to fill"),
    "buffer-touched/send": TOUCHED.format("writes to", "RDMA_WRITE", "sends"),
}
WITHOUT_RACES = "buffer-changed,announce-before-done,buffer-read-early"
ALONE = {"buffer-touched", "ends-differ"}
CHECKS = f"{WITHOUT_RACES},one-sided-race"


@pytest.fixture
def races(shared_pair):
    """races(way, name, repaired): run a row of tests/check/races, two processes of one host."""
    def run(way, name, repaired=False, **env):
        check = name.partition("/")[0]
        checks = check if check in ALONE else CHECKS
        ns, _ = shared_pair().place(way)
        return ns.run(ns.stage.tool("check/races"), name, *(["repaired"] if repaired else []), check=False,
                      env={"URNIC_CHECK": checks, "URNIC_CHECK_EXIT": "yes", **env})
    return run


def reports(out):
    return re.findall(r"^urnic\[\d+\] error: check ([a-z0-9-]+): (Q.*)$", out, re.M)


@pytest.mark.parametrize("way,name", [(way, name) for way in ("host", "udp") for name in FOUND
                                      if way == "host" or not name.startswith("ends-differ/")])
def test_is_found(races, way, name):
    proc = races(way, name)
    found = reports(proc.out)
    assert [what for what, _ in found] == [name.partition("/")[0]], proc.describe()
    assert re.search(FOUND[name], found[0][1]), proc.describe()
    assert proc.popen.returncode == FOUND_STATUS, proc.describe()


@pytest.mark.parametrize("way", ["host", "udp"])
@pytest.mark.parametrize("name", FOUND)
def test_is_not_found_when_repaired(races, way, name):
    proc = races(way, name, repaired=True)
    assert "check" not in proc.out and "done" in proc.out, proc.describe()
    assert proc.popen.returncode == 0, proc.describe()


def test_each_row_has_a_test():
    listed = subprocess.run([lab.ROOT / "build/obj/tests/check/races"], capture_output=True, text=True,
                            check=True).stdout.split()
    assert sorted(listed) == sorted(FOUND)


MAPPED = [name for name in FOUND if name.partition("/")[0] in WITHOUT_RACES.split(",")]


@pytest.mark.parametrize("name", MAPPED)
def test_where_peers_reach_memory(races, name):
    """The default checks leave peers to write to this process's memory, unseen."""
    proc = races("host", name, URNIC_CHECK=WITHOUT_RACES)
    assert [what for what, _ in reports(proc.out)] == [name.partition("/")[0]], proc.describe()
    proc = races("host", name, repaired=True, URNIC_CHECK=WITHOUT_RACES)
    assert "error: check" not in proc.out and "done" in proc.out, proc.describe()


def test_memory_is_not_mapped(races):
    """What peers do must be seen: it comes by the ring."""
    say = "URNIC_CHECK has one-sided-race or buffer-touched, which look at what peers do"
    assert say in races("host", "buffer-changed/send", URNIC_LOG="info").out
    assert say not in races("host", "buffer-changed/send", URNIC_LOG="info", URNIC_CHECK="default").out
