# SPDX-License-Identifier: BSD-2-Clause
"""runner.py SUITE TIMES OPTION... -- TEST...: run tests of rdma-core's pyverbs suite in the
folder SUITE, each in a process of its own, TIMES times in that process (0: once, and without
looking for what is left behind).

OPTIONs are the suite's own, such as --dev DEVICE, and two more: --net NAME names the device's
interface, where /sys/class does not tell it; with --nobody the suite does not take itself for
root, since the root of a user namespace may have no rights.

Prints a line of JSON for each test: "test" (its name), "result" (passed, failed, skipped), "why",
and "out" (what the test printed).

A test fails if it leaves something behind.  After the first time, there may be no more
descriptors and threads than before.  After each further time, there may also be no more mappings
of memory than after the first time, which loads libraries and fills caches.

The suite's modules are imported once; each test runs in a fork, which opens the device itself.
"""

import gc
import json
import multiprocessing
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
import unittest
from importlib.machinery import SourceFileLoader

LIMIT = 120     # seconds for a test
SETTLE = int(os.environ.get("SETTLE", "10"))     # seconds for threads and children to end
# Files that are left behind by design: the one that the suite makes for an XRC domain and does
# not close, and the memory in which Python's multiprocessing keeps its locks.
SUITES_OWN = re.compile(re.escape(tempfile.gettempdir()) + r"/tmp\w+ \(deleted\)|"
                        r"/dev/shm/pym-[-\w]+ \(deleted\)")
NOBODY = 65534
PROC = pathlib.Path("/proc/self")
# All of Python's objects are on one heap, so any other new mapping is not Python's.
HEAP = {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "PYTHONHASHSEED": "0"}


def load(suite, options):
    """Do what the suite's run_tests.py does before it runs the tests."""
    sys.path.insert(0, suite)
    sys.argv = [str(pathlib.Path(suite) / "run_tests.py"), *options]
    from args_parser import parser     # pylint: disable=import-error
    parser.parse_args()
    SourceFileLoader("tests", str(pathlib.Path(suite) / "__init__.py")).load_module()


def beside(net):
    """Tell the suite the device's interface, which it looks for only where PCI devices have it."""
    exists = os.path.exists
    os.path.exists = lambda path: str(path).endswith("/device/net/") or exists(path)
    sys.modules["tests.base"].RDMATestCase.get_net_name = staticmethod(lambda _device: net)


def unmaps_all(module):
    """Return a function that unmaps what the suite's tests of the module have mapped and left.
    Two of test_odp in rdma-core 56 make their players anew for each advice, and unmap the memory
    of the last ones only."""
    mmap, munmap, mapped = module.mmap, module.munmap, {}

    def mapping(length, **how):
        address = mmap(length=length, **how)
        mapped[address] = length
        return address

    def unmapping(address, length):
        del mapped[address]
        munmap(address, length)

    def unmap_rest():
        for address, length in mapped.items():
            munmap(address, length)
        module.mmap, module.munmap = mmap, munmap

    module.mmap, module.munmap = mapping, unmapping
    return unmap_rest


def descriptors():
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(PROC / "fd" / entry)
        except FileNotFoundError:
            continue     # the descriptor of the listing itself
        if not SUITES_OWN.fullmatch(name):
            found.append(f"{entry} {name}")
    return found


def threads():
    return os.listdir("/proc/self/task")


def mappings():
    """The process's mappings, each as its file's name, or as rights and size if it has none.
    Heap and stack are left out, since they may grow."""
    found = []
    for line in (PROC / "maps").read_text().splitlines():
        where, rights, _, _, _, *name = line.split(None, 5)
        low, high = (int(x, 16) for x in where.split("-"))
        name = name[0] if name else f"{rights} {(high - low) >> 10} KiB"
        if name not in ("[heap]", "[stack]") and not SUITES_OWN.fullmatch(name):
            found.append(name)
    return found


def grown(kind, before, after):
    """A text that says what `after` has in addition to `before`, or ""."""
    if len(after) <= len(before):
        return ""
    more = list(after)
    for one in before:
        if one in more:
            more.remove(one)
    return f"{len(after) - len(before)} more {kind}: {', '.join(sorted(more))}"


def left(kinds, before):
    """A text that says what has grown; threads and children get SETTLE seconds to end first."""
    end = time.monotonic() + SETTLE
    while True:
        multiprocessing.active_children()     # reaps children that have ended
        gc.collect()
        said = "; ".join(filter(None, (grown(k, before[k], COUNTS[k]()) for k in kinds)))
        if not said or time.monotonic() > end:
            return said
        time.sleep(0.01)


COUNTS = {"descriptors": descriptors, "threads": threads, "mappings": mappings}


def counted(kinds):
    gc.collect()
    return {kind: COUNTS[kind]() for kind in kinds}


def maps():
    return (PROC / "maps").read_text()


def run_once(name):
    """(result, why): the result is "passed", "failed" or "skipped"."""
    result = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.{name}")
    unmap_rest = unmaps_all(sys.modules["tests.test_odp"]) if name.startswith("test_odp.") else None
    suite.run(result)
    if unmap_rest:
        unmap_rest()
    for _, text in (*result.errors, *result.failures):
        return "failed", text
    for _, why in result.skipped:
        return "skipped", why
    return ("passed", "") if result.testsRun == 1 else ("failed", "no such test")


def run(name, times):
    kinds = ("descriptors", "threads") if times else ()
    before, lay = counted(kinds), ""
    for n in range(max(times, 1)):
        verdict, why = run_once(name)
        if verdict != "passed" or not times:
            break
        why = left(kinds, before)
        if why:
            if "mappings" in why:       # its neighbours tell what a mapping is
                print(f"mappings after run 1:\n{lay}mappings after run {n + 1}:\n{maps()}")
            return "failed", f"leaves behind, run {n + 1}: {why}"
        if not n:
            kinds = tuple(COUNTS)
            before, lay = counted(kinds), maps()
    return verdict, why


def child(name, times, answer):
    try:
        verdict, why = run(name, times)
    except BaseException:     # pylint: disable=broad-except
        verdict, why = "failed", traceback.format_exc()
    os.write(answer, json.dumps({"result": verdict, "why": why}).encode() + b"\n")


def wait(pid):
    """The exit status, or None if the process does not end within LIMIT."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def one(name, times):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as answer:
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            child(name, times, answer.fileno())
            sys.exit(0)
        status = wait(pid)
        try:
            os.killpg(pid, signal.SIGKILL)      # with all processes that the test started
        except ProcessLookupError:
            pass
        if status is None:
            os.waitpid(pid, 0)
        answer.seek(0)
        out.seek(0)
        said = answer.read() or b'{"result": "failed", "why": "said nothing"}'
        row = {"test": name, **json.loads(said), "out": out.read().decode(errors="replace")}
    if status != 0 and row["result"] != "failed":
        row["why"] = "did not end" if status is None else f"exit status {status}"
        row["result"] = "failed"
    elif status:
        row["why"] += f" (exit status {status})"
    return row


def main():
    if os.environ.get("PYTHONMALLOC") != HEAP["PYTHONMALLOC"]:
        os.execve(sys.executable, [sys.executable, "-B", *sys.argv], {**os.environ, **HEAP})
    suite, times, *rest = sys.argv[1:]
    at = rest.index("--")
    options, net = rest[:at], None
    if "--nobody" in options:
        options.remove("--nobody")
        os.geteuid = lambda: NOBODY
    if "--net" in options:
        n = options.index("--net")
        net = options[n + 1]
        del options[n:n + 2]
    load(suite, options)
    if net:
        beside(net)
    for name in rest[at + 1:]:
        print(json.dumps(one(name, int(times))), flush=True)


if __name__ == "__main__":
    main()
