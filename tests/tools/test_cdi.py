# SPDX-License-Identifier: BSD-2-Clause
"""`urnic cdi`: its file has the form of the Container Device Interface 0.6.0, where an unknown field
is an error; and a container that is made by it sees the devices."""

import copy
import json
import os
import re
import shutil
import subprocess

import lab
import pytest
import subnet
from tool import URNIC, bad, good, need

NAME = r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"


# The specification's rules: for each object its fields, and which of them it must have.

def text(pattern):
    def check(value, where):
        assert isinstance(value, str) and re.fullmatch(pattern, value, re.S), where
    return check


def listed(one):
    def check(value, where):
        assert isinstance(value, list), where
        for i, v in enumerate(value):
            one(v, f"{where}[{i}]")
    return check


def number(value, where):
    assert isinstance(value, int) and not isinstance(value, bool), where


def fields(known, must):
    def check(value, where):
        assert isinstance(value, dict), where
        assert set(value) <= set(known), f"{where}: unknown {set(value) - set(known)}"
        assert set(must) <= set(value), f"{where}: missing {set(must) - set(value)}"
        for key, v in value.items():
            known[key](v, f"{where}.{key}")
    return check


def annotations(value, where):
    assert isinstance(value, dict) and all(isinstance(v, str) for v in value.values()), where


def edits(value, where):
    CONTAINER_EDITS(value, where)
    assert any(value.values()), f"{where}: no edits"


PATH = text(r"/.*")
WORDS = listed(text(r".*"))
ENV = listed(text(r"[^=]+=.*"))
CONTAINER_EDITS = fields({
    "env": ENV,
    "deviceNodes": listed(fields({
        "path": PATH, "hostPath": PATH, "type": text("[bcup]"), "major": number,
        "minor": number, "fileMode": number, "uid": number, "gid": number,
        "permissions": text("[rwm]*")}, ["path"])),
    "mounts": listed(fields({
        "hostPath": PATH, "containerPath": PATH, "type": text(".+"), "options": WORDS},
        ["hostPath", "containerPath"])),
    "hooks": listed(fields({
        "hookName": text("prestart|createRuntime|createContainer|startContainer|poststart|poststop"),
        "path": PATH, "args": WORDS, "env": ENV, "timeout": number}, ["hookName", "path"])),
}, [])
SPEC = fields({
    "cdiVersion": text(r"0\.[3-6]\.0"),
    "kind": text(rf"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/{NAME}"),
    "annotations": annotations,
    "devices": listed(fields({"name": text(NAME), "annotations": annotations,
                              "containerEdits": edits}, ["name", "containerEdits"])),
    "containerEdits": CONTAINER_EDITS,
}, ["cdiVersion", "kind", "devices"])


def check(spec):
    SPEC(spec, "spec")
    names = [d["name"] for d in spec["devices"]]
    assert names and len(set(names)) == len(names)
    return spec


def described(*args, **kw):
    return check(json.loads(good("cdi", "-o", "-", *args, **kw)))


@pytest.mark.parametrize("spoil", [
    lambda s: s.update(containerEdit={}),
    lambda s: s.update(kind="hca"),
    lambda s: s.pop("cdiVersion"),
    lambda s: s["devices"].append(s["devices"][0]),
    lambda s: s["devices"][0].update(name="-a"),
    lambda s: s["devices"][0].update(containerEdits={"env": []}),
    lambda s: s["containerEdits"]["env"].append("NAME"),
    lambda s: s["containerEdits"]["mounts"][0].update(readonly=True),
    lambda s: s["containerEdits"]["mounts"][0].pop("containerPath"),
])
def test_the_rules_refuse(spoil):
    spec = copy.deepcopy(described())
    spoil(spec)
    with pytest.raises(AssertionError):
        check(spec)


# The file

def test_mounts_and_environment():
    spec = described(env={"URNIC_LOCAL": "off", "LD_LIBRARY_PATH": "/a", "URNIC_DEVICES": "lo"})
    assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "urnic.dev/hca")
    assert described("--spec", "0.3.0")["cdiVersion"] == "0.3.0"
    for version in ("0.2.0", "0.7.0", "1.0.0", "0.6", "0.6.0a"):
        bad(2, "expected 0.3.0 to 0.6.0", "cdi", "--spec", version)
    to = {}
    for mount in spec["containerEdits"]["mounts"]:
        assert mount["options"] == ["ro", "nosuid", "rbind"]
        assert os.path.isfile(mount["hostPath"])
        to[mount["containerPath"]] = mount["hostPath"]
    assert len(to) == len(spec["containerEdits"]["mounts"])
    assert {"/usr/lib/urnic/libibverbs.so.1", "/usr/lib/urnic/libibverbs.so",
            "/usr/lib/urnic/librdmacm.so.1", "/usr/lib/urnic/libibumad.so.3",
            "/usr/lib/urnic/liburnic.so", "/usr/lib/urnic/urnic",
            "/usr/lib/urnic/deps/libisal.so.2"} <= set(to)
    env = dict(v.split("=", 1) for v in spec["containerEdits"]["env"])
    # this host's settings are not a container's
    assert env["LD_LIBRARY_PATH"] == "/usr/lib/urnic"
    named = re.findall(r"/usr/lib/urnic/[^: ]+", " ".join(env.values()))
    assert len(named) >= 3 and set(named) <= set(to)
    assert not any(name.startswith("URNIC_") for name in env)
    assert [d["name"] for d in spec["devices"]] == ["all", "roce_lo"]
    assert spec["devices"][1]["containerEdits"] == {"env": ["URNIC_DEVICES=roce_lo"]}


def test_a_device_for_each_adapter(fabric):
    f = fabric(subnet.TWO)
    out = f.ns.run(f.ns.stage.urnic, "cdi", "-F", "default", "-o", "-").out
    spec = check(json.loads(out))
    edits = {d["name"]: d["containerEdits"]["env"] for d in spec["devices"]}
    assert [n for n in edits if n.startswith("fabric-")] == ["fabric-H-a", "fabric-H-b"]
    env = dict(v.split("=") for v in edits["fabric-H-b"])
    assert set(env) == {"URNIC_FABRIC", "URNIC_HCA"}
    assert re.fullmatch(r"\d+:default", env["URNIC_FABRIC"])
    assert "ib_b" in f.ns.with_env(**env).run("ibv_devices").out


def test_the_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "cdi" / "urnic.dev-hca.json"        # its folder is made
    assert "--device urnic.dev/hca=all" in good("cdi", "-o", str(file))
    first = file.read_text()
    check(json.loads(first))
    assert file.stat().st_mode & 0o777 == 0o644
    reader = file.open()
    good("cdi", "-o", str(file), env={"URNIC_DEVICES": "lo"})
    assert file.read_text() != first or "roce_lo" in first
    assert reader.read() == first
    assert os.listdir(file.parent) == [file.name]


def test_what_cannot_be_written(tmp_path):
    advice = "run it as root, or name a file in a folder that you may write: urnic cdi -o DIR/"
    for file, why in (("/no/such/dir/a.json", "No such file or directory"),
                      (str(tmp_path), "Is a directory"), ("/etc/passwd/a.json", "Not a directory"),
                      ("/proc/a.json", "")):
        err = bad(1, f"urnic cdi: {file} cannot be written: {why}", "cdi", "-o", file)
        assert advice in err
    assert os.listdir(tmp_path) == []
    with open("/dev/full", "w") as full:
        r = subprocess.run([URNIC, "cdi", "-o", "-"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert r.returncode == 1 and "standard output cannot be written: No space" in r.stderr
    bad(1, "fabric none: no such fabric runs here", "cdi", "-F", "none", "-o", "-")


# Containers

PROGRAMS = "/usr/bin/ibv_devinfo", "/usr/bin/ibv_devices"


@pytest.fixture
def image(tmp_path):
    """The root folder of a container: programs, what they need, and nothing of urnic."""
    need("ibv_devinfo")
    root = tmp_path / "root"
    for folder in ("proc", "sys", "dev", "tmp", "run", "etc"):
        (root / folder).mkdir(parents=True)
    out = subprocess.run(["ldd", *PROGRAMS], check=True, capture_output=True, text=True).stdout
    for file in {*PROGRAMS, *re.findall(r"(/\S+) \(0x", out)}:
        to = root / file[1:]
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    assert not list(root.rglob("*isal*"))
    return root


def test_a_container_sees_the_devices(image, can_namespace):
    """What a runtime does with the file, done by hand."""
    spec = described()
    edits = spec["containerEdits"]
    lines = ["set -e; ip link set lo up; mount --rbind /proc proc"]
    for mount in edits["mounts"]:
        to = image / mount["containerPath"][1:]
        to.parent.mkdir(parents=True, exist_ok=True)
        to.touch()
        lines.append(f"mount --rbind {mount['hostPath']} {to}")
        lines.append(f"mount -o remount,bind,ro,nosuid {to}")
    env = edits["env"] + spec["devices"][0]["containerEdits"]["env"]
    lines.append('exec env -i "$@"')
    shown = {}
    for words in (["/usr/bin/ibv_devinfo"], ["/usr/lib/urnic/urnic", "version"]):
        r = subprocess.run(["unshare", "-mn", "--propagation", "private", "sh", "-c",
                            "\n".join(lines), "sh", *env, "/usr/sbin/chroot", ".", *words],
                           cwd=image, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stdout + r.stderr
        shown[words[0]] = r.stdout
    assert "roce_lo" in shown["/usr/bin/ibv_devinfo"]
    assert shown["/usr/lib/urnic/urnic"] == good("version")


PODMAN = ["podman", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]
RUN = ["run", "--rm", "--network", "host", "--ulimit", "nofile=1024:1024", "--ulimit",
       "nproc=1024:1024"]


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0 or lab.IN_USERNS, reason="podman needs root here")
def test_podman(image, tmp_path):
    need("podman")
    need("runc")
    words = [*PODMAN, "--root", tmp_path / "podman", "--runroot", tmp_path / "podrun", *RUN]
    last = ["--rootfs", image, "/usr/bin/ibv_devinfo"]

    def podman(*options):
        # podman reads /run/cdi, which is a folder of this test's own
        return subprocess.run(
            ["unshare", "-m", "--propagation", "private", "sh", "-c",
             'mount -t tmpfs tmpfs /run && "$0" cdi --spec 0.5.0 -o /run/cdi/urnic.dev-hca.json && exec "$@"',
             URNIC, *words, *options, *last], text=True, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    without = podman()
    if "No IB devices found" not in without.stdout and "IB devices list" not in without.stdout:
        pytest.skip(f"podman runs no container here: {without.stdout[-300:]}")
    with_it = podman("--device", "urnic.dev/hca=all")
    assert with_it.returncode == 0 and "hca_id:\troce_" in with_it.stdout, with_it.stdout
    assert "unresolvable" in podman("--device", "urnic.dev/hca=none").stdout
