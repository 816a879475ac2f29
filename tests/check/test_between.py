# SPDX-License-Identifier: BSD-2-Clause
"""Requests of different processes that meet in the memory of a third one (docs/dev/races.md, "Between
processes")."""

import re
import subprocess

import lab
import pytest

FOUND_STATUS = 86
SAYS = r"^urnic\[\d+\] error: check one-sided-race: the (\w+) of QP 0x\w+, process (\d+), of \d+ bytes at 0x\w+ " \
       r"\(rkey 0x\w+\) meets the (\w+) of QP 0x\w+, process (\d+), of \d+ bytes at 0x\w+, which was executed"
WORDS = {"swap": "atomic", "add": "atomic", "writes": "WRITE", "two": "WRITE"}
ROWS = subprocess.run([lab.ROOT / "build/obj/tests/check/between"], capture_output=True, text=True,
                      check=True).stdout.split()
ALONE = {"URNIC_CHECK": "one-sided-race", "URNIC_CHECK_EXIT": "yes"}


@pytest.fixture
def between(shared_pair):
    """between(way, name, repaired): run a row of tests/check/between."""
    def run(way, name, repaired=False, env=ALONE):
        ns, _ = shared_pair().place(way)
        return ns.run(ns.stage.tool("check/between"), name, *(["repaired"] if repaired else []), check=False,
                      env=env)
    return run


@pytest.mark.parametrize("name", ROWS)
def test_is_found(between, name):
    proc = between("host", name)
    ops = [WORDS.get(word, word.upper()) for word in name.replace("-and", "").split("-")]
    pids = re.search(r"first (\d+) second (\d+)", proc.out).groups()
    found = re.findall(SAYS, proc.out, re.M)
    assert len(found) == 1, proc.describe()
    pairs = {found[0][:2], found[0][2:]}
    assert pairs == set(zip(ops, pids, strict=True)), proc.describe()
    assert "error:   registered in ibv_reg_mr" in proc.out, proc.describe()
    assert proc.popen.returncode == FOUND_STATUS, proc.describe()


@pytest.mark.parametrize("way", ["host", "udp"])
@pytest.mark.parametrize("name", ROWS)
def test_is_not_found_when_repaired(between, way, name):
    """The second process hears of the first one's completion by a semaphore."""
    proc = between(way, name, repaired=True, env={"URNIC_CHECK": "default,one-sided-race", "URNIC_CHECK_EXIT": "yes"})
    assert "error: check" not in proc.out and "done" in proc.out, proc.describe()
    assert proc.popen.returncode == 0, proc.describe()
