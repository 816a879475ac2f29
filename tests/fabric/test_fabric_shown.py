# SPDX-License-Identifier: BSD-2-Clause
"""What is shown of a fabric: `urnic fabric status`, pictures, captures, and files as in /sys."""

import collections
import json
import pathlib
import random
import re
import shutil
import signal

import pytest
from lab import HANGS, constant, eventually, next_port, run_both
from subnet import TWO, Fabric, ask, leaves, lid_of_switch, link_states, made, tshark
from tool import need
from traffic import both


def test_status(fabric):
    f = fabric()
    out = ask(f, "status")
    assert "fabric default: 1 switch, 2 adapters; 2 links, 0 of them active" in out
    assert re.search(r"^sw 1 +H-a 1 +init +100 Gb/s \(4xEDR\)$", out, re.M), out
    f.opensm("a")
    out = ask(f, "status")
    assert "2 links, 2 of them active" in out
    assert re.search(r"^H-a +adapter +1 +127\.1\.0\.1 +subnet manager$", out, re.M), out
    f.run("a", "ibportstate", lid_of_switch(f), "2", "disable")
    assert re.search(r"^sw 2 +H-b 1 +disabled$", ask(f, "status"), re.M)
    assert link_states(f) == {("sw", 1): "active", ("sw", 2): "down",
                              ("H-a", 1): "active", ("H-b", 1): "down"}


def test_fabrics_are_listed(netns):
    """The list has each fabric's name, process, size, and the number of programs at its
    adapters."""
    def urnic(*args, status=0):
        end = netns.run(netns.stage.urnic, "fabric", *args, check=False)
        assert end.popen.returncode == status, end.describe()
        return end.out
    none = "no fabric runs here; start one, such as `urnic fabric run star:2'"
    assert none in urnic(status=1) and none in urnic("status", status=1)
    one = Fabric(netns, TWO, "-F", "one")
    two = Fabric(netns, made("clos:2,1,2"), "-F", "two")
    head = r"fabric +PID switches adapters +links active programs\n"
    for words in (), ("status",), ("status", "--all"), ("status", "-1a"):
        out = urnic(*words)
        assert re.fullmatch(head + r"(one|two) .*\n(one|two) .*\n", out), out
    procs = [one.at(hca, URNIC_FABRIC="one").start(*words) for hca, *words in (
        ("a", "ibping", "-S"), ("a", "ibv_asyncwatch"), ("b", "ibping", "-S"))]
    assert eventually(lambda: re.search(r"^one +\d+ +1 +2 +2 +0 +3$", urnic(), re.M)), urnic()
    rows = {r["fabric"]: r for r in json.loads(urnic("status", "-aj"))["fabrics"]}
    assert rows["two"] == {"fabric": "two", "pid": rows["two"]["pid"], "switches": 3,
                           "adapters": 4, "links": 6, "active": 0, "programs": 0}
    exe = pathlib.Path(f"/proc/{rows['one']['pid']}/exe").readlink()
    assert exe.name == "urnic"
    procs[0].kill()
    assert eventually(lambda: re.search(r"^one .* 2$", urnic(), re.M)), urnic()
    assert "fabric one: 1 switch" in urnic("status", "-F", "one")
    two.proc.kill()
    assert re.fullmatch(head + r"one .*\n", urnic("status"))
    Fabric(netns, TWO)
    assert urnic("status").startswith("fabric default: 1 switch, 2 adapters")
    one.proc.signal(signal.SIGSTOP)
    assert re.search(r"^one +\d+  the fabric's process is stopped", urnic(), re.M)
    one.proc.signal(signal.SIGCONT)


def test_status_is_refreshed_on_a_terminal(fabric):
    f = fabric()
    need("script")
    proc = f.ns.start("script", "-qefc", f"{f.ns.stage.urnic} fabric status", "/dev/null")
    assert eventually(lambda: proc.out.count("\033[Hfabric default:") >= 2), proc.describe()
    f.proc.kill()
    assert proc.wait(HANGS) == 1
    # one text if the fabric was killed between two refreshes, the other if during one
    assert re.search("no such fabric runs here|it has ended", proc.out), proc.describe()


def edges(picture):
    """{(node, port): (label, whether the line is dashed)}, with the link's end that the picture
    names first."""
    return {(a, int(port)): (label, "dashed" in line) for line in picture.splitlines()
            for a, port, label in re.findall(r'\t"(.*)" -- ".*" \[taillabel=(\d+).* label="(.*)"\]', line)}


def test_picture(fabric):
    """The picture has each link once, labelled with what crosses it, and graphviz accepts it."""
    need("dot")
    f = fabric(leaves(1, 2, 1))
    assert set(edges(ask(f, "picture")).values()) == {("init", True)}
    f.opensm("n0")
    words = "ib_write_bw", "-D", "20", "-p", str(next_port())
    server = f.at("n0").start(*words)
    server.wait_listening(int(words[-1]))
    client = f.at("n1").start(*words, "127.0.0.1")

    def loads():
        return [float(x) for label, _ in edges(ask(f, "picture")).values()
                for x in re.findall(r"(\S+) / (\S+) of 100 Gb/s", label)[0]]
    assert eventually(lambda: len([x for x in loads() if x > 0.05]) == 4), loads()
    client.kill()
    ask(f, "link", "down", "leaf1", "1")
    out = ask(f, "picture")
    assert len(edges(out)) == 4 and edges(out)["S-leaf1", 1] == ("pulled", True), out
    assert out.count("[shape=box]") == 3 and out.count("[shape=ellipse]") == 2
    (f.dir / "dot").write_text(out)
    svg = f.ns.run("dot", "-Tsvg", f.dir / "dot", library=False).out
    assert svg.count('class="edge"') == 4 and "</svg>" in svg


@pytest.mark.full
def test_pcp(fabric):
    """PCP's agent reports the state and counters of its adapter's port.  The agent asks the SA
    for its own path."""
    agent = pathlib.Path("/usr/lib/pcp/pmdas/infiniband")
    if not (shutil.which("dbpmda") and agent.exists()):
        # Debian's pcp cannot be configured where systemctl exists but systemd does not run.
        pytest.skip("install pcp and pcp-pmda-infiniband, which make check-full does not")
    f = fabric()
    f.opensm("a")
    # the package's own file includes one by a path that Debian does not have
    names = re.sub(r"#include.*", "", (agent / "root").read_text())
    (f.dir / "root").write_text(f'#define IB 91\n{names}#include "{agent}/pmns"\n')
    lid = re.search(r"Base lid: (\d+)", f.run("b", "ibstat"))[1]
    want = {"lid": lid, "state": '"Active"', "phystate": '"Link Up"', "linkwidth": "4"}
    told = ["in.packets", "out.bytes"]
    (f.dir / "words").write_text("\n".join(
        [f"open pipe {agent}/pmdaib -l {f.dir}/log.ib", "getdesc on",
         *(f"fetch infiniband.port.{n}" for n in (*want, *told)), "quit", ""]))
    out = f.run("b", "sh", "-c", f"dbpmda -e -n {f.dir}/root <{f.dir}/words")
    said = dict(re.findall(r"\(infiniband\.port\.(\S+)\).*\n.* value (.*)", out))
    assert {n: said.get(n) for n in want} == want, out
    assert all(int(said[n]) > 0 for n in told), out


@pytest.mark.full
def test_node_exporter(fabric):
    """node_exporter's infiniband collector reads what `urnic fabric sysfs` writes."""
    exporter = shutil.which("prometheus-node-exporter")
    if not exporter:
        # installing Debian's package starts a service; the program from an unpacked package will
        # do
        pytest.skip("have prometheus-node-exporter in PATH, which make check-full does not")
    f = fabric()
    f.opensm("a")
    sysfs = f.dir / "sysfs"
    ask(f, "sysfs", sysfs)
    port = next_port()
    proc = f.ns.start(exporter, "--collector.disable-defaults",
                      "--collector.infiniband", f"--path.sysfs={sysfs}",
                      f"--web.listen-address=127.0.0.1:{port}", library=False)
    proc.wait_listening(port)
    out = f.ns.run("/usr/bin/python3", "-c", "import sys, urllib.request as u; sys.stdout.write("
                   f"u.urlopen('http://127.0.0.1:{port}/metrics').read().decode())",
                   library=False).out
    got = {(n, d): float(v) for n, d, v in re.findall(
        r'^node_infiniband_(\w+)\{device="(ib_\w)"[^}]*\} (\S+)$', out, re.M)}
    assert got["state_id", "ib_a"] == got["state_id", "ib_b"] == 4, out
    assert got["physical_state_id", "ib_a"] == 5
    assert got["rate_bytes_per_second", "ib_a"] == 100e9 / 8
    assert re.search(r'scrape_collector_success\{collector="infiniband"\} 1$', out, re.M), out
    count = {p["node"]: p["counters"] for p in
             json.loads(ask(f, "counters", "--json"))["ports"] if p["node"] in ("H-a", "H-b")}
    for name, ours, times in (("port_packets_received_total", "port_rcv_packets", 1),
                              ("port_data_transmitted_bytes_total", "port_xmit_data", 4),
                              ("link_downed_total", "link_downed", 1)):
        for node in "ab":
            assert got[name, f"ib_{node}"] == times * count[f"H-{node}"][ours], (name, out)


def test_capture(fabric):
    """tshark dissects the MADs of OpenSM and saquery in a capture."""
    need("tshark")
    f = fabric()

    def capture(name, *args):
        proc = f.ns.start(f.ns.stage.urnic, "fabric", "pcap", f.dir / name, *args)
        proc.wait_output("the capture has begun")
        return proc
    procs = [capture("all"), capture("b", "b", "1"), capture("three", "-c", "3")]
    f.opensm("a")
    f.run("b", "saquery", "-p")
    count = json.loads(ask(f, "counters", "--json"))["ports"]
    for p in procs:
        if p is not procs[2]:
            p.signal(signal.SIGINT)
        assert p.wait(HANGS) == 0, p.describe()
        assert " 0 lost" in p.out
    lines = tshark(f.dir / "all").splitlines()
    assert len(lines) > 50
    assert all("UD Send Only QP=0x00000" in line for line in lines)
    assert any("SubnGetResp(NodeInfo)" in line for line in lines)
    assert sum("SubnAdmGetTableResp(PathRecord)" in line for line in lines) >= 6
    assert tshark(f.dir / "all", "-Y", "_ws.malformed || _ws.expert") == ""
    # ports count the packets to QP1 only
    sent = len(tshark(f.dir / "all", "-Y", "infiniband.bth.destqp == 1").splitlines())
    assert sent == sum(p["counters"]["port_xmit_packets"] for p in count)
    at_b = len(tshark(f.dir / "b", "-Y", "infiniband.bth.destqp == 1").splitlines())
    assert at_b == sum(p["counters"]["port_xmit_packets"] + p["counters"]["port_rcv_packets"]
                       for p in count if p["node"] == "H-b")
    assert len(tshark(f.dir / "three").splitlines()) == 3


def test_capture_of_data(two):
    """tshark dissects what crosses the links, and the capture has each packet on both links."""
    need("tshark")
    file = two.dir / "data"
    proc = two.ns.start(two.ns.stage.urnic, "fabric", "pcap", file)
    proc.wait_output("the capture has begun")
    both(two, "ibv_rc_pingpong", "-n", "20", "-g", "0")
    both(two, "ibv_ud_pingpong", "-n", "20")
    proc.signal(signal.SIGINT)
    assert proc.wait(HANGS) == 0 and " 0 lost" in proc.out, proc.describe()
    assert tshark(file, "-Y", "_ws.malformed") == ""
    lines = tshark(file, "-Y", "infiniband.bth.destqp > 1").splitlines()
    for kind in ("RC Send First", "RC Send Middle", "RC Send Last", "RC Acknowledge",
                 "UD Send Only"):
        assert sum(kind in line for line in lines) >= 4, (kind, lines)
    # a packet has the same CRCs on both links, since its VL is VL0 on both
    icrc = tshark(file, "-Y", "infiniband.bth.destqp > 1", "-T", "fields",
                  "-e", "infiniband.invariant.crc", "-e", "infiniband.variant.crc").split("\n")
    seen = [line for line in icrc if line.strip()]
    assert len(seen) == len(lines)
    assert all(seen.count(line) % 2 == 0 for line in set(seen)), seen


def frames(file, *more):
    """Count captured data packets, each by the fields that a link does not change."""
    out = tshark(file, "-Y", "infiniband.bth.destqp > 1", "-T", "fields",
                 *(w for f in ("lrh.dlid", "lrh.slid", "bth.opcode", "bth.psn", "invariant.crc")
                   for w in ("-e", f"infiniband.{f}")), *more)
    return collections.Counter(line for line in out.splitlines() if line.strip())


def test_a_programs_own_capture(two):
    """A program's own capture (URNIC_PCAP) has the packets that cross its adapter's cable."""
    need("tshark")
    cable = two.dir / "cable"
    proc = two.ns.start(two.ns.stage.urnic, "fabric", "pcap", cable, "b")
    proc.wait_output("the capture has begun")
    run_both(two.at("a", URNIC_PCAP=two.dir / "own.a"),
             two.at("b", URNIC_PCAP=two.dir / "own.b"),
             ["ibv_rc_pingpong", "-n", "20", "-g", "0"], "127.0.0.1")
    proc.signal(signal.SIGINT)
    assert proc.wait(HANGS) == 0 and " 0 lost" in proc.out, proc.describe()
    all_of_it = frames(cable)
    assert len(all_of_it) > 100
    for own in ("own.a", "own.b"):
        assert tshark(two.dir / own, "-Y", "_ws.malformed") == ""
        seen = frames(two.dir / own)
        # a retransmission, with another bit in its BTH, may cross the cable after the program has
        # ended
        assert not seen - all_of_it
        assert {line.rsplit("\t", 1)[0] for line in all_of_it - seen} <= \
            {line.rsplit("\t", 1)[0] for line in seen}


def test_sysfs(fabric):
    """ibstatus, which reads only files, describes the adapters from what `urnic fabric sysfs`
    wrote."""
    f = fabric()
    f.opensm("a")
    tree = f.dir / "sysfs"
    ask(f, "sysfs", str(tree))

    ns = f.ns.with_(outer=["unshare", "-m", "sh", "-c",
                           f"mount --rbind {tree} /sys && exec \"$@\"", "sh"])

    def status(*args):
        return ns.run("ibstatus", *args).out
    out = status()
    assert re.findall(r"Infiniband device '(\w+)' port (\d) status", out) == \
        [("ib_a", "1"), ("ib_b", "1")]
    assert re.search(r"default gid:\s+fe80:0000:0000:0000:0000:0000:0010:0001\n", out), out
    assert re.search(r"base lid:\s+0x1\n", out)
    assert re.findall(r"\tstate:\s+(.*)", out) == ["4: ACTIVE"] * 2
    assert re.findall(r"phys state:\s+(.*)", out) == ["5: LinkUp"] * 2
    assert re.findall(r"rate:\s+(.*)", out) == ["100 Gb/sec (4X EDR)"] * 2
    ask(f, "link", "down", "b", "1")
    ask(f, "sysfs", "--hca", "b", str(tree))
    out = status("ib_b:1")
    assert re.findall(r"\tstate:\s+(.*)", out) == ["1: DOWN"]
    port = tree / "class/infiniband/ib_b/ports/1"
    assert (port / "counters/link_downed").read_text() == "1\n"
    assert (tree / "class/infiniband_mad/umad0/ibdev").read_text() == "ib_b\n"
    # --follow writes the files anew every second, until the fabric ends
    proc = f.ns.start(f.ns.stage.urnic, "fabric", "sysfs", "--follow", str(tree))
    ask(f, "link", "up", "b", "1")
    assert eventually(lambda: (port / "state").read_text() == "4: ACTIVE\n")
    assert proc.running()
    f.proc.kill()
    assert proc.wait(HANGS) == 1


# A program that claims to be a fabric; argv has the names of its adapter and of a counter.
FORGED = r"""
import json, os, socket, struct, sys
name, counter = sys.argv[1:]
said = {"status": {"nodes": [{"id": "a", "type": "adapter", "guid": "0x1",
                              "ports": [{"port": 1, "speed": "4xQDR"}]}]},
        "counters": {"ports": [{"counters": {counter: 1}}]}}
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(b"\0urnic/fabric/%d/forged" % os.getuid())
s.listen()
print("ready", flush=True)

def say(c, kind, body):
    c.send(struct.pack("=3sBB3x", b"urf", VERSION, kind) + body)

while True:
    c = s.accept()[0]
    op = struct.unpack_from("=8xI", c.recv(4096))[0]
    if op == 1:  # PLUG_CA, struct plug_ca
        say(c, 3, struct.pack("=2Q3I20s65s7x", 1, 1, 1, 0, 0, name.encode(), b"a"))
    elif op == 2:  # PLUG_PORT, struct plug_port
        say(c, 4, bytes(608))
    else:  # PLUG_CONTROL
        say(c, 2, bytes(4))
        say(c, 10, json.dumps(said[json.loads(c.recv(65536)[8:])["ask"]]).encode())
"""


@pytest.mark.parametrize("name,counter,status", [
    ("ib_a", "link_downed", 0),
    ("../../../escaped", "link_downed", 1),
    ("/escaped", "link_downed", 1),
    ("..", "link_downed", 1),
    (".hidden", "link_downed", 1),
    ("", "link_downed", 1),
    ("ib_a", "../" * 7 + "escaped", 1),
    ("ib_a", "/escaped", 1),
    ("ib_a", ".hidden", 1),
    ("ib_a", "", 1),
])
def test_sysfs_of_a_forged_fabric(netns, name, counter, status):
    """A fabric's names of adapters and counters cannot make `urnic fabric sysfs` write outside
    its folder."""
    top = netns.stage.tmp / f"forged{random.getrandbits(40):x}"
    top.mkdir()
    top.chmod(0o777)
    script = FORGED.replace("VERSION", constant("fabric/port/plug.h", "PLUG_VERSION"))
    forged = netns.start("/usr/bin/python3", "-c", script, name, counter)
    forged.wait_output("ready")
    end = netns.run(netns.stage.urnic, "fabric", "sysfs", "-F", "forged", str(top / "in"),
                    check=False)
    assert end.popen.returncode == status, end.out
    assert (": Bad message" in end.out) == bool(status), end.out
    assert forged.running()
    made_ = {str(p.relative_to(top)) for p in top.rglob("*")}
    assert not made_ or not status
    assert all(p == "in" or p.startswith("in/") for p in made_), made_
    assert not [p for p in made_ if "escaped" in p or "hidden" in p]
    assert any(p.endswith("/ib_a/ports/1/counters/link_downed") for p in made_) == (not status)
