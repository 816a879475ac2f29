# SPDX-License-Identifier: BSD-2-Clause
"""urnic top: the terminal view, and what it prints once."""

import json
import os
import pathlib
import re
import shlex
import signal
import time

import lab
import pytest
from terminal import Terminal
from tool import bad
from known import FEW, Known, once

needs_second_user = pytest.mark.skipif(
    lab.IN_USERNS, reason="a user namespace has one user")


# --- once ------------------------------------------------------------------------

def as_json(known, *words):
    return json.loads(known.urnic("top", "--once", "--json", *words).out)


@pytest.mark.parametrize("way, by, sent", [("pipe", "ring", 100), ("off", "udp", 100 + 12)])
def test_json_of_known_traffic(netns, way, by, sent):
    known = Known(netns, "-q", "3", "send", "100", str(FEW), env={"URNIC_LOCAL": way})
    seen = as_json(known)
    assert {p["pid"]: p["command"] for p in seen["processes"]} == \
        {known.poster: "live-known", known.other: "live-known"}
    ours = [qp for qp in seen["qps"] if qp["pid"] == known.poster]
    theirs = {qp["number"]: qp for qp in seen["qps"] if qp["pid"] == known.other}
    assert len(ours) == len(theirs) == 3
    for qp in ours:
        other = theirs[qp["peer_qp"]]
        assert other["peer_qp"] == qp["number"] and "per_second" not in qp
        assert (qp["posted"], qp["completed"], qp["by"]) == (FEW, FEW, by)
        assert once(qp, sent) == other["received"] == FEW
        assert qp["sent_bytes"] == other["came_bytes"]


def test_rates(netns):
    known = Known(netns, "send", "64", "0", env={"URNIC_LOCAL": "pipe"}, done=False)
    before = as_json(known, "--pid", str(known.poster))["qps"][0]["posted"]
    qp, = as_json(known, "--pid", str(known.poster), "--interval", "0.5")["qps"]
    assert qp["posted"] > before
    rates = qp["per_second"]
    assert rates["posted"] > 0 and rates["sent_bytes"] == 64 * rates["sent"]
    assert abs(rates["posted"] - rates["completed"]) <= 2 * 128


def parse_prometheus(text):
    """{(name, labels): value}, after checking the format."""
    families, series, of = {}, {}, None
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP (\w+) (.+)", line):
            of = match[1]
            assert of not in families
        elif match := re.fullmatch(r"# TYPE (\w+) (counter|gauge)", line):
            assert match[1] == of
            families[of] = match[2]
        else:
            name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\d+)", line).groups()
            assert name == of and families[of], line
            words = re.findall(r'(\w+)="((?:[^"\\\n]|\\[\\n"])*)"', labels)
            assert ",".join(f'{k}="{v}"' for k, v in words) == labels
            assert name.endswith("_total") == (families[of] == "counter")
            assert (name, labels) not in series
            series[name, labels] = int(value)
    return series


def test_prometheus(netns):
    known = Known(netns, "send", "100", str(FEW), env={"URNIC_LOCAL": "pipe"})
    series = parse_prometheus(known.urnic("top", "--prometheus").out)
    number = known.numbers[0]
    labels = f'pid="{known.poster}",qp="{number}"'
    assert series["urnic_qp_posted_total", labels] == FEW
    assert series["urnic_qp_sent_bytes_total", labels] == \
        100 * series["urnic_qp_sent_total", labels] >= 100 * FEW
    assert series["urnic_qp_send_size", labels] == 128
    assert [labels for name, labels in series if name == "urnic_qp_info" and number in labels]
    assert sum(v for (name, _), v in series.items() if name == "urnic_process_up") == 2


def test_processes_of_another_pid_namespace(netns):
    """They have no number here, and no two series are the same."""
    known = Known(netns, "send", "8", "10")
    text = known.ns.run("unshare", "-fp", *lab.unprivileged(), netns.stage.urnic, "top", "--prometheus",
                        user=None).out
    series = parse_prometheus(text)
    up = {labels: value for (name, labels), value in series.items() if name == "urnic_process_up"}
    assert list(up.values()) == [1, 1] and all('pid="0"' in labels for labels in up)
    assert series["urnic_qp_posted_total", f'pid="0",qp="{known.numbers[0]}"'] == 10


def test_labels_are_escaped(netns):
    """A process may give itself any name."""
    known = Known(netns, "-n", 'a"b\\c\x1b[', "send", "8", "10")
    text = known.urnic("top", "--prometheus").out
    assert 'command="a\\"b\\\\c?["' in text and "\x1b" not in text
    parse_prometheus(text)
    assert "\x1b" not in known.urnic("top", "--once").out


def test_a_file_is_written_in_one_step(netns, stage):
    known = Known(netns, "send", "8", "0", done=False)
    folder = pathlib.Path(stage.tmp) / "textfile"
    folder.mkdir()
    folder.chmod(0o777)
    file = folder / "urnic.prom"
    written = [known.ns.start(stage.urnic, "top", "--prometheus", "-o", str(file))
               for _ in range(5)]
    lab.eventually(file.exists)
    while any(proc.running() for proc in written):
        assert "urnic_qp_posted_total{" in file.read_text()
    assert all(proc.wait(1) == 0 for proc in written)
    assert [p.name for p in folder.iterdir()] == ["urnic.prom"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_full_disk(netns, stage):
    """What was there stays, and nothing else is left."""
    known = Known(netns, "-q", "64", "send", "8", "10")
    full = known.urnic("top", "--prometheus", "-o", "/dev/full", check=False)
    assert full.wait(1) == 1 and "/dev/full cannot be written: No space left" in full.out
    folder = pathlib.Path(stage.tmp) / "full"
    folder.mkdir()
    script = (f"mount -t tmpfs -o size=16k,mode=777 none {folder}; echo old >{folder}/urnic.prom;"
              f"! {shlex.join(lab.unprivileged())} {stage.urnic} top --prometheus -o {folder}/urnic.prom; ls -A {folder};"
              f"cat {folder}/urnic.prom")
    done = known.ns.run("unshare", "-m", "sh", "-ec", script, user=None)
    assert "No space left" in done.out and done.out.endswith("urnic.prom\nold\n")
    nowhere = known.urnic("top", "--json", "-o", f"{folder}/no/file", check=False)
    assert nowhere.wait(1) == 1 and "No such file" in nowhere.out


@pytest.mark.parametrize("words, says", [
    (["--pid", "x"], "'x' is no process id"), (["--interval", "0"], "0.1 to 3600"),
    (["-i", "nan"], "0.1 to 3600"), (["12"], "--pid"), (["-o", "f"], "--output needs"),
])
def test_wrong_arguments(words, says):
    bad(2, says, "top", *words)


def test_no_process(netns):
    assert "urnic run PROGRAM" in netns.run(netns.stage.urnic, "top", "--once").out
    seen = json.loads(netns.run(netns.stage.urnic, "top", "--json").out)
    assert seen == {"processes": [], "qps": []}
    sleeper = netns.start("sleep", "60")
    told = netns.run(netns.stage.urnic, "top", "--once", "--pid", str(sleeper.pid), check=False)
    assert told.wait(1) == 1 and "has no device open" in told.out
    told = netns.run(netns.stage.urnic, "top", check=False)
    assert told.wait(1) == 1 and "this is no terminal" in told.out


@needs_second_user
def test_another_users(netns):
    known = Known(netns, "send", "8", "10")
    user = lab.uid(netns, "nobody")
    told = known.urnic("top", "--once", user=lab.SECOND_USER).out
    assert f"{known.poster} live-known: of user {user}" in told and "RTS" not in told
    seen = json.loads(known.urnic("top", "--json", user=lab.SECOND_USER).out)
    assert not seen["qps"] and {p["error"] for p in seen["processes"]} == {"of another user"}
    alone = known.urnic("top", "--once", "--pid", str(known.poster), user=lab.SECOND_USER,
                        check=False)
    assert alone.wait(1) == 1 and "answers that user only" in alone.out


@needs_second_user
def test_commands_of_another_user(netns):
    """They have slots, too, but are no programs to look at."""
    command = netns.start(netns.stage.urnic, "top", "--once", "--interval", "600")
    lab.eventually(lambda: "@urnic/" in netns.run("cat", "/proc/net/unix").out)
    seen = netns.run(netns.stage.urnic, "top", "--json", user=lab.SECOND_USER)
    assert json.loads(seen.out) == {"processes": [], "qps": []} and command.running()


def test_a_stopped_process(netns):
    known = Known(netns, "send", "8", "10")
    os.kill(known.other, signal.SIGSTOP)
    told = known.urnic("top", "--once").out
    assert f"{known.other} live-known: does not answer: is it stopped?" in told
    assert known.numbers[0][2:] in told
    os.kill(known.other, signal.SIGCONT)


# --- the terminal view --------------------------------------------------------------

@pytest.fixture
def top(netns):
    opened = []

    def start(*words, columns=100, lines=24, user="nobody"):
        opened.append(Terminal([*netns.enter(), *lab.unprivileged(user), netns.stage.urnic, "top",
                                *words], netns.environment(), columns, lines))
        return opened[-1]
    yield start
    for terminal in opened:
        terminal.close()


def quit_it(terminal):
    terminal.press("q")
    assert terminal.end() == 0


def test_keys(netns, top):
    known = Known(netns, "-q", "2", "send", "64", "0", env={"URNIC_LOCAL": "pipe"}, done=False)
    view = top("--interval", "0.2", columns=130)
    text = view.wait(lambda text: text.count(" RTS ") == 4 and "k" in text)
    assert re.search(r"^4 QPs of 2 processes", text) and "q quit" in text
    assert re.search(rf"{known.poster} {known.numbers[0][2:]} RC   RTS   ring ", text)
    view.press("h")
    view.wait(lambda text: "order by requests" in text and " RTS " not in text)
    view.press("h", "p")
    view.wait(lambda text: "h help  process " in text)
    view.press("p")
    view.wait(lambda text: "process reversed" in text)
    view.press("/", *known.numbers[0][2:])
    view.wait(lambda text: text.count(" RTS ") == 2 and text.rstrip()[-1] == "_")  # also as the other's peer
    view.press("\n")
    view.wait(lambda text: text.rstrip()[-1] != "_")
    view.press("/", "\x1b", "u", *["up"] * 4, "down", "\n")
    text = view.wait(lambda text: "sent_bytes" in text)
    number = sorted({qp["number"] for qp in as_json(known)["qps"]})[1]
    assert f"QP       {number} RC RTS" in text and re.search(r"posted +\d+ ", text)
    view.press("left")
    view.wait(lambda text: text.count(" RTS ") == 4)
    view.press("+")
    view.wait(lambda text: "0.4 s" in text)
    quit_it(view)


@pytest.mark.parametrize("columns, lines", [(20, 10), (1, 1), (5, 3), (300, 60)])
def test_any_size(netns, top, columns, lines):
    known = Known(netns, "-q", "8", "send", "64", "0", done=False)
    view = top("--interval", "0.2", columns=columns, lines=lines)
    if columns >= 20:
        view.wait(lambda text: known.numbers[0][2:] in text and "REQ/S" in text)
    for key in "hhrband?":
        view.press(key)
        view.read(0.05)
    quit_it(view)


def test_resized(netns, top):
    known = Known(netns, "-q", "8", "send", "64", "0", done=False)
    view = top("--interval", "0.2")
    view.wait(lambda text: "AGAIN" in text)
    row = re.compile(rf"^ *({known.poster}|{known.other}) [0-9a-f]{{6}} ", re.M)
    for columns, lines in [(20, 5), (140, 40), (33, 12), (100, 24)]:
        view.resize(columns, lines)
        view.wait(lambda text: "REQ/S" in text and row.search(text)
                  and ("AGAIN" in text) == (columns > 40))
    quit_it(view)


def test_processes_come_and_go(netns, top):
    view = top("--interval", "0.2")
    view.wait(lambda text: "urnic run PROGRAM" in text)
    known = Known(netns, "send", "64", "0", done=False)
    view.wait(lambda text: text.count(" RTS ") == 2)
    view.press("\n")
    view.wait(lambda text: "total" in text)
    known.proc.kill()
    os.kill(known.other, signal.SIGKILL) if os.path.exists(f"/proc/{known.other}") else None
    view.wait(lambda text: "is gone" in text)
    view.press("left")
    view.wait(lambda text: "urnic run PROGRAM" in text)
    Known(netns, "send", "64", "0", done=False)
    view.wait(lambda text: text.count(" RTS ") == 2)
    quit_it(view)


def test_one_process_that_ends(netns, top):
    known = Known(netns, "send", "64", "0", done=False)
    view = top("--interval", "0.2", "--pid", str(known.poster))
    view.wait(lambda text: text.count(" RTS ") == 1)
    known.proc.kill()
    view.wait(lambda text: "has ended" in text)
    quit_it(view)


def test_a_process_that_answers_late(netns, top):
    """It is waited for: one with very many QPs takes its time. One that is stopped is waited for once."""
    known = Known(netns, "send", "8", "10")
    view = top("--interval", "0.2")
    view.wait(lambda text: text.count(" RTS ") == 2)
    os.kill(known.other, signal.SIGSTOP)
    begin = time.monotonic()
    view.wait(lambda text: "does not answer" in text)
    assert time.monotonic() - begin > 0.7
    view.press("h")
    view.wait(lambda text: "order by requests" in text)
    view.press("h")
    os.kill(known.other, signal.SIGCONT)
    view.wait(lambda text: text.count(" RTS ") == 2 and "does not" not in text)
    quit_it(view)


@needs_second_user
def test_another_users_in_the_view(netns, top):
    known = Known(netns, "send", "64", "0", done=False)
    view = top(user=lab.SECOND_USER)
    view.wait(lambda text: f"{known.poster} live-known: of user" in text and "RTS" not in text)
    quit_it(view)


def test_the_terminal_goes_away(netns, top):
    Known(netns, "send", "64", "0", done=False)
    view = top("--interval", "0.2")
    view.wait(lambda text: " RTS " in text)
    view.popen.send_signal(signal.SIGHUP)
    view.popen.wait(30)


# --- what it costs ----------------------------------------------------------------------

def woken(pid):
    """How often the process's threads have waited for something."""
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", path.read_text(), re.M)[1])
               for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"))


def test_a_look_wakes_a_program_a_few_times(netns):
    """One that waits does nothing but answer."""
    known = Known(netns, "-q", "12", "send", "8", "10")
    looks, each, few = 20, 30, 30
    as_json(known)
    start = woken(known.poster)
    for _ in range(looks):
        known.urnic("version")
    alone = woken(known.poster)
    for _ in range(looks):
        as_json(known)
    asked = woken(known.poster)
    assert alone - start < few and 0 < asked - alone < looks * each
