# SPDX-License-Identifier: BSD-2-Clause
"""How fast urnic is, against what the sockets alone can do in the same run.

Each figure is measured ROUNDS times, alternating with its yardstick; the ratio
is the median of the rounds' ratios.  Machines are noisy: compare ratios.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import connections  # noqa: E402
import fabric  # noqa: E402
import lab  # noqa: E402
import same_host  # noqa: E402

ROUNDS = 5
OBJ = lab.ROOT / "build/obj/tests/bench"
CM = lab.ROOT / "build/obj/tests/cm/cm_test_program"


class Bench:
    def __init__(self, pair, stage, rounds):
        self.pair, self.stage, self.rounds = pair, stage, rounds
        self.a, self.b = pair.a, pair.b
        self.rows = []
        for tool in ("sock_pingpong", "tcp_cycles", "qp_cost", "copy_cost",
                     "line_pingpong"):
            shutil.copy(OBJ / tool, stage.path)
        shutil.copy(CM, stage.path)

    def tool(self, name):
        return str(self.stage.path / name)

    @staticmethod
    def say(text):
        print(text, file=sys.stderr, flush=True)

    @staticmethod
    def next_port():
        return lab.next_port()

    # --- yardsticks -------------------------------------------------------

    def iperf(self):
        server = self.b.start("iperf3", "-s", "-1", "-p", "5201", library=False)
        server.wait_listening(5201)
        client = self.a.run("iperf3", "-c", self.b.ip4, "-p", "5201", "-t", "2",
                            "-J", library=False)
        server.wait(5)
        return json.loads(client.out)["end"]["sum_received"]["bits_per_second"] / 1e9

    def raw(self, how):
        rounds = "20000"
        words = [self.tool("sock_pingpong"), "udp", how, rounds]
        echo = self.b.start(*words, self.b.ip4, self.a.ip4, library=False)
        echo.wait_listening(18700, tables=("udp",), state="01")    # connected
        end = self.a.run(*words, self.a.ip4, self.b.ip4, "start", library=False)
        echo.wait(5)
        return float(end.out)

    # --- urnic -------------------------------------------------------------

    def figure(self, column, program, *options, at=None):
        """The client's, of its last row; at: where server and client stand."""
        server, client = at or (self.b, self.a)
        _, done = lab.run_both(server, client, [program, "-F", *options],
                               server.ip4, timeout=60)
        return float(last_row(done.out)[column])

    def bw(self, program, *options):
        return self.figure(3, program, "--report_gbits", *options)

    def lat(self, program, *options):
        return self.figure(4, program, *options)        # t_typical

    def many(self, senders):
        """senders processes to one receiving host, one QP each: their sum."""
        pairs = []
        for _ in range(senders):
            port = str(lab.next_port())
            words = ["ib_write_bw", "-F", "-p", port, "-s", "65536", "-D", "4",
                     "--report_gbits"]
            server = self.b.start(*words)
            server.wait_listening(int(port))
            pairs.append((server, words))
        clients = [self.a.start(*words, self.b.ip4) for _, words in pairs]
        total = 0.0
        for client in clients:
            if client.wait(60) != 0:
                raise AssertionError(client.describe())
            total += float(last_row(client.out)[3])
        for server, _ in pairs:
            server.wait(5)
        return total

    def qp_cost(self, ns):
        return float(ns.run(self.tool("qp_cost"), ns.dev, "1", "1000",
                            timeout=120).out) / 1024

    # --- rows ----------------------------------------------------------------

    def against(self, name, unit, ours, yard_name, yard, goal, better="more"):
        self.say(f"{name} against {yard_name} ...")
        pairs = [(ours(), yard()) for _ in range(self.rounds)]
        ratio = statistics.median(o / y for o, y in pairs)
        o = statistics.median(p[0] for p in pairs)
        y = statistics.median(p[1] for p in pairs)
        row = (name, f"{o:.2f} {unit}", f"{yard_name}: {y:.2f} {unit}", f"{ratio:.2f}")
        if goal is None:
            self.rows.append((*row, "", ""))
        else:
            good = ratio >= goal if better == "more" else ratio <= goal
            self.rows.append((*row, f"{'>=' if better == 'more' else '<='} {goal}",
                              "yes" if good else "NO"))
        self.show()

    def alone(self, name, unit, value, limit=None):
        goal = ("", "") if limit is None else (f"<= {limit}", "yes" if value <= limit else "NO")
        self.rows.append((name, f"{value:.{1 if value >= 10 else 2}f} {unit}".rstrip(), "", "", *goal))
        self.show()

    def show(self):
        self.say("  " + " | ".join(self.rows[-1]))


def last_row(out):
    rows = [line.split() for line in out.splitlines() if re.match(r"\s*\d+\s+\d", line)]
    assert rows, out
    return rows[-1]


def table(rows):
    head = ("what", "urnic", "yardstick", "ratio", "goal", "met")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def measure(bench):
    bench.against("ib_write_bw, 64 KiB, 1 QP, MTU 1500, ICRC on", "Gb/s",
                  lambda: bench.bw("ib_write_bw", "-s", "65536", "-D", "2"),
                  "iperf3, one TCP stream", bench.iperf, 0.6)
    bench.against("ib_send_lat, 2 bytes", "us",
                  lambda: bench.lat("ib_send_lat", "-s", "2", "-n", "20000"),
                  "UDP ping-pong that spins", lambda: bench.raw("spin"), 1.5, "less")
    bench.against("ib_write_lat, 2 bytes", "us",
                  lambda: bench.lat("ib_write_lat", "-s", "2", "-n", "20000"),
                  "UDP ping-pong, helper thread", lambda: bench.raw("helper"), 1.2, "less")
    bench.against("16 senders to one receiver", "Gb/s", lambda: bench.many(16),
                  "one sender", lambda: bench.many(1), 0.5)
    bench.alone("memory of a connected QP (of 1,000)", "KiB",
                bench.qp_cost(bench.a.with_env(URNIC_LOCAL="off")), 64)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, no file")
    parser.add_argument("--only", choices=["wire", "host", "connections", "fabric"],
                        help="one part of it, no file")
    args = parser.parse_args()
    stage = lab.Stage()
    pair = lab.Pair(stage, 1500)
    try:
        bench = Bench(pair, stage, 1 if args.quick else ROUNDS)
        host = same_host.SameHost(bench)
        if args.only in (None, "wire"):
            measure(bench)
        wire, bench.rows = bench.rows, []
        if args.only in (None, "connections"):
            connections.Connections(bench, bench.tool("cm_test_program")).measure()
        if args.only in (None, "host"):
            host.measure()
        connected, bench.rows = bench.rows, []
        if args.only in (None, "fabric"):
            fabric.FabricBench(bench).measure()
    finally:
        pair.remove()
        stage.remove()
    tables = [wire, connected, host.rows, bench.rows]
    print(*(table(rows) for rows in tables if rows), sep="\n\n")
    if not args.quick and not args.only:
        write(*map(table, tables))


def write(wire, connected, host, subnet):
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    (lab.ROOT / "docs/performance.md").write_text(
        "# Performance\n\n"
        "Written by `make bench`. Each figure is the median of "
        f"{ROUNDS} rounds, alternating with its yardstick in the same run.\n"
        "Only the ratios mean something.\n\n"
        "## Two hosts\n\nTwo network namespaces and a veth pair.\n\n"
        f"{wire}\n\n"
        "## Connections\n\n"
        "iWARP between the same two, and how many connections a second are made, used once and ended, one after\n"
        "the other, with a QP, CQs and memory of their own; TCP's are bare sockets.\n\n"
        f"{connected}\n\n"
        "## One host\n\n"
        "Two processes, by each way that there is (URNIC_LOCAL is auto, pipe, off); the goals are for auto.\n"
        "memcpy is within one process, with buffers of that size; the cache line goes between two that spin.\n\n"
        f"{host}\n\n"
        "## A fabric\n\n"
        "Adapters of `urnic fabric run`. From DISCOVERING to SUBNET UP, of the same OpenSM; ib_write_bw and ib_send_lat\n"
        "from one end of a line of switches to the other, against the same between two processes of one host by the\n"
        "pipe; and what the fabric's thread takes for what it carries.\n\n"
        f"{subnet}\n\n"
        f"Measured {datetime.date.today()} on {os.cpu_count()} cores of {cpu[1] if cpu else platform.machine()}, "
        f"Linux {platform.release()}.\n")


if __name__ == "__main__":
    main()
