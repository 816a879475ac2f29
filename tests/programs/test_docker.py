# SPDX-License-Identifier: BSD-2-Clause
"""Everything works, by value, where a container's seccomp filter forbids process_vm_*,
userfaultfd, io_uring and what else Docker's default profile forbids: two programs of one host."""

import json
import pathlib
import shutil

import pytest

import lab
from programs import Row
from test_cm import ROWS, run_pair
from test_features import all_ran
from test_pairs import together

PLACE = "docker"


def rows():
    for kind in ("rc", "uc", "ud", "srq"):
        yield Row(f"ibv_{kind}_pingpong", ("-n", "200", "-c"))
    yield Row("ibv_rc_pingpong", ("-n", "200", "-c", "-e"))
    for program in ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw",
                    "ib_send_lat", "ib_atomic_bw", "ib_atomic_lat"):
        size = () if "atomic" in program else ("-s", "100000")
        yield Row(program, ("-n", "200", *size))
    yield Row("ib_write_bw", ("-n", "5", "-a"))
    yield Row("ib_send_bw", ("-n", "20", "-s", "1000", "-c", "UD"))


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in rows()])
def test_program(shared_pair, row):
    pair = shared_pair(1500)
    server, client = pair.place(PLACE)
    gid = "-g" if row.program.startswith("ibv_") else "-x"
    lab.run_both(server, client, [row.program, "-d", pair.a.dev, gid, "1", *row.options],
                 pair.a.ip4, timeout=lab.HANGS)


@pytest.mark.parametrize("family", ["v4", "v6"])
def test_rping(shared_pair, family):
    pair = shared_pair(1500)
    ns = pair.place(PLACE)[0]
    ip, port = (pair.a.ip4 if family == "v4" else pair.a.ip6), lab.next_port()
    row = next(r for r in ROWS if r.name == "rping")
    words = [w.format(ip=ip, port=port).split() for w in (row.server, row.client)]
    _, client = run_pair(ns, ns, *words, port)
    assert "rdma-ping-4" in client.out


@pytest.mark.parametrize("tls", ["rc_v,ud_v", "ud_v"])
def test_ucx(shared_pair, tls):
    """Messages, memory and atomics over UCX, with the contents compared."""
    if not (lab.ROOT / "build/obj/tests/ucx/ends").exists():
        pytest.skip("not built: libucx-dev was not installed; rm -r build, make tests")
    env = {"UCX_NET_DEVICES": "roce_eth0:1", "UCX_TLS": tls, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    pair = shared_pair()
    ns, _ = pair.place(PLACE)
    words = [pair.a.stage.urnic, "run", "--", pair.a.stage.tool("ucx/ends"), "data"]
    port = lab.next_port()
    server = ns.start(*words, "serve", pair.a.ip4, str(port), env=env, library=False)
    server.wait_listening(port)
    client = ns.start(*words, "ask", pair.a.ip4, str(port), env=env, library=False)
    lab.both_ended_well(client, client.wait(lab.HANGS), server, server.wait(lab.HANGS))


@pytest.mark.parametrize("ways", ["as they are", "urnic run"])
def test_features(shared_pair, stage, ways):
    """All that a device may have, with data; under `urnic run`, which could lend memory."""
    program = pathlib.Path(shutil.copy(lab.ROOT / "build/obj/tests/features/features", stage.path))
    there, here = shared_pair(1500).place(PLACE)
    words = [there.stage.urnic, "run", "--"] if ways == "urnic run" else []
    all_ran(together(there, here, lambda ns: (*words, program, "-g", "1", "-d", ns.dev),
                     there.ip4), times=2)


def test_doctor_says_what_it_costs(shared_pair):
    ns = shared_pair().place(PLACE)[0]
    found = {f["check"]: f for f in json.loads(ns.run(ns.stage.urnic, "doctor", "--json").out)}
    call, way = found["process_vm_readv"], found["same host"]
    assert call["verdict"] == way["verdict"] == "limited"
    assert "Operation not permitted" in call["detail"] and "--cap-add SYS_PTRACE" in call["do"]
    assert "through shared memory" in way["detail"] and way["costs"], way
    assert not [f for f in found.values() if f["verdict"] == "missing"], found
