# SPDX-License-Identifier: BSD-2-Clause
"""Run urnic(1) from tests."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("URNIC_BUILD", ROOT / "build"))
URNIC = str(BUILD / "urnic")


def urnic(*args, env=None, **kw):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith("URNIC_") and k not in ("LD_PRELOAD",
                                                         "LD_LIBRARY_PATH")}
    clean.update(HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent",
                 ARGP_HELP_FMT="rmargin=200", **(env or {}))
    return subprocess.run([URNIC, *args], env=clean, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)


def good(*args, **kw):
    r = urnic(*args, **kw)
    assert r.returncode == 0, r.stderr
    return r.stdout


def bad(status, names, *args, **kw):
    """Run urnic; assert that it exits with `status`, prints `names` to stderr and nothing to
    stdout; return stderr."""
    r = urnic(*args, **kw)
    assert r.returncode == status, (r.stdout, r.stderr)
    assert names in r.stderr
    assert r.stdout == ""
    return r.stderr


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


def ucx_perftest():
    """The first words of its command line.  Where it is built with MPI, as in Debian 13, it must
    be told to do without."""
    need("ucx_perftest")
    told = subprocess.run(["ucx_perftest", "-h"], text=True, capture_output=True, check=False)
    return ["ucx_perftest", *(["-P", "0"] if " -P <" in told.stdout + told.stderr else [])]
