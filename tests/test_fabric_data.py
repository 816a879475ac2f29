# SPDX-License-Identifier: BSD-2-Clause
"""Unmodified programs at a fabric's adapters exchange data, as user nobody.

docs/fabric.md describes the fabric.
"""

import collections
import json
import re
import signal
import struct
import time

import pytest
from lab import HANGS, eventually, next_port, run_both
from subnet import Fabric, TWO, fields, leaves, lid_of_switch, tshark, wait_log
from tool import need


@pytest.fixture
def fabric(netns):
    need("opensm")

    def start(text=TWO, *args):
        return Fabric(netns, text, *args)
    return start


@pytest.fixture
def two(fabric):
    """Two adapters at one switch, with OpenSM at adapter a."""
    f = fabric()
    f.sm = f.opensm("a")
    return f


def both(f, *argv, server="a", client="b", **kw):
    return run_both(f.at(server), f.at(client), argv, "127.0.0.1", **kw)



def sent(f, node, port=1):
    return int(re.search(rf"^{node} {port} +(\d+)",
                         f.ns.run(f.ns.stage.urnic, "fabric", "counters").out, re.M)[1])


def link(f, how, node, port):
    f.ns.run(f.ns.stage.urnic, "fabric", "link", how, node, str(port))


def counters(f):
    """{(node, port): counters of the port}"""
    out = json.loads(f.ns.run(f.ns.stage.urnic, "fabric", "counters", "--json").out)
    return {(p["node"], p["port"]): p["counters"] for p in out["ports"]}


def load(f, server, client, *words):
    """Start a program as server and client; return (server, client) once packets cross the
    client's link."""
    port = next_port()
    words = [*words, "-p", str(port)]
    s = f.at(server).start(*words)
    s.wait_listening(port)
    was = sent(f, f"H-{client}")
    c = f.at(client).start(*words, "127.0.0.1")
    assert eventually(lambda: sent(f, f"H-{client}") > was + 100)
    return s, c


def well(*procs):
    for p in procs:
        assert p.wait(100) == 0, p.describe()


def test_devinfo(fabric):
    f = fabric()
    out = f.run("b", "ibv_devinfo", "-v")
    assert re.search(r"state:\s+PORT_INIT", out) and re.search(r"port_lid:\s+0\b", out)
    f.opensm("a")
    out = f.run("b", "ibv_devinfo", "-v")
    assert re.findall(r"hca_id:\s+(\S+)", out) == ["ib_b"]
    for line in ("state: PORT_ACTIVE (4)", "max_mtu: 4096 (5)", "active_mtu: 4096 (5)",
                 "sm_lid: 1", "port_lid: 3", "port_lmc: 0x00", "link_layer: InfiniBand",
                 "max_vl_num: 8 (4)", "pkey_tbl_len: 128", "active_width: 4X (2)",
                 "active_speed: 25.0 Gbps (32)", "phys_state: LINK_UP (5)",
                 "node_guid: 0000:0000:0010:0002", "GID[ 0]: fe80:0000:0000:0000:0000:0000:0010:0003"):
        assert line in re.sub(r"[ \t]+", " ", out), (line, out)
    # the devices of URNIC_DEVICES are listed in addition to the adapter
    out = f.at("b", URNIC_DEVICES="lo").run("ibv_devices").out
    assert re.findall(r"^\s+(\w+)\s+[0-9a-f]{16}$", out, re.M) == ["ib_b", "roce_lo"]


def test_an_adapter_of_two_ports(fabric):
    """Subnet management sees both, verbs the first, and who asks for the other is told why."""
    f = fabric("""\
Switch 4 "sw"
[1] "H-a"[1]
[2] "H-b"[1]
[3] "H-a"[2]

Ca 2 "H-a"
[1] "sw"[1]
[2] "sw"[3]

Ca 1 "H-b"
[1] "sw"[2]
""")
    f.opensm("b")
    assert f.run("a", "ibstat").count("State: Active") == 2
    assert re.search(r"phys_port_cnt:\s+1\n", f.run("a", "ibv_devinfo"))
    both(f, "ibv_rc_pingpong")
    said = f.run("a", "ibv_rc_pingpong", "-i", "2", check=False)
    assert "ib_a: port 2 is refused: its adapter has 2 ports in the fabric" in said, said
    said = f.run("a", "ibv_rc_pingpong", "-i", "3", check=False)
    assert "its adapter has 2 ports" not in said
    doctor = json.loads(f.run("a", f.ns.stage.urnic, "doctor", "--json", check=False))
    assert "verbs programs have the first of 2 ports" in \
        {c["check"]: c for c in doctor}["fabric"]["detail"]


def test_urnic_devices(fabric):
    f = fabric()
    urnic = (f.ns.stage.urnic, "devices")
    assert re.search(r"^ib_b +fabric:default +init +\d+ +0 +fe80::10:3$", f.run("b", *urnic), re.M)
    f.opensm("a")
    dev, = json.loads(f.run("b", *urnic, "--json"))
    assert (dev["name"], dev["state"], dev["transport"], dev["mtu"], dev["fabric"]) == \
        ("ib_b", "active", "InfiniBand", 4096, "default")
    assert dev["addresses"] == ["127.1.0.2"]


GIDS = """
import pyverbs.device as d
with d.Context(name="ib_b") as c:
    print([(e.gid_type, e.gid_index) for e in c.query_gid_table(64)])
"""


def test_gids_are_of_infinibands_type(two):
    assert two.run("b", "/usr/bin/python3", "-c", GIDS).split() == ["[(0,", "0)]"]


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


def test_events(two):
    watch = two.at("b").start("stdbuf", "-oL", "ibv_asyncwatch")
    watch.wait_output("async event FD")

    link(two, "down", "H-b", 1)
    watch.wait_output("IBV_EVENT_PORT_ERR")
    link(two, "up", "H-b", 1)
    watch.wait_output("IBV_EVENT_PORT_ACTIVE")
    assert watch.running()


def test_events_of_a_subnet_manager(fabric):
    f = fabric()
    watch = f.at("b").start("stdbuf", "-oL", "ibv_asyncwatch")
    watch.wait_output("async event FD")
    f.opensm("a")
    for event in ("LID_CHANGE", "SM_CHANGE", "CLIENT_REREGISTER", "PORT_ACTIVE"):
        watch.wait_output(f"IBV_EVENT_{event}")
    assert "PORT_ERR" not in watch.out


PKEYS = """
import pyverbs.device as d
with d.Context(name="ib_b") as c:
    keys = [c.query_pkey(1, i) for i in range(8)]     # as they lie: big-endian
    print([hex(k >> 8 | (k & 255) << 8) for k in keys if k])
"""


def test_events_of_partitions(fabric):
    """When OpenSM reads its partitions again, each program at the port gets an event, and
    programs at other ports get none."""
    f = fabric()
    parts = f.dir / "partitions"
    parts.write_text("Default=0x7fff: ALL=full;\n")
    sm = f.opensm("a", "-P", str(parts))
    watches = [f.at("b").start("stdbuf", "-oL", "ibv_asyncwatch") for _ in range(2)]
    for w in watches:
        w.wait_output("async event FD")
    guid = re.search(r"0x\w+", f.run("b", "ibstat", "-p"))
    other = f.at("a").start("stdbuf", "-oL", "ibv_asyncwatch")
    other.wait_output("async event FD")
    parts.write_text(f"Default=0x7fff: ALL=full;\nTwo=0x0002: {guid[0]}=full;\n")
    sm.signal(signal.SIGHUP)
    for w in watches:
        w.wait_output("IBV_EVENT_PKEY_CHANGE")
    assert eventually(lambda: "0x8002" in f.run("b", "/usr/bin/python3", "-c", PKEYS))
    parts.write_text("Default=0x7fff: ALL=full;\n")
    sm.signal(signal.SIGHUP)
    assert eventually(lambda: all(w.out.count("IBV_EVENT_PKEY_CHANGE") == 2 for w in watches))
    assert "0x8002" not in f.run("b", "/usr/bin/python3", "-c", PKEYS)
    assert "PKEY_CHANGE" not in other.out


def test_events_of_gids(fabric):
    """A subnet manager with another subnet prefix gives each port another GID."""
    f = fabric()
    sm = f.opensm("a")
    watches = [f.at("b").start("stdbuf", "-oL", "ibv_asyncwatch") for _ in range(2)]
    for w in watches:
        w.wait_output("async event FD")
    sm.signal(signal.SIGTERM)
    assert sm.wait(HANGS) is not None
    with (f.dir / "conf").open("a") as conf:
        conf.write("subnet_prefix 0xfec0000000000001\n")
    f.opensm("a")
    for w in watches:
        w.wait_output("IBV_EVENT_GID_CHANGE")
        assert w.out.count("GID_CHANGE") == 1
    assert re.search(r"GID\[\s*0\]:\s+fec0:0000:0000:0001:", f.run("b", "ibv_devinfo", "-v"))


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
    words = ["ucx_perftest", "-p", str(port), "-t", "tag_lat", "-n", "300", "-s", "3000"]
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


def test_capture_of_data(two):
    """tshark dissects what crosses the links, and the capture has each packet on both links."""
    need("tshark")
    file = two.dir / "data"
    proc = two.ns.start(two.ns.stage.urnic, "fabric", "pcap", file)
    proc.wait_output("the capture has begun")
    both(two, "ibv_rc_pingpong", "-n", "20", "-g", "0")
    both(two, "ibv_ud_pingpong", "-n", "20")
    proc.signal(signal.SIGINT)
    assert proc.wait(HANGS) == 0 and " 0 lost" in proc.out, proc.describe()
    assert tshark(file, "-Y", "_ws.malformed") == ""
    lines = tshark(file, "-Y", "infiniband.bth.destqp > 1").splitlines()
    for kind in ("RC Send First", "RC Send Middle", "RC Send Last", "RC Acknowledge",
                 "UD Send Only"):
        assert sum(kind in line for line in lines) >= 4, (kind, lines)
    # a packet has the same CRCs on both links, since its VL is VL0 on both
    icrc = tshark(file, "-Y", "infiniband.bth.destqp > 1", "-T", "fields",
                  "-e", "infiniband.invariant.crc", "-e", "infiniband.variant.crc").split("\n")
    seen = [line for line in icrc if line.strip()]
    assert len(seen) == len(lines)
    assert all(seen.count(line) % 2 == 0 for line in set(seen)), seen


def frames(file, *more):
    """Count captured data packets, each by the fields that a link does not change."""
    out = tshark(file, "-Y", "infiniband.bth.destqp > 1", "-T", "fields",
                 *(w for f in ("lrh.dlid", "lrh.slid", "bth.opcode", "bth.psn", "invariant.crc")
                   for w in ("-e", f"infiniband.{f}")), *more)
    return collections.Counter(line for line in out.splitlines() if line.strip())


def test_a_programs_own_capture(two):
    """A program's own capture (URNIC_PCAP) has the packets that cross its adapter's cable."""
    need("tshark")
    cable = two.dir / "cable"
    proc = two.ns.start(two.ns.stage.urnic, "fabric", "pcap", cable, "b")
    proc.wait_output("the capture has begun")
    run_both(two.at("a", URNIC_PCAP=two.dir / "own.a"),
             two.at("b", URNIC_PCAP=two.dir / "own.b"),
             ["ibv_rc_pingpong", "-n", "20", "-g", "0"], "127.0.0.1")
    proc.signal(signal.SIGINT)
    assert proc.wait(HANGS) == 0 and " 0 lost" in proc.out, proc.describe()
    all_of_it = frames(cable)
    assert len(all_of_it) > 100
    for own in ("own.a", "own.b"):
        assert tshark(two.dir / own, "-Y", "_ws.malformed") == ""
        seen = frames(two.dir / own)
        # a retransmission, with another bit in its BTH, may cross the cable after the program has
        # ended
        assert not seen - all_of_it
        assert {line.rsplit("\t", 1)[0] for line in all_of_it - seen} <= \
            {line.rsplit("\t", 1)[0] for line in seen}


@pytest.mark.parametrize("fault", ["drop=0.02", "corrupt=0.02", "nth=5,nth=6,rx:nth=40"])
def test_faults_at_an_adapter(two, fault):
    """RC retransmits packets that a faulty cable loses; the other end of the cable counts the
    corrupt ones."""
    was = counters(two)["sw", 2]["port_rcv_errors"]
    # perftest keeps both QPs until both ends are done
    _, client = run_both(two.at("a"), two.at("b", URNIC_FAULT=f"{fault},seed=3", URNIC_LOG="debug"),
                         ["ib_write_bw", "-n", "300", "-s", "9000", "-b"], "127.0.0.1")
    kind = "corrupted" if "corrupt" in fault else "dropped"
    told = re.findall(rf"fault: (tx|rx) datagram \d+ {kind}", client.out)
    assert told.count("tx") >= 2 and told.count("rx") >= 1, client.describe()
    seen = counters(two)["sw", 2]["port_rcv_errors"] - was
    assert seen == (told.count("tx") if kind == "corrupted" else 0)
    own = counters(two)["H-b", 1]
    assert own["port_xmit_packets"] == own["unicast_xmit_packets"] + own["multicast_xmit_packets"]
    dropped = re.findall(r"debug: datagram of \d+ bytes dropped: rx_(?:icrc|malformed)$",
                         client.out, re.M)
    assert len(dropped) == (told.count("rx") if kind == "corrupted" else 0)


def test_a_long_cable(two):
    """The delay of a long cable shows in the round trip, and nothing that it delays is lost at
    the end."""
    _, client = run_both(two.at("a"), two.at("b", URNIC_FAULT="rx:delay=6ms"),
                         ["ibv_rc_pingpong", "-n", "30", "-s", "20000"], "127.0.0.1")
    us = float(re.search(r"= ([\d.]+) usec/iter", client.out)[1])
    assert us >= 6000, client.describe()


@pytest.mark.parametrize("fault", ["dup=0.1", "reorder=0.1", "rx:delay=1ms:0.5"])
def test_faults_that_no_cable_has(two, fault):
    said = two.at("b", URNIC_FAULT=fault).run("ibv_devinfo", check=False)
    assert "whose links keep order and double nothing" in said.out
    assert said.popen.returncode
    said = two.ns.run(two.ns.stage.urnic, "run", "--hca", "b", "--fault", fault, "--",
                      "echo", "started", check=False)
    assert said.popen.returncode == 2 and "started" not in said.out
    assert "keep order" in said.out


def test_a_cable_is_pulled_under_load(two):
    """RC retransmits what was lost, once OpenSM has made the port active again."""
    port = next_port()
    words = ["ib_write_bw", "-p", str(port), "-n", "5000", "-u", "19"]
    server = two.at("a").start(*words)
    server.wait_listening(port)
    client = two.at("b").start(*words, "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    link(two, "down", "H-b", 1)
    link(two, "up", "H-b", 1)
    assert client.wait(100) == 0 and server.wait(HANGS) == 0, (
        f"client: {client.describe()}\nserver: {server.describe()}")


def test_a_link_goes_down_under_load(fabric):
    """OpenSM hears of the link by a trap and finds another route, and RC retransmits what was
    lost."""
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    procs = load(f, "n1", "n3", "ib_write_bw", "-n", "8000", "-u", "19")
    was = {s: sent(f, "S-leaf1", s) for s in (1, 2)}
    assert eventually(lambda: any(sent(f, "S-leaf1", s) > was[s] + 100 for s in was))
    used = max(was, key=lambda s: sent(f, "S-leaf1", s) - was[s])
    link(f, "down", "S-leaf1", used)
    well(*reversed(procs))
    assert sent(f, "S-leaf1", 3 - used) > was[3 - used] + 100


def test_the_standby_takes_over_under_load(fabric):
    f = fabric(leaves(1, 2, 2))
    (f.dir / "conf").write_text("force_log_flush TRUE\nsminfo_polling_timeout 200\n"
                                "polling_retry_number 2\n")
    first = f.opensm("n0")
    second = f.opensm("n2", wait="Entering STANDBY state")
    server, client = load(f, "n1", "n3", "ib_write_bw", "-D", "6")
    first.kill()
    wait_log(second, "SUBNET UP")
    assert client.running()
    was = sent(f, "H-n3")
    assert eventually(lambda: sent(f, "H-n3") > was + 100)
    well(client, server)


def test_conservation(fabric):
    """Stopped programs and pulled cables included, one end of a link has sent what the other end
    has received."""
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    procs = [load(f, "n1", "n3", "ib_write_bw", "-n", "2000", "-u", "19"),
             load(f, "n2", "n0", "ib_write_bw", "-c", "UC", "-D", "4")]
    procs[1][0].signal(signal.SIGSTOP)
    link(f, "down", "S-leaf1", 1)
    link(f, "up", "S-leaf1", 1)
    procs[1][0].signal(signal.SIGCONT)
    well(*(p for pair in procs for p in reversed(pair)))
    out = f.ns.run(f.ns.stage.urnic, "fabric", "status", "--json").out
    ends = [((n["id"], p["port"]), (p["peer"], p["peer_port"]))
            for n in json.loads(out)["nodes"] for p in n["ports"] if "peer" in p]
    assert len(ends) == 16
    count = counters(f)
    for one, other in ends:
        for kind in ("packets", "data"):
            assert count[one][f"port_xmit_{kind}"] == count[other][f"port_rcv_{kind}"], (one, other)
    assert sum(count[one]["port_xmit_packets"] for one, _ in ends) > 10000


def test_a_receiver_stops(two):
    """When the receiving program stops, its adapter's buffers fill, the switch waits for credits,
    and the adapter drops packets."""
    lid = lid_of_switch(two)

    def waits(port, option, name):
        return int(fields(two.run("b", "perfquery", option, lid, port))[name])
    port = next_port()
    words = ["ib_write_bw", "-c", "UC", "-p", str(port), "-n", "10000"]
    server = two.at("a").start(*words)
    server.wait_listening(port)
    client = two.at("b").start(*words, "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    server.signal(signal.SIGSTOP)
    counters = ("urnic", "fabric", "counters", "--json", "a", "1")

    def lost():
        out = json.loads(two.ns.run(two.ns.stage.urnic, *counters[1:]).out)
        return out["ports"][0]["counters"]["port_rcv_errors"]
    assert eventually(lambda: lost() > 0)
    assert waits("1", "-x", "PortXmitWait") > 1000
    assert waits("1", "--vlxmitcounters", "PortVLXmitWait0") > 1000
    assert waits("2", "-x", "PortXmitWait") == 0    # no wait towards the program that goes on
    server.signal(signal.SIGCONT)
    assert client.wait(100) == 0 and server.wait(HANGS) == 0, (
        f"client: {client.describe()}\nserver: {server.describe()}")


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


LATE = 0.25     # s; a little later packets that wait for a stopped program are dropped


def full(f, senders, receiver=None):
    """Stop the receiver, if there is one, wait until the fabric has no room for more, and return each sender's
    number of completed sends. The fabric must have slept meanwhile, and each sender must have
    polled often enough to see all completions that the fabric had given back before.

    On a busy machine that takes longer than packets wait for the receiver. They are dropped
    then, and go on being dropped until the receiver has run, so it runs for as long."""
    def stands():
        nonlocal was, runs
        assert all(s.proc.running() for s in senders)
        if receiver and (int((time.monotonic() - began) / LATE) % 2 == 1) != runs:
            runs = not runs
            receiver.signal(signal.SIGCONT if runs else signal.SIGSTOP)
            was = None
        if runs:
            return False
        slept, said = sleeps(f.proc.pid), [s.said() for s in senders]
        if was and (slept is None or slept != was[0] or
                    any(now[0] != then[0] for now, then in zip(said, was[1]))):
            was = None
        if not was:
            was = slept and (slept, said)
            return False
        return all(now[1] > then[1] + 50 for now, then in zip(said, was[1]))
    was, runs, began = None, False, time.monotonic()
    if receiver:
        receiver.signal(signal.SIGSTOP)
    assert eventually(stands, step=0.001), [s.said() for s in senders]
    return [gone for gone, _ in was[1]]


def sleeps(pid):
    """How often the process has gone to sleep, or None if it is awake."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = dict(re.findall(r"^(\w+):\s+(\S+)", file.read(), re.M))
    return int(status["voluntary_ctxt_switches"]) if status["State"] == "S" else None


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


def test_the_fabric_is_killed(two):
    port = next_port()
    server = two.at("a").start("ib_write_bw", "-p", str(port), "-D", "60")
    server.wait_listening(port)
    client = two.at("b").start("ib_write_bw", "-p", str(port), "-D", "60", "127.0.0.1")
    watch = two.at("b").start("stdbuf", "-oL", "ibv_asyncwatch")
    watch.wait_output("async event FD")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    two.proc.signal(signal.SIGKILL)
    watch.wait_output("IBV_EVENT_PORT_ERR")
    assert client.wait(60) not in (0, None), client.describe()
    assert "Failed status 12" in client.out, client.describe()   # 12 is RETRY_EXC_ERR
    assert watch.running()


def test_a_program_is_killed(two):
    """The peer finds out by its own retries, and other programs go on."""
    port = next_port()
    server = two.at("a").start("ib_write_bw", "-p", str(port), "-D", "60")
    server.wait_listening(port)
    client = two.at("b").start("ib_write_bw", "-p", str(port), "-D", "60", "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    server.signal(signal.SIGKILL)
    both(two, "ibv_rc_pingpong")
    assert client.wait(60) not in (0, None), client.describe()
    assert "Failed status 12" in client.out, client.describe()   # 12 is RETRY_EXC_ERR


def test_without_a_fabric(netns):
    proc = netns.with_env(URNIC_HCA="a").run("ibv_devices", check=False)
    assert "adapter a of fabric default: no such fabric runs here" in proc.out
    assert not re.search(r"[0-9a-f]{16}", proc.out)
