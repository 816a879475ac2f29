# SPDX-License-Identifier: BSD-2-Clause
"""The repository's scripts, where a mistake would go unnoticed otherwise."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import lab

CHECK = lab.ROOT / "scripts/check-includes"


def check_includes(tmp_path, folder, name, line):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).write_text(f"/* */\n{line}\n")
    return subprocess.run([CHECK, tmp_path], text=True, stdout=subprocess.PIPE)


@pytest.mark.parametrize("folder,name,line", [
    ("verbs", "a.c", '#include "sys/list.h"'),
    ("verbs", "a.c", "#include <infiniband/verbs.h>"),
    ("ib", "a.h", '#include "wire/be.h"'),
    ("ib", "a_test.c", '#include "net/link.h"'),
    ("ib", "sim_a.c", '#include "net/link.h"'),
    ("driver", "a.c", '#  include "host/host.h"'),
    ("abi", "a.c", '#include "driver/nic.h"'),
    ("cm", "a.c", '#include "iwarp/iwarp.h"'),
    ("rsocket", "wait.c", '#include "rsocket/sock.h"'),
    ("rsocket", "wait_test.c", '#include "rsocket/rsocket.h"'),
])
def test_check_includes_allows(tmp_path, folder, name, line):
    done = check_includes(tmp_path, folder, name, line)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("folder,name,line", [
    ("verbs", "a.c", '#include "ib/ib.h"'),
    ("wire", "a.h", '#include "sys/list.h"'),
    ("ib", "a.c", '#include "net/ip_addr.h"'),
    ("ib", "a.c", '#include "iwarp/iwarp.h"'),
    ("ib", "a_test.c", '#include "driver/nic.h"'),
    ("abi", "a.c", '#include "driver/engine.h"'),
    ("cm", "a.c", '#include "iwarp/ddp.h"'),
    ("verbs", "a.c", '#include "qp.h"'),
    ("verbs", "a.c", ' # include "other/a.h"'),
    ("other", "a.c", ""),
    ("rsocket", "sock.h", '#include "rsocket/wait.h"'),
    ("rsocket", "wait.c", '#include "verbs/core.h"'),
    ("rsocket", "placeless.c", '#include "rsocket/wait.h"'),
])
def test_check_includes_refuses(tmp_path, folder, name, line):
    done = check_includes(tmp_path, folder, name, line)
    assert done.returncode == 1, done.stdout
    assert f"{tmp_path}/{folder}/{name}:" in done.stdout


def test_the_map_of_rooms_says_what_they_may_include():
    """The table in architecture.md is that of check-includes."""
    loader = importlib.machinery.SourceFileLoader("check_includes", str(CHECK))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    page = (lab.ROOT / "docs/dev/architecture.md").read_text()
    said = {folder: set() if names == "nothing" else set(names.split(";")[0].split(", "))
            for folder, names in re.findall(r"^\| `(?:src/)?([a-z/]+)` \|.*\| ([^|]*) \|$", page, re.M)}
    absent = {folder for folder in script.ALLOWED
              if not any((lab.ROOT / top / folder).is_dir() for top in ("src", "."))}
    assert said == {folder: allowed - absent for folder, allowed in script.ALLOWED.items() if folder not in absent}


def test_contributing_names_what_is_there():
    """`name()` or `name[]` (or in, or of) `file`: the file has the name."""
    page = " ".join((lab.ROOT / "CONTRIBUTING.md").read_text().split())
    found = [(name, file) for names, file in re.findall(
        r"((?:`\w+(?:\(\)|\[\])`(?:, | and |, and | or )?)+)(?: (?:in|of) | \()`([\w/]+\.\w+)`", page)
        for name in re.findall(r"`(\w+)", names)]
    assert len(found) > 10

    def has(name, file):
        return any(re.search(rf"\b{name}\b", path.read_text())
                   for top in ("src", "fabric", "tools", "tests")
                   for path in (lab.ROOT / top).rglob(file.split("/")[-1])
                   if str(path).endswith(f"/{file}"))
    assert not [(name, file) for name, file in found if not has(name, file)]


def test_files_that_are_named_are_there():
    """In documents, comments and scripts a path from the root, or from src/, leads to a file."""
    rooms = {path.name for path in (lab.ROOT / "src").iterdir()} | {
        "port", "umad", "core", "nic", "link", "packet", "local"}
    tops = "docs|fabric|recipes|scripts|src|tests|tools"
    path = re.compile(rf"(?<![\w/.$<*-])((?:{tops}|{'|'.join(rooms)})/[a-z0-9_/-]+"
                      r"\.(?:c|h|def|py|md|svg|json|tsv))\b(?![*\[])")
    texts = [text for top in tops.split("|") for text in (lab.ROOT / top).rglob("*")
             if text.is_file() and text != pathlib.Path(__file__)]
    gone = set()
    for text in [*texts, *lab.ROOT.glob("*.md"), lab.ROOT / "Makefile", lab.ROOT / "meson.build"]:
        if text.suffix in (".pcap", ".svg", ".json", ".pyc") or "corpus" in text.parts:
            continue
        gone |= {(str(text.relative_to(lab.ROOT)), name) for name in path.findall(text.read_text(errors="replace"))
                 if not any((place / name).is_file() for place in
                            (lab.ROOT, lab.ROOT / "src", lab.ROOT / "fabric", text.parent))}
    assert not gone


def check_tests(tmp_path, files, listed=""):
    for name, text in files.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tested-elsewhere").write_text(listed)
    return subprocess.run([lab.ROOT / "scripts/check-tests", tmp_path / "src",
                           tmp_path / "tested-elsewhere"], text=True, stdout=subprocess.PIPE)


FUNCTION = "int a(void)\n{\n}\n"


@pytest.mark.parametrize("files,listed", [
    ({"verbs/a.c": FUNCTION, "verbs/a_test.c": FUNCTION}, ""),
    ({"verbs/a.c": FUNCTION, "ib/b_test.c": FUNCTION}, "verbs/a.c ib/b_test.c # why\n"),
    ({"verbs/a.c": FUNCTION, "verbs/a_test.c": "", "verbs/table.c": "int a[1];\n"}, ""),
    ({"driver/a.c": FUNCTION, "driver/a_test.c": "", "driver/links_test.c": "clock_ns();\n"}, ""),
    ({"verbs/a.c": "{\nusleep(1);\n", "verbs/a_test.c": "sched_yield();\n"}, ""),
], ids=["own", "listed", "table", "may read", "not a test"])
def test_check_tests_allows(tmp_path, files, listed):
    done = check_tests(tmp_path, {"verbs/b.c": FUNCTION, "verbs/b_test.c": "", **files}, listed)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("files,listed,where", [
    ({"verbs/a.c": FUNCTION}, "", "src/verbs/a.c:1: there is no a_test.c"),
    ({"verbs/a.c": FUNCTION}, "verbs/a.c\n", "tested-elsewhere:1: verbs/a.c has no test"),
    ({"verbs/a.c": FUNCTION}, "verbs/a.c verbs/c_test.c\n", "verbs/c_test.c is no test"),
    ({"verbs/a.c": FUNCTION}, "verbs/a.c verbs/b.c\n", "verbs/b.c is no test"),
    ({}, "verbs/a.c verbs/b_test.c\n", "verbs/a.c does not exist"),
    ({}, "verbs/b.c verbs/b_test.c\n", "verbs/b.c has a test of its name"),
    ({"verbs/a.c": FUNCTION}, "verbs/a.c verbs/b_test.c\n" * 2, ":2: verbs/a.c stands here twice"),
    ({f"verbs/f{n}.c": FUNCTION for n in range(200)},
     "".join(f"verbs/f{n}.c verbs/b_test.c\n" for n in range(200)), "200 files; no more than"),
    ({"verbs/fix.h": "usleep(1);\n"}, "", "fix.h:1: a test waits for an event"),
    ({"verbs/a_test.c": "\n\tpoll(NULL, 0, 1);\n"}, "", "a_test.c:2: a test waits for an event"),
    ({"verbs/a_fix.c": "t = clock_ns();\n"}, "", "a_fix.c:1: a test does not read"),
])
def test_check_tests_refuses(tmp_path, files, listed, where):
    done = check_tests(tmp_path, {"verbs/b.c": FUNCTION, "verbs/b_test.c": "", **files}, listed)
    assert done.returncode == 1, done.stdout
    assert where in done.stdout


def check_circles(tmp_path, **files):
    for name, needs in files.items():
        folder, stem = name.split("_", 1)
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{stem}.h").write_text("/* */\n")
        (tmp_path / folder / f"{stem}.c").write_text(
            "".join(f'#include "{n.replace("_", "/", 1)}.h"\n' for n in [name, *needs]))
    return subprocess.run([lab.ROOT / "scripts/check-circles", tmp_path], text=True,
                          stdout=subprocess.PIPE)


def test_check_circles_counts(tmp_path):
    done = check_circles(tmp_path, core_a=["core_b"], core_b=["core_c"], core_c=["core_a"],
                         core_d=["core_a"], core_d_test=["core_e"], core_e=["core_d"])
    assert done.returncode == 0 and "1 circles of 3 modules" in done.stdout, done.stdout


@pytest.mark.parametrize("files", [
    {"core_a": ["ib_b"], "ib_b": ["core_a"]},
    {f"core_f{n}": [f"core_f{(n + 1) % 30}"] for n in range(30)},
    {f"core_f{n}": [f"core_f{n ^ 1}"] for n in range(60)},
    {},
], ids=["across folders", "a large one", "many", "no files"])
def test_check_circles_refuses(tmp_path, files):
    done = check_circles(tmp_path, **files)
    assert done.returncode == 1, done.stdout


@pytest.mark.parametrize("word,status", [("--help", 0), ("nosuch", 2)])
def test_check_lists_its_steps(word, status):
    done = subprocess.run([lab.ROOT / "scripts/check", word], text=True, capture_output=True)
    assert done.returncode == status
    assert "steps: deps build format includes " in done.stdout + done.stderr


def test_install_deps_is_silent_when_nothing_is_missing():
    done = subprocess.run([lab.ROOT / "scripts/install-deps", "build", "demo"],
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0 and done.stdout == "", done.stdout


@pytest.mark.parametrize("groups,status", [(["build", "demo"], 1), (["check"], 0)])
def test_install_deps_without_dpkg(tmp_path, groups, status):
    """Without dpkg, the script names what the build lacks and the packages of other systems."""
    for tool in ("sh", "cat", "tr", "gcc", "ninja"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    done = subprocess.run([tmp_path / "sh", lab.ROOT / "scripts/install-deps", *groups],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={"PATH": str(tmp_path)})
    assert done.returncode == status, done.stdout
    if status:
        assert "lacks: meson pkg-config libibverbs" in done.stdout
        assert "dnf install gcc" in done.stdout
    else:
        assert done.stdout == ""


def locale_of(folder, language):
    """A language's locale in folder, as environment variables; none if this system has no sources of it."""
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", language, "-f", "UTF-8", folder / f"{language}.UTF-8"], capture_output=True)
    return {"LOCPATH": str(folder), "LC_ALL": f"{language}.UTF-8"} if made and made.returncode == 0 else {}


def test_release_dates_in_english(tmp_path):
    tree = tmp_path / "tree"
    for name in ("debian/changelog", "debian/control", "rpm/urnic.spec", "docs/man/urnic.1", "scripts/release"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(lab.ROOT / name, tree / name)
    env = {**os.environ, "GIT_COMMITTER_DATE": "2026-05-02T23:30:00 -0100", "GIT_CONFIG_GLOBAL": "/dev/null",
           **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
           **locale_of(tmp_path, "de_DE")}
    for words in (["git", "init", "-q"], ["git", "commit", "-q", "--allow-empty", "-m", "all"],
                  ["scripts/release", "9.9"]):
        subprocess.run(words, cwd=tree, env=env, check=True)
    log = (tree / "debian/changelog").read_text()
    assert log.startswith("urnic (9.9) unstable; urgency=medium\n\n  * Release 9.9.\n\n -- ")
    assert log.splitlines()[4].endswith(">  Sun, 03 May 2026 00:30:00 +0000")
    assert "\n" + (lab.ROOT / "debian/changelog").read_text() in log
    assert re.search(r"^Version: +9\.9$", (tree / "rpm/urnic.spec").read_text(), re.M)
    page = (tree / "docs/man/urnic.1").read_text()
    assert "\n.Dd May 3, 2026\n" in page and "\n.Os urnic 9.9\n" in page


MESON = """\
 1/4 urnic:unit / good_test OK              0.02s
 2/4 urnic:unit / qp_test   FAIL            0.10s   exit status 2
>>> build/obj/qp_test
stdout:
[ RUN      ] first
[  FAILED  ] first
[ RUN      ] second
[  FAILED  ] second
stderr:
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- ../a.c:11: error: Failure!
ERROR: seed 3: lost
[  ERROR   ] --- [   LINE   ] --- ../a.c:12: error: Failure!
[  FAILED  ] 2 test(s), listed below:
[  FAILED  ] first
[  FAILED  ] second
 3/4 urnic:unit / mr_test   FAIL            0.39s   exit status 1
[ RUN      ] third
==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x6020
SUMMARY: AddressSanitizer: heap-use-after-free ../b.c:3 in bad
 4/4 urnic:unit / cq_test   TIMEOUT        30.01s   killed by signal 15 SIGTERM
[ RUN      ] fourth

Summary of Failures:

 2/4 urnic:unit / qp_test   FAIL            0.10s   exit status 2
"""

PYTEST = """\
tests/test_a.py::test_x[v6]@vm FAILED
_________________________________ test_x[v4] __________________________________
E       AssertionError: passed when it was tried again
________________________________ test_x[v6] ___________________________________
[gw0] linux -- Python 3.11.2 /usr/bin/python3
>       assert rc == 0, out
E       AssertionError: client: 1, server: no end
E         the client's last line
E       assert 1 == 0
tests/test_a.py:7: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_x[v6]@vm - AssertionError: client: 1, server: no end
ERROR tests/test_b.py::test_y - AssertionError: the namespace did not come up
"""


@pytest.mark.parametrize("log,lines", [
    (MESON, ["qp_test first: ../a.c:11: 0x1 != 0x2", "qp_test second: ../a.c:12: seed 3: lost",
             "mr_test third: AddressSanitizer: heap-use-after-free ../b.c:3 in bad",
             "cq_test fourth: TIMEOUT killed by signal 15 SIGTERM"]),
    (PYTEST, ["tests/test_a.py::test_x[v6]@vm - AssertionError: client: 1, server: no end | "
              "the client's last line | assert 1 == 0",
              "tests/test_b.py::test_y - AssertionError: the namespace did not come up"]),
    ("[1/2] cc x.c\n../x.c:3:1: error: no such thing\nninja: stopped\n",
     ["../x.c:3:1: error: no such thing"]),
    ("first\nthe last line\n", ["first", "the last line"]),
    ("", ["it printed nothing"]),
], ids=["meson", "pytest", "compiler", "other", "empty"])
def test_failed_tests_names_each_with_its_reason(tmp_path, log, lines):
    (tmp_path / "unit.log").write_text(log)
    done = subprocess.run([lab.ROOT / "scripts/failed-tests", tmp_path, "unit"], text=True,
                          check=True, stdout=subprocess.PIPE)
    assert done.stdout.splitlines() == [f"  unit: {line}" for line in lines]


def test_failed_tests_is_short(tmp_path):
    for step in ("programs", "conformance"):
        (tmp_path / f"{step}.log").write_text("FAILED tests/a.py::x - no\n" * 100)
    done = subprocess.run([lab.ROOT / "scripts/failed-tests", tmp_path, "programs", "conformance"],
                          text=True, check=True, stdout=subprocess.PIPE)
    assert len(done.stdout.splitlines()) == 20 and "and 91 more in" in done.stdout


def test_failed_tests_has_room_for_all_that_one_test_said(tmp_path):
    said = [f"line {n} of what a server said" for n in range(500)]
    (tmp_path / "programs.log").write_text("___ test_x ___\n" + "".join(f"E   {line}\n" for line in said)
                                           + "FAILED tests/a.py::test_x - line 0\n")
    done = subprocess.run([lab.ROOT / "scripts/failed-tests", tmp_path, "programs"],
                          text=True, check=True, stdout=subprocess.PIPE)
    assert " | line 90 of what" in done.stdout and len(done.stdout) < 3100
