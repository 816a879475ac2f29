# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the result, and how they are measured: in rounds that alternate with the
yardstick's.

A measure is a function without arguments that returns a figure, or (figure, 99th percentile). A
measure that fails is not tried again: its row has the reason, and the other rows are measured.
"""

import itertools
import re
import sys
import time
from dataclasses import dataclass
from typing import Callable, Optional

import stats
from figures import Figure, Line


class NotRun(Exception):
    """A measure that this machine does not allow, and why."""


@dataclass
class Row:
    what: str
    unit: str
    ours: dict                      # {way of urnic: measure}
    yard_name: str = ""
    yard: Optional[Callable] = None
    goal: Optional[stats.Goal] = None
    less: bool = False              # less is better; a goal says so itself
    once: bool = False              # measured in one round, since each round would count the same

    def __post_init__(self):
        self.less = self.goal.less if self.goal else self.less


def why(e):
    """An exception in one line: its first line, and the first later one with a program's
    complaint."""
    lines = [" ".join(line.split()) for line in str(e).splitlines() if line.strip()]
    complaints = [line for line in lines[1:] if re.search(r"error|fail|unable|syndrom", line, re.I)]
    return ": ".join([*lines[:1], *complaints[:1]])[:300] or type(e).__name__


@dataclass
class Taken:
    """What a measure returned, round by round."""
    measure: Callable
    values: list
    tails: list
    reason: str = ""
    not_run: bool = False

    def run(self):
        if self.reason:
            return
        try:
            got = self.measure()
        except NotRun as e:
            self.reason, self.not_run = f"not run: {e}", True
            return
        except Exception as e:      # whatever it is, the row says it, and the others go on
            self.reason = f"failed: {why(e)}"
            return
        value, tail = got if isinstance(got, tuple) else (got, None)
        self.values.append(value)
        if tail is not None:
            self.tails.append(tail)

    def figure(self, less):
        if self.reason:
            return Figure(reason=self.reason)
        middle, worst = stats.spread(self.values, less)
        return Figure(middle, worst if len(self.values) > 1 else None,
                      stats.spread(self.tails, True)[0] if self.tails else None)


class Runner:
    def __init__(self, rounds, tidy=lambda: None):
        self.rounds, self.tidy = rounds, tidy
        self.began = time.monotonic()

    def say(self, text):
        took = int(time.monotonic() - self.began)
        print(f"{took // 60:3}:{took % 60:02} {text}", file=sys.stderr, flush=True)

    def alternate(self, measures, rounds=None):
        """Run each measure once in every round, in turn; return the Taken of each."""
        all_taken = [Taken(m, [], []) for m in measures]
        for _ in range(rounds or self.rounds):
            for taken in all_taken:
                taken.run()
                self.tidy()
        return all_taken

    def together(self, rows):
        """The lines of rows with the same `ours`, which runs once in a round, beside the
        yardsticks of all these rows."""
        first = rows[0]
        yards = [row for row in rows if row.yard]
        taken = self.alternate([*(row.yard for row in yards), *first.ours.values()],
                               1 if first.once else None)
        yard_of = {id(row): taken.pop(0) for row in yards}
        return [self._line(row, way, ours, yard_of.get(id(row)))
                for row in rows for way, ours in zip(first.ours, taken)]

    @staticmethod
    def _line(row, way, ours, yard):
        pairs = list(zip(ours.values, yard.values if yard else [1] * len(ours.values)))
        whole = not ours.reason and not (yard and yard.reason)
        met = ""
        if row.goal and not ours.not_run and not (yard and yard.not_run):
            met = "yes" if whole and row.goal.met(pairs) else "NO"
        return Line(f"{row.what}, {way}" if way else row.what, row.unit, row.less, ours.figure(row.less),
                    row.yard_name, yard.figure(row.less) if yard else None,
                    stats.ratio_of(pairs) if yard and whole else None, str(row.goal or ""), met)

    def table(self, name, rows):
        lines = []
        for _, group in itertools.groupby(rows, lambda row: id(row.ours)):
            group = list(group)
            self.say(f"{name} {len(lines)} lines of {sum(max(1, len(r.ours)) for r in rows)}: {group[0].what}")
            for line in self.together(group):
                self.say("    " + " | ".join(line.cells()))
                lines.append(line)
        return lines
