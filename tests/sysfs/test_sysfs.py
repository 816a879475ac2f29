# SPDX-License-Identifier: BSD-2-Clause
"""The files of devices in /sys: the preload library, urnic sysfs, and programs that read them."""

import os
import pathlib
import re
import shutil

import pytest
import lab
from lab import HANGS, eventually
from tool import bad, good, need

CLASS = "/sys/class/infiniband"


@pytest.fixture
def eth(shared_pair):
    """A namespace with a device on one end of a veth pair, and what runs a program there."""
    return shared_pair().a


def run(ns, *command, **kw):
    return ns.run(ns.stage.urnic, "run", "--", *command, library=False, **kw).out


def with_place(ns, name):
    """A directory in which ns's programs make their folders, and ns with it."""
    place = pathlib.Path(ns.stage.tmp) / f"{name}-{os.getpid()}"
    place.mkdir()
    place.chmod(0o1777)
    return place, ns.with_env(XDG_RUNTIME_DIR=str(place))


def test_every_function_finds_the_files(eth):
    out = run(eth, eth.stage.tool("sysfs/readers"), eth.dev)
    said = dict(line.split(": ", 1) for line in out.splitlines())
    for name in ("open", "open64", "__open_2", "__open64_2", "openat", "openat64", "__openat_2",
                 "__openat64_2", "openat root", "openat dir", "open here", "fopen", "fopen64",
                 "freopen", "freopen64"):
        assert said.pop(name) == "1: CA", name
    for name in ("open", "open64", "openat", "openat64"):
        assert said.pop(f"mode of {name}") == "kept", name
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


def test_nothing_stays(eth):
    """A process removes its files when it ends; those of a process that was killed go when the
    next one needs some, but not those of one that runs."""
    place, ns = with_place(eth, "runtime")
    code = (f"import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *a: sys.exit());"
            f"os.listdir('{CLASS}'); print('listed', flush=True); time.sleep(60)")

    def start():
        p = ns.start(ns.stage.urnic, "run", "--", "/usr/bin/python3", "-c", code, library=False)
        p.wait_output("listed")
        return p
    run(ns, "ls", CLASS)
    assert not list(place.iterdir())
    killed, running = start(), start()
    assert len(list(place.iterdir())) == 2
    killed.kill()
    run(ns, "ls", CLASS)
    assert len(list(place.iterdir())) == 1
    running.popen.terminate()
    assert running.wait(HANGS) == 0
    assert not list(place.iterdir())


def test_a_child_shows_the_files_when_its_parent_has_ended(eth):
    code = (f"import os, time\nos.listdir('{CLASS}')\nif os.fork() == 0:\n  time.sleep(0.3)\n"
            f"  print(os.listdir('{CLASS}'), os.listdir('{CLASS}/{eth.dev}/device/net'))\n")
    out = run(eth, "sh", "-c", f'/usr/bin/python3 -c "{code}"; sleep 0.6')
    assert eth.dev in out and "Traceback" not in out


@pytest.mark.parametrize("where", ["handler", "beside"])
def test_a_fork_while_the_files_are_written(eth, where):
    """In a handler that interrupts the thread that has them written, and beside that thread in a
    program with a device, whose children have them written as well."""
    out = run(eth, eth.stage.tool("sysfs/forks"), where)
    assert out == "200 forks, 0 children failed\n"


def test_children_that_share_memory_share_the_folder(eth):
    """A child by vfork() enters the folder before it becomes a program: nothing piles up."""
    place, ns = with_place(eth, "vfork")
    code = (f"import os, subprocess\ndef show(): os.listdir('{CLASS}'); print("
            f"len(os.listdir('{place}')), len(os.listdir('/proc/self/fd')))\nshow()\n"
            f"for _ in range(10): subprocess.run(['/bin/ls'], cwd='{CLASS}', check=True); show()\n")
    out = run(ns, "/usr/bin/python3", "-c", code)
    lines = [line for line in out.splitlines() if line != eth.dev]
    assert len(lines) == 11 and len(set(lines)) == 1 and lines[0].startswith("1 "), out


def test_a_sandbox_answers_calls_of_the_writer(eth):
    """A trapped system call ends a thread that holds SIGSYS off.  This sandbox says that each
    lock is had, so the program must not meet the folders of others."""
    _, ns = with_place(eth, "trapped")
    assert run(ns, eth.stage.tool("sysfs/trapped")).split() == [eth.dev]


def test_a_directory_stays_for_the_next_program(eth):
    """The folder in which a program is started stays, although its parent has become that
    program and another one has removed what nobody holds."""
    out = run(eth, "sh", "-c", f"cd {CLASS}; exec sh -c 'ls {CLASS}; ls; pwd'")
    assert out.split() == [eth.dev, eth.dev, CLASS]


@pytest.mark.skipif(os.geteuid() != 0 or lab.IN_USERNS, reason="only root can become nobody")
def test_a_process_that_gives_up_root():
    """It cannot read the folder that it has made before."""
    code = (f"import os\nroot = os.listdir('{CLASS}')\nos.setgid(65534); os.setuid(65534)\n"
            f"print(os.listdir('{CLASS}') == root)")
    assert good("run", "--", "/usr/bin/python3", "-c", code) == "True\n"


def test_no_place_for_the_files(eth):
    """A program that has loaded verbs is told why it finds no files, once."""
    ns = eth.with_(outer=["unshare", "-m", "sh", "-c", "mount --bind -o ro /dev/shm /dev/shm && "
                          "mount --bind -o ro /tmp /tmp && exec \"$@\"", "sh"])
    code = (f"import ctypes, os\nctypes.CDLL('libibverbs.so.1')\n"
            f"for i in range(2):\n  print(os.path.exists('{CLASS}'))")
    out = run(ns, "/usr/bin/python3", "-c", code)
    assert out.count("set TMPDIR to one that can be written") == out.count("urnic") == 1, out
    assert out.count("False") == 2
    out = run(ns, "ls", CLASS, check=False)
    assert "No such file" in out and "urnic" not in out


# Programs that read /sys by the way

def test_who_wants_no_device_is_told_nothing(netns):
    """Why there is no device is said to those who ask verbs for one."""
    for env, why in (({"URNIC_HCA": "rank"}, "which rank this process is"),
                     ({"URNIC_HCA": "a", "URNIC_FABRIC": "nonesuch"}, "no such fabric runs here"),
                     ({"URNIC_DEVICES": "nonesuch"}, "so there is no device")):
        words = ["env", *(f"{k}={v}" for k, v in env.items())]
        assert run(netns, *words, "ls", CLASS) == "", env
        assert run(netns, *words, "sh", "-c", f"ls -R {CLASS}; test -d {CLASS}").split() == [
            f"{CLASS}:"], env
        # and also if the same process has read /sys before
        code = (f"import ctypes, os; print(os.listdir('{CLASS}'), flush=True); "
                "ctypes.CDLL('libibverbs.so.1').ibv_get_device_list(None)")
        out = run(netns, *words, "/usr/bin/python3", "-c", code)
        assert out.startswith("[]\n") and why in out, out


def test_a_reader_opens_no_device(eth):
    """It starts no thread, holds no socket, and one descriptor: that of the folder."""
    code = (f"import os\nbefore = set(os.listdir('/proc/self/fd'))\n"
            f"open('{CLASS}/{eth.dev}/ports/1/state').read()\nos.listdir('{CLASS}')\n"
            "print(len(os.listdir('/proc/self/task')), *(os.readlink('/proc/self/fd/' + d)"
            " for d in set(os.listdir('/proc/self/fd')) - before if int(d) > 9))")
    threads, held = run(eth, "/usr/bin/python3", "-c", code).split()
    assert threads == "1" and re.search(r"/urnic-sysfs-\w{6}$", held)


# A host with an RNIC

# Another /sys/class, with a device of the kernel's in it and below the last PCI function
RNIC = """
mount -t tmpfs tmpfs /mnt && mkdir /mnt/net && mount --bind /sys/class/net /mnt/net
mount -t tmpfs tmpfs /sys/class && mkdir /sys/class/net && mount --move /mnt/net /sys/class/net
function=$(ls -d /sys/bus/pci/devices/* 2>/dev/null | tail -n 1)
[ -z "$function" ] || mount -t tmpfs tmpfs $function/
for d in /sys/class ${function:+$function/}; do
    mkdir -p $d/infiniband/mlx5_0/ports/1 $d/infiniband_verbs/uverbs0 $d/infiniband_mad/umad0
    echo "1: CA" >$d/infiniband/mlx5_0/node_type
    echo mlx5_0 >$d/infiniband_verbs/uverbs0/ibdev
done
exec "$@"
"""


def test_a_host_with_an_rnic(eth):
    """Programs see in /sys what they see by verbs: urnic's devices alone."""
    host = eth.with_(outer=["unshare", "-m", "sh", "-ec", RNIC, "sh"])
    look = f"ls -d {CLASS}*/* /sys/bus/pci/devices/*/infiniband*/*"
    theirs = host.run("sh", "-c", f"{look}; cat {CLASS}/*/node_type", library=False,
                      check=False).out.split()
    assert f"{CLASS}/mlx5_0" in theirs and f"{CLASS}_verbs/uverbs0" in theirs
    ours = run(host, "sh", "-c", look, check=False).split("\n")
    assert [p for p in ours if p.startswith("/sys")] == [
        f"{CLASS}/{eth.dev}", f"{CLASS}_mad/abi_version", f"{CLASS}_verbs/abi_version",
        f"{CLASS}_verbs/uverbs0"], ours
    for path in ("class/infiniband/mlx5_0", "class/infiniband/mlx5_0/node_type",
                 "class/infiniband_mad/umad0", "bus/pci/devices/*/infiniband/mlx5_0"):
        out = run(host, "bash", "-c", f"cat /sys/{path}", check=False)
        assert "No such file" in out, path
    # each function of the C library, and what else there is of the kernel's
    words = [eth.stage.tool("sysfs/readers"), eth.dev]
    assert run(host, *words) == run(eth, *words)
    assert run(host, "cat", f"{CLASS}_verbs/uverbs0/ibdev", "/sys/class/net/eth0/type") == \
        f"{eth.dev}\n1\n"
    assert run(host, "ls", "/sys/class/net/eth0/device/infiniband") == f"{eth.dev}\n"


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
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    bad(1, "name a directory of your own", "sysfs", str(everybodys))
    everybodys.rmdir()
    bad(1, "none/x cannot be written: No such file or directory; name a directory", "sysfs", str(tmp_path / "none/x"))
    bad(1, "theirs cannot be written: Not a directory", "sysfs", str(full / "theirs"))
    bad(1, "/proc/x cannot be written: ", "sysfs", "/proc/x")
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


# Counters

def read_counters(ns, *, hw=False):
    d = f"{CLASS}/{ns.dev}/ports/1/{'hw_' if hw else ''}counters"
    out = run(ns, "sh", "-c", f"cd {d} && grep . *")
    return {name: int(n) for name, n in re.findall(r"^(\w+):(\d+)$", out, re.M)}


def traffic(pair, env=None, seconds=20):
    """RC traffic between two hosts for so long; returns its programs."""
    port = lab.next_port()
    words = ["ib_write_bw", "-d", pair.a.dev, "-x", "1", "-p", str(port), "-s", "4096", "-D",
             str(seconds)]
    server = pair.a.start(*words, env=env)
    server.wait_listening(port)
    return server, pair.b.start(*words, pair.a.ip4, env=env)


NAME = "port_rcv_packets"


def test_counters_are_live(shared_pair):
    pair = shared_pair()
    assert set(read_counters(pair.a).values()) == {0}
    procs = traffic(pair)
    assert eventually(lambda: read_counters(pair.a)["port_rcv_packets"] > 1000)
    first, then = read_counters(pair.a), read_counters(pair.a)
    assert then["port_rcv_packets"] > first["port_rcv_packets"]
    # 4 KiB WRITEs come in packets of 1024 bytes: what came is whole packets of about that size
    size = 4 * then["port_rcv_data"] / then["port_rcv_packets"]
    assert 1024 <= size < 1060, then
    # a process that has a file open reads what was there when it opened it; hence a live one:
    code = ("import sys\nfor i in range(2):\n  print(open(sys.argv[1]).read().strip(), flush=True)\n"
            "  __import__('time').sleep(0.1)")
    path = f"{CLASS}/{pair.a.dev}/ports/1/counters/port_rcv_packets"
    one, two = map(int, run(pair.a, "/usr/bin/python3", "-c", code, path).split())
    assert then["port_rcv_packets"] <= one < two
    # by names from within the tree, and in a program that is started there; what reads it
    # first has asked for no counter
    d = f"{CLASS}/{pair.a.dev}"
    for code in (f"stat {d}/node_type >/dev/null; cd {d}/ports/1; exec cat counters/{NAME}",
                 f"cd {d}/ports/1 && cd counters && cat {NAME}", f"cd {d}; cat */1/*/{NAME}",
                 f"cd {d}/ports; exec grep -rh . 1 --include={NAME}"):
        assert int(run(pair.a, "bash", "-c", code)) > then["port_rcv_packets"], code
    # ... and in a shell that stays in their folder
    code = (f"cd {d}/ports/1/counters; for i in 1 2; do cat {NAME}; sleep 0.1; done; "
            f"read -r was <{NAME}; sleep 2.1; read -r now <{NAME}; echo $was; echo $now")
    one, two, was, now = map(int, run(pair.a, "bash", "-c", code).split())
    assert one < two and was < now
    for p in procs:
        p.kill()
    # what a process counted goes with it
    assert eventually(lambda: set(read_counters(pair.a).values()) == {0})


def test_counters_say_what_was_lost(shared_pair):
    pair = shared_pair()
    procs = traffic(pair, {"URNIC_FAULT": "drop=0.01,seed=7"})
    assert eventually(lambda: read_counters(pair.a, hw=True)["out_of_sequence"] > 0)
    assert eventually(lambda: read_counters(pair.b, hw=True)["packet_seq_err"] > 0)
    for p in procs:
        p.kill()


@pytest.mark.full
def test_node_exporter(shared_pair):
    """node_exporter reads what `urnic sysfs --follow` writes: the device's counters."""
    exporter = shutil.which("prometheus-node-exporter")
    if not exporter:
        # installing Debian's package starts a service; the program from an unpacked package will
        # do
        pytest.skip("have prometheus-node-exporter in PATH, which make check-full does not")
    pair = shared_pair()
    a = pair.a
    tree, port = pathlib.Path(a.stage.tmp) / f"exported-{os.getpid()}", lab.next_port()
    follow = a.start(a.stage.urnic, "sysfs", "--follow", str(tree), library=False)
    assert eventually(lambda: (tree / "class/infiniband" / a.dev / "ports/1/state").exists())
    proc = a.start(exporter, "--collector.disable-defaults", "--collector.infiniband",
                   f"--path.sysfs={tree}", f"--web.listen-address=127.0.0.1:{port}", library=False)
    proc.wait_listening(port)

    def metrics():
        out = a.run("/usr/bin/python3", "-c", "import sys, urllib.request as u; sys.stdout.write("
                    f"u.urlopen('http://127.0.0.1:{port}/metrics').read().decode())",
                    library=False).out
        return {n: float(v) for n, v in re.findall(
            r'^node_infiniband_(\w+)\{device="roce_eth0"[^}]*\} (\S+)$', out, re.M)}
    got = metrics()
    assert (got["state_id"], got["physical_state_id"]) == (4, 5)
    assert got["rate_bytes_per_second"] == 25e9 / 8 and got["port_packets_received_total"] == 0
    procs = traffic(pair)
    assert eventually(lambda: metrics()["port_packets_received_total"] > 1000)
    for name, ours, times in (("port_packets_received_total", "port_rcv_packets", 1),
                              ("port_data_received_bytes_total", "port_rcv_data", 4),
                              ("port_packets_transmitted_total", "port_xmit_packets", 1)):
        low = times * read_counters(a)[ours]
        assert eventually(lambda low=low, name=name: metrics()[name] >= low), name
        assert metrics()[name] <= times * read_counters(a)[ours], name
    for p in (*procs, proc, follow):
        p.kill()
    shutil.rmtree(tree)


# What other programs make of the files

def test_ibstatus(eth):
    need("ibstatus")
    out = run(eth, "ibstatus")
    assert f"Infiniband device '{eth.dev}' port 1 status" in out
    assert re.search(r"\tstate:\s+4: ACTIVE\n\tphys state:\s+5: LinkUp\n\trate:\s+25 Gb/sec", out), out
    assert re.search(r"default gid:\s+fe80:.*\n(.*\n)+?.*link_layer:\s+Ethernet\n", out), out


def test_hwloc(eth):
    need("lstopo-no-graphics")
    out = run(eth, "lstopo-no-graphics", "--of", "console", "-v")
    guid = run(eth, "cat", f"{CLASS}/{eth.dev}/node_guid").strip()
    assert re.search(rf'OpenFabrics .*NodeGUID={guid} .*Port1State=4 .*"{eth.dev}"', out), out


# Ways of scripts: ibdev2netdev compares the resources of PCI functions; show_gids lists the GID
# tables' entries that are not zero.
IBDEV2NETDEV = """
for ib in /sys/class/infiniband/*; do for net in /sys/class/net/*; do
    if cmp -s $ib/device/resource $net/device/resource; then
        echo ${ib##*/} port 1 "==>" ${net##*/}
    fi
done; done"""
SHOW_GIDS = """
cd /sys/class/infiniband; for d in *; do for p in $(ls $d/ports); do
    for g in $(ls $d/ports/$p/gids | sort -n); do
        gid=$(cat $d/ports/$p/gids/$g)
        [ $gid = 0000:0000:0000:0000:0000:0000:0000:0000 ] || echo $d $p $g $gid \
            $(cat $d/ports/$p/gid_attrs/types/$g) $(cat $d/ports/$p/gid_attrs/ndevs/$g)
    done
done; done"""


def test_ibstat(eth):
    """Of a RoCE device it says what ibv_devinfo says, and what the files say."""
    need("ibstat")
    out = run(eth, "ibstat")
    info = run(eth, "ibv_devinfo")
    assert f"CA '{eth.dev}'" in out and "Number of ports: 1" in out, out
    for name, word in (("Firmware version", "fw_ver"), ("Hardware version", "hw_ver")):
        assert re.search(rf"{name}: (.*)", out)[1] == re.search(rf"{word}:\s*(.*)", info)[1], out
    assert "State: Active" in out and "Link layer: Ethernet" in out, out
    rate = run(eth, "cat", f"{CLASS}/{eth.dev}/ports/1/rate").split()[0]
    assert f"Rate: {rate}" in out, out
    assert run(eth, "ibstat", "-l").split() == [eth.dev]


def test_scripts(eth):
    assert run(eth, "bash", "-c", IBDEV2NETDEV) == f"{eth.dev} port 1 ==> eth0\n"
    rows = [line.split() for line in run(eth, "bash", "-c", SHOW_GIDS).splitlines()]
    assert [r[2] for r in rows] == ["0", "1", "2"], rows
    assert all(r[:2] == [eth.dev, "1"] and r[4:] == ["RoCE", "v2", "eth0"] for r in rows), rows
    assert rows[1][3].endswith(":0a58:0001")


def test_ucx_takes_the_interface_for_rdma(eth):
    """UCX's tests of rdma_cm use an interface that has a device in /sys/class/net."""
    assert run(eth, "ls", "/sys/class/net/eth0/device/infiniband").split() == [eth.dev]


def test_what_nccl_asks_for(eth):
    """tests/sysfs/nccl.c has the steps."""
    out = run(eth, eth.stage.tool("sysfs/nccl"))
    said = dict(line.split(": ", 1) for line in out.splitlines())
    assert said["name"] == eth.dev and said["state"] == "4"
    # a made-up function: a card of its own, which is found from its bus, too
    function = said["function"]
    assert re.fullmatch(r"/sys/devices/pci.*/ff\w\w:\w\w:00\.0", function), function
    assert said["card"] == said["from its bus"] == said["by its name"] == function
    assert said["subsystem"] == "/sys/bus/pci"
    assert said["class"] == "0x020000" and said["max_link_speed"].endswith("GT/s PCIe")
    for name in ("vendor", "device", "subsystem_vendor"):
        assert re.fullmatch("0x[0-9a-f]{4}", said[name]), name
    assert re.fullmatch(r"-?\d+", said["numa_node"]) and int(said["max_link_width"]) > 0
    assert [said[f"gid {i}"] for i in range(4)] == [*["RoCE v2"] * 3, "Invalid argument"]
    assert said["GID index"] == "1"
    assert (said["relaxed ordering"], said["DMA-buf"]) == ("yes", "Operation not supported")
    assert said["flush"] == "done"
    # two devices are not the ports of one card
    out = run(eth, eth.stage.tool("sysfs/nccl"), env={"URNIC_DEVICES": "eth0,lo"})
    cards = re.findall("^card: (/sys/.*)$", out, re.M)
    assert len(set(cards)) == 2, out


def test_the_bus_lists_what_the_kernel_has(eth):
    """A function that is made up is found by its name, but is not in lists of the bus."""
    for path in ("/sys/bus/pci/devices", "/sys/class/pci_bus"):
        assert run(eth, "ls", path, check=False) == eth.run("ls", path, library=False,
                                                           check=False).out
    real = run(eth, "realpath", f"{CLASS}/{eth.dev}/device").strip()
    name = real.rsplit("/", 1)[1]
    assert run(eth, "bash", "-c", f"realpath /sys/bus/pci/devices/{name} /sys/class/pci_bus/"
               f"{name[:7]}/../..; ls /sys/bus/pci/devices/{name}/infiniband").split() == \
        [real, os.path.dirname(real), eth.dev]
