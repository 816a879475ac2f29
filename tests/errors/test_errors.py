# SPDX-License-Identifier: BSD-2-Clause
"""Each row provokes one error.  The program's tables say what each side must see of it, which
line of the log must explain it, and that a bystander must not be harmed."""

import pathlib
import shutil
import subprocess

import lab
import pytest

PROGRAM = lab.ROOT / "build/obj/tests/errors/errors"


def _listed():
    if not PROGRAM.exists():
        return ["not built"]
    return subprocess.run([PROGRAM, "-l"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split()


ROWS = _listed()


@pytest.fixture(scope="module")
def errors(stage):
    return pathlib.Path(shutil.copy(PROGRAM, stage.path))


def _env(stage, name):
    log = stage.tmp / f"errors-{name}.log"
    log.unlink(missing_ok=True)
    return {"URNIC_LOG": f"info:{log}", "ERRORS_LOG": str(log)}


def _together(pair, place, gid, stage, errors):
    """Run all rows that go over the wire, with a process at each end."""
    port = lab.next_port()
    there, here = pair.place(place)
    words = [errors, "-g", lab.Pair.GIDS[gid], "-p", port]
    b = there.start(*words, "-d", there.dev, env=_env(stage, f"b-{place}-{gid}"))
    b.wait_listening(port)
    a = here.start(*words, "-d", here.dev, "-c", there.ip4,
                   env=_env(stage, f"a-{place}-{gid}"))
    rcs = a.wait(120), b.wait(lab.HANGS)
    assert rcs == (0, 0), f"{rcs}\na: {a.describe()}\nb: {b.describe()}"
    return a, b


def test_the_table_is_whole():
    assert len(ROWS) > 240 and len(set(ROWS)) == len(ROWS)


# Between two QPs of one process there are two ways: the pipe, and UDP.
WAYS = ["auto", "off"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", ROWS)
def test_row(host, stage, errors, row, way):
    host.with_env(URNIC_LOCAL=way).run(errors, row, env=_env(stage, "row"))


@pytest.mark.parametrize("way", WAYS)
def test_all_in_one_process(host, stage, errors, way):
    """No row leaves anything behind that makes a later row fail."""
    done = host.with_env(URNIC_LOCAL=way).run(errors, env=_env(stage, "all"), timeout=120)
    assert done.out.strip() == f"{len(ROWS)} rows", done.describe()


@pytest.mark.parametrize("gid", ["v4", "v6"])
@pytest.mark.parametrize("place", lab.Pair.PLACES)
def test_two_processes(shared_pair, stage, errors, place, gid):
    a, b = _together(shared_pair(1500), place, gid, stage, errors)
    assert a.out == b.out and int(a.out.split()[0]) > 190, a.describe()
