# SPDX-License-Identifier: BSD-2-Clause
"""How the benchmark runs urnic, its peers and the bare yardsticks.

A place is (server, client): the namespaces of tests/lab/lab.py in which the two ends run.
"""

import os
import pathlib
import re
import time

import lab
import parse
from stats import KIB, MIB

WAYS = ("map", "auto", "pipe", "off")       # values of URNIC_LOCAL
MTU_PAYLOAD = {1500: 1024, 9000: 4096}      # interface MTU: path MTU
SHORT, LONG = 60, 180


def processor_ns(pid):
    """The processor time of all threads of a process."""
    return sum(int(task.read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


class Programs:
    def __init__(self, stage, pair, jumbo, quick=False):
        self.stage = stage
        self.rounds = 1000 if quick else 20000      # of a ping-pong
        self.a, self.b = pair.a, pair.b
        self.pairs = {1500: (pair.b, pair.a), 9000: (jumbo.b, jumbo.a)}
        cpus = sorted(os.sched_getaffinity(0))
        self.cpus = cpus[0], cpus[1 % len(cpus)]

    def tool(self, name):
        return str(self.stage.tool(name))

    # --- places ------------------------------------------------------------------

    def pinned(self, place):
        return tuple(ns.with_(inner=["taskset", "-c", str(cpu), *ns.inner])
                     for ns, cpu in zip(place, self.cpus))

    def host(self, way="auto", pin=True):
        """Both ends on one host; "map" starts programs by `urnic run -L map`."""
        ns = self.a.with_env(URNIC_LOCAL=way)
        if way == "map":
            ns = ns.with_(inner=[str(self.stage.urnic), "run", "-L", "map", "--"])
        return self.pinned((ns, ns)) if pin else (ns, ns)

    def bare(self, pin=True):
        return self.pinned((self.a, self.a)) if pin else (self.a, self.a)

    def wire(self, mtu=1500, pin=True):
        return self.pinned(self.pairs[mtu]) if pin else self.pairs[mtu]

    def iwarp(self, crc="no", pin=True, place=None):
        place = tuple(ns.with_env(URNIC_DEVICES="iwarp_eth0", URNIC_MPA_CRC=crc)
                      for ns in place or self.pairs[1500])
        return self.pinned(place) if pin else place

    def raw_link(self):
        return self.pinned(tuple(ns.with_(caps=("net_raw",)).with_env(URNIC_LINK="raw")
                                 for ns in self.pairs[1500]))

    # --- urnic -------------------------------------------------------------------

    def perftest(self, place, program, *options, connect=None, timeout=SHORT):
        """Run a perftest program as server and client; return the client's last row.  A run that
        could not compare its clock with the processor's has no figures, so it is done again."""
        for last in (False, False, True):
            _, done = lab.run_both(*place, [program, *map(str, options)],
                                   connect or place[0].ip4, timeout=timeout)
            try:
                return parse.perftest_timed(done.out)
            except parse.Untimed:
                if last:
                    raise

    def lat(self, place, program, size=8, n=None, options=(), **kw):
        """(t_typical, 99th percentile), in us."""
        row = self.perftest(place, program, "-s", size, "-n", n or self.rounds, *options, **kw)
        return row[4], row[7]

    def gbits(self, place, program, size, n, options=(), **kw):
        return self.perftest(place, program, "--report_gbits", "-s", size, "-n", n,
                             *options, **kw)[3]

    def rate(self, place, program, n, options=(), size=8):
        """Millions of messages a second."""
        return self.perftest(place, program, "-s", size, "-n", n, *options)[4]

    def senders(self, count):
        """The sum over `count` processes that send to one receiving host with one QP each, in
        Gb/s."""
        server_ns, client_ns = self.wire(pin=False)
        words = ["ib_write_bw", "-s", "65536", "-D", "2", "--report_gbits", "-p"]
        ports = [lab.next_port() for _ in range(count)]
        servers = [server_ns.start(*words, str(port)) for port in ports]
        for server, port in zip(servers, ports):
            server.wait_listening(port)
        clients = [client_ns.start(*words, str(port), server_ns.ip4) for port in ports]
        for client in clients:
            assert client.wait(SHORT) == 0, client.describe()
        for server in servers:
            server.wait(5)
        return sum(parse.perftest_timed(client.out)[3] for client in clients)

    def qp_kib(self, ns, n=1000):
        return self.number(ns, "bench/qp_cost", ns.dev, 1, n, library=True) / 1024

    def many(self, ns, *words):
        return self.number(ns, "bench/many", *words, library=True)

    def idle(self, ns, seconds=5):
        """The share of a processor, in %, of a process that has posted receives to a QP and waits in
        accept()."""
        port = lab.next_port()
        proc = ns.start("ibv_rc_pingpong", "-d", ns.dev, "-g", "1", "-p", str(port))
        proc.wait_listening(port)
        before = processor_ns(proc.popen.pid)
        time.sleep(seconds)
        took = processor_ns(proc.popen.pid) - before
        proc.kill()
        return took / seconds / 1e7

    def cycles(self, server, client, count=1000, events="inside"):
        """rdma_cm connections a second.  The programs wait for events "inside"
        rdma_get_cm_event(), as the yardstick's wait in accept() and recv(), or in poll() before
        it."""
        if events == "inside":
            server, client = (ns.with_env(SLEEPS_INSIDE="1") for ns in (server, client))
        words = [self.tool("cm/cm_test_program"), None, server.ip4, str(lab.next_port()),
                 str(count)]
        words[1] = "serve"
        serve = server.start(*words)
        serve.wait_output("listening")
        words[1] = "ask"
        out = client.run(*words, timeout=SHORT).out
        serve.wait(5)
        found = re.search(r"([0-9.]+) a second", out)
        return parse.number(found[1] if found else out)

    def storage(self, how, way="auto", size=16 * KIB, depth=32):
        """Thousands of requests a second that a storage target answers."""
        ns = self.host(way, pin=False)[0]
        return self.number(ns, "bench/storage", how, size, depth, 1,
                           *([ns.dev] if how == "verbs" else []),
                           library=how == "verbs") / 1e3

    def instructions(self, ns, tool, words, count=512, rounds=20):
        """Instructions of one operation, by callgrind.  `rounds` is the tools' constant ROUNDS."""
        out = ns.run("valgrind", "--tool=callgrind", "--toggle-collect=measured*",
                     "--callgrind-out-file=/dev/null", self.tool(f"bench/{tool}"),
                     *words.split(), str(count), timeout=LONG).out
        found = re.search(r"Collected : (\d+)", out)
        return parse.number(found[1] if found else out) / (rounds * count)

    # --- peers ---------------------------------------------------------------------

    def ucx(self, tls, test, sizes_and_counts, column, place=None, options="", library=False):
        """One run of ucx_perftest: {size: figure}.  `library`: it finds urnic."""
        server_ns, client_ns = place or self.bare()
        port = lab.next_port()
        batch = self.stage.tmp / f"ucx{port}"
        batch.write_text("".join(f"s{size} -t {test} -s {size} -n {n} -w {max(1, n // 20)} {options}\n"
                                 for size, n in sizes_and_counts))
        env = {"UCX_TLS": f"{tls},self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        words = ["ucx_perftest", "-p", str(port), "-b", str(batch)]
        server = server_ns.start(*words, env=env, library=library)
        server.wait_listening(port)
        client = client_ns.run(*words, server_ns.ip4, "-f", "-v", env=env, library=library)
        server.wait(5)
        tests = parse.ucx(client.out)
        if not tests:
            raise parse.Unread(f"no figures: {parse.last_line(client.out)}")
        return {int(name[1:]): row[column] for name, row in tests.items()}

    def ucx_lat(self, tls, test, n=100000, size=8, **kw):
        return self.ucx(tls, test, [(size, n)], "50.0_percentile_lat", **kw)[size]

    def ucx_mean(self, test, n=200000, size=8):
        """The mean time of an operation in us, in a test that waits for no answer between
        operations."""
        return self.ucx("posix", test, [(size, n)], "overall_lat")[size]

    def ucx_gbits(self, tls, test, size, n):
        return self.ucx(tls, test, [(size, n)], "overall_bw")[size] * MIB * 8 / 1e9

    def ucx_rate(self, test, n, size=8):
        return self.ucx("posix", test, [(size, n)], "overall_mr")[size] / 1e6

    def fi_pingpong(self, provider, place, library=False):
        """{size: half a round trip in us}."""
        server_ns, client_ns = place
        port = lab.next_port()
        words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-I", "50", "-S", "all"]
        server = server_ns.start(*words, "-B", str(port), library=library)
        server.wait_listening(port)
        client = client_ns.run(*words, "-P", str(port), server_ns.ip4, library=library)
        server.wait(5)
        return parse.fi_pingpong(client.out)

    def iperf(self, place=None, size=128 * KIB):
        """The Gb/s of one TCP stream that is written `size` bytes at a time."""
        server_ns, client_ns = place or self.wire()
        port = str(lab.next_port())
        server = server_ns.start("iperf3", "-s", "-1", "-p", port, library=False)
        server.wait_listening(int(port))
        client = client_ns.run("iperf3", "-c", server_ns.ip4, "-p", port, "-t", "1", "-l",
                               str(min(size, MIB)), "-J", library=False)
        server.wait(5)
        return parse.iperf3(client.out)

    # --- bare yardsticks: programs of our own --------------------------------------------

    def number(self, ns, tool, *words, library=False):
        return parse.number(ns.run(self.tool(tool), *map(str, words), library=library,
                                   timeout=SHORT).out)

    def memcpy(self, size, how="memcpy"):
        """The Gb/s at which memory is copied."""
        times = max(20, min(MIB // 4 * KIB // max(size, 512), 20_000_000 // (1 + size // 64)))
        return self.number(self.a, "bench/copy_cost", how, size, times)

    def memory_pingpong(self, size=0):
        rounds = max(5, min(2000, 64 * MIB // max(size, 1) // 4))
        return self.number(self.a, "bench/line_pingpong", rounds, *([size] if size else []))

    def sockets(self, protocol, how, place=None, size=32, n=None):
        """Half a round trip, in us."""
        server, client = place or self.wire()
        words = [self.tool("bench/sock_pingpong"), "-s", str(size), protocol, how, str(n or self.rounds)]
        there = server.ip4 if server.name != client.name else "127.0.0.2"
        echo = server.start(*words, there, client.ip4, library=False)
        if protocol == "udp":
            echo.wait_listening(18700, tables=("udp",), state="01")      # state 01: connected
        else:
            echo.wait_listening(18700)
        end = client.run(*words, client.ip4, there, "start", library=False)
        echo.wait(5)
        return parse.number(end.out)

    def udp_floor(self, mtu):
        """The Gb/s of UDP segments with a copy and a CRC, but without a protocol."""
        server, client = self.wire(mtu)
        words = [str(MTU_PAYLOAD[mtu]), "1"]
        tool = self.tool("bench/udp_floor")
        receiver = server.start(tool, "recv", server.ip4, client.ip4, *words, library=False)
        receiver.wait_listening(18790, tables=("udp",), state="01")
        client.run(tool, "send", client.ip4, server.ip4, *words, library=False)
        assert receiver.wait(5) == 0, receiver.describe()
        return parse.number(receiver.out)

    def tcp_cycles(self, server, client, count=1000):
        words = [self.tool("bench/tcp_cycles"), None, server.ip4, str(lab.next_port()), str(count)]
        words[1] = "serve"
        serve = server.start(*words, library=False)
        serve.wait_listening(int(words[3]))
        words[1] = "ask"
        out = client.run(*words, library=False).out
        serve.wait(5)
        return parse.number(out)
