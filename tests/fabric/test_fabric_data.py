# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs at a fabric's adapters exchange data, as user nobody.

docs/dev/fabric.md describes the fabric.
"""

import json
import re
import signal

import pytest
from lab import HANGS, eventually, next_port
from subnet import fields, leaves, sent, tshark, wait_log
from tool import need, ucx_perftest
from traffic import both


@pytest.mark.parametrize("program", ["ud", "rc", "uc", "srq"])
@pytest.mark.parametrize("grh", [False, True])
def test_pingpong(two, program, grh):
    was = sent(two, "sw", 1), sent(two, "sw", 2)
    for proc in both(two, f"ibv_{program}_pingpong", *(["-g", "0"] if grh else [])):
        assert "usec/iter" in proc.out and "invalid data" not in proc.out, proc.describe()
    # all packets have crossed the switch
    assert sent(two, "sw", 1) - was[0] >= 1000 and sent(two, "sw", 2) - was[1] >= 1000


@pytest.mark.parametrize("program", ["write_bw", "write_lat", "read_bw", "read_lat",
                                     "send_bw", "send_lat", "atomic_bw", "atomic_lat"])
def test_perftest(two, program):
    was = sent(two, "sw", 1), sent(two, "sw", 2)
    both(two, f"ib_{program}", "-n", "200")
    assert sent(two, "sw", 1) > was[0] and sent(two, "sw", 2) > was[1]


@pytest.mark.parametrize("kind", ["UC", "UD"])
def test_perftest_unreliable(two, kind):
    """No packet is lost, even if the receiver is slow."""
    both(two, "ib_send_bw", "-c", kind, "-n", "2000", *(["-s", "2048"] if kind == "UD" else []))


def test_processes_of_one_adapter(two):
    """Two processes at one adapter reach each other through the adapter, whose link carries
    nothing."""
    was = sent(two, "H-a")
    both(two, "ibv_rc_pingpong", client="a")
    assert sent(two, "H-a") == was


def test_across_two_levels(fabric):
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    both(f, "ib_write_bw", "-n", "100", server="n0", client="n3")
    spines = [sent(f, f"S-spine{s}", p) for s in (0, 1) for p in (1, 2)]
    assert max(spines) > 1000, spines


def test_multicast(two):
    """perftest joins its multicast group by MADs of its own to OpenSM's SA."""
    was = sent(two, "sw", 1), sent(two, "sw", 2)
    both(two, "ib_send_lat", "-c", "UD", "-g", "-n", "200")
    assert sent(two, "sw", 1) - was[0] >= 200 and sent(two, "sw", 2) - was[1] >= 200
    out = json.loads(two.ns.run(two.ns.stage.urnic, "fabric", "counters", "--json", "b").out)
    assert out["ports"][0]["counters"]["multicast_rcv_packets"] >= 200


def ucx(f, tls, **env):
    need("ucx_perftest")
    port = next_port()
    words = [*ucx_perftest(), "-p", str(port), "-t", "tag_lat", "-n", "300", "-s", "3000"]
    env = {"UCX_TLS": tls, "UCX_WARN_UNUSED_ENV_VARS": "n", **env}
    urnic = [f.ns.stage.urnic, "run", "--"]

    def start(hca, *more):
        return f.at(hca).start(*urnic, *words, *more, library=False,
                               env={**env, "UCX_NET_DEVICES": f"ib_{hca}:1"})
    was = sent(f, "sw")
    server = start("a")
    server.wait_listening(port)
    client = start("b", "127.0.0.1")
    assert client.wait(60) == 0 and server.wait(HANGS) == 0, (
        f"client: {client.describe()}\nserver: {server.describe()}")
    assert sent(f, "sw") - was >= 300


@pytest.mark.parametrize("tls", ["rc_v", "ud_v"])
def test_ucx(two, tls):
    ucx(two, tls)


@pytest.mark.parametrize("tls", ["rc_v", "ud_v"])
def test_path_bits(fabric, tls):
    """A port with four LIDs receives at each of them, and sends from each that a path's bits
    name."""
    need("tshark")
    f = fabric()
    f.opensm("a", "-l", "2")
    lid = int(re.search(r"port_lid:\s+(\d+)", f.run("b", "ibv_devinfo"))[1])
    assert "port_lmc:\t\t0x02" in f.run("b", "ibv_devinfo")
    server = f.at("b").start("ibping", "-S")
    for n in range(4):
        assert eventually(lambda n=n: "1 received" in f.run("a", "ibping", "-c", "1", str(lid + n), check=False))
    server.kill()
    proc = f.ns.start(f.ns.stage.urnic, "fabric", "pcap", f.dir / "data", "b", "1")
    proc.wait_output("the capture has begun")
    for bits in "123":
        ucx(f, tls, UCX_IB_LID_PATH_BITS=bits)
    proc.signal(signal.SIGINT)
    assert proc.wait(HANGS) == 0, proc.describe()
    lids = tshark(f.dir / "data", "-Y", f"infiniband.lrh.slid >= {lid} and infiniband.lrh.slid < {lid + 4}"
                  " and infiniband.bth.destqp > 1", "-T", "fields", "-e", "infiniband.lrh.slid")
    assert {int(x) for x in lids.split()} == {lid + 1, lid + 2, lid + 3}


def test_partition(fabric):
    """Two limited members of a partition cannot talk to each other; each can talk to a full
    member."""
    f = fabric(leaves(1, 2, 2))
    parts = f.dir / "partitions"
    parts.write_text("Default=0x7fff: ALL=limited, SELF=full;\n")
    sm = f.opensm("n0", "-P", str(parts), "-Z", "off")
    both(f, "ibv_rc_pingpong", server="n0", client="n3")
    both(f, "ibv_rc_pingpong", server="n1", client="n0")
    port = next_port()
    server = f.at("n1").start("ib_write_bw", "-p", str(port))
    server.wait_listening(port)
    client = f.at("n3").start("ib_write_bw", "-p", str(port), "127.0.0.1")
    assert client.wait(60) not in (0, None), client.describe()
    assert "Failed status 12" in client.out, client.describe()
    wait_log(sm, "P_Key")
    out = f.run("n1", "ibv_devinfo", "-v")
    lid = re.search(r"port_lid:\s+(\d+)", out)[1]
    port = fields(f.run("n0", "smpquery", "portinfo", lid))
    assert int(port["PkeyViolations"]) > 0, port
