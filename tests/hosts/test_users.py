# SPDX-License-Identifier: BSD-2-Clause
"""Several users on one host: one of them holds the UDP port and forwards for the others; another
takes it over, or holds the names or the port for nothing.

The programs are those of tests/faults.
"""

import signal

import pytest

import lab
from lab import HANGS, eventually, needs_second_user, uid
from workers import RIGHT, Two, stress, worker


def port_users(ns, table="udp"):
    """The user ids that hold port 4791."""
    rows = [line.split() for line in
            ns.sh(f"cat /proc/net/{table}").splitlines()[1:]]
    return {int(r[7]) for r in rows if r[1].endswith(":12B7")}


@needs_second_user
def test_two_users(netns_pair, stage, faults):
    """The first user's process forwards the second user's datagrams."""
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = [
        Two(pair.b, pair.a, worker(faults), users=(lab.SECOND_USER, "nobody")),
        Two(pair.b, pair.a, worker(faults), users=(lab.SECOND_USER,) * 2),
        Two(pair.a, pair.b, worker(faults, "-g", "2"), to=pair.a.ip6,
            users=(lab.SECOND_USER, "nobody")),
        Two(pair.b, pair.b, worker(faults), users=(lab.SECOND_USER, "nobody")),
    ]
    verified = Two(pair.b, pair.a, stress(stage, 0.5),
                   users=("nobody", lab.SECOND_USER))
    second[0].wait_joined()
    assert port_users(pair.b) == {uid(pair.b, "nobody")}
    for two in second:
        two.finish()
    verified.expect_right()
    first.finish()


@needs_second_user
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_second_user_takes_the_port_over(netns_pair, faults, end):
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = Two(pair.b, pair.a, worker(faults), users=(lab.SECOND_USER,) * 2)
    second.wait_joined()
    assert port_users(pair.b) == {uid(pair.b, "nobody")}
    if end == "kill":
        first.server.signal(signal.SIGKILL)
    else:
        first.finish()
    assert eventually(lambda: port_users(pair.b) == {uid(pair.b, lab.SECOND_USER)}), \
        second.server.describe()
    # now the first user is the second one to come
    third = Two(pair.b, pair.a, worker(faults)).wait_joined()
    assert port_users(pair.b) == {uid(pair.b, lab.SECOND_USER)}
    third.finish()
    second.finish()


def said_of_port(proc, level):
    return [x for x in proc.out.splitlines() if f"{level}: UDP port 4791" in x]


@needs_second_user
@pytest.mark.parametrize("user,share,warned", [
    (lab.SECOND_USER, "auto", 1), (lab.SECOND_USER, "host", 0), ("root", "host", 0)])
def test_second_user_is_warned(netns_pair, faults, user, share, warned):
    """The user who holds the port can read and change what it forwards, so the second user is
    warned."""
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = Two(pair.b, pair.a, worker(faults), users=(user, "nobody"),
                 server_env={"URNIC_SHARE": share})
    second.finish()
    lines = said_of_port(second.server, "warn")
    assert len(lines) == warned, second.server.describe()
    for line in lines:
        assert f"user {uid(pair.b, 'nobody')}, process {first.server.pid}:" in line
        assert "can read and change" in line and "URNIC_SHARE" in line
    assert not said_of_port(first.server, "warn")
    first.finish()


@needs_second_user
@pytest.mark.parametrize("user,share", [(lab.SECOND_USER, "user"), ("root", "auto")])
def test_second_user_refuses(netns_pair, faults, user, share):
    pair = netns_pair()
    first = Two(pair.b, pair.a, worker(faults)).wait_joined()
    second = Two(pair.b, pair.a, worker(faults), users=(user, "nobody"),
                 server_env={"URNIC_SHARE": share})
    assert second.server.wait(HANGS) == 4, second.server.describe()
    assert "RTR: Address already in use" in second.server.out
    lines = said_of_port(second.server, "error")
    assert len(lines) == 1, second.server.describe()
    assert f"user {uid(pair.b, 'nobody')}, process {first.server.pid}" in lines[0]
    assert "URNIC_SHARE=host" in lines[0]
    second.client.kill()
    first.finish()


@needs_second_user
@pytest.mark.parametrize("who", ["first", "second"])
def test_no_user_starves(netns_pair, stage, faults, who):
    """One user sends as much as eight processes can, through one port; the other user's requests
    are carried out meanwhile."""
    pair = netns_pair()
    users = ("nobody", lab.SECOND_USER)
    first = Two(pair.b, pair.a, worker(faults), users=users[:1] * 2).wait_joined()
    floods, gentle = (users[0], users[1]) if who == "first" else (users[1], users[0])
    flood = [Two(pair.b, pair.a, worker(faults), users=(floods,) * 2) for _ in range(4)]
    for two in flood:
        two.wait_working()
    for _ in range(3):
        other = Two(pair.b, pair.a, worker(faults, "-t", "0.5"), users=(gentle,) * 2)
        other.expect_right()
    for two in flood:
        two.finish()
    first.finish()


SQUAT_ALL = """
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192),) * 2)
claims, kept = int(sys.argv[1]), []
names = [f"urnic/{i}" for i in range(1, 1023)]
names += [f"urnic/{i}/{k:016x}" for i in range(769, 1023) for k in range(claims)]
for name in names:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(b"\\0" + name.encode())
    s.listen(1)
    kept.append(s)
print("squatting", flush=True)
time.sleep(600)
"""


@needs_second_user
@pytest.mark.parametrize("claims", [0, 2])
def test_all_slots_are_squatted(netns_pair, faults, claims):
    """A user holds the names of all slots and accepts no connection: other users get slots
    nevertheless, and reach each other."""
    pair = netns_pair()
    squatter = pair.b.start("/usr/bin/python3", "-c", SQUAT_ALL, str(claims),
                            user=lab.SECOND_USER)
    squatter.wait_output("squatting")
    working = [
        Two(pair.b, pair.a, worker(faults)),
        Two(pair.b, pair.b, worker(faults)),
        Two(pair.b, pair.b, worker(faults), users=("root", "root")),
        Two(pair.b, pair.b, worker(faults), users=("root", "nobody"),
            server_env={"URNIC_SHARE": "host"}),
    ]
    for two in working:
        two.wait_joined()
    for two in working:
        two.finish()
    squatter.kill()


HOLD = """
import socket, sys, time
s = socket.socket(int(sys.argv[1]), socket.SOCK_DGRAM)
s.bind(("", 4791))
print("holding", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("user", [
    "nobody", None, pytest.param(lab.SECOND_USER, marks=needs_second_user)])
@pytest.mark.parametrize("family,gid", [(2, "1"), (10, "2")], ids=["v4", "v6"])
def test_port_held_by_another(netns_pair, faults, user, family, gid):
    ns, _ = netns_pair().place("udp")
    holder = ns.start("/usr/bin/python3", "-c", HOLD, family, user=user)
    holder.wait_output("holding")
    proc = ns.run(faults, "fork", "-g", gid, "-m", "children", check=False)
    assert proc.popen.returncode == 4, proc.describe()
    assert "RTR: Address already in use" in proc.out, proc.describe()
    line = [x for x in proc.out.splitlines() if "error: UDP port 4791" in x]
    assert len(line) == 1, proc.describe()
    if user == "nobody":
        assert f"process {holder.pid} (python3)" in line[0], line
    else:
        assert f"user {uid(ns, user or 'root') if not lab.IN_USERNS else 0}" \
            in line[0], line
    holder.kill()
    assert RIGHT in ns.run(faults, "fork", "-g", gid, "-m", "children").out
