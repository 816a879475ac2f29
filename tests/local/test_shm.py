# SPDX-License-Identifier: BSD-2-Clause
"""Programs of others between processes of one host (docs/dev/shm.md)."""

import pytest

import lab

# The pingpongs look at the contents (-c).
ROWS = [
    ("ibv_rc_pingpong", "-n 2000 -c"),
    ("ibv_rc_pingpong", "-n 2000 -c -s 8 -r 4"),
    ("ibv_rc_pingpong", "-n 500 -c -e -s 100000"),
    ("ibv_rc_pingpong", "-n 1000 -c -N"),
    ("ibv_srq_pingpong", "-n 2000 -c -q 8"),
    ("ib_send_lat", "-n 2000 -s 8"),
    ("ib_send_lat", "-n 200 -e -s 64 -I 64"),
    ("ib_send_lat", "-n 100 -s 100000"),
    ("ib_send_bw", "-n 5000 -s 8"),
    ("ib_send_bw", "-n 4800 -s 8 -l 16"),
    ("ib_send_bw", "-n 5000 -s 8 --use_old_post_send"),
    ("ib_send_bw", "-n 1000 -s 64 -b -q 8"),
    ("ib_send_bw", "-n 200 -s 65536 -b"),
    ("ib_send_bw", "-n 1000 -s 4096 -e"),
    ("ib_write_lat", "-n 2000 -s 8"),
    ("ib_write_bw", "-n 5000 -s 8"),
    ("ib_write_bw", "-n 500 -s 65536 -q 4"),
    ("ib_read_lat", "-n 2000 -s 8"),
    ("ib_read_bw", "-n 2000 -s 64"),
    ("ib_read_bw", "-n 200 -s 1000000 -q 4"),
    ("ib_atomic_lat", "-n 2000"),
    ("ib_atomic_bw", "-n 2000 -A CMP_AND_SWAP"),
]


@pytest.fixture
def run(shared_pair):
    def run(program, options):
        pair = shared_pair()
        gid = "-g" if program.startswith("ibv_") else "-x"
        words = [program, "-d", pair.a.dev, gid, str(pair.GIDS["v4"]), *options.split()]
        return lab.run_both(*pair.place("host"), words, pair.a.ip4, timeout=lab.HANGS)
    return run


@pytest.mark.parametrize("program,options", ROWS, ids=[" ".join(r) for r in ROWS])
def test_programs(run, program, options):
    run(program, options)
