# SPDX-License-Identifier: BSD-2-Clause
"""Two processes with known traffic (known.c)."""

import os
import re
import subprocess


FEW = 100   # SENDs for which there is a receive each, so that none is late


def once(qp, size):
    """How many segments or packets of so many bytes the QP has sent, without those that it has sent
    again: the first may come before the peer's QP has met this one."""
    assert qp["sent_bytes"] == qp["sent"] * size
    return qp["sent"] - qp["sent_again"]


class Known:
    """known.c in a namespace. `poster` and `other` are process numbers."""

    def __init__(self, ns, *words, env=None, done=True):
        self.ns = ns.with_env(URNIC_DEVICES="roce_lo", **(env or {}))
        self.proc = self.ns.start(ns.stage.tool("live/known"), *words, stdin=subprocess.PIPE)
        self.proc.wait_output("\n")
        first = self.proc.out.splitlines()[0]
        assert re.fullmatch(r"\d+ \d+ 0x\w+ 0x\w+", first), self.proc.describe()
        self.poster, self.other = map(int, first.split()[:2])
        self.numbers = first.split()[2:]    # of the first QP of each
        if done:
            self.proc.wait_output("done")

    def end(self):
        os.close(self.proc.popen.stdin.fileno())
        self.proc.popen.stdin = None
        assert self.proc.wait(30) is not None, self.proc.describe()

    def urnic(self, *words, check=True, **kw):
        return self.ns.run(self.ns.stage.urnic, *words, check=check, **kw)
