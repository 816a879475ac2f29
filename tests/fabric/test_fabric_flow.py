# SPDX-License-Identifier: BSD-2-Clause
"""Flow control and VL arbitration between programs at a fabric's adapters.

docs/dev/fabric.md describes the fabric.
"""

import json
import re
import signal
import struct

from lab import HANGS, eventually, next_port
from subnet import TWO, ask, fields, lid_of_switch, sent
from traffic import full


def test_a_receiver_stops(two):
    """When the receiving program stops, its adapter's buffers fill, the switch waits for credits,
    and the adapter drops packets."""
    lid = lid_of_switch(two)

    def waits(port, option, name):
        return int(fields(two.run("b", "perfquery", option, lid, port))[name])
    port = next_port()
    words = ["ib_write_bw", "-c", "UC", "-p", str(port), "-n", "60000"]
    server = two.at("a").start(*words)
    server.wait_listening(port)
    client = two.at("b").start(*words, "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    server.signal(signal.SIGSTOP)

    def lost():
        out = json.loads(ask(two, "counters", "--json", "a", "1"))
        return out["ports"][0]["counters"]["port_rcv_errors"]
    assert eventually(lambda: lost() > 0)
    assert waits("1", "-x", "PortXmitWait") > 1000
    assert waits("1", "--vlxmitcounters", "PortVLXmitWait0") > 1000
    assert waits("2", "-x", "PortXmitWait") == 0    # no wait towards the program that goes on
    server.signal(signal.SIGCONT)
    assert client.wait(100) == 0 and server.wait(HANGS) == 0, (
        f"client: {client.describe()}\nserver: {server.describe()}")


def test_the_fabric_takes_nothing(two):
    """When the fabric's process is stopped, its adapters' buffers fill, so that packets cannot
    even be sent again.  RC requests fail all the same, a second later."""
    port = next_port()
    words = ["ib_write_bw", "-p", str(port), "-q", "64", "-t", "16", "-D", "100"]
    server = two.at("a").start(*words)
    server.wait_listening(port)
    client = two.at("b").start(*words, "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    two.proc.signal(signal.SIGSTOP)
    assert client.wait(HANGS) != 0, client.describe()
    assert re.search(r"status 12: .* syndrom 0x11\b", client.out), client.describe()
    two.proc.signal(signal.SIGCONT)
    server.kill()


# A program with a UD QP.  Without further arguments it receives: it posts no receive, so each
# datagram is dropped on arrival.  With them it sends on a service level as fast as it can, and
# writes to a file how many sends have completed, and how many polls since the last completion
# found none.
UD = """
import mmap, struct, sys, time
from pyverbs.addr import AHAttr, AH
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR
import pyverbs.enums as e
name, *to = sys.argv[1:]
c = Context(name=name)
pd, cq = PD(c), CQ(c, 256)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=128)),
        QPAttr(port_num=1))
print("ready", c.query_port(1).lid, qp.qp_num, flush=True)
if not to:
    time.sleep(600)
lid, qpn, sl = map(int, to[:3])
with open(to[3], "r+b") as file:
    said = mmap.mmap(file.fileno(), 16)
mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
ah = AH(pd, attr=AHAttr(dlid=lid, sl=sl, port_num=1))
wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, 4096, mr.lkey)])
wr.set_wr_ud(ah, qpn, 0)
out = gone = none = 0
while True:
    while out < 128:
        qp.post_send(wr)
        out += 1
    n = cq.poll(64)[0]
    out, gone, none = out - n, gone + n, 0 if n else none + 1
    said[:] = struct.pack("QQ", gone, none)
"""

QOS = """
qos TRUE
qos_max_vls 8
qos_high_limit 0
qos_vlarb_high 7:0
qos_vlarb_low 0:192,1:64
qos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7
"""

THREE = TWO.replace('[2] "H-b"[1]', '[2] "H-b"[1]\n[3] "H-c"[1]', 1) + """
Ca 1 "H-c"
[1] "sw"[3]
"""


class Sender:
    def __init__(self, f, hca, to, sl):
        self.file = f.dir / f"sent.{hca}"
        self.file.write_bytes(bytes(16))
        self.file.chmod(0o666)
        self.proc = f.at(hca).start("/usr/bin/python3", "-c", UD, f"ib_{hca}", *to, str(sl),
                                    str(self.file))

    def said(self):
        return struct.unpack("QQ", self.file.read_bytes())


def test_vl_arbitration(fabric):
    """Two programs send to a receiver that takes a few packets at a time: of these, each sender
    has the share that OpenSM's VL arbitration table gives it."""
    f = fabric(THREE)
    with (f.dir / "conf").open("a") as conf:
        conf.write(QOS)
    f.opensm("a")
    receiver = f.at("a").start("/usr/bin/python3", "-c", UD, "ib_a")
    receiver.wait_output("ready")
    to = receiver.out.split("ready ")[1].split()[:2]
    senders = [Sender(f, "b", to, 0), Sender(f, "c", to, 1)]
    total, was = [0, 0], full(f, senders, receiver)

    def take():
        """Let the receiver run for a moment.  The packets count if they were no more than one
        pool held before; if more, the receiver ran for so long that both senders sent as fast as
        they could."""
        nonlocal was
        receiver.signal(signal.SIGCONT)
        now = full(f, senders, receiver)
        went = [n - w for n, w in zip(now, was)]
        was = now
        if sum(went) < 300:
            total[:] = [t + n for t, n in zip(total, went)]
        return sum(total) > 20 * 256
    assert eventually(take, step=0), total
    assert 2.7 < total[0] / total[1] < 3.3, total
