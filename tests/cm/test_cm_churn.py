# SPDX-License-Identifier: BSD-2-Clause
"""Connections that are made and ended, one after the other and all at once, over RoCE and over
iWARP: none fails, and nothing is left behind."""

import pytest

import lab
from test_cm import ours, run_pair, stand  # noqa: F401

ENV = {"roce": {}, "iwarp": {"URNIC_DEVICES": "iwarp_eth0"}}
KINDS = pytest.mark.parametrize("kind", list(ENV))


def run(pair, ours, kind, place, family, words, n, timeout):  # noqa: F811
    server_ns, client_ns, ip = stand(pair, place, family)
    server_ns, client_ns = (ns.with_env(**ENV[kind]) for ns in (server_ns, client_ns))
    port = str(lab.next_port())
    _, c = run_pair(server_ns, client_ns, [ours, words[0], ip, port, str(n)],
                    [ours, words[1], ip, port, str(n)], int(port), timeout=timeout)
    return c.out


@KINDS
@pytest.mark.parametrize("place,family,n", [
    ("pair", "v4", 300), ("host", "v4", 300), ("lo", "v6", 300),
    pytest.param("host", "v4", 100000, marks=pytest.mark.full),
    pytest.param("pair", "v6", 100000, marks=pytest.mark.full)])
def test_cycles(shared_pair, ours, kind, place, family, n):  # noqa: F811
    """Connecting and disconnecting many times leaves nothing behind."""
    pair = shared_pair()
    # The kernel keeps a TCP port for a minute after its connection, and its 28,000 ports would
    # not last; tcp_tw_reuse lets it use them again.
    for ns in (pair.a, pair.b):
        ns.sh("echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse")
    out = run(pair, ours, kind, place, family, ("serve", "ask"), n, 60 + n // 20)
    assert f"{n} cycles" in out


@KINDS
@pytest.mark.parametrize("place,family", [("pair", "v4"), ("host", "v4"), ("lo", "v6")])
def test_in_turn(shared_pair, ours, kind, place, family):  # noqa: F811
    """A connection stands before the next is asked for, and the server is told in that order,
    also where the client's messages have different ways, or sockets of their own."""
    run(shared_pair(), ours, kind, place, family, ("in-turn-serve", "in-turn"), 300, 60)


@KINDS
@pytest.mark.parametrize("place,family", [("pair", "v4"), ("host", "v6"), ("lo", "v4")])
def test_at_once(shared_pair, ours, kind, place, family):  # noqa: F811
    """A thousand connections that are requested, stand and end at the same time."""
    out = run(shared_pair(), ours, kind, place, family, ("at-once-serve", "at-once"), 1000, 60)
    assert "1000 at once" in out
