# SPDX-License-Identifier: BSD-2-Clause
"""The tests of rdma_cm in rdma-core's own suite (pyverbs), as Debian ships it: one a
process, both ends on one host, on loopback's device and on a network's.

The suite learns a device's address from the kernel, which knows of no device here: it
is shown a /sys/class that names one.  On loopback it wants an id that is bound to 127.0.0.1
to have a device, which it has if there is no other.
"""

import pytest

CLASS = """
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/infiniband/roce_{0}/device/net/{0} /sys/class/net
ln -s /sys/devices/virtual/net/lo /sys/devices/virtual/net/eth0 /sys/class/net
exec "$@"
"""
TESTS = [
    "sync_traffic", "async_traffic", "async_reject_traffic", "async_multicast_traffic",
    "async_ex_multicast_traffic", "async_ex_leave_multicast_traffic",
    "async_traffic_external_qp", "async_udp_traffic", "async_read", "async_write",
]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("device", ["eth0", "lo"])
def test_rdmacm(shared_pair, suite, device, test):
    ns = shared_pair().a.with_(outer=["unshare", "-m", "--propagation", "private", "sh",
                                      "-ec", CLASS.format(device), "sh"])
    out = ns.run("/usr/bin/python3", "-B", suite, "--dev", f"roce_{device}",
                 f"tests.test_rdmacm.CMTestCase.test_rdmacm_{test}", timeout=60,
                 env={"URNIC_DEVICES": device}).out
    assert out.splitlines()[-1] == "OK", out    # "OK (skipped=1)" is not
