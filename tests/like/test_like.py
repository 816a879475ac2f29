# SPDX-License-Identifier: BSD-2-Clause
"""URNIC_LIKE: each device of sys/like.def keeps its limits and lacks what it lacks, and programs
that work on urnic and fail on hardware fail."""

import errno
import itertools
import re
import resource

import pytest

import lab
from tool import bad, good, urnic

HARD = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
DEF = (lab.ROOT / "src/sys/like.def").read_text()
DEVICES = re.findall(r"^DEVICE\((\w+),", DEF, re.M)
OPEN = 2 ** 64 - 1
MEMLOCK = ":".join(["unlimited" if HARD < 0 else str(HARD)] * 2)


def value(text):
    return OPEN if text.strip() == "OPEN" else eval(text.replace("ull", ""), {})


LIMITS = {name: dict(zip(DEVICES, map(value, values.split(","))))
          for name, values in re.findall(r"^LIMIT\((\w+), +(.*)\)$", DEF, re.M)}
HAS = {name: dict(zip(DEVICES, (v.strip() == "1" for v in values.split(","))))
       for name, values in re.findall(r'^FEATURE\((\w+), +"[^"]*", +(.*)\)$', DEF, re.M)}
ALSO = {name: dict(zip(DEVICES, (v.strip() == "1" for v in values.split(","))))
        for name, values in re.findall(r"^ALSO\((\w+), +(.*?)\)", DEF, re.M)}
DEPTHS = {name: dict(zip(DEVICES, map(str.strip, ways.split(","))))
          for name, ways in re.findall(r"^DEPTH\((\w+), +(.*)\)$", DEF, re.M)}
VENDORS = {name: dict(zip(DEVICES, map(value, values.split(","))))
           for name, values in re.findall(r"^VENDOR\((\w+), +(.*)\)$", DEF, re.M)}
TOGETHER = {**{d: [d] for d in DEVICES}, "mlx5,bnxt": ["mlx5", "bnxt"], "strict": DEVICES}
# What is refused by another error than EINVAL
ERRORS = {"max_pd": errno.ENOMEM}


@pytest.fixture
def ns(shared_pair):
    """A host where programs may lock as much memory as this user."""
    return shared_pair().place("host")[0].with_(memlock=MEMLOCK)


@pytest.fixture(scope="module")
def program(stage):
    return stage.tool("like/like")


def run(ns, program, what, like="", **env):
    env = {**({"URNIC_LIKE": like} if like else {}), "URNIC_LOG": "info", **env}
    return ns.with_env(**env).run(program, "-d", ns.dev, what, check=False)


def said(proc):
    return [line for line in proc.out.splitlines() if not line.startswith("urnic[")]


def limits(ns, program, like=""):
    proc = run(ns, program, "limits", like)
    assert proc.popen.returncode == 0, proc.describe()
    rows = map(str.split, said(proc))
    return proc, [(name, *map(int, rest)) for name, *rest in rows]


OWN = {}


@pytest.fixture
def own(ns, program):
    """urnic's own limits, which nothing raises."""
    if not OWN:
        OWN.update((name, limit) for name, limit, _, _ in limits(ns, program)[1])
    return OWN


@pytest.mark.parametrize("like", ["", *TOGETHER])
def test_each_limit(ns, program, own, like):
    """At the limit it works; one more is refused, and the line says whose limit it is."""
    proc, rows = limits(ns, program, like)
    assert {row[0] for row in rows} >= LIMITS.keys() - {"max_mr_size"}
    for name, limit, at, above in rows:
        of = {d: LIMITS.get(name, {}).get(d, OPEN) for d in TOGETHER.get(like, [])}
        has_srq = all(HAS["SRQ"][d] for d in of)
        most = min([own.get(name, OPEN), *of.values()])
        if name.startswith("max_srq") and not has_srq:
            most = 0
        assert limit == most, (name, limit, most)
        assert at == 0, (name, proc.describe())
        refused = (errno.EOPNOTSUPP if name.startswith("max_srq") and not has_srq
                   else ERRORS.get(name, errno.EINVAL))
        if name == "atomic_cap" and limit:
            continue
        assert above == refused, (name, proc.describe())
        whose = [d for d in of if of[d] == most]
        if (whose and name not in ("gid_tbl_len", "atomic_cap") and has_srq
                and (name != "max_sge_rd" or most < min(LIMITS["max_sge"][d] for d in of))):
            assert any(f"; {d} has {name} {most}" in proc.out for d in whose), name


def test_every_column_is_a_device():
    assert DEVICES == ["mlx5", "rxe", "siw", "irdma", "bnxt", "ionic"]
    for table in (LIMITS, HAS, ALSO, DEPTHS, VENDORS):
        for name, row in table.items():
            assert list(row) == DEVICES, name


def test_every_value_has_its_source():
    """docs/dev/like.md has a row for each limit and feature, and a source for each value."""
    page = (lab.ROOT / "docs/dev/like.md").read_text()
    for name in itertools.chain(LIMITS, HAS, ALSO, DEPTHS, VENDORS):
        assert re.search(rf"^\| {name} \|", page, re.M), name
    for device in DEVICES:
        assert re.search(rf"^\| {device} \|", page, re.M), device


@pytest.mark.parametrize("like", ["", *TOGETHER])
def test_gids(ns, like):
    """Where all have them, each GID is there as RoCE v1, and then as v2."""
    out = ns.with_env(URNIC_LIKE=like).run("ibv_devinfo", "-v", "-d", ns.dev).out
    got = re.findall(r"GID\[ *(\d+)\]:\s+(\S+?),? *(RoCE v\d|)\n", out)
    twice = bool(like) and all(ALSO["V1_GIDS"][d] for d in TOGETHER[like])
    kinds = ["RoCE v1", "RoCE v2"] if twice else ["RoCE v2"]
    assert [kind or "RoCE v1" for _, _, kind in got] == kinds * 3, out
    assert [int(i) for i, _, _ in got] == list(range(3 * len(kinds))), out
    heads = zip(got[len(kinds) - 1::len(kinds)], ("fe80:", "::ffff:", "fd88:"))
    assert all(ip.startswith(head) for (_, ip, _), head in heads), out


@pytest.mark.parametrize("index", range(4))
def test_each_gid_is_used(shared_pair, index):
    """Those of RoCE v1, too, between two hosts, whose packets are of v2 by UDP."""
    server, client = (n.with_(memlock=MEMLOCK).with_env(URNIC_LIKE="mlx5") for n in shared_pair().place("pair"))
    lab.run_both(server, client, ["ibv_rc_pingpong", "-d", server.dev, "-g", str(index), "-n", "50"], server.ip4)


def deeper(n, way):
    size = 1 if way == "POW2" else 2
    while way != "EXACT" and size - (way == "POW2_1") < n:
        size *= 2
    return n if way == "EXACT" else size - (way == "POW2_1")


@pytest.mark.parametrize("like", ["", *TOGETHER])
def test_each_depth(ns, program, like):
    """A queue has what that driver makes of it, of several the lowest."""
    proc = run(ns, program, "depths", like)
    rows = [(name, int(n), int(got)) for name, n, got in map(str.split, said(proc))]
    assert {row[0] for row in rows} == DEPTHS.keys(), proc.describe()
    for name, n, got in rows:
        want = min([deeper(n, DEPTHS[name][d]) for d in TOGETHER.get(like, [])], default=n)
        if name == "cqe":
            want = max(4, want)     # the least of all CQs
        if name == "max_srq_wr" and not all(HAS["SRQ"][d] for d in TOGETHER.get(like, [])):
            want = 0
        assert got == want, (name, n, got)


@pytest.mark.parametrize("like", ["", *TOGETHER])
def test_each_vendor_err(ns, program, like):
    """One device's errors have its values, several devices' and unknown ones urnic's."""
    own = {"LOC_PROT_ERR": 2, "REM_ACCESS_ERR": 9, "RNR_RETRY_EXC_ERR": 7, "WR_FLUSH_ERR": 1}
    status = {"LOC_PROT_ERR": 4, "REM_ACCESS_ERR": 10, "RNR_RETRY_EXC_ERR": 13, "WR_FLUSH_ERR": 5}
    proc = run(ns, program, "vendors", like)
    rows = [(name, *map(int, rest)) for name, *rest in map(str.split, said(proc))]
    assert {row[0] for row in rows} == own.keys(), proc.describe()
    for name, code, *got in rows:
        of = VENDORS[name].get(like, OPEN)
        assert code == status[name] and got == [own[name] if of == OPEN else of] * 2, (name, proc.describe())


@pytest.mark.parametrize("like", ["", *TOGETHER])
def test_each_feature(ns, program, like):
    """What a device lacks is refused, and the line says who lacks it; all else works."""
    proc = run(ns, program, "features", like)
    got = {name: int(rc) for name, rc in map(str.split, said(proc))}
    assert got.keys() == HAS.keys(), proc.describe()
    for name, rc in got.items():
        lack = [d for d in TOGETHER.get(like, []) if not HAS[name][d]]
        refused = errno.EINVAL if name in ("ATOMICS", "IMM") else errno.EOPNOTSUPP
        assert rc == (refused if lack else 0), (name, proc.describe())
    for name, text in re.findall(r'^FEATURE\((\w+), +"([^"]*)"', DEF, re.M):
        if got[name] and name != "MCAST":
            assert re.search(rf"refused: \w+ has no {re.escape(text)} \(URNIC_LIKE\)", proc.out), name


# What works without URNIC_LIKE, and how it fails on the devices.
HIDDEN = {
    "late-receive": ("RNR retry counter exceeded", lambda d: True),
    "other-mtu": ("remote invalid request error", lambda d: True),
    "other-mtu-send": ("remote invalid request error", lambda d: True),
    "other-mtu-read": ("", lambda d: True),
    "wide": ("create_qp: Invalid argument",
             lambda d: LIMITS["max_sge"][d] < 16 or LIMITS["max_inline_data"][d] < 512),
    "memlock": ("reg_mr: Cannot allocate memory", lambda d: True),
    "sparse": ("sparse: all pages are in memory", lambda d: True),
    "srq": ("create_srq: Operation not supported", lambda d: not HAS["SRQ"][d]),
    "window": ("alloc_mw: Operation not supported", lambda d: not HAS["MW"][d]),
    "atomics": ("post_send: Invalid argument", lambda d: not HAS["ATOMICS"][d]),
    "datagrams": ("create_qp: Operation not supported", lambda d: not HAS["UD"][d]),
    "gather-read": ("post_send: Invalid argument", lambda d: LIMITS["max_sge_rd"][d] < 2),
}


@pytest.mark.parametrize("what", [*HIDDEN, "other-mtu-short"])
def test_works_without(ns, program, what):
    # By packets the wait for a receive is long, so that no busy machine outlasts it.
    proc = run(ns, program, what, **({"URNIC_LOCAL": "off"} if what == "late-receive" else {}))
    assert proc.popen.returncode == 0 and said(proc) == ["ok"], proc.describe()


@pytest.mark.parametrize("like", TOGETHER)
@pytest.mark.parametrize("what", HIDDEN)
def test_fails_as_on_hardware(ns, program, what, like):
    text, fails = HIDDEN[what]
    proc = run(ns, program, what, like)
    if not any(map(fails, TOGETHER[like])):
        assert proc.popen.returncode == 0, proc.describe()
        return
    assert proc.popen.returncode == 3, proc.describe()
    assert said(proc)[-1].lower().startswith(text.lower()), proc.describe()


@pytest.mark.parametrize("like", TOGETHER)
def test_one_packet_of_either_mtu(ns, program, like):
    proc = run(ns, program, "other-mtu-short", like)
    assert proc.popen.returncode == 0, proc.describe()


def test_the_log_says_what_is_on(ns, program):
    proc = run(ns, program, "srq", "mlx5,irdma")
    assert "devices are like mlx5,irdma (URNIC_LIKE)" in proc.out
    assert "create_srq refused: irdma has no shared receive queues (URNIC_LIKE)" in proc.out
    assert "processes of this host are reached by UDP: URNIC_LIKE is set" in proc.out
    proc = run(ns, program, "srq")
    assert "URNIC_LIKE" not in proc.out


def test_an_unknown_device(ns, program):
    proc = run(ns, program, "srq", "mlx4")
    assert proc.popen.returncode == 1
    assert "URNIC_LIKE: 'mlx4' is not strict, mlx5, rxe, siw, irdma, bnxt or ionic" in proc.out


def test_devinfo_shows_it(ns):
    out = ns.with_env(URNIC_LIKE="mlx5").run("ibv_devinfo", "-v").out
    assert re.search(r"fw_ver:\s+1\.0\.0 \(like mlx5\)", out)
    assert re.search(r"max_sge:\s+30\n", out)
    out = ns.with_env(URNIC_LIKE="mlx5", URNIC_IDENTITY="connectx").run("ibv_devinfo").out
    assert "like" not in out


@pytest.mark.parametrize("name,near", [("mlx4", "mlx5"), ("irmda", "irdma"), ("nonsense", ""), ("mlx5,six", "siw"),
                                       ("stict", "strict")])
def test_the_nearest_name_is_suggested(name, near):
    err = bad(2, "is not strict, mlx5, rxe, siw, irdma, bnxt or ionic", "run", "--like", name, "true")
    assert (f"did you mean {near}?" in err) if near else "did you mean" not in err


def test_conf_and_doctor_say_which():
    assert "like = mlx5\t(URNIC_LIKE)" in good("conf", env={"URNIC_LIKE": "mlx5"})
    doctor = urnic("doctor", env={"URNIC_LIKE": "siw,bnxt"}).stdout
    assert re.search(r"configuration +URNIC_LIKE, devices are like siw,bnxt", doctor), doctor
