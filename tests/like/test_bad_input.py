# SPDX-License-Identifier: BSD-2-Clause
"""What `urnic run` and the library answer to a wrong URNIC_LIKE or URNIC_ORDER, and where a right one
meets other settings: a fabric, iWARP, checks."""

import re

import pytest

import lab
from subnet import Fabric, made
from test_like import MEMLOCK
from tool import bad, good

LIKE = "is not strict, mlx5, rxe, siw, irdma, bnxt or ionic"
WRITE = "is no item: it is write=P, where P is a probability from 0 to 1, e.g. 0.5"
DELAY = "is no item: it is delay=TIME or delay=TIME:P, where TIME is 100us, 5ms or the like, 1s at most, and P"
KEYS = "keys are write, delay, swap, one, seed"

WRONG = [
    ("like", "mlx4", f"'mlx4' {LIKE}; did you mean mlx5?"),
    ("like", "MLX5", f"'MLX5' {LIKE}; did you mean mlx5?"),
    ("like", "efa", f"'efa' {LIKE}"),
    ("like", "mlx5,", f"'' {LIKE}"),
    ("like", ",", f"'' {LIKE}"),
    ("like", "mlx5 rxe", f"'mlx5 rxe' {LIKE}"),
    ("like", "strict,none", f"'none' {LIKE}"),
    ("like", "mlx5," * 20 + "rxe", "longer than 63 bytes"),
    ("order", "wirte=1", f"unknown key 'wirte'; {KEYS}; did you mean write?"),
    ("order", "Swap=1", f"unknown key 'Swap'; {KEYS}; did you mean swap?"),
    ("order", "one,", f"unknown key ''; {KEYS}"),
    ("order", "write", f"'write' {WRITE}"),
    ("order", "write=1.5", f"'write=1.5' {WRITE}"),
    ("order", "delay=2s", f"'delay=2s' {DELAY}"),
    ("order", "delay=1ms:", f"'delay=1ms:' {DELAY}"),
    ("order", "one=1", "'one=1' is no item: it is one, which has no value"),
    ("order", "seed=x", "'seed=x' is no item: it is seed=N, where N is a number from 0 to 4294967295"),
    ("order", "swap=0.1,swap=0.2", "'swap' is there twice"),
    ("order", "one," * 40 + "one", "longer than 127 bytes"),
]


@pytest.mark.parametrize("key,value,why", WRONG, ids=[f"{k}-{v[:20]}" for k, v, _ in WRONG])
def test_a_wrong_value(ns, key, value, why):
    """As an option, and as a variable: nothing is run, and urnic says why."""
    err = bad(2, f"--{key}: {why}", "run", f"--{key}", value, "--", "echo", "begun")
    assert "begun" not in err
    name = f"URNIC_{key.upper()}"
    err = bad(2, f"{name}: {why}", "run", "--", "echo", "begun", env={name: value})
    assert "begun" not in err
    # Without `urnic run` the program goes on, and has no device.
    proc = ns.with_env(**{name: value}).run("ibv_devices", check=False)
    assert f"{name}: {why}" in proc.out and "roce_eth0" not in proc.out, proc.describe()


@pytest.fixture
def ns(shared_pair):
    return shared_pair().place("host")[0].with_(memlock=MEMLOCK)


def test_empty_is_none(ns):
    out = ns.with_env(URNIC_LIKE="", URNIC_ORDER="").run("ibv_devinfo", "-v", "-d", ns.dev).out
    assert "(like" not in out and re.search(r"max_sge:\s+32\n", out)


def test_the_option_is_stronger_than_the_variable():
    env = {"URNIC_LIKE": "mlx5", "URNIC_ORDER": "one"}
    out = good("run", "-n", "--like", "rxe", "--order", "swap=1", "--", "true", env=env)
    assert "URNIC_LIKE=rxe" in out and "URNIC_ORDER=swap=1" in out
    out = good("run", "-n", "--like", "rxe", "--like", "siw,rxe", "--", "true")
    assert "URNIC_LIKE=siw,rxe" in out and "URNIC_LIKE=rxe" not in out


def test_a_name_may_come_again(ns):
    out = ns.with_env(URNIC_LIKE="mlx5,mlx5,strict").run("ibv_devinfo", "-v", "-d", ns.dev).out
    assert re.search(r"max_sge:\s+6\n", out)


@pytest.mark.parametrize("like", ["mlx5", "irdma"])
def test_at_a_fabric(netns, like):
    """Limits are kept at an adapter, too, and its GIDs are InfiniBand's, once each."""
    f = Fabric(netns, made("star:2"))
    f.opensm("node0")
    env = {"URNIC_LIKE": like, "URNIC_ORDER": "swap=0.3,delay=1ms:0.3,one,write=0.5"}
    ends = [f.at(node).with_(memlock=MEMLOCK).with_env(**env) for node in ("node0", "node1")]
    out = ends[1].run("ibv_devinfo", "-v").out
    assert re.search(rf"max_sge:\s+{ {'mlx5': 30, 'irdma': 13}[like] }\n", out)
    assert len(re.findall(r"GID\[", out)) == 1, out
    lab.run_both(*ends, ["ibv_rc_pingpong", "-n", "50"], "127.0.0.1", port_option="-p")


@pytest.mark.parametrize("like", ["siw", "irdma", "strict"])
def test_iwarp(shared_pair, like):
    """The limits are kept, and the program runs, with orders that verbs allow, too."""
    env = {"URNIC_LIKE": like, "URNIC_DEVICES": "iwarp_eth0", "URNIC_ORDER": "swap=0.3,delay=1ms:0.3,one,write=0.5"}
    server, client = (n.with_(memlock=MEMLOCK).with_env(**env) for n in shared_pair().place("pair"))
    out = client.run("ibv_devinfo", "-v").out
    assert re.search(rf"max_sge:\s+{ 13 if like == 'irdma' else 6 }\n", out)
    port = str(lab.next_port())
    rping = server.start("rping", "-s", "-V", "-C", "5", "-a", server.ip4, "-p", port)
    rping.wait_dump(f"^listener port {port} on .*: listening")
    client.run("rping", "-c", "-V", "-C", "5", "-a", server.ip4, "-p", port)
    assert rping.wait(lab.HANGS) == 0, rping.describe()


def test_checks_see_urnics_codes(ns, stage):
    """With checks the program has the device's vendor_err, and the checks find what they find without."""
    env = {"URNIC_LIKE": "mlx5", "URNIC_CHECK": "default"}
    words = [stage.tool("like/like"), "-d", ns.dev, "vendors"]
    checked, plain = (ns.with_env(**e).run(*words) for e in (env, {"URNIC_CHECK": "default"}))
    assert "LOC_PROT_ERR 4 81 81" in checked.out and "LOC_PROT_ERR 4 2 2" in plain.out
    found = [sorted(re.findall(r"check ([\w-]+)", p.out)) for p in (checked, plain)]
    assert found[0] == found[1] and found[0], checked.describe()
