# SPDX-License-Identifier: BSD-2-Clause
"""A test that needs an RDMA device: memory of a device can be registered, and has keys."""

import pyverbs.device as d
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD


def test_memory_has_keys():
    devices = d.get_device_list()
    assert devices
    with d.Context(name=devices[0].name.decode()) as context:
        mr = MR(PD(context), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
        mr.write("hello", 5)
        assert mr.lkey and mr.rkey
        assert mr.read(5, 0) == b"hello"
