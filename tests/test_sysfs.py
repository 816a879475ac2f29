# SPDX-License-Identifier: BSD-2-Clause
"""The files of devices in /sys: the preload library, urnic sysfs, and programs that read them."""

import os
import pathlib
import re
import shutil

import pytest
from lab import HANGS, eventually
from tool import bad, need

CLASS = "/sys/class/infiniband"


@pytest.fixture
def eth(shared_pair):
    """A namespace with a device on one end of a veth pair, and what runs a program there."""
    return shared_pair().a


def run(ns, *command, **kw):
    return ns.run(ns.stage.urnic, "run", "--", *command, library=False, **kw).out


def test_every_function_finds_the_files(eth):
    out = run(eth, eth.stage.tool("sysfs/readers"), eth.dev)
    said = dict(line.split(": ", 1) for line in out.splitlines())
    for name in ("open", "open64", "__open_2", "__open64_2", "openat", "openat64", "__openat_2",
                 "__openat64_2", "openat root", "openat dir", "open here", "fopen", "fopen64",
                 "freopen", "freopen64"):
        assert said.pop(name) == "1: CA", name
    for name in ("chdir", "fchdir"):
        assert said.pop(name) == "done"
    for name, kind in (("stat", "file"), ("stat64", "folder"), ("lstat", "link"),
                       ("lstat64", "link"), ("fstatat", "folder"), ("fstatat64", "link"),
                       ("statx", "file")):
        assert said.pop(name) == kind, name
    for name in ("access", "euidaccess", "faccessat", "below realpath"):
        assert said.pop(name) == "yes", name
    for name in ("access to write", "open to write", "fopen to write"):
        assert said.pop(name) == "Permission denied", name
    path = said.pop("realpath")
    assert path.startswith("/sys/devices/pci"), path
    for name in ("__realpath_chk", "canonicalize_file_name"):
        assert said.pop(name) == path, name
    for name in ("readlink", "__readlink_chk", "readlinkat", "__readlinkat_chk"):
        assert said.pop(name) == "../../../" + path.rsplit("/", 1)[1], name
    for name in ("opendir", "ftw", "ftw64", "nftw", "nftw64"):
        assert said.pop(name) == "found", name
    for name in ("scandir", "scandir64"):
        assert said.pop(name) == "node_type", name
    for name in ("glob", "glob64"):
        assert said.pop(name) == f"{CLASS}/{eth.dev}/node_type", name
    assert said.pop("glob of nothing") == "/nonexistent/*"
    assert not said


def test_a_shell_reads_the_files(eth):
    """Programs of the shell, most of which list directories by functions of their own."""
    d, net = f"{CLASS}/{eth.dev}", eth.dev.removeprefix("roce_")

    def shell(text):
        return run(eth, "bash", "-c", f"d={d}; {text}").split()
    assert shell(f"ls {CLASS}") == [eth.dev]
    assert shell(f"echo {CLASS}/*") == [d]
    assert shell("find $d/ -name ndevs") == [f"{d}/ports/1/gid_attrs/ndevs"]
    assert shell("ls $d/device/net; cat $d/ports/1/gid_attrs/ndevs/0") == [net, net]
    assert shell("cd $d; pwd; cd ports; cat 1/link_layer; readlink -f ../device") == \
        [d, "Ethernet", *shell("realpath $d/device")]
    assert shell("realpath $d/../..") == shell("realpath $d/device")
    assert shell(f"ls /sys/class/net/{net}/device/infiniband") == [eth.dev]
    assert shell("ls -l $d/fw_ver | cut -c 1-10; test -w $d/fw_ver || echo no") == \
        ["-r--r--r--", "no"]
    assert shell(f"cat $(realpath $d/device)/local_cpulist /sys//class/./infiniband/{eth.dev}/"
                 "node_type")[1:] == ["1:", "CA"]
    assert shell("grep -r . $d/ports/1/pkeys | cut -d : -f 2") == ["0xffff"]
    # an index that is not used: Linux opens the file and refuses to read it
    out = run(eth, "bash", "-c", f"cat {d}/ports/1/gid_attrs/types/99 "
              f"{d}/ports/1/gid_attrs/types/999 2>&1", check=False)
    assert "types/99: Invalid argument" in out and "types/999: No such file" in out


def test_an_iwarp_device(eth):
    net = eth.dev.removeprefix("roce_")
    out = run(eth, "sh", "-c", f"cat {CLASS}/*/node_type; ls {CLASS}/iwarp_{net}/device/infiniband",
              env={"URNIC_DEVICES": f"iwarp_{net}"})
    assert out.split() == ["4:", "RNIC", f"iwarp_{net}"]


def folders():
    return set(pathlib.Path("/dev/shm").glob("urnic-sysfs-*"))


def test_nothing_stays(eth):
    """A process removes its files when it ends; those of a process that was killed go when the
    next one needs some, but not those of one that runs."""
    run(eth, "ls", CLASS)
    before = folders()
    code = (f"import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *a: sys.exit());"
            f"os.listdir('{CLASS}'); print('listed', flush=True); time.sleep(60)")

    def start():
        p = eth.start(eth.stage.urnic, "run", "--", "/usr/bin/python3", "-c", code, library=False,
                      env={"XDG_RUNTIME_DIR": ""})
        p.wait_output("listed")
        return p
    killed, running = start(), start()
    assert len(folders() - before) == 2
    killed.kill()
    run(eth, "ls", CLASS, env={"XDG_RUNTIME_DIR": ""})
    assert len(folders() - before) == 1
    running.popen.terminate()
    assert running.wait(HANGS) == 0
    assert not folders() - before


def test_a_child_shows_the_files_when_its_parent_has_ended(eth):
    code = (f"import os, time\nos.listdir('{CLASS}')\nif os.fork() == 0:\n  time.sleep(0.3)\n"
            f"  print(os.listdir('{CLASS}'), os.listdir('{CLASS}/{eth.dev}/device/net'))\n")
    out = run(eth, "sh", "-c", f'/usr/bin/python3 -c "{code}"; sleep 0.6')
    assert eth.dev in out and "Traceback" not in out


def test_no_place_for_the_files(eth):
    ns = eth.with_(outer=["unshare", "-m", "sh", "-c", "mount --bind -o ro /dev/shm /dev/shm && "
                          "mount --bind -o ro /tmp /tmp && exec \"$@\"", "sh"])
    out = run(ns, "ls", CLASS, check=False)
    assert "set TMPDIR to one that can be written" in out and "No such file" in out


# urnic sysfs

def test_sysfs_writes_the_same(eth, tmp_path):
    tmp_path.chmod(0o755)
    tree = pathlib.Path(eth.stage.tmp) / f"sysfs-{os.getpid()}"
    eth.run(eth.stage.urnic, "sysfs", str(tree), library=False)
    names = run(eth, "sh", "-c", f"cd {CLASS}/{eth.dev}/ && find . -type f").split()
    assert len(names) > 100
    for name in names:
        if "counters" not in name:
            shown = run(eth, "cat", f"{CLASS}/{eth.dev}/{name}") if "gids" not in name else None
            there = (tree / f"class/infiniband/{eth.dev}" / name).read_text()
            assert shown in (None, there), name
    shutil.rmtree(tree)


def test_sysfs_follows(netns):
    tree = pathlib.Path(netns.stage.tmp) / f"follow-{os.getpid()}"
    proc = netns.start(netns.stage.urnic, "sysfs", "--follow", str(tree), library=False,
                       env={"URNIC_DEVICES": "lo,veth9"})
    assert eventually(lambda: (tree / "class/infiniband/roce_lo/node_type").exists())
    netns.sh("ip link add veth9 type veth && ip addr add 192.0.2.9/24 dev veth9 && "
             "ip link set veth9 up")
    gid = tree / "class/infiniband/roce_veth9/ports/1/gids/1"
    assert eventually(lambda: gid.exists() and gid.read_text().strip().endswith("c000:0209"))
    netns.sh("ip link del veth9")
    assert eventually(lambda: not (tree / "class/infiniband/roce_veth9").exists())
    assert proc.running()
    proc.popen.terminate()
    assert proc.wait(HANGS) == 0
    shutil.rmtree(tree)


def test_wrong_directories(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "theirs").touch()
    bad(1, "name an empty directory", "sysfs", str(full))
    assert [p.name for p in full.iterdir()] == ["theirs"]
    bad(1, "none/x: No such file or directory", "sysfs", str(tmp_path / "none/x"))
    bad(1, "theirs: Not a directory", "sysfs", str(full / "theirs"))
    bad(1, "x: ", "sysfs", "/proc/x")
    bad(2, "no directory is named", "sysfs")
    bad(2, "expected a number of seconds", "sysfs", "--follow=soon", str(tmp_path / "a"))
    assert {p.name for p in tmp_path.iterdir()} == {"full"}


# Programs

def test_versions_agree(fabric):
    """ibstat and ibv_devinfo say the same of firmware and hardware."""
    need("ibv_devinfo")
    f = fabric()
    f.opensm("a")

    def said(text, name):
        return re.search(rf"{name}:\s+(\S+)", text)[1]
    for identity in ("urnic", "connectx"):
        env = {"URNIC_IDENTITY": identity}
        stat, info = f.run("a", "ibstat", env=env), f.run("a", "ibv_devinfo", env=env)
        assert said(stat, "Firmware version") == said(info, "fw_ver")
        assert said(stat, "Hardware version") == said(info, "hw_ver")
