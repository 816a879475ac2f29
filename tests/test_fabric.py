# SPDX-License-Identifier: BSD-2-Clause
"""A fabric with Debian's OpenSM and infiniband-diags on it, unmodified.

Programs run as nobody.  docs/fabric.md describes the fabric.
"""

import ctypes
import errno
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from lab import HANGS, eventually, next_port
from tool import URNIC, bad, need

SYSTEM = "/usr/lib/x86_64-linux-gnu/libibumad.so.3"

TWO = """\
Switch 4 "sw"
[1] "H-a"[1]
[2] "H-b"[1]

Ca 1 "H-a"
[1] "sw"[1]

Ca 1 "H-b"
[1] "sw"[2]
"""


def leaves(spines, leaves_, hosts):
    """A fat tree of two levels in ibsim's format, which names both ends of each link."""
    out = []
    for s in range(spines):
        out.append(f'Switch {leaves_} "S-spine{s}"')
        out += [f'[{i + 1}] "S-leaf{i}"[{s + 1}]' for i in range(leaves_)]
        out.append("")
    for i in range(leaves_):
        out.append(f'Switch {spines + hosts} "S-leaf{i}"')
        out += [f'[{s + 1}] "S-spine{s}"[{i + 1}]' for s in range(spines)]
        out += [f'[{spines + h + 1}] "H-n{i * hosts + h}"[1]' for h in range(hosts)]
        out.append("")
    for n in range(leaves_ * hosts):
        out += [f'Hca 1 "H-n{n}"',
                f'[1] "S-leaf{n // hosts}"[{spines + n % hosts + 1}]', ""]
    return "\n".join(out)


def made(rule):
    return subprocess.run([URNIC, "fabric", "make", rule], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


class Fabric:
    def __init__(self, ns, text, *args, run=()):
        self.ns, self.dir = ns, ns.stage.tmp / f"fabric{random.getrandbits(40):x}"
        self.dir.mkdir()
        self.dir.chmod(0o777)
        file = self.dir / "topology"
        file.write_text(text)
        # without this, OpenSM holds lines of its log back
        (self.dir / "conf").write_text("force_log_flush TRUE\n")
        self.proc = ns.start(*run, ns.stage.urnic, "fabric", "run", *args, str(file))
        self.proc.wait_output("fabric ")

    def at(self, hca, **env):
        """The namespace with an environment in which programs use the adapter `hca`."""
        return self.ns.with_env(URNIC_HCA=hca, OSM_CACHE_DIR=self.dir,
                                OSM_TMP_DIR=self.dir, **env)

    def run(self, hca, *argv, **kw):
        return self.at(hca).run(*argv, **kw).out

    def opensm(self, hca, *args, wait="SUBNET UP", ns=None):
        need("opensm")
        log = self.dir / f"log.{hca}"
        proc = (ns or self.at(hca)).start("opensm", "-F", str(self.dir / "conf"),
                                          "-f", str(log), *args)
        proc.log = log
        if wait:
            wait_log(proc, wait)
        return proc


def wait_log(proc, text, timeout=HANGS):
    end = time.monotonic() + timeout
    while text not in read(proc.log):
        assert proc.running() and time.monotonic() < end, \
            f"no {text!r}: {proc.describe()}\n{read(proc.log)}"
        time.sleep(0.02)


def read(log):
    return log.read_text() if log.exists() else ""


def errors(log):
    """The lines that OpenSM logs at the level of errors."""
    return [line for line in read(log).splitlines() if "] 0x01 -> " in line]


def fields(out):
    """The fields of what libibmad prints, as lines of the form "Name:....value"."""
    return dict(re.findall(r"^(\w[\w ]*):\.+(.*)$", out, re.M))


def lid_of_switch(f):
    return re.search(r'"S-.*lid (\d+)', f.run("a", "ibnetdiscover"))[1]


@pytest.fixture
def fabric(netns):
    need("ibstat")

    def start(text=TWO, *args):
        return Fabric(netns, text, *args)
    return start


# The library

def test_symbols_are_those_of_debian(stage):
    need("nm")

    def symbols(lib):
        out = subprocess.run(["nm", "-D", "--with-symbol-versions", str(lib)],
                             check=True, text=True, stdout=subprocess.PIPE).stdout
        return sorted(re.findall(r" ([TA]) (\S*IBUMAD\S*)$", out, re.M))

    assert len(symbols(SYSTEM)) == 42
    assert symbols(stage.lib / "libibumad.so.3") == symbols(SYSTEM)


def test_strings_are_those_of_debian(stage):
    ours, theirs = (ctypes.CDLL(str(lib), mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND)
                    for lib in (stage.lib / "libibumad.so.3", SYSTEM))

    def same(name, *args):
        got = []
        for lib in (ours, theirs):
            f = getattr(lib, name)
            f.restype = ctypes.c_char_p
            f.argtypes = [ctypes.c_uint16] * len(args)
            got.append(f(*args))
        assert got[0] == got[1], (name, args)

    swap = [(v >> 8 | v << 8) & 0xffff for v in range(0x10000)]
    for c in range(256):
        same("umad_class_str", c)
        for m in range(256):
            same("umad_method_str", c, m)
    for c in (1, 3, 4, 7, 0x81):
        for a in swap[:0x120]:
            same("umad_attribute_str", c, a)
    for s in swap:
        same("umad_common_mad_status_str", s)
        same("umad_sa_mad_status_str", s)


def test_addresses_are_laid_out_as_debian_does(stage):
    """umad_set_addr() and its like write the same bytes as Debian's library."""
    rnd = random.Random(3)
    libs = [ctypes.CDLL(str(lib), mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND)
            for lib in (stage.lib / "libibumad.so.3", SYSTEM)]
    for _ in range(200):
        args = [rnd.getrandbits(16), rnd.getrandbits(24), rnd.getrandbits(4),
                rnd.getrandbits(31)]
        grh = bytes(rnd.getrandbits(8) for _ in range(44))
        # umad_set_pkey() is not compared: an address of Debian's library has no P_Key index
        # until a port has been opened.
        got = []
        for lib in libs:
            buf = ctypes.create_string_buffer(64)
            lib.umad_set_addr(buf, *args)
            lib.umad_set_grh(buf, grh)
            net = ctypes.create_string_buffer(64)
            lib.umad_set_addr_net(net, *args)
            lib.umad_set_grh(net, None)
            got.append(buf.raw + net.raw)
        assert got[0] == got[1]


# OpenSM

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


def test_system_calls_of_a_mad(netns):
    """The fabric takes a MAD and answers it without another recvmsg() to look for more; the
    library does not call geteuid() for each MAD."""
    need("strace")
    need("ibnetdiscover")
    calls = netns.stage.tmp / f"calls{next_port()}"
    f = Fabric(netns, leaves(2, 2, 2), run=("strace", "-f", "-o", str(calls), "-e",
                                            "trace=recvmsg,epoll_wait,epoll_pwait"))
    mine = f.dir / "calls"
    f.run("n0", "strace", "-f", "-o", str(mine), "-e", "trace=recvmsg,geteuid", "ibnetdiscover")
    count = {name: len(re.findall(rf"\b{name}\(", mine.read_text())) for name in ("recvmsg", "geteuid")}
    assert count["recvmsg"] > 60 and count["geteuid"] < 20, count
    taken, none = (len(re.findall(rf"recvmsg\(.*= {end}", calls.read_text()))
                   for end in (r"[1-9]\d*\n", "-1 EAGAIN"))
    assert taken > 30 and none < 5, (taken, none)


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


OWN_RMPP = """
import ctypes as c, struct, sys
u = c.CDLL("libibumad.so.3")
FIRST, LAST, DATA, ACK = 2, 4, 1, 2

class Attr(c.Structure):        # struct umad_reg_attr
    _fields_ = [("mgmt_class", c.c_uint8), ("version", c.c_uint8), ("flags", c.c_uint32),
                ("mask", c.c_uint64 * 2), ("oui", c.c_uint32), ("rmpp", c.c_uint8)]

fd, agent = u.umad_open_port(None, 0), c.c_uint32()
attr = Attr(3, 2, int(sys.argv[2]), (c.c_uint64 * 2)(), 0, 1)
assert u.umad_register2(fd, c.byref(attr), c.byref(agent)) == 0
msg = c.create_string_buffer(u.umad_size() + 256)

def send(method, rmpp, timeout):
    mad = struct.pack(">4BHHQHHI", 1, 3, 2, method, 0, 0, 7, 0x11, 0, 0) + rmpp
    c.memset(msg, 0, len(msg))
    c.memmove(c.addressof(msg) + u.umad_size(), mad, len(mad))
    u.umad_set_addr(msg, int(sys.argv[1]), 1, 0, 0x80010000 - (1 << 32))
    assert u.umad_send(fd, agent.value, msg, 256, timeout, 0) == 0

send(0x12, b"", 10000)          # GetTable of NodeRecords
data, segments, flags = b"", 0, 0
while not flags & LAST:
    length = c.c_int(256)
    assert u.umad_recv(fd, msg, c.byref(length), 10000) >= 0 and u.umad_status(msg) == 0
    mad = msg.raw[u.umad_size():]
    version, kind, flags, status, segment, count = struct.unpack_from(">4BII", mad, 24)
    flags &= 7
    assert (length.value, version, kind, status, segment) == (256, 1, DATA, 0, segments + 1)
    segments = segment
    data += mad[56:36 + count if flags & LAST else 256]
    size = 8 * struct.unpack_from(">H", mad, 44)[0]
    send(0x12, struct.pack(">4BII", 1, ACK, 1, 0, segment, segment + 3), 0)
print(segments, len(data) // size)
"""


def test_a_program_does_rmpp_by_itself(fabric):
    """UMAD_USER_RMPP: the program gets OpenSM's answer segment by segment, and acknowledges
    each."""
    f = fabric(made("fattree:2,3"))
    f.opensm("node0")
    records = f.run("node1", "saquery", "NR").count("NodeRecord dump")
    lid = re.search(r"SM lid: (\d+)", f.run("node1", "ibstat"))[1]
    out = f.run("node1", "/usr/bin/python3", "-c", OWN_RMPP, lid, "1")
    segments, got = map(int, out.split())
    assert got == records and segments > 5


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


# Commands to the running fabric

def ask(f, *args, **kw):
    return f.ns.run(f.ns.stage.urnic, "fabric", *args, **kw).out


def link_states(f):
    """{(node, port): state} of both ends of each link."""
    nodes = json.loads(ask(f, "status", "--json"))["nodes"]
    return {(n["id"], p["port"]): p["state"]
            for n in nodes for p in n["ports"] if "peer" in p}


def test_status(fabric):
    f = fabric()
    out = ask(f, "status")
    assert "fabric default: 1 switch, 2 adapters; 2 links, 0 of them active" in out
    assert re.search(r"^sw 1 +H-a 1 +init +100 Gb/s \(4xEDR\)$", out, re.M), out
    f.opensm("a")
    out = ask(f, "status")
    assert "2 links, 2 of them active" in out
    assert re.search(r"^H-a +adapter +1 +127\.1\.0\.1 +subnet manager$", out, re.M), out
    f.run("a", "ibportstate", lid_of_switch(f), "2", "disable")
    assert re.search(r"^sw 2 +H-b 1 +disabled$", ask(f, "status"), re.M)
    assert link_states(f) == {("sw", 1): "active", ("sw", 2): "down",
                              ("H-a", 1): "active", ("H-b", 1): "down"}


def test_fabrics_are_listed(netns):
    """The list has each fabric's name, process, size, and the number of programs at its
    adapters."""
    def urnic(*args, status=0):
        end = netns.run(netns.stage.urnic, "fabric", *args, check=False)
        assert end.popen.returncode == status, end.describe()
        return end.out
    none = "no fabric runs here; start one: urnic fabric run"
    assert none in urnic(status=1) and none in urnic("status", status=1)
    one = Fabric(netns, TWO, "-F", "one")
    two = Fabric(netns, made("clos:2,1,2"), "-F", "two")
    head = r"fabric +PID switches adapters +links active programs\n"
    for words in (), ("status",), ("status", "--all"), ("status", "-1a"):
        out = urnic(*words)
        assert re.fullmatch(head + r"(one|two) .*\n(one|two) .*\n", out), out
    procs = [one.at(hca, URNIC_FABRIC="one").start(*words) for hca, *words in (
        ("a", "ibping", "-S"), ("a", "ibv_asyncwatch"), ("b", "ibping", "-S"))]
    assert eventually(lambda: re.search(r"^one +\d+ +1 +2 +2 +0 +3$", urnic(), re.M)), urnic()
    rows = {r["fabric"]: r for r in json.loads(urnic("status", "-aj"))["fabrics"]}
    assert rows["two"] == {"fabric": "two", "pid": rows["two"]["pid"], "switches": 3,
                           "adapters": 4, "links": 6, "active": 0, "programs": 0}
    exe = pathlib.Path(f"/proc/{rows['one']['pid']}/exe").readlink()
    assert exe.name == "urnic"
    procs[0].kill()
    assert eventually(lambda: re.search(r"^one .* 2$", urnic(), re.M)), urnic()
    assert "fabric one: 1 switch" in urnic("status", "-F", "one")
    two.proc.kill()
    assert re.fullmatch(head + r"one .*\n", urnic("status"))
    Fabric(netns, TWO)
    assert urnic("status").startswith("fabric default: 1 switch, 2 adapters")
    one.proc.signal(signal.SIGSTOP)
    assert re.search(r"^one +\d+  the fabric's process is stopped", urnic(), re.M)
    one.proc.signal(signal.SIGCONT)


def test_status_is_refreshed_on_a_terminal(fabric):
    f = fabric()
    need("script")
    proc = f.ns.start("script", "-qefc", f"{f.ns.stage.urnic} fabric status", "/dev/null")
    assert eventually(lambda: proc.out.count("\033[Hfabric default:") >= 2), proc.describe()
    f.proc.kill()
    assert proc.wait(HANGS) == 1
    # one text if the fabric was killed between two refreshes, the other if during one
    assert re.search("no such fabric runs here|it has ended", proc.out), proc.describe()


def test_a_cable_is_pulled(fabric):
    """When a cable is pulled, both its ends go down and OpenSM finds another route; when it is
    plugged in again, OpenSM uses it."""
    f = fabric(leaves(2, 2, 1))
    f.opensm("n0")

    def way():
        return f.run("n0", "ibtracert", "-G", "0x100001", "0x100003", check=False)
    spine = re.search(r'"(S-spine\d)"', way())[1]
    assert ask(f, "link", "down", spine[2:], "2") == f"{spine} 2 - S-leaf1 {int(spine[-1]) + 1}: pulled\n"
    assert link_states(f)[spine, 2] == "down"
    other = "S-spine1" if spine == "S-spine0" else "S-spine0"
    assert eventually(lambda: f'"{other}"' in way()), way()
    assert "3 received, 0% packet loss" in ping(f, "n0", "n1")
    ask(f, "link", "up", spine[2:], "2")
    assert eventually(lambda: link_states(f)[spine, 2] == "active")
    assert "num:128 (Link state change)" in read(f.dir / "log.n0")


def edges(picture):
    """{(node, port): (label, whether the line is dashed)}, with the link's end that the picture
    names first."""
    return {(a, int(port)): (label, "dashed" in line) for line in picture.splitlines()
            for a, port, label in re.findall(r'\t"(.*)" -- ".*" \[taillabel=(\d+).* label="(.*)"\]', line)}


def test_picture(fabric):
    """The picture has each link once, labelled with what crosses it, and graphviz accepts it."""
    need("dot")
    f = fabric(leaves(1, 2, 1))
    assert set(edges(ask(f, "picture")).values()) == {("init", True)}
    f.opensm("n0")
    words = "ib_write_bw", "-D", "20", "-p", str(next_port())
    server = f.at("n0").start(*words)
    server.wait_listening(int(words[-1]))
    client = f.at("n1").start(*words, "127.0.0.1")

    def loads():
        return [float(x) for label, _ in edges(ask(f, "picture")).values()
                for x in re.findall(r"(\S+) / (\S+) of 100 Gb/s", label)[0]]
    assert eventually(lambda: len([x for x in loads() if x > 0.05]) == 4), loads()
    client.kill()
    ask(f, "link", "down", "leaf1", "1")
    out = ask(f, "picture")
    assert len(edges(out)) == 4 and edges(out)["S-leaf1", 1] == ("pulled", True), out
    assert out.count("[shape=box]") == 3 and out.count("[shape=ellipse]") == 2
    (f.dir / "dot").write_text(out)
    svg = f.ns.run("dot", "-Tsvg", f.dir / "dot", library=False).out
    assert svg.count('class="edge"') == 4 and "</svg>" in svg


def ping(f, frm, to):
    """What ibping says of node `to`.  Node nN has GUID 0x100001 + 2 * N at its port."""
    server = f.at(to).start("ibping", "-S")
    guid = hex(0x100001 + 2 * int(to[1:]))
    assert eventually(lambda: "1 received" in f.run(frm, "ibping", "-c", "1", "-G", guid,
                                                    check=False))
    out = f.run(frm, "ibping", "-c", "3", "-f", "-G", guid)
    server.kill()
    return out


@pytest.mark.full
def test_pcp(fabric):
    """PCP's agent reports the state and counters of its adapter's port.  The agent asks the SA
    for its own path."""
    agent = pathlib.Path("/usr/lib/pcp/pmdas/infiniband")
    if not (shutil.which("dbpmda") and agent.exists()):
        # Debian's pcp cannot be configured where systemctl exists but systemd does not run.
        pytest.skip("install pcp and pcp-pmda-infiniband, which make check-full does not")
    f = fabric()
    f.opensm("a")
    # the package's own file includes one by a path that Debian does not have
    names = re.sub(r"#include.*", "", (agent / "root").read_text())
    (f.dir / "root").write_text(f'#define IB 91\n{names}#include "{agent}/pmns"\n')
    lid = re.search(r"Base lid: (\d+)", f.run("b", "ibstat"))[1]
    want = {"lid": lid, "state": '"Active"', "phystate": '"Link Up"', "linkwidth": "4"}
    told = ["in.packets", "out.bytes"]
    (f.dir / "words").write_text("\n".join(
        [f"open pipe {agent}/pmdaib -l {f.dir}/log.ib", "getdesc on",
         *(f"fetch infiniband.port.{n}" for n in (*want, *told)), "quit", ""]))
    out = f.run("b", "sh", "-c", f"dbpmda -e -n {f.dir}/root <{f.dir}/words")
    said = dict(re.findall(r"\(infiniband\.port\.(\S+)\).*\n.* value (.*)", out))
    assert {n: said.get(n) for n in want} == want, out
    assert all(int(said[n]) > 0 for n in told), out


@pytest.mark.full
def test_node_exporter(fabric):
    """node_exporter's infiniband collector reads what `urnic fabric sysfs` writes."""
    exporter = shutil.which("prometheus-node-exporter")
    if not exporter:
        # installing Debian's package starts a service; the program from an unpacked package will
        # do
        pytest.skip("have prometheus-node-exporter in PATH, which make check-full does not")
    f = fabric()
    f.opensm("a")
    sysfs = f.dir / "sysfs"
    ask(f, "sysfs", sysfs)
    port = next_port()
    proc = f.ns.start(exporter, "--collector.disable-defaults",
                      "--collector.infiniband", f"--path.sysfs={sysfs}",
                      f"--web.listen-address=127.0.0.1:{port}", library=False)
    proc.wait_listening(port)
    out = f.ns.run("/usr/bin/python3", "-c", "import sys, urllib.request as u; sys.stdout.write("
                   f"u.urlopen('http://127.0.0.1:{port}/metrics').read().decode())",
                   library=False).out
    got = {(n, d): float(v) for n, d, v in re.findall(
        r'^node_infiniband_(\w+)\{device="(ib_\w)"[^}]*\} (\S+)$', out, re.M)}
    assert got["state_id", "ib_a"] == got["state_id", "ib_b"] == 4, out
    assert got["physical_state_id", "ib_a"] == 5
    assert got["rate_bytes_per_second", "ib_a"] == 100e9 / 8
    assert re.search(r'scrape_collector_success\{collector="infiniband"\} 1$', out, re.M), out
    count = {p["node"]: p["counters"] for p in
             json.loads(ask(f, "counters", "--json"))["ports"] if p["node"] in ("H-a", "H-b")}
    for name, ours, times in (("port_packets_received_total", "port_rcv_packets", 1),
                              ("port_data_transmitted_bytes_total", "port_xmit_data", 4),
                              ("link_downed_total", "link_downed", 1)):
        for node in "ab":
            assert got[name, f"ib_{node}"] == times * count[f"H-{node}"][ours], (name, out)


def test_an_adapter_without_its_cable(fabric):
    f = fabric()
    f.opensm("a")
    for _ in range(3):
        ask(f, "link", "down", "b", "1")
        assert "State: Down" in f.run("b", "ibstat")
        ask(f, "link", "up", "sw", "2")
        assert eventually(lambda: "State: Active" in f.run("b", "ibstat"))
    assert "port_xmit_discards" not in ask(f, "counters", "b")
    assert re.search(r"^H-b 1 .* link_downed 3$", ask(f, "counters", "b", "1"), re.M)
    count = json.loads(ask(f, "counters", "--json"))["ports"]
    assert [(p["node"], p["port"]) for p in count] == [("sw", 1), ("sw", 2), ("H-a", 1),
                                                       ("H-b", 1)]
    assert [p["counters"]["link_downed"] for p in count] == [0, 3, 0, 3]


def tshark(file, *args):
    return subprocess.run(["tshark", "-r", str(file), *args], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def test_capture(fabric):
    """tshark dissects the MADs of OpenSM and saquery in a capture."""
    need("tshark")
    f = fabric()

    def capture(name, *args):
        proc = f.ns.start(f.ns.stage.urnic, "fabric", "pcap", f.dir / name, *args)
        proc.wait_output("the capture has begun")
        return proc
    procs = [capture("all"), capture("b", "b", "1"), capture("three", "-c", "3")]
    f.opensm("a")
    f.run("b", "saquery", "-p")
    count = json.loads(ask(f, "counters", "--json"))["ports"]
    for p in procs:
        if p is not procs[2]:
            p.signal(signal.SIGINT)
        assert p.wait(HANGS) == 0, p.describe()
        assert " 0 lost" in p.out
    lines = tshark(f.dir / "all").splitlines()
    assert len(lines) > 50
    assert all("UD Send Only QP=0x00000" in line for line in lines)
    assert any("SubnGetResp(NodeInfo)" in line for line in lines)
    assert sum("SubnAdmGetTableResp(PathRecord)" in line for line in lines) >= 6
    assert tshark(f.dir / "all", "-Y", "_ws.malformed || _ws.expert") == ""
    # ports count the packets to QP1 only
    sent = len(tshark(f.dir / "all", "-Y", "infiniband.bth.destqp == 1").splitlines())
    assert sent == sum(p["counters"]["port_xmit_packets"] for p in count)
    at_b = len(tshark(f.dir / "b", "-Y", "infiniband.bth.destqp == 1").splitlines())
    assert at_b == sum(p["counters"]["port_xmit_packets"] + p["counters"]["port_rcv_packets"]
                       for p in count if p["node"] == "H-b")
    assert len(tshark(f.dir / "three").splitlines()) == 3


def test_sysfs(fabric):
    """ibstatus, which reads only files, describes the adapters from what `urnic fabric sysfs`
    wrote."""
    f = fabric()
    f.opensm("a")
    tree = f.dir / "sysfs"
    ask(f, "sysfs", str(tree))

    ns = f.ns.with_(outer=["unshare", "-m", "sh", "-c",
                           f"mount --rbind {tree} /sys && exec \"$@\"", "sh"])

    def status(*args):
        return ns.run("ibstatus", *args).out
    out = status()
    assert re.findall(r"Infiniband device '(\w+)' port (\d) status", out) == \
        [("ib_a", "1"), ("ib_b", "1")]
    assert re.search(r"default gid:\s+fe80:0000:0000:0000:0000:0000:0010:0001\n", out), out
    assert re.search(r"base lid:\s+0x1\n", out)
    assert re.findall(r"\tstate:\s+(.*)", out) == ["4: ACTIVE"] * 2
    assert re.findall(r"phys state:\s+(.*)", out) == ["5: LinkUp"] * 2
    assert re.findall(r"rate:\s+(.*)", out) == ["100 Gb/sec (4X EDR)"] * 2
    ask(f, "link", "down", "b", "1")
    ask(f, "sysfs", "--hca", "b", str(tree))
    out = status("ib_b:1")
    assert re.findall(r"\tstate:\s+(.*)", out) == ["1: DOWN"]
    port = tree / "class/infiniband/ib_b/ports/1"
    assert (port / "counters/link_downed").read_text() == "1\n"
    assert (tree / "class/infiniband_mad/umad0/ibdev").read_text() == "ib_b\n"
    # -e 1 writes the files anew every second, until the fabric ends
    proc = f.ns.start(f.ns.stage.urnic, "fabric", "sysfs", "-e", "1", str(tree))
    ask(f, "link", "up", "b", "1")
    assert eventually(lambda: (port / "state").read_text() == "4: ACTIVE\n")
    assert proc.running()
    f.proc.kill()
    assert proc.wait(HANGS) == 1


# A program that claims to be a fabric; argv has the names of its adapter and of a counter.
FORGED = r"""
import json, os, socket, struct, sys
name, counter = sys.argv[1:]
said = {"status": {"nodes": [{"id": "a", "type": "adapter", "guid": "0x1",
                              "ports": [{"port": 1, "speed": "4xQDR"}]}]},
        "counters": {"ports": [{"counters": {counter: 1}}]}}
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(b"\0urnic/fabric/%d/forged" % os.getuid())
s.listen()
print("ready", flush=True)
while True:
    c = s.accept()[0]
    op = struct.unpack_from("=3I", c.recv(4096))[1]
    if op == 1:  # PLUG_CA, struct plug_ca
        c.send(struct.pack("=2I2Q2I20s65s3x", 0, 1, 1, 1, 0, 0, name.encode(), b"a"))
    elif op == 2:  # PLUG_PORT, struct plug_port
        c.send(bytes(616))
    else:  # PLUG_CONTROL
        c.send(bytes(4))
        c.send(json.dumps(said[json.loads(c.recv(65536))["ask"]]).encode())
"""


@pytest.mark.parametrize("name,counter,status", [
    ("ib_a", "link_downed", 0),
    ("../../../escaped", "link_downed", 1),
    ("/escaped", "link_downed", 1),
    ("..", "link_downed", 1),
    (".hidden", "link_downed", 1),
    ("", "link_downed", 1),
    ("ib_a", "../" * 7 + "escaped", 1),
    ("ib_a", "/escaped", 1),
    ("ib_a", ".hidden", 1),
    ("ib_a", "", 1),
])
def test_sysfs_of_a_forged_fabric(netns, name, counter, status):
    """A fabric's names of adapters and counters cannot make `urnic fabric sysfs` write outside
    its folder."""
    top = netns.stage.tmp / f"forged{random.getrandbits(40):x}"
    (top / "in").mkdir(parents=True)
    (top / "in").chmod(0o777)
    top.chmod(0o777)
    forged = netns.start("/usr/bin/python3", "-c", FORGED, name, counter)
    forged.wait_output("ready")
    end = netns.run(netns.stage.urnic, "fabric", "sysfs", "-F", "forged", str(top / "in"),
                    check=False)
    assert end.popen.returncode == status, end.out
    assert (": Bad message" in end.out) == bool(status), end.out
    assert forged.running()
    made_ = {str(p.relative_to(top)) for p in top.rglob("*")}
    assert "in/class/infiniband" in made_
    assert all(p == "in" or p.startswith("in/class") for p in made_), made_
    assert not [p for p in made_ if "escaped" in p or "hidden" in p]
    assert ("in/class/infiniband/ib_a/ports/1/counters/link_downed" in made_) == (not status)


def test_wrong_words_to_a_fabric(fabric):
    f = fabric()

    def wrong(status, text, *args):
        end = f.ns.run(f.ns.stage.urnic, "fabric", *args, check=False)
        assert (end.popen.returncode, text in end.out) == (status, True), end.out
    wrong(1, "there is no node 'c' in fabric default", "link", "down", "c", "1")
    wrong(1, "H-a has no port 2, but 1 to 1", "link", "down", "a", "2")
    wrong(1, "there is no cable at port 3 of sw", "link", "up", "sw", "3")
    wrong(2, "not 'x'", "link", "up", "sw", "x")
    wrong(2, "not 'on'", "link", "on", "sw", "1")
    wrong(2, "expected down or up, a node and a port", "link", "up", "sw")
    wrong(1, "there is no node 'c'", "counters", "c")
    wrong(2, "not '1x'", "counters", "sw", "1x")
    wrong(1, "has no such node or port", "pcap", str(f.dir / "x"), "c")
    wrong(1, "has no such node or port", "pcap", str(f.dir / "x"), "sw", "5")
    wrong(2, "not '0'", "pcap", str(f.dir / "x"), "sw", "0")
    wrong(1, "No such file or directory", "pcap", str(f.dir / "none" / "x"))
    assert not (f.dir / "x").exists()
    wrong(1, "has no such node or port", "sysfs", "--hca", "c", str(f.dir))
    wrong(1, "none/x: No such file or directory", "sysfs", str(f.dir / "none" / "x"))
    wrong(1, "fabric other: no such fabric runs here", "status", "-F", "other")
    f.proc.kill()
    wrong(1, "fabric default: no such fabric runs here", "counters")


# Several programs at one adapter

def test_a_second_opensm_at_the_same_adapter_is_refused(fabric):
    f = fabric()
    f.opensm("a")
    second = f.at("a").start("opensm", "-f", str(f.dir / "second"))
    assert second.wait(HANGS) is not None, second.describe()
    assert "Perhaps another instance of OpenSM is already running" in second.out


def test_issm_ends_with_the_program(fabric):
    f = fabric()
    sm = f.opensm("a")
    cap = "IsSM"
    assert cap in f.run("b", "smpquery", "portinfo", "-D", "0,1,1")
    sm.kill()
    assert eventually(
        lambda: cap not in f.run("b", "smpquery", "portinfo", "-D", "0,1,1"))
    f.opensm("a")       # the adapter's subnet management is free again after the kill


def test_many_programs_at_one_adapter(fabric):
    f = fabric()
    f.opensm("a")
    procs = [f.at("a").start("ibnetdiscover") for _ in range(8)]
    outs = []
    for p in procs:
        assert p.wait(HANGS) == 0, p.describe()
        outs.append(re.sub(r"^#.*\n", "", p.out, flags=re.M))
    assert len(set(outs)) == 1


# What can go wrong

def test_the_fabric_is_killed(fabric):
    """When the fabric is killed, its programs get errors at once and do not hang."""
    f = fabric()
    server = f.at("a").start("ibping", "-S")
    sm = f.opensm("b")
    f.proc.kill()
    wait_log(sm, "recv error on MAD sized umad (Input/output error)")
    time.sleep(0.5)
    assert len(errors(sm.log)) < 20     # OpenSM writes a line for each failed call
    server.signal(signal.SIGTERM)
    assert server.wait(HANGS) is not None
    sm.signal(signal.SIGTERM)
    assert sm.wait(HANGS) is not None
    out = f.at("a").run("ibstat", "ib_a", check=False).out
    assert "no such fabric runs here; start one: urnic fabric run" in out


def test_the_fabric_is_stopped_with_a_signal(fabric):
    f = fabric()
    f.proc.signal(signal.SIGINT)
    assert f.proc.wait(HANGS) == 0


def test_no_adapter(fabric):
    f = fabric()
    out = f.ns.run("ibstat", check=False).out
    assert "CA 'ib_" not in out
    out = f.at("nobody's").run("ibstat", "x", check=False).out
    assert "adapter nobody's of fabric default: the fabric has no such adapter" in out


def test_run_refuses_an_adapter_that_is_not_there(fabric):
    f = fabric()
    urnic = f.ns.stage.urnic
    said = f.ns.run(urnic, "run", "--hca", "c", "--", "echo", "started", check=False)
    assert said.popen.returncode == 2 and "started" not in said.out
    assert "adapter c of fabric default: the fabric has no such adapter" in said.out
    said = f.ns.run(urnic, "run", "--hca", "a", "--fabric", "other", "--", "true", check=False)
    assert said.popen.returncode == 2
    assert "no such fabric runs here" in said.out
    assert "Fabrics that run here: default\n" in said.out or \
        re.search(r"Fabrics that run here: \d+:default\n", said.out)
    said = f.ns.run(urnic, "fabric", "status", "--fabric", "other", check=False)
    assert said.popen.returncode and "Fabrics that run here: " in said.out
    assert f.ns.run(urnic, "run", "--hca", "a", "--", "echo", "started").out == "started\n"


def test_doctor_knows_the_adapter(fabric):
    f = fabric()
    urnic = f.ns.stage.urnic

    def says(at):
        out = at.run(urnic, "doctor", "--json", check=False).out
        found = {c["check"]: c for c in json.loads(out)}["fabric"]
        return found["verdict"], found["detail"]

    verdict, detail = says(f.ns)
    assert verdict == "ok" and "no adapter is asked for" in detail and "default" in detail
    verdict, detail = says(f.at("b"))
    assert verdict == "limited" and "ib_b" in detail
    f.opensm("a")
    verdict, detail = says(f.at("b"))
    assert verdict == "ok" and re.search(r"ib_b, LID 3, 127\.\d+\.\d+\.\d+$", detail)
    verdict, detail = says(f.at("c"))
    assert verdict == "missing" and "no such adapter" in detail


def test_a_rank_has_its_adapter(fabric):
    f = fabric()
    at = f.at("rank")
    for rank, name in enumerate(("ib_a", "ib_b", "ib_a")):
        out = at.run("ibv_devices", env={"OMPI_COMM_WORLD_RANK": str(rank)}).out
        assert re.findall(r"^\s+(ib_\w+)\s", out, re.M) == [name]
        out = at.run("ibstat", "-l", env={"PMIX_RANK": str(rank)}).out
        assert out.split() == [name]
    out = at.run("ibv_devices", check=False).out
    assert "no MPI launcher has said which rank this process is" in out
    # the launcher itself has no rank, and runs nevertheless
    at.run(f.ns.stage.urnic, "run", "--", "env", "PMI_RANK=1", "true")


def test_two_fabrics_of_one_name(fabric):
    f = fabric()
    second = f.ns.run(f.ns.stage.urnic, "fabric", "run", str(f.dir / "topology"),
                      check=False)
    assert second.popen.returncode == 1
    assert "a fabric of that name runs here; name this one with --fabric" in second.out


def test_somebody_else_has_the_name(fabric, netns):
    """Root's socket has the name of nobody's fabric: programs do not believe it, and do not
    hang."""
    uid = subprocess.run(["id", "-u", "nobody"], check=True, text=True,
                         stdout=subprocess.PIPE).stdout.strip()
    squatter = netns.start(
        "/usr/bin/python3", "-c",
        "import socket, time\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"s.bind(b'\\0urnic/fabric/{uid}/default'); s.listen()\n"
        "print('ready', flush=True); time.sleep(60)", user=None)
    squatter.wait_output("ready")
    out = netns.with_env(URNIC_HCA="a").run("ibstat", "x", check=False).out
    assert "another user has that name" in out


def test_settings(fabric):
    """Rates and addresses come from a second file, so that the first one stays as ibsim reads
    it."""
    text = TWO
    f = fabric(text)
    second = f.dir / "settings"
    second.write_text("[sw]\nrate = 4xQDR\n[b 1]\nrate = 1xHDR\naddress = 127.9.0.1\n")
    g = Fabric(f.ns, text, "--fabric", "second", "-s", str(second))
    g.ns = g.ns.with_env(URNIC_FABRIC="second")
    out = ask(g, "status")
    assert re.search(r"^sw 1 .* 40 Gb/s \(4xQDR\)$", out, re.M), out
    assert re.search(r"^sw 2 .* 50 Gb/s \(1xHDR\)$", out, re.M), out
    assert re.search(r"^H-b +adapter +0 +127\.9\.0\.1$", out, re.M), out
    g.opensm("a")
    assert "Rate: 40" in g.run("a", "ibstat") and "Rate: 50" in g.run("b", "ibstat")
    second.write_text("[sw]\nspeed = 4xQDR\n")
    for verb, more in (("run", []), ("exec", ["true"])):
        end = f.ns.run(f.ns.stage.urnic, "fabric", verb, "-s", str(second),
                       str(f.dir / "topology"), *more, check=False)
        assert end.popen.returncode == 2
        assert f"{second}:2:1: expected rate, address or a section, not 'speed'" in end.out


def test_wrong_topology(tmp_path):
    file = tmp_path / "t.net"
    file.write_text('Switch 4 "sw"\n[1] "H-a"[x]\n')
    bad(2, f"{file}:2:11: expected the port at the other end, as [1], not 'x]'",
        "fabric", "run", str(file))
    bad(2, "No such file or directory", "fabric", "run", str(tmp_path / "none"))
    bad(2, "no topology is named", "fabric", "run")
    bad(2, "no command 'rum'", "fabric", "rum")
    bad(2, "a name is letters", "run", "--fabric", "a b", "--", "true")


@pytest.mark.parametrize("rule,nodes", [
    ("star:5", 6), ("ring:4,2", 12), ("mesh:2,3", 12), ("torus:3,3", 18),
    ("clos:4,2,2", 14), ("fattree:2,3", 20), ("dragonfly:2,1,1", 12)])
def test_rules(fabric, netns, rule, nodes):
    """A topology by a rule can be printed and run, or run directly."""
    text = netns.run(netns.stage.urnic, "fabric", "make", rule).out
    f = fabric(text)
    f.opensm("node0")
    out = f.run("node1", "ibnetdiscover")
    assert len(re.findall(r"^(?:Switch|Ca)\t", out, re.M)) == nodes
    at_once = netns.start(netns.stage.urnic, "fabric", "run", "-F", "b", rule)
    at_once.wait_output("fabric b:")
    assert netns.with_env(URNIC_FABRIC="b", URNIC_HCA="node1").run("ibstat", "-l").out \
        == "ib_node1\n"


def test_exec(netns):
    need("opensm")
    urnic = netns.stage.urnic
    before = set(netns.stage.tmp.iterdir())
    out = netns.run(urnic, "fabric", "exec", "fattree:2,3", "--", "sh", "-c",
                    f"ibstat; {urnic} run --hca node3 -- ibstat; sminfo").out
    assert out.count("State: Active") == 2
    assert "CA 'ib_node0'" in out and "CA 'ib_node3'" in out
    assert "SMINFO_MASTER" in out
    # an ordinary user's PATH lacks /usr/sbin, where Debian has opensm and ibtracert
    out = netns.run("env", "PATH=/usr/bin:/bin", urnic, "fabric", "exec", "star:2", "--",
                    "ibtracert", "2", "3", timeout=60).out
    assert "To ca" in out
    out = netns.run(urnic, "fabric", "exec", "star:2", "ibstat", "-l",
                    env={"URNIC_HCA": "node1"}).out
    assert out == "ib_node1\n"
    end = netns.run(urnic, "fabric", "exec", "star:2", "--", "sh", "-c", "exit 7",
                    check=False)
    assert end.popen.returncode == 7
    # no file, no process and no socket name is left
    assert set(netns.stage.tmp.iterdir()) == before
    assert "urnic/fabric" not in netns.sh("cat /proc/net/unix")
    assert urnic.name not in netns.sh(f"ip netns pids {netns.name} | xargs -r ps -o args=")


def test_exec_leaves_no_program(netns):
    """`fabric exec` kills what the program left: background programs, sessions of their own, and
    what these have started."""
    need("opensm")
    left = "sleep 1000 & echo $!; setsid sleep 1001 & echo $!; " \
        "{ setsid sh -c 'sleep 1002 & echo $!; sleep 1003 & echo $!; wait' & } | head -n 2"
    out = netns.run(netns.stage.urnic, "fabric", "exec", "star:2", "--", "sh", "-c", left).out
    pids = out.split()
    assert len(pids) == 4 and not any(os.path.exists(f"/proc/{pid}") for pid in pids), out


def test_wrong_rules():
    bad(2, "star:0: expected star:n with numbers from 1 on", "fabric", "make", "star:0")
    bad(2, "no rule is named", "fabric", "make")
    bad(2, "a topology and a program are needed", "fabric", "exec", "star:2")
    bad(2, "expected star:n", "fabric", "exec", "star:0", "true")
    bad(2, "expected fattree:k,n", "fabric", "run", "fattree:4")


# Comparison with ibsim

def start_ibsim(f, hca):
    """Start ibsim on the fabric's topology file; return (its folder, a function that runs a
    program at ibsim's adapter `hca`)."""
    sim = f.ns.start("ibsim", "-s", str(f.dir / "topology"), library=False,
                     stdin=subprocess.PIPE)
    sim.wait_output("sim>")
    folder = f.dir / "theirs"
    folder.mkdir()
    folder.chmod(0o777)

    def over_ibsim(*argv):
        # umad2sim makes a tree of files in its working directory
        return f.ns.run("sh", "-c", "cd $OSM_TMP_DIR && exec \"$@\"", "sh", *argv,
                        library=False,
                        env={"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so",
                             "SIM_HOST": hca, "OSM_CACHE_DIR": folder,
                             "OSM_TMP_DIR": folder}).out
    return folder, over_ibsim


def plain(out):
    """`out` without its date, and without the note that ibsim's ports could be wider than
    enabled."""
    return re.sub(r"^# Topology file: .*\n|Could be 12X", "", out, flags=re.M)


def test_the_same_over_ibsim(fabric):
    """With the same topology and OpenSM over ibsim, the tables and the diagnostics' output are
    the same."""
    need("ibsim")
    # the values that ibsim has by default
    text = "devid=0x5\nwidth=2\nspeed=4\n\n" + leaves(4, 4, 4)
    f = fabric(text)
    args = ["-o", "-D", "0x43", "--dump_files_dir"]
    ours = f.dir / "ours"
    ours.mkdir()
    ours.chmod(0o777)
    theirs, over_ibsim = start_ibsim(f, "H-n0")
    f.run("n0", "opensm", *args, str(ours), "-f", str(f.dir / "log"))
    over_ibsim("opensm", *args, str(theirs), "-f", str(f.dir / "log2"))
    table = (ours / "opensm-lfts.dump").read_text()
    assert table.count("Unicast lids") == 8
    assert table == (theirs / "opensm-lfts.dump").read_text()
    for program in ("ibnetdiscover", "iblinkinfo"):
        out = plain(f.run("n0", program))
        assert out.count("n15") >= 2
        assert out == plain(over_ibsim(program))


UNIT = """\
module = "{unit}"
Switch 4 "leaf"
[1] "H-a"[1]
[2] "H-b"[1]
@[3] "up"

Hca 1 "H-a"
[1] "leaf"[1]

Hca 1 "H-b"
[1] "leaf"[2]

"""

UNITS = """\
devid=0x5
width=2
speed=4
include "{dir}/one"
include "{dir}/two"
Hca 1 "H-c"
@[1] "c"

module = ""
Switch 4 "S-spine"
[1] "one@up"
[2] "two@up"
[3] "two@c"
"""


def test_ibsims_modules(fabric, netns):
    """urnic and ibsim read modules, names of ports and included files alike."""
    need("ibsim")
    folder = netns.stage.tmp / f"units{random.getrandbits(40):x}"
    folder.mkdir()
    for unit in ("one", "two"):
        (folder / unit).write_text(UNIT.format(unit=unit))
    f = fabric(UNITS.format(dir=folder))
    names = {n["id"]: n for n in json.loads(ask(f, "status", "--json"))["nodes"]}
    assert set(names) == {"S-spine", "two#H-c", *(f"{u}#{n}" for u in ("one", "two")
                                                 for n in ("leaf", "H-a", "H-b"))}
    theirs, over_ibsim = start_ibsim(f, "one#H-a")
    for program in ("ibnetdiscover", "iblinkinfo"):
        out = plain(f.run("one#H-a", program))
        assert out.count("two#H-c") >= 1
        assert out == plain(over_ibsim(program))
    (folder / "two").write_text("Hca 1\n")
    bad(2, f"{folder}/two:1:6: expected the node's name in quotes", "fabric", "run",
        str(f.dir / "topology"))
