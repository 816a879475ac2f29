# SPDX-License-Identifier: BSD-2-Clause
"""Which devices there are, and how programs connect by 127.0.0.1 and ::1 where loopback has no
device of its own, as the first device serves them: with any addresses of that device's interface,
while it is down, and after it has gone."""

import json

import pytest

import lab
from lab import eventually
from test_cm import run_pair, wait_end, wait_member, wait_service

ADDRESSES = {"v4": "127.0.0.1", "v6": "::1", "other": "127.3.4.5"}


def devices(ns, **env):
    proc = ns.start(ns.stage.urnic, "devices", "--json", env=env)
    assert proc.wait(lab.HANGS) == 0, proc.describe()
    return [d["name"] for d in json.loads(proc.out)]


def say(ns, *words):
    return ns.run(ns.stage.urnic, *words, check=False).out


def test_loopback_is_listed_alone_or_on_request(netns, shared_pair):
    assert devices(netns) == ["roce_lo"]
    assert "left out" not in say(netns, "devices") + say(netns, "doctor")
    ns = shared_pair().a
    assert devices(ns) == ["roce_eth0"]
    for tool in "devices", "doctor":
        assert "device of lo is left out" in say(ns, tool)
    assert "URNIC_DEVICES=eth0,lo " in say(ns, "devices")
    assert devices(ns, URNIC_DEVICES="eth0,lo") == ["roce_eth0", "roce_lo"]
    assert devices(ns, URNIC_DEVICES="lo") == ["roce_lo"]
    assert devices(ns, URNIC_DEVICES="iwarp_eth0") == ["iwarp_eth0"]


def test_loopback_is_listed_while_no_other_interface_is_up(netns):
    link(netns, *SETS["v4"])
    assert devices(netns) == ["roce_eth0"]
    netns.sh("ip link set eth0 down")
    assert devices(netns) == ["roce_eth0", "roce_lo"]
    assert "left out" not in say(netns, "devices") + say(netns, "doctor")


def test_verbs_programs_have_the_interfaces_devices(shared_pair):
    out = shared_pair().a.run("ibv_devices").out
    assert "roce_eth0" in out and "roce_lo" not in out


def link(ns, *addresses):
    """Give the namespace an interface eth0 with these addresses; its other end is p0, without an
    address."""
    ns.sh("ip link add eth0 type veth peer name p0;"
          "echo 1 >/proc/sys/net/ipv6/conf/p0/disable_ipv6;"
          + "".join(f"ip addr add {a} dev eth0;" for a in addresses) +
          "ip link set p0 up; ip link set eth0 up")
    assert eventually(lambda: "state UP" in ns.sh("ip link show dev eth0"))
    assert eventually(lambda: "fe80::" in ns.sh("ip -6 -o addr show dev eth0 scope link -tentative"))


def exchange(ns, program, ip, timeout=lab.HANGS):
    """Run a program between two processes of the namespace that connect by this address."""
    server, client, port, space = PROGRAMS[program]
    port = port or lab.next_port()
    words = {"ip": ip, "port": port}
    run_pair(ns, ns, [w.format(**words) for w in server.split()],
             [w.format(**words) for w in client.split()], port, space=space, timeout=timeout)


# Server, client, port (0: an option), port space.
PROGRAMS = {
    "rc": ("rping -s -C 20 -a {ip} -p {port}", "rping -c -V -C 20 -a {ip} -p {port}", 0, 0x0106),
    "wildcard": ("rping -s -C 20 -p {port}", "rping -c -V -C 20 -a {ip} -p {port}", 0, 0x0106),
    "ud": ("udaddy -b {ip}", "udaddy -s {ip}", 7174, 0x0111),
    "stream": ("rstream -S 4000 -C 50 -b {ip} -p {port}", "rstream -S 4000 -C 50 -s {ip} -p {port}",
               0, 0x0106),
}
IWARP = ["rc", "wildcard", "stream"]
# An interface's addresses; every interface has a link-local one, too.
SETS = {"v4": ["10.79.1.1/24"], "v6": ["fd79::1/64"], "none": [], "both": ["10.79.1.1/24",
                                                                          "fd79::1/64"]}


def all_work(ns, kind, ways, families):
    ns = ns.with_env(URNIC_DEVICES="iwarp_eth0" if kind == "iwarp" else "")
    for way in ways:
        for program in IWARP if kind == "iwarp" else PROGRAMS:
            for family in families:
                if (program, family) != ("wildcard", "v6"):     # rping's is IPv4's
                    exchange(ns.with_env(URNIC_LOCAL=way), program, ADDRESSES[family])


@pytest.mark.parametrize("kind", ["roce", "iwarp"])
@pytest.mark.parametrize("addresses", SETS)
def test_loopback_by_any_addresses(netns, kind, addresses):
    link(netns, *SETS[addresses])
    all_work(netns, kind, ["auto"] if kind == "iwarp" else ["auto", "off"], ADDRESSES)
    if not lab.IN_USERNS:
        all_work(netns.with_(user=None), kind, ["auto"], ["v4", "v6"])


@pytest.mark.parametrize("kind", ["roce", "iwarp"])
@pytest.mark.parametrize("server,client", [("127.0.0.1", "10.79.1.1"), ("10.79.1.1", "127.0.0.1"),
                                           ("127.0.0.1", "10.79.2.1"), ("10.79.2.1", "127.0.0.1")])
def test_loopback_and_an_interfaces_address(netns, kind, server, client):
    """The client is bound to one of them and connects to the other."""
    link(netns, *SETS["v4"])
    netns.sh("ip link add eth1 type veth peer name p1; ip addr add 10.79.2.1/24 dev eth1;"
             "ip link set p1 up; ip link set eth1 up")
    ns = netns.with_env(URNIC_DEVICES="iwarp_eth0,iwarp_eth1" if kind == "iwarp" else "")
    port = str(lab.next_port())
    run_pair(ns, ns, ["rping", "-s", "-C", "20", "-a", server, "-p", port],
             ["rping", "-c", "-V", "-C", "20", "-I", client, "-a", server, "-p", port], int(port))


@pytest.mark.parametrize("kind", ["roce", "iwarp"])
def test_loopback_while_the_interface_is_down(netns, kind):
    """It keeps its IPv4 address."""
    link(netns, *SETS["v4"])
    netns.sh("ip link set eth0 down")
    all_work(netns, kind, ["auto"], ["v4", "other"])    # rping finds no IPv6 address without IPv6


def test_loopback_after_the_interface_has_gone(netns):
    """A server that is older than the change is reached, as is a connection that exists."""
    link(netns, *SETS["both"])
    port = str(lab.next_port())
    server = netns.start("rping", "-s", "-P", "-a", "::", "-p", port)
    wait_service(server, port)
    client = ["rping", "-c", "-V", "-C", "20", "-p", port, "-a"]
    netns.run(*client, "127.0.0.1")
    long = netns.start("rping", "-c", "-v", "-C", "3000", "-p", port, "-a", "127.0.0.1")
    long.wait_output("rdma-ping-100:")
    netns.sh("ip link del eth0")
    for ip in "127.0.0.1", "::1":
        netns.run(*client, ip)
    assert wait_end(long, "rping", lab.HANGS) == 0 and "rdma-ping-2999:" in long.out
    link(netns, *SETS["both"])
    for ip in "127.0.0.1", "::1":
        netns.run(*client, ip)
    assert server.running(), server.describe()


def test_groups_from_loopback(netns):
    link(netns, *SETS["both"])
    words = ["mckey", "-m", "239.1.2.3", "-b", "127.0.0.1", "-C", "5"]
    member = netns.start(*words)
    wait_member(member, "239.1.2.3")
    sender = netns.start(*words, "-s")
    assert sender.wait(lab.HANGS) == 0 and member.wait(lab.HANGS) == 0, member.describe()


@pytest.mark.parametrize("gid", ["0", "1"])
def test_a_programs_own_tcp_by_loopback(netns, gid):
    link(netns, *SETS["v4"])
    lab.run_both(netns, netns, ["ib_write_bw", "-n", "200", "-x", gid], "127.0.0.1")
    for kind in "rc", "uc", "ud", "srq":
        lab.run_both(netns, netns, [f"ibv_{kind}_pingpong", "-g", gid], "127.0.0.1")
