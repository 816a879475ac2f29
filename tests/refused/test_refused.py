# SPDX-License-Identifier: BSD-2-Clause
"""Every call of libibverbs and librdmacm with every bad argument; the rows are in tests/refused.
These tests check that each exported symbol, each of its parameters and each operation behind a
pointer has rows, so that a new one is not forgotten.
"""

import collections
import pathlib
import re
import shutil

import lab
import pytest

PROGRAM = lab.ROOT / "build/obj/tests/refused/refused"
ABI = lab.ROOT / "tests/abi"
HEADERS = ("infiniband/verbs.h", "rdma/rdma_cma.h", "rdma/rdma_verbs.h",
           "rdma/rsocket.h")
# Objects that a program can free and then use.
OBJECTS = ("ibv_context", "ibv_pd", "ibv_comp_channel", "ibv_cq", "ibv_srq", "ibv_qp",
           "ibv_ah", "ibv_mr", "ibv_dm", "rdma_cm_id", "rdma_event_channel",
           "rdma_cm_event")
# tests/rsocket/bad.c passes bad arguments to these calls, and the same ones to Linux's sockets.
SOCKETS = re.compile(r"r(?!dma_)\w+")


@pytest.fixture(scope="module")
def rows(stage, can_namespace):
    """{call: its rows}.  The program itself fails if a call does not refuse a row's argument."""
    ns = lab.Namespace(stage)
    program = pathlib.Path(shutil.copy(PROGRAM, stage.path))
    out = ns.run(program, timeout=60).out
    ns.remove()
    found = collections.defaultdict(list)
    for call, argument in re.findall(r"^(\w[\w.]*)\t(.*)$", out, re.M):
        found[call].append(argument)
    return found


def _exports():
    names = set()
    for lib in ("libibverbs", "librdmacm"):
        for line in (ABI / f"{lib}.exports.tsv").read_text().splitlines():
            names.add(line.split("\t")[1])
    names |= set(re.findall(r"^\t\t(\w+);", (ABI / "newer_nodes.txt").read_text(), re.M))
    stubs = (lab.ROOT / "src/abi/stub.def").read_text()
    private = set(re.findall(r"^PRIVATE\(\w+, +(\w+)\)", stubs, re.M))
    # Symbols that no header declares: data, and functions for rdma-core's own drivers.
    return {n for n in names if n in private or not re.match(
        r"verbs_allow_disassociate_destroy|verbs_register_driver_|ibv_query_gid_type$|"
        r"IBVERBS_|RDMACM_|umad_", n)}


def _prototypes():
    """{call: [(type, parameter)]}."""
    text = "".join((pathlib.Path("/usr/include") / h).read_text() for h in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for name in _exports():
        at = re.search(rf"\b{name}\s*\(([^;{{]*?)\)\s*(?:__\w+\s*)*;", text)
        if at:
            words = [" ".join(w.split()) for w in at[1].split(",")]
            found[name] = [re.fullmatch(r"(.*?)(\w+)(?:\[\w*\])?", w).groups()
                           for w in words if w not in ("void", "...")]
    return found


def test_each_exported_call_has_rows(rows):
    assert len(_exports()) > 190
    assert not sorted(_exports() - set(rows))


def test_each_parameter_has_rows(rows):
    """A parameter that is an object needs rows with NULL and with a freed object, a pointer one
    with NULL, and a number one with any value."""
    missing, looked = [], 0
    stubs = (lab.ROOT / "src/abi/stub.def").read_text()
    for call, parameters in _prototypes().items():
        if SOCKETS.fullmatch(call) or re.search(rf"^NEWER.*\b{call}\b", stubs, re.M):
            continue
        for kind, name in parameters:
            has = [r for r in rows[call] if re.match(rf"{name}\b", r)]
            words = []
            if re.fullmatch(rf"(const )?struct ({'|'.join(OBJECTS)}) \*", kind):
                words = ["NULL", "freed"]
            elif kind.endswith("*") and not kind.startswith("void"):
                words = ["NULL"]
            looked += 1
            missing += [f"{call}: {name} {w}" for w in words or [""]
                        if not any(w in r for r in has)]
    assert looked > 150
    assert not missing


def test_each_operation_has_rows(rows):
    """Operations that urnic leaves out have no rows here; src/abi/ops_test.c tests them."""
    ops = re.findall(r"^\w+\(([\w.]+)\)", (lab.ROOT / "src/abi/ops.def").read_text(), re.M)
    layout = "".join((lab.ROOT / "src/abi" / f).read_text() for f in ("context.c", "ops.c"))
    ours = [o for o in ops if re.search(rf"\b{o.rpartition('.')[2]} = abi_", layout)]
    assert len(ours) > 25
    assert not sorted(set(ours) - set(rows))
