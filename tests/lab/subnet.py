# SPDX-License-Identifier: BSD-2-Clause
"""A fabric with an OpenSM, for tests, and what its programs print."""

import json
import random
import re
import subprocess
import time

from lab import HANGS, eventually
from tool import URNIC, need

TWO = """\
Switch 4 "sw"
[1] "H-a"[1]
[2] "H-b"[1]

Ca 1 "H-a"
[1] "sw"[1]

Ca 1 "H-b"
[1] "sw"[2]
"""


def leaves(spines, leaves_, hosts):
    """A fat tree of two levels in ibsim's format, which names both ends of each link."""
    out = []
    for s in range(spines):
        out.append(f'Switch {leaves_} "S-spine{s}"')
        out += [f'[{i + 1}] "S-leaf{i}"[{s + 1}]' for i in range(leaves_)]
        out.append("")
    for i in range(leaves_):
        out.append(f'Switch {spines + hosts} "S-leaf{i}"')
        out += [f'[{s + 1}] "S-spine{s}"[{i + 1}]' for s in range(spines)]
        out += [f'[{spines + h + 1}] "H-n{i * hosts + h}"[1]' for h in range(hosts)]
        out.append("")
    for n in range(leaves_ * hosts):
        out += [f'Hca 1 "H-n{n}"',
                f'[1] "S-leaf{n // hosts}"[{spines + n % hosts + 1}]', ""]
    return "\n".join(out)


def made(rule):
    return subprocess.run([URNIC, "fabric", "make", rule], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


class Fabric:
    def __init__(self, ns, text, *args, run=()):
        self.ns, self.dir = ns, ns.stage.tmp / f"fabric{random.getrandbits(40):x}"
        self.dir.mkdir()
        self.dir.chmod(0o777)
        file = self.dir / "topology"
        file.write_text(text)
        # without this, OpenSM holds lines of its log back
        (self.dir / "conf").write_text("force_log_flush TRUE\n")
        self.proc = ns.start(*run, ns.stage.urnic, "fabric", "run", *args, str(file))
        self.proc.wait_output("fabric ")

    def at(self, hca, **env):
        """The namespace with an environment in which programs use the adapter `hca`."""
        return self.ns.with_env(URNIC_HCA=hca, OSM_CACHE_DIR=self.dir,
                                OSM_TMP_DIR=self.dir, **env)

    def run(self, hca, *argv, **kw):
        return self.at(hca).run(*argv, **kw).out

    def opensm(self, hca, *args, wait="SUBNET UP", ns=None):
        need("opensm")
        log = self.dir / f"log.{hca}"
        proc = (ns or self.at(hca)).start("opensm", "-F", str(self.dir / "conf"),
                                          "-f", str(log), *args)
        proc.log = log
        if wait:
            wait_log(proc, wait)
        return proc


def wait_log(proc, text, timeout=HANGS):
    end = time.monotonic() + timeout
    while text not in read(proc.log):
        assert proc.running() and time.monotonic() < end, \
            f"no {text!r}: {proc.describe()}\n{read(proc.log)}"
        time.sleep(0.02)


def read(log):
    return log.read_text() if log.exists() else ""


def errors(log):
    """The lines that OpenSM logs at the level of errors."""
    return [line for line in read(log).splitlines() if "] 0x01 -> " in line]


def fields(out):
    """The fields of what libibmad prints, as lines of the form "Name:....value"."""
    return dict(re.findall(r"^(\w[\w ]*):\.+(.*)$", out, re.M))


def lid_of_switch(f):
    return re.search(r'"S-.*lid (\d+)', f.run("a", "ibnetdiscover"))[1]


def ask(f, *args, **kw):
    return f.ns.run(f.ns.stage.urnic, "fabric", *args, **kw).out


def link_states(f):
    """{(node, port): state} of both ends of each link."""
    nodes = json.loads(ask(f, "status", "--json"))["nodes"]
    return {(n["id"], p["port"]): p["state"]
            for n in nodes for p in n["ports"] if "peer" in p}


def counters(f):
    """{(node, port): counters of the port}"""
    out = json.loads(ask(f, "counters", "--json"))
    return {(p["node"], p["port"]): p["counters"] for p in out["ports"]}


def sent(f, node, port=1):
    """The number of packets that the port has sent."""
    return int(re.search(rf"^{node} {port} +(\d+)", ask(f, "counters"), re.M)[1])


def tshark(file, *args):
    return subprocess.run(["tshark", "-r", str(file), *args], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def ping(f, frm, to):
    """What ibping says of node `to`.  Node nN has GUID 0x100001 + 2 * N at its port."""
    server = f.at(to).start("ibping", "-S")
    guid = hex(0x100001 + 2 * int(to[1:]))
    assert eventually(lambda: "1 received" in f.run(frm, "ibping", "-c", "1", "-G", guid,
                                                    check=False))
    out = f.run(frm, "ibping", "-c", "3", "-f", "-G", guid)
    server.kill()
    return out
