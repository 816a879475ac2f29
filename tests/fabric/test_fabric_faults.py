# SPDX-License-Identifier: BSD-2-Clause
"""What programs at a fabric's adapters outlive: faulty and pulled cables, another subnet manager,
and the death of a program or of the fabric.

docs/dev/fabric.md describes the fabric.
"""

import json
import re
import signal

import pytest
from lab import HANGS, eventually, next_port, run_both
from subnet import ask, counters, leaves, sent, wait_log
from test_xrc import Lab, Srq, connect
from traffic import both, load, well


@pytest.mark.parametrize("fault", ["drop=0.02", "corrupt=0.02", "nth=5,nth=6,rx:nth=40"])
def test_faults_at_an_adapter(two, fault):
    """RC retransmits packets that a faulty cable loses; the other end of the cable counts the
    corrupt ones."""
    was = counters(two)["sw", 2]["port_rcv_errors"]
    # perftest keeps both QPs until both ends are done
    _, client = run_both(two.at("a"), two.at("b", URNIC_FAULT=f"{fault},seed=3", URNIC_LOG="debug"),
                         ["ib_write_bw", "-n", "300", "-s", "9000", "-b"], "127.0.0.1")
    kind = "corrupted" if "corrupt" in fault else "dropped"
    told = re.findall(rf"fault: (tx|rx) datagram \d+ {kind}", client.out)
    assert told.count("tx") >= 2 and told.count("rx") >= 1, client.describe()
    seen = counters(two)["sw", 2]["port_rcv_errors"] - was
    assert seen == (told.count("tx") if kind == "corrupted" else 0)
    own = counters(two)["H-b", 1]
    assert own["port_xmit_packets"] == own["unicast_xmit_packets"] + own["multicast_xmit_packets"]
    dropped = re.findall(r"debug: datagram of \d+ bytes dropped: rx_(?:icrc|malformed)$",
                         client.out, re.M)
    assert len(dropped) == (told.count("rx") if kind == "corrupted" else 0)


def test_a_long_cable(two):
    """The delay of a long cable shows in the round trip, and nothing that it delays is lost at
    the end."""
    _, client = run_both(two.at("a"), two.at("b", URNIC_FAULT="rx:delay=6ms"),
                         ["ibv_rc_pingpong", "-n", "30", "-s", "20000"], "127.0.0.1")
    us = float(re.search(r"= ([\d.]+) usec/iter", client.out)[1])
    assert us >= 6000, client.describe()


@pytest.mark.parametrize("fault", ["dup=0.1", "reorder=0.1", "rx:delay=1ms:0.5"])
def test_faults_that_no_cable_has(two, fault):
    said = two.at("b", URNIC_FAULT=fault).run("ibv_devinfo", check=False)
    assert "whose links keep order and double nothing" in said.out
    assert said.popen.returncode
    said = two.ns.run(two.ns.stage.urnic, "run", "--hca", "b", "--fault", fault, "--",
                      "echo", "started", check=False)
    assert said.popen.returncode == 2 and "started" not in said.out
    assert "keep order" in said.out


def test_opensm_dies_and_comes_back_beside_traffic(two):
    """Verified traffic goes on while nobody manages the subnet, and while a new OpenSM takes it
    over."""
    folder = two.dir / "domain"
    folder.mkdir()
    place = Lab((two.at("b"), "ib_b", 0), (two.at("a"), "ib_a", 0), folder)
    t, i = place.member(), place.sender()
    q, srq = connect(i, t, timeout=18)[0], Srq(t)
    t.must("stock", 0, 1000)
    for _ in range(3):
        t.say("sink", 0, 0, 1000)
        was = sent(two, "H-a")
        i.say("flood", q, 1, 0, 1000, srq.num)
        assert eventually(lambda was=was: sent(two, "H-a") > was + 100)
        two.sm.kill()
        was = sent(two, "H-a")
        assert eventually(lambda was=was: sent(two, "H-a") > was + 100)
        two.sm.log.unlink()
        two.sm = two.opensm("a")
        was = sent(two, "H-a")
        assert eventually(lambda was=was: sent(two, "H-a") > was + 100)
        i.say("enough")
        assert i.answer(60) == t.answer(60)


def test_a_cable_is_pulled_under_load(two):
    """RC retransmits what was lost, once OpenSM has made the port active again."""
    port = next_port()
    words = ["ib_write_bw", "-p", str(port), "-n", "15000", "-u", "19"]
    server = two.at("a").start(*words)
    server.wait_listening(port)
    client = two.at("b").start(*words, "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    ask(two, "link", "down", "H-b", "1")
    ask(two, "link", "up", "H-b", "1")
    assert client.wait(100) == 0 and server.wait(HANGS) == 0, (
        f"client: {client.describe()}\nserver: {server.describe()}")


def test_a_link_goes_down_under_load(fabric):
    """OpenSM hears of the link by a trap and finds another route, and RC retransmits what was
    lost."""
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    procs = load(f, "n1", "n3", "ib_write_bw", "-n", "24000", "-u", "19")
    was = {s: sent(f, "S-leaf1", s) for s in (1, 2)}
    assert eventually(lambda: any(sent(f, "S-leaf1", s) > was[s] + 100 for s in was))
    used = max(was, key=lambda s: sent(f, "S-leaf1", s) - was[s])
    ask(f, "link", "down", "S-leaf1", str(used))
    well(*reversed(procs))
    assert sent(f, "S-leaf1", 3 - used) > was[3 - used] + 100


def test_the_standby_takes_over_under_load(fabric):
    f = fabric(leaves(1, 2, 2))
    (f.dir / "conf").write_text("force_log_flush TRUE\nsminfo_polling_timeout 200\n"
                                "polling_retry_number 2\n")
    first = f.opensm("n0")
    second = f.opensm("n2", wait="Entering STANDBY state")
    server, client = load(f, "n1", "n3", "ib_write_bw", "-D", "6")
    first.kill()
    wait_log(second, "SUBNET UP")
    assert client.running()
    was = sent(f, "H-n3")
    assert eventually(lambda: sent(f, "H-n3") > was + 100)
    well(client, server)


def test_conservation(fabric):
    """Stopped programs and pulled cables included, one end of a link has sent what the other end
    has received."""
    f = fabric(leaves(2, 2, 2))
    f.opensm("n0")
    procs = [load(f, "n1", "n3", "ib_write_bw", "-n", "2000", "-u", "19"),
             load(f, "n2", "n0", "ib_write_bw", "-c", "UC", "-D", "4")]
    procs[1][0].signal(signal.SIGSTOP)
    ask(f, "link", "down", "S-leaf1", "1")
    ask(f, "link", "up", "S-leaf1", "1")
    procs[1][0].signal(signal.SIGCONT)
    well(*(p for pair in procs for p in reversed(pair)))
    out = f.ns.run(f.ns.stage.urnic, "fabric", "status", "--json").out
    ends = [((n["id"], p["port"]), (p["peer"], p["peer_port"]))
            for n in json.loads(out)["nodes"] for p in n["ports"] if "peer" in p]
    assert len(ends) == 16
    count = counters(f)
    for one, other in ends:
        for kind in ("packets", "data"):
            assert count[one][f"port_xmit_{kind}"] == count[other][f"port_rcv_{kind}"], (one, other)
    assert sum(count[one]["port_xmit_packets"] for one, _ in ends) > 10000


def test_the_fabric_is_killed(two):
    port = next_port()
    server = two.at("a").start("ib_write_bw", "-p", str(port), "-D", "60")
    server.wait_listening(port)
    client = two.at("b").start("ib_write_bw", "-p", str(port), "-D", "60", "127.0.0.1")
    watch = two.at("b").start("stdbuf", "-oL", "ibv_asyncwatch")
    watch.wait_output("async event FD")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    two.proc.signal(signal.SIGKILL)
    watch.wait_output("IBV_EVENT_PORT_ERR")
    assert client.wait(60) not in (0, None), client.describe()
    assert "Failed status 12" in client.out, client.describe()   # 12 is RETRY_EXC_ERR
    assert watch.running()


def test_a_program_is_killed(two):
    """The peer finds out by its own retries, and other programs go on."""
    port = next_port()
    server = two.at("a").start("ib_write_bw", "-p", str(port), "-D", "60")
    server.wait_listening(port)
    client = two.at("b").start("ib_write_bw", "-p", str(port), "-D", "60", "127.0.0.1")
    was = sent(two, "sw")
    assert eventually(lambda: sent(two, "sw") > was + 100)
    server.signal(signal.SIGKILL)
    both(two, "ibv_rc_pingpong")
    assert client.wait(60) not in (0, None), client.describe()
    assert "Failed status 12" in client.out, client.describe()   # 12 is RETRY_EXC_ERR
