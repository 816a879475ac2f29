# SPDX-License-Identifier: BSD-2-Clause
"""Errors between two QPs.  tests/pairs plays each row; both ends must see what the specification
says, or what tests/pairs/differs.tsv says for that device.  tests/pairs/errors.md is made from both."""

import itertools
import pathlib
import re
import shutil

import pytest

import lab
from pairs import page
from subnet import Fabric, TWO
from tool import need

LIMIT = 300
LOOPBACK = "127.0.0.1"
ROWS = page.rows() if page.PROGRAM.exists() else []
DIFFERS = page.differs()


# siw's outcomes that depend on chance, each with the outcome that it counts as.  SENDs may
# complete before a READ that was posted before them.  A request that has gone out whole fails if
# B's FIN arrives before siw's sender runs again (docs/dev/iwarp.md).
SIW_CHANCE = {
    " DISORDER": "",
    "OK LOC_QP_OP, FLUSH*2, RESET QP_FATAL": "OK*2, FLUSH*2, RESET",
}


def expected(device):
    """{row: what both ends must see}, without the rows that the device does not support."""
    want = {}
    for row in ROWS:
        a, b, *_ = DIFFERS.get((device, row.name), row.seen(device) or ("", ""))
        if a and row.seen(device):
            want[row.name] = a, b
    return want


def seen(out):
    """{row: what both ends saw}, from the program's output."""
    found = {}
    for name, end, what in (line.split("\t") for line in out.splitlines()
                            if not line.startswith("urnic[")):  # the log
        found.setdefault(name, {})[end] = what
    return {name: (ends.get("A", ""), ends.get("B", "")) for name, ends in found.items()}


def compare(device, out):
    """Assert that nothing differs.  The message has a line for each difference, with the row as
    differs.tsv would have it."""
    if device == "siw":
        for chance, what in SIW_CHANCE.items():
            out = out.replace(chance, what)
    want, found = expected(device), seen(out)
    wrong = [f"{device}\t{name}\t" + "\t".join(found.get(name, ("nothing", "")))
             + f"\texpected: {want.get(name)}"
             for name in dict.fromkeys((*want, *found)) if want.get(name) != found.get(name)]
    assert not wrong, "\n".join(wrong)
    assert found


def names(device):
    return list(expected(device))


@pytest.fixture(scope="module")
def program(stage):
    return pathlib.Path(shutil.copy(page.PROGRAM, stage.path))


def test_the_table_is_whole():
    assert len(ROWS) > 190 and len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.clause and row.a and row.b for row in ROWS)
    assert all(bool(row.rfc) == bool(row.ia) == bool(row.ib) for row in ROWS)
    assert {name for _, name in DIFFERS} <= {row.name for row in ROWS}
    assert {device for device, _ in DIFFERS} <= {*page.IB, *page.IWARP}


def test_the_page_is_of_the_rows():
    """tests/pairs/errors.md is what `tests/pairs/page.py` prints."""
    assert (lab.ROOT / "tests/pairs/errors.md").read_text() == page.page()


@pytest.mark.parametrize("device, env", [
    ("host", {"URNIC_LOCAL": "auto"}), ("udp", {"URNIC_LOCAL": "off"}),
], ids=["host", "udp"])
def test_one_process(host, program, device, env):
    compare(device, host.with_env(**env).run(program, *names(device), timeout=LIMIT).out)


def together(there, here, argv, address):
    """Run a process at each end; return B's and A's lines."""
    port = lab.next_port()
    b = there.start(*argv(there), "-p", port)
    b.wait_listening(port)
    a = here.start(*argv(here), "-p", port, "-c", address)
    rcs = a.wait(LIMIT), b.wait(lab.HANGS)
    assert rcs == (0, 0), f"{rcs}\na: {a.describe()}\nb: {b.describe()}"
    return a.out + b.out


@pytest.mark.parametrize("gid", ["v4", pytest.param("v6", marks=pytest.mark.full)])
@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_two_processes(shared_pair, program, place, gid):
    there, here = shared_pair(1500).place(place)
    if place == "users":    # no warning that the other user forwards, among the rows
        there, here = (ns.with_env(URNIC_SHARE="host") for ns in (there, here))
    compare("udp" if place in ("pair", "udp") else "host", together(
        there, here, lambda ns: (program, "-g", lab.Pair.GIDS[gid], "-d", ns.dev), there.ip4))


PARTITIONS = """\
Default=0x7fff: ALL=full;
five=0x0005: {a}=full, {b}=full;
six=0x0006: {a}=limited, {b}=limited;
seven=0x0007: {a}=limited, {b}=full;
"""


@pytest.mark.parametrize("switches", ["both", "off"])
def test_fabric(netns, program, switches):
    """An adapter for each end; packets of another partition are dropped at a switch or at the
    port."""
    need("opensm")
    f = Fabric(netns, TWO)
    guids = {name: f.run(name, "ibstat", "-p").split()[0] for name in "ab"}
    parts = f.dir / "partitions"
    parts.write_text(PARTITIONS.format(**guids))
    f.opensm("a", "-P", str(parts), "-Z", switches)
    here, there = (f.at(name).with_(dev=f"ib_{name}") for name in "ab")
    compare("ib", together(there, here, lambda ns: (program, "-g", 0, "-d", ns.dev), LOOPBACK))


def test_iwarp(host, program, stage):
    """Each row runs in a process of its own, whose log says which Terminate was sent."""
    log = stage.tmp / "pairs.log"
    ns = host.with_env(URNIC_DEVICES="iwarp_lo", URNIC_LOG=f"info:{log}")
    out, wrong = "", []
    for row in ROWS:
        if row.name not in expected("iwarp"):
            continue
        log.unlink(missing_ok=True)
        out += ns.run(program, "-i", LOOPBACK, row.name).out
        text = log.read_text() if log.exists() else ""
        said = re.findall(r"this end terminates the connection: (.*?)(?: \(|$)", text, re.M)
        came = ["/".join(code) for code in re.findall(
            r"the peer terminates the connection: .* \(0x(.)(.)(..)\)$", text, re.M)]
        if (said, came) != (([row.term], [page.TERMINATES[row.term]]) if row.term else ([], [])):
            wrong.append(f"{row.name}: {said} {came}, not {row.term}")
    compare("iwarp", out)
    assert not wrong, "\n".join(wrong)


LINUX = {"rxe": "-d rxe0 -g 1", "siw": "-i 10.77.2.11"}


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("device", LINUX)
def test_linux(vm_session, program, tmp_path, device):
    """For comparison: Linux's drivers are not ours to judge, but a change in what they do is
    noticed."""
    expect = tmp_path / "expect"
    expect.write_text("".join(f"{name}\t{end}\t{what}\n" for name, ends in expected(device).items()
                              for end, what in zip("AB", ends)))
    for path, to in ((program, "/tmp/pairs"), (expect, "/tmp/expect")):
        with open(path, "rb") as file:
            assert vm_session.feed(f"cat >{to}; chmod +x {to}", file).returncode == 0
    out = ""
    for some in itertools.zip_longest(*[iter(names(device))] * 20, fillvalue=""):
        rc, said = vm_session.guest(f"timeout {LIMIT} /tmp/pairs {LINUX[device]} -t 1000 "
                                    f"-e /tmp/expect {' '.join(some)}", LIMIT)
        assert rc == 0, said
        out += said
    compare(device, out)
