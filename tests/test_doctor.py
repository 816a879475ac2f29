# SPDX-License-Identifier: BSD-2-Clause
"""urnic doctor: the configuration, the port, the machine."""

import json
import os
import re
import socket
import subprocess
import time

import lab
import pytest
from tool import URNIC, good, need, urnic


def findings(**env):
    r = urnic("doctor", "--json", env=env)
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
    conf.write_text("devices = lo\n")
    assert findings(URNIC_CONF=str(conf))[0]["configuration"]["detail"] == str(conf)


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
    """What the doctor says of the port, once one of the words is in it."""
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
    if not lab.IN_USERNS:           # where there is one user only
        assert port_of(netns, stage, None, ", an urnic of user ") == "limited"
    netns.start("/usr/bin/python3", "-c", SHARE)
    assert port_of(netns, stage, "nobody", "4791: shared with python3") == "limited"


def test_doctor_without_network():
    """A new network namespace has an interface that is down, and no addresses."""
    r = subprocess.run(["unshare", "-Urn", URNIC, "doctor", "--json"], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env={"PATH": os.environ["PATH"]})
    if r.stderr.startswith("unshare:"):
        pytest.skip("user namespaces are forbidden here")
    found = {f["check"]: f for f in json.loads(r.stdout)}
    assert found["network interfaces"]["verdict"] == "missing"
    assert found["IPv6"]["verdict"] == "limited"
    assert r.returncode == 1
