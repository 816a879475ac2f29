# SPDX-License-Identifier: BSD-2-Clause
"""Completion of urnic(1) in bash and zsh, which both read the text of --help."""

import re
import subprocess

import pytest
from tool import ROOT, URNIC, good, need

FILES = ROOT / "tools/completion"


def run(*words, cwd=ROOT):
    r = subprocess.run(words, cwd=cwd, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60)
    assert (r.returncode, r.stderr) == (0, "")
    return r.stdout.splitlines()


def bash(*words):
    """What bash offers for the last of the words that follow `urnic`."""
    return run("bash", "--norc", "-euc", f"""
source {FILES}/urnic.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
complete -p urnic >/dev/null
set +e
_urnic
printf '%s\\n' "${{COMPREPLY[@]}}"
""", "bash", URNIC, *words)


def commands(*of):
    """The commands in the help text, as a reader finds them."""
    text = good(*of, "--help")
    part = text.split("Commands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  ([a-z]+)", part, re.M)


def long_options(*command):
    return re.findall(r"^ +(?:-., )?(--[a-z-]+)", good(*command, "--help"), re.M)


LEVELS = ["error", "warn", "info", "debug"]


@pytest.mark.parametrize("words,offered", [
    (["f"], ["fabric"]),
    (["run", "--lo"], ["--log", "--local"]),
    (["run", "--log", ""], LEVELS),
    (["run", "--log", "="], LEVELS),            # bash takes = for a word of its own
    (["run", "--log", "=", "w"], ["warn"]),
    (["run", "-d", "lo", "--local", "="], ["off", "pipe", "vm", "auto", "map"]),
    (["run", "-L", "v"], ["vm"]),
    (["run", "--conf", "README"], ["README.md"]),
    (["run", "--log", "=", "info", "--", "setar"], ["setarch"]),
    (["run", "-n", "setar"], ["setarch"]),
    (["run", "setarch", "--lo"], []),           # the program's own option
    (["fabric", "pi"], ["picture"]),
    (["fabric", "run", "-F", "a", "READ"], ["README.md"]),
    (["nonsense", "--"], []),
    (["cdi", "--outp"], ["--output"]),
])
def test_bash_offers(words, offered):
    assert list(dict.fromkeys(w for w in bash(*words) if w)) == offered


def test_bash_offers_all_that_help_lists():
    assert bash("") == commands() and len(commands()) > 9
    assert bash("fabric", "") == commands("fabric") and len(commands("fabric")) == 9
    for command in [[c] for c in commands()] + [["fabric", c] for c in commands("fabric")]:
        options = long_options(*command)
        assert bash(*command, "--") == options and "--help" in options, command


def zsh(*words):
    """What _urnic gives zsh's own functions for the last of the words that follow `urnic`."""
    need("zsh")
    return run("zsh", "-f", "-c", f"""
words=("$@") CURRENT=$#
_describe() {{ print -rl -- ${{(P)2}} }}
_arguments() {{ print -rl -- "$words" $CURRENT "$@" }}
source {FILES}/_urnic
""", "zsh", URNIC, *words)


def test_zsh_offers_commands():
    assert [line.split(":")[0] for line in zsh("")] == commands()
    assert [line.split(":")[0] for line in zsh("fabric", "")] == commands("fabric")
    assert "doctor:say what this machine allows and forbids" in zsh("")


def test_zsh_offers_options():
    for command in [[c] for c in commands()] + [["fabric", c] for c in commands("fabric")]:
        words, current, *rest = zsh(*command, "--")
        assert (words, current) == (f"{command[-1]} --", "2")
        found = re.findall(r"^(--[a-z-]+)=?\[", "\n".join(rest), re.M)
        assert found == long_options(*command), command
    rest = zsh("run", "-l", "info", "")
    assert rest[:2] == ["run -l info ", "4"]
    assert "--log=[error, warn, info or debug]:LEVEL  FILE :(error warn info debug)" in rest
    assert any(re.fullmatch(r"-c\+\[.*\]:FILE:_files", line) for line in rest)
    assert rest[-1] == "*::program:_normal"
