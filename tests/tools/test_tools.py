# SPDX-License-Identifier: BSD-2-Clause
"""urnic(1), the preload library and the manual pages."""

import datetime
import email.utils
import json
import os
import pathlib
import pty
import re
import shutil
import stat
import subprocess
import sys

import lab
import pytest
from tool import ROOT, URNIC, bad, good, need, urnic

MAN = ROOT / "docs" / "man"
COMMANDS = ["run", "env", "cdi", "fabric", "devices", "explain", "doctor", "dump", "sysfs", "conf",
            "version"]


# Help

@pytest.mark.parametrize("command", COMMANDS)
def test_help(command):
    text = good(command, "--help")
    assert text.startswith(f"Usage: urnic {command} ")
    assert "--usage" in text
    assert command in good("--help")
    bad(2, "unrecognized option", command, "--nonsense")


def test_wrong_command():
    bad(2, "no command 'bogus'", "bogus")
    assert urnic().returncode == 2


@pytest.mark.parametrize("near,args", [
    ("no command 'tpo'; did you mean top?", ["tpo"]),
    ("no command 'statsu'; did you mean status?", ["fabric", "statsu"]),
    ("unrecognized option '--vresion'; did you mean --version?", ["--vresion"]),
    ("unrecognized option '--liek'; did you mean --like?", ["run", "--liek", "mlx5", "--", "true"]),
    ("unrecognized option '--liek=mlx5'; did you mean --like?", ["env", "-d", "lo", "--liek=mlx5"]),
    ("unrecognized option '--jsno'; did you mean --json?", ["dump", "1", "--jsno"]),
    ("unrecognized option '--fabrik'; did you mean --fabric?", ["fabric", "status", "--fabrik", "x"]),
    ("there is no check 'sq-overflw'; did you mean sq-overflow?", ["run", "--check=sq-overflw", "true"]),
    ("there is no fault 'claer'; did you mean clear?", ["fault", "1", "claer"]),
])
def test_the_nearest_name_is_named(near, args):
    bad(2, near, *args)


@pytest.mark.parametrize("says,args", [
    ("unrecognized option '--nonsense'", ["run", "--nonsense", "true"]),
    ("option '--check-' is ambiguous", ["run", "--check-", "true"]),
    ("--liek: No such file", ["run", "--conf", "--liek", "true"]),
    ("option '--like' requires an argument", ["run", "--like"]),
])
def test_other_wrong_options_are_near_to_none(says, args):
    assert "did you mean" not in bad(2, says, *args)


def test_options_of_the_program_are_its_own():
    assert good("run", "--", "echo", "--liek") == "--liek\n"
    assert good("run", "echo", "--liek") == "--liek\n"
    assert good("run", "--lik", "mlx5", "echo", "x") == "x\n"      # the begin of a name is enough


def test_version():
    assert re.fullmatch(r"urnic \d+\.\d+\.\d+\n", good("version"))
    assert good("--version") == good("version")


@pytest.mark.parametrize("command", ["devices", "doctor", "conf", "version"])
def test_no_arguments_are_taken(command):
    bad(2, "Too many arguments", command, "something")


# Manual pages

def pages():
    return sorted(p for p in MAN.iterdir() if p.suffix in (".1", ".5", ".7"))


def plain(page):
    """The words of a manual page, without markup."""
    text = subprocess.run(["mandoc", "-Tascii", str(page)], text=True,
                          check=True, stdout=subprocess.PIPE).stdout
    return re.sub(r".\x08", "", text)


def test_manual_pages_are_correct():
    need("mandoc")
    assert [p.name for p in pages()] == ["urnic.1", "urnic.7", "urnic.conf.5"]
    r = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *map(str, pages())],
                       text=True, stdout=subprocess.PIPE)
    assert r.stdout == ""


def test_manual_pages_name_the_release():
    """The version and the date of debian/changelog, which scripts/release writes into them."""
    need("mandoc")
    first, *lines = (ROOT / "debian/changelog").read_text().splitlines()
    version = re.match(r"urnic \((.*)\)", first)[1]
    when = next(line for line in lines if line.startswith(" -- ")).split(">  ")[1]
    day = email.utils.parsedate_to_datetime(when).astimezone(datetime.timezone.utc)
    assert good("version") == f"urnic {version}\n"
    for page in pages():
        last = plain(page).rstrip().splitlines()[-1]
        name = f"urnic {version}"
        assert last.split("  ")[0] == name and last.endswith(name), last
        assert f" {day:%B} {day.day}, {day.year} " in last


def test_a_release_has_one_version_and_date(tmp_path):
    """scripts/release writes both; done twice, it changes nothing more."""
    need("git")
    for part in ("debian", "docs/man", "rpm"):
        shutil.copytree(ROOT / part, tmp_path / part)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release", tmp_path / "scripts")
    env = {**os.environ, "GIT_COMMITTER_DATE": "Mon, 4 Jan 2027 23:30:00 -0100"}
    for command in (["git", "init", "-q"],
                    ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q",
                     "--allow-empty", "-m", "x"],
                    ["scripts/release", "7.8.9"], ["scripts/release"], ["scripts/release", "7.8.9"]):
        subprocess.run(command, cwd=tmp_path, env=env, check=True)
    log = (tmp_path / "debian/changelog").read_text()
    maintainer = re.search(r"^Maintainer: (.*)$", (ROOT / "debian/control").read_text(), re.M)[1]
    assert log.startswith("urnic (7.8.9) ") and log.count("(7.8.9)") == 1
    assert log.endswith((ROOT / "debian/changelog").read_text())
    assert f"\n -- {maintainer}  Tue, 05 Jan 2027 00:30:00 +0000\n\nurnic (" in log
    assert re.search(r"^Version: +7\.8\.9$", (tmp_path / "rpm/urnic.spec").read_text(), re.M)
    for page in (tmp_path / "docs/man").iterdir():
        assert ".Dd January 5, 2027\n" in page.read_text()
        assert ".Os urnic 7.8.9\n" in page.read_text()


def test_manual_page_has_every_option():
    need("mandoc")
    text = plain(MAN / "urnic.1")
    for command in COMMANDS:
        assert re.search(rf"^ +urnic {command}", text, re.M), command
        for option in re.findall(r"--[a-z-]+", good(command, "--help")):
            if option not in ("--help", "--usage"):
                assert option in text, (command, option)


def test_manual_page_has_every_kind():
    need("mandoc")
    text = re.search(r"kind is\s(.*?)\sA\s+number", plain(MAN / "urnic.1"), re.S)[1]
    kinds = {e["kind"] for e in json.loads(good("explain", "--json"))}
    assert len(kinds) == 11
    for kind in kinds:
        assert re.search(rf"\b{kind}\b", re.sub(r"\(.*?\)", "", text, flags=re.S)), kind


def test_manual_pages_have_every_key():
    need("mandoc")
    conf5, urnic7 = plain(MAN / "urnic.conf.5"), plain(MAN / "urnic.7")
    table = re.findall(r"^(\w+), (URNIC_\w+) \(.*; default: (.*)\)$",
                       good("conf", "--help"), re.M)
    assert len(table) == 21
    for key, env, default in table:
        entry = re.search(rf"^ +{key}, {env} \(default: (.*)\)$", conf5, re.M)
        assert entry, key
        assert entry[1] == default
        assert env in urnic7
    pages_keys = re.findall(r"^ +(\w+), URNIC_\w+ \(default", conf5, re.M)
    assert pages_keys == [key for key, _, _ in table]


def test_manual_page_has_every_fault():
    need("mandoc")
    text = plain(MAN / "urnic.1")
    keys = re.findall(r"^  (\w+)=\S+(?: |$)", good("run", "--help"), re.M)
    assert len(keys) == 22
    for key in keys:
        assert re.search(rf"^ +{key}=", text, re.M), key


# Running programs

def test_run_passes_arguments_and_status():
    out = good("run", "--log", "info", "--", "sh", "-c", 'echo "$@"', "x",
               "--log", "debug", "-c")
    assert out == "--log debug -c\n"
    out = good("run", "printf", "%s", "--log")
    assert out == "--log"
    assert urnic("run", "--", "sh", "-c", "exit 42").returncode == 42


def environment(*options, env=None):
    out = good("run", *options, "--", "env", "-0", env=env)
    return dict(v.split("=", 1) for v in out.split("\0") if v)


def test_run_sets_variables(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("local = off\n")
    e = environment("--pcap", "cap.%p", "--fault", "drop=0.5,seed=3",
                    "--log", f"debug:{tmp_path}/log", "--devices", "lo",
                    "--identity", "connectx,speed=50", "--local", "pipe",
                    "--conf", str(conf), env={"KEPT": "1"})
    assert e["URNIC_PCAP"] == f"{os.getcwd()}/cap.%p"
    assert e["URNIC_FAULT"] == "drop=0.5,seed=3"
    assert e["URNIC_LOG"] == f"debug:{tmp_path}/log"
    assert e["URNIC_DEVICES"] == "lo"
    assert e["URNIC_IDENTITY"] == "connectx,speed=50"
    assert e["URNIC_LOCAL"] == "pipe"
    assert e["URNIC_CONF"] == str(conf)
    assert e["KEPT"] == "1"
    assert not any(k.startswith("URNIC_") for k in environment())


def test_run_puts_libraries_in_front():
    e = environment(env={"LD_LIBRARY_PATH": "/somewhere"})
    first, last = e["LD_LIBRARY_PATH"].split(":")
    assert last == "/somewhere"
    assert os.path.exists(f"{first}/libibverbs.so.1")
    assert [os.path.basename(p) for p in e["LD_PRELOAD"].split(":")] == \
        ["liburnic-map.so", "liburnic-preload.so"]
    assert all(map(os.path.exists, e["LD_PRELOAD"].split(":")))
    # a second `urnic run` adds nothing to the environment
    out = good("run", "--", URNIC, "run", "--", "env")
    assert f"LD_LIBRARY_PATH={first}\n" in out
    assert f"LD_PRELOAD={e['LD_PRELOAD']}\n" in out


def test_run_keeps_nccl_from_mlx5_s_way():
    assert environment()["NCCL_GIN_TYPE"] == "2"
    assert environment(env={"NCCL_GIN_TYPE": "3"})["NCCL_GIN_TYPE"] == "3"
    assert good("run", "--", "sh", "-c", "echo $NCCL_GIN_TYPE") == "2\n"


@pytest.mark.parametrize("way,loaded", [("auto", True), ("map", True), ("vm", False),
                                        ("pipe", False), ("off", False)])
def test_run_loads_what_mapped_memory_needs(way, loaded):
    e = environment("--local", way)
    assert ("liburnic-map.so" in e["LD_PRELOAD"]) == loaded


def test_run_finds_events_from_another_directory(tmp_path):
    (tmp_path / "list").write_text("flow1 +3 1 drop\n")
    out = good("run", "-n", "--fault", "drop=0.1,events=list,seed=3", "true", cwd=tmp_path)
    assert f"URNIC_FAULT=drop=0.1,events={tmp_path}/list,seed=3\n" in out


def test_run_dry():
    out = good("run", "-n", "--log=info", "--", "sh", "-c", "echo ran")
    assert "URNIC_LOG=info\n" in out
    assert "ran" not in out


@pytest.mark.parametrize("names,args", [
    ("drop", ["--fault", "drop=3"]),
    ("no fault is called dro; did you mean drop?; there are drop, burst,", ["--fault", "dro=1"]),
    ("/no/such: No such file", ["--fault", "events=/no/such"]),
    ("how long each time?", ["--fault", "drop=1,every=1s"]),
    ("'loud'", ["--log", "loud"]),
    ("'on'", ["--local", "on"]),
    ("'mlx'", ["--identity", "mlx"]),
    ("/nonexistent", ["--conf", "/nonexistent"]),
    ("/no/such/dir/file: No such file or directory; make its directory",
     ["--pcap", "/no/such/dir/file"]),
    ("--pcap): /tmp: Is a directory; name a file in it", ["--pcap", "/tmp"]),
    ("/etc/passwd/a: Not a directory", ["--pcap", "/etc/passwd/a"]),
    ("URNIC_PCAP (--pcap): /sys/a", ["--pcap", "/sys/a"]),
    ("no file is named", ["--pcap", ""]),
    ("--check: no check is named; the default ones are --check without =", ["--check="]),
    ("--check-exit without a check: write --check, too", ["--check-exit"]),
    ("--check-abort without a check", ["--check-abort"]),
    ("--check-suppress without a check", ["--check-suppress=/dev/null"]),
    ("--log): /no/such/dir/file", ["--log", "debug:/no/such/dir/file"]),
])
def test_run_refuses_wrong_values(names, args):
    bad(2, names, "run", *args, "--", "echo", "ran")


def test_run_refuses_files_of_the_configuration(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text(f"pcap = {tmp_path}\n")
    bad(2, f"{conf}: pcap: {tmp_path}: Is a directory", "run", "-c", str(conf),
        "--", "echo", "ran")
    bad(2, "--pcap): /tmp: Is a directory", "run", "--", "echo", "ran",
        env={"URNIC_PCAP": "/tmp"})


@pytest.mark.parametrize("text,says", [
    (None, ": No such file or directory"),
    ("sq-overflow:main # known\n", ":1: sq-overflow:main # known: a comment has a line of its own"),
    ("# mine\nsq-overflow: main\n", ":2: sq-overflow: main: no name begins with a space"),
])
def test_run_refuses_suppressions_that_do_nothing(tmp_path, text, says):
    known = tmp_path / "known"
    if text:
        known.write_text(text)
    says = f"URNIC_CHECK_SUPPRESS (--check-suppress): {known}{says}"
    run = ["run", "--check", "--", "echo", "ran"]
    bad(2, says, *run, env={"URNIC_CHECK_SUPPRESS": str(known)})
    bad(2, says, *run[:2], f"--check-suppress={known}", *run[2:])
    known.write_text("# mine\nsq-overflow:main\n")
    good(*run, env={"URNIC_CHECK_SUPPRESS": str(known)})


def test_run_refuses_a_file_of_somebody_else(stage):
    theirs = stage.tmp / "theirs"
    theirs.write_text("kept")
    theirs.chmod(0o444)
    nobody = lab.unprivileged() if lab.CAN_NAMESPACE else []
    r = subprocess.run([*nobody, stage.urnic, "run", "--pcap", theirs, "--",
                        "echo", "ran"], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, cwd="/", env={"PATH": "/bin"})
    assert f"{theirs}: Permission denied; name a file that you may" in r.stderr
    assert (r.returncode, r.stdout) == (2, "")
    assert theirs.read_text() == "kept"


def test_run_leaves_files_alone(tmp_path):
    """`urnic run` asks whether a file can be written to without making or emptying it."""
    kept, fifo = tmp_path / "kept", tmp_path / "fifo"
    kept.write_text("kept")
    os.mkfifo(fifo)
    for file in (kept, fifo, tmp_path / "new.%p"):
        good("run", "--pcap", str(file), "--", "true")
    assert kept.read_text() == "kept"
    assert sorted(os.listdir(tmp_path)) == ["fifo", "kept"]


def test_run_refuses_wrong_configuration(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("log = info\nlocl = off\n")
    err = bad(2, "'locl'", "run", "-c", str(conf), "--", "echo", "ran")
    assert f"{conf}:2:" in err
    bad(2, "URNIC_LCOAL", "run", "--", "echo", "ran", env={"URNIC_LCOAL": "off"})
    bad(2, "drip", "run", "--", "echo", "ran", env={"URNIC_FAULT": "drip=1"})
    bad(2, "no program", "run")


def test_run_program_not_found():
    bad(127, "no such program", "run", "--", "no-such-program")
    bad(127, "no such program", "run", "--", "/no/such/program")
    bad(126, "Permission denied", "run", "--", "/etc/passwd")


def patched(tmp_path, name, change):
    """A copy of /bin/true in which `change` has altered bytes."""
    data = bytearray(pathlib.Path("/bin/true").read_bytes())
    change(data)
    path = tmp_path / name
    path.write_bytes(data)
    path.chmod(0o755)
    return str(path)


def program_headers(data):
    off = int.from_bytes(data[32:40], "little")
    return [off + i * 56 for i in range(int.from_bytes(data[56:58], "little"))]


def test_run_refuses_static_program(tmp_path):
    def no_interpreter(data):
        for at in program_headers(data):
            if data[at] == 3:                   # PT_INTERP
                data[at] = 0                    # PT_NULL

    path = patched(tmp_path, "static", no_interpreter)
    bad(126, "statically linked", "run", "--", path)
    good("run", "--", patched(tmp_path, "same", lambda data: None))


def test_run_refuses_other_machines(tmp_path):
    def other(data):
        data[18:20] = b"\x08\x00"               # MIPS

    bad(126, "another machine", "run", "--", patched(tmp_path, "mips", other))


def test_run_refuses_other_c_library(tmp_path):
    def musl(data):
        loader = b"/lib64/ld-linux-x86-64.so.2"
        at = data.index(loader)
        data[at:at + len(loader)] = b"/lib/ld-musl-x86_64.so.1\0\0\0"

    bad(126, "musl", "run", "--", patched(tmp_path, "musl", musl))


def test_run_refuses_set_user_id(tmp_path):
    path = patched(tmp_path, "suid", lambda data: None)
    if os.geteuid() != 0:
        need("su")
        path = shutil.which("su")
        if not os.stat(path).st_mode & stat.S_ISUID:
            pytest.skip("su is not set-user-ID here")
    else:
        os.chown(path, 1, 1)
        os.chmod(path, 0o4755)
    bad(126, "set-user-ID", "run", "--", path)


def test_run_script(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho script $1\n")
    script.chmod(0o755)
    assert good("run", "--", str(script), "a") == "script a\n"


def test_run_loads_our_library():
    need("ibv_devices")
    names = [d["name"] for d in json.loads(good("devices", "--json"))]
    assert names
    out = good("run", "--", "ibv_devices")
    assert re.findall(r"^ +(\S+) +\t", out, re.M)[2:] == names


def test_installed(tmp_path):
    """What `make install` has put elsewhere works from there."""
    subprocess.run(["make", "-s", "-o", "build", "install", f"DESTDIR={tmp_path}",
                    "PREFIX=/opt/u"], cwd=lab.ROOT, check=True)
    top = tmp_path / "opt/u"
    assert {p.name for p in (top / "lib/urnic").iterdir()} == {
        "urnic", "liburnic.so", "libibverbs.so.1", "librdmacm.so.1", "libibumad.so.3",
        "liburnic-preload.so", "liburnic-map.so",
        "libibverbs.so", "librdmacm.so", "libibumad.so", "tsan.supp"}
    assert os.readlink(top / "lib/urnic/libibverbs.so") == "libibverbs.so.1"
    assert (top / "share/man/man7/urnic.7").exists()
    out = subprocess.run([top / "bin/urnic", "run", "-n", "--", "true"], check=True,
                         capture_output=True, text=True).stdout
    assert f"{top}/lib/urnic" in out
    # the folder with the libraries works from any place, by itself
    copy = shutil.copytree(top / "lib/urnic", tmp_path / "elsewhere")
    out = subprocess.run([copy / "urnic", "env", "--json"], check=True,
                         capture_output=True, text=True).stdout
    assert json.loads(out)["LD_LIBRARY_PATH"].split(":")[0] == str(copy)
    (top / "lib/urnic/kept").touch()
    subprocess.run(["make", "-s", "uninstall", f"DESTDIR={tmp_path}", "PREFIX=/opt/u"],
                   cwd=lab.ROOT, check=True)
    assert [p.name for p in top.rglob("*") if p.is_file()] == ["kept"]

# The environment that `urnic run` sets

STRANGE = {"URNIC_PCAP": "/tmp/it's $HOME `a`\\ %p", "LD_LIBRARY_PATH": "/some where:/b"}


def changed(*options, env):
    """The variables that `urnic run` sets or leaves set, in a program's environment."""
    e = environment(*options, env=env)
    return {k: v for k, v in e.items()
            if k.startswith(("LD_", "URNIC_")) or k not in {**os.environ, **CALLERS}}


CALLERS = dict.fromkeys(["HOME", "XDG_CONFIG_HOME", "ARGP_HELP_FMT", "LC_CTYPE"])


def from_shell(text):
    out = subprocess.run(["env", "-i", "sh", "-c", 'eval "$1"; env -0', "sh", text], check=True,
                         capture_output=True, text=True).stdout
    e = dict(v.split("=", 1) for v in out.split("\0") if v)
    return {k: v for k, v in e.items() if k not in ("PWD", "SHLVL", "_", "OLDPWD")}


def from_github(text):
    """What GitHub's runner reads from $GITHUB_ENV: NAME=VALUE, or NAME<<END, lines, END."""
    e, lines = {}, iter(text.splitlines())
    for line in lines:
        name, sign, value = re.fullmatch(r"(\w+)(=|<<)(.*)", line).groups()
        if sign == "<<":
            end, value = value, "\n".join(iter(lambda: next(lines), value))
            assert end
        e[name] = value
    return e


@pytest.mark.parametrize("form,read", [((), from_shell), (("--github",), from_github),
                                       (("--json",), json.loads)])
@pytest.mark.parametrize("options", [(), ("--log", "debug", "-d", "lo"), ("-L", "off")])
def test_env_prints_what_run_sets(form, read, options):
    for more in ({}, STRANGE, {"LD_LIBRARY_PATH": "/two\nlines/b"}):
        want = changed(*options, env=more)
        assert "LD_PRELOAD" in want and len(want) >= 2 + len(options) // 2
        assert read(good("env", *form, *options, env=more)) == want
        # in that environment it prints the same again
        assert read(good("env", *form, *options, env=want)) == want


def test_env_for_github_ends_no_value_early():
    """Lines of a value are not taken for its end and for variables."""
    value = "a\nEND_OF_URNIC_0\nPATH=b\nEND_OF_URNIC\nPATH=c"
    got = from_github(good("env", "--github", env={"LD_LIBRARY_PATH": value}))
    assert got["LD_LIBRARY_PATH"].endswith(":" + value)
    assert "PATH" not in got


def test_env_leaves_nothing_out():
    """A value that JSON cannot hold, and output that cannot be written, are errors."""
    bad(1, "LD_LIBRARY_PATH is not UTF-8", "env", "--json", env={"LD_LIBRARY_PATH": "/\udcff"})
    for command in (["env"], ["env", "--json"], ["conf"], ["devices"]):
        r = subprocess.run(["sh", "-c", '"$@" >/dev/full', "sh", URNIC, *command],
                           capture_output=True, text=True)
        assert r.returncode == 1, command
        assert "standard output cannot be written: No space left" in r.stderr


def test_env_makes_programs_see_the_device():
    need("ibv_devices")
    out = subprocess.run(["sh", "-c", f"eval \"$('{URNIC}' env -d lo)\" && ibv_devices"],
                         check=True, capture_output=True, text=True).stdout
    assert "roce_lo" in out


def test_env_refuses_what_run_refuses():
    bad(2, "urnic env: URNIC_FAULT (--fault): 'dro=1': no fault is called dro", "env", "--fault", "dro=1")
    bad(2, "urnic env: URNIC_PCAP (--pcap): /no/such/dir/file", "env", "--pcap",
        "/no/such/dir/file")
    bad(2, "urnic env: adapter a of fabric none", "env", "-H", "a", "-F", "none")
    bad(2, "Too many arguments", "env", "true")


# The preload library

def python(code, **kw):
    return good("run", "--", sys.executable, "-c", "import os, stat\n" + code, **kw)


def test_preload_shows_devices():
    out = python("""
s = os.stat('/dev/infiniband/uverbs7')
print(stat.S_ISCHR(s.st_mode), oct(s.st_mode & 0o777), os.major(s.st_rdev))
print(stat.S_ISCHR(os.lstat('/dev/infiniband/uverbs0').st_mode))
print(os.access('/dev/infiniband/uverbs0', os.R_OK | os.W_OK))
print(os.access('/dev/infiniband/uverbs0', os.X_OK))
""")
    assert out.split() == ["True", "0o666", "231", "True", "True", "False"]


@pytest.mark.parametrize("identity,device", [
    ("urnic", "roce_lo"), ("name=mlx5_%d", "mlx5_0")])
def test_preload_shows_the_interface(identity, device):
    """The program and its children see the interface in /sys; rdma-core's tests list it by `ls`."""
    out = python(f"""
import subprocess
net = '/sys/class/infiniband/{device}/device/net'
print(os.listdir(net), os.path.isdir(net + '/'), os.access(net, os.W_OK))
print(subprocess.check_output(['ls', net + '/'], text=True).split())
print(open('/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/0').read())
print(len(os.listdir('/proc/sys/net/ipv4/conf')) > 2)
for other in ('/sys/class/infiniband/other0/device/net', net + '/lo9', net + 's'):
    print(os.path.exists(other))
""", env={"URNIC_IDENTITY": identity, "URNIC_DEVICES": "lo"})
    assert out.split("\n")[:-1] == ["['lo'] True False", "['lo']", "lo", "", "True",
                                    "False", "False", "False"]


def test_preload_changes_nothing_else(tmp_path):
    file = tmp_path / "file"
    file.write_text("12345")
    out = python(f"""
s = os.stat('{file}')
print(s.st_size, s.st_ino, s.st_mode, os.access('{file}', os.R_OK))
for name in ('umad0', 'uverbs', 'uverbsx', 'uverbs0/x', 'rdma_cm', 'uverbs99999'):
    print(os.access('/dev/infiniband/' + name, os.R_OK))
    try:
        os.stat('/dev/infiniband/' + name)
        print('there')
    except FileNotFoundError:
        print('ENOENT')
try:
    os.stat('{file}/below')
except NotADirectoryError:
    print('ENOTDIR')
""").split()
    s = file.stat()
    assert out[:4] == ["5", str(s.st_ino), str(s.st_mode), "True"]
    assert out[4:-1] == ["False", "ENOENT"] * 6
    assert out[-1] == "ENOTDIR"


def test_preload_looks_symbols_up_once(tmp_path):
    """Eight threads make 800 calls; LD_DEBUG shows fewer than 50 look-ups of the symbol."""
    out = python("""
import threading
def work(): said.append(all(stat.S_ISCHR(os.stat('/dev/infiniband/uverbs0').st_mode)
                            for _ in range(100)))
said = []
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(said == [True] * 8)
""", env={"LD_DEBUG": "symbols", "LD_DEBUG_OUTPUT": str(tmp_path / "ld")})
    assert out == "True\n"
    log = "".join(f.read_text() for f in tmp_path.iterdir())
    assert 0 < len(re.findall(r"symbol=stat(?:64)?;.*/libc\.so", log)) < 50


PLAIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int begun, opened;
"""


def compiled(tmp_path, text):
    program = tmp_path / "program"
    program.with_suffix(".c").write_text(PLAIN + text)
    subprocess.run(["gcc", "-Wall", "-rdynamic", "-pthread", "-o", program,
                    program.with_suffix(".c")], check=True)
    return program


def test_preload_leaves_errno_alone(tmp_path):
    """The C standard says that it is 0 when a program begins."""
    assert good("run", "--", compiled(tmp_path, """
int main(void) { printf("%d", errno); return 0; }""")) == "0"


@pytest.mark.parametrize("path, in_constructor", [("/dev/null", 0), ("/sys/nonesuch", 0),
                                                  ("/sys/class/infiniband/abi_version", 1)])
def test_preload_opens_while_another_thread_loads(tmp_path, path, in_constructor):
    """A constructor that dlopen() runs waits for another thread, which opens a file; or it
    opens one itself while the other thread does."""
    library = tmp_path / "slow.so"
    library.with_suffix(".c").write_text(PLAIN.replace("int begun", "extern int begun") + f"""
__attribute__((constructor)) static void begin(void)
{{
	__atomic_store_n(&begun, 1, 5);
	if ({in_constructor}) {{
		usleep(200000);
		open("{path}", O_RDONLY);
	}}
	while (!{in_constructor} && !__atomic_load_n(&opened, 5))
		usleep(100);
}}""")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, library.with_suffix(".c")],
                   check=True)
    assert good("run", "--", compiled(tmp_path, f"""
static void *open_one(void *arg)
{{
	while (!__atomic_load_n(&begun, 5))
		usleep(100);
	open("{path}", O_RDONLY);
	__atomic_store_n(&opened, 1, 5);
	return arg;
}}
""" + """
int main(int argc, char **argv)
{
	pthread_t t;
	bool done;

	alarm(10);
	pthread_create(&t, NULL, open_one, NULL);
	done = argc > 1 && dlopen(argv[1], RTLD_NOW);
	pthread_join(t, NULL);
	printf("%d", done);
	return 0;
}"""), library) == "1"


@pytest.mark.parametrize("path", ["/dev/null", "/nonesuch", "nonesuch", "/sys/nonesuch"])
def test_preload_needs_little_stack(tmp_path, path):
    """A handler of signals opens a file on a stack of SIGSTKSZ, as those do that print
    where a program has crashed."""
    out = good("run", "--", compiled(tmp_path, """
enum { SIZE = 8192, GUARD = 65536 };
static const char *path;
static int fd, error;

static void handle(int signal)
{
	fd = open(path, O_RDONLY);
	error = errno;
}

int main(int argc, char **argv)
{
	char *low = mmap(NULL, GUARD + SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t stack = { .ss_sp = low + GUARD, .ss_size = SIZE };
	const struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };

	path = argv[1];
	mprotect(low + GUARD, SIZE, PROT_READ | PROT_WRITE);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	printf("%d %d", fd >= 0, error);
	return 0;
}"""), path, cwd=tmp_path)
    assert out == ("1 0" if path == "/dev/null" else "0 2")


def test_preload_makes_no_tree_for_other_files_of_sys(tmp_path):
    """What urnic has not, it is not asked for; errno is the kernel's."""
    trace = tmp_path / "trace"
    out = good("run", "--", "strace", "-f", "-e", "trace=mkdir", "-o", trace,
               compiled(tmp_path, """
int main(void)
{
	static const char *const paths[] = { "/sys/nonesuch", "/sys/fs/nonesuch/x",
		"/sys/devices/system/cpu/nonesuch", "/sys/class/nonesuch/x" };

	for (int i = 0; i < 4; i++)
		for (int flags = O_RDONLY; flags <= O_WRONLY; flags++)
			printf("%d ", open(paths[i], flags) < 0 ? errno : 0);
	return 0;
}"""))
    assert out.split() == ["2"] * 8
    assert "urnic-sysfs" not in trace.read_text()


def test_ucx_sees_the_devices():
    need("ucx_info")
    out = good("run", "--", "ucx_info", "-d")
    for device in json.loads(good("devices", "--json")):
        if device["state"] == "active" and device["transport"] == "RoCE v2":
            assert f"Memory domain: {device['name']}" in out
            for transport in ("rc_verbs", "ud_verbs"):
                assert re.search(rf"Transport: {transport}\n# +Device: "
                                 rf"{device['name']}:1", out)


# Devices

def addresses(netdev):
    out = subprocess.run(["ip", "-j", "addr", "show", "dev", netdev], text=True,
                         check=True, stdout=subprocess.PIPE).stdout
    return {a["local"] for link in json.loads(out) for a in link["addr_info"]}


def test_devices():
    devices = json.loads(good("devices", "--json"))
    table = good("devices")
    roce = [d["netdev"] for d in devices if d["transport"] == "RoCE v2"]
    iwarp = [d["netdev"] for d in devices if d["transport"] == "iWARP"]
    assert [d["netdev"] for d in devices] == roce and not iwarp
    assert roce == ["lo"] or "lo" not in roce
    for device in devices:
        prefix = "iwarp" if device["transport"] == "iWARP" else "roce"
        assert device["name"] == f"{prefix}_{device['netdev']}"
        assert device["mtu"] in (256, 512, 1024, 2048, 4096)
        shown = {g["address"] for g in device["gids"] if not g["local_only"]}
        if prefix == "roce":
            assert addresses(device["netdev"]) <= shown | {"127.0.0.1"}
        else:
            assert len(device["gids"]) == 1
        for gid in device["gids"]:
            assert re.search(rf"{gid['index']}  {re.escape(gid['address'])}",
                             table)
        assert re.search(rf"^{device['name']} +{device['netdev']} "
                         rf"+{device['state']} +{device['mtu']} ", table, re.M)


def test_devices_follow_configuration():
    def names(**env):
        out = good("devices", "--json", env=env)
        return [d["name"] for d in json.loads(out)]

    assert names(URNIC_DEVICES="lo") == ["roce_lo"]
    assert names(URNIC_DEVICES="iwarp_lo,lo") == ["roce_lo", "iwarp_lo"]
    assert names(URNIC_DEVICES="roce_lo") == ["roce_lo"]
    assert names(URNIC_DEVICES="iwarp_lo") == ["iwarp_lo"]
    assert names(URNIC_DEVICES="lo,iwarp_lo", URNIC_IDENTITY="name=mlx5_%d") == [
        "mlx5_0", "iwarp_lo"]
    device, = json.loads(good("devices", "--json",
                              env={"URNIC_DEVICES": "roce_lo",
                                   "URNIC_IDENTITY": "connectx"}))
    assert (device["vendor_id"], device["vendor_part_id"]) == (0x2c9, 4119)
    bad(2, "URNIC_IDENTITY", "devices", env={"URNIC_IDENTITY": "x"})


def test_one_gid():
    devices = json.loads(good("devices", "--json", env={"URNIC_ONE_GID": "yes"}))
    assert all(g["index"] < 2 for d in devices for g in d["gids"])


@pytest.mark.parametrize("names", ["nosuch0", "lo,nosuch0", "iwarp_nosuch0 roce_lo"])
def test_no_such_interface_is_said(names):
    done = urnic("devices", env={"URNIC_DEVICES": names})
    line, = done.stderr.splitlines()
    assert "nosuch0: no interface with an address" in line, line
    assert "lo" in line.split("There are: ")[1].split(", "), line
    some = "lo" in names.replace("nosuch0", "")
    assert ("roce_lo" in done.stdout) == some, done
    assert ("so there is no device" in line) == (not some), line
    assert (" error: " in line) == (not some), line
    assert done.returncode == (0 if some else 1)


def test_run_refuses_a_device_that_is_not_there():
    for args, env in ((["--devices", "eth77"], {}), ([], {"URNIC_DEVICES": "eth77"})):
        err = bad(2, 'is "eth77"', "run", *args, "--", "echo", "ran", env=env)
        assert "There are: " in err and "lo" in err
    good("run", "-d", "eth77,lo", "--", "true")


def test_devices_of_iwarp_show_their_mac():
    device, = json.loads(good("devices", "--json", env={"URNIC_DEVICES": "iwarp_lo"}))
    gid, = device["gids"]
    assert re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", gid["address"])
    assert "127.0.0.1" in device["addresses"]
    text = good("devices", env={"URNIC_DEVICES": "iwarp_lo"})
    assert f"  0  {gid['address']} (MAC)\n" in text
    assert re.search(r"^ +-  127\.0\.0\.1$", text, re.M)


# Configuration

def test_conf_says_where_from(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("[urnic]\nudp_port = 4000\nlocal = off\n")
    out = good("conf", env={"URNIC_CONF": str(conf), "URNIC_LOCAL": "vm"})
    assert f"udp_port = 4000\t({conf})\n" in out
    assert "local = vm\t(URNIC_LOCAL)\n" in out
    assert "log = warn\t(default)\n" in out
    bad(2, "URNIC_UDP_PORT", "conf", env={"URNIC_UDP_PORT": "0"})


def test_conf_as_json(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("[urnic]\nudp_port = 4000\none_gid = on\nlocal = off\n")
    env = {"URNIC_CONF": str(conf), "URNIC_LOCAL": "vm"}
    got = json.loads(good("conf", "--json", env=env))
    assert got["udp_port"] == {"value": "4000", "from": "file", "file": str(conf),
                               "variable": "URNIC_UDP_PORT", "default": "4791"}
    assert got["local"] == {"value": "vm", "from": "environment", "variable": "URNIC_LOCAL",
                            "default": "auto"}
    assert got["log"] == {"value": "warn", "from": "default", "variable": "URNIC_LOG",
                          "default": "warn"}
    said = dict(re.findall(r"^(\w+) = (.*)\t", good("conf", env=env), re.M))
    assert {key: row["value"] for key, row in got.items()} == said
    bad(2, "URNIC_UDP_PORT", "conf", "--json", env={"URNIC_UDP_PORT": "0"})
    bad(2, "URNIC_FAULT", "conf", "--json", env={"URNIC_FAULT": "drip=1"})
    bad(1, "pcap is not UTF-8", "conf", "--json", env={"URNIC_PCAP": f"{tmp_path}/\udcff"})


# Colour

def on_terminal(*args, **env):
    """What urnic writes to a terminal."""
    main, terminal = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    with subprocess.Popen([URNIC, *args], stdout=terminal, env={**clean, "TERM": "xterm", **env}):
        os.close(terminal)
        out = b""
        try:
            while piece := os.read(main, 4096):
                out += piece
        except OSError:     # EIO: nobody has the terminal open any more
            pass
        os.close(main)
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("command,colour,word", [
    (["explain", "vendor_err=5"], 1, "ibv_wc.vendor_err 5: TIMEOUT"),
    (["doctor"], 32, "ok      "),
    (["devices"], 32, "active "),
])
def test_colour_is_for_terminals(command, colour, word):
    env = {"URNIC_DEVICES": "lo"}
    assert f"\x1b[{colour}m{word}\x1b[0m" in on_terminal(*command, **env)
    for refused in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        out = on_terminal(*command, **env, **refused)
        assert word in out and "\x1b" not in out
    out = urnic(*command, env={**env, "TERM": "xterm"}).stdout
    assert word in out and "\x1b" not in out
