# SPDX-License-Identifier: BSD-2-Clause
"""The instructions and system calls that an operation takes, which must not grow unnoticed.

callgrind counts instructions in the program's own thread while it does the operations; by UDP it
counts them in all threads, because the NIC's thread does a share of the work that grows when the
machine is busy.  strace counts the system calls of the program's thread.  What is counted over a
whole program is the difference of two runs, one of which does more operations, so that start and
end do not count.
"""

import os
import re

import lab
import pytest
from tool import need

pytestmark = pytest.mark.alone      # a poller's share of the work depends on what else runs

ROUNDS = 20             # a run does ROUNDS times COUNT operations: tests/bench/one_sided.c, two_qps.c
FEW, MORE = 32, 512     # COUNT of the two runs; each is a multiple of the lists' lengths

UDP = {"URNIC_LOCAL": "off"}

# A row: name, program, its arguments, environment, and the most instructions and system calls
# that one operation may take.  The limit is 5 % above what was counted, for other versions of
# libraries and compilers.  When code gets better, lower its limit; to raise one, say in the
# commit message what the additional instructions buy.
#
# "write" and "read" contain what the trials of the ring take (docs/dev/shm.md), in which the program
# polls in vain: how often depends on the machine, so their limits are 15 % above.
#
# one_sided: posting and polling in this process; the other process does nothing.  two_qps: both
# ends together; a round of its ping-pong is two SENDs, a WRITE of 16 KiB is 16 packets.
ROWS = [
    ("write-mapped", "one_sided", "-s write 8", {}, 602, 0),
    ("read-mapped", "one_sided", "-s read 8", {}, 629, 0),
    ("add-mapped", "one_sided", "-s add 8", {}, 656, 0),
    ("write-mapped-list", "one_sided", "-s -l 32 write 8", {}, 126, 0),
    ("write", "one_sided", "write 8", {}, 3300, 1.3),
    ("read", "one_sided", "read 8", {}, 3500, 1.3),
    ("write-64K", "one_sided", "write 65536", {}, 2800, 1),
    ("send-pingpong", "two_qps", "8", {}, 3290, 0),
    ("send-list", "two_qps", "-l 16 8", {}, 810, 0),
    ("send-list-udp", "two_qps", "-l 16 8", UDP, 3510, 0.3),
    ("write-16K-udp", "two_qps", "-w -l 16 16384", UDP, 47700, 1),
]


# A poller waits by these calls when the thread with the turn is preempted, so they are not
# counted.
WAITS = "trace=!sched_yield,clock_nanosleep"
RARE = 0.05


@pytest.fixture
def program(netns):
    need("valgrind")
    need("strace")

    def run(pattern, *words, **kw):
        out = netns.run(*words, timeout=300, **kw).out
        return int(re.findall(pattern, out, re.M)[-1])
    run.tool = lambda name: netns.stage.tool(f"bench/{name}")
    return run


@pytest.mark.parametrize("name, words, env, instructions, calls",
                         [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_ceilings(program, name, words, env, instructions, calls):
    bench = (program.tool(name), *words.split())
    # On one processor: with two, the program's thread polls in vain while the engine's is in a
    # system call, as often as the machine is quick.
    pinned = ("taskset", "-c", str(min(os.sched_getaffinity(0))))

    def collected_by(n, *options):
        return program(r"Collected : (\d+)", *pinned, "valgrind", "--tool=callgrind", *options,
                       "--callgrind-out-file=/dev/null", *bench, str(n), env=env)

    def called_by(n):
        return program(r"^100\.00 +\S+ +\S+ +(\d+) .*total$", "strace", "-c", "-e", WAITS,
                       *bench, str(n), env=env)

    def growth(count):
        return (count(MORE) - count(FEW)) / (ROUNDS * (MORE - FEW))

    if env == UDP:
        collected = growth(collected_by)
    else:
        collected = collected_by(MORE, "--toggle-collect=measured*") / (ROUNDS * MORE)
    called = growth(called_by)
    print(f"{collected:.0f} instructions, {called:.3f} system calls")
    assert collected <= instructions, f"{collected:.0f} instructions an operation"
    assert called <= calls + RARE, f"{called:.3f} system calls an operation"


# --- connections of rdma_cm ---------------------------------------------------------

# The most system calls that a connection takes from rdma_resolve_addr() or the request to
# rdma_destroy_id(), in the program's own thread; the program sleeps in poll().  Calls are left out
# whose number depends on how soon the peer answers.
CONNECTION = {"ask": 33, "serve": 21}
BY_CHANCE = "trace=!recvmmsg,sendmmsg,epoll_pwait,sched_yield,nanosleep,clock_nanosleep,futex"


def test_system_calls_of_a_connection(shared_pair, stage):
    need("strace")
    server, client = shared_pair().place("pair")
    cycle, few, more = stage.tool("cm/cm_test_program"), 50, 250

    def called(n):
        words = ["strace", "-c", "-e", BY_CHANCE, cycle, None, server.ip4,
                 str(lab.next_port()), str(n)]
        words[5] = "serve"
        serve = server.start(*words)
        serve.wait_output("listening")
        words[5] = "ask"
        ends = {"ask": client.run(*words, timeout=300), "serve": serve}
        assert serve.wait(300) == 0, serve.describe()
        return {end: int(re.findall(r"^100\.00 +\S+ +\S+ +(\d+) .*total$", proc.out, re.M)[-1])
                for end, proc in ends.items()}

    first, second = called(few), called(more)
    found = {end: (second[end] - first[end]) / (more - few) for end in first}
    print(found)
    assert all(found[end] <= CONNECTION[end] for end in found), found
