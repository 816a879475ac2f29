# SPDX-License-Identifier: BSD-2-Clause
"""Measurements beside the targets: iWARP with CRC, many senders, connections between one and two
hosts, and memory."""

from rows import Row
from stats import KIB, Goal, at_least


def rows(p):
    server, client = p.wire(pin=False)
    for crc in ("no", "yes"):
        yield Row(f"iWARP ib_write_bw -R, 64 KiB, 1 QP, CRC {crc}", "Gb/s",
                  {"": lambda crc=crc: p.gbits(p.iwarp(crc), "ib_write_bw", 64 * KIB, 20000, ("-R",))},
                  "iperf3, one TCP stream", p.iperf)
    yield Row("16 senders to one receiver", "Gb/s", {"": lambda: p.senders(16)},
              "one sender", lambda: p.senders(1), at_least(0.5))
    for place, ends in (("two hosts", (server, client)), ("one host", (client, client))):
        iwarp = p.iwarp(pin=False, place=ends)
        yield Row(f"connect, a word each way, part: {place}", "/s",
                  {"RoCE": lambda at=ends: p.cycles(*at),
                   "RoCE, waiting in poll()": lambda at=ends: p.cycles(*at, events="poll"),
                   "iWARP": lambda at=iwarp: p.cycles(*at)},
                  "TCP", lambda at=ends: p.tcp_cycles(*at))
    for way in ("auto", "off"):
        ns = p.host(way, pin=False)[0]
        for n in (1000, 15000):
            yield Row(f"memory of a connected QP (of {n:,})", "KiB",
                      {way: lambda ns=ns, n=n: p.qp_kib(ns, n)}, goal=Goal(64, less=True), once=True)
        yield Row("a SEND and a WRITE of 1 GiB, compared", "GB/s",
                  {way: lambda ns=ns: p.many(ns, "message", 1 << 30, ns.dev, 1)}, once=True)
    yield Row("processor time of a process that waits", "%", {"": lambda: p.idle(client)}, once=True)
    for n in (1000, 1_000_000):
        for unit in ("us", "kib"):
            yield Row(f"a memory region, the last tenth of {n:,}", "KiB" if unit == "kib" else unit,
                      {"": lambda n=n, unit=unit: p.many(client, "regions", n, unit)}, once=True)
    for n in (16, 256):
        for unit in ("us", "kib"):
            yield Row(f"a process of {n}, from fork to its message, or what it has of its own",
                      "KiB" if unit == "kib" else unit,
                      {"": lambda n=n, unit=unit: p.many(client, "processes", n, unit, client.dev, 1)}, once=True)
