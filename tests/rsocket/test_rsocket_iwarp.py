# SPDX-License-Identifier: BSD-2-Clause
"""rsockets on iWARP devices: Debian's programs and our own, where URNIC_DEVICES names no other
devices; and with Linux's siw, which runs in a VM."""

import pytest

import lab
from test_cm_iwarp import IWARP, stand
from test_rsocket import ROWS, address, many_ports, ours, rcopy, run_pair  # noqa: F401

PLACES = [("pair", "v4"), ("lo", "v6"), ("pair", "v6"), ("host", "v4"), ("lo", "v4")]
SIW = {"v4": "10.77.2.11", "v6": "fd77:2::11"}
OURS = {"v4": "10.77.2.1", "v6": "fd77:2::1"}
FORM = {"v4": "ip", "v6": "ipv6"}


def cells():
    """Each row in every place; a bounded run keeps one place per row."""
    out = []
    for i, row in enumerate(ROWS):
        for j, (place, family) in enumerate(PLACES):
            marks = () if i % len(PLACES) == j and not row.full else row.marks
            out.append(pytest.param(row, place, family, marks=marks,
                                    id=f"{row.name}-{place}-{family}"))
    return out


@pytest.mark.parametrize("row,place,family", cells())
def test_streams(shared_pair, row, place, family):
    server_ns, client_ns, ip = stand(shared_pair(), place, family, IWARP)
    port = lab.next_port()
    common = [*row.options.split(), "-p", str(port), "-f", FORM[family]]
    _, c = run_pair(server_ns, client_ns, [row.program, "-b", ip, *common],
                    [row.program, "-s", ip, *common], port, timeout=row.timeout)
    assert "Gb/sec" in c.out and len(c.out.splitlines()) >= 2, c.describe()


@pytest.mark.parametrize("place", ["pair", "lo"])
def test_rcopy(shared_pair, stage, place):
    rcopy(stage, *stand(shared_pair(), place, "v4", IWARP))


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1", "eth4", "eth6"])
def test_rules(shared_pair, ours, ip):  # noqa: F811
    pair = shared_pair()
    pair.a.with_env(**IWARP).run(ours, "rules", address(pair, ip), str(many_ports()),
                                 timeout=60)


def test_bad_arguments(shared_pair, ours):  # noqa: F811
    pair = shared_pair()
    pair.a.with_env(**IWARP).run(ours, "bad", address(pair, "eth4"), str(many_ports()),
                                 timeout=60)


@pytest.mark.parametrize("ip", ["::1", "eth4"])
def test_short_lives(shared_pair, ours, ip):  # noqa: F811
    pair = shared_pair()
    pair.a.with_env(**IWARP).run(ours, "lives", address(pair, ip), str(many_ports()),
                                 timeout=60)


@pytest.mark.parametrize("place", ["pair", "host"])
@pytest.mark.parametrize("how,told", [
    ("close", "100000 end pipe"), ("exit", "100000 end pipe"),
    ("kill", "100000 reset pipe")])
def test_a_peer_ends(shared_pair, ours, place, how, told):  # noqa: F811
    server_ns, client_ns, ip = stand(shared_pair(), place, "v4", IWARP)
    port = lab.next_port()
    server = server_ns.start(ours, "dying", ip, str(port), how)
    server.wait_listening(port)
    assert client_ns.run(ours, "watch", ip, str(port)).out.strip() == told


# --- siw --------------------------------------------------------------------------

@pytest.fixture(scope="module")
def vm_session(vms):
    vm = vms()
    # With zcopy_tx siw sends a buffer by reference.  rdma-core reuses the buffer when its WRITE
    # is complete, which with siw is before the data has gone out; the data would change under
    # way.
    rc, out = vm.guest("cd /sys/module/siw/parameters; cat zcopy_tx; echo N >zcopy_tx")
    assert rc == 0, out
    yield vm
    vm.guest(f"echo {out.strip()} >/sys/module/siw/parameters/zcopy_tx")


# siw loses data that it has yet to send if something arrives after its close.  So a server that
# ends after its last message, as rstream's does, may send no more than our receiver reads without
# a further grant.
SIW_ROWS = {
    "verify": "rstream {side} {ip} -f {form} -T v -I 2 -C 5 -S 10000 -p {port}",
    "big": "rstream {side} {ip} -f {form} -T v -I 3 -C 5 -S 300000 -p {port}",
    "small": "rstream {side} {ip} -f {form} -I 3 -C 50 -S 100 -p {port}",
    "direct": "riostream {side} {ip} -f {form} -T v -I 3 -C 5 -S 5000 -p {port}",
}
ENV = {"URNIC_DEVICES": "iwarp_iwarp0", "URNIC_LOG": "info"}


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", SIW_ROWS)
def test_urnic_serves_siw(vm, row, family):
    words = {"ip": OURS[family], "port": lab.next_port(), "form": FORM[family]}
    server = vm.start(*SIW_ROWS[row].format(side="-b", **words).split(), env=ENV)
    server.wait_listening(words["port"])
    rc, out = vm.guest("timeout 60 " + SIW_ROWS[row].format(side="-s", **words))
    assert rc == 0, f"siw: {rc} {out}\n{server.describe()}"
    assert server.wait(lab.HANGS) == 0, server.describe()


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("row", [r for r in SIW_ROWS if r != "big"])
def test_siw_serves_urnic(vm, row, family):
    words = {"ip": SIW[family], "port": lab.next_port(), "form": FORM[family]}
    job = vm.serve(SIW_ROWS[row].format(side="-b", **words), words["port"])
    client = vm.start(*SIW_ROWS[row].format(side="-s", **words).split(), env=ENV)
    rc = client.wait(lab.HANGS)
    _, out = vm.finish(job)
    assert rc == 0, f"{client.describe()}\nsiw: {out}"
