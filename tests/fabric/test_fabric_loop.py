# SPDX-License-Identifier: BSD-2-Clause
"""Credit loops: ibdmchk finds them in OpenSM's tables, and traffic stops by them.

docs/dev/fabric.md describes the fabric.
"""

import json
import re
import struct

from lab import eventually
from subnet import Fabric, made
from tool import need

# A program that sends datagrams as fast as it can, in turn to each destination that a line of its
# input names.  It posts no receive, so datagrams for it are dropped on arrival.  It writes to a
# file how many sends have completed, and how many polls since the last completion found none.
SENDS = """
import mmap, struct, sys
from pyverbs.addr import AHAttr, AH
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR
import pyverbs.enums as e
DEPTH, SIZE = 256, 4096
c = Context(name=sys.argv[1])
pd, cq = PD(c), CQ(c, DEPTH)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=DEPTH)),
        QPAttr(port_num=1))
print("ready", c.query_port(1).lid, qp.qp_num, flush=True)
to = [int(word) for word in sys.stdin.readline().split()]
with open(sys.argv[2], "r+b") as file:
    said = mmap.mmap(file.fileno(), 16)
mr = MR(pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
ahs = [AH(pd, attr=AHAttr(dlid=lid, port_num=1)) for lid in to[::2]]
wrs = []
for ah, qpn in zip(ahs, to[1::2]):
    wrs.append(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, SIZE, mr.lkey)]))
    wrs[-1].set_wr_ud(ah, qpn, 0)
out = gone = none = 0
while True:
    while out < DEPTH:
        qp.post_send(wrs[(gone + out) % len(wrs)])
        out += 1
    n = cq.poll(64)[0]
    out, gone, none = out - n, gone + n, 0 if n else none + 1
    said[:] = struct.pack("QQ", gone, none)
"""

NODES = 5
EVER = 20       # HOQLife and LifeTimeValue: 20 is without limit
SHORT = 12      # 17 ms, as a HOQLife


class Sender:
    def __init__(self, f, n):
        self.file = f.dir / f"sent.{n}"
        self.file.write_bytes(bytes(16))
        self.file.chmod(0o666)
        self.proc = f.at(f"node{n}").start("/usr/bin/python3", "-c", SENDS, f"ib_node{n}",
                                           str(self.file), stdin=-1)

    def address(self):
        self.proc.wait_output("ready")
        return re.search(r"ready (\d+ \d+)", self.proc.out)[1]

    def begin(self, to):
        self.proc.popen.stdin.write(f"{to}\n".encode())
        self.proc.popen.stdin.flush()

    def said(self):
        return struct.unpack("QQ", self.file.read_bytes())


class Ring:
    """Switches in a ring with an adapter at each; each adapter sends to all others."""
    def __init__(self, netns, life, *, updn=False):
        need("opensm")
        self.f = f = Fabric(netns, made(f"ring:{NODES}"))
        with (f.dir / "conf").open("a") as conf:
            conf.write(f"head_of_queue_lifetime {life}\nleaf_head_of_queue_lifetime {life}\n"
                       f"packet_life_time {EVER}\nvl_stall_count 0\nleaf_vl_stall_count 0\n")
        (f.dir / "root").write_text("0x200000\n")
        args = ["-R", "updn", "-a", str(f.dir / "root")] if updn else []
        self.f.opensm("node0", "-D", "0x43", "--dump_files_dir", str(f.dir), *args)

    def verdict(self):
        need("ibdmchk")
        f = self.f
        return f.ns.run("sh", "-c", f"cd {f.dir} && exec ibdmchk -s opensm-subnet.lst -f "
                        "opensm.fdbs -m opensm.mcfdbs", library=False, check=False).out

    def send(self):
        senders = [Sender(self.f, n) for n in range(NODES)]
        addresses = [s.address() for s in senders]
        for n, s in enumerate(senders):
            s.begin(" ".join(addresses[:n] + addresses[n + 1:]))
        return senders

    def status(self):
        return self.f.ns.run(self.f.ns.stage.urnic, "fabric", "status").out

    def discards(self):
        out = self.f.ns.run(self.f.ns.stage.urnic, "fabric", "counters", "--json").out
        return sum(p["counters"]["port_xmit_discards"] for p in json.loads(out)["ports"])


def goes(senders, more=20000):
    was = [s.said()[0] for s in senders]
    return eventually(lambda: all(s.said()[0] > w + more for s, w in zip(senders, was)))


def stand(status):
    """How long the first packet has waited, in s, by the port that it came in at: each switch's
    port from the one before has seven packets of 4 KiB, which is all that a VL's buffer holds."""
    return {port: float(age) for port, age in re.findall(
        r"^((?:S-)?\S+ \d+) +0 +7 +2\d{4} +(\d+\.\d\d) s$", status, re.M)}


def test_where_there_is_one_traffic_stops(netns):
    """With the shortest routes, buffers wait for each other in a circle; without a limit on
    packets' lifetimes, all traffic stops."""
    ring = Ring(netns, EVER)
    assert "credit loops in routing" in ring.verdict()
    senders = ring.send()
    out = ""

    def stops():
        nonlocal out
        out = ring.status()
        return (sum(age > 0.5 for age in stand(out).values()) >= NODES and
                len(re.findall(r" s, own$", out, re.M)) == NODES)
    assert eventually(stops), out
    # The senders' completions prove nothing: a sender gives up what its link has not taken for a
    # second.  The same packets go on waiting in the switches.
    was, out = stand(out), ring.status()
    now = stand(out)
    assert all(now.get(port, -1) >= age for port, age in was.items()), (was, out)
    assert ring.discards() == 0
    # QP1's packets wait with the VL that they share; QP0's have VL15 and go on
    lid = senders[2].address().split()[0]
    assert "Channel Adapter" in ring.f.run("node0", "smpquery", "nodeinfo", lid)
    out = ring.f.run("node0", "perfquery", "-t", "50", lid, check=False)
    assert "failed" in out, out


def test_its_lifetime_frees_it(netns):
    ring = Ring(netns, SHORT)
    assert "credit loops in routing" in ring.verdict()
    senders = ring.send()
    assert eventually(lambda: ring.discards() > 0)
    assert goes(senders, 1000), [s.said() for s in senders]


def test_where_there_is_none_it_never_stops(netns):
    ring = Ring(netns, EVER, updn=True)
    assert "no credit loops found" in ring.verdict()
    senders = ring.send()
    for _ in range(5):
        assert goes(senders), ([s.said() for s in senders], ring.status())
    assert ring.discards() == 0
