# SPDX-License-Identifier: BSD-2-Clause
"""The comparison: test_conformance.py's suite on Linux's own software devices, rdma_rxe and siw,
in the peer VM.

The results are written to build/conformance-linux.tsv.  tests/conformance/linux.tsv is such a
file, which tests/conformance/results.md shows.  Linux's drivers are not ours to judge, so a test fails
here only if it has no result; pytest's warnings list the differences from the table.
"""

import json
import pathlib
import shlex
import time
import warnings

import pytest

import lab
import peervm
import test_conformance as conformance
from conformance import page

FOUND = lab.ROOT / "build/conformance-linux.tsv"
# The guest has Debian's libraries and drivers but no Python, and gets this host's.
DEVICES = {"rxe": ("rxe0", "eth0"), "siw": ("siw0", "eth1")}
LIMIT = 3000     # seconds for all tests of a device


def pack(path, suite):
    """Pack this host's Python with its library, pyverbs and the suite for the guest."""
    site = pathlib.Path("/usr/lib/python3/dist-packages/pyverbs")
    python = pathlib.Path("/usr/bin/python3").resolve()
    lib = pathlib.Path("/usr/lib") / python.name

    def fit(info):
        skip = ("/test/", "/__pycache__", "/ensurepip", "/idlelib", "/lib2to3", "/config-3",
                "/pydoc_data")
        return None if any(s in "/" + info.name + "/" for s in skip) else info

    files = {"usr/bin/python3": python, str(lib)[1:]: lib, str(site)[1:]: site,
             "opt/tests": suite.parent, "opt/runner.py": conformance.RUNNER}
    dynamic = [*(lib / "lib-dynload").glob("*.so"), *site.rglob("*.so")]
    peervm.pack(path, files, peervm.libraries([python, *dynamic]), fit)


@pytest.fixture(scope="module")
def guest(vm_session, suite, tmp_path_factory):
    """The VM, with Python and the suite unpacked in it."""
    path = tmp_path_factory.mktemp("guest") / "python.tar"
    pack(path, suite)
    vm_session.unpack(path)
    return vm_session


def why(row):
    """The last line of the row's reason (of a traceback, for example), at most 160 characters."""
    return row["why"].strip().splitlines()[-1].replace("\t", " ")[:160] if row["why"] else ""


def written(rows, kernel):
    lines = [f"# found by tests/conformance/test_conformance_linux.py, kernel {kernel}",
             "test\tdevice\tresult\twhy"]
    lines += [f"{test}\t{device}\t{row['result']}\t{why(row)}"
              for device, found in rows.items() for test, row in found.items()]
    text = "\n".join(lines) + "\n"
    return text.encode("ascii", "replace").decode()


def start(guest, name, net, tests):
    """Start the tests on a device in the guest's background; return the path of their log,
    without its suffix."""
    command = (f"python3 -B /opt/runner.py /opt/tests 0 --dev {name} --net {net} -- "
               + " ".join(tests))
    rc, job = guest.guest(f"peer-bg {shlex.quote(command)}")
    assert rc == 0, job
    return f"/run/bg/{job.strip()}"


def outcome(guest, log, end):
    """Wait until the tests have ended or the time `end` has come; return (rows, the log's text)."""
    while True:
        rc, out = guest.guest(f"cat {log}.log; test -e {log}.rc")
        if rc == 0 or time.monotonic() > end:
            return [json.loads(line) for line in out.splitlines() if line.startswith("{")], out
        time.sleep(5)


@pytest.mark.full
@pytest.mark.alone
def test_linux(guest):
    tests = [t for t, kind in conformance.KIND.items() if kind not in page.VENDORS]
    end = time.monotonic() + LIMIT
    logs = {device: start(guest, *how, tests) for device, how in DEVICES.items()}
    rows = {}
    for device, log in logs.items():
        found, out = outcome(guest, log, end)
        rows[device] = {row["test"]: row for row in found}
        assert len(found) == len(tests), f"{device}: {len(found)} of {len(tests)}: {out[-3000:]}"
    FOUND.write_text(written(rows, guest.guest("uname -r")[1].strip()), encoding="ascii")
    known = {(r["test"], r["device"]): r["result"] for r in page.table("linux.tsv")}
    for device, found in rows.items():
        for test, row in found.items():
            if known.get((test, device)) != row["result"]:
                warnings.warn(f"{device} {test}: {known.get((test, device))} in linux.tsv, "
                              f"now {row['result']}: {why(row)}")
