# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own suite (pyverbs) with each device of URNIC_LIKE: a test passes, or skips itself since
the device lacks what it asks for."""

import pytest

from conformance import test_conformance as conformance
from test_like import DEVICES

pytestmark = pytest.mark.full
# It makes a UD QP, and fails instead of skipping itself where there is none.
NO_UD = {"test_rdmacm.CMTestCase.test_rdmacm_async_udp_traffic"}


@pytest.mark.parametrize("like", [*DEVICES, "strict"])
def test_passes_or_skips(pairs, suite, monkeypatch, like):
    monkeypatch.setattr(conformance, "TIMES", "0")
    runner = suite.parent.parent / conformance.RUNNER.name
    runner.write_bytes(conformance.RUNNER.read_bytes())
    tests = [t for t in conformance.running("roce-udp")
             if conformance.KIND[t] not in conformance.ROOTS]
    ns = pairs(1500).a.with_(caps=("ipc_lock",)).with_env(URNIC_LIKE=like)
    rows = conformance.batch(ns, suite.parent, runner, "roce-udp", tests, "nobody")
    failed = {t: row for t, row in rows.items() if row["result"] == "failed"}
    assert failed.keys() <= (NO_UD if like in ("siw", "strict") else set()), failed
    passed = [t for t, row in rows.items() if row["result"] == "passed"]
    print(f"{like}: {len(passed)} of {len(tests)} passed")
    assert len(passed) >= 40
