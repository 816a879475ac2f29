# SPDX-License-Identifier: BSD-2-Clause
"""The scripts of the repository, where they could be wrong and not be noticed."""

import subprocess

import pytest

import lab

CHECK = lab.ROOT / "scripts/check-includes"


def check_includes(tmp_path, folder, name, line):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).write_text(f"/* */\n{line}\n")
    return subprocess.run([CHECK, tmp_path], text=True, stdout=subprocess.PIPE)


@pytest.mark.parametrize("folder,name,line", [
    ("core", "a.c", '#include "sys/list.h"'),
    ("core", "a.c", "#include <infiniband/verbs.h>"),
    ("ib", "a.h", '#include "wire/be.h"'),
    ("ib", "a_test.c", '#include "link/link.h"'),
    ("ib", "sim_a.c", '#include "link/link.h"'),
    ("nic", "a.c", '#  include "host/host.h"'),
    ("abi", "a.c", '#include "nic/nic.h"'),
    ("cm", "a.c", '#include "iwarp/iwarp.h"'),
    ("rsocket", "wait.c", '#include "rsocket/sock.h"'),
    ("rsocket", "wait_test.c", '#include "rsocket/rsocket.h"'),
])
def test_check_includes_allows(tmp_path, folder, name, line):
    done = check_includes(tmp_path, folder, name, line)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("folder,name,line", [
    ("core", "a.c", '#include "ib/ib.h"'),
    ("wire", "a.h", '#include "sys/list.h"'),
    ("ib", "a.c", '#include "link/ip_addr.h"'),
    ("ib", "a.c", '#include "iwarp/iwarp.h"'),
    ("ib", "a_test.c", '#include "nic/nic.h"'),
    ("abi", "a.c", '#include "nic/engine.h"'),
    ("cm", "a.c", '#include "iwarp/ddp.h"'),
    ("core", "a.c", '#include "qp.h"'),
    ("core", "a.c", ' # include "other/a.h"'),
    ("other", "a.c", ""),
    ("rsocket", "sock.h", '#include "rsocket/wait.h"'),
    ("rsocket", "wait.c", '#include "core/core.h"'),
    ("rsocket", "placeless.c", '#include "rsocket/wait.h"'),
])
def test_check_includes_refuses(tmp_path, folder, name, line):
    done = check_includes(tmp_path, folder, name, line)
    assert done.returncode == 1, done.stdout
    assert f"{tmp_path}/{folder}/{name}:" in done.stdout


def test_install_deps_is_silent_when_nothing_is_missing():
    done = subprocess.run([lab.ROOT / "scripts/install-deps", "build", "demo"],
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0 and done.stdout == "", done.stdout
