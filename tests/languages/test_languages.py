# SPDX-License-Identifier: BSD-2-Clause
"""Programs of other languages, whose runtimes do with memory, threads and processes what they
like: Python's multiprocessing, node and Java."""

import shutil

import pytest

import lab
from tool import need
from workers import RIGHT

MAP = {"URNIC_LOCAL": "map", "LD_PRELOAD": "liburnic-map.so"}     # as `urnic run`
ENVIRONMENTS = pytest.mark.parametrize("env", [{}, MAP], ids=["auto", "map"])

# Garbage for its collector, for two seconds.  It is no module of node's, so node refuses it in the
# end; its thread works nevertheless.
NODE = """
try { process.dlopen({exports: {}}, process.argv[1]) } catch (e) { console.log(e.message) }
let kept = [];
for (const end = Date.now() + 1500; Date.now() < end;) {
    kept.push(new Array(1000).fill(Math.random()));
    if (kept.length > 5000)
        kept = [];
}
"""


@ENVIRONMENTS
def test_multiprocessing(shared_pair, stage, env):
    ns = shared_pair().a
    script = shutil.copy(lab.ROOT / "tests/languages/pool.py", stage.path)
    proc = ns.run("/usr/bin/python3", "-B", script, ns.dev, 1, env=env)
    assert RIGHT in proc.out, proc.describe()


@pytest.fixture(params=["private", "shared"])
def loaded(request, stage, shared_pair):
    """loaded(env, words): run a program that loads tests/languages/loaded.c."""
    def run(env, *words):
        ns = shared_pair().a
        proc = ns.run(*words, env={"URNIC_TEST_MEMORY": request.param, **env})
        assert proc.out.count(RIGHT) == 1, proc.describe()
    run.library = stage.tool("languages/libloaded.so")
    return run


@ENVIRONMENTS
def test_node(loaded, env):
    need("node")
    loaded(env, "node", "-e", NODE, loaded.library)


@ENVIRONMENTS
def test_java(loaded, stage, env):
    """keytool is a program in Java that comes with each JRE, and computes for a second."""
    need("keytool")
    store = stage.tmp / "keys"
    store.unlink(missing_ok=True)
    loaded(env, "keytool", f"-J-agentpath:{loaded.library}", "-J-Xmx32m", "-genkeypair",
           "-keyalg", "RSA", "-keysize", "3072", "-dname", "CN=urnic", "-keystore", store,
           "-storepass", "no secret")
