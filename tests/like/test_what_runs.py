# SPDX-License-Identifier: BSD-2-Clause
"""Programs as Debian has them, with each device of URNIC_LIKE: they run, or a line of urnic's says
what the device lacks.  docs/dev/like.md has this table."""

import re
import shlex
import shutil

import pytest

import lab
from test_like import ALSO, DEVICES
from tool import ucx_perftest

ALL = [*DEVICES, "strict"]
TWICE = [d for d in DEVICES if ALSO["V1_GIDS"][d]]  # GID 1 of others is GID 3 there
PING = "-d roce_eth0 -g {gid} -n 50 -p {port}"
PERF = "-F -d roce_eth0 -n 50 -p {port}"
FIO = "fio --ioengine=rdma --thread --port={port} --bs=4k --iodepth=4 --size=1m"
UCX = {"UCX_NET_DEVICES": "roce_eth0:1", "UCX_WARN_UNUSED_ENV_VARS": "n"}
MPI = ("mpirun --oversubscribe --mca plm_rsh_agent /bin/false --mca pml ucx --mca osc ucx "
       "--mca btl ^vader,tcp,openib -n 2 {collective}")

# What both ends begin with, and what else the server and the client are told; or one command.
PROGRAMS = {
    "ibv_rc_pingpong": (f"ibv_rc_pingpong {PING}", "", "{ip}"),
    "ibv_uc_pingpong": (f"ibv_uc_pingpong {PING}", "", "{ip}"),
    "ibv_ud_pingpong": (f"ibv_ud_pingpong {PING}", "", "{ip}"),
    "ibv_srq_pingpong": (f"ibv_srq_pingpong {PING}", "", "{ip}"),
    "ibv_xsrq_pingpong": (f"ibv_xsrq_pingpong {PING}", "", "{ip}"),
    "ib_write_bw": (f"ib_write_bw {PERF}", "", "{ip}"),
    "ib_read_lat": (f"ib_read_lat {PERF}", "", "{ip}"),
    "ib_send_lat": (f"ib_send_lat {PERF}", "", "{ip}"),
    "ib_send_lat -c UD": (f"ib_send_lat -c UD {PERF}", "", "{ip}"),
    "ib_atomic_lat": (f"ib_atomic_lat {PERF}", "", "{ip}"),
    "rping": ("rping -V -C 5 -a {ip} -p {port}", "-s", "-c"),
    "fio, rdma engine": (FIO, "--name=s --rw=read", "--name=c --rw=write --verb=write --hostname={ip}"),
    "qperf -cm1 rc_bw": ("qperf -lp {port}", "", "-cm1 -t 1 {ip} rc_bw"),
    "fi_pingpong, verbs": ("fi_pingpong -p verbs -e msg -I 10", "-B {port}", "-P {port} {ip}"),
    "ucx_perftest, ud": ("env UCX_TLS=ud,self {urnic} run -- {ucx} -p {port} -t tag_lat -n 100", "", "{ip}"),
    "ucx_perftest, rc": ("env UCX_TLS=rc,self {urnic} run -- {ucx} -p {port} -t tag_lat -n 100", "", "{ip}"),
    "Open MPI, UCX ud": ("env UCX_TLS=ud,self {urnic} run -- " + MPI,),
    "Open MPI, UCX rc": ("env UCX_TLS=rc,self {urnic} run -- " + MPI,),
}

UC, UD, SRQ, XRC, ATOMICS = (
    f"refused: {{}} has no {what} (URNIC_LIKE)"
    for what in ("UC queue pairs", "UD queue pairs", "shared receive queues", "XRC", "atomics"))
DEPTH = "create_qp refused: max_recv_wr is 4096, and the limit is 4063; {} has max_qp_wr 4063"
# Program: the line, and the devices that a program does not run with, each with the one whose it is
# where several are named.
FIRST_SRQ = {"irdma": "irdma", "ionic": "ionic", "strict": "irdma"}
NO_UD = {"siw": "siw", "strict": "siw"}
REFUSED = {
    "ibv_uc_pingpong": [(UC, {"siw": "siw", "irdma": "irdma", "bnxt": "bnxt", "strict": "siw"})],
    "ibv_ud_pingpong": [(UD, NO_UD)],
    "ibv_srq_pingpong": [(SRQ, FIRST_SRQ)],
    "ibv_xsrq_pingpong": [(XRC, {**{d: d for d in DEVICES[1:]}, "strict": "rxe"})],
    "ib_send_lat -c UD": [(UD, NO_UD)],
    "ib_atomic_lat": [(ATOMICS, {"siw": "siw", "irdma": "irdma", "strict": "siw"})],
    "ucx_perftest, ud": [(UD, NO_UD), (DEPTH, {"irdma": "irdma"})],
    "ucx_perftest, rc": [(UD, {"siw": "siw"}), (SRQ, FIRST_SRQ)],
    "Open MPI, UCX ud": [(UD, NO_UD), (DEPTH, {"irdma": "irdma"})],
    "Open MPI, UCX rc": [(UD, {"siw": "siw"}), (SRQ, FIRST_SRQ)],
}
WORDS = {UC: "no UC", UD: "no UD", SRQ: "no SRQ", XRC: "no XRC", ATOMICS: "no atomics",
         DEPTH: "`max_qp_wr`"}


def refusal(name, like):
    """The line's words in the table and the line; None: the program runs."""
    return next(((WORDS[line], line.format(of[like])) for line, of in REFUSED.get(name, []) if like in of), None)


class Cell:
    """One program with one device: its processes in two namespaces."""

    def __init__(self, pair, name, like):
        stage = pair.a.stage
        env = {"URNIC_LIKE": like, "URNIC_LOG": "info", **UCX}
        self.ends = [n.with_(caps=("ipc_lock",)).with_env(**env) for n in pair.place("pair")]
        self.name, self.port, self.procs = name, lab.next_port(), []
        self.both, *self.others = PROGRAMS[name]
        gid = 3 if like in TWICE else pair.GIDS["v4"]
        self.known = {"port": self.port, "ip": pair.a.ip4, "gid": gid, "urnic": stage.urnic}
        if "{ucx}" in self.both:
            self.known["ucx"] = " ".join(ucx_perftest())
        if "{collective}" in self.both:
            self.known["collective"] = stage.tool("mpi/collective")

    def start(self, end, *words):
        argv = shlex.split(" ".join(words).format(**self.known))
        program = next(w for w in argv if re.fullmatch(r"ib_.*|ibv_.*|fi_.*|ucx_.*|rping|fio|qperf|mpirun", w))
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
        self.procs.append(self.ends[end].start(*argv, library="{urnic}" not in self.both))
        return self.procs[-1]

    def wait_for(self, server):
        """Until the server serves, or has ended."""
        try:
            if self.name == "rping":
                server.wait_udp(4791)
            elif self.name.startswith("fio"):
                server.wait_output("waiting for connection")
            else:
                server.wait_listening(self.port)
        except AssertionError:
            assert not server.running(), server.describe()

    def runs(self):
        if not self.others:
            return self.start(0, self.both).wait(lab.HANGS) == 0
        server = self.start(0, self.both, self.others[0])
        self.wait_for(server)
        client = self.start(1, self.both, self.others[1])
        good = client.wait(lab.HANGS) == 0
        if self.name.startswith("qperf"):
            server.kill()   # it serves for ever
            return good
        return server.wait(lab.HANGS if good else 1) == 0 and good

    def out(self):
        return "\n".join(proc.describe() for proc in self.procs)


def cells():
    """A bounded run has each program and each device, and all that is refused by one of them."""
    for i, name in enumerate(PROGRAMS):
        seen = set()
        for j, like in enumerate(ALL):
            why = refusal(name, like)
            quick = j == i % len(ALL) or (why and why[0] not in seen)
            seen.add(why and why[0])
            yield pytest.param(name, like, id=f"{name}-{like}", marks=() if quick else pytest.mark.full)


@pytest.mark.parametrize("name,like", cells())
def test_what_runs(shared_pair, name, like):
    cell, why = Cell(shared_pair(), name, like), refusal(name, like)
    ran = cell.runs()
    if not ran and "RLIMIT_MEMLOCK (ulimit -l) is" in cell.out():
        pytest.skip("CAP_IPC_LOCK of this user namespace locks no memory")
    assert ran == (why is None), cell.out()
    assert not why or why[1] in cell.out(), cell.out()


def page():
    yield "| program | " + " | ".join(ALL) + " |"
    yield "|---" * (len(ALL) + 1) + "|"
    for name in PROGRAMS:
        said = (refusal(name, like) for like in ALL)
        yield f"| {name} | " + " | ".join(why[0] if why else "runs" for why in said) + " |"


def test_the_page_has_this_table():
    table = "\n".join(page())
    assert table in (lab.ROOT / "docs/dev/like.md").read_text(), f"the table is:\n{table}"
