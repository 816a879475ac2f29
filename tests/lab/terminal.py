# SPDX-License-Identifier: BSD-2-Clause
"""A program in a terminal: keys go in, and what is on the screen comes out.

The screen is a vt100's, as far as curses uses one.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78MDEc]|[\x0e\x0f\x00]")
KEYS = {"up": "\x1bOA", "down": "\x1bOB", "right": "\x1bOC", "left": "\x1bOD"}


class Screen:
    """What a terminal shows."""

    def __init__(self, columns, lines):
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.cells = [[" "] * columns for _ in range(lines)]
        self.looks = [[0] * columns for _ in range(lines)]
        self.row = self.column = self.look = 0
        self.top, self.bottom = 0, lines - 1    # the lines that scroll
        self.left = ""

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def feed(self, text):
        text, at = self.left + text, 0
        self.left = ""
        while at < len(text):
            if text[at] == "\x1b" or text[at] in "\x0e\x0f\x00":
                match = SEQUENCE.match(text, at)
                if not match:
                    self.left = text[at:]
                    return
                if match[2]:
                    self.sequence(match[1], match[2])
                elif match[0] == "\x1bM":
                    self.up()
                at = match.end()
            else:
                self.character(text[at])
                at += 1

    def character(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            if self.row == self.bottom:
                self.scroll(self.top, self.bottom)
            else:
                self.row = min(self.row + 1, self.lines - 1)
        elif c == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif c == "\b":
            self.column = max(self.column - 1, 0)
        elif c >= " ":
            self.column = min(self.column, self.columns - 1)
            self.cells[self.row][self.column] = c
            self.looks[self.row][self.column] = self.look
            self.column += 1

    def scroll(self, gone, new):
        """One line goes, and another one comes in its place, or at the other end."""
        for rows, empty in ((self.cells, " "), (self.looks, 0)):
            del rows[gone]
            rows.insert(new, [empty] * self.columns)

    def up(self):
        if self.row == self.top:
            self.scroll(self.bottom, self.top)
        else:
            self.row = max(self.row - 1, 0)

    def erase(self, row, first, last):
        for column in range(first, last):
            self.cells[row][column] = " "
            self.looks[row][column] = 0

    def sequence(self, words, kind):
        numbers = [int(n or 0) for n in words.lstrip("?").split(";")]
        n = numbers[0]
        if kind == "H":
            self.row = min(max(n, 1), self.lines) - 1
            self.column = min(max(numbers[-1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif kind in "ABCD":
            down, across = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}[kind]
            self.row = min(max(self.row + down * max(n, 1), 0), self.lines - 1)
            self.column = min(max(self.column + across * max(n, 1), 0), self.columns - 1)
        elif kind == "K":
            self.erase(self.row, 0 if n else self.column,
                       self.column + 1 if n == 1 else self.columns)
        elif kind == "J":
            self.erase(self.row, 0 if n == 2 else self.column, self.columns)
            for row in range(0 if n == 2 else self.row + 1, self.lines):
                self.erase(row, 0, self.columns)
        elif kind == "r":
            self.top = max(n, 1) - 1
            self.bottom = (numbers[1] if len(numbers) > 1 else self.lines) - 1
            self.row = self.column = 0
        elif kind == "m":
            for k in numbers:
                self.look = 0 if k == 0 else self.look | 1 << k if k < 10 else self.look


class Terminal:
    """A program in a terminal of so many columns and lines."""

    def __init__(self, words, env, columns=100, lines=24):
        self.screen = Screen(columns, lines)
        self.master, slave = pty.openpty()
        self.size(columns, lines, slave)
        self.popen = subprocess.Popen(
            words, env={**env, "TERM": "vt100"}, stdin=slave, stdout=slave, stderr=slave, cwd="/",
            process_group=0)    # in no session of its own: see lab.Proc
        os.close(slave)

    def size(self, columns, lines, fd):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.read(0.2)
        self.screen.resize(columns, lines)
        self.size(columns, lines, self.master)
        self.popen.send_signal(signal.SIGWINCH)     # as of a program's controlling terminal

    def read(self, seconds):
        """Take in what comes within that time. Returns false at the end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                return True
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return False
            self.screen.feed(data.decode(errors="replace"))
        return True

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def wait(self, true, seconds=30):
        """Wait until the text of the screen is so, and return it."""
        end = time.monotonic() + seconds
        while not true(self.screen.text()):
            assert time.monotonic() < end, f"the screen is:\n{self.screen.text()}"
            if not self.read(0.05):
                assert true(self.screen.text()), f"it has ended:\n{self.screen.text()}"
        return self.screen.text()

    def end(self):
        """The exit status."""
        end = time.monotonic() + 30
        while self.popen.poll() is None and time.monotonic() < end:
            self.read(0.05)
        self.read(0.05)
        return self.popen.poll()

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        os.close(self.master)
