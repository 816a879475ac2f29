# SPDX-License-Identifier: BSD-2-Clause
"""rsockets: Debian's programs, unmodified, as an ordinary user; TCP programs over
librspreload.so; and a program of our own that checks the rules which such programs rely on."""

import dataclasses
import hashlib
import pathlib
import shutil

import pytest

import lab
from test_cm import stand, wait_service

OURS = lab.ROOT / "build/obj/tests/rsocket/rsocket_test_program"
PRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"

# Places for two processes, each with the address family by which they connect.
PLACES = [("pair", "v4"), ("pair", "v6"), ("host", "v4"), ("pipe", "v6"),
          ("udp", "v4"), ("lo", "v4"), ("lo", "v6")]


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    options: str
    program: str = "rstream"
    full: bool = False

    @property
    def timeout(self):
        return 300 if self.full else lab.HANGS

    @property
    def marks(self):
        """For a cell that only --full runs.  Both ends of a whole riostream spin on memory, so
        beside other tests it takes longer than its limit."""
        alone = self.full and self.program == "riostream"
        return (pytest.mark.full, pytest.mark.alone) if alone else pytest.mark.full


# Small, because a program that spins on a busy machine's core waits for its time slices.
ROWS = [
    Row("sizes", "-S all -C 2 -I 2"),
    Row("async", "-T a -I 20 -C 5 -S 5000"),
    Row("blocking", "-T b -I 20 -C 5 -S 5000"),
    Row("nonblocking", "-T n -I 20 -C 5 -S 5000"),
    Row("verify", "-T v -I 4 -C 10 -S 100000"),
    Row("keepalive", "-k 1 -I 4 -C 10 -S 1000"),
    Row("no-inline", "-i 0 -I 10 -C 10 -S 64"),
    Row("inline", "-i 128 -I 10 -C 10 -S 64"),
    Row("tiny-buffers", "-B 2000 -T v -I 3 -C 10 -S 30000"),
    Row("resolve", "-T r -I 3 -C 10 -S 3000"),
    Row("credits", "-I 3 -C 2000 -S 16"),
    Row("direct", "-I 10 -C 5 -S 5000 -T v", "riostream"),
    Row("direct-blocking", "-I 10 -C 5 -S 5000 -T b", "riostream"),
    Row("direct-nonblocking", "-I 10 -C 5 -S 5000 -T n", "riostream"),
    Row("all", "", full=True),
    Row("direct-all", "", "riostream", full=True),
]


def cells():
    """Each row in every place; a bounded run keeps two places per row."""
    out = []
    for i, row in enumerate(ROWS):
        for j, (place, family) in enumerate(PLACES):
            few = (j - i) % len(PLACES) < 2 and not row.full
            out.append(pytest.param(row, place, family, id=f"{row.name}-{place}-{family}",
                                    marks=() if few else row.marks))
    return out


def run_pair(server_ns, client_ns, server, client, port, timeout=lab.HANGS):
    s = server_ns.start(*server)
    wait_service(s, port)
    c = client_ns.start(*client)
    rc = c.wait(timeout)
    lab.both_ended_well(c, rc, s, s.wait(lab.HANGS if rc == 0 else 1))
    return s, c


@pytest.mark.parametrize("row,place,family", cells())
def test_streams(shared_pair, row, place, family):
    server_ns, client_ns, ip = stand(shared_pair(), place, family)
    port = lab.next_port()
    common = [*row.options.split(), "-p", str(port),
              "-f", "ip" if family == "v4" else "ipv6"]
    _, c = run_pair(server_ns, client_ns, [row.program, "-b", ip, *common],
                    [row.program, "-s", ip, *common], port, timeout=row.timeout)
    assert "Gb/sec" in c.out and len(c.out.splitlines()) >= 2, c.describe()


@pytest.mark.parametrize("place", lab.Pair.APART)
def test_apart(shared_pair, place):
    """Two users, two pid namespaces, or process_vm_* forbidden by seccomp."""
    server_ns, client_ns = shared_pair().place(place)
    port, ip = lab.next_port(), shared_pair().a.ip4
    common = ["-T", "v", "-I", "3", "-C", "5", "-S", "100000", "-p", str(port)]
    run_pair(server_ns, client_ns, ["rstream", "-b", ip, *common],
             ["rstream", "-s", ip, *common], port)


def rcopy(stage, server_ns, client_ns, ip):
    port = lab.next_port()
    data = hashlib.shake_128(b"rcopy").digest(3_000_001)
    place = pathlib.Path(stage.tmp)
    source, copied = place / f"rcopy-{port}", place / f"copied-{port}"
    source.write_bytes(data)
    source.chmod(0o644)
    server = server_ns.start("rcopy", "-p", str(port))
    wait_service(server, port)
    client_ns.run("rcopy", str(source), f"{ip}:{copied}", "-p", str(port))
    server.kill()
    assert copied.read_bytes() == data


@pytest.mark.parametrize("place,family", [("pair", "v4"), ("host", "v4"), ("lo", "v4")])
def test_rcopy(shared_pair, stage, place, family):
    rcopy(stage, *stand(shared_pair(), place, family))


# --- datagrams --------------------------------------------------------------------

@pytest.mark.parametrize("place,family", [
    ("pair", "v4"), ("udp", "v4"), ("lo", "v4"),
    *(pytest.param(*p, marks=pytest.mark.full)
      for p in (("pair", "v6"), ("host", "v4"), ("pipe", "v6"), ("lo", "v6")))])
@pytest.mark.parametrize("option", ["b", "n", "a", "e"])
def test_udpong(shared_pair, place, family, option):
    server_ns, client_ns, ip = stand(shared_pair(), place, family)
    port = lab.next_port()
    common = ["-p", str(port), "-C", "20", "-S", "500", "-T", option]
    server = server_ns.start("udpong", "-b", ip, *common)
    server.wait_udp(port)
    client = client_ns.start("udpong", "-s", ip, *common)
    rc = client.wait(lab.HANGS)
    server.kill()               # the server does not end by itself
    assert rc == 0 and "Gb/sec" in client.out, client.describe()


@pytest.mark.parametrize("kind", ["rsockets", "sockets"])
def test_udpong_binds_the_loopback_address(shared_pair, kind):
    """Without -b udpong's server binds what getaddrinfo() names for no host: ::1.  A client that
    asks for an address of an interface then waits for ever, by plain sockets (-T s), too."""
    server_ns, client_ns, ip = stand(shared_pair(), "host", "v4")
    port = lab.next_port()
    common = ["-p", str(port), "-C", "20", "-S", "500", *(["-T", "s"] if kind == "sockets" else [])]
    server = server_ns.start("udpong", *common)
    server.wait_udp(port)
    client = client_ns.start("udpong", "-s", ip, *common)
    assert client.wait(2) is None, client.describe()
    client = client_ns.start("udpong", "-s", "::1", *common)
    rc = client.wait(lab.HANGS)
    server.kill()
    assert rc == 0 and "Gb/sec" in client.out, client.describe()


# --- librspreload -------------------------------------------------------------------

@pytest.mark.parametrize("place,options", [
    ("pair", []), ("host", ["-R"]), ("udp", ["-P", "3"]), ("lo", ["-R", "-P", "2"])])
def test_iperf3(shared_pair, place, options):
    server_ns, client_ns, ip = stand(shared_pair(), place, "v4")
    port = lab.next_port()
    server_ns, client_ns = (ns.with_env(LD_PRELOAD=PRELOAD)
                            for ns in (server_ns, client_ns))
    _, c = run_pair(server_ns, client_ns,
                    ["iperf3", "-s", "-1", "-B", ip, "-p", str(port)],
                    ["iperf3", "-c", ip, "-p", str(port), "-n", "20M", *options], port)
    assert "iperf Done" in c.out, c.describe()


PYTHON = '''
import socket, sys
data = open(sys.argv[3], "rb").read()
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.sendall(data)
s.shutdown(socket.SHUT_WR)
got = b""
while more := s.recv(5000):
    got += more
assert got == data[:100000], len(got)
s.close()
print("the same")
'''
PLAIN = '''
import socket, sys
ip, port = sys.argv[2], int(sys.argv[3])
if sys.argv[1] == "udp":
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::", port))
    while True:
        data, whom = s.recvfrom(100)
        s.sendto(repr(whom[0]).encode(), whom)
elif sys.argv[1] == "tcp":
    c, _ = socket.create_server((ip, port)).accept()
    c.sendall(c.recv(100))
elif sys.argv[1] == "ask-udp":
    s = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.sendto(b"who am I", (ip, port))
    print(s.recvfrom(100)[0].decode())
else:
    s = socket.create_connection((ip, port), timeout=10)
    s.sendall(b"hello")
    print(s.recv(100))
'''


@pytest.mark.parametrize("family", ["v4", "v6"])
def test_datagrams_of_both_families(shared_pair, family):
    """A socket bound to :: also receives IPv4, and sees IPv4 addresses as mapped ones."""
    pair = shared_pair()
    a, b = (ns.with_env(LD_PRELOAD=PRELOAD) for ns in (pair.a, pair.b))
    port = lab.next_port()
    server = a.start("/usr/bin/python3", "-c", PLAIN, "udp", "", str(port))
    server.wait_udp(port)
    ip, mine = (pair.a.ip4, f"'::ffff:{pair.b.ip4}'") if family == "v4" else (
        pair.a.ip6, f"'{pair.b.ip6}'")
    assert b.run("/usr/bin/python3", "-c", PLAIN, "ask-udp", ip, str(port)).out == mine + "\n"
    server.kill()


def test_a_plain_tcp_server(shared_pair):
    """If no RDMA listener has the port, librspreload falls back on TCP."""
    pair = shared_pair()
    port = lab.next_port()
    server = pair.a.start("/usr/bin/python3", "-c", PLAIN, "tcp", pair.a.ip4, str(port),
                          library=False)
    server.wait_listening(port)
    out = pair.a.with_env(LD_PRELOAD=PRELOAD).run(
        "/usr/bin/python3", "-c", PLAIN, "ask-tcp", pair.a.ip4, str(port)).out
    assert out == "b'hello'\n"


# Debian's librspreload replaces accept but not accept4, so the server has to be a program that
# calls accept.
CLIENTS = {
    "openbsd": "nc.openbsd -N {ip} {port}",
    "traditional": "nc.traditional -n -q 0 {ip} {port}",
}


@pytest.mark.parametrize("place", ["pair", "lo",
                                   pytest.param("udp", marks=pytest.mark.full),
                                   pytest.param("host", marks=pytest.mark.full)])
@pytest.mark.parametrize("client", [*CLIENTS, "python"])
def test_netcat(shared_pair, stage, place, client):
    server_ns, client_ns, ip = stand(shared_pair(), place, "v4")
    server_ns, client_ns = (ns.with_env(LD_PRELOAD=PRELOAD)
                            for ns in (server_ns, client_ns))
    port = lab.next_port()
    data = hashlib.shake_128(b"netcat").digest(500_001)
    there, back = (stage.tmp / f"nc-{port}-{name}" for name in ("there", "back"))
    there.write_bytes(data)
    # The netcats close once they have sent everything, so the server sends nothing back to them.
    # To the Python client it sends what fits the buffers, since neither end reads while it
    # writes.
    back.write_bytes(data[:100_000] if client == "python" else b"")
    for path in (there, back):
        path.chmod(0o644)
    got = stage.tmp / f"nc-{port}-got"
    server = server_ns.start("sh", "-c", f"exec nc.traditional -n -l -s {ip} -p {port} "
                                         f"<{back} >{got}")
    wait_service(server, port)
    if client == "python":
        words = ["python3", "-c", PYTHON, ip, str(port), str(there)]
    else:
        command = CLIENTS[client].format(ip=ip, port=port)
        words = ["sh", "-c", f"exec {command} <{there}"]
    client = client_ns.start(*words)
    assert client.wait(lab.HANGS) == 0, client.describe()
    assert server.wait(lab.HANGS) == 0, server.describe()
    assert got.read_bytes() == data
    if "python3" in words:
        assert "the same" in client.out


def test_preloaded_fork(shared_pair):
    """A server that forks for each connection, with TCP calls at both ends."""
    semaphore = pathlib.Path("/dev/shm/sem.rsocket_fork")   # librspreload leaves it behind
    if semaphore.exists():
        pytest.skip(f"{semaphore} is there, and may be another user's")
    ns, _, ip = stand(shared_pair(), "host", "v4")
    ns = ns.with_env(LD_PRELOAD=PRELOAD, RDMAV_FORK_SAFE="1", URNIC_LOG="info")
    port = lab.next_port()
    common = ["-I", "10", "-C", "2", "-S", "2000", "-p", str(port)]
    server = ns.start("rstream", "-T", "f", "-b", ip, *common)
    server.wait_listening(port)
    try:
        client = ns.run("rstream", "-T", "s", "-s", ip, *common)
    finally:
        semaphore.unlink(missing_ok=True)
    assert "direct copies" in client.out and "Gb/sec" in client.out, client.out
    server.kill()


# --- a program of our own -----------------------------------------------------------

@pytest.fixture(scope="session")
def ours(stage):
    path = stage.path / "rs"
    shutil.copy(OURS, path)
    path.chmod(0o755)
    return str(path)


ADDRESSES = ["127.0.0.1", "::1", "eth4", "eth6"]


def address(pair, ip):
    return {"eth4": pair.a.ip4, "eth6": pair.a.ip6}.get(ip, ip)


def many_ports():
    """The first of 30 ports, for a program with many parts."""
    return [lab.next_port() for _ in range(30)][0]


@pytest.mark.parametrize("ip", ADDRESSES)
@pytest.mark.parametrize("place", ["host", "udp"])
def test_rules(shared_pair, ours, ip, place):
    pair = shared_pair()
    ns, _ = pair.place(place)
    ns.run(ours, "rules", address(pair, ip), str(many_ports()), timeout=60)


@pytest.mark.parametrize("ip", ["127.0.0.1", "eth6"])
def test_bad_arguments(shared_pair, ours, ip):
    pair = shared_pair()
    pair.a.run(ours, "bad", address(pair, ip), str(many_ports()), timeout=60)


@pytest.mark.parametrize("ip,place", [
    ("127.0.0.1", "host"), ("eth6", "udp"),
    *(pytest.param(ip, place, marks=pytest.mark.full)
      for ip, place in (("127.0.0.1", "udp"), ("eth6", "host")))])
def test_short_lives(shared_pair, ours, ip, place):
    """Closing, forking and jumping out of a call at any moment; full backlogs."""
    pair = shared_pair()
    ns, _ = pair.place(place)
    ns.run(ours, "lives", address(pair, ip), str(many_ports()), timeout=60)


@pytest.mark.parametrize("ip", ADDRESSES)
def test_datagrams(shared_pair, ours, ip):
    pair = shared_pair()
    port = lab.next_port()
    lab.next_port()
    pair.a.run(ours, "datagrams", address(pair, ip), str(port))


@pytest.mark.parametrize("ip", ["127.0.0.1", "eth6"])
def test_strangers(shared_pair, ours, ip):
    """Strangers that send to a datagram socket's UDP port do no harm."""
    pair = shared_pair()
    # 44,000 strangers use ports from 12000, away from those that the kernel chooses
    pair.a.run(ours, "strangers", address(pair, ip), "12000", timeout=300)


@pytest.mark.parametrize("ip", ["127.0.0.1", "eth6"])
def test_cancelled(shared_pair, ours, ip):
    """Every call is made by a thread that is about to be cancelled."""
    pair = shared_pair()
    port = lab.next_port()
    lab.next_port()         # the program uses two ports
    pair.a.run(ours, "cancel", address(pair, ip), str(port))


@pytest.mark.parametrize("place", ["pair", "host", "udp"])
@pytest.mark.parametrize("how,told", [
    ("close", "100000 end pipe"), ("exit", "100000 end pipe"),
    ("kill", "100000 reset pipe")])
def test_a_peer_ends(shared_pair, ours, place, how, told):
    """When a peer ends, what it has sent can still be read, and then the way it ended is
    reported."""
    server_ns, client_ns, ip = stand(shared_pair(), place, "v4")
    port = lab.next_port()
    server = server_ns.start(ours, "dying", ip, str(port), how)
    wait_service(server, port)
    out = client_ns.run(ours, "watch", ip, str(port), timeout=30).last   # behind the log's line
    if how == "kill" and place == "pair":
        told = "100000 timeout pipe"    # the killed peer's host does not answer
        assert out in (told, "100000 reset pipe"), out
    else:
        assert out == told, out


@pytest.mark.parametrize("fault", ["drop=0.05", "dup=0.1", "reorder=0.1"])
def test_a_bad_network(shared_pair, fault):
    pair = shared_pair()
    port = lab.next_port()
    env = {"URNIC_FAULT": f"{fault},seed=7"}
    common = ["-I", "5", "-C", "5", "-S", "20000", "-T", "v", "-p", str(port)]
    run_pair(pair.a.with_env(**env), pair.b.with_env(**env),
             ["rstream", "-b", pair.a.ip4, *common],
             ["rstream", "-s", pair.a.ip4, *common], port)
