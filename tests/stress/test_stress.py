# SPDX-License-Identifier: BSD-2-Clause
"""Random traffic with verified data (tests/stress), over good and over bad wires."""

import shutil

import pytest

import lab

# More faults than any real wire has, all at once, in both directions
BAD_WIRE = "drop=0.01,dup=0.01,reorder=0.01,corrupt=0.005"


@pytest.fixture(scope="module")
def program(stage):
    return str(shutil.copy(lab.ROOT / "build/obj/tests/stress/stress", stage.path))


@pytest.fixture
def seconds(request):
    return 120 if request.config.getoption("--full") else 5


def run_pairs(program, server, client, count, seconds, gid, *options, env=None):
    """Run `count` pairs of processes at once; every process must end well."""
    runs = []
    for n in range(count):
        port = lab.next_port()
        words = [program, "-d", "roce_eth0", "-g", gid, "-p", port, "-t", seconds,
                 "-s", 1 + n, *options]
        runs.append(server.start(*words, env=env))
        runs.append(client.start(*words, server.ip4, env=env))
    for proc in runs:
        rc = proc.wait(seconds * 3 + 60)
        assert rc == 0, proc.describe()


@pytest.mark.parametrize("gid", ["v4", "v6"])
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_two_namespaces(shared_pair, program, seconds, mtu, gid):
    pair = shared_pair(mtu)
    run_pairs(program, pair.a, pair.b, 1, seconds, pair.GIDS[gid])


@pytest.mark.parametrize("way", [*lab.Pair.WAYS, "map"])
def test_one_host_several_processes(shared_pair, program, seconds, way):
    run_pairs(program, *shared_pair().place(way), 3, seconds, 1, "-m", 1 << 20)


def test_several_processes_on_both_hosts(shared_pair, program, seconds):
    pair = shared_pair()
    run_pairs(program, pair.a, pair.b, 3, seconds, 1, "-m", 1 << 20)


@pytest.mark.parametrize("seed", [1, 2])
def test_bad_wire(shared_pair, program, seconds, seed):
    pair = shared_pair()
    run_pairs(program, pair.a, pair.b, 1, seconds, 1, "-m", 1 << 18,
              "-M", 1 << 16, env={"URNIC_FAULT": f"{BAD_WIRE},seed={seed}"})


@pytest.mark.parametrize("mtu", [1, 2])
def test_small_path_mtu(shared_pair, program, seconds, mtu):
    pair = shared_pair()
    run_pairs(program, pair.a, pair.b, 1, seconds, 1, "-m", 1 << 20, "-u", mtu)


@pytest.mark.full
@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_longest_message(shared_pair, program, place):
    """A message of 2 GiB - 1; at path MTU 256 it has more packets than may be unacknowledged."""
    server, client = shared_pair().place(place)
    run_pairs(program, server, client, 1, 60, 1, "-m", 1 << 20, "-q", 1, "-H",
              (1 << 31) - 1)
    run_pairs(program, server, client, 1, 60, 1, "-m", 1 << 20, "-q", 1, "-u", 1,
              "-H", (1 << 31) - 1)
