# SPDX-License-Identifier: BSD-2-Clause
"""iWARP against bare TCP, and how fast connections come about."""

import re

ONE_WAY = "20000"
CYCLES = "1000"


class Connections:
    def __init__(self, bench, program):
        self.bench, self.program = bench, program
        self.iwarp = {crc: (self._ns(bench.b, crc), self._ns(bench.a, crc))
                      for crc in ("yes", "no")}

    @staticmethod
    def _ns(ns, crc):
        return ns.with_env(URNIC_DEVICES="iwarp_lo,iwarp_eth0", URNIC_MPA_CRC=crc)

    # --- yardsticks --------------------------------------------------------------

    def tcp(self, how):
        """Half a round trip, us."""
        a, b = self.bench.a, self.bench.b
        words = [self.bench.tool("sock_pingpong"), "tcp", how, ONE_WAY]
        echo = b.start(*words, b.ip4, a.ip4, library=False)
        end = a.run(*words, a.ip4, b.ip4, "start", library=False)
        echo.wait(5)
        return float(end.out)

    def tcp_cycles(self, server, client):
        port = self.bench.next_port()
        words = [self.bench.tool("tcp_cycles"), None, server.ip4, str(port), CYCLES]
        words[1] = "serve"
        serve = server.start(*words, library=False)
        serve.wait_listening(port)
        words[1] = "ask"
        out = client.run(*words, library=False).out
        serve.wait(5)
        return float(out)

    # --- urnic ---------------------------------------------------------------------

    def perftest(self, crc, column, program, *options):
        return self.bench.figure(column, program, "-R", *options, at=self.iwarp[crc])

    def bw(self, crc):
        return self.perftest(crc, 3, "ib_write_bw", "--report_gbits", "-s", "65536",
                             "-D", "2")

    def lat(self, program):
        return self.perftest("no", 4, program, "-s", "2", "-n", ONE_WAY)

    def cycles(self, server, client):
        port = str(self.bench.next_port())
        serve = server.start(self.program, "serve", server.ip4, port, CYCLES)
        serve.wait_output("listening")
        out = client.run(self.program, "ask", server.ip4, port, CYCLES, timeout=60).out
        serve.wait(5)
        return float(re.search(r"([0-9.]+) a second", out)[1])

    # --- rows ------------------------------------------------------------------------

    def measure(self):
        b = self.bench
        for crc, goal in (("no", 0.8), ("yes", 0.6)):
            b.against(f"iWARP ib_write_bw -R, 64 KiB, 1 QP, CRC {crc}", "Gb/s",
                      lambda crc=crc: self.bw(crc), "iperf3, one TCP stream", b.iperf,
                      goal)
        b.against("iWARP ib_write_lat -R, 2 bytes", "us", lambda: self.lat("ib_write_lat"),
                  "TCP ping-pong, helper thread", lambda: self.tcp("helper"), 1.3, "less")
        b.against("iWARP ib_send_lat -R, 2 bytes", "us", lambda: self.lat("ib_send_lat"),
                  "TCP ping-pong that spins", lambda: self.tcp("spin"), 1.3, "less")
        stands = {"two hosts": (b.b, b.a), "one host": (b.a, b.a)}
        for place, (server, client) in stands.items():
            iwarp = [self._ns(ns, "no") for ns in (server, client)]
            for kind, at in (("RoCE", (server, client)), ("iWARP", iwarp)):
                b.against(f"connect, a word each way, part: {kind}, {place}", "/s",
                          lambda at=at: self.cycles(*at), "TCP",
                          lambda s=server, c=client: self.tcp_cycles(s, c), None)
