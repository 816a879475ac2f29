# SPDX-License-Identifier: BSD-2-Clause
"""What UCX, Open MPI, MPICH and libfabric choose by themselves between hosts that have several
interfaces: three namespaces, two networks that join them all, and one interface of each that leads
nowhere.  On every device that they use the others must be reached; never on loopback's.

Where the interface that leads nowhere is the first, UCX has to be told that hosts of different
subnets do not reach each other, and fi_pingpong which device to take: they take the first, as
with any RNIC.  UCX 1.18 takes all devices at once, and TCP on all interfaces beside them, so it has
to be told so wherever that interface is, and to leave TCP out: without RDMA, by TCP alone, it does
not reach the other host here either.
"""

import itertools
import re
import subprocess

import pytest
from tool import need, ucx_perftest

import lab
from lab import eventually

HOSTS = 3
# For each place of the interface that leads nowhere ("x"): the networks of eth0, eth1, eth2.
NETS = {"last": "01x", "first": "x01"}
LOCAL = {"UCX_IB_ROCE_LOCAL_SUBNET": "y"}
AGENT = """#!/bin/sh
[ "$1" != -x ] || shift
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc sh -c "hostname $host; $*"
"""


def ucx_settings(where):
    told = subprocess.run("ucx_info -v", shell=True, text=True, capture_output=True, check=False)
    release = re.search(r"(?i)version:? (\d+)\.(\d+)", told.stdout)
    if release and tuple(map(int, release.groups())) >= (1, 18):
        return {**LOCAL, "UCX_TLS": "^tcp"}
    return LOCAL if where == "first" else {}


class Net:
    """Three hosts, each a namespace with eth0, eth1 and eth2, at the bridges of a fourth."""

    def __init__(self, stage, where):
        self.where, self.ucx = where, ucx_settings(where)
        self.usable = {f"roce_eth{i}" for i, net in enumerate(NETS[where]) if net != "x"}
        self.all = []
        try:
            self.switch = self.make(stage)
            self.switch.sh("for b in br0 br1; do ip link add $b type bridge; ip link set $b up; done")
            self.hosts = [self.make(stage) for _ in range(HOSTS)]
            for i, host in enumerate(self.hosts, 1):
                for k, net in enumerate(NETS[where]):
                    self.plug(host, i, k, net)
                host.ip = f"10.90.0.{i}"
            for host in self.hosts:
                assert eventually(lambda host=host: host.sh("ip link").count("state UP") == 3)
        except BaseException:
            self.remove()
            raise
        self.agent = stage.path / "agent"
        self.agent.write_text(AGENT)
        self.agent.chmod(0o755)

    def make(self, stage):
        self.all.append(lab.Namespace(stage))
        return self.all[-1]

    def plug(self, host, i, k, net):
        port = f"h{i}e{k}"
        self.switch.sh(f"ip link add {port} type veth peer name eth{k} netns {host.name}")
        if net == "x":      # a network of each host's own, as containers have
            host.sh(f"ip addr add 172.17.{i}.1/24 dev eth{k}")
        else:
            host.sh(f"ip addr add 10.9{net}.0.{i}/24 dev eth{k};"
                    f"ip addr add fd9{net}::{i}/64 dev eth{k} nodad")
            self.switch.sh(f"ip link set {port} master br{net}")
        host.sh(f"ip link set eth{k} up")
        self.switch.sh(f"ip link set {port} up")

    def remove(self):
        for ns in self.all:
            ns.remove()

    def at(self, host, *words):
        """The command words of a program that has a host name and an IPC namespace of its own, so
        that UCX does not use the memory that these hosts in truth share."""
        return ["unshare", "--uts", "--ipc", "sh", "-c", 'hostname "$0"; exec "$@"', host.name,
                host.stage.urnic, "run", "--", *words]

    def mpi(self, n, *words, **env):
        """Run MPI's starter on the first of n hosts, and return its output."""
        first = self.hosts[0]
        env = {**self.ucx, "UCX_LOG_LEVEL": "info", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **env}
        names = ",".join(host.name for host in self.hosts[:n])
        words = [w.format(hosts=names, agent=self.agent, n=n, ip=first.ip) for w in words]
        out = first.run(*self.at(first, *words), env=env, user=None, library=False,
                        timeout=300).out
        assert f"{n} ranks, no error\n" in out, out
        return used(out)


def used(out):
    """The devices by which UCX reaches another process: not itself."""
    ways = [w for w in re.findall(r"(?:ep_cfg\[\d+\]:|cfg#\d+) (.*)", out) if "self/" not in w]
    return set(re.findall(r"\w+_verbs/(\w+):1", " ".join(ways)))


@pytest.fixture(scope="module", params=NETS)
def net(request, stage, can_namespace):
    net = Net(stage, request.param)
    yield net
    net.remove()


@pytest.fixture(autouse=True)
def nothing_left(net):
    yield
    for ns in net.all:
        ns.reap()


@pytest.mark.parametrize("test,size", [("tag_lat", 8), ("tag_lat", 200000), ("tag_bw", 100000),
                                       ("ucp_put_bw", 65536), ("ucp_get", 65536),
                                       ("stream_bw", 3000), ("ucp_am_bw", 20000)])
def test_ucx(net, test, size):
    need("ucx_perftest")
    for here, there in itertools.permutations(net.hosts[:2], 2):
        port = lab.next_port()
        words = [*ucx_perftest(), "-p", str(port)]
        env = {**net.ucx, "UCX_LOG_LEVEL": "info"}
        server = here.start(*net.at(here, *words), env=env, user=None, library=False)
        server.wait_listening(port)
        client = there.start(*net.at(there, *words, here.ip, "-t", test, "-s", str(size),
                                     "-n", "100"), env=env, user=None, library=False)
        rc = client.wait(lab.HANGS)
        lab.both_ended_well(client, rc, server, server.wait(lab.HANGS if rc == 0 else 1))
        assert used(client.out) and used(client.out) <= net.usable, client.describe()


@pytest.mark.parametrize("n", [2, 3])
def test_open_mpi(net, n):
    """Open MPI itself prefers TCP to a device whose name is not mlx5_0 or the like."""
    program = net.hosts[0].stage.tool("mpi/collective")
    need("mpirun.openmpi")
    devices = net.mpi(n, "mpirun.openmpi", "--mca", "plm_rsh_agent", "{agent}", "--mca", "pml", "ucx",
                      "--mca", "osc", "ucx", "--host", "{hosts}", "-n", "{n}", str(program))
    assert devices and devices <= net.usable


@pytest.mark.parametrize("n", [2, 3])
def test_mpich(net, n):
    need("mpiexec.mpich")
    program = net.hosts[0].stage.tool("mpi/collective-mpich")
    devices = net.mpi(n, "mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", "{agent}",
                      "-localhost", "{ip}", "-hosts", "{hosts}", "-n", "{n}", str(program))
    assert devices and devices <= net.usable


@pytest.mark.parametrize("endpoint", ["msg", "rdm"])
@pytest.mark.parametrize("network", [0, 1])
def test_libfabric(net, network, endpoint):
    need("fi_pingpong")
    here, there = net.hosts[:2]
    port = lab.next_port()
    words = ["fi_pingpong", "-p", "verbs", "-e", endpoint]
    if net.where == "first":
        words += ["-d", f"roce_eth{network + 1}"]
    server = here.start(*words, "-B", str(port))
    server.wait_listening(port)
    client = there.start(*words, "-P", str(port), f"10.9{network}.0.1")
    rc = client.wait(lab.HANGS)
    lab.both_ended_well(client, rc, server, server.wait(lab.HANGS if rc == 0 else 1))


@pytest.mark.parametrize("network", [0, 1])
@pytest.mark.parametrize("family", ["10.9{}.0.1", "fd9{}::1"])
def test_rdma_cm(net, family, network):
    """The route to the address decides."""
    here, there = net.hosts[:2]
    port = str(lab.next_port())
    ip = family.format(network)
    server = here.start("rping", "-s", "-C", "10", "-a", "::" if ":" in ip else "0.0.0.0", "-p", port)
    server.wait_dump(f"^listener port {port} on .*: listening")
    there.run("rping", "-c", "-V", "-C", "10", "-a", ip, "-p", port)
