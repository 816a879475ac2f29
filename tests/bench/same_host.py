# SPDX-License-Identifier: BSD-2-Clause
"""Between two processes of one host: each way against what memory itself takes.

A round measures the yardstick and then everything that is compared with it.
"""

import statistics

WAYS = {"auto": "auto", "pipe": "pipe", "udp": "off"}     # URNIC_LOCAL
DEPTH = 32                  # requests that a storage host has out
BULK = 1 << 31              # bytes that a bandwidth is measured with
SIZES = {"64 KiB": 1 << 16, "256 KiB": 1 << 18, "1 MiB": 1 << 20, "8 MiB": 1 << 23}


class Goal:
    """A ratio, or an absolute figure that is good enough whatever the yardstick."""

    def __init__(self, ratio, absolute=None, unit="", less=False):
        self.ratio, self.absolute, self.unit, self.less = ratio, absolute, unit, less

    def met(self, figure, ratio):
        sign = -1 if self.less else 1
        return sign * (ratio - self.ratio) >= 0 or (
            self.absolute is not None and sign * (figure - self.absolute) >= 0)

    def __str__(self):
        text = f"{'<=' if self.less else '>='} {self.ratio}"
        return text + (f" or {self.absolute} {self.unit}" if self.absolute else "")


class SameHost:
    def __init__(self, bench):
        self.bench, self.rows = bench, []
        self.ns = {name: bench.a.with_env(URNIC_LOCAL=way)
                   for name, way in WAYS.items()}

    # --- yardsticks -----------------------------------------------------------

    def own(self, tool, *args):
        return float(self.bench.a.run(self.bench.tool(tool), *map(str, args),
                                      library=False, timeout=60).out)

    def copies(self, how, size):
        return self.own("copy_cost", how, size, BULK // size)

    def line(self):
        return self.own("line_pingpong", 2000)

    def ucx(self):
        """Millions of tagged messages of 8 bytes a second."""
        ns, port = self.bench.a, str(self.bench.next_port())
        env = {"UCX_TLS": "posix,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        words = ["ucx_perftest", "-p", port]
        server = ns.start(*words, env=env, library=False)
        server.wait_listening(int(port))
        client = ns.run(*words, "127.0.0.1", "-t", "tag_bw", "-s", "8", "-n",
                        "2000000", "-w", "10000", "-f", env=env, library=False,
                        timeout=60)
        server.wait(5)
        return float(client.out.split()[-1]) / 1e6

    def storage_by_tcp(self, size):
        """Thousands of requests a second that a storage target answers."""
        return self.own("storage", "tcp", size, DEPTH, 1) / 1e3

    # --- urnic ----------------------------------------------------------------

    def storage(self, way, size):
        ns = self.ns[way]
        return float(ns.run(self.bench.tool("storage"), "verbs", str(size), str(DEPTH),
                            "1", ns.dev, timeout=60).out) / 1e3

    def perftest(self, way, column, program, *options):
        ns = self.ns[way]
        return self.bench.figure(column, program, *map(str, options), at=(ns, ns))

    def write_bw(self, way, size):
        return self.perftest(way, 3, "ib_write_bw", "--report_gbits", "-s", size,
                             "-n", BULK // size)

    def lat(self, way, program):
        return self.perftest(way, 4, program, "-s", 8, "-n", 20000)

    def rate(self, way):
        return self.perftest(way, 4, "ib_send_bw", "-s", 8, "-n", 500000)

    # --- rows -------------------------------------------------------------------

    def compare(self, what, unit, yard_name, yard, others, goal):
        """others: {name: how to measure it}; the goal is for `auto`."""
        self.bench.say(f"{what} against {yard_name} ...")
        rounds = []
        for _ in range(self.bench.rounds):
            y = yard()
            rounds.append((y, {name: measure() for name, measure in others.items()}))
        y = statistics.median(r[0] for r in rounds)
        for name in others:
            figure = statistics.median(r[1][name] for r in rounds)
            ratio = statistics.median(r[1][name] / r[0] for r in rounds)
            told = goal if name == "auto" else None
            self.rows.append((
                f"{what}, {name}", f"{figure:.3g} {unit}",
                f"{yard_name}: {y:.3g} {unit}", f"{ratio:.2f}", str(told or ""),
                ("yes" if told.met(figure, ratio) else "NO") if told else ""))
            self.bench.say("  " + " | ".join(self.rows[-1]))

    def ways(self, measure, *args):
        return {way: lambda way=way: measure(way, *args) for way in WAYS}

    def measure(self):
        for name, size in SIZES.items():
            self.compare(
                f"ib_write_bw, {name}", "Gb/s", "memcpy",
                lambda size=size: self.copies("memcpy", size),
                {"bare process_vm_writev": lambda size=size: self.copies("vm", size),
                 **self.ways(self.write_bw, size)},
                Goal(0.4 if size == 1 << 16 else 0.5))
        self.compare("ib_write_lat, 8 bytes", "us", "a cache line, one way", self.line,
                     self.ways(self.lat, "ib_write_lat"),
                     Goal(4, 1.2, "us", less=True))
        self.compare("ib_send_lat, 8 bytes", "us", "a cache line, one way", self.line,
                     self.ways(self.lat, "ib_send_lat"), Goal(4, less=True))
        self.compare("ib_send_bw, 8 bytes", "M/s", "UCX posix, tag_bw", self.ucx,
                     self.ways(self.rate), Goal(0.5, 3, "M/s"))
        for name, size in (("4 KiB", 4096), ("16 KiB", 16384), ("128 KiB", 131072)):
            self.compare(f"WRITE {name} and SEND for each request, {DEPTH} out", "k/s",
                         "TCP", lambda size=size: self.storage_by_tcp(size),
                         self.ways(self.storage, size), Goal(1))
        self.cost()

    def cost(self):
        kib = self.bench.qp_cost(self.ns["auto"])
        self.rows.append(("memory of a connected QP (of 1,000), auto", f"{kib:.1f} KiB",
                          "", "", "<= 64", "yes" if kib <= 64 else "NO"))
