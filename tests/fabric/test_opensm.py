# SPDX-License-Identifier: BSD-2-Clause
"""A fabric with Debian's OpenSM and infiniband-diags on it, unmodified.

Programs run as nobody.  docs/dev/fabric.md describes the fabric.
"""

import errno
import os
import re

import pytest
from lab import eventually
from subnet import (Fabric, ask, errors, fields, leaves, lid_of_switch, link_states, made, read,
                    wait_log)
from tool import need


def hidden(ns):
    """The namespace, with /sys empty and with nothing in /dev but null."""
    null = ns.stage.tmp / "null"
    null.touch()
    script = (f"mount --bind /dev/null {null} && mount -t tmpfs none /sys && "
              "mount -t tmpfs none /dev && : >/dev/null && "
              f"mount --bind {null} /dev/null && exec \"$@\"")
    return ns.with_(outer=["unshare", "-m", "sh", "-c", script, "sh"])


def test_opensm_without_dev_and_sys(fabric):
    f = fabric()
    ns = hidden(f.at("a"))
    out = ns.run("sh", "-c", "id -un; ls /dev /sys").out
    assert out.split() == ["nobody", "/dev:", "null", "/sys:"]
    sm = f.opensm("a", ns=ns)
    assert errors(sm.log) == []
    assert "SUBNET UP" in read(sm.log)


def test_opensm_once(fabric):
    f = fabric()
    for _ in range(3):
        f.run("b", "opensm", "-o", "-f", str(f.dir / "once"))
    assert read(f.dir / "once").count("SUBNET UP") == 3


def test_diags_see_a_managed_subnet(fabric):
    f = fabric()
    f.opensm("a")
    out = f.run("b", "ibnetdiscover")
    assert re.search(r'^Switch\t4 "S-0000000000200000"\t\t# "sw" base port 0 lid \d',
                     out, re.M)
    assert out.count("4xEDR") == 4
    # the fabric can be built from what ibnetdiscover prints
    again = "\n".join(line for line in out.splitlines() if line)
    assert again
    out = f.run("b", "ibstat")
    assert "CA 'ib_b'" in out
    assert "State: Active" in out and "Rate: 100" in out
    assert "Link layer: InfiniBand" in out
    assert f.run("b", "ibstat", "-l") == "ib_b\n"
    n = fields(f.run("b", "smpquery", "nodeinfo", "-D", "0,1,1"))
    assert n["NodeType"] == "Channel Adapter"
    assert n["Guid"] == "0x0000000000100000"
    assert n["PortGuid"] == "0x0000000000100001"
    p = fields(f.run("b", "smpquery", "portinfo", "-D", "0"))
    assert (p["LinkState"], p["PhysLinkState"]) == ("Active", "LinkUp")
    assert p["LinkWidthActive"] == "4X"
    assert p["LinkSpeedExtActive"] == "25.78125 Gbps"
    assert p["GidPrefix"] == "0xfe80000000000000"
    s = fields(f.run("b", "smpquery", "switchinfo", "-D", "0,1"))
    assert s["LinearFdbTop"] == "3"
    assert s["StateChange"] == "0"
    assert "SMINFO_MASTER" in f.run("b", "sminfo")
    assert '[2] -> ca port {0x0000000000100003}[1]' in f.run("a", "ibtracert", "1", "3")
    assert "0 bad nodes found" in f.run("b", "ibqueryerrors")
    assert "3 valid lids dumped" in f.run("b", "dump_fts")
    assert "3 valid lids dumped" in f.run("b", "ibroute", lid_of_switch(f))
    assert f.run("a", "ibhosts").count("ports 1") == 2
    assert "fe80::10:3" in f.run("b", "ibaddr")
    assert f.run("b", "smpdump", "-D", "0,1", "0x11").startswith("0101 0204")
    out = f.run("b", "iblinkinfo")
    assert "Could be" not in out
    assert fields(f.run("b", "perfquery", "-x", "3"))["PortXmitPkts"]


def test_what_ibnetdiscover_prints_can_be_run(fabric):
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    out = f.run("n0", "ibnetdiscover")
    g = Fabric(f.ns, out, "--fabric", "again")
    ns = g.at("0x100000", URNIC_FABRIC="again")

    def shape(text):
        return [re.sub(r" lid .*", "", line) for line in text.splitlines()
                if line and not line.startswith("#")]
    assert shape(ns.run("ibnetdiscover").out) == shape(out)


def test_port_disabled_and_enabled_again(fabric):
    f = fabric()
    f.opensm("a")
    lid = lid_of_switch(f)
    f.run("a", "ibportstate", lid, "2", "disable")
    assert "State: Down" in f.run("b", "ibstat")
    f.run("a", "ibportstate", lid, "2", "enable")
    # on trap 128, OpenSM sweeps the subnet again
    assert eventually(lambda: "State: Active" in f.run("b", "ibstat")), f.run("b", "ibstat")


def test_link_width_and_speed(fabric):
    """ibportstate sets the enabled width and speed of a link, which take effect with a reset."""
    f = fabric()
    f.opensm("a")
    lid = lid_of_switch(f)

    def b():
        return re.search(r"^sw 2 +H-b 1 +(.*)$", ask(f, "status"), re.M)[1]
    # OpenSM enables all speeds again, which the next reset then finds
    for settings, after in ((["width 1"], "25 Gb/s (1xEDR)"),
                            (["espeed 1"], "14 Gb/s (1xFDR)"),
                            (["espeed 30", "width 3"], "40 Gb/s (4xQDR)"),
                            (["espeed 30", "speed 1"], "10 Gb/s (4xSDR)")):
        for setting in settings:
            f.run("a", "ibportstate", lid, "2", *setting.split())
        f.run("a", "ibportstate", lid, "2", "reset")
        assert eventually(lambda: b() == f"active    {after}"), (settings, b())


def test_mkey(fabric):
    """OpenSM protects the subnet with an M_Key: a query without the key gets no answer, and
    OpenSM gets a trap."""
    f = fabric()
    (f.dir / "conf").write_text("force_log_flush TRUE\nm_key 0x1234\n"
                                "m_key_protection_level 2\nm_key_lease_period 60\n")
    sm = f.opensm("a")
    assert link_states(f)["H-b", 1] == "active"

    def port(lid, num):
        return fields(f.run("b", "smpquery", "-y", "0x1234", "portinfo", lid, num))
    lids = {"1": "1", "2": "0", "3": "1"}   # {LID: port} of a, the switch and b
    assert [port(*p)["MkeyViolations"] for p in lids.items()] == ["0", "0", "0"]
    out = f.run("b", "smpquery", "-t", "50", "portinfo", "1", "1", check=False)
    assert "port info query failed" in out
    wait_log(sm, 'Security Notice "Bad M_Key" from LID 1')
    assert port("1", "1")["MkeyLeasePeriod"] == "60"
    assert int(port("1", "1")["MkeyViolations"]) > 0
    # another OpenSM, which has the key in its configuration, takes over when it starts
    sm.kill()
    f.opensm("b")


def test_sa_queries_of_many_records(fabric):
    """RMPP: OpenSM passes 36 KB of paths in one umad_send, and 100 KB by memfd."""
    f = fabric(leaves(2, 4, 4))
    f.opensm("n0")
    out = f.run("n1", "saquery", "-p")
    assert out.count("PathRecord dump") == (16 + 6) ** 2
    assert out.count("\t\tdlid") == (16 + 6) ** 2
    assert f.run("n15", "saquery", "NR").count("NodeRecord dump") == 22
    g = Fabric(f.ns, leaves(2, 6, 6), "--fabric", "larger")
    g.ns = g.ns.with_env(URNIC_FABRIC="larger")
    g.opensm("n0")
    out = g.run("n35", "saquery", "-p")
    assert out.count("PathRecord dump") == (36 + 8) ** 2
    assert errors(g.dir / "log.n0") == []


def test_ibping_and_ibsysstat(fabric):
    f = fabric()
    f.opensm("a")
    f.at("a").start("ibping", "-S")
    f.at("a").start("ibsysstat", "-S")
    assert eventually(lambda: "1 received" in f.run("b", "ibping", "-c", "1", "1"))
    # not its ping, which says "sysstat ping succeeded" even without a server
    assert eventually(lambda: os.uname().nodename in f.run("b", "ibsysstat", "1", "host"))
    assert "3 received, 0% packet loss" in f.run("b", "ibping", "-c", "3", "-f", "1")
    assert "received, 0% packet loss" in f.run("b", "ibping", "-c", "2", "-G", "0x100001")
    # packets to an adapter's own LID come back to it
    assert "received, 0% packet loss" in f.run("a", "ibping", "-c", "2", "1")


# Ask the performance management agent of LID argv[1] with the P_Key at index argv[2]; print the
# status and the P_Key index of what comes back.
ASK = """
import ctypes, sys
lib = ctypes.CDLL("libibumad.so.3")
lib.umad_get_mad.restype = ctypes.c_void_p
fd = lib.umad_open_port(None, 1)
agent = lib.umad_register(fd, 4, 1, 0, None)
umad = ctypes.create_string_buffer(lib.umad_size() + 256)
lib.umad_set_addr(umad, int(sys.argv[1]), 1, 0, 0x80010000)
lib.umad_set_pkey(umad, int(sys.argv[2]))
mad = bytearray(256)
mad[:4] = 1, 4, 1, 1    # Get
mad[17] = 0x12          # PortCounters
mad[65] = 1
ctypes.memmove(lib.umad_get_mad(umad), bytes(mad), 256)
assert lib.umad_send(fd, agent, umad, 256, 100, 1) == 0
assert lib.umad_recv(fd, umad, ctypes.byref(ctypes.c_int(256)), 5000) >= 0
print(lib.umad_status(umad), lib.umad_get_pkey(umad))
"""


@pytest.mark.parametrize("switches", ["both", "off"])
def test_partitions(fabric, switches):
    """Packets of another partition are dropped by a switch that enforces partitions, or else by
    the port."""
    f = fabric(leaves(1, 2, 2))
    parts = f.dir / "partitions"
    parts.write_text("Default=0x7fff: SELF=full;\n"
                     "red=0x0005, defmember=full: 0x100003, 0x100005;\n"
                     "blue=0x0006, defmember=full: 0x100007;\n")
    sm = f.opensm("n0", "-P", str(parts), "-Z", switches)
    lid = dict(re.findall(r'"H-(n\d)" lid (\d+)', f.run("n0", "ibnetdiscover")))

    def ask(who, whom, index):
        return f.run(who, "/usr/bin/python3", "-c", ASK, lid[whom], str(index)).split()

    def violations(whom):
        return int(fields(f.run("n0", "smpquery", "portinfo", lid[whom]))
                   ["PkeyViolations"])

    # n1 asks n2, which is red too, and n3, which is blue
    assert ask("n1", "n2", 1) == ["0", "1"]
    assert violations("n2") == 0
    assert ask("n1", "n3", 1)[0] == str(errno.ETIMEDOUT)
    assert violations("n3") == (2 if switches == "off" else 0)
    if switches == "both":      # trap 259 describes the dropped packet
        wait_log(sm, f": data_valid 0x003f, LID1 {lid['n1']}, LID2 {lid['n3']}, PKey 0x8005,"
                 " SL 0, QP1 0x1, QP2 0x1, GID1 ::, GID2 ::")
    assert ask("n3", "n1", 1)[0] == str(errno.ETIMEDOUT)
    # in the default partition only the subnet manager's port is a full member
    assert ask("n1", "n2", 0)[0] == str(errno.ETIMEDOUT)
    assert ask("n1", "n0", 0) == ["0", "0"]
    assert ask("n0", "n1", 0) == ["0", "0"]


def test_counters(fabric):
    f = fabric()
    f.opensm("a")
    f.run("b", "perfquery", "-R", "-a", "2")
    before = fields(f.run("b", "perfquery", "-x", "2", "2"))
    f.run("b", "perfquery", "1")
    after = fields(f.run("b", "perfquery", "-x", "2", "2"))
    # the second perfquery's packets after its reading, and all packets of the third
    assert int(after["PortRcvPkts"]) > int(before["PortRcvPkts"])
    assert int(after["PortRcvData"]) - int(before["PortRcvData"]) == \
        72 * (int(after["PortRcvPkts"]) - int(before["PortRcvPkts"]))


def test_counters_in_detail(fabric):
    f = fabric()
    sm = f.opensm("a")
    lid = lid_of_switch(f)

    def switch(port, *options):
        return fields(f.run("a", "perfquery", *options, lid, port))
    for options in ([], ["-X"], ["-S"], ["-D"], ["-E"], ["-x"]):
        f.run("a", "perfquery", *options, "-R", "-a", lid)
        assert switch("2", *options), options
    f.run("b", "saquery", "-p")
    full = switch("2", "-x")
    assert full["PortXmitDiscards"] == "0"      # this attribute has the error counters, too
    assert 0 < int(full["PortXmitData"]) == int(switch("2", "-X")["XmtDataSL0"])
    assert int(full["PortRcvData"]) == int(switch("2", "-S")["RcvDataSL0"])
    assert switch("2", "-X")["XmtDataSL1"] == "0"
    # without OpenSM the tables stay, so the switch gets packets for b, and drops them
    sm.kill()
    ask(f, "link", "down", "b", "1")
    f.run("a", "perfquery", "-t", "20", "3", check=False)
    lost = int(switch("2", "-D")["PortInactiveDiscards"])
    assert 0 < lost == int(switch("2", "-x")["PortXmitDiscards"])
    f.run("a", "perfquery", "-t", "20", "77", check=False)
    lost = int(switch("1", "-E")["PortDLIDMappingErrors"])
    assert 0 < lost == int(switch("1", "-x")["PortRcvSwitchRelayErrors"])
    # nothing waits for credits here; samples stand still until a program asks for them
    assert switch("2", "--vlxmitcounters")["PortVLXmitWait0"] == "0"
    control = switch("2", "-c")
    assert (control["Tick"], control["CounterWidth"], control["SampleStatus"]) == ("0xf9", "4", "0")
    sm.log.unlink()
    f.opensm("a")
    out = f.run("a", "ibqueryerrors", "--details", check=False)
    assert f"port 1: [PortRcvSwitchRelayErrors == {lost} " in out, out
    assert re.search(r"port 2: \[LinkDownedCounter == 1 .*\[PortXmitDiscards == \d+ ", out), out


@pytest.mark.parametrize("flows", ["cv", pytest.param("cavs", marks=pytest.mark.full)])
def test_osmtest(fabric, flows):
    need("osmtest")
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    inventory = str(f.dir / "osmtest.dat")
    for flow in flows:
        out = f.run("n1", "osmtest", "-f", flow, "-i", inventory, "-l",
                    str(f.dir / f"osmtest.{flow}"), timeout=100)
        assert "OSMTEST: TEST \"" in out and "PASS" in out, (flow, out)


ENGINES = ["minhop", "updn", "dnup", "ftree", "lash", "dor", "dfsssp", "sssp", "nue"]


@pytest.mark.parametrize("engine", ENGINES)
def test_routing_engines(fabric, engine):
    f = fabric(leaves(2, 4, 2))
    sm = f.opensm("n0", "-R", engine)
    assert re.search(rf"{engine} tables configured on all switches", read(sm.log))
    out = f.run("n1", "ibtracert", "-G", "0x100001", "0x10000f")
    assert re.search(r"-> ca port {0x000000000010000f}.*n7", out), out


def test_torus_2qos(fabric):
    f = fabric(made("torus:3,3,3"))
    conf = f.dir / "torus"
    conf.write_text("torus 3 3 3\nxp_link 0x200000 0x200001\nyp_link 0x200000 0x200003\n"
                    "zp_link 0x200000 0x200009\n"
                    "x_dateline 0\ny_dateline 0\nz_dateline 0\n")
    sm = f.opensm("node0", "-R", "torus-2QoS", "--torus_config", str(conf), "-Q")
    assert "torus-2QoS tables configured on all switches" in read(sm.log)
    out = f.run("node0", "ibtracert", "-G", "0x100001", "0x100035")
    assert re.search(r"-> ca port {0x0000000000100035}.*node26", out), out


# full only: ibdiagnet waits briefly for each answer, and takes a late one for a bad link.
@pytest.mark.full
def test_ibdiagnet(fabric):
    need("ibdiagnet")
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    out = f.run("n1", "ibdiagnet", "-o", str(f.dir / "ibdiagnet"))
    stages = re.findall(r"^    (\w.*?) +(\d+) +(\d+) *$", out, re.M)
    assert len(stages) >= 6 and all(e == "0" for _, e, _ in stages), out


def test_ibdmchk(fabric):
    """ibdmchk reads the tables that OpenSM has written.  It finds the credit loop that minhop
    makes in a ring, and none where updn routes."""
    need("ibdmchk")
    f = fabric()
    for name, args, verdict in (("ring", [], "credit loops in routing"),
                                ("up", ["-R", "updn", "-a"], "no credit loops found")):
        g = Fabric(f.ns, made("ring:6,2"), "--fabric", name)
        g.ns = g.ns.with_env(URNIC_FABRIC=name)
        root = g.dir / "root"
        root.write_text("0x200000\n")
        g.opensm("node0", "-D", "0x43", "--dump_files_dir", str(g.dir), *args,
                 *([str(root)] if args else []))
        out = f.ns.run("sh", "-c", f"cd {g.dir} && exec ibdmchk -s opensm-subnet.lst -f "
                       "opensm.fdbs -m opensm.mcfdbs", library=False, check=False).out
        assert verdict in out, out


def test_the_standby_takes_over(fabric):
    f = fabric()
    conf = f.dir / "conf"
    conf.write_text("force_log_flush TRUE\nsminfo_polling_timeout 200\n"
                    "polling_retry_number 2\n")
    first = f.opensm("a")
    second = f.opensm("b", wait="Entering STANDBY state")
    first.kill()
    wait_log(second, "Entering MASTER state")
    wait_log(second, "SUBNET UP")
    assert eventually(lambda: "sm guid 0x100003" in f.run("a", "sminfo", check=False))
