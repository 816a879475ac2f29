# SPDX-License-Identifier: BSD-2-Clause
"""rdma_cm servers whose clients die, and strangers with bad intentions: no other connection is
harmed, and nothing is left behind.  (test_cm.py and test_cm_iwarp.py test what the clients of a
dying server see.)
"""

import contextlib
import os
import re
import signal
import time

import pytest

import lab
from test_cm import ours, wait_service  # noqa: F401

KINDS = {"roce": {"URNIC_DEVICES": "roce_eth0"},
         "iwarp": {"URNIC_DEVICES": "iwarp_eth0"}}
MANY = {"roce": 40, "iwarp": 200}
STEPS = ["asked", "answered", "established", "said", "parted"]


def descriptors(proc):
    """The process's open descriptors: {number: what it refers to}, without those that were closed
    while we looked."""
    found = {}
    for entry in os.scandir(f"/proc/{proc.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[entry.name] = os.readlink(entry.path)
    return found


class Server:
    """A server that accepts every client and prints "nobody is there" when the last one has
    gone."""

    def __init__(self, ns, ours, ip, env=None):
        self.ours, self.ip, self.port = ours, ip, lab.next_port()
        self.proc = ns.start(ours, "crowd", ip, str(self.port), env=env)
        wait_service(self.proc, self.port)

    def serves(self, ns, n=3):
        return ns.run(self.ours, "many", self.ip, str(self.port), str(n))

    def said(self):
        """The server's own lines: urnic's hints, of a client that answers no more, may follow them."""
        return [line for line in self.proc.out.splitlines() if not line.startswith("urnic[")]

    def rest(self, seconds=10):
        """Wait until all clients have gone, and return the descriptors that are open then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.proc.running():
            # "nobody is there" is printed once more each time that the last client has gone
            before, said = descriptors(self.proc), self.said()
            time.sleep(0.3)
            if said[-1:] == ["nobody is there"] and said == self.said() and \
                    before.keys() == descriptors(self.proc).keys():
                return before
        raise AssertionError(self.proc.describe())

    def is_as_it_was(self, before, seconds=10, more=0):
        """Assert that at most `more` descriptors are left over; a process of the same host costs
        the server one for as long as it lives."""
        end = time.monotonic() + seconds
        now = self.rest(seconds)
        while len(now) > len(before) + more and time.monotonic() < end:
            time.sleep(0.2)
            now = self.rest(seconds)
        left = [now[fd] for fd in now.keys() - before.keys()]
        assert len(now) <= len(before) + more, f"left: {left}\n{self.proc.describe()}"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("place", ["host", "pair"])
@pytest.mark.parametrize("kind", KINDS)
def test_clients_die(shared_pair, ours, kind, place, step):
    """A server's clients are killed: it serves the others, and no descriptor stays open."""
    pair = shared_pair()
    a = pair.a.with_env(**KINDS[kind])
    b = a if place == "host" else pair.b.with_env(**KINDS[kind])
    server = Server(a, ours, pair.a.ip4)
    server.serves(b)
    before = server.rest()
    for _ in range(4):
        out = b.run(ours, "leaving", server.ip, str(server.port), step, check=False)
        assert out.popen.returncode == -signal.SIGKILL, out.describe()
        server.serves(b)
    server.is_as_it_was(before)


@pytest.mark.parametrize("place", ["host", "pair"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_at_once(shared_pair, ours, kind, place):
    """More simultaneous connections from one host to one listener than its backlog holds.  Their
    random ports collide now and then."""
    pair = shared_pair()
    a = pair.a.with_env(**KINDS[kind])
    b = a if place == "host" else pair.b.with_env(**KINDS[kind])
    server = Server(a, ours, pair.a.ip4)
    server.serves(b, MANY[kind])
    before = server.rest(30)
    server.serves(b, MANY[kind])
    server.is_as_it_was(before, 30)


def test_clients_beyond_the_backlog(shared_pair, ours):
    """Several processes connect at once, and none of them has to fall back on MPA's revision 1."""
    pair = shared_pair()
    a, b = (ns.with_env(**KINDS["iwarp"], URNIC_LOG="info") for ns in (pair.a, pair.b))
    server = Server(a, ours, pair.a.ip4)
    clients = [b.start(ours, "many", server.ip, str(server.port), "40")
               for _ in range(4)]
    for client in clients:
        assert client.wait(lab.HANGS) == 0, client.describe()
        assert "iw_revision_1" not in client.out, client.describe()


def test_another_user_cannot_end_a_connection(shared_pair, ours):
    """A stranger sends requests from the host's own address, as if the client's QP had sent them.
    Such requests say that the QP has no connection any more, but must not end it."""
    host = shared_pair().a.with_env(**KINDS["roce"], URNIC_LOG="info")
    ip, port = host.ip4, lab.next_port()
    server = host.start(ours, "dying", ip, str(port), "never")
    wait_service(server, port)
    client = host.start(ours, "watch", ip, str(port), "never")
    client.wait_output("ESTABLISHED")
    qpn, guid = re.search("QP (0x[0-9a-f]+) of (0x[0-9a-f]+)", client.out).groups()
    stranger = host.start(host.stage.tool("cm/forge"), ip, str(port), qpn, guid,
                          user=lab.SECOND_USER, library=False)
    assert stranger.wait(lab.HANGS) == 0, stranger.describe()
    server.wait_output("unless the peer's process still has it")
    time.sleep(0.5)
    assert client.running() and server.running(), \
        client.describe() + server.describe()
    assert "DISCONNECTED" not in client.out, client.describe()
    client.kill()
    assert server.wait(lab.HANGS) == 0, server.describe()


STRANGER = """
import os, socket, struct, sys, time
what, address, n = sys.argv[1], (sys.argv[2], int(sys.argv[3])), int(sys.argv[4])
request = b"MPA ID Req Frame" + bytes([0x10, 2, 0, 4, 0, 1, 0, 1])
held = []
for i in range(n):
    s = socket.socket()
    s.settimeout(5)
    s.connect(address)
    s.settimeout(0.2)
    held.append(s)
    try:
        if what == "garbage":
            s.sendall([b"GET / HTTP/1.0\\r\\n\\r\\n", bytes(100), os.urandom(600)][i % 3])
        elif what == "half":
            s.sendall(request[:1 + i % 23])
        elif what == "mute":            # asks, and says nothing more
            s.sendall(request)
        elif what == "flood":
            s.sendall(request + os.urandom(1 << 20))
        elif what == "reset":
            s.sendall(request[:i % 25])
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
    except OSError:
        pass
print("here", flush=True)
time.sleep(60)
"""
STRANGERS = {"silent": 100, "garbage": 100, "half": 100, "mute": 60, "flood": 30,
             "reset": 300}


@pytest.mark.parametrize("what", STRANGERS)
@pytest.mark.parametrize("devices", [
    "iwarp_eth0", pytest.param("roce_eth0,iwarp_eth0", marks=pytest.mark.full)])
def test_strangers(shared_pair, ours, what, devices):
    """Clients are served while strangers connect; when the strangers have gone, nothing of them
    is left."""
    pair = shared_pair()
    a = pair.a.with_env(URNIC_DEVICES=devices)
    b = pair.b.with_env(**KINDS["iwarp"])
    server = Server(a, ours, pair.a.ip4 if "," not in devices else "0.0.0.0")
    server.ip = pair.a.ip4
    server.serves(b)
    before = server.rest()
    stranger = b.start("python3", "-c", STRANGER, what, server.ip, str(server.port),
                       str(STRANGERS[what]), library=False)
    for _ in range(3):
        server.serves(b)
    stranger.wait_output("here", 30)
    server.serves(b)
    stranger.kill()
    server.serves(b)
    server.is_as_it_was(before)
