# SPDX-License-Identifier: BSD-2-Clause
"""What an operation takes, in instructions and system calls: it may not grow unseen.

Instructions are counted by callgrind, in the program's own thread while it does the
operations; by UDP in all threads, since the NIC's takes a part of the work, the more of
it the busier the machine is.  System calls are counted by strace in the program's
thread.  What is counted in a whole program is the difference of two runs, of which one
does more operations, so what it does once is not in it.
"""

import re

import pytest
from tool import need

ROUNDS = 20             # of COUNT operations each: tests/bench/one_sided.c, two_qps.c
FEW, MORE = 32, 512     # COUNT of either run; a multiple of the lists

UDP = {"URNIC_LOCAL": "off"}

# What it is, program, its words, environment: at most so many instructions and system
# calls for one operation.  A ceiling is 5 % above what was counted, for libraries and
# compilers of other versions: when code gets better, lower it; to raise one, say in the
# commit what the instructions buy.
#
# one_sided: post and poll of this process; the other does nothing.  two_qps: both ends
# together; a round of its ping-pong is two SENDs.
ROWS = [
    ("write-mapped", "one_sided", "-s write 8", {}, 530, 0),
    ("read-mapped", "one_sided", "-s read 8", {}, 533, 0),
    ("add-mapped", "one_sided", "-s add 8", {}, 556, 0),
    ("write-mapped-list", "one_sided", "-s -l 32 write 8", {}, 320, 0),
    ("write", "one_sided", "write 8", {}, 2240, 1),
    ("read", "one_sided", "read 8", {}, 2280, 1),
    ("write-64K", "one_sided", "write 65536", {}, 2250, 1),
    ("send-pingpong", "two_qps", "8", {}, 6320, 0),
    ("send-list", "two_qps", "-l 16 8", {}, 1360, 0),
    ("send-list-udp", "two_qps", "-l 16 8", UDP, 4100, 0.3),
]


# Where another thread has the processor in the midst of a turn, a poller waits by these.
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

    def collected_by(n, *options):
        return program(r"Collected : (\d+)", "valgrind", "--tool=callgrind", *options,
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
