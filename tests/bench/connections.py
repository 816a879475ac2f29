# SPDX-License-Identifier: BSD-2-Clause
"""What is of no target: iWARP with CRC, many senders, connections by all ways, memory."""

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
                  {"RoCE": lambda at=ends: p.cycles(*at), "iWARP": lambda at=iwarp: p.cycles(*at)},
                  "TCP", lambda at=ends: p.tcp_cycles(*at))
    for way in ("auto", "off"):
        yield Row("memory of a connected QP (of 1,000)", "KiB",
                  {way: lambda way=way: p.qp_kib(p.host(way, pin=False)[0])},
                  goal=Goal(64, less=True), once=True)
