# SPDX-License-Identifier: BSD-2-Clause
"""libfabric's verbs provider, as Debian has it, alone and below ofi_rxm, used by a program of our
own (tests/libfabric).  The program tests what libfabric's fabtests do, which Debian does not
have.
"""

import pytest

import lab

PLACES = [("roce", "pair"), ("roce", "host"), ("roce", "udp"), ("iwarp", "pair"),
          ("iwarp", "host")]
TESTS = ["cq-data", "rma", "inject", "many", "shared", "resources", "refused", "nobody",
         "shutdown", "closed", "rdm-tagged", "rdm-rma", "rdm-peers", "rdm-big"]


@pytest.mark.parametrize("kind,place", PLACES)
@pytest.mark.parametrize("test", TESTS)
def test_fabric(shared_pair, test, kind, place):
    if not (lab.ROOT / "build/obj/tests/libfabric/fabric").exists():
        pytest.skip("not built: libfabric-dev was not installed; rm -r build, make tests")
    provider = "verbs;ofi_rxm" if test.startswith("rdm-") else "verbs"
    a, b = (ns.with_env(URNIC_DEVICES=f"{kind}_eth0", FI_PROVIDER=provider)
            for ns in shared_pair().place(place))
    port = str(lab.next_port())
    ip = shared_pair().a.ip4
    program = a.stage.tool("libfabric/fabric")
    server = a.start(program, test, "serve", ip, port)
    server.wait_output("listening")
    client = b.start(program, test, "ask", ip, port)
    rc = client.wait(lab.HANGS)
    lab.both_ended_well(client, rc, server, server.wait(lab.HANGS if rc == 0 else 1))
