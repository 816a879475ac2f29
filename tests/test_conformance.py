# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own suite (pyverbs), as Debian ships it: all of it, one test a process, by
every way that two processes of one host have to each other.

tests/conformance/pyverbs.tsv has every test and its class; skips.tsv those that skip themselves,
on which devices, and why.  A test that skips and is not there fails, as does one that
is there and runs.  conftest.py prints what came of it, a line a class.

The suite learns a device's address from the kernel, which knows of no device here: it
is shown a /sys/class that names one.
"""

import csv
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent / "conformance"
CLASS = """
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/infiniband/{0}/device/net/{1} /sys/class/net
ln -s /sys/devices/virtual/net/lo /sys/devices/virtual/net/eth0 /sys/class/net
exec "$@"
"""
# A way's transport, interface and settings.  Loopback is for rdma_cm, which wants an id
# that is bound to 127.0.0.1 to have a device: it has if there is no other.
WAYS = {
    "roce": ("roce", "eth0", {}),
    "roce-udp": ("roce", "eth0", {"URNIC_LOCAL": "off"}),
    "roce-lo": ("roce", "lo", {}),
    "iwarp": ("iwarp", "eth0", {}),
}
LO = "test_rdmacm."
HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


def table(name):
    with open(HERE / name, encoding="ascii") as file:
        return list(csv.DictReader(file, delimiter="\t"))


KIND = {row["test"]: row["class"] for row in table("pyverbs.tsv")}
SKIPS = {transport: {row["test"] for row in table("skips.tsv")
                     if row["device"] in (transport, "any")}
         for transport in ("roce", "iwarp")}


def all_of(way):
    return [t for t in KIND if way != "roce-lo" or t.startswith(LO)]


def running(way):
    return [t for t in all_of(way) if t not in SKIPS[WAYS[way][0]]]


def skipping(way):
    return [t for t in all_of(way) if t in SKIPS[WAYS[way][0]]]


@pytest.fixture(scope="session")
def huge_pages():
    """Some of 2 MiB, which the suite asks for, as far as this machine lets them be reserved."""
    before = HUGE_PAGES.read_text()
    try:
        if int(before) < 16:
            HUGE_PAGES.write_text("16")
    except OSError:
        pass
    yield
    if HUGE_PAGES.read_text() != before:
        HUGE_PAGES.write_text(before)


@pytest.fixture
def run(shared_pair, suite, huge_pages):
    """run(way, tests): what the suite says of them."""
    def go(way, *tests):
        transport, net, env = WAYS[way]
        device = f"{transport}_{net}"
        ns = shared_pair().a.with_(outer=["unshare", "-m", "--propagation", "private", "sh",
                                          "-ec", CLASS.format(device, net), "sh"])
        return ns.run("/usr/bin/python3", "-B", suite, "--dev", device, "-v",
                      *(f"tests.{t}" for t in tests), check=False,
                      env={"URNIC_DEVICES": device, **env}, timeout=60 + len(tests)).out
    return go


def test_the_tables_agree():
    assert {row["test"] for row in table("skips.tsv")} <= set(KIND)


@pytest.mark.parametrize("way, test", [(w, t) for w in WAYS for t in running(w)])
def test_passes(run, conformance, way, test):
    conformance.count(way, KIND[test], "failed")
    out = run(way, test)
    assert re.search(r"^OK$", out, re.M), out    # "OK (skipped=1)" is not
    conformance.count(way, KIND[test], "failed", -1)
    conformance.count(way, KIND[test], "passed")


@pytest.mark.parametrize("way", [w for w in WAYS if skipping(w)])
def test_skips(run, conformance, way):
    """Those of the list in one process: nothing happens in them."""
    tests = skipping(way)
    out = run(way, *tests)
    skipped = set(re.findall(r"^\w+ \(tests\.([\w.]+)\)(?:\n.*)? \.\.\. skipped ", out, re.M))
    for test in tests:
        conformance.count(way, KIND[test], "skipped" if test in skipped else "failed")
    assert skipped == set(tests), f"did not skip: {sorted(set(tests) - skipped)}\n{out}"
