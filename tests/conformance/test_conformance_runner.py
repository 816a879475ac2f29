# SPDX-License-Identifier: BSD-2-Clause
"""conformance/runner.py itself, with a suite of our own: it must find what that suite's tests do
wrong."""

import json
import os
import subprocess

import pytest

import test_conformance

PARSER = """
class Parser:
    def parse_args(self): pass
parser = Parser()
"""
INIT = """
import importlib
from . import test_a
"""
TESTS = """
import gc, mmap, os, threading, time, unittest

class A(unittest.TestCase):
    kept = []
    def test_good(self): print("said")
    def test_bad(self): self.fail("as it should")
    def test_skips(self): self.skipTest("no such thing")
    def test_exits(self): os._exit(3)
    def test_dies(self): os.abort()
    def test_exits_later(self):
        looked = threading.Semaphore(0)
        gc.callbacks.append(lambda *_: looked.release())
        threading.Thread(target=lambda: [looked.acquire() for _ in range(8)]).start()
    def test_descriptor(self): self.kept.append(os.dup(0))
    def test_descriptor_later(self):
        self.kept.append(0)
        if len(self.kept) > 1: os.dup(0)
    def test_thread(self):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    def test_cached(self):
        if not self.kept: self.kept.append(mmap.mmap(-1, 1 << 20))
    def test_mapping(self): self.kept.append(mmap.mmap(-1, 1 << 20))
"""
FINDS = {
    "good": ("passed", ""),
    "bad": ("failed", "as it should"),
    "skips": ("skipped", "no such thing"),
    "exits": ("failed", "said nothing (exit status 3)"),
    "dies": ("failed", "said nothing (exit status -6)"),
    "exits_later": ("passed", ""),
    "descriptor": ("failed", "leaves behind, run 1: 1 more descriptors: "),
    "descriptor_later": ("failed", "leaves behind, run 2: 1 more descriptors: "),
    "thread": ("failed", "leaves behind, run 1: 1 more threads: "),
    "cached": ("passed", ""),
    "mapping": ("failed", "leaves behind, run 2: 1 more mappings: "),
    "not_there": ("failed", "has no attribute"),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    for name, text in (("args_parser", PARSER), ("__init__", INIT), ("test_a", TESTS)):
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        ["/usr/bin/python3", "-B", test_conformance.RUNNER, folder, "2", "--",
         *(f"test_a.A.test_{name}" for name in FINDS)],
        check=False, text=True, stdout=subprocess.PIPE, timeout=300,
        env={**os.environ, "SETTLE": "3"})
    assert done.returncode == 0
    return {row["test"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", FINDS)
def test_finds(rows, name):
    row = rows[f"test_a.A.test_{name}"]
    verdict, why = FINDS[name]
    assert row["result"] == verdict, row
    assert (why in row["why"]) if why else not row["why"], row
    assert ("said" in row["out"]) == (name == "good")
    assert ("mappings after run 2" in row["out"]) == (name == "mapping")
