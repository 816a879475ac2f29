# SPDX-License-Identifier: BSD-2-Clause
"""Latency and bandwidth by size: urnic's paths beside their limits.

A path's turn measures all sizes; the turns of the paths alternate.
"""

from dataclasses import dataclass, field
from typing import Callable

import fabric
import figures
import rows
import stats
from peers import WAYS
from stats import KIB, MIB, SIZES

MB = 125        # MB/s in a Gb/s
ROUNDS = 3      # a round over all sizes takes minutes


@dataclass
class Path:
    name: str
    measure: Callable               # measure(sizes): {size: figure, or (figure, 99th percentile)}
    limit: bool = False             # urnic is compared with this path
    values: dict = field(default_factory=dict)
    reason: str = ""


@dataclass
class Chart:
    """What a table and a plot over sizes are made of."""
    name: str                       # of the plot's file
    title: str
    unit: str
    less: bool
    paths: list

    def measure(self, runner, sizes):
        rounds = min(ROUNDS, runner.rounds)
        for n in range(rounds):
            for path in self.paths:
                runner.say(f"{self.title}, round {n + 1}/{rounds}: {path.name}")
                self._turn(path, runner, sizes)

    @staticmethod
    def _turn(path, runner, sizes):
        if path.reason:
            return
        try:
            got = path.measure(sizes)
        except Exception as e:      # a note has the reason, and the others go on
            path.reason = rows.why(e)
            runner.say(f"    {path.name}: {path.reason}")
            return
        finally:
            runner.tidy()
        for size in sizes:
            if size in got:
                value = got[size]
                path.values.setdefault(size, []).append(
                    value[0] if isinstance(value, tuple) else value)

    def figures(self):
        return figures.Chart(self.name, self.title, self.unit, [
            figures.Curve(path.name,
                          {size: stats.spread(v, self.less) for size, v in sorted(path.values.items())},
                          path.limit, path.reason) for path in self.paths])


def each(measure):
    return lambda sizes: {size: measure(size) for size in sizes}


def only(largest, measure):
    return lambda sizes: measure([s for s in sizes if s <= largest])


def count(size, budget, most):
    return max(16, min(most, budget // size))


def lat(p, place, program="ib_send_lat", options=(), **kw):
    return each(lambda size: p.lat(place, program, size, count(size, 32 * MIB, 2000), options, **kw))


def bandwidth(p, place, options=(), fast=False, **kw):
    """The bandwidth in MB/s, since small sizes are far below a Gb/s.  fast=True: the engine takes
    no part, so more messages fit into the time."""
    budget, most = (512 * MIB, 200_000) if fast else (64 * MIB, 20_000)
    return each(lambda size: MB * p.gbits(place, "ib_write_bw", size,
                                          count(size, budget, most), options, **kw))


def ucx(p, tls, test, column, budget, most, scale=1.0, place=None):
    def measure(sizes):
        got = p.ucx(tls, test, [(s, count(s, budget, most)) for s in sizes], column, place)
        return {size: value * scale for size, value in got.items()}
    return measure


def ucx_lat(p, tls, place=None):
    return ucx(p, tls, "tag_lat", "50.0_percentile_lat", 128 * MIB, 20000, place=place)


def ucx_bw(p, tls, test, place=None):
    budget, most = (128 * MIB, 50_000) if tls == "tcp" else (512 * MIB, 200_000)
    return ucx(p, tls, test, "overall_bw", budget, most, MIB / 1e6, place)


def sockets(p, protocol, place):
    return each(lambda size: p.sockets(protocol, "spin", place, size, count(size, 64 * MIB, 5000)))


UCX = {"posix": "posix", "cma": "posix,cma", "tcp": "tcp"}


def one_host(p):
    ways = {f"urnic {way}": p.host(way) for way in WAYS}
    ways["urnic auto, unpinned"] = p.host("auto", pin=False)
    direct = {name: place for name, place in ways.items() if "map" in name or "auto" in name}

    def memory():
        return Path("shared memory", each(p.memory_pingpong), True)
    yield Chart("one-host-latency", "One host: ib_send_lat", "us", True, [
        *(Path(name, lat(p, place)) for name, place in ways.items()),
        *(Path(f"UCX {name}, tag_lat", ucx_lat(p, tls), True) for name, tls in UCX.items()),
        *(Path(f"libfabric {prov}, fi_pingpong", lambda s, prov=prov: p.fi_pingpong(prov, p.bare()), True)
          for prov in ("shm", "tcp")),
        Path("TCP that spins", sockets(p, "tcp", p.bare()), True), memory()])
    yield Chart("one-host-write-latency", "One host: ib_write_lat", "us", True, [
        *(Path(name, lat(p, place, "ib_write_lat")) for name, place in direct.items()),
        Path("UCX posix, ucp_put_lat", ucx(p, "posix", "ucp_put_lat", "50.0_percentile_lat", 128 * MIB, 50000), True),
        memory()])
    yield Chart("one-host-bandwidth", "One host: ib_write_bw", "MB/s", False, [
        *(Path(name, bandwidth(p, place, fast=name == "urnic map")) for name, place in ways.items()),
        Path("UCX posix, ucp_put_bw", ucx_bw(p, "posix", "ucp_put_bw"), True),
        *(Path(f"UCX {name}, tag_bw", ucx_bw(p, UCX[name], "tag_bw"), True) for name in ("cma", "tcp")),
        Path("memcpy", each(lambda size: MB * p.memcpy(size)), True)])


def two_hosts(p):
    paths = {"RoCE v2": (p.wire(), ()), "RoCE v2, unpinned": (p.wire(pin=False), ()),
             "RoCE v2, raw link": (p.raw_link(), ()), "iWARP": (p.iwarp(), ("-R",))}
    line = fabric.Line(p)
    yield Chart("two-hosts-latency", "Two hosts: ib_send_lat", "us", True, [
        *(Path(name, lat(p, place, options=options)) for name, (place, options) in paths.items()),
        Path("a fabric, 1 hop", line.at(lambda place: lat(p, place, connect="127.0.0.1"))),
        Path("UCX tcp, tag_lat", ucx_lat(p, "tcp", p.wire()), True),
        Path("libfabric tcp, fi_pingpong", lambda s: p.fi_pingpong("tcp", p.wire()), True),
        Path("TCP that spins", sockets(p, "tcp", p.wire()), True),
        Path("UDP that spins", only(32 * KIB, sockets(p, "udp", p.wire())), True)])
    yield Chart("two-hosts-bandwidth", "Two hosts: ib_write_bw", "MB/s", False, [
        *(Path(name, bandwidth(p, place, options)) for name, (place, options) in paths.items()),
        Path("a fabric, 1 hop", line.at(lambda place: bandwidth(p, place, connect="127.0.0.1"))),
        Path("UCX tcp, tag_bw", ucx_bw(p, "tcp", "tag_bw", p.wire()), True),
        Path("iperf3, TCP", each(lambda size: MB * p.iperf(size=size)), True),
        Path("UDP by GSO, copy and CRC", lambda sizes: dict.fromkeys(sizes, MB * p.udp_floor(1500)), True)])
