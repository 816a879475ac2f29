# SPDX-License-Identifier: BSD-2-Clause
"""urnic doctor: its findings about the configuration, the UDP port and the machine."""

import errno
import json
import os
import re
import resource
import socket
import shutil
import subprocess
import time

import lab
import pytest
import seccomp
from tool import URNIC, good, need, urnic


def findings(preexec_fn=None, **env):
    r = urnic("doctor", "--json", env=env, preexec_fn=preexec_fn)
    return {f["check"]: f for f in json.loads(r.stdout)}, r.returncode


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def test_doctor():
    port = free_port()
    found, _ = findings(URNIC_UDP_PORT=str(port))
    for name, f in found.items():
        assert f["verdict"] in ("ok", "limited", "missing")
        assert f["detail"], name
        assert (f["costs"] == "") == (f["verdict"] == "ok"), name
    assert found["UDP port, IPv4"]["detail"] == f"{port} is free"
    assert found["configuration"]["detail"] == "URNIC_UDP_PORT"
    text = good("doctor", env={"URNIC_UDP_PORT": str(free_port())})
    for f in found.values():
        assert re.search(rf"^{f['verdict']} +{re.escape(f['check'])}", text, re.M)


@pytest.mark.parametrize("names,env", [
    ("'5 Mb' is not a number", {"URNIC_UDP_PORT": "5 Mb"}),
    ("URNIC_LCAL: unknown", {"URNIC_LCAL": "off"}),
    ("drop wants a probability", {"URNIC_FAULT": "drop=3"}),
    ("/tmp: Is a directory", {"URNIC_PCAP": "/tmp"}),
    ("/nonexistent", {"URNIC_CONF": "/nonexistent"}),
])
def test_doctor_finds_wrong_configuration(names, env):
    r = urnic("doctor", "--json", env=env)
    f = {f["check"]: f for f in json.loads(r.stdout)}["configuration"]
    assert (f["verdict"], r.returncode) == ("missing", 1)
    assert names in f["detail"] and f["do"]
    assert r.stderr == ""


def test_doctor_finds_wrong_configuration_file(tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("log = info\nlocl = off\n")
    found, rc = findings(URNIC_CONF=str(conf))
    assert f"{conf}:2: unknown key 'locl'" in found["configuration"]["detail"]
    assert rc == 1
    conf.write_text("devices = lo, nosuch0\n")
    f = findings(URNIC_CONF=str(conf))[0]["configuration"]
    assert f["verdict"] == "limited" and "'nosuch0'" in f["detail"]
    assert "roce_eth0" in f["do"]
    for none in ("iwarp_nosuch0", "roce_", "iwarp_lo0", "mlx5_0"):
        f = findings(URNIC_DEVICES=none)[0]["configuration"]
        assert f["verdict"] == "limited" and f"'{none}'" in f["detail"]
    conf.write_text("devices = lo\n")
    assert findings(URNIC_CONF=str(conf))[0]["configuration"]["detail"] == str(conf)


@pytest.mark.parametrize("devices,says", [
    ("roce_lo", "none; "),
    ("", "none; "),
    ("iwarp_lo", "iwarp_lo, connected by rdma_cm"),
    ("lo,iwarp_lo", "iwarp_lo, connected by rdma_cm"),
    ("iwarp_{net}", "iwarp_{net}, connected"),
    ("iwarp_{net},roce_{net}", "iwarp_{net}, connected"),
    ("iwarp_{net}, iwarp_lo", "iwarp_{net}, iwarp_lo, connected"),
])
def test_doctor_knows_devices(devices, says):
    nets = [d["netdev"] for d in json.loads(good("devices", "--json"))]
    if nets == ["lo"] and "{net}" in devices:
        pytest.skip("there is loopback only")
    devices, says = (text.format(net=nets[0]) for text in (devices, says))
    found, _ = findings(URNIC_DEVICES=devices)
    assert found["configuration"]["verdict"] == "ok", found["configuration"]
    f = found["iWARP"]
    assert f["verdict"] == "ok" and f["detail"].startswith(says), f
    if "none; " in says:        # the message recommends a setting, which must work
        named = re.search(r"URNIC_DEVICES=(\S+)$", f["detail"])[1]
        shown = json.loads(good("devices", "--json", env={"URNIC_DEVICES": named}))
        assert ",".join(d["name"] for d in shown) == named


@pytest.mark.parametrize("share,verdict", [(0, "missing"), (1, "limited")])
def test_doctor_names_who_holds_the_port(share, verdict):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, share)
        s.bind(("", 0))
        port = s.getsockname()[1]
        found, rc = findings(URNIC_UDP_PORT=str(port))
    f = found["UDP port, IPv4"]
    assert f["verdict"] == verdict
    assert rc == 1 or verdict != "missing"
    for words in (f"{port}: ", f"(process {os.getpid()})", "which is no urnic"):
        assert words in f["detail"]
    assert "stop that program" in f["do"]


def port_of(ns, stage, user, holds, timeout=20):
    """The doctor's finding about the port, once its text has one of the words in `holds`."""
    end = time.monotonic() + timeout
    while True:
        out = ns.run(stage.urnic, "doctor", "--json", user=user, check=False).out
        f = {f["check"]: f for f in json.loads(out)}["UDP port, IPv4"]
        if holds in f["detail"]:
            return f["verdict"]
        assert time.monotonic() < end, f
        time.sleep(0.1)


SHARE = """import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("", 4791))
time.sleep(60)
"""


SQUAT = """import socket, time
kept = []
for i in range(1, 769):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(b"\\0urnic/%d" % i)
    s.listen(1)
    kept.append(s)
print("squatting", flush=True)
time.sleep(60)
"""


def test_doctor_counts_slots(netns, stage):
    def slots():
        out = netns.run(stage.urnic, "doctor", "--json", check=False).out
        return {f["check"]: f for f in json.loads(out)}["abstract sockets"]

    assert slots()["detail"].startswith("0 of 1022 slots are taken")
    squatter = netns.start("/usr/bin/python3", "-c", SQUAT)
    squatter.wait_output("squatting")
    f = slots()
    assert f["detail"] == "all 768 names of slots are taken"
    assert f["verdict"] == "limited" and "ss -xlp" in f["do"]


def test_doctor_knows_an_urnic(netns, stage):
    need("ibv_rc_pingpong")
    netns = netns.with_env(URNIC_LOCAL="off")
    port = lab.next_port()
    words = ["ibv_rc_pingpong", "-d", "roce_lo", "-g", 1, "-n", 10**9, "-p", port]
    words = [str(w) for w in words]
    netns.start(*words).wait_listening(port)
    netns.start(*words, "127.0.0.1")
    assert port_of(netns, stage, "nobody",
                   "4791: shared with ibv_rc_pingpong") == "ok"
    if not lab.IN_USERNS:           # a user namespace has only one user
        other = ", an urnic of user "
        # the holder is another user's process, whose sockets /proc does not show
        assert port_of(netns, stage, lab.SECOND_USER,
                       "4791: held by ibv_rc_pingpong (process ") == "limited"
        refusing = netns.with_env(URNIC_SHARE="user")
        assert port_of(refusing, stage, lab.SECOND_USER, other) == "missing"
        out = refusing.run(stage.urnic, "doctor", user=lab.SECOND_USER, check=False).out
        assert "rdma_cm does not connect" in out
        assert port_of(netns, stage, None, other) == "missing"
        assert port_of(netns.with_env(URNIC_SHARE="host"), stage, None,
                       other) == "limited"
    netns.start("/usr/bin/python3", "-c", SHARE)
    assert port_of(netns, stage, "nobody", "4791: shared with python3") == "limited"


def test_doctor_says_how_programs_find_urnic(stage):
    assert "`urnic run -- PROGRAM'" in findings()[0]["programs"]["detail"]
    found, _ = findings(LD_LIBRARY_PATH=f"/usr/lib:{stage.path}/lib")
    assert f"({stage.path}/lib)" in found["programs"]["detail"]


@pytest.mark.parametrize("files,verdict,status", [(19, "missing", 1), (200, "limited", 0)])
def test_doctor_knows_the_descriptors_of_a_device(files, verdict, status):
    _, without = findings()
    found, rc = findings(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files,) * 2))
    assert found["descriptors"]["verdict"] == verdict
    assert found["descriptors"]["detail"] == str(files)
    assert rc == (status or without)


def test_doctor_says_what_raw_packets_need():
    found, _ = findings()
    raw = found["raw packets"]
    assert raw["verdict"] == "ok" or raw["costs"] and "CAP_NET_RAW" in raw["do"]


def test_doctor_without_network():
    """A new network namespace has one interface, lo, which is down, and no addresses."""
    r = subprocess.run(["unshare", "-Urn", URNIC, "doctor", "--json"], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env={"PATH": os.environ["PATH"]})
    if r.stderr.startswith("unshare:"):
        pytest.skip("user namespaces are forbidden here")
    found = {f["check"]: f for f in json.loads(r.stdout)}
    assert found["network interfaces"]["verdict"] == "missing"
    assert found["IPv6"]["verdict"] == "limited"
    assert r.returncode == 1


# Processes of one host

DIRECT = "SEND through shared memory, WRITE and READ by process_vm_writev"
BY_PIPE = "everything through shared memory"


@pytest.mark.parametrize("env,verdict,says", [
    ({}, "ok", "(local is auto)"),
    ({"URNIC_LOCAL": "vm"}, "ok", "(local is vm)"),
    ({"URNIC_LOCAL": "pipe"}, "ok", BY_PIPE),
    ({"URNIC_LOCAL": "off"}, "ok", "UDP: local (URNIC_LOCAL) is off"),
    ({"URNIC_LOCAL": "off", "URNIC_FAULT": "drop=0.1"}, "ok", "UDP: local"),
    ({"URNIC_FAULT": "drop=0.1"}, "limited", "UDP, since faults"),
    ({"URNIC_PCAP": "/tmp/%p.pcapng"}, "limited", "UDP, since packets"),
])
def test_doctor_says_which_way(env, verdict, says):
    found, _ = findings(**env)
    f = found["same host"]
    if verdict == "ok" and "(local is" in says and \
            found["process_vm_readv"]["verdict"] != "ok":
        pytest.skip("this machine does not allow process_vm_readv")
    assert f["verdict"] == verdict and says in f["detail"], f


def test_doctor_says_whether_memory_is_mapped_beside_threads():
    f = findings(URNIC_MAP_THREADS="yes")[0]["same host"]
    assert "(local is auto)" not in f["detail"] or "URNIC_MAP_THREADS is yes" in f["detail"], f


@pytest.mark.parametrize("call,error,check,verdict,todo", [
    ("process_vm_readv", "EPERM", "process_vm_readv", "limited", "seccomp"),
    ("process_vm_writev", "EACCES", "process_vm_readv", "limited", "seccomp"),
    ("process_vm_writev", "ENOSYS", "process_vm_readv", "limited",
     "CONFIG_CROSS_MEMORY_ATTACH"),
    ("memfd_create", "EPERM", "memfd", "missing", "seccomp"),
    ("memfd_create", "EACCES", "memfd", "missing", "memfd_create"),
    ("fcntl", "EINVAL", "memfd", "limited", "5.1"),
])
def test_doctor_finds_what_seccomp_forbids(call, error, check, verdict, todo):
    future_write = 0x10 if call == "fcntl" else 0
    found, _ = findings(seccomp.forbid(call, error, future_write))
    f = found[check]
    assert f["verdict"] == verdict and todo in f["do"], f
    assert os.strerror(getattr(errno, error)) in f["detail"]
    way = found["same host"]
    assert way["verdict"] == "limited" and f"see {check}" in way["do"]
    assert ("UDP" if verdict == "missing" else BY_PIPE) in way["detail"]


@pytest.fixture
def yama(stage):
    """yama(scope): an environment for urnic that makes Yama's ptrace_scope appear to be `scope`."""
    library = stage.path / "yama.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-o", library,
                    lab.ROOT / "tests/lab/yama.c"], check=True)
    folder = stage.tmp / "yama"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o1777)
    yield lambda scope: {"LD_PRELOAD": str(library), "YAMA_SCOPE": str(scope),
                         "YAMA_FOLDER": str(folder)}
    shutil.rmtree(folder)


YAMA = [
    (0, "auto", None),
    (1, "auto", "URNIC_LOCAL=vm"),
    (1, "vm", None),
    (2, "vm", "ptrace_scope=0, or 1 and URNIC_LOCAL=vm"),
    (3, "vm", "reboot"),
]


@pytest.mark.parametrize("scope,way,todo", YAMA)
def test_doctor_knows_yama(yama, scope, way, todo):
    found, _ = findings(URNIC_LOCAL=way, **yama(scope))
    f = found["process_vm_readv"]
    assert f"(ptrace_scope is {scope})" in f["detail"], f
    assert f["verdict"] == ("limited" if todo else "ok")
    assert (todo or "") in f["do"]
    assert (BY_PIPE if todo else DIRECT) in found["same host"]["detail"]


@pytest.mark.parametrize("scope,way,todo", YAMA)
def test_programs_do_what_the_doctor_says(netns, yama, scope, way, todo):
    need("ibv_rc_pingpong")
    port = lab.next_port()
    words = ["ibv_rc_pingpong", "-d", "roce_lo", "-g", "1", "-p", str(port)]
    ns = netns.with_env(URNIC_LOCAL=way, URNIC_LOG="info", **yama(scope))
    server = ns.start(*words)
    server.wait_listening(port)
    client = ns.run(*words, "127.0.0.1")
    reached = "through shared memory, too" if todo else "directly (process_vm_writev)"
    assert f"WRITE and READ of its memory go {reached}" in client.out
