# SPDX-License-Identifier: BSD-2-Clause
"""What a program that was linked with rdma-core finds in our libraries.

LIB.exports.tsv was read from rdma-core 44 on amd64; newer_nodes.txt has what came after it, up to
rdma-core 65; needed_by_apps.tsv has what the programs of Debian 12, 13 and sid ask for.  Where the
distribution's libraries are installed, the tests compare the tables with them.  URNIC_BUILD names the build folder; the
default is build.
"""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
LIB = pathlib.Path(os.environ.get("URNIC_BUILD", ROOT / "build")) / "lib"
SYSTEM = pathlib.Path("/usr/lib") / "x86_64-linux-gnu"
OURS = {"libibverbs": LIB / "libibverbs.so.1", "librdmacm": LIB / "librdmacm.so.1",
        "libibumad": LIB / "libibumad.so.3"}
PRIVATE_NODES = (34, 57, 59, 64, 65)

# Debian packages whose programs and libraries use verbs or rdma_cm.
PACKAGES = (
    "ibverbs-providers ibverbs-utils infiniband-diags libfabric-bin libfabric1 "
    "librdmacm1 librdmacm1t64 libucx0 libopenmpi3 openmpi-bin perftest python3-pyverbs qperf "
    "rdma-core rdmacm-utils srptools ucx-utils fio libibmad5 libibnetdisc5"
).split()


def run(*args, **env):
    return subprocess.run(args, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C", **env}, check=False)


def symbols(path):
    """The symbols that the library defines: {(node, name): (whether it is the default version,
    type)}."""
    found = {}
    for line in run("readelf", "--dyn-syms", "-W", str(path)).stdout.splitlines():
        f = line.split()
        if len(f) < 8 or not f[0][:-1].isdigit() or f[6] in ("UND", "ABS"):
            continue
        name, at, node = f[7].partition("@")
        found[node.lstrip("@"), name] = (node.startswith("@"), f[3])
        assert at, f"{name} has no version"
    return found


def nodes(path):
    out = run("readelf", "-V", "-W", str(path)).stdout
    out = out[out.index(".gnu.version_d"):].split(".gnu.version_r")[0]
    return set(re.findall(r"Name: (\w+_[\w.]+)", out))


def exports(lib):
    """The symbols of the library in the table, as symbols() returns them."""
    table = {}
    for line in (HERE / f"{lib}.exports.tsv").read_text().splitlines():
        node, name, kind, section = line.split("\t")[:4]
        table[node, name] = (kind == "default",
                             "FUNC" if section == ".text" else "OBJECT")
    return table


def newer(lib):
    """[(node, name)] of the symbols that came after the table's release.  Names that are private
    to rdma-core are in the node of the newest release."""
    found, node = [], None
    for line in (HERE / "newer_nodes.txt").read_text().splitlines():
        word = line.strip().rstrip(";")
        if line.endswith("{"):
            node = line.split()[0]
        elif line.startswith("\t\t") and node.startswith(lib[3:].upper()):
            found.append((node, word))
    return found


def private_names():
    return [name for node, name in [*exports("libibverbs"), *newer("libibverbs")]
            if "PRIVATE" in node]


# --- symbols -----------------------------------------------------------------

@pytest.mark.parametrize("lib", OURS)
def test_every_symbol_of_the_table(lib):
    ours, wanted = symbols(OURS[lib]), exports(lib)
    assert len(wanted) > 38
    wrong = {s: (ours.get(s), how) for s, how in wanted.items() if ours.get(s) != how}
    assert not wrong


@pytest.mark.parametrize("lib", OURS)
def test_every_symbol_of_the_distribution(lib):
    theirs = SYSTEM / OURS[lib].name
    assert theirs.exists(), "install libibverbs1, librdmacm1 and libibumad3"
    ours, wanted = symbols(OURS[lib]), symbols(theirs)
    # Of our private nodes one has the default versions; a release has one node.
    wrong = {s: (ours.get(s), how) for s, how in wanted.items()
             if ours.get(s) != how and not ("PRIVATE" in s[0] and s in ours)}
    assert not wrong
    assert nodes(theirs) <= nodes(OURS[lib])


@pytest.mark.parametrize("lib", OURS)
def test_newer_symbols(lib):
    ours, wanted = symbols(OURS[lib]), newer(lib)
    assert len(wanted) == {"libibverbs": 40, "librdmacm": 6, "libibumad": 3}[lib]
    default = {s: "PRIVATE" not in s[0] for s in wanted}
    assert not [s for s in wanted if ours.get(s) != (default[s], "FUNC")]


def test_private_symbols_in_every_node():
    ours = symbols(OURS["libibverbs"])
    names = private_names()
    assert len(names) == 92
    for number in PRIVATE_NODES:
        node = f"IBVERBS_PRIVATE_{number}"
        here = {n.replace("driver_34", f"driver_{number}") for n in names}
        assert {name for at, name in ours if at == node} == here


@pytest.mark.parametrize("lib", OURS)
def test_nothing_else_is_exported(lib):
    known = set(exports(lib)) | set(newer(lib))
    extra = [s for s in symbols(OURS[lib])
             if s not in known and not s[0].startswith("IBVERBS_PRIVATE_")]
    assert not extra


@pytest.mark.parametrize("lib", OURS)
def test_soname(lib):
    out = run("readelf", "-d", "-W", str(OURS[lib])).stdout
    assert f"soname: [{OURS[lib].name}]" in out


def test_programs_find_what_they_need():
    """What programs need, including programs that are not installed here."""
    have = {s for lib in OURS.values() for s in symbols(lib)}
    needed = {tuple(line.split("\t")[:2])
              for line in (HERE / "needed_by_apps.tsv").read_text().splitlines()}
    assert len(needed) > 300
    assert not needed - have


# --- structs -----------------------------------------------------------------

# Newer headers have more members at their ends.
GROWN = {"ibv_qp_ex", "ibv_port_attr"}


def layout_asserts():
    for line in (HERE / "struct_layout.txt").read_text().splitlines():
        size = re.match(r"sizeof\(struct (\w+)\)=(\d+)", line)
        field = re.match(r"(\w+) +(\w+) +off= *(\d+)", line)
        if size:
            yield f"sizeof(struct {size[1]}) {'>=' if size[1] in GROWN else '=='} {size[2]}"
        elif field:
            yield f"offsetof(struct {field[1]}, {field[2]}) == {field[3]}"


def compiles(tmp_path, text):
    source = tmp_path / "probe.c"
    source.write_text(text)
    return run("cc", "-std=gnu11", "-fsyntax-only", f"-iquote{ROOT}/src", f"-iquote{ROOT}", str(source))


def test_layout_of_the_system_headers(tmp_path):
    asserts = list(layout_asserts())
    assert len(asserts) > 110
    text = "#include <stddef.h>\n#include <infiniband/verbs.h>\n" + "".join(
        f'_Static_assert({a}, "{a}");\n' for a in asserts)
    probe = compiles(tmp_path, text)
    assert probe.returncode == 0, probe.stderr
    assert compiles(tmp_path, text + "_Static_assert(0, \"\");").returncode != 0


def test_our_own_asserts(tmp_path):
    probe = compiles(tmp_path, '#include "abi/layout.h"\n')
    assert probe.returncode == 0, probe.stderr


# --- the NIC -----------------------------------------------------------------

SHELLS = ["libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3"]


@pytest.mark.parametrize("name", ["liburnic.so", *SHELLS])
def test_what_stays_and_where_it_looks(name):
    """dlclose() unmaps none of the libraries, and a shell looks for liburnic.so in its own
    folder."""
    out = run("readelf", "-d", "-W", str(LIB / name)).stdout
    assert re.search(r"FLAGS_1.*NODELETE", out)
    if name in SHELLS:
        assert "[liburnic.so]" in out
        assert re.search(r"\(RPATH\).*\[\$ORIGIN/?\]", out)


ONE_NIC = """
import ctypes, os, sys
from _ctypes import dlclose
def nics():
    return {l.split()[-1] for l in open("/proc/self/maps") if "liburnic.so" in l}
libs = []
for path in sys.argv[1:]:
    libs.append(ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL))
    assert len(nics()) == 1, nics()
for lib in libs:
    dlclose(lib._handle)
assert len(nics()) == 1
"""


@pytest.mark.parametrize("first", SHELLS)
def test_one_nic_whatever_is_loaded(first, tmp_path):
    """A process has one liburnic.so, whether one shell is loaded alone, or all of them with
    RTLD_LOCAL, or copies from another folder as well."""
    copy = shutil.copytree(LIB, tmp_path / "lib", symlinks=True)
    in_child(ONE_NIC, LIB / first)
    in_child(ONE_NIC, copy / first, *(LIB / s for s in SHELLS), copy / SHELLS[0])


def test_a_shell_takes_the_nic_beside_it(tmp_path):
    """A shell loads the liburnic.so beside it, even if LD_LIBRARY_PATH has another one."""
    (tmp_path / "liburnic.so").write_bytes(b"no library")
    in_child(ONE_NIC, LIB / SHELLS[0], LD_LIBRARY_PATH=str(tmp_path))


# --- loading -----------------------------------------------------------------

def users_of_verbs():
    """The installed ELF files that need libibverbs or librdmacm."""
    listed = run("dpkg", "-L", *PACKAGES).stdout.splitlines()
    for path in sorted({os.path.realpath(p) for p in listed}):
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as f:
            if f.read(4) != b"\x7fELF":
                continue
        needed = run("readelf", "-d", "-W", path).stdout
        if re.search(r"NEEDED.*\[lib(ibverbs|rdmacm|ibumad)\.so\.\d\]", needed):
            yield path


def complaints(path, libdir):
    ldd = run("ldd", "-r", path, **({"LD_LIBRARY_PATH": str(libdir)} if libdir else {}))
    text = ldd.stdout + ldd.stderr
    used = [l for l in text.splitlines()
            if re.search(r"lib(ibverbs|rdmacm|ibumad)\.so\.\d =>", l)]
    return used, {re.sub(r"\s*\(.*", "", l).strip() for l in text.splitlines()
                  if "undefined symbol" in l or "not found" in l}


@pytest.mark.parametrize("path", list(users_of_verbs()) or ["none"])
def test_loads(path):
    """With our libraries no symbol is missing that was not missing before; plugins lack those of
    their host program, such as Python's."""
    assert path != "none", "no RDMA program is installed"
    before = complaints(path, None)[1]
    used, after = complaints(path, LIB)
    assert not after - before
    assert all(str(LIB) in line for line in used)


def test_enough_programs_were_loaded():
    names = {os.path.basename(p) for p in users_of_verbs()}
    assert {"ib_write_bw", "ib_send_lat", "ibv_devinfo", "ibv_rc_pingpong", "rping"} <= names
    assert any(n.startswith("librspreload.so") for n in names)
    assert any(n.startswith("libmlx5") for n in names)
    assert any(n.startswith("libuct_ib") for n in names)


# --- calls that need no device -------------------------------------------------

def in_child(code, *argv, **env):
    child = run(sys.executable, "-c", code, *map(str, argv), **env)
    assert child.returncode == 0, child.stderr
    return child


TEXTS = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
for f in ("wc_status", "event_type", "port_state", "node_type"):
    fn = getattr(lib, f"ibv_{f}_str")
    fn.restype = ctypes.c_char_p
    print([fn(i) for i in range(-2, 40)])
for f in ("ibv_rate_to_mult", "ibv_rate_to_mbps"):
    print([getattr(lib, f)(i) for i in range(-2, 40)])
print([lib.mult_to_ibv_rate(i) for i in range(-2, 1000)])
print([lib.mbps_to_ibv_rate(i) for i in range(-2, 2000000)
       if lib.mbps_to_ibv_rate(i)])
"""


def test_texts_and_rates_are_the_distribution_s():
    theirs = in_child(TEXTS, SYSTEM / "libibverbs.so.1").stdout
    assert "Work Request Flushed Error" in theirs
    assert in_child(TEXTS, OURS["libibverbs"]).stdout == theirs


SILENT = """
import ctypes, os, sys
def state():
    return (sorted(os.listdir("/proc/self/fd")), os.listdir("/proc/self/task"))
def handlers():
    return [l for l in open("/proc/self/status") if l.startswith(("SigBlk", "SigIgn", "SigCgt"))]
before, caught = state(), handlers()
for path in sys.argv[1:]:
    ctypes.CDLL(path, ctypes.RTLD_GLOBAL | os.RTLD_NOW)
assert state() == before, (before, state())
assert handlers() == caught
"""


def test_loading_does_nothing():
    child = in_child(SILENT, *OURS.values())
    assert child.stdout == child.stderr == ""


NONE = """
import ctypes, errno, sys
lib = ctypes.CDLL(sys.argv[1], use_errno=True)
for name in ("ibv_alloc_dmah", "ibv_reg_dmabuf_mr", "ibv_create_comp_cntr"):
    fn = getattr(lib, name)
    fn.restype = ctypes.c_void_p
    ctypes.set_errno(0)
    assert fn(None, None) is None, name
    assert ctypes.get_errno() == errno.EOPNOTSUPP, name
assert lib.ibv_query_port_speed(None, 1, None) == errno.EOPNOTSUPP
assert lib.ibv_query_ece(None, None) == errno.EOPNOTSUPP
assert lib.ibv_cmd_create_qp(None) == errno.ENOSYS
assert lib.ibv_cmd_create_cq_ex2(None) == errno.ENOSYS
assert lib.ibv_cmd_export_dmabuf_fd(None, 0) == -1 and ctypes.get_errno() == errno.ENOSYS
lib.verbs_open_device.restype = ctypes.c_void_p
assert lib.verbs_open_device(None, None) is None
assert lib.verbs_register_driver_34(None) == 0
assert ctypes.c_bool.in_dll(lib, "verbs_allow_disassociate_destroy").value is False
assert lib.ibv_fork_init() == 0
"""


def test_what_is_not_there_says_so():
    in_child(NONE, OURS["libibverbs"])


OLD = """
import ctypes, errno, sys
libc = ctypes.CDLL(None)
lib = ctypes.CDLL(sys.argv[1], use_errno=True)
libc.dlvsym.restype = ctypes.c_void_p
libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
at = libc.dlvsym(lib._handle, b"ibv_get_device_list", b"IBVERBS_1.0")
new = libc.dlvsym(lib._handle, b"ibv_get_device_list", b"IBVERBS_1.1")
assert at and new and at != new
old = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, use_errno=True)(at)
assert old(None) is None and ctypes.get_errno() == errno.ENOSYS
"""


def test_programs_of_before_1_1_get_no_devices():
    in_child(OLD, OURS["libibverbs"])


RDMACM = """
import ctypes, errno, sys
lib = ctypes.CDLL(sys.argv[1], use_errno=True)
for name in ("repoll_wait", "repoll_ctl"):
    ctypes.set_errno(0)
    assert getattr(lib, name)(0, 0, 0, 0) == -1, name
    assert ctypes.get_errno() == errno.ENOSYS, name
lib.rsend.restype = ctypes.c_ssize_t
for fd in (-1, 0, 1 << 20):
    assert lib.rsend(fd, None, 0, 0) == -1 and ctypes.get_errno() == errno.EBADF
"""


def test_what_is_not_there_is_silent_until_called_then_says_one_line():
    err = in_child(RDMACM, OURS["librdmacm"]).stderr
    assert err.count("\n") == 1 and "does not have" in err


CM = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1], use_errno=True)
lib.rdma_event_str.restype = ctypes.c_char_p
assert lib.rdma_event_str(9) == b"RDMA_CM_EVENT_ESTABLISHED"
assert lib.rdma_event_str(19) == lib.rdma_event_str(-1) == b"UNKNOWN EVENT"
"""


def test_rdma_cm_is_there():
    in_child(CM, OURS["librdmacm"])


def test_sysfs_files(tmp_path):
    lib = ctypes.CDLL(str(SYSTEM / "libibverbs.so.1")), ctypes.CDLL(str(OURS["libibverbs"]))
    (tmp_path / "ends").write_bytes(b"one\ntwo\n")
    (tmp_path / "full").write_bytes(b"0123456789abcdef")
    (tmp_path / "fits").write_bytes(b"0123456789abcde\n")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("ends", "full", "fits", "empty", "none"):
        got = []
        for l in lib:
            buf = ctypes.create_string_buffer(b"x" * 16, 16)
            n = l.ibv_read_sysfs_file(str(tmp_path).encode(), name.encode(), buf, 16)
            got.append((n, buf.raw[:max(n, 0)]))
        assert n < 0 or buf.raw[n] == 0
        assert got[0] == got[1], name
