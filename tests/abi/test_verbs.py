# SPDX-License-Identifier: BSD-2-Clause
"""Each case of verbs.c, as user nobody, on the loopback of a namespace of its own."""

import pathlib
import re
import shutil
import subprocess
import sys

import lab
import pytest

SOURCE = pathlib.Path(__file__).with_name("verbs.c")
CASES = re.findall(r'\{ "(\w+)", \1 \}', SOURCE.read_text())


@pytest.fixture(scope="module")
def verbs(stage):
    """The program, linked with the distribution's libibverbs, as other programs are."""
    program = stage.path / "verbs"
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                    "-O1", "-g", "-o", program, SOURCE,
                    *SOURCE.parent.glob("verbs_*.c"), "-libverbs"], check=True)
    return program


@pytest.fixture(scope="module")
def host(stage, can_namespace):
    ns = lab.Namespace(stage)
    yield ns
    ns.remove()


def test_every_case_is_here(host, verbs):
    listed = host.run(verbs, "--list").out.split()
    assert listed == CASES and len(CASES) > 10


@pytest.mark.parametrize("case", CASES)
def test_verbs(host, verbs, case):
    host.run(verbs, case, timeout=60)


def test_cancelled_by_udp(host, stage, verbs):
    """The case "cancelled" by UDP, where each turn makes system calls; a line is written to the
    log meanwhile."""
    log = stage.tmp / "cancelled.log"
    host.run(verbs, "cancelled", timeout=60, env={
        "URNIC_LOCAL": "off", "URNIC_LOG": f"info:{log}"})


COPIES = """
import ctypes, os, sys
P = ctypes.c_void_p
def load(path):
    return ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL)
def call(lib, name, *args):
    fn = getattr(lib, name)
    fn.restype = P
    fn.argtypes = [P] * len(args)
    return fn(*args)
def devices(lib):
    return ctypes.cast(call(lib, "ibv_get_device_list", None), ctypes.POINTER(P))
one, two = (load(f"{d}/libibverbs.so.1") for d in sys.argv[1:])
cm = load(sys.argv[2] + "/librdmacm.so.1")
assert devices(one)[0] == devices(two)[0]
ctx = call(one, "ibv_open_device", devices(one)[0])
pd = call(two, "ibv_alloc_pd", ctx)
assert ctx and pd and call(cm, "rdma_create_event_channel")
assert len(os.listdir("/proc/self/task")) == 2
slots = [l for l in open("/proc/net/unix") if "@urnic/" in l]
assert len(slots) == 1, slots
assert not call(two, "ibv_dealloc_pd", pd)
"""


def test_copies_share_the_nic(host, stage):
    """Two copies of the libraries in one process share one thread, one slot and one context."""
    copy = stage.path / "copy"
    shutil.copytree(stage.lib, copy)
    host.run(sys.executable, "-c", COPIES, stage.lib, copy)
