# SPDX-License-Identifier: BSD-2-Clause
"""Commands to a fabric, and what can go wrong.

Programs run as nobody.  docs/dev/fabric.md describes the fabric.
"""

import json
import os
import re
import signal
import subprocess
import time

import pytest
from lab import HANGS, eventually
from subnet import TWO, Fabric, ask, errors, leaves, link_states, ping, read, wait_log
from tool import bad, need


def test_a_cable_is_pulled(fabric):
    """When a cable is pulled, both its ends go down and OpenSM finds another route; when it is
    plugged in again, OpenSM uses it."""
    f = fabric(leaves(2, 2, 1))
    f.opensm("n0")

    def way():
        return f.run("n0", "ibtracert", "-G", "0x100001", "0x100003", check=False)
    spine = re.search(r'"(S-spine\d)"', way())[1]
    assert ask(f, "link", "down", spine[2:], "2") == f"{spine} 2 - S-leaf1 {int(spine[-1]) + 1}: pulled\n"
    assert link_states(f)[spine, 2] == "down"
    other = "S-spine1" if spine == "S-spine0" else "S-spine0"
    assert eventually(lambda: f'"{other}"' in way()), way()
    assert "3 received, 0% packet loss" in ping(f, "n0", "n1")
    ask(f, "link", "up", spine[2:], "2")
    assert eventually(lambda: link_states(f)[spine, 2] == "active")
    assert "num:128 (Link state change)" in read(f.dir / "log.n0")


def test_an_adapter_without_its_cable(fabric):
    f = fabric()
    f.opensm("a")
    for _ in range(3):
        ask(f, "link", "down", "b", "1")
        assert "State: Down" in f.run("b", "ibstat")
        ask(f, "link", "up", "sw", "2")
        assert eventually(lambda: "State: Active" in f.run("b", "ibstat"))
    assert "port_xmit_discards" not in ask(f, "counters", "b")
    assert re.search(r"^H-b 1 .* link_downed 3$", ask(f, "counters", "b", "1"), re.M)
    count = json.loads(ask(f, "counters", "--json"))["ports"]
    assert [(p["node"], p["port"]) for p in count] == [("sw", 1), ("sw", 2), ("H-a", 1),
                                                       ("H-b", 1)]
    assert [p["counters"]["link_downed"] for p in count] == [0, 3, 0, 3]


def test_wrong_words_to_a_fabric(fabric):
    f = fabric()

    def wrong(status, text, *args):
        end = f.ns.run(f.ns.stage.urnic, "fabric", *args, check=False)
        assert (end.popen.returncode, text in end.out) == (status, True), end.out
    wrong(1, "there is no node 'c' in fabric default", "link", "down", "c", "1")
    wrong(1, "H-a has no port 2, but 1 to 1", "link", "down", "a", "2")
    wrong(1, "there is no cable at port 3 of sw", "link", "up", "sw", "3")
    wrong(2, "not 'x'", "link", "up", "sw", "x")
    wrong(2, "not 'on'", "link", "on", "sw", "1")
    wrong(2, "expected down or up, a node and a port", "link", "up", "sw")
    wrong(1, "there is no node 'c'", "counters", "c")
    wrong(2, "not '1x'", "counters", "sw", "1x")
    wrong(1, "has no such node or port", "pcap", str(f.dir / "x"), "c")
    wrong(1, "has no such node or port", "pcap", str(f.dir / "x"), "sw", "5")
    wrong(2, "not '0'", "pcap", str(f.dir / "x"), "sw", "0")
    wrong(1, "No such file or directory", "pcap", str(f.dir / "none" / "x"))
    assert not (f.dir / "x").exists()
    wrong(1, "has no such node or port", "sysfs", "--hca", "c", str(f.dir))
    wrong(1, "none/x cannot be written: No such file or directory; name a directory", "sysfs", str(f.dir / "none" / "x"))
    wrong(1, "fabric other: no such fabric runs here", "status", "-F", "other")
    f.proc.kill()
    wrong(1, "fabric default: no such fabric runs here", "counters")


def test_the_fabric_is_killed(fabric):
    """When the fabric is killed, its programs get errors at once and do not hang."""
    f = fabric()
    server = f.at("a").start("ibping", "-S")
    sm = f.opensm("b")
    f.proc.kill()
    wait_log(sm, "recv error on MAD sized umad (Input/output error)")
    time.sleep(0.5)
    assert len(errors(sm.log)) < 20     # OpenSM writes a line for each failed call
    server.signal(signal.SIGTERM)
    assert server.wait(HANGS) is not None
    sm.signal(signal.SIGTERM)
    assert sm.wait(HANGS) is not None
    out = f.at("a").run("ibstat", "ib_a", check=False).out
    assert "no such fabric runs here; start one, such as `urnic fabric run star:2'" in out


def test_the_fabric_is_stopped_with_a_signal(fabric):
    f = fabric()
    f.proc.signal(signal.SIGINT)
    assert f.proc.wait(HANGS) == 0


def test_no_adapter(fabric):
    f = fabric()
    out = f.ns.run("ibstat", check=False).out
    assert "CA 'ib_" not in out
    out = f.at("nobody's").run("ibstat", "x", check=False).out
    assert "adapter nobody's of fabric default: the fabric has no such adapter" in out


def test_run_refuses_an_adapter_that_is_not_there(fabric):
    f = fabric()
    urnic = f.ns.stage.urnic
    said = f.ns.run(urnic, "run", "--hca", "c", "--", "echo", "started", check=False)
    assert said.popen.returncode == 2 and "started" not in said.out
    assert "adapter c of fabric default: the fabric has no such adapter; " \
        "`urnic fabric status -F default' lists those that it has" in said.out
    said = f.ns.run(urnic, "run", "--hca", "a", "--fabric", "other", "--", "true", check=False)
    assert said.popen.returncode == 2
    assert "no such fabric runs here" in said.out
    assert "Fabrics that run here: default\n" in said.out or \
        re.search(r"Fabrics that run here: \d+:default\n", said.out)
    said = f.ns.run(urnic, "fabric", "status", "--fabric", "other", check=False)
    assert said.popen.returncode and "Fabrics that run here: " in said.out
    assert f.ns.run(urnic, "run", "--hca", "a", "--", "echo", "started").out == "started\n"


def test_doctor_knows_the_adapter(fabric):
    f = fabric()
    urnic = f.ns.stage.urnic

    def says(at):
        out = at.run(urnic, "doctor", "--json", check=False).out
        found = {c["check"]: c for c in json.loads(out)}["fabric"]
        return found["verdict"], found["detail"]

    verdict, detail = says(f.ns)
    assert verdict == "ok" and "no adapter is asked for" in detail and "default" in detail
    verdict, detail = says(f.at("b"))
    assert verdict == "limited" and "ib_b" in detail
    f.opensm("a")
    verdict, detail = says(f.at("b"))
    assert verdict == "ok" and re.search(r"ib_b, LID 3, 127\.\d+\.\d+\.\d+$", detail)
    verdict, detail = says(f.at("c"))
    assert verdict == "missing" and "no such adapter" in detail


def test_a_rank_has_its_adapter(fabric):
    f = fabric()
    at = f.at("rank")
    for rank, name in enumerate(("ib_a", "ib_b", "ib_a")):
        out = at.run("ibv_devices", env={"OMPI_COMM_WORLD_RANK": str(rank)}).out
        assert re.findall(r"^\s+(ib_\w+)\s", out, re.M) == [name]
        out = at.run("ibstat", "-l", env={"PMIX_RANK": str(rank)}).out
        assert out.split() == [name]
    out = at.run("ibv_devices", check=False).out
    assert "no MPI launcher has said which rank this process is" in out
    # the launcher itself has no rank, and runs nevertheless
    at.run(f.ns.stage.urnic, "run", "--", "env", "PMI_RANK=1", "true")


def test_two_fabrics_of_one_name(fabric):
    f = fabric()
    second = f.ns.run(f.ns.stage.urnic, "fabric", "run", str(f.dir / "topology"),
                      check=False)
    assert second.popen.returncode == 1
    assert "a fabric of that name runs here; name this one with --fabric" in second.out


def test_somebody_else_has_the_name(fabric, netns):
    """Root's socket has the name of nobody's fabric: programs do not believe it, and do not
    hang."""
    uid = subprocess.run(["id", "-u", "nobody"], check=True, text=True,
                         stdout=subprocess.PIPE).stdout.strip()
    squatter = netns.start(
        "/usr/bin/python3", "-c",
        "import socket, time\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"s.bind(b'\\0urnic/fabric/{uid}/default'); s.listen()\n"
        "print('ready', flush=True); time.sleep(60)", user=None)
    squatter.wait_output("ready")
    out = netns.with_env(URNIC_HCA="a").run("ibstat", "x", check=False).out
    assert "another user has that name" in out


def test_settings(fabric):
    """Rates and addresses come from a second file, so that the first one stays as ibsim reads
    it."""
    text = TWO
    f = fabric(text)
    second = f.dir / "settings"
    second.write_text("[sw]\nrate = 4xQDR\n[b 1]\nrate = 1xHDR\naddress = 127.9.0.1\n")
    g = Fabric(f.ns, text, "--fabric", "second", "-s", str(second))
    g.ns = g.ns.with_env(URNIC_FABRIC="second")
    out = ask(g, "status")
    assert re.search(r"^sw 1 .* 40 Gb/s \(4xQDR\)$", out, re.M), out
    assert re.search(r"^sw 2 .* 50 Gb/s \(1xHDR\)$", out, re.M), out
    assert re.search(r"^H-b +adapter +0 +127\.9\.0\.1$", out, re.M), out
    g.opensm("a")
    assert "Rate: 40" in g.run("a", "ibstat") and "Rate: 50" in g.run("b", "ibstat")
    second.write_text("[sw]\nspeed = 4xQDR\n")
    for verb, more in (("run", []), ("exec", ["true"])):
        end = f.ns.run(f.ns.stage.urnic, "fabric", verb, "-s", str(second),
                       str(f.dir / "topology"), *more, check=False)
        assert end.popen.returncode == 2
        assert f"{second}:2:1: expected rate, address or a section, not 'speed'" in end.out


def test_wrong_topology(tmp_path):
    file = tmp_path / "t.net"
    file.write_text('Switch 4 "sw"\n[1] "H-a"[x]\n')
    bad(2, f"{file}:2:11: expected the port at the other end, as [1], not 'x]'",
        "fabric", "run", str(file))
    for rule in str(tmp_path / "none"), "nosuch:3", "fattree":
        bad(2, f"neither a file nor a rule: {rule[:60]}: expected star:, ", "fabric", "run", rule)
    bad(2, "no topology is named", "fabric", "run")
    bad(2, "no command 'rum'", "fabric", "rum")
    bad(2, "a name is letters", "run", "--fabric", "a b", "--", "true")


@pytest.mark.parametrize("rule,nodes", [
    ("star:5", 6), ("ring:4,2", 12), ("mesh:2,3", 12), ("torus:3,3", 18),
    ("clos:4,2,2", 14), ("fattree:2,3", 20), ("dragonfly:2,1,1", 12)])
def test_rules(fabric, netns, rule, nodes):
    """A topology by a rule can be printed and run, or run directly."""
    text = netns.run(netns.stage.urnic, "fabric", "make", rule).out
    f = fabric(text)
    f.opensm("node0")
    out = f.run("node1", "ibnetdiscover")
    assert len(re.findall(r"^(?:Switch|Ca)\t", out, re.M)) == nodes
    at_once = netns.start(netns.stage.urnic, "fabric", "run", "-F", "b", rule)
    at_once.wait_output("fabric b:")
    assert netns.with_env(URNIC_FABRIC="b", URNIC_HCA="node1").run("ibstat", "-l").out \
        == "ib_node1\n"


def test_exec(netns):
    need("opensm")
    urnic = netns.stage.urnic
    before = set(netns.stage.tmp.iterdir())
    out = netns.run(urnic, "fabric", "exec", "fattree:2,3", "--", "sh", "-c",
                    f"ibstat; {urnic} run --hca node3 -- ibstat; sminfo").out
    assert out.count("State: Active") == 2
    assert "CA 'ib_node0'" in out and "CA 'ib_node3'" in out
    assert "SMINFO_MASTER" in out
    # an ordinary user's PATH lacks /usr/sbin, where Debian has opensm and ibtracert
    out = netns.run("env", "PATH=/usr/bin:/bin", urnic, "fabric", "exec", "star:2", "--",
                    "ibtracert", "2", "3", timeout=60).out
    assert "To ca" in out
    out = netns.run(urnic, "fabric", "exec", "star:2", "ibstat", "-l",
                    env={"URNIC_HCA": "node1"}).out
    assert out == "ib_node1\n"
    end = netns.run(urnic, "fabric", "exec", "star:2", "--", "sh", "-c", "exit 7",
                    check=False)
    assert end.popen.returncode == 7
    # no file, no process and no socket name is left
    assert set(netns.stage.tmp.iterdir()) == before
    assert "urnic/fabric" not in netns.sh("cat /proc/net/unix")
    assert urnic.name not in netns.sh(f"ip netns pids {netns.name} | xargs -r ps -o args=")


def test_exec_leaves_no_program(netns):
    """`fabric exec` kills what the program left: background programs, sessions of their own, and
    what these have started."""
    need("opensm")
    left = "sleep 1000 & echo $!; setsid sleep 1001 & echo $!; " \
        "{ setsid sh -c 'sleep 1002 & echo $!; sleep 1003 & echo $!; wait' & } | head -n 2"
    out = netns.run(netns.stage.urnic, "fabric", "exec", "star:2", "--", "sh", "-c", left).out
    pids = out.split()
    assert len(pids) == 4 and not any(os.path.exists(f"/proc/{pid}") for pid in pids), out


def test_wrong_rules():
    bad(2, "star:0: expected star:n with numbers from 1 on", "fabric", "make", "star:0")
    bad(2, "no rule is named", "fabric", "make")
    bad(2, "a topology and a program are needed", "fabric", "exec", "star:2")
    bad(2, "expected star:n", "fabric", "exec", "star:0", "true")
    bad(2, "expected fattree:k,n", "fabric", "run", "fattree:4")
