# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own suite (pyverbs), as Debian ships it: all of it, by every way between two
processes of one host, and at an adapter of a fabric.

tests/conformance/pyverbs.tsv lists every test with its class; skips.tsv lists the tests that skip
themselves, the devices where they do, and the reason.  A test fails if it skips without being in
skips.tsv, or runs although it is there.  So tests/conformance/results.md, which is made from these tables,
is what was found.  conftest.py prints the result, one line for each class.  The columns first and
last of both tables are the releases of rdma-core in whose suites a row holds.

conformance/runner.py runs the tests of one way, each in a process of its own and twice there; a
test that leaves something behind fails.

The suite reads a device's address from the kernel, which has no RDMA device here, so the runner
gets a /sys/class that names one with its P_Key, and a program `rdma`, which suites from release 56
on ask first.  An adapter gets an interface's address from its fabric's settings file, in the place
of IP over InfiniBand.
"""

import ast
import json
import os
import pathlib
import re
import subprocess
from typing import NamedTuple

import pytest

from conformance import page

HERE = pathlib.Path(__file__).parent
RUNNER = HERE / "runner.py"
CLASS = """
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/net
mkdir -p /sys/class/infiniband/{0}/device/net/{1} /sys/class/infiniband/{0}/ports/1/pkeys
echo 0xffff >/sys/class/infiniband/{0}/ports/1/pkeys/0
ln -s /sys/devices/virtual/net/lo /sys/devices/virtual/net/eth0 /sys/class/net
exec "$@"
"""
RDMA = """#!/bin/sh
echo '[{{"ifname": "{}", "port": 1, "netdev": "{}"}}]'
"""
TIMES = "2"
MANY = 3600     # seconds for all tests of a way; the runner also limits each test


class Way(NamedTuple):
    transport: str
    device: str
    net: str
    env: dict = {}
    within: tuple = ()      # `urnic` arguments that start the runner


# roce-lo is for rdma_cm alone: an id that is bound to 127.0.0.1 must have a device, which it has
# if roce_lo is the only one.  ib goes without the library that shows urnic's own /sys, where an
# InfiniBand device has no network interface.
WAYS = {
    "roce": Way("roce", "roce_eth0", "eth0"),
    "roce-udp": Way("roce", "roce_eth0", "eth0", {"URNIC_LOCAL": "off"}),
    "roce-lo": Way("roce", "roce_lo", "lo"),
    "iwarp": Way("iwarp", "iwarp_eth0", "eth0"),
    "ib": Way("ib", "ib_node1", "eth0", within=("fabric", "exec", "-s", "{settings}", "star:2", "--",
                                                "env", "LD_PRELOAD={lib}/liburnic-map.so",
                                                "URNIC_HCA=node1")),
}
LO = "test_rdmacm."
# These skip themselves unless they are root's.
ROOTS = "raw packet", "flow steering and RSS"


def installed():
    """The release of rdma-core whose suite is installed: the newest of those that the tables have
    which is not newer."""
    told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "rdma-core"], text=True,
                          capture_output=True, check=False).stdout
    number = re.match(r"\d+", told)
    return max((r for r in page.RELEASES if number and r <= int(number[0])), default=page.RELEASES[0])


RELEASE = installed()
KIND = {row["test"]: row["class"] for row in page.table("pyverbs.tsv", RELEASE)}
SKIPS = {transport: {row["test"] for row in page.table("skips.tsv", RELEASE)
                     if row["device"] in (transport, "any")}
         for transport in ("roce", "iwarp", "ib")}


def all_of(way):
    return [t for t in KIND if way != "roce-lo" or t.startswith(LO)]


def running(way):
    return [t for t in all_of(way) if t not in SKIPS[WAYS[way].transport]]


def skipping(way):
    return [t for t in all_of(way) if t in SKIPS[WAYS[way].transport]]


def here(way):
    """The mark that lets different workers of pytest run different ways at the same time."""
    return pytest.mark.xdist_group(f"conformance-{way}")


def batch(ns, suite, runner, way, tests, user):
    """Run the tests of a way by the runner; return {test: row}."""
    how = WAYS[way]
    ns = ns.with_(outer=["unshare", "-m", "--propagation", "private", "sh", "-ec",
                         CLASS.format(how.device, how.net), "sh"])
    settings = ns.stage.path / "conformance.conf"
    settings.write_text(f"[node1]\naddress = {ns.ip4}\n")
    within = [ns.stage.urnic, *(w.format(settings=settings, lib=ns.stage.lib) for w in how.within)] \
        if how.within else []
    env = {} if how.within else {"URNIC_DEVICES": how.device}
    programs = ns.stage.path / f"conformance-{way}"
    programs.mkdir(exist_ok=True)
    (programs / "rdma").write_text(RDMA.format(how.device, how.net))
    for path in (programs, programs / "rdma"):
        path.chmod(0o755)
    env["PATH"] = f"{programs}:{os.environ['PATH']}"
    proc = ns.run(*within, "/usr/bin/python3", "-B", runner, suite, TIMES, "--dev", how.device,
                  *(["--nobody"] if user else []), "--", *tests, check=False, user=user, env={**env, **how.env}, timeout=MANY)
    rows = [json.loads(line) for line in proc.out.splitlines() if line.startswith("{")]
    assert len(rows) == len(tests), proc.describe()
    return {row["test"]: row for row in rows}


@pytest.fixture(scope="session")
def result(request, pairs, suite, huge_pages):
    """result(way, test): the row of that test.  The first call for a way runs all tests of that
    way that this run of pytest selected."""
    rows = {}
    runner = suite.parent.parent / RUNNER.name
    runner.write_bytes(RUNNER.read_bytes())

    def wanted(way):
        for item in request.session.items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            if item.module.__name__ == __name__ and params.get("way") == way:
                yield from [params["test"]] if "test" in params else skipping(way)

    def get(way, test):
        if way not in rows:
            tests = list(wanted(way))
            roots = [t for t in tests if KIND[t] in ROOTS and not WAYS[way].within]
            rows[way] = {}
            for some, user in (([t for t in tests if t not in roots], "nobody"),
                               (roots, None)):
                if some:
                    rows[way].update(batch(pairs(1500).a, suite.parent, runner, way, some, user))
        return rows[way][test]
    return get


def test_the_tables_agree():
    assert {row["test"] for row in page.table("skips.tsv")} <= \
        {row["test"] for row in page.table("pyverbs.tsv")}


def test_the_table_has_every_test(suite):
    """... of the suite that is installed, and no other."""
    found = {f"{path.stem}.{case.name}.{test.name}" for path in suite.parent.glob("test_*.py")
             for case in ast.parse(path.read_text()).body if isinstance(case, ast.ClassDef)
             for test in case.body
             if isinstance(test, ast.FunctionDef) and test.name.startswith("test")}
    assert found == set(KIND)


def test_the_page_is_of_the_tables():
    """tests/conformance/results.md is what `tests/conformance/page.py` prints."""
    assert (HERE.parent.parent / "tests/conformance/results.md").read_text() == page.page()


@pytest.mark.parametrize("way, test", [pytest.param(w, t, marks=here(w))
                                       for w in WAYS for t in running(w)])
def test_passes(result, conformance, way, test):
    conformance.count(way, KIND[test], "failed")
    row = result(way, test)
    assert row["result"] == "passed", f"{row['result']}: {row['why']}\n{row['out']}"
    conformance.count(way, KIND[test], "failed", -1)
    conformance.count(way, KIND[test], "passed")


@pytest.mark.parametrize("way", [pytest.param(w, marks=here(w)) for w in WAYS if skipping(w)])
def test_skips(result, conformance, way):
    did_not = []
    for test in skipping(way):
        row = result(way, test)
        conformance.count(way, KIND[test],
                          "skipped" if row["result"] == "skipped" else "failed")
        if row["result"] != "skipped":
            did_not.append(f"{test}: {row['result']} {row['why']}")
    assert not did_not, "\n".join(did_not)
