# SPDX-License-Identifier: BSD-2-Clause
"""iSER: Debian's tgtd as the target; libiscsi's programs and QEMU's qemu-io as initiators.

tgtd lets an iSER initiator in if its address and its name are bound to the target, and answers
"target not found" otherwise; of one that comes by TCP it wants only one of the two.  libiscsi 1.19
has bounds of its own by iSER: it sends no request of more than 256 KiB, it writes beyond its small
buffers unless LIBISCSI_CACHE_ALLOCATIONS is 0, and a process that logs in a second time reads what it
has not written, which is why its iscsi-test-cu does not run here."""

import os
import pathlib
import random
import re
import tempfile

import pytest

import lab
from test_cm import wait_listener
from tool import need

PORT = 3260
INITIATOR = "iqn.2026-11.example:initiator"
NAME = "iqn.2026-11.example:disk"
SIZE = 16 << 20
BIGGEST = 256 << 10
PLACES = ["pair", "host", "pipe", "udp"]


class Target:
    """tgtd in the namespace `ns`, with a disk of SIZE bytes."""

    def __init__(self, ns):
        for program in ("tgtd", "iscsi-perf", "qemu-io"):
            need(program)
        folder = pathlib.Path(tempfile.mkdtemp(dir=ns.stage.tmp))
        folder.chmod(0o777)
        self.disk = folder / "disk"
        self.disk.touch()
        self.disk.chmod(0o666)
        os.truncate(self.disk, SIZE)
        self.ns = ns.with_env(TGT_IPC_SOCKET=str(folder / "tgtd"))
        self.proc = self.ns.start("tgtd", "-f", "-C", 0, "--iser", "pool_sz_mb=128")
        wait_listener(self.proc, PORT)
        self.admin("new", "target", f"--targetname={NAME}")
        self.admin("new", "logicalunit", "--lun=1", f"--backing-store={self.disk}")
        self.admin("bind", "target", "--initiator-address=ALL")
        self.admin("bind", "target", f"--initiator-name={INITIATOR}")
        self.url = f"iser://{ns.ip4}:{PORT}/{NAME}/1"

    def admin(self, op, mode, *words):
        self.ns.run("tgtadm", "-C", 0, "--lld=iser", f"--op={op}", f"--mode={mode}", "--tid=1",
                    *words, library=False)


@pytest.fixture
def target(shared_pair):
    """target(place): a Target, and the namespace of the initiators."""
    def get(place):
        here, other = shared_pair().place(place)
        return Target(here), other.with_env(LIBISCSI_CACHE_ALLOCATIONS="0")
    return get


@pytest.mark.parametrize("place", PLACES)
def test_contents(target, place):
    """What QEMU writes is in the target's file, and QEMU reads it; several requests at a time."""
    at, ns = target(place)
    rng = random.Random(5)
    want = bytearray(SIZE)
    words = []
    for i in range(1, 41):
        length = rng.choice([512, 4096, 24576, BIGGEST])
        offset = rng.randrange(0, SIZE - length, 512)
        want[offset:offset + length] = bytes([i]) * length
        words += ["-c", f"write -P {i} {offset} {length}",
                  "-c", f"read -P {i} {offset} {length}"]
    for i in range(41, 73):     # in a row, so that no two overlap
        words += ["-c", f"aio_write -P {i} {(i - 41) * 131072} 131072"]
        want[(i - 41) * 131072:(i - 40) * 131072] = bytes([i]) * 131072
    words += ["-c", "aio_flush"]
    words += [w for i in range(41, 73)
              for w in ("-c", f"aio_read -P {i} {(i - 41) * 131072} 131072")]
    portal, name, lun = re.fullmatch("iser://(.*)/(.*)/(.*)", at.url).groups()
    out = ns.run("qemu-io", "--image-opts", *words, "-c", "aio_flush",
                 f"driver=iscsi,transport=iser,portal={portal},target={name},lun={lun},"
                 f"initiator-name={INITIATOR}").out
    assert "failed" not in out and "error" not in out.lower(), out
    assert out.count("wrote") == 72 and out.count("read ") == 72, out
    assert at.disk.read_bytes() == want
    lab.says_nothing(at.proc)


@pytest.mark.parametrize("place,blocks,depth", [
    ("pair", 8, 1), ("host", 8, 32), ("pair", 256, 32), ("host", 256, 32)])
def test_reads(target, place, blocks, depth):
    """iscsi-perf, as the table of docs/dev/driver.md was measured, for a second."""
    at, ns = target(place)
    proc = ns.run("iscsi-perf", "-i", INITIATOR, "-t", 1, "-b", blocks, "-m", depth, at.url)
    assert re.search(r"iops average [1-9]", proc.out), proc.out
    lab.says_nothing(at.proc, proc)


def test_refused(target):
    """An initiator by another name ends, and the target goes on."""
    at, ns = target("host")
    out = ns.run("iscsi-perf", "-i", f"{INITIATOR}2", "-t", 1, at.url, check=False).out
    assert "Target not found" in out
    ns.run("iscsi-perf", "-i", INITIATOR, "-t", 1, at.url)
