# SPDX-License-Identifier: BSD-2-Clause
"""libibumad.so.3 as Debian's programs see it, and several programs at one adapter.

Programs run as nobody.  docs/dev/fabric.md describes the fabric.
"""

import ctypes
import os
import random
import re

from lab import HANGS, eventually, next_port
from subnet import Fabric, leaves, made
from tool import need


SYSTEM = "/usr/lib/x86_64-linux-gnu/libibumad.so.3"


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


PAIR = """
import ctypes as c, errno
u = c.CDLL("libibumad.so.3", use_errno=True)

class Pair(c.Structure):        # struct umad_ca_pair
    _fields_ = [("smi", c.c_char * 20), ("smi_port", c.c_uint32),
                ("gsi", c.c_char * 20), ("gsi_port", c.c_uint32)]

pairs, one = (Pair * 4)(), Pair()
assert u.umad_get_smi_gsi_pairs(pairs, 4) == 1
name = pairs[0].smi
assert name and pairs[0].gsi == name and not pairs[1].smi
for asked in (None, name):
    assert u.umad_get_smi_gsi_pair_by_ca_name(asked, 0, c.byref(one), 1) == 0
    assert (one.smi, one.smi_port, one.gsi, one.gsi_port) == (name, 1, name, 1)
assert u.umad_get_smi_gsi_pair_by_ca_name(b"mlx5_0", 1, c.byref(one), 0) == -errno.ENODEV
assert not one.smi and c.get_errno() == errno.ENODEV
fd = u.umad_open_smi_port(one.smi or name, 1)
assert fd >= 0 and u.umad_register(fd, 0x81, 1, 0, None) >= 0 and u.umad_close_port(fd) == 0
"""


def test_the_adapter_for_smps_is_the_adapter_for_other_mads(fabric):
    """The calls with which the infiniband-diags of Debian 13 choose an adapter."""
    f = fabric(made("star:2"))
    f.run("node1", "/usr/bin/python3", "-c", PAIR)


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
