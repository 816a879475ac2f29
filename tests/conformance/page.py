#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause
"""page.py: print tests/conformance/results.md, which is made from the tables in this folder.

tests/conformance/test_conformance.py fails if a device does not do what skips.tsv says, and if the page
differs from this program's output.  linux.tsv has the results of Linux's drivers.
"""

import collections
import csv
import pathlib

HERE = pathlib.Path(__file__).parent
SUITE = {44: "bookworm", 56: "trixie"}   # by release of rdma-core: those that the tables have
RELEASES = tuple(SUITE)
OURS = "roce", "roce-udp", "iwarp", "ib"
TRANSPORT = {"roce-udp": "roce"}
# For the classes of VENDORS, whose tests want a device of that vendor.
NOT_RUN = "skipped", "not run: for the hardware of one vendor"
VENDORS = "mlx5 hardware", "efa hardware", "CUDA hardware"

HEAD = """\
# Conformance

This page shows the results of rdma-core's own tests, the pyverbs suite of Debian's package (44.0,
`/usr/share/doc/rdma-core/tests`): {all} tests, of which {vendors} are for the hardware of one vendor.
`tests/conformance/page.py` makes the page from the tables beside it; `make check` fails where a test does something
else than they say. Each test runs twice in a process of its own, and fails if it leaves anything behind: a descriptor,
a thread, a mapping of memory.

| column | device |
|---|---|
{linux}| roce | urnic, by the ways that processes of one host have |
| roce-udp | urnic, UDP sockets (`URNIC_LOCAL=off`) |
| iwarp | urnic, iWARP |
| ib | urnic, an adapter of a fabric: `urnic fabric exec -s FILE star:2 -- env URNIC_HCA=node1 ...`, where FILE gives it \
the address of an interface, as IP over InfiniBand would |

The tests of raw packet QPs, their rules and RSS run as root, as they ask; all others run as nobody, with no capability.
The tests of rdma_cm also run by `roce_lo`, and must give the results of the column roce.

"""

# The first {} is replaced with the devices, the second with the kernel that the table is from.
PEERS = """\
| {} | Linux's software devices (kernel {}), in the virtual machine of `tests/peer-vm`: \
`scripts/system-tests --full tests/conformance/test_conformance_linux.py`, a part of `make check-full`; \
those for one vendor's hardware count as skipped, and were not run |
"""


def table(name, release=None):
    """The rows of a table; of those with a first or a last release, only what `release` has."""
    with open(HERE / name, encoding="ascii") as file:
        rows = list(csv.DictReader((line for line in file if not line.startswith("#")),
                                   delimiter="\t"))
    return [row for row in rows if release is None or
            int(row.get("first") or 0) <= release <= int(row.get("last") or release)]


LINUX = sorted({row["device"] for row in table("linux.tsv")})
COLUMNS = *LINUX, *OURS


def peers():
    if not LINUX:
        return ""
    with open(HERE / "linux.tsv", encoding="ascii") as file:
        return PEERS.format(", ".join(LINUX), file.readline().split()[-1])


def outcomes(release):
    """{(test, column): (outcome, why)}"""
    tests = [row["test"] for row in table("pyverbs.tsv", release)]
    found = {}
    for column in OURS:
        found.update({(t, column): ("passed", "") for t in tests})
    for row in table("skips.tsv", release):
        for column in OURS:
            if row["device"] in ("any", TRANSPORT.get(column, column)):
                found[row["test"], column] = ("skipped", row["why"])
    for row in table("linux.tsv"):
        found[row["test"], row["device"]] = (row["result"], row["why"])
    return found


def by_release(release):
    """{class: its tests} of that release's suite."""
    classes = {}
    for row in table("pyverbs.tsv", release):
        classes.setdefault(row["class"], []).append(row["test"])
    return classes


def by_class(classes, found):
    yield "## By class\n"
    yield "Each cell has the numbers of tests that passed, failed and were skipped.\n"
    yield "| class | of | " + " | ".join(COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    sums = collections.Counter()
    total = 0
    for kind, tests in sorted(classes.items()):
        cells = []
        for column in COLUMNS:
            n = collections.Counter(found.get((t, column), NOT_RUN)[0] for t in tests)
            cells.append(counts(n))
            if kind not in VENDORS:
                sums.update({(column, outcome): k for outcome, k in n.items()})
        total += 0 if kind in VENDORS else len(tests)
        yield f"| {kind} | {len(tests)} | " + " | ".join(cells) + " |"
    cells = (counts({o: sums[c, o] for o in ("passed", "failed", "skipped")}) for c in COLUMNS)
    yield f"| all but one vendor's | {total} | " + " | ".join(cells) + " |\n"


def counts(n):
    return ", ".join(str(n.get(o, 0)) for o in ("passed", "failed", "skipped"))


def lacking(found):
    """The tests that roce passes and the adapter of a fabric cannot, by reason."""
    lacks = {}
    for test in (t for t, column in found if column == "ib"):
        outcome, why = found[test, "ib"]
        if outcome != "passed" and found[test, "roce"][0] == "passed":
            lacks.setdefault(why, []).append(f"`{test.removeprefix('test_')}`")
    yield "What roce passes and ib does not:\n"
    yield from (f"- {', '.join(tests)}: {why}" for why, tests in lacks.items())
    yield ""


def each(classes, found, columns, notes):
    """A line for each test; why it did not pass is a number of the notes."""
    yield "| test | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for kind, tests in classes.items():
        if kind in VENDORS:
            continue
        for test in tests:
            cells = []
            for column in columns:
                outcome, why = found.get((test, column), NOT_RUN)
                if outcome == "passed":
                    cells.append("ok")
                else:
                    note = notes.setdefault(why, len(notes) + 1)
                    cells.append(f"{'F' if outcome == 'failed' else ''}{note}")
            yield f"| {test.removeprefix('test_')} | " + " | ".join(cells) + " |"
    yield ""


def every(classes, found):
    notes = {}
    yield "## Each test\n"
    yield "`ok`: passed; a number: skipped, for the reason of that number below; `F`: failed.\n"
    yield from each(classes, found, COLUMNS, notes)
    for release in RELEASES[1:]:
        yield from newer(release, notes)
    for why, number in notes.items():
        yield f"{number}. {why}"


def newer(release, notes):
    """What that release's suite has beside the one before it."""
    known = {t for tests in by_release(RELEASES[RELEASES.index(release) - 1]).values() for t in tests}
    classes = {kind: [t for t in tests if t not in known]
               for kind, tests in by_release(release).items()}
    vendors = sum(len(classes[kind]) for kind in VENDORS)
    tests = sum(map(len, classes.values()))
    yield f"## Release {release}\n"
    yield (f"The suite of rdma-core {release} has {tests} more tests, {vendors} of them for the hardware "
           f"of one vendor.\n`scripts/bare-check {SUITE[release]}` runs it on that Debian; "
           "its other tests do what this page says above.\n")
    yield from each(classes, outcomes(release), OURS, notes)


def page():
    classes = by_release(RELEASES[0])
    found = outcomes(RELEASES[0])
    vendors = sum(len(classes[kind]) for kind in VENDORS)
    head = HEAD.format(all=sum(map(len, classes.values())), vendors=vendors, linux=peers())
    return head + "\n".join((*by_class(classes, found), *lacking(found), *every(classes, found))) + "\n"


if __name__ == "__main__":
    print(page(), end="")
