# SPDX-License-Identifier: BSD-2-Clause
"""URNIC_LINK=raw: RoCE by packet sockets, between namespaces and with Linux's rdma_rxe.

Programs run as an ordinary user with CAP_NET_RAW and no other capability.
"""

import re
import shutil

import pytest

import lab
import test_interop
import wirecheck

CAPS = ("net_raw",)
ENDS = {"raw-raw": ("raw", "raw"), "raw-udp": ("raw", "udp"), "udp-raw": ("udp", "raw")}
ROWS = {
    "rc_pingpong": ("ibv_rc_pingpong", "-c", "-n", "100", "-s", "9000"),
    "uc_pingpong": ("ibv_uc_pingpong", "-c", "-n", "50", "-s", "3001"),
    "ud_pingpong": ("ibv_ud_pingpong", "-c", "-n", "100", "-s", "1001"),
    "srq_pingpong": ("ibv_srq_pingpong", "-c", "-n", "50", "-q", "4", "-r", "100"),
    "send_bw": ("ib_send_bw", "-n", "100", "-s", "65537"),
    "write_bw": ("ib_write_bw", "-n", "100", "-s", "65537"),
    "write_bw_q16": ("ib_write_bw", "-q", "16", "-n", "20"),
    "read_bw": ("ib_read_bw", "-n", "100", "-s", "65537"),
    "atomic_bw": ("ib_atomic_bw", "-n", "100"),
    "send_lat_events": ("ib_send_lat", "-e", "-n", "100"),
}
PACKETS = re.compile(r"packet sockets: rx (\d+), not ours (\d+), by UDP as well (\d+); "
                     r"tx (\d+), by UDP instead (\d+)")


def packets(proc):
    """The counts in the log's last line about packet sockets: packets received, packets of
    others, packets that came by UDP as well, packets sent, packets sent by UDP instead."""
    found = PACKETS.findall(proc.out)
    assert found, proc.describe()
    return [int(n) for n in found[-1]]


def end(ns, link):
    return ns.with_(caps=CAPS if link == "raw" else ()).with_env(
        URNIC_LINK=link, URNIC_LOG="info")


def acquaint(pair):
    """Make each kernel know the other's MAC addresses, as after a first exchange of packets.
    Packets to an unknown neighbour go by UDP for up to 200 ms, longer than a short test takes."""
    a, b = macs(pair)
    for ns, other, mac in (pair.a, pair.b, b), (pair.b, pair.a, a):
        for ip in other.ip4, other.ip6:
            ns.sh(f"ip neigh replace {ip} lladdr {mac} dev eth0 nud reachable")


def well(proc):
    """Assert that no packet came with a wrong ICRC."""
    assert "rx_icrc" not in proc.out, proc.describe()


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("row", ROWS)
def test_programs(shared_pair, row, ends, family):
    pair = shared_pair()
    acquaint(pair)
    server, client = (end(ns, link) for ns, link in zip((pair.a, pair.b), ENDS[ends]))
    program, *options = ROWS[row]
    pingpong = program.startswith("ibv_")
    words = [program, "-d", pair.a.dev, "-g" if pingpong else "-x", str(pair.GIDS[family]),
             *options]
    both = lab.run_both(server, client, words, pair.a.ip4)
    for proc, link in zip(both, ENDS[ends]):
        well(proc)
        if link == "raw":
            rx, _, twice, tx, by_udp = packets(proc)
            assert rx > 10 and tx > 10 and twice == 0, proc.describe()
            assert by_udp < tx, proc.describe()


@pytest.mark.parametrize("family", ["v4", "v6"])
def test_both_on_one_host(shared_pair, family):
    """Packets from a host to itself cross no packet socket; urnic sends and receives them by
    UDP."""
    pair = shared_pair()
    ns = end(pair.a, "raw").with_env(URNIC_LOCAL="off")
    words = ["ibv_rc_pingpong", "-d", pair.a.dev, "-g", str(pair.GIDS[family]), "-c",
             "-n", "50", "-s", "9000"]
    for proc in lab.run_both(ns, ns, words, pair.a.ip4):
        assert "usec/iter" in proc.out and "invalid data" not in proc.out, proc.describe()


@pytest.mark.parametrize("ends", ENDS)
def test_rdma_cm(netns_pair, ends):
    """Connection management uses the UDP port, which one process owns; the connected QPs use
    packet sockets."""
    pair = netns_pair()
    server, client = (end(ns, link) for ns, link in zip((pair.a, pair.b), ENDS[ends]))
    server = server.start("rping", "-s", "-C", "50", "-v")
    server.wait_udp(4791)
    client = client.start("rping", "-c", "-a", pair.a.ip4, "-C", "50", "-v")
    assert client.wait(lab.HANGS) == 0 and server.wait(lab.HANGS) == 0, \
        client.describe() + server.describe()
    for proc, link in zip((server, client), ENDS[ends]):
        well(proc)
        if link == "raw":
            assert packets(proc)[0] > 50, proc.describe()


def test_without_the_capability(shared_pair):
    """Without CAP_NET_RAW one line says what is needed, and no device is opened."""
    ns = shared_pair().a.with_env(URNIC_LINK="raw")
    proc = ns.run("ibv_devinfo", "-d", "roce_eth0", check=False)
    assert proc.popen.returncode != 0
    assert "URNIC_LINK=raw: packet sockets need CAP_NET_RAW" in proc.out


def test_in_a_user_namespace(stage):
    """A user who makes a network namespace may open packet sockets in it."""
    here = lab.Namespace(stage)
    try:
        proc = here.start("unshare", "-Urn", "sh", "-c",
                          "ip link set lo up; exec ibv_devinfo",
                          env={"URNIC_LINK": "raw"}, user=None)
        assert proc.wait(lab.HANGS) == 0, proc.describe()
        assert "roce_lo" in proc.out, proc.describe()
    finally:
        here.remove()


def test_processes_that_share_the_interface(netns_pair):
    """Processes of one host, some with raw and some with UDP links: each gets its own packets and
    no other process's."""
    pair = netns_pair()
    kinds = ["raw", "udp", "raw", "udp"]
    running = []
    for kind in kinds:
        port = lab.next_port()
        words = ["ib_send_bw", "-d", pair.a.dev, "-x", "1", "-p", str(port),
                 "-n", "200", "-s", "20000"]
        server = end(pair.a, kind).start(*words)
        server.wait_listening(port)
        running.append((kind, server, words))
    clients = [(end(pair.b, kind).start(*words, pair.a.ip4), server, kind)
               for kind, server, words in running]
    for client, server, kind in clients:
        assert client.wait(lab.HANGS) == 0 and server.wait(lab.HANGS) == 0, \
            client.describe() + server.describe()
        well(client), well(server)
        if kind == "raw":
            assert packets(server)[0] > 200, server.describe()


def test_a_neighbour_that_moves(netns_pair):
    """A neighbour's MAC address changes, as when an IP address moves to another machine; urnic
    uses the new one once the kernel has resolved it."""
    pair = netns_pair()
    port = lab.next_port()
    # -u 18: seven tries of a second each, in which the kernels have to resolve each other again
    words = ["ib_send_lat", "-d", pair.a.dev, "-x", "1", "-p", str(port), "-u", "18",
             "-n", "20000", "-s", "100"]
    server = end(pair.a, "raw").start(*words)
    server.wait_listening(port)
    client = end(pair.b, "raw").start(*words, pair.a.ip4)
    client.wait_dump(r"RTS")
    pair.b.sh("ip link set eth0 address 02:00:00:00:00:42;"
              "ip neigh flush dev eth0")
    pair.a.sh("ip neigh flush dev eth0")
    assert client.wait(60) == 0 and server.wait(lab.HANGS) == 0, \
        client.describe() + server.describe()


# --- raw packet QPs -----------------------------------------------------------

def macs(pair):
    return [re.search(r"link/ether (\S+)", ns.sh("ip link show dev eth0"))[1]
            for ns in (pair.a, pair.b)]


# Nothing retransmits these frames, so all frames of a run must fit into the socket's buffer and
# the posted receives.
RAW_ETHERNET = {
    "bw": ("raw_ethernet_bw", "-n", "100", "-s", "1024"),
    "bw_bidir": ("raw_ethernet_bw", "-b", "-n", "100", "-s", "512"),
    "bw_udp": ("raw_ethernet_bw", "-n", "100", "-s", "512", "-J", "10.88.0.1", "-j",
               "10.88.0.2", "-K", "7000", "-k", "7001"),
    "lat": ("raw_ethernet_lat", "-n", "200", "-s", "64"),
    # On Ethernet raw_ethernet_burst_lat wants packet pacing (IBV_QP_RATE_LIMIT).  It counts
    # signalled sends (-Q 1), and polls in bursts of at least 16, with fewer it overruns its own
    # memory.
    "burst_lat": ("raw_ethernet_burst_lat", "-n", "128", "-s", "64", "-Q", "1",
                  "--burst_size", "64", "--rate_limit", "100", "--rate_units", "M",
                  "--rate_limit_type", "PP"),
}


@pytest.mark.parametrize("row", RAW_ETHERNET)
def test_raw_ethernet(netns_pair, row):
    pair = netns_pair()
    a, b = macs(pair)
    program, *options = RAW_ETHERNET[row]
    words = [program, "-d", pair.a.dev, *options]
    server = end(pair.a, "raw").start(*words, "--server", "-B", a, "-E", b)
    server.wait_dump(r"RAW_PACKET RT[RS] on.*\n.*receive queue: [1-9]")
    client = end(pair.b, "raw").start(*words, "--client", "-B", b, "-E", a)
    assert client.wait(lab.HANGS) == 0 and server.wait(lab.HANGS) == 0, \
        client.describe() + server.describe()


def test_raw_ethernet_without_the_capability(shared_pair):
    pair = shared_pair()
    a, b = "02:00:00:00:00:01", "02:00:00:00:00:02"
    proc = pair.a.with_env(URNIC_LOG="info").run(
        "raw_ethernet_bw", "--server", "-d", pair.a.dev, "-B", a, "-E", b, check=False)
    assert proc.popen.returncode != 0
    assert "raw packets need CAP_NET_RAW" in proc.out, proc.describe()


def test_raw_packet_caps(shared_pair):
    out = shared_pair().a.run("ibv_devinfo", "-v").out
    assert re.search(r"raw packet caps:\n\s*C-VLAN stripping offload\n"
                     r"\s*Scatter FCS offload\n(?!\s*(IP csum|Delay drop))", out), out


# --- RoCE v1 ------------------------------------------------------------------

V1 = 32  # GID 32 + n is GID n as RoCE v1
V1_ROWS = [row for row in ROWS if row != "write_bw_q16"]


def v1_words(pair, row, family):
    program, *options = ROWS[row]
    pingpong = program.startswith("ibv_")
    return [program, "-d", pair.a.dev, "-g" if pingpong else "-x",
            str(V1 + pair.GIDS[family]), *options]


@pytest.mark.parametrize("family", ["ll", "v4", "v6"])
@pytest.mark.parametrize("row", V1_ROWS)
def test_v1(shared_pair, row, family):
    pair = shared_pair()
    ends = end(pair.a, "raw"), end(pair.b, "raw")
    for proc in lab.run_both(*ends, v1_words(pair, row, family), pair.a.ip4):
        well(proc)
        rx, _, twice, tx, by_udp = packets(proc)
        assert rx > 10 and tx > 10 and twice == 0 and by_udp == 0, proc.describe()


@pytest.mark.parametrize("local", ["auto", "off"])
def test_v1_on_one_host(shared_pair, local):
    """Packets within a host do not use RoCE v1: they go by shared memory or UDP."""
    pair = shared_pair()
    ns = end(pair.a, "raw").with_env(URNIC_LOCAL=local)
    for row in "rc_pingpong", "ud_pingpong":
        for proc in lab.run_both(ns, ns, v1_words(pair, row, "v4"), pair.a.ip4):
            assert "usec/iter" in proc.out and "invalid data" not in proc.out, proc.describe()


def test_v1_to_a_neighbour_that_is_not_known(netns_pair):
    """The first datagram waits until the kernel has resolved the neighbour; a UD pingpong would
    wait for ever for a lost datagram."""
    pair = netns_pair()
    ends = end(pair.a, "raw"), end(pair.b, "raw")
    for proc in lab.run_both(*ends, v1_words(pair, "ud_pingpong", "v6"), pair.a.ip4):
        well(proc)
        assert packets(proc)[4] == 0, proc.describe()


def test_v1_with_v2(netns_pair):
    """A QP's path has one RoCE version, and the QP drops packets of the other."""
    pair = netns_pair()
    a, b = (end(ns, "raw") for ns in (pair.a, pair.b))
    port = lab.next_port()
    words = ["ib_send_bw", "-d", pair.a.dev, "-n", "10", "-u", "8", "-p", str(port)]
    server = a.start(*words, "-x", "1")
    server.wait_listening(port)
    client = b.start(*words, "-x", str(V1 + 1), pair.a.ip4)
    assert client.wait(60) != 0, client.describe() + server.describe()
    assert "the peer did not answer within timeout" in client.out, client.describe()


def test_v1_types(shared_pair):
    """With raw links the GID table has both types, and sysfs says the same; other links have v2
    only."""
    pair = shared_pair()
    raw = pair.a.with_(caps=CAPS).with_env(URNIC_LINK="raw")
    kinds = dict(re.findall(r"GID\[ *(\d+)\]:\s+\S+?, (.*)$",
                            raw.run("ibv_devinfo", "-v", "-d", pair.a.dev).out, re.M))
    for n in range(3):
        assert kinds[str(n)] == "RoCE v2" and kinds[str(V1 + n)] == "RoCE v1", kinds
    assert len(kinds) == 6, kinds
    assert "RoCE v1" not in pair.a.run("ibv_devinfo", "-v", "-d", pair.a.dev).out
    text = raw.run(raw.stage.urnic, "run", "cat", *(f"/sys/class/infiniband/{pair.a.dev}/ports/1/gid_attrs/types/{i}"
                            for i in (1, V1 + 1))).out
    assert text.split("\n")[:2] == ["RoCE v2", "IB/RoCE v1"], text


V1_WIRE = "rc_pingpong", "ud_pingpong", "write_bw", "read_bw", "atomic_bw"


@pytest.mark.parametrize("family", ["v4", "v6"])
def test_v1_on_the_wire(netns_pair, stage, family, tmp_path):
    """tshark reads RoCE v1 without a complaint, every ICRC is right, and no packet is UDP;
    urnic's own capture has the same packets."""
    if not shutil.which("tshark") or not shutil.which("tcpdump"):
        pytest.skip("no tshark or no tcpdump")
    pair = netns_pair()
    path, own = tmp_path / "wire.pcap", f"{stage.tmp}/v1-{family}.pcapng"
    dump = pair.a.start("tcpdump", "-Z", "root", "-i", "eth0", "-B", "32768", "-s", "0", "-U",
                        "-w", str(path), "ether proto 0x8915 or udp port 4791 or udp port 65000",
                        user=None)
    dump.wait_output("listening on")
    for row in V1_WIRE:
        client = end(pair.b, "raw")
        if row == "rc_pingpong":
            client = client.with_env(URNIC_PCAP=own)
        lab.run_both(end(pair.a, "raw"), client, v1_words(pair, row, family), pair.a.ip4)
    pair.b.run("bash", "-c", f"echo all is there >/dev/udp/{pair.a.ip4}/65000")
    assert lab.eventually(lambda: b"all is there" in path.read_bytes()), dump.describe()
    dump.signal(2)
    assert dump.wait(lab.HANGS) == 0, dump.describe()
    total, wrong = wirecheck.wrong_icrcs_v1(path)
    assert total > 300 and not wrong, (total, wrong[:10])
    for capture, least in ((path, 300), (own, 100)):
        assert len(wirecheck.tshark_v1(capture)) >= (total if capture == path else least)
        assert not wirecheck.tshark_wrong(capture), capture
    assert wirecheck.wrong_icrcs(path)[0] == 0  # no packet of RoCE v2


# --- with Linux's rdma_rxe ----------------------------------------------------

# perftest's timeout is half a second (peervm.py), since the guest may stand still for a while
RXE_ROWS = "send_bw", "write_bw", "read_bw", "atomic_bw"


@pytest.fixture
def raw_vm(vm, monkeypatch):
    """The VM, with CAP_NET_RAW for programs of the host."""
    drop = tuple(w.replace("-all", "-all,+net_raw") for w in lab.DROP_CAPS)
    keep = () if lab.IN_USERNS else ("--ambient-caps=-all,+net_raw",)
    monkeypatch.setattr(lab, "DROP_CAPS", drop + keep)
    return vm


def run_row(vm, row, family, server):
    program, *options = ROWS[row]
    options = [*options[:options.index("-n")], "-n", "50"]
    if "atomic" not in program:
        options += ["-m", str(vm.path_mtu)]
    serve = vm.guest_serves if server == "rxe" else vm.host_serves
    ours, _ = serve(program, options, family,
                    env={"URNIC_LINK": "raw", "URNIC_LOG": "info"})
    assert "rx_icrc" not in ours, ours[-2000:]
    rx, _, _, tx, _ = (int(n) for n in PACKETS.findall(ours)[-1])
    assert rx > 10 and tx > 10, ours[-2000:]


# test_others_find_nothing_wrong runs the rows in which urnic serves, too.
@pytest.mark.full(of=lambda p: p["server"] == "urnic")
@pytest.mark.parametrize("server", ["rxe", "urnic"])
@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", RXE_ROWS)
def test_rxe(raw_vm, row, family, server):
    """rxe increments its packets' IP identifications: a packet socket shows each, and urnic
    guesses none."""
    run_row(raw_vm, row, family, server)


@pytest.mark.parametrize("family,source", [("v4", "10.77.1.1"), ("v6", "fd77:1::1")])
def test_others_find_nothing_wrong(raw_vm, family, source, tmp_path):
    """tshark has no complaint about urnic's packets, and every ICRC is right."""
    if not shutil.which("tshark") or not shutil.which("tcpdump"):
        pytest.skip("no tshark or no tcpdump")
    path = tmp_path / "wire.pcap"

    def work():
        for row in RXE_ROWS:
            run_row(raw_vm, row, family, "urnic")

    test_interop.capture(raw_vm, path, work)
    assert len(wirecheck.tshark_opcodes(path, source)) >= 4
    complaints = wirecheck.tshark_complaints(path, source)
    assert not complaints, complaints[:5]
    total, wrong = wirecheck.wrong_icrcs(path)
    assert total > 300 and not wrong, (total, wrong[:10])
