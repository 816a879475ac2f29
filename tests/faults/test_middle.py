# SPDX-License-Identifier: BSD-2-Clause
"""Somebody in the middle (relay.py) spoils the packets between two hosts: what programs receive is
right nevertheless, or they get an error.

test_stress.py does the same by urnic's own faults, which cut and add no bytes.
"""

import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

import lab
from lab import HANGS
from test_xrc import Lab, Srq, connect
from workers import Two, stress, worker

# The relay sees packets as they leave a, so the kernel must not leave work to the hardware.
NO_OFFLOAD = """
import array, fcntl, socket, struct, sys
SIOCETHTOOL, STXCSUM, SGSO = 0x8946, 0x17, 0x24
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for command in (SGSO, STXCSUM):
    value = array.array("B", struct.pack("II", command, 0))
    fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP", sys.argv[1].encode(), value.buffer_info()[0]))
"""


class Apart(lab.Pair):
    """Two namespaces a and b whose eth0 lead to a third one, with a relay between them."""

    def _connect(self):
        self.middle = lab.Namespace(self.a.stage)
        for ns, name in ((self.a, "one"), (self.b, "other")):
            subprocess.run(["ip", "link", "add", "eth0", "netns", ns.name, "type", "veth", "peer",
                            "name", name, "netns", self.middle.name], check=True)
            self.middle.sh(f"ip link set {name} up")
        self._address()
        for ns, name in ((self.a, "eth0"), (self.b, "eth0"), (self.middle, "one"),
                         (self.middle, "other")):
            ns.run("/usr/bin/python3", "-c", NO_OFFLOAD, name, user=None)

    def relay(self, seed, how="spoil"):
        relay = self.middle.start("/usr/bin/python3", "-B", lab.ROOT / "tests/lab/relay.py", "one",
                                  "other", seed, how, user=None)
        relay.wait_output("between")
        return relay

    def remove(self):
        super().remove()
        if hasattr(self, "middle"):
            self.middle.remove()


@pytest.fixture
def apart(stage, can_namespace):
    pair = Apart(stage)
    yield pair
    pair.remove()


@pytest.fixture
def seeds(request):
    return range(1, 31 if request.config.getoption("--full") else 2)


def stop(relay):
    """End the relay; it must have done each kind of harm."""
    relay.signal(signal.SIGTERM)
    assert relay.wait(HANGS) == 0, relay.describe()
    did = dict(re.findall(r"([\w-]+)=(\d+)", relay.last))
    assert {"flip", "cut", "cut-to-the-header", "add", "again", "later", "lost"} <= set(did), \
        relay.describe()


def test_datagrams(apart, faults, seeds):
    for seed in seeds:
        relay = apart.relay(seed)
        Two(apart.a, apart.b, [faults, "datagrams"]).expect_right()
        stop(relay)


def test_connected(apart, stage, seeds):
    for seed in seeds:
        relay = apart.relay(seed)
        Two(apart.a, apart.b, stress(stage, 3, seed)).expect_right()
        stop(relay)


def test_xrc(apart, stage, seeds):
    folder = pathlib.Path(tempfile.mkdtemp(dir=stage.tmp))
    place = Lab((apart.a, "roce_eth0", 1), (apart.b, "roce_eth0", 1), folder)
    count, size = 1000, 3000
    for seed in seeds:
        relay = apart.relay(seed)
        members = [place.member(), place.member()]
        srqs = [Srq(m) for m in members]
        for m in members:
            m.must("stock", 0, size)
        senders = [place.sender() for _ in range(2)]
        qs = [connect(i, members[0], timeout=14)[0] for i in senders]
        for m in members:
            m.say("sink", 0, count, size)
        for who, (i, q) in enumerate(zip(senders, qs)):
            i.say("flood", q, who, count, size, ",".join(str(s.num) for s in srqs))
        assert [i.answer(60) for i in senders] == [[str(count)]] * 2
        assert [m.answer(60) for m in members] == [[str(count)]] * 2
        stop(relay)
    shutil.rmtree(folder)


def test_forged(apart, faults, seeds):
    """Packets with a right ICRC and wrong contents may spoil data and QPs.  They neither kill
    programs nor make them wait for ever, and harm no program that comes later."""
    for seed in seeds:
        relay = apart.relay(seed, "forge")
        for _ in range(4):
            pairs = [Two(apart.a, apart.b, worker(faults, "-t", "1", "-r", "2")) for _ in range(2)]
            pairs.append(Two(apart.a, apart.b, [faults, "datagrams"]))
            for proc in (p for two in pairs for p in (two.server, two.client)):
                rc = proc.wait(HANGS)
                assert rc is not None and rc >= 0, proc.describe()
        stop(relay)
        relay = apart.relay(seed, "pass")
        Two(apart.a, apart.b, worker(faults)).finish()
        relay.kill()
