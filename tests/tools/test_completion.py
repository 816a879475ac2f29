# SPDX-License-Identifier: BSD-2-Clause
"""Completion of urnic(1) in bash and zsh, which both read the text of --help."""

import os
import pty
import re
import select
import signal
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
    (["f"], ["fabric", "fault"]),
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


# At a terminal: what the shell puts into the line

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], f". '{FILES}/urnic.bash'"),
    "zsh": (["zsh", "-f", "-i"], f"fpath=('{FILES}' $fpath); autoload -U compinit; "
                                 "compinit -u -d $HOME/.dump"),
}


def typed(shell, text, home):
    """The words of a line after somebody has typed the text and pressed Tab, as the shell
    hands them to a command."""
    words, setup = SHELLS[shell]
    need(shell)
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(home)
        os.execvpe(words[0], words, {"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home),
                                     "TERM": "dumb", "INPUTRC": "/dev/null"})
    out = b""

    def read(until):
        nonlocal out
        while until not in out:
            assert select.select([fd], [], [], 60)[0], out
            out += os.read(fd, 4096)
    try:
        os.write(fd, f"{setup}; echo REA''DY\n".encode())
        read(b"READY")
        # the words are an argument of printf instead of being run
        os.write(fd, f"{text}\t\x01printf '<%s>\\n' \x05; echo EN''D\n".encode())
        read(b"END")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    return re.findall(r"^<(.*)>\r?$", out.decode(), re.M)


@pytest.mark.parametrize("shell", SHELLS)
def test_names_of_files_are_quoted(shell, tmp_path):
    """What a shell would take for two words, a quote or a command stays the name of a file."""
    names = ["two words", "it's", "run$(touch${IFS}x)", "*"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/urnic").symlink_to(URNIC)
    for name in names:
        (tmp_path / name).touch()
    for begun, name in (("two", 0), (r"two\ w", 0), ("'two w", 0), ("i", 1), ("r", 2), (r"\*", 3)):
        for words in (["run", "--conf"], ["explain"]):
            text = " ".join(["urnic", *words, begun])
            assert typed(shell, text, tmp_path) == ["urnic", *words, names[name]], text
    assert typed(shell, "urnic run --conf=two", tmp_path)[-1] == "--conf=two words"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_urnic_in_the_home_directory(shell, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/urnic").symlink_to(URNIC)
    assert typed(shell, "~/bin/urnic run --ident", tmp_path) == \
        [f"{tmp_path}/bin/urnic", "run", "--identity"]
