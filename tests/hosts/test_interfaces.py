# SPDX-License-Identifier: BSD-2-Clause
"""Interfaces that change while programs use their devices: addresses, state, MTU, and names.

The programs are those of tests/faults.
"""

import pytest

from lab import eventually
from workers import Two, worker


def packets_out(ns, dev="eth0"):
    return int(ns.sh(f"cat /sys/class/net/{dev}/statistics/tx_packets"))


class Watch:
    """`faults watch`, which prints a line for each event: its lines, and a way to wait for one."""

    def __init__(self, ns, faults, *options, dev=None):
        self.proc = ns.start(faults, "watch", "-d", dev or ns.dev, *options)
        self.wait("start")

    def lines(self):
        return self.proc.out.splitlines()

    def wait(self, *words):
        """Wait until the last line has all these words, and return it."""
        if not eventually(lambda: self.lines() and
                          all(w in self.lines()[-1] for w in words)):
            raise AssertionError(f"no {words} in: {self.proc.describe()}")
        return self.lines()[-1]


def test_gid_table_follows(netns_pair, faults):
    ns = netns_pair().a
    watch = Watch(ns, faults)
    assert f"1=::ffff:{ns.ip4} 2={ns.ip6}" in watch.lines()[0]
    ns.sh("ip addr add 10.88.0.77/24 dev eth0")
    watch.wait("GID", "3=::ffff:10.88.0.77")
    ns.sh("ip addr add fd88::77/64 dev eth0 nodad")
    watch.wait("GID", "4=fd88::77")
    ns.sh("ip addr del 10.88.0.77/24 dev eth0")
    last = watch.wait("GID", "4=fd88::77", f"1=::ffff:{ns.ip4}", f"2={ns.ip6}")
    assert eventually(lambda: "10.88.0.77" not in watch.lines()[-1]), last
    # the next address takes the place that is free in the table
    ns.sh("ip addr add 10.88.0.78/24 dev eth0")
    watch.wait("GID", "3=::ffff:10.88.0.78", "4=fd88::77")


def test_who_lists_devices_misses_no_event(netns_pair, faults):
    """When a program lists devices often, the listing itself usually finds a change first; the
    event must come nevertheless."""
    ns = netns_pair().a
    watch = Watch(ns, faults, "-m", "list")
    for i in range(3, 13):
        ns.sh(f"ip addr add 10.88.2.{i}/32 dev eth0")
        watch.wait("GID", f"{i}=::ffff:10.88.2.{i}")


def test_port_follows(netns_pair, faults):
    ns = netns_pair().a
    watch = Watch(ns, faults)
    assert ": active mtu 5 3" in watch.lines()[0]
    ns.sh("ip link set eth0 down")
    assert eventually(lambda: any("port error" in x for x in watch.lines()))
    assert eventually(lambda: ": down " in watch.lines()[-1]), watch.lines()
    ns.sh("ip link set eth0 up")
    assert eventually(lambda: any("port active" in x for x in watch.lines()))
    assert eventually(lambda: ": active " in watch.lines()[-1]), watch.lines()


def test_mtu_follows(netns_pair, faults):
    pair = netns_pair()
    watch = Watch(pair.a, faults)
    for mtu, active in ((9000, 5), (600, 2), (1500, 3)):
        for ns in (pair.a, pair.b):
            ns.sh(f"ip link set eth0 mtu {mtu}")
        pair.a.sh(f"ip addr add 10.88.1.{mtu % 251}/32 dev eth0")
        watch.wait(f"mtu 5 {active}", f"10.88.1.{mtu % 251}")


class Renamed:
    """`faults renamed`, which prints whether new QPs can be connected and datagrams arrive."""

    def __init__(self, ns, faults, dev, env=None):
        self.proc = ns.start(faults, "renamed", "-d", dev,
                             env={"URNIC_LOG": "info", **(env or {})})
        self.wait("works")

    def wait(self, word, after=0):
        said = ("works", "fails")
        if not eventually(lambda: [x for x in self.proc.out[after:].splitlines()
                                   if x in said][-1:] == [word]):
            raise AssertionError(f"no {word!r} in: {self.proc.describe()}")


def make_link(ns, name, ip):
    ns.sh(f"ip link add {name} type veth peer name to-{ip}; "
          f"ip addr add {ip}/24 dev {name}; ip link set to-{ip} up; "
          f"ip link set {name} up")


RENAME = "ip link set {0} down; ip link set {0} name {1}; ip link set {1} up"


@pytest.mark.parametrize("way", ["auto", "off"])
def test_a_renamed_interface_keeps_its_device(netns_pair, faults, way):
    """A process keeps a renamed interface's device under its old name; UD and new QPs work on."""
    ns = netns_pair().a
    watch = Watch(ns, faults)
    works = Renamed(ns, faults, ns.dev, {"URNIC_LOCAL": way})
    for old, new in (("eth0", "lan0"), ("lan0", "lan1"), ("lan1", "eth0")):
        ns.sh(RENAME.format(old, new))
        works.proc.wait_output(f"interface {old} is called {new} now; "
                               "device roce_eth0 stays its device")
        watch.wait(": active ", f"1=::ffff:{ns.ip4}")
        works.wait("works")
        assert new in ns.sh(f"{ns.stage.urnic} devices")


def test_two_interfaces_swap_their_names(netns, faults):
    """A third interface that gets the name of a renamed one is a device of its own."""
    for i in range(2):
        make_link(netns, f"d{i}", f"10.88.{i}.1")
    works = [Renamed(netns, faults, f"roce_d{i}") for i in range(2)]
    watch = Watch(netns, faults, dev="roce_d0")
    netns.sh("ip link set d0 down; ip link set d1 down; ip link set d0 name d2; "
             "ip link set d1 name d0; ip link set d2 name d1; "
             "ip link set d0 up; ip link set d1 up")
    watch.wait(": active ", "1=::ffff:10.88.0.1")
    for w in works:
        w.wait("works")
    netns.sh(RENAME.format("d1", "d7"))
    make_link(netns, "d1", "10.88.7.1")
    watch.wait(": active ", "1=::ffff:10.88.0.1")
    for w in works:
        w.wait("works")
        w.proc.kill()


def test_an_interface_that_is_made_anew_gets_its_device_back(netns, faults):
    """An interface that is made anew, as for a container, has its old name and another index."""
    make_link(netns, "d0", "10.88.0.1")
    watch = Watch(netns, faults, dev="roce_d0")
    works = Renamed(netns, faults, "roce_d0")
    for _ in range(3):
        said = len(works.proc.out)
        netns.sh("ip link del d0")
        watch.wait(": down ")
        works.wait("fails", said)
        make_link(netns, "d0", "10.88.0.1")
        watch.wait(": active ", "1=::ffff:10.88.0.1")
        works.wait("works")
    assert "interface d0 was made anew; device roce_d0 is its device" in works.proc.out


def test_traffic_outlives_a_short_outage(netns_pair, faults):
    pair = netns_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_joined()
    pair.a.sh("ip link set eth0 down; sleep 0.1; ip link set eth0 up")
    two.finish()


def test_traffic_and_a_new_mtu(netns_pair, faults):
    """With a larger or a smaller MTU, traffic goes on as far as it fits the path."""
    pair = netns_pair()
    two = Two(pair.a, pair.b, worker(faults)).wait_joined()
    for mtu in (9000, 1280, 1500):
        for ns in (pair.a, pair.b):
            ns.sh(f"ip link set eth0 mtu {mtu}")
        before = packets_out(pair.a)
        assert eventually(lambda: packets_out(pair.a) > before + 100), two.client.describe()
    two.finish()
