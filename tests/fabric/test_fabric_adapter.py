# SPDX-License-Identifier: BSD-2-Clause
"""A fabric's adapter as programs see it: device, ports, GIDs and events.

docs/dev/fabric.md describes the fabric.
"""

import json
import re
import signal

from lab import HANGS, eventually
from subnet import ask
from traffic import both


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


def test_events(two):
    watch = two.at("b").start("stdbuf", "-oL", "ibv_asyncwatch")
    watch.wait_output("async event FD")

    ask(two, "link", "down", "H-b", "1")
    watch.wait_output("IBV_EVENT_PORT_ERR")
    ask(two, "link", "up", "H-b", "1")
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


def test_without_a_fabric(netns):
    proc = netns.with_env(URNIC_HCA="a").run("ibv_devices", check=False)
    assert "adapter a of fabric default: no such fabric runs here" in proc.out
    assert not re.search(r"[0-9a-f]{16}", proc.out)
