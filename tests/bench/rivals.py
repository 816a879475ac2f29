# SPDX-License-Identifier: BSD-2-Clause
"""Programs that nobody of urnic wrote, each against the other ways that it knows itself.

Each program runs as its users run it, with its threads and its defaults, and is told only by
which transport it is to go.
"""

import json
import re

import lab
import parse
from rows import Row
from stats import KIB, MIB, at_least, at_most, size_name

OURS = ("map", "auto")      # by `urnic run', and by LD_LIBRARY_PATH alone
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "plm_rsh_agent", "/bin/false"]
BY_UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^vader,tcp,openib"]
SECONDS = 1
FIO_IDLE = 0.5      # what the client of fio's rdma engine sleeps, of its run time

ALLREDUCE = """
from mpi4py import MPI
import sys
world, n = MPI.COMM_WORLD, int(sys.argv[1])
data, total = bytearray(8), bytearray(8)
for rounds in (n // 10, n):
    world.Barrier()
    since = MPI.Wtime()
    for _ in range(rounds):
        world.Allreduce([data, MPI.DOUBLE], [total, MPI.DOUBLE])
if world.rank == 0:
    print((MPI.Wtime() - since) / n * 1e6)
"""


class Rivals:
    def __init__(self, p):
        self.p = p

    # --- MPI: `how' is a way of urnic's, or a component of Open MPI (vader: its shared memory)

    def mpi(self, how, ranks, *words, **kw):
        ours = how in OURS
        ns = self.p.host(how, pin=False)[0] if ours else self.p.a
        env = {"UCX_TLS": "rc_v,self", "UCX_WARN_UNUSED_ENV_VARS": "n"} if ours else {}
        chosen = BY_UCX if ours else ["--mca", "pml", "ob1", "--mca", "btl", f"{how},self"]
        return ns.run(*MPIRUN, *chosen, "-n", str(ranks), *words, env=env, library=ours, **kw).out

    def netpipe(self, how, size):
        """The seconds that a message of `size` bytes takes, one way."""
        file = self.p.stage.tmp / f"netpipe{lab.next_port()}"
        self.mpi(how, 2, "NPopenmpi", "-l", str(size), "-u", str(size), "-p", "0", "-o", str(file))
        return parse.netpipe(file.read_text())[size]

    def allreduce(self, how, ranks):
        """us"""
        out = self.mpi(how, ranks, "/usr/bin/python3", "-c", ALLREDUCE, str(self.p.rounds // 2))
        return parse.number(out)

    # --- fio, qperf

    def fio(self, how, verb, size, depth):
        """The GB/s of fio's rdma engine, or of its net engine for how = tcp."""
        tcp = how == "tcp"
        ns = self.p.a if tcp else self.p.host(how, pin=False)[0]
        port = lab.next_port()
        words = ["fio", f"--ioengine={'net' if tcp else 'rdma'}", "--thread", f"--port={port}",
                 f"--bs={size}", f"--iodepth={depth}", "--size=64g"]
        server = ns.start(*words, "--name=server", "--rw=read", *(["--listen"] if tcp else []),
                          library=not tcp)
        if tcp:
            server.wait_listening(port)
        else:
            server.wait_output("waiting for connection")
        client = ns.run(*words, "--name=client", "--rw=write", f"--hostname={ns.ip4}",
                        "--time_based", f"--runtime={2 * SECONDS}", "--output-format=json",
                        *([] if tcp else [f"--verb={verb}"]), library=not tcp, timeout=60)
        server.kill()
        return parse.fio(client.out, 0 if tcp else FIO_IDLE)

    def qperf(self, test, how="auto"):
        server_ns, client_ns = self.p.host(how)
        server = server_ns.start("qperf")
        server.wait_listening(19765)
        out = client_ns.run("qperf", "-t", str(SECONDS), "-cm1",
                            server_ns.ip4, test).out
        server.kill()
        return parse.qperf(out)


def ways(measure, names=OURS):
    return {way: lambda way=way: measure(way) for way in names}


def by_run(measure):
    """UCX finds its devices in /sys/class/infiniband, so `urnic run' has to start it."""
    return ways(measure, ("map",))


def ucx(p):
    def run(how, test, size, n, column):
        ours = how in OURS
        return p.ucx("rc_v" if ours else how, test, [(size, n)], column, library=ours,
                     place=p.host(how) if ours else None)[size]

    for test, size, n, column, unit, scale, goals in (
            ("tag_lat", 8, 100000, "50.0_percentile_lat", "us", 1, (at_most(1.2), None, at_most(1))),
            ("tag_lat", 64 * KIB, 10000, "50.0_percentile_lat", "us", 1, (None, None, at_most(1))),
            ("tag_bw", 8, 500_000, "overall_mr", "M/s", 1e-6, (at_least(0.7), None, at_least(1))),
            ("tag_bw", 64 * KIB, 20000, "overall_bw", "Gb/s", MIB * 8 / 1e9, (None, None, at_least(1))),
            ("tag_bw", MIB, 2000, "overall_bw", "Gb/s", MIB * 8 / 1e9, (None, None, at_least(1))),
            ("ucp_put_lat", 8, 100000, "50.0_percentile_lat", "us", 1, (at_most(1.2), None, at_most(1))),
            ("ucp_put_bw", MIB, 2000, "overall_bw", "Gb/s", MIB * 8 / 1e9, (None, None, at_least(1)))):
        def measure(how, test=test, size=size, n=n, column=column, scale=scale):
            return run(how, test, size, n, column) * scale

        ours = by_run(measure)
        for tls, goal in zip(("posix", "posix,cma", "tcp"), goals):
            yield Row(f"UCX, ucx_perftest {test}, {size_name(size)}", unit, ours, f"UCX {tls}",
                      lambda tls=tls, m=measure: m(tls), goal, less=unit == "us")


def mpi(r):
    for size in (8, 64 * KIB, MIB):
        for how, goal in (("vader", None), ("tcp", at_most(1))):
            yield Row(f"Open MPI, NetPIPE, {size_name(size)}", "us",
                      by_run(lambda way, size=size: r.netpipe(way, size) * 1e6), f"its {how}",
                      lambda how=how, size=size: r.netpipe(how, size) * 1e6, goal, less=True)
    for ranks in (2, 4):
        for how, goal in (("vader", None), ("tcp", at_most(1))):
            yield Row(f"Open MPI, Allreduce of 8 B, {ranks} ranks", "us",
                      by_run(lambda way, ranks=ranks: r.allreduce(way, ranks)), f"its {how}",
                      lambda how=how, ranks=ranks: r.allreduce(how, ranks), goal, less=True)


def libfabric(p):
    for size in (64, 64 * KIB, MIB):
        for provider, goal in (("shm", None), ("tcp", at_most(1))):
            yield Row(f"libfabric, fi_pingpong rdm, {size_name(size)}", "us",
                      ways(lambda way, size=size: p.fi_pingpong("verbs;ofi_rxm", p.host(way), True)[size]),
                      f"its {provider}",
                      lambda provider=provider, size=size: p.fi_pingpong(provider, p.bare())[size],
                      goal, less=True)


def fio(r):
    for size, depth in ((4 * KIB, 16), (64 * KIB, 16), (MIB, 4)):
        for verb in ("send", "write", "read"):
            yield Row(f"fio, {verb}, {size_name(size)}, depth {depth}", "GB/s",
                      ways(lambda way, v=verb, s=size, d=depth: r.fio(way, v, s, d)), "its net engine",
                      lambda s=size, d=depth: r.fio("tcp", "", s, d), at_least(1))


def qperf(r):
    for ours, yard, unit, goal in (("rc_lat", "tcp_lat", "us", at_most(1)),
                                   ("rc_bw", "tcp_bw", "GB/s", at_least(1)),
                                   ("rc_rdma_read_bw", "tcp_bw", "GB/s", at_least(1))):
        yield Row(f"qperf, {ours}", unit, ways(lambda way, test=ours: r.qperf(test, way)),
                  f"its {yard}", lambda test=yard: r.qperf(test), goal)


def rows(p):
    r = Rivals(p)
    return [*ucx(p), *mpi(r), *libfabric(p), *fio(r), *qperf(r)]
