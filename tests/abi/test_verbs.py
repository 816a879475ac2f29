# SPDX-License-Identifier: BSD-2-Clause
"""verbs.c, case by case, as user nobody on the loopback of a namespace of its own."""

import pathlib
import re
import subprocess

import lab
import pytest

SOURCE = pathlib.Path(__file__).with_name("verbs.c")
CASES = re.findall(r'\{ "(\w+)", \1 \}', SOURCE.read_text())


@pytest.fixture(scope="module")
def verbs(stage):
    """Linked with the distribution's library, as programs are."""
    program = stage.path / "verbs"
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                    "-O1", "-g", "-o", program, SOURCE,
                    SOURCE.with_name("verbs_process.c"), "-libverbs"], check=True)
    return program


@pytest.fixture(scope="module")
def host(stage, can_namespace):
    ns = lab.Namespace(stage)
    yield ns
    ns.remove()


def test_every_case_is_here(host, verbs):
    listed = host.run(verbs, "--list").out.split()
    assert listed == CASES and len(CASES) > 10


@pytest.mark.parametrize("case", CASES)
def test_verbs(host, verbs, case):
    host.run(verbs, case, timeout=60)


def test_cancelled_by_udp(host, stage, verbs):
    """System calls in every turn, and a line in the log that is written meanwhile."""
    log = stage.tmp / "cancelled.log"
    host.run(verbs, "cancelled", timeout=60, env={
        "URNIC_LOCAL": "off", "URNIC_LOG": f"info:{log}"})
