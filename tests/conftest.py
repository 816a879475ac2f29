# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the system tests; a summary that reports every skipped test as LEFT OUT."""

import gzip
import os
import pathlib
import shutil
import signal
import sys
import threading

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "lab"))
# Tests use helpers of other topics; last, since folders have modules of their own.
sys.path += sorted({str(path.parent) for path in HERE.glob("*/test_*.py")})
import lab  # noqa: E402
import peervm  # noqa: E402
import subnet  # noqa: E402
import tool  # noqa: E402

HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true",
                     default=bool(os.environ.get("URNIC_CHECK_FULL")),
                     help="every cell of every table")
    parser.addoption("--no-vm", action="store_true",
                     help="without the tests whose peer is Linux in a virtual machine")


def pytest_configure(config):
    # Turn signals into KeyboardInterrupt, so that the fixtures clean up.  Only the main thread
    # may set handlers, and xdist sometimes runs a worker's tests in another thread.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
    config.addinivalue_line("markers", "full(of=None): a cell that only --full runs; of its"
                            " parameters, a dict, where of(parameters) is true")
    config.addinivalue_line("markers", "alone: measures, or wants all processors")
    config.addinivalue_line("markers", "xdist_group(name): one after the other")


class FailuresAtOnce:
    """Prints the text of a failure when its test ends: a run of hours may be stopped before
    pytest's summary."""

    def __init__(self, reporter):
        self.reporter = reporter

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.reporter.write_line("")
            self.reporter.write_line(f"{report.when} of {report.nodeid} failed:")
            self.reporter.write_line(report.longreprtext)


def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--full") and reporter:     # xdist's workers have none
        session.config.pluginmanager.register(FailuresAtOnce(reporter))


# Tests of these modules run alone: they let more threads spin than there are processors, or use
# all the time that they are given.
ALONE = {"test_threads", "test_stress"}


def set_apart(item):
    """Mark tests that must not run beside each other (scripts/system-tests, URNIC_TEST_JOBS).
    Most tests have namespaces of their own.  The peer VM exists once, so its tests form one
    group; so do tests that run in the caller's own network namespace, where they share ports and
    slots."""
    if item.module.__name__ in ALONE:
        item.add_marker(pytest.mark.alone)
    if "vm_session" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("vm"))
    elif "can_namespace" not in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("here"))


def is_full(item):
    return any("of" not in marker.kwargs or marker.kwargs["of"](item.callspec.params)
               for marker in item.iter_markers("full"))


def vm_order(item):
    """A sort key: tests of the peer VM come first, since one worker runs them all and would keep
    the others waiting at the end if it began late. Tests of one MTU stand together: they share
    a VM."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return "vm_session" not in item.fixturenames, params.get("vm_session", 0) == 4200


@pytest.hookimpl(tryfirst=True)     # before xdist's own hook, which reads the group marks
def pytest_collection_modifyitems(config, items):
    """Deselect the cells that only --full runs, so that a bounded run does not report them as
    skipped, and with --no-vm the tests of the peer VM."""
    for item in items:
        set_apart(item)
    items.sort(key=vm_order)
    out = [i for i in items if is_full(i) and not config.getoption("--full")
           or "vm_session" in i.fixturenames and config.getoption("--no-vm")]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [i for i in items if i not in out]


class Conformance:
    """Counts of passed, failed and skipped tests of rdma-core's own suite, by class and way."""

    OUTCOMES = "passed", "failed", "skipped"

    def __init__(self):
        self.counts = {}

    def count(self, way, kind, outcome, by=1):
        ways = self.counts.setdefault(kind, {})
        ways.setdefault(way, dict.fromkeys(self.OUTCOMES, 0))[outcome] += by

    def lines(self):
        for kind, ways in sorted(self.counts.items()):
            cells = (f"{way} " + ", ".join(f"{n} {what}" for what, n in outcomes.items())
                     + f" of {sum(outcomes.values())}" for way, outcomes in ways.items())
            yield f"CONFORMANCE: {kind}: " + "; ".join(cells)


CONFORMANCE = Conformance()


@pytest.fixture(scope="session")
def conformance():
    return CONFORMANCE


def pytest_terminal_summary(terminalreporter):
    for line in CONFORMANCE.lines():
        terminalreporter.write_line(line)
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(
            f"LEFT OUT: {report.nodeid}: {report.longrepr[-1]}")


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    strict = os.environ.get("URNIC_REQUIRE_ALL")
    if strict and reporter and reporter.stats.get("skipped") and exitstatus == 0:
        session.exitstatus = 1


@pytest.fixture(scope="session")
def stage():
    """A lab.Stage: build/urnic and build/lib where every user can read them."""
    stage = lab.Stage()
    yield stage
    stage.remove()


@pytest.fixture(scope="session")
def can_namespace():
    if not lab.CAN_NAMESPACE:
        pytest.skip("no root: run scripts/system-tests, which makes a user namespace")


@pytest.fixture(scope="module")
def host(stage, can_namespace):
    """A namespace that the tests of one file share."""
    ns = lab.Namespace(stage)
    yield ns
    ns.remove()


@pytest.fixture(scope="session")
def pairs(stage, can_namespace):
    """pairs(mtu): a pair of namespaces that tests of the whole session may share."""
    made = {}

    def get(mtu):
        if mtu not in made:
            made[mtu] = lab.Pair(stage, mtu)
        return made[mtu]

    yield get
    for pair in made.values():
        pair.remove()


@pytest.fixture
def shared_pair(pairs):
    """shared_pair(mtu=1500): a shared pair; programs that the test left running are killed."""
    used = []

    def get(mtu=1500):
        pair = pairs(mtu)
        used.append(pair)
        return pair

    yield get
    for pair in used:
        pair.reap()


@pytest.fixture
def netns_pair(stage, can_namespace):
    """netns_pair(mtu=1500): two new namespaces a and b with a veth pair, for this test alone."""
    made = []

    def make(mtu=1500):
        made.append(lab.Pair(stage, mtu))
        return made[-1]

    yield make
    for pair in made:
        pair.remove()


@pytest.fixture
def faults(stage):
    """The path of a copy of the program of tests/faults, which every user may run."""
    return stage.tool("faults/faults")


@pytest.fixture
def netns(stage, can_namespace):
    """A new namespace whose only interface is lo."""
    ns = lab.Namespace(stage)
    yield ns
    ns.remove()


@pytest.fixture
def fabric(netns):
    """fabric(text=subnet.TWO, *arguments): a fabric of that topology in a namespace of its own."""
    tool.need("ibstat")

    def start(text=subnet.TWO, *args):
        return subnet.Fabric(netns, text, *args)
    return start


@pytest.fixture
def two(fabric):
    """A fabric of two adapters at one switch, with OpenSM at adapter a."""
    f = fabric()
    f.sm = f.opensm("a")
    return f


@pytest.fixture(scope="session")
def huge_pages():
    """16 huge pages of 2 MiB, which rdma-core's suite asks for, if this machine lets them be
    reserved."""
    before = HUGE_PAGES.read_text()
    try:
        if int(before) < 16:
            HUGE_PAGES.write_text("16")
    except OSError:
        pass
    yield
    if HUGE_PAGES.read_text() != before:
        HUGE_PAGES.write_text(before)


@pytest.fixture(scope="session")
def vms(stage, can_namespace):
    """vms(mtu): the Linux peer of that MTU.  It serves one module after the other, because
    to start one takes 10 seconds of a processor; at most one runs at a time."""
    running = []

    def get(mtu=1500):
        for vm in running[:]:
            if vm.mtu != mtu or not vm.answers():
                running.remove(vm)
                vm.down()
        if not running:
            running.append(peervm.PeerVM(stage, mtu))
        return running[0]

    yield get
    for vm in running:
        vm.down()


@pytest.fixture(scope="module")
def vm_session(vms):
    """The Linux peer for one module. A module may have a fixture of this name that prepares the
    guest, and then leaves the guest as it found it."""
    return vms()


@pytest.fixture
def vm(vm_session):
    yield vm_session
    vm_session.reap()


@pytest.fixture(scope="session")
def suite(stage):
    """The path of run_tests.py of rdma-core's own tests (pyverbs), in a copy of Debian's files
    that every user can read."""
    to = stage.path / "pyverbs"
    (to / "tests").mkdir(parents=True)
    for path in pathlib.Path("/usr/share/doc/rdma-core/tests").iterdir():
        if path.suffix == ".gz":
            (to / "tests" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.suffix == ".py":
            shutil.copy(path, to / "tests")
    return to / "tests" / "run_tests.py"
