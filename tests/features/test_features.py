# SPDX-License-Identifier: BSD-2-Clause
"""tests/features: each verb that a device may lack works where the device's capabilities have it,
and returns EOPNOTSUPP where they do not; two ends then exchange data and errors by each feature."""

import pathlib
import shutil

import pytest

import lab
from subnet import Fabric, TWO
from test_pairs import LOOPBACK, together
from tool import need

PROGRAM = lab.ROOT / "build/obj/tests/features/features"
RAW = {"spread", "counters", "scattered"}  # rows of raw packet QPs
NOT_IWARP = RAW | {"flush", "every_datagram", "every_xrc_post", "places_of_datagrams",
                   "places_of_xrc"}
ROWS = {"capabilities", "claims", "device_memory", "device_memory_of_the_sender", "null_memory",
        "changed_regions", "implicit", "prefetch", "huge_pages", "relaxed_ordering",
        "imported", "domains", "built_posts", "times", "every_post",
        "sizes", "places_of_sends", "places_of_receives", "places_of_an_srq"} | NOT_IWARP

LEFT_OUT = {
    ("huge_pages", "left out: no huge page is reserved"),
    *((row, "left out: no raw packet QPs here") for row in RAW),
}


@pytest.fixture(scope="module")
def program(stage):
    return pathlib.Path(shutil.copy(PROGRAM, stage.path))


@pytest.fixture(scope="module", autouse=True)
def pages(huge_pages):
    """Some huge pages, if this machine lets them be reserved."""


def all_ran(out, rows=frozenset(ROWS), times=1):
    said = [line.split(maxsplit=1) for line in out.splitlines()
            if not line.startswith("urnic[")]
    assert {name for name, _ in said} == rows and len(said) == times * len(rows), out
    assert not {(name, what) for name, what in said if what != "ran"} - LEFT_OUT, out


@pytest.mark.parametrize("way", ["auto", "off"])
def test_one_process(host, program, way):
    all_ran(host.with_env(URNIC_LOCAL=way).run(program).out)


@pytest.mark.parametrize("gid", ["v4", pytest.param("v6", marks=pytest.mark.full)])
@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_two_processes(shared_pair, program, place, gid):
    there, here = shared_pair(1500).place(place)
    all_ran(together(there, here, lambda ns: (program, "-g", lab.Pair.GIDS[gid], "-d", ns.dev),
                     there.ip4), times=2)


@pytest.mark.parametrize("dev,rows", [("eth0", RAW), ("lo", {"spread", "scattered"})])
@pytest.mark.parametrize("link", ["udp", "raw"])
def test_raw_packets_in_one_process(shared_pair, program, link, dev, rows):
    """Frames that one context sends come back to the rules of another, once: from the kernel on
    loopback (to the sender's own rules, too, for which the row "counters" has no receives), from
    urnic elsewhere."""
    ns = shared_pair(1500).place("pair")[1].with_(caps=("net_raw",)).with_env(
        URNIC_LINK=link, URNIC_DEVICES=dev)
    out = ns.run(program, "-d", f"roce_{dev}", *rows).out
    all_ran(out, rows)
    assert "left out" not in out


def test_raw_link(shared_pair, program):
    """All rows, in a program that may make raw packet QPs."""
    there, here = (ns.with_(caps=("net_raw",)).with_env(URNIC_LINK="raw")
                   for ns in shared_pair(1500).place("pair"))
    out = together(there, here, lambda ns: (program, "-d", ns.dev), there.ip4)
    all_ran(out, times=2)
    for row in RAW:
        assert out.count(f"{row} ran") == 2, out


def test_fabric(netns, program):
    need("opensm")
    f = Fabric(netns, TWO)
    f.opensm("a")
    here, there = (f.at(name).with_(dev=f"ib_{name}") for name in "ab")
    all_ran(together(there, here, lambda ns: (program, "-g", 0, "-d", ns.dev), LOOPBACK), times=2)


def test_iwarp(host, program):
    all_ran(host.with_env(URNIC_DEVICES="iwarp_lo").run(program, "-i", LOOPBACK).out,
            ROWS - NOT_IWARP)


@pytest.mark.parametrize("place", ["pair", "host"])
def test_iwarp_two_processes(shared_pair, program, place):
    """Two processes, which rdma_cm connects; B listens at its address."""
    there, here = (ns.with_env(URNIC_DEVICES="iwarp_eth0")
                   for ns in shared_pair(1500).place(place))
    all_ran(together(there, here, lambda ns: (program, "-i", there.ip4), there.ip4),
            ROWS - NOT_IWARP, times=2)
