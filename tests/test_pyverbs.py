# SPDX-License-Identifier: BSD-2-Clause
"""Tests of rdma-core's own suite (pyverbs), as Debian ships it: one a process,
as an ordinary user, both ends on one host."""

import pytest

DEVICE = [f"test_device.DeviceTest.{t}" for t in (
    "test_query_device", "test_query_device_ex", "test_query_gid",
    "test_query_gid_table", "test_query_gid_table_bad_flow", "test_query_gid_ex",
    "test_query_port")]
ROCE = [
    *DEVICE,
    "test_device.DeviceTest.test_query_gid_ex_bad_flow",
    *(f"test_mr.MWTest.{t}" for t in (
        "test_mw_type1", "test_invalidate_mw_type1", "test_mw_type2",
        "test_mw_type2_invalidate_local", "test_mw_type2_invalidate_remote",
        "test_mw_type2_invalidate_dealloc", "test_reg_mw_wrong_type")),
    "test_qpex.QpExTestCase.test_qp_ex_rc_bind_mw",
]


def run(ns, suite, device, test, **env):
    out = ns.run("/usr/bin/python3", "-B", suite, "--dev", device, f"tests.{test}",
                 env=env, timeout=60).out
    assert out.splitlines()[-1] == "OK", out    # "OK (skipped=1)" is not


@pytest.mark.parametrize("test", ROCE)
def test_roce(shared_pair, suite, test):
    run(shared_pair().a, suite, "roce_eth0", test)


@pytest.mark.parametrize("test", DEVICE)
def test_iwarp(shared_pair, suite, test):
    run(shared_pair().a, suite, "iwarp_eth0", test, URNIC_DEVICES="iwarp_eth0")
