# SPDX-License-Identifier: BSD-2-Clause
"""runner.py SUITE TIMES OPTION... -- TEST...: tests of rdma-core's pyverbs suite in SUITE, with
the suite's own OPTIONs (--dev DEVICE), each in a process of its own, TIMES times in it (0: once,
and not counted).  --net NAME is the device's interface, where /sys/class does not tell it;
with --nobody the suite does not see a root, who in a user namespace may be one without rights.

Prints a line of JSON for each test: its name, "result" (passed, failed, skipped), "why", and
"out", what it printed.  A test that leaves more than there was fails: after the first time,
descriptors and threads may be no more than before it; after each further time, mappings of
memory may be no more than after the first (the first loads libraries and fills caches).

The modules are imported once, and each test is a fork: it opens the device itself.
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
SETTLE = int(os.environ.get("SETTLE", "10"))     # ... until what ends of its own accord has ended
# The file that the suite makes for an XRC domain, and does not close; the memory in which
# Python's multiprocessing keeps locks, for ever.
SUITES_OWN = re.compile(re.escape(tempfile.gettempdir()) + r"/tmp\w+ \(deleted\)|"
                        r"/dev/shm/pym-[-\w]+ \(deleted\)")
NOBODY = 65534
PROC = pathlib.Path("/proc/self")
# All of Python's objects on one heap: what is mapped besides is somebody else's.
HEAP = {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "PYTHONHASHSEED": "0"}


def load(suite, options):
    """What the suite's run_tests.py does before it runs them."""
    sys.path.insert(0, suite)
    sys.argv = [str(pathlib.Path(suite) / "run_tests.py"), *options]
    from args_parser import parser     # pylint: disable=import-error
    parser.parse_args()
    SourceFileLoader("tests", str(pathlib.Path(suite) / "__init__.py")).load_module()


def beside(net):
    """The suite looks for a device's interface where only PCI devices have it."""
    exists = os.path.exists
    os.path.exists = lambda path: str(path).endswith("/device/net/") or exists(path)
    sys.modules["tests.base"].RDMATestCase.get_net_name = staticmethod(lambda _device: net)


def descriptors():
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(PROC / "fd" / entry)
        except FileNotFoundError:
            continue     # the listing's own
        if not SUITES_OWN.fullmatch(name):
            found.append(f"{entry} {name}")
    return found


def threads():
    return os.listdir("/proc/self/task")


def mappings():
    """Each as its file, or its size where it has none.  The heap may grow."""
    found = []
    for line in (PROC / "maps").read_text().splitlines():
        where, rights, _, _, _, *name = line.split(None, 5)
        low, high = (int(x, 16) for x in where.split("-"))
        name = name[0] if name else f"{rights} {(high - low) >> 10} KiB"
        if name not in ("[heap]", "[stack]") and not SUITES_OWN.fullmatch(name):
            found.append(name)
    return found


def grown(kind, before, after):
    """What is there more of, in words."""
    if len(after) <= len(before):
        return ""
    more = list(after)
    for one in before:
        if one in more:
            more.remove(one)
    return f"{len(after) - len(before)} more {kind}: {', '.join(sorted(more))}"


def left(kinds, before):
    """What has grown, once the ends of threads have had their time."""
    end = time.monotonic() + SETTLE
    while True:
        multiprocessing.active_children()     # takes note of those that have ended
        gc.collect()
        said = "; ".join(filter(None, (grown(k, before[k], COUNTS[k]()) for k in kinds)))
        if not said or time.monotonic() > end:
            return said
        time.sleep(0.01)


COUNTS = {"descriptors": descriptors, "threads": threads, "mappings": mappings}


def counted(kinds):
    gc.collect()
    return {kind: COUNTS[kind]() for kind in kinds}


def run_once(name):
    """("passed" | "failed" | "skipped", why)"""
    result = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.{name}")
    suite.run(result)
    for _, text in (*result.errors, *result.failures):
        return "failed", text
    for _, why in result.skipped:
        return "skipped", why
    return ("passed", "") if result.testsRun == 1 else ("failed", "no such test")


def run(name, times):
    kinds = ("descriptors", "threads") if times else ()
    before = counted(kinds)
    for n in range(max(times, 1)):
        verdict, why = run_once(name)
        if verdict != "passed" or not times:
            break
        why = left(kinds, before)
        if why:
            return "failed", f"leaves behind, run {n + 1}: {why}"
        if not n:
            kinds = tuple(COUNTS)
            before = counted(kinds)
    return verdict, why


def child(name, times, answer):
    try:
        verdict, why = run(name, times)
    except BaseException:     # pylint: disable=broad-except
        verdict, why = "failed", traceback.format_exc()
    os.write(answer, json.dumps({"result": verdict, "why": why}).encode() + b"\n")


def wait(pid):
    """The exit status, or None for one that did not end."""
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
            os.killpg(pid, signal.SIGKILL)      # and what it has started
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
