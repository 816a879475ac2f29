# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI, unmodified, over UCX: each rank sends to each other one, and checks the data.

On a fabric each rank has an adapter of its own (docs/dev/fabric.md).
"""

import re

import pytest
from lab import says_nothing
from subnet import Fabric, made
from tool import need

# ranks reach each other by the named transport only, and mpirun starts nothing by ssh
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "plm_rsh_agent", "/bin/false",
          "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^vader,tcp,openib"]


def run(place, ranks, transport, **env):
    need("mpirun")
    words = ["env", *(f"{k}={v}" for k, v in env.items()), f"UCX_TLS={transport},self",
             "UCX_LOG_LEVEL=info", place.stage.urnic, "run", "--", *MPIRUN, "-n", str(ranks)]
    proc = place.run(*words, place.stage.tool("mpi/collective"), timeout=300)
    says_nothing(proc)
    out = proc.out
    assert f"{ranks} ranks, no error\n" in out
    return set(re.findall(r"cfg(?:\[\d+\]:|#\d+) tag\(.*?(\w+_verbs)/(\w+):1", out))


@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_a_rank_at_each_adapter(netns, transport):
    f = Fabric(netns, made("star:8"))
    f.opensm("node0")
    used = run(f.at("rank"), 8, transport)
    assert used == {(f"{transport}_verbs", f"ib_node{i}") for i in range(8)}


@pytest.mark.parametrize("mpirun", [MPIRUN[:5], ["mpirun.mpich"]], ids=["openmpi", "mpich"])
def test_a_launcher_is_told_nothing(netns, mpirun):
    """It has no rank, but hwloc in it reads /sys."""
    need(mpirun[0])
    f = Fabric(netns, made("star:2"))
    f.opensm("node0")
    place = f.at("rank")
    proc = place.run(place.stage.urnic, "run", "--", *mpirun, "-n", "2", "ls",
                     "/sys/class/infiniband", library=False)
    assert sorted(proc.out.split()) == ["ib_node0", "ib_node1"]


@pytest.mark.parametrize("transport", ["rc", "ud"])
def test_one_host(netns, transport):
    used = run(netns, 4, transport, UCX_NET_DEVICES="roce_lo:1")
    assert used == {(f"{transport}_verbs", "roce_lo")}
