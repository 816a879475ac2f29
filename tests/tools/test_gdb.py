# SPDX-License-Identifier: BSD-2-Clause
"""tools/urnic-gdb.py: gdb, stopped in a unit test's program, prints urnic's objects by it."""

import re
import subprocess

from tool import BUILD, ROOT, need

def gdb(program, stop, *commands):
    need("gdb")
    subprocess.run(["ninja", "-C", str(BUILD / "obj"), program], check=True,
                   stdout=subprocess.DEVNULL)
    words = ["gdb", "-q", "-batch", "-nx", "-x", str(ROOT / "tools/urnic-gdb.py"),
             "-ex", "set debuginfod enabled off", "-ex", f"break {stop}", "-ex", "run"]
    for command in commands:
        words += ["-ex", command]
    done = subprocess.run([*words, str(BUILD / "obj" / program)], text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert "Python Exception" not in done.stdout, done.stdout
    return done.stdout


def test_objects_in_a_line():
    out = gdb("dump_test", "dump_begin", "up 2", "print *qp", "print *srq", "print *mr",
              "print *f->scq", "print *f->pd", "print/r f->pd->users")
    for want in (r"= QP 0x\w{6} RC RTS, fake to QP 0x001234 at 10\.0\.0\.2; send queue 1 of 8, "
                 r"receive queue 1 of 8",
                 r"= SRQ 0x\w{6}, receives 0 of 16, limit 0",
                 r"= MR key 0x\w{8}, 4096 bytes at 0x\w+, access 0x1\b",
                 r"= CQ \d+, entries 0 of 8, IDLE",
                 r"= PD \d+, used by 3 objects"):
        assert re.search(want, out), f"no {want} in {out}"


def test_a_batch():
    out = gdb("batch_test", "batch_commit", "finish", "print b")
    assert re.search(r"= batch of 1 datagrams = \{\s*\[0\] = .*\d+ bytes in \d+ pieces",
                     out), out
