# SPDX-License-Identifier: BSD-2-Clause
"""Programs that are built with a sanitizer run under `urnic run`, over a urnic that is not built
so, and hear only of their own errors.

test_tsan.py has a urnic that is built with ThreadSanitizer.
"""

import functools
import subprocess

import pytest

import lab
from lab import HANGS
from workers import RIGHT

THREADS = [lab.ROOT / "tests" / f for f in (
    "threads/sanitized.c", "faults/rig.c", "faults/command.c", "stress/pattern.c")]
CM = sorted((lab.ROOT / "tests/cm").glob("[!f]*.c")) + [lab.ROOT / "tests/cm/forks.c"]
INCLUDES = [f"-I{lab.ROOT}/tests/{folder}" for folder in ("faults", "stress")]
STATIC = {"address": "asan", "thread": "tsan", "undefined": "ubsan"}    # gcc's names

# Not gcc's static runtime for leaks and clang's shared one for threads: with these, here no
# program runs at all.
BUILDS = [(compiler, sanitizer, runtime) for compiler in ("gcc", "clang")
          for sanitizer in ("address", "thread", "undefined", "leak")
          for runtime in ("shared", "static")
          if (compiler, sanitizer, runtime) not in (("gcc", "leak", "static"),
                                                    ("clang", "thread", "shared"))]

WRONG = r"""
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int shared; /* not static: the compiler would drop the stores */
static int written;

static void *writes(void *arg)
{
	shared = 1;
	__atomic_store_n(&written, 1, __ATOMIC_RELAXED);
	return arg;
}

/* Errors of the program's own, beside a device that is open. */
int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	volatile int *p = malloc(sizeof(int));
	pthread_t t;

	if (!ctx || argc < 2)
		return 2;
	*p = argc;
	if (!strcmp(argv[1], "race")) {
		pthread_create(&t, NULL, writes, NULL);
		/* ThreadSanitizer may miss two stores at the same moment. */
		while (!__atomic_load_n(&written, __ATOMIC_RELAXED))
			;
		shared = 2;
		pthread_join(t, NULL);
	} else {
		free((void *)p);
		shared = *p;
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def build(stage):
    """build(compiler, sanitizer, runtime, *sources): the path of the program."""
    @functools.cache
    def build(compiler, sanitizer, runtime, *sources):
        program = stage.path / f"{compiler}-{sanitizer}-{runtime}-{sources[0].stem}"
        options = []
        if compiler == "gcc" and runtime == "static":
            options = [f"-static-lib{STATIC[sanitizer]}"]
        elif compiler == "clang" and runtime == "shared":
            folder = subprocess.run(["clang", "-print-runtime-dir"], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout.strip()
            if not lab.pathlib.Path(folder).exists():
                folder = f"{folder.rpartition('/')[0]}/linux"
            options = ["-shared-libsan", f"-Wl,-rpath,{folder}"]
        subprocess.run([compiler, "-g", "-O1", "-D_GNU_SOURCE", "-Wno-everything"
                        if compiler == "clang" else "-w", f"-fsanitize={sanitizer}",
                        *options, *INCLUDES, "-o", program, *sources,
                        "-lrdmacm", "-libverbs", "-lpthread"], check=True)
        return program
    return build


def outer(sanitizer):
    """What ThreadSanitizer can bear."""
    return ["/usr/bin/setarch", "-R"] if sanitizer == "thread" else []


@pytest.fixture
def run(stage, shared_pair):
    def run(way, *command, check=True, **env):
        ns, _ = shared_pair().place(way)
        return ns.run(stage.urnic, "run", "--", *command, timeout=HANGS, check=check,
                      library=False, env=env)
    return run


@pytest.mark.parametrize("way", ["host", "udp"])
@pytest.mark.parametrize("compiler,sanitizer,runtime", BUILDS)
def test_runs_without_a_report(build, run, compiler, sanitizer, runtime, way):
    """The program of two threads, each with its QPs, over one NIC."""
    program = build(compiler, sanitizer, runtime, *THREADS)
    proc = run(way, *outer(sanitizer), program, "-d", "roce_eth0", "turns")
    assert RIGHT in proc.out and "Sanitizer" not in proc.out, proc.describe()


@pytest.mark.parametrize("device", ["lo", "iwarp_lo"])
@pytest.mark.parametrize("compiler,runtime", [("gcc", "shared"), ("clang", "static")])
def test_threads_that_connect_without_a_report(build, run, compiler, runtime, device):
    """rdma_cm in several threads: librdmacm's locks are not seen either."""
    proc = run("host", *outer("thread"), build(compiler, "thread", runtime, *CM), "threads",
               "127.0.0.1", 0, URNIC_DEVICES=device)
    assert "Sanitizer" not in proc.out, proc.describe()


def test_runs_as_the_child_of_a_shell_with_options_of_its_own(build, run):
    program = build("gcc", "address", "shared", *THREADS)
    proc = run("host", "sh", "-c", f"ASAN_OPTIONS=detect_leaks=1 {program} -d roce_eth0 turns")
    assert RIGHT in proc.out and "Sanitizer" not in proc.out, proc.describe()


def test_a_runtime_that_is_preloaded(run):
    """How programs are run that load a sanitized library, such as Python."""
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    proc = run("host", "/usr/bin/python3", "-c", "import ctypes; "
               "ctypes.CDLL('libibverbs.so').ibv_get_device_list(None); print('right')",
               LD_PRELOAD=asan, ASAN_OPTIONS="detect_leaks=0")
    assert proc.out == "right\n", proc.describe()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("sanitizer,mode,said", [
    ("address", "free", "heap-use-after-free"), ("thread", "race", "data race")])
def test_the_program_s_own_errors_are_found(build, run, stage, compiler, sanitizer, mode, said):
    source = stage.path / "wrong.c"
    source.write_text(WRONG)
    program = build(compiler, sanitizer, "static" if compiler == "clang" else "shared", source)
    proc = run("host", *outer(sanitizer), program, mode, check=False)
    assert proc.popen.returncode not in (0, 2) and said in proc.out, proc.describe()


@pytest.mark.parametrize("compiler,sanitizer,runtime",
                         [b for b in BUILDS if b[1] != "undefined"])
def test_no_memory_becomes_a_file_s(build, run, compiler, sanitizer, runtime):
    """A sanitizer's allocator releases pages without a call that the preload library sees."""
    program = build(compiler, sanitizer, runtime, *THREADS)
    proc = run("host", *outer(sanitizer), program, "-d", "roce_eth0", "turns",
               URNIC_LOG="info")
    assert "memory is not shared" in proc.out, proc.describe()
