# SPDX-License-Identifier: BSD-2-Clause
"""UCX, as Debian has it, used by a program of our own (tests/ucx).  The program tests what UCX's
gtest does, which Debian does not have: messages of all kinds, memory, atomics, and a peer that is
killed.
"""

import pytest

import lab
from tool import need, ucx_perftest

PLACES = ["pair", "host", "udp"]
TRANSPORTS = ["rc_v,ud_v", "ud_v"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("tls", TRANSPORTS)
@pytest.mark.parametrize("test", ["data", "killed"])
def test_ucx(shared_pair, test, tls, place):
    if not (lab.ROOT / "build/obj/tests/ucx/ends").exists():
        pytest.skip("not built: libucx-dev was not installed; rm -r build, make tests")
    env = {"UCX_NET_DEVICES": "roce_eth0:1", "UCX_TLS": tls, "UCX_IB_GID_INDEX": "1",
           "UCX_RC_TIMEOUT": "100ms", "UCX_UD_TIMEOUT": "3s",
           "UCX_WARN_UNUSED_ENV_VARS": "n"}
    pair = shared_pair()
    a, b = pair.place(place)
    words = [pair.a.stage.urnic, "run", "--", pair.a.stage.tool("ucx/ends"), test]
    port = lab.next_port()
    server = a.start(*words, "serve", pair.a.ip4, str(port), env=env, library=False)
    server.wait_listening(port)
    client = b.start(*words, "ask", pair.a.ip4, str(port), env=env, library=False)
    rc = server.wait(70)
    assert client.wait(70) == 0 and rc == (0 if test == "data" else -9), (
        f"client: {client.describe()}\nserver: {server.describe()}")
    if test == "data":
        lab.says_nothing(client, server)


@pytest.mark.parametrize("place", PLACES)
def test_sleeping(shared_pair, place):
    """Programs that sleep until an event comes.  UCX arms its completion queues after its last
    poll, and does not poll again."""
    need("ucx_perftest")
    pair = shared_pair()
    a, b = pair.place(place)
    port = lab.next_port()
    words = [pair.a.stage.urnic, "run", "--", *ucx_perftest(), "-p", str(port), "-t", "tag_lat",
             "-E", "sleep", "-n", "2000"]
    env = {"UCX_NET_DEVICES": "roce_eth0:1", "UCX_TLS": "rc_v", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    server = a.start(*words, env=env, library=False)
    server.wait_listening(port)
    client = b.start(*words, pair.a.ip4, env=env, library=False)
    assert client.wait(60) == 0 and server.wait(60) == 0, (
        f"client: {client.describe()}\nserver: {server.describe()}")
    lab.says_nothing(client, server)
