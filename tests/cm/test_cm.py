# SPDX-License-Identifier: BSD-2-Clause
"""Connection management: Debian's rdma_cm programs, unmodified, as an ordinary user; and a
program of our own that checks the rules which such programs rely on."""

import dataclasses
import pathlib
import pwd
import re
import shutil
import socket
import time

import pytest

import lab
from tool import need

OURS = lab.ROOT / "build/obj/tests/cm/cm_test_program"

# Places for two processes, each with the address family by which they connect.
PLACES = [("pair", "v4"), ("pair", "v6"), ("host", "v4"), ("pipe", "v6"),
          ("udp", "v4"), ("lo", "v4"), ("lo", "v6")]


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    server: str             # {ip} is the server's address, {port} the port
    client: str
    said: str = ""          # text in the client's output when all is well
    families: tuple = ("v4", "v6")
    places: tuple = ("pair", "host", "pipe", "udp", "lo")
    port: int = 0           # the port that the program has built in; 0: the port is an option
    space: int = 0x0106
    by_tcp: bool = False    # client and server first connect by TCP
    stays: bool = False     # the server does not end by itself


ROWS = [
    Row("rping", "rping -s -v -V -C 5 -a {ip} -p {port}",
        "rping -c -v -V -C 5 -a {ip} -p {port}", "rdma-ping-4"),
    Row("rping-any", "rping -s -C 5 -p {port}",
        "rping -c -V -C 5 -a {ip} -p {port}", families=("v4",)),
    Row("rping-big", "rping -s -C 3 -S 60000 -a {ip} -p {port}",
        "rping -c -V -C 3 -S 60000 -a {ip} -p {port}"),
    Row("ucmatose", "ucmatose -p {port}", "ucmatose -s {ip} -p {port}",
        "return status 0"),
    Row("ucmatose-10", "ucmatose -c 10 -C 20 -p {port}",
        "ucmatose -c 10 -C 20 -s {ip} -p {port}", "return status 0"),
    Row("ucmatose-migrate", "ucmatose -m -p {port}", "ucmatose -m -s {ip} -p {port}",
        "return status 0"),
    Row("udaddy", "udaddy", "udaddy -s {ip}", "return status 0", space=0x0111,
        port=7174),
    Row("udaddy-10", "udaddy -c 10 -C 20", "udaddy -c 10 -C 20 -s {ip}",
        "return status 0", space=0x0111, port=7174),
    Row("cmtime", "cmtime -c 50 -p {port}", "cmtime -c 50 -s {ip} -p {port}",
        "disconnect", stays=True),
    Row("rdma_client", "rdma_server -p {port}", "rdma_client -s {ip} -p {port}",
        "end 0", ("v4",)),
    Row("rdma_xclient", "rdma_xserver -p {port}", "rdma_xclient -s {ip} -p {port}",
        "end 0", ("v4",)),
    Row("rdma_xclient-r", "rdma_xserver -c r -p {port}",
        "rdma_xclient -c r -s {ip} -p {port}", "end 0", ("v4",)),
    Row("rdma_xclient-x", "rdma_xserver -c x -p {port}",
        "rdma_xclient -c x -s {ip} -p {port}", "end 0", ("v4",), space=0x013f),
    Row("send_bw", "ib_send_bw -R -n 200 -p {port}",
        "ib_send_bw -R -n 200 -p {port} {ip}", "65536", ("v4",)),
    Row("write_lat", "ib_write_lat -R -n 200 -p {port}",
        "ib_write_lat -R -n 200 -p {port} {ip}", "t_avg", ("v4",)),
    Row("read_bw", "ib_read_bw -R -n 200 -p {port}",
        "ib_read_bw -R -n 200 -p {port} {ip}", "65536", ("v4",)),
    Row("fi_msg", "fi_pingpong -p verbs -e msg -B {port}",
        "fi_pingpong -p verbs -e msg -P {port} {ip}", "64k", ("v4",), by_tcp=True),
    Row("fi_rxm", "fi_pingpong -p verbs;ofi_rxm -e rdm -B {port}",
        "fi_pingpong -p verbs;ofi_rxm -e rdm -P {port} {ip}", "64k", ("v4",),
        by_tcp=True),
]


def cells():
    """Each row in every place that it can run in; a bounded run keeps two places per row."""
    out = []
    for i, row in enumerate(ROWS):
        can = [p for p in PLACES if p[0] in row.places and p[1] in row.families]
        for j, (place, family) in enumerate(can):
            marks = () if (j - i) % len(can) < 2 else pytest.mark.full
            out.append(pytest.param(row, place, family, marks=marks,
                                    id=f"{row.name}-{place}-{family}"))
    return out


def stand(pair, place, family):
    """The server's namespace, the client's namespace, and the server's address."""
    if place == "lo":
        return pair.a, pair.a, "127.0.0.1" if family == "v4" else "::1"
    server, client = pair.place(place)
    return server, client, pair.a.ip4 if family == "v4" else pair.a.ip6


def wait_service(proc, port, space=0x0106, timeout=lab.HANGS):
    """Wait until the process listens on the port.  The socket name that is awaited first appears
    when the port is bound, which is before the process listens."""
    want = re.compile(rf"@urnic/cm/{space:04x}/\w+/{port}$", re.M)
    names = pathlib.Path(f"/proc/{proc.pid}/net/unix")
    end = time.monotonic() + timeout
    while not want.search(names.read_text(errors="replace")):
        assert time.monotonic() < end and proc.running(), \
            f"nobody has port {port}: {proc.describe()}"
        time.sleep(0.01)
    wait_listener(proc, port, timeout)


def wait_listener(proc, port, timeout=lab.HANGS):
    proc.wait_dump(f"^listener port {port} on .*: listening", timeout)


RPING_LATE = re.compile(r"""(?=(.*\n)*(server|client)\ DISCONNECT\ EVENT)
                            ((server\ )?ping\ data:\ .*\n
                             |(server|client)\ DISCONNECT\ EVENT.*\n
                             |wait\ for\ RDMA_READ_ADV\ state\ 10\n
                             |rdma_get_cm_event:\ Bad\ file\ descriptor\n)*""", re.X)


def status(program, rc, out):
    """The exit status of a program that has ended with rc.  After the DISCONNECTED event, a thread
    of rping asks for the next event of a channel that main() destroys meanwhile, and then ends
    the process with 255; this happens on any RNIC.  That status counts as 0 if rping has reported
    the disconnect and no other error."""
    late = program == "rping" and RPING_LATE.fullmatch(out)
    return 0 if rc == 255 and late else rc


def wait_end(proc, program, timeout):
    """Return the status() of a program once it has ended."""
    rc = proc.wait(timeout)
    return status(program, rc, proc.out)


def run_pair(server_ns, client_ns, server, client, port, *, space=0x0106,
             by_tcp=False, stays=False, timeout=lab.HANGS):
    """Run a server and a client to their ends.  space=None: the service has no socket name to
    wait for, because the server does not bind it at an interface, so wait for its dump instead."""
    s = server_ns.start(*server)
    if by_tcp:
        s.wait_listening(port)
    elif space is None:
        wait_listener(s, port)
    else:
        wait_service(s, port, space)
    c = client_ns.start(*client)
    rc = wait_end(c, client[0], timeout)
    src = 0 if stays else wait_end(s, server[0], lab.HANGS if rc == 0 else 1)
    lab.both_ended_well(c, rc, s, src)
    return s, c


@pytest.mark.parametrize("row,place,family", cells())
def test_programs(shared_pair, row, place, family):
    server_ns, client_ns, ip = stand(shared_pair(), place, family)
    port = row.port or lab.next_port()
    words = {"ip": ip, "port": port}
    server = [w.format(**words) for w in row.server.split()]
    client = [w.format(**words) for w in row.client.split()]
    if row.name.startswith(("udaddy", "ucmatose", "cmtime")) and family == "v6":
        server += ["-b", ip]
    _, c = run_pair(server_ns, client_ns, server, client, port, space=row.space,
                    by_tcp=row.by_tcp, stays=row.stays)
    assert row.said in c.out, c.describe()


def wait_member(proc, group, timeout=lab.HANGS):
    """Wait until the process's namespace has joined the multicast group."""
    v6 = ":" in group
    raw = socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, group)
    want = raw.hex() if v6 else raw[::-1].hex().upper()
    table = pathlib.Path(f"/proc/{proc.pid}/net/{'igmp6' if v6 else 'igmp'}")
    end = time.monotonic() + timeout
    while want not in table.read_text():
        assert time.monotonic() < end and proc.running(), proc.describe()
        time.sleep(0.01)


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("larger", ["client", "server"])
def test_interfaces_of_different_mtu(netns_pair, larger, family):
    """Both ends of the connection use the smaller MTU, whichever end has it."""
    pair = netns_pair()
    server, client, ip = stand(pair, "pair", family)
    (client if larger == "client" else server).sh("ip link set eth0 mtu 9000")
    log = {"URNIC_LOG": "info"}
    port = lab.next_port()
    words = ["ucmatose", "-S", "60000", "-p", port]
    _, c = run_pair(server.with_env(**log), client.with_env(**log), [*words, "-b", ip],
                    [*words, "-s", ip], port)
    assert "return status 0" in c.out, c.describe()
    assert ("the connection gets the smaller" in c.out) == (larger == "client"), c.describe()


def test_loopback_by_different_devices(netns_pair):
    """The client's device for 127.0.0.1 is none of the server's, whose log says so."""
    host = netns_pair().a
    host.sh("ip link add eth1 type veth peer name eth2; ip addr add 192.0.2.1/24 dev eth1;"
            "ip link set eth1 up; ip link set eth2 up")
    port = lab.next_port()
    s = host.start("ucmatose", "-p", port, env={"URNIC_DEVICES": "eth0"})
    wait_service(s, port)
    c = host.start("ucmatose", "-s", "127.0.0.1", "-p", port,
                   env={"URNIC_DEVICES": "eth1"})
    assert c.wait(lab.HANGS) != 0, c.describe()
    assert "RDMA_CM_EVENT_REJECTED, error: 28" in c.out, c.describe()
    s.wait_output("it came to the address 192.0.2.1, and this process has no device")


@pytest.mark.parametrize("family", ["v4", "v6"])
def test_mckey(shared_pair, family):
    """Multicast between two namespaces."""
    pair = shared_pair()
    group = "239.77.1.1" if family == "v4" else "ff15::77"
    ips = [ns.ip4 if family == "v4" else ns.ip6 for ns in (pair.a, pair.b)]
    receiver = pair.a.start("mckey", "-m", group, "-b", ips[0])
    wait_member(receiver, group)
    pair.b.run("mckey", "-m", group, "-b", ips[1], "-s")
    assert receiver.wait(lab.HANGS) == 0, receiver.describe()


def test_mckey_without_loopback(shared_pair):
    """QPs that do not receive their own packets (IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)."""
    pair = shared_pair()
    receiver = pair.a.start("mckey", "-l", "-m", "239.77.1.2", "-b", pair.a.ip4)
    wait_member(receiver, "239.77.1.2")
    pair.b.run("mckey", "-l", "-m", "239.77.1.2", "-b", pair.b.ip4, "-s")
    assert receiver.wait(lab.HANGS) == 0, receiver.describe()


@pytest.mark.parametrize("words", ["ucmatose", "ucmatose -P ib", "udaddy"])
def test_by_gid_alone(shared_pair, words):
    """AF_IB addresses, which are a RoCE device's GIDs."""
    pair = shared_pair()
    port = 7174 if words == "udaddy" else lab.next_port()
    words = (*words.split(), "-f", "gid", *(() if words == "udaddy" else ("-p", str(port))))
    run_pair(pair.a, pair.b, words, (*words, "-s", f"::ffff:{pair.a.ip4}"), port, space=None)


# --- a program of our own ---------------------------------------------------------

@pytest.fixture(scope="session")
def ours(stage):
    path = stage.path / "cm"
    shutil.copy(OURS, path)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1", "eth4", "eth6"])
def test_rules(shared_pair, ours, ip):
    pair = shared_pair()
    ip = {"eth4": pair.a.ip4, "eth6": pair.a.ip6}.get(ip, ip)
    pair.a.run(ours, "rules", ip, str(lab.next_port()))


def test_what_was_there_wakes(shared_pair, ours):
    pair = shared_pair()
    pair.a.run(ours, "wakes", pair.a.ip4, str(lab.next_port()))


@pytest.mark.parametrize("devices", [None, "iwarp_lo,iwarp_eth0"])
@pytest.mark.parametrize("ip", ["127.0.0.1", "eth4", "eth6"])
def test_a_source_port_is_reserved(shared_pair, ours, ip, devices):
    pair = shared_pair()
    ip = {"eth4": pair.a.ip4, "eth6": pair.a.ip6}.get(ip, ip)
    ns = pair.a.with_env(URNIC_DEVICES=devices) if devices else pair.a
    ns.run(ours, "source-port", ip, str(lab.next_port()))


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1"])
def test_rules_without_an_interface(netns, ours, ip):
    netns.run(ours, "rules", ip, str(lab.next_port()))


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1", "eth4"])
def test_bad_arguments(shared_pair, ours, ip):
    """MALLOC_PERTURB_ fills freed memory, so that a use after free is noticed."""
    pair = shared_pair()
    ip = {"eth4": pair.a.ip4}.get(ip, ip)
    pair.a.run(ours, "bad", ip, str(lab.next_port()), env={"MALLOC_PERTURB_": "165"})


def test_races(shared_pair, ours):
    """MALLOC_PERTURB_ fills freed memory, so that a use after free is noticed."""
    pair = shared_pair()
    pair.a.run(ours, "races", pair.a.ip4, "0", env={"MALLOC_PERTURB_": "165"})


def test_cancelled(shared_pair, ours):
    """Every call is made by a thread that is about to be cancelled."""
    pair = shared_pair()
    pair.a.run(ours, "cancel", pair.a.ip4, str(lab.next_port()))


def test_forks(shared_pair, ours):
    pair = shared_pair()
    pair.a.run(ours, "forks", pair.a.ip4, str(lab.next_port()))
    lab.next_port()         # the program uses two ports


REFUSED = ["RDMA_CM_EVENT_REJECTED 8"]
ENDED = ["RDMA_CM_EVENT_ESTABLISHED 0", "RDMA_CM_EVENT_DISCONNECTED 0"]


@pytest.mark.parametrize("step,told", [
    ("requested", [REFUSED]), ("accepted", [REFUSED, ENDED]),
    ("established", [ENDED]), ("exit", [ENDED]), ("disconnected", [ENDED])])
@pytest.mark.parametrize("place,family", [
    ("host", "v4"), ("udp", "v4"), ("pair", "v4"), ("pair", "v6")])
def test_server_dies(shared_pair, ours, place, family, step, told):
    """When a server dies at a step, its client gets an event at once; where no urnic process is
    left on the server's host, it gets the event when it next asks the host whether the connection
    still exists."""
    server_ns, client_ns, ip = stand(shared_pair(), place, family)
    port = str(lab.next_port())
    server = server_ns.start(ours, "dying", ip, port, step)
    wait_service(server, int(port))
    out = client_ns.run(ours, "watch", ip, port, step, timeout=15).out
    assert out.splitlines() in told, out


def test_the_last_server_but_one_dies(shared_pair, ours):
    """When the server has died and another urnic process runs on its host, that process has no
    such connection, and says so to the client."""
    server_ns, client_ns, ip = stand(shared_pair(), "pair", "v4")
    holder = server_ns.start(ours, "hold", ip, str(lab.next_port()))
    holder.wait_output("listening")
    port = str(lab.next_port())
    server = server_ns.start(ours, "dying", ip, port, "established")
    wait_service(server, int(port))
    out = client_ns.run(ours, "watch", ip, port, "-", timeout=15,
                        env={"URNIC_LOG": "info"}).out
    assert ENDED == [line for line in out.splitlines() if line.startswith("RDMA")], out
    assert "nobody at" not in out, out


@pytest.mark.parametrize("ip", ["0.0.0.0", "::"])
def test_the_wildcard_is_this_host(shared_pair, ip):
    """A client may connect to the wildcard address, which is this host, as with any socket."""
    pair = shared_pair()
    port = lab.next_port()
    run_pair(pair.a, pair.a, ["rping", "-s", "-a", ip, "-C", "2", "-p", str(port)],
             ["rping", "-c", "-V", "-C", "2", "-a", ip, "-p", str(port)], port)


# No rping -V: valgrind cannot know that another process has set the bytes that it compares.
def test_valgrind_finds_no_error(shared_pair):
    need("valgrind")
    a = shared_pair().a
    ns = a.with_(inner=["valgrind", "-q", "--error-exitcode=9"])
    port = str(lab.next_port())
    words = ["rping", "-C", "5", "-a", a.ip4, "-p", port]
    for proc in run_pair(ns, ns, [*words, "-s"], [*words, "-c"], int(port)):
        assert "==" not in proc.out, proc.describe()


def test_nobody_listens(shared_pair, ours):
    """A connection request to a port without a listener is rejected by some urnic process of the
    host or, where there is none, by its kernel."""
    pair = shared_pair()
    for ip in pair.a.ip4, pair.a.ip6:
        out = pair.b.run(ours, "watch", ip, str(lab.next_port()), "-").out
        assert out.splitlines() == REFUSED
    holder = pair.a.start(ours, "hold", pair.a.ip4, str(lab.next_port()))
    holder.wait_output("listening")
    out = pair.b.run(ours, "watch", pair.a.ip4, str(lab.next_port()), "-").out
    assert out.splitlines() == REFUSED


def test_a_port_has_one_owner(shared_pair, ours):
    pair = shared_pair()
    port = str(lab.next_port())

    def outcome(ip):
        return pair.a.run(ours, "refused", ip, port).out.strip()

    holder = pair.a.start(ours, "hold", pair.a.ip4, port)
    holder.wait_output("listening")
    assert outcome(pair.a.ip4) == "EADDRINUSE"
    assert outcome("0.0.0.0") == "EADDRINUSE"
    assert outcome("127.0.0.1") == "bound"
    assert outcome(pair.a.ip6) == "bound"
    holder.kill()
    assert outcome(pair.a.ip4) == "bound"
    assert outcome("0.0.0.0") == "bound"


def test_many_processes(shared_pair, ours):
    """Requests and replies reach the right ones among the processes of a host."""
    pair = shared_pair()
    servers, clients = [], []
    for _ in range(4):
        port = lab.next_port()
        server = pair.a.start(ours, "serve", pair.a.ip4, str(port), "20")
        wait_service(server, port)
        servers.append((server, port))
    for server, port in servers:
        clients.append(pair.b.start(ours, "ask", pair.a.ip4, str(port), "20"))
    for proc in [*clients, *(s for s, _ in servers)]:
        assert proc.wait(60) == 0, proc.describe()


@pytest.mark.parametrize("waits", ["poll", "inside"])
@pytest.mark.parametrize("fault", ["drop=0.1", "dup=0.1", "reorder=0.1"])
def test_a_bad_network(shared_pair, ours, fault, waits):
    pair = shared_pair()
    port = str(lab.next_port())
    env = {"URNIC_FAULT": f"{fault},seed=7"}
    if waits == "inside":
        env["SLEEPS_INSIDE"] = "1"
    run_pair(pair.a.with_env(**env), pair.b.with_env(**env),
             [ours, "serve", pair.a.ip4, port, "30"],
             [ours, "ask", pair.a.ip4, port, "30"], int(port), timeout=60)


BECOME = {"BECOME": str(pwd.getpwnam(lab.SECOND_USER).pw_uid)}


@pytest.mark.skipif(lab.IN_USERNS, reason="a user namespace has one user")
@pytest.mark.parametrize("place", ["host", "udp"])
def test_daemon_that_becomes_another_user(shared_pair, ours, place):
    """The server binds as root and then changes to another user; it serves clients of root, of
    its new user, and of a third user."""
    ns, _ = shared_pair().place(place)
    port = lab.next_port()
    users = [None, lab.SECOND_USER, "nobody"]
    server = ns.start(ours, "serve", ns.ip4, str(port), "15", user=None, env=BECOME)
    server.wait_output("listening")
    for user in users:
        ns.run(ours, "ask", ns.ip4, str(port), "5", user=user)
    assert server.wait(lab.HANGS) == 0, server.describe()


@pytest.mark.skipif(lab.IN_USERNS, reason="a user namespace has one user")
@pytest.mark.parametrize("user", [None, lab.SECOND_USER, "nobody"])
def test_client_that_becomes_another_user(shared_pair, ours, user):
    ns, _ = shared_pair().place("host")
    port = lab.next_port()
    server = ns.start(ours, "serve", ns.ip4, str(port), "5", user=user)
    wait_service(server, port)
    # Another user holds the UDP port, which root accepts only with URNIC_SHARE=host.
    ns.run(ours, "ask", ns.ip4, str(port), "5", user=None,
           env={**BECOME, "URNIC_SHARE": "host"})
    assert server.wait(lab.HANGS) == 0, server.describe()


def test_two_users(shared_pair, ours):
    """The second user cannot have the UDP port, so the first user's process forwards its
    datagrams."""
    if lab.IN_USERNS:
        pytest.skip("a user namespace has one user")
    pair = shared_pair()
    port = lab.next_port()
    holder = pair.a.start(ours, "hold", pair.a.ip4, str(lab.next_port()))
    holder.wait_output("listening")
    server = pair.a.start(ours, "serve", pair.a.ip4, str(port), "10", user="daemon")
    wait_service(server, port)
    pair.b.run(ours, "ask", pair.a.ip4, str(port), "10")
    assert server.wait(lab.HANGS) == 0, server.describe()


