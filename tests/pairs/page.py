#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause
"""page.py: print tests/pairs/errors.md, which is made from the rows of tests/pairs and differs.tsv.

tests/pairs/test_pairs.py fails if a device does something else than these say, and if the page differs
from this program's output.
"""

import csv
import pathlib
import re
import subprocess
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE.parent.parent / "build/obj/tests/pairs/pairs"
IB = "host", "udp", "ib", "rxe"
IWARP = "iwarp", "siw"
# Layer, type and code of a Terminate, as IANA's registry "RDDP" has them (RFC 5040, 4.8; RFC
# 5041, 8.2)
TERMINATES = {
    "RDMAP: local catastrophic error": "0/0/00",
    "RDMAP: invalid STag": "0/1/00",
    "RDMAP: base or bounds violation": "0/1/01",
    "RDMAP: access rights violation": "0/1/02",
    "RDMAP: STag not associated with the stream": "0/1/03",
    "RDMAP: TO wrap": "0/1/04",
    "RDMAP: STag cannot be invalidated": "0/1/09",
    "RDMAP: unspecific operation error": "0/2/ff",
    "DDP: invalid STag": "1/1/00",
    "DDP: base or bounds violation": "1/1/01",
    "DDP: STag not associated with the stream": "1/1/02",
    "DDP: TO wrap": "1/1/03",
    "DDP: invalid MSN, no buffer available": "1/2/02",
    "DDP: message too long for the buffer": "1/2/05",
}

HEAD = """\
# Errors between two QPs

QP A posts a request that something is wrong with, at A's end or at B's. This page says what both ends see.
`tests/pairs/page.py` makes the page from the {rows} rows of `tests/pairs/rows_*.c`; `tests/pairs/test_pairs.py` plays each
row by all the ways below that have it, and fails where an end sees something else. The columns A and B are what the
text says: the InfiniBand Architecture Specification, volume 1, chapters 9 to 11 and annexes, by section or by number of
the clause; for iWARP RFC 5040, 5041 and 7306.

| column | device |
|---|---|
| host | urnic, RoCE v2, by the ways that two QPs of one process, or of two processes of one host, have |
| udp | urnic, RoCE v2 by UDP: `URNIC_LOCAL=off`, and two hosts |
| ib | urnic, an adapter of a fabric |
| rxe | Linux's rdma_rxe in the virtual machine of `tests/peer-vm` (`--full`): the yardstick |
| iwarp | urnic, iWARP |
| siw | Linux's siw in that machine; its `query_qp` says RESET whatever the state is, and a READ may complete after SENDs behind it: neither is looked at |

What an end has seen is one line. It lists how the work requests of the end's send queue completed, then those of its
receive queue, then the QP's state with its asynchronous events (`-`: nothing completed), and `changed` if the memory
that the row is about has changed.

    OK REM_ACCESS FLUSH*2, FLUSH*2, ERR QP_FATAL

A posts a good SEND, the request of the row, and two good SENDs behind it, all at once; over iWARP the two SENDs follow
when the request has failed. Where the row is about a receive or a state of QPs, there is no SEND ahead. A has two
receives posted, B four. Completions of a queue come in the order of its work requests. A third QP of either device
exchanges SENDs, WRITEs and READs before and after each row: it is never harmed.

| word | means |
|---|---|
| `WAITS` | nothing completes for a while |
| `EINVAL` | the post is refused |
| `..` | how many is left to chance |

A Terminate is shown as its layer, type and code, as it came over the wire, and their meaning. Windows of type 2 are 2B
(`IBV_DEVICE_MEM_WINDOW_TYPE_2B`): a device has 2A or 2B, and none here has 2A.

In the columns of devices `=` means that the device does what the text says; a number is a note below the table; `-`
means that the device has no such thing, or has not played the row.

"""


def stateless(line):
    """The same events for a device whose query_qp does not report a QP's state."""
    return re.sub(r"(.*, )\w+", r"\1RESET", line)


class Row(NamedTuple):
    group: str
    name: str
    what: str
    clause: str
    a: str
    b: str
    rfc: str
    term: str
    ia: str
    ib: str
    only: str

    def seen(self, device):
        """What both ends see on the device by the specification; None if the row is not for it."""
        a, b = (self.ia, self.ib) if device in IWARP else (self.a, self.b)
        if device == "siw":
            a, b = stateless(a), stateless(b)
        return (a, b) if a and self.only in ("", device) else None


def rows():
    out = subprocess.run([PROGRAM, "-l"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return [Row(*line.split("\t")) for line in out.splitlines()]


def differs():
    """The rows of differs.tsv: {(device, row): (what A sees, what B sees, why)}."""
    with open(HERE / "differs.tsv", encoding="ascii") as file:
        table = csv.DictReader((line for line in file if not line.startswith("#")),
                               delimiter="\t", quoting=csv.QUOTE_NONE)
        return {(r["device"], r["row"]): (r["a"], r["b"], r["why"]) for r in table}


def cell(device, row, found, notes):
    if not row.seen(device):
        return "-"
    if (device, row.name) not in found:
        return "="
    a, b, why = found[device, row.name]
    if not a:
        return f"- {notes.setdefault(why, len(notes) + 1)}"
    note = f"{why}: `{a}`; `{b}`"
    return str(notes.setdefault(note, len(notes) + 1))


def table(some, devices, found):
    """The lines of a table of some rows, with a cell for each device and footnotes."""
    notes = {}
    for row, words in some:
        cells = (cell(d, row, found, notes) for d in devices)
        yield f"| {row.name} | " + " | ".join((*words, *cells)) + " |"
    yield ""
    for note, number in notes.items():
        yield f"{number}. {note}"
    if notes:
        yield ""


def told(row):
    """The name and numbers of the Terminate that ends the row's connection."""
    return f"{TERMINATES[row.term]} {row.term}" if row.term else "-"


def page():
    all_rows, found = rows(), differs()
    lines = []
    for group in dict.fromkeys(r.group for r in all_rows):
        some = [(r, (r.what, r.clause, f"`{r.a}`", f"`{r.b}`"))
                for r in all_rows if r.group == group and r.a]
        lines += [f"## {group}", "", "| row | what | clause | A | B | " + " | ".join(IB) + " |",
                  "|---|---|---|---|---|" + "---|" * len(IB), *table(some, IB, found)]
    some = [(r, (r.what, f"RFC {r.rfc}", told(r), f"`{r.ia}`", f"`{r.ib}`"))
            for r in all_rows if r.ia]
    lines += ["## iWARP", "", "| row | what | section | Terminate | A | B | " + " | ".join(IWARP)
              + " |", "|---|---|---|---|---|---|" + "---|" * len(IWARP),
              *table(some, IWARP, found)]
    return HEAD.format(rows=len(all_rows)) + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
