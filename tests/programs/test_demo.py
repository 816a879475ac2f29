# SPDX-License-Identifier: BSD-2-Clause
"""scripts/demo after its build: as root, as a user who may make a user namespace, and as a user
who may not; and that it fails when a program fails."""

import os
import re
import shutil
import subprocess

import pytest

import lab

IN_USER_NAMESPACE = [
    "unshare", "-Urnm", "--propagation", "private", "sh", "-c",
    'mount -t tmpfs tmpfs /run && exec "$0" inside userns']


@pytest.fixture
def tree(stage, tmp_path_factory):
    """The files of a clone that the demo needs, where user nobody can read them."""
    tree = stage.path / "tree"
    (tree / "scripts").mkdir(parents=True)
    (tree / "build").mkdir()
    shutil.copy(lab.ROOT / "scripts/demo", tree / "scripts")
    shutil.copytree(stage.lib, tree / "build/lib")
    shutil.copy(stage.urnic, tree / "build")
    subprocess.run(["chmod", "-R", "go+rX", tree], check=True)
    yield tree
    shutil.rmtree(tree)


def demo(words, user):
    prefix = lab.unprivileged() if user else []
    return subprocess.run(
        [*prefix, *map(str, words)], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})


ONE_HOST, TWO_NAMESPACES = 4, 3
WAY = "     way: messages go through shared memory; WRITE and READ of its memory go "


def check(done, programs=ONE_HOST + TWO_NAMESPACES):
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("  -> ") == programs, done.stdout
    assert done.stdout.count(WAY) == ONE_HOST, done.stdout
    later = re.findall("^     later: .*", done.stdout, re.M)
    assert all(line.startswith("     later: the region is mapped") for line in later), done.stdout
    assert f"all {programs} ran" in done.stdout


def test_demo_says_that_the_machine_is_loaded(tree):
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        done = demo([tree / "scripts/demo", "inside", "host"], user=True)
    finally:
        for proc in busy:
            proc.kill()
            proc.wait()
    check(done, ONE_HOST)
    assert re.search(r"^demo: this machine is loaded: other programs use \d+ % of its", done.stdout,
                     re.M), done.stdout


def test_demo_as_root(tree, can_namespace):
    if lab.IN_USERNS:
        done = demo([tree / "scripts/demo", "inside", "userns"], user=False)
    else:
        done = demo([tree / "scripts/demo", "inside", "root"], user=False)
        assert "(nobody)" in done.stdout
    check(done)
    assert "Capabilities: 0000000000000000" in done.stdout


def test_demo_as_a_user(tree, can_namespace):
    if subprocess.run([*lab.unprivileged(), "unshare", "-Urnm", "true"]).returncode:
        pytest.skip("user namespaces are forbidden here")
    check(demo([*IN_USER_NAMESPACE, tree / "scripts/demo"], user=True))


def test_demo_without_namespaces(tree, can_namespace):
    check(demo([tree / "scripts/demo", "inside", "host"], user=True), ONE_HOST)


def test_demo_is_honest(tree, can_namespace):
    """With a library that cannot be loaded, the demo fails and shows the reason."""
    (tree / "build/lib/libibverbs.so.1").write_bytes(b"no library")
    how = "userns" if lab.IN_USERNS else "root"
    done = demo([tree / "scripts/demo", "inside", how], user=False)
    assert done.returncode == 1, done.stdout
    assert "7 of 7 programs FAILED" in done.stdout
    assert "  -> " not in done.stdout
