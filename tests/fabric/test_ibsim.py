# SPDX-License-Identifier: BSD-2-Clause
"""A fabric beside Debian's ibsim, with the same topology."""

import json
import random
import re
import subprocess

from subnet import ask, leaves
from tool import bad, need


def start_ibsim(f, hca):
    """Start ibsim on the fabric's topology file; return (its folder, a function that runs a
    program at ibsim's adapter `hca`)."""
    sim = f.ns.start("ibsim", "-s", str(f.dir / "topology"), library=False,
                     stdin=subprocess.PIPE)
    sim.wait_output("sim>")
    folder = f.dir / "theirs"
    folder.mkdir()
    folder.chmod(0o777)

    def over_ibsim(*argv):
        # umad2sim makes a tree of files in its working directory
        return f.ns.run("sh", "-c", "cd $OSM_TMP_DIR && exec \"$@\"", "sh", *argv,
                        library=False,
                        env={"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so",
                             "SIM_HOST": hca, "OSM_CACHE_DIR": folder,
                             "OSM_TMP_DIR": folder}).out
    return folder, over_ibsim


def plain(out):
    """`out` without its date, and without the note that ibsim's ports could be wider than
    enabled."""
    return re.sub(r"^# Topology file: .*\n|Could be 12X", "", out, flags=re.M)


def test_the_same_over_ibsim(fabric):
    """With the same topology and OpenSM over ibsim, the tables and the diagnostics' output are
    the same."""
    need("ibsim")
    # the values that ibsim has by default
    text = "devid=0x5\nwidth=2\nspeed=4\n\n" + leaves(4, 4, 4)
    f = fabric(text)
    args = ["-o", "-D", "0x43", "--dump_files_dir"]
    ours = f.dir / "ours"
    ours.mkdir()
    ours.chmod(0o777)
    theirs, over_ibsim = start_ibsim(f, "H-n0")
    f.run("n0", "opensm", *args, str(ours), "-f", str(f.dir / "log"))
    over_ibsim("opensm", *args, str(theirs), "-f", str(f.dir / "log2"))
    table = (ours / "opensm-lfts.dump").read_text()
    assert table.count("Unicast lids") == 8
    assert table == (theirs / "opensm-lfts.dump").read_text()
    for program in ("ibnetdiscover", "iblinkinfo"):
        out = plain(f.run("n0", program))
        assert out.count("n15") >= 2
        assert out == plain(over_ibsim(program))


UNIT = """\
module = "{unit}"
Switch 4 "leaf"
[1] "H-a"[1]
[2] "H-b"[1]
@[3] "up"

Hca 1 "H-a"
[1] "leaf"[1]

Hca 1 "H-b"
[1] "leaf"[2]

"""


UNITS = """\
devid=0x5
width=2
speed=4
include "{dir}/one"
include "{dir}/two"
Hca 1 "H-c"
@[1] "c"

module = ""
Switch 4 "S-spine"
[1] "one@up"
[2] "two@up"
[3] "two@c"
"""


def test_ibsims_modules(fabric, netns):
    """urnic and ibsim read modules, names of ports and included files alike."""
    need("ibsim")
    folder = netns.stage.tmp / f"units{random.getrandbits(40):x}"
    folder.mkdir()
    for unit in ("one", "two"):
        (folder / unit).write_text(UNIT.format(unit=unit))
    f = fabric(UNITS.format(dir=folder))
    names = {n["id"]: n for n in json.loads(ask(f, "status", "--json"))["nodes"]}
    assert set(names) == {"S-spine", "two#H-c", *(f"{u}#{n}" for u in ("one", "two")
                                                 for n in ("leaf", "H-a", "H-b"))}
    theirs, over_ibsim = start_ibsim(f, "one#H-a")
    for program in ("ibnetdiscover", "iblinkinfo"):
        out = plain(f.run("one#H-a", program))
        assert out.count("two#H-c") >= 1
        assert out == plain(over_ibsim(program))
    (folder / "two").write_text("Hca 1\n")
    bad(2, f"{folder}/two:1:6: expected the node's name in quotes", "fabric", "run",
        str(f.dir / "topology"))
