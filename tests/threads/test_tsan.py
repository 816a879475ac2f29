# SPDX-License-Identifier: BSD-2-Clause
"""Programs with several threads over a urnic that is built with -fsanitize=thread, as they are
themselves: ThreadSanitizer finds no race.  `scripts/check sanitized` builds both in build/tsan,
and runs this file.

test_threads.py has a sanitized program over a urnic that is not.
"""

import shutil

import pytest

import lab
from workers import RIGHT, Two

BUILD = lab.ROOT / "build/tsan"
LIBRARIES = "liburnic.so", "libibverbs.so.1", "librdmacm.so.1"
WAYS = [*lab.Pair.WAYS, "map"]

# Not "lost", in which the program closes descriptors that urnic uses, nor "fork", after which
# ThreadSanitizer bears no new thread.
MODES = ["poll", "recv", "dereg", "error", "reset", "destroy", "posts"]


@pytest.fixture(scope="module")
def sanitized(stage):
    """The folder of the sanitized libraries and programs, which every user can read."""
    folder = stage.path / "tsan"
    folder.mkdir()
    for name in LIBRARIES:
        shutil.copy(BUILD / "src/abi" / name, folder)
    assert b"__tsan_write8" in (folder / "liburnic.so").read_bytes()
    for name in ("threads", "stress"):
        shutil.copy(BUILD / "tests" / name / name, folder)
    folder.chmod(0o755)
    return folder


@pytest.fixture
def at(sanitized, shared_pair):
    """at(place): the namespaces of server and client, where programs find the sanitized urnic."""
    def at(place):
        return [ns.with_(outer=["/usr/bin/setarch", "-R"])      # what ThreadSanitizer can bear
                  .with_env(LD_LIBRARY_PATH=sanitized) for ns in shared_pair().place(place)]
    return at


def no_race(proc):
    assert "ThreadSanitizer" not in proc.out, proc.describe()


@pytest.fixture
def run(at, sanitized):
    def run(way, *words):
        ns, _ = at(way)
        proc = ns.run(sanitized / "threads", "-d", "roce_eth0", *words, timeout=300)
        assert RIGHT in proc.out, proc.describe()
        no_race(proc)
    return run


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["one-mixed", "two-poll", "two-mixed", "two-sleep"])
def test_threads_make_use_and_destroy(run, how, way, request):
    run(way, "many", "-m", how, "-n", 200 if request.config.getoption("--full") else 10)


@pytest.mark.parametrize("way", ["host", "udp"])
@pytest.mark.parametrize("mode", MODES)
def test_threads_build_requests(run, mode, way):
    run(way, "build", "-m", mode)


@pytest.mark.parametrize("place", [*WAYS, "pair"])
def test_random_traffic(at, sanitized, place, request):
    """The program's thread and the engine's share the work."""
    seconds = 20 if request.config.getoption("--full") else 2
    server, client = at(place)
    two = Two(server, client, [sanitized / "stress", "-g", "1", "-t", str(seconds), "-q", "2",
                               "-m", "65536", "-M", "8192"])
    two.expect_right()
    no_race(two.server)
    no_race(two.client)
