# SPDX-License-Identifier: BSD-2-Clause
"""A row of the result, and how rows are measured: in rounds, alternating with the yardstick.

A measure is a function without arguments that returns a figure, or (figure, 99th
percentile).  One that fails is not tried again: its row says why, and the rest goes on.
"""

import itertools
import re
import sys
import time
from dataclasses import dataclass
from typing import Callable, Optional

import stats


@dataclass
class Row:
    what: str
    unit: str
    ours: dict                      # {way of urnic: measure}
    yard_name: str = ""
    yard: Optional[Callable] = None
    goal: Optional[stats.Goal] = None
    less: bool = False              # less is better; a goal knows it, too
    once: bool = False              # the same in each round, as a count is
    not_run: str = ""               # why

    def __post_init__(self):
        self.less = self.goal.less if self.goal else self.less


def why(e):
    """In a line: the first, and the first that a program complains in."""
    lines = [" ".join(line.split()) for line in str(e).splitlines() if line.strip()]
    complaints = [line for line in lines[1:] if re.search(r"error|fail|unable|syndrom", line, re.I)]
    return ": ".join([*lines[:1], *complaints[:1]])[:300] or type(e).__name__


@dataclass
class Taken:
    """What a measure gave in the rounds."""
    measure: Callable
    values: list
    tails: list
    reason: str = ""

    def run(self):
        if self.reason:
            return
        try:
            got = self.measure()
        except Exception as e:      # whatever it is, the row says it and the rest goes on
            self.reason = why(e)
            return
        value, tail = got if isinstance(got, tuple) else (got, None)
        self.values.append(value)
        if tail is not None:
            self.tails.append(tail)

    def cell(self, unit, less):
        if self.reason:
            return f"failed: {self.reason}".replace("|", "/")
        middle, worst = stats.spread(self.values, less)
        more = []
        if self.tails:
            more.append(f"p99 {stats.number(stats.spread(self.tails, True)[0])}")
        if len(self.values) > 1:
            more.append(f"worst {stats.number(worst)}")
        text = f"{stats.number(middle)} {unit}".rstrip()
        return text + (f" ({', '.join(more)})" if more else "")


class Runner:
    def __init__(self, rounds, tidy=lambda: None):
        self.rounds, self.tidy = rounds, tidy
        self.began = time.monotonic()

    def say(self, text):
        took = int(time.monotonic() - self.began)
        print(f"{took // 60:3}:{took % 60:02} {text}", file=sys.stderr, flush=True)

    def alternate(self, measures, rounds=None):
        """Each of them once in every round, in turn: what each gave."""
        all_taken = [Taken(m, [], []) for m in measures]
        for _ in range(rounds or self.rounds):
            for taken in all_taken:
                taken.run()
                self.tidy()
        return all_taken

    def together(self, rows):
        """The lines of rows that have one `ours`, which runs once a round beside all their yardsticks."""
        first = rows[0]
        if first.not_run:
            return [(row.what, f"not run: {row.not_run}", row.yard_name, "", str(row.goal or ""), "")
                    for row in rows]
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
        if row.goal:
            met = "yes" if whole and row.goal.met(pairs) else "NO"
        return (f"{row.what}, {way}" if way else row.what,
                ours.cell(row.unit, row.less),
                f"{row.yard_name}: {yard.cell(row.unit, row.less)}" if yard else "",
                stats.number(stats.ratio_of(pairs)) if yard and whole else "",
                str(row.goal or ""), met)

    def table(self, name, rows):
        lines = []
        for _, group in itertools.groupby(rows, lambda row: id(row.ours)):
            group = list(group)
            self.say(f"{name} {len(lines)} lines of {sum(max(1, len(r.ours)) for r in rows)}: {group[0].what}")
            for line in self.together(group):
                self.say("    " + " | ".join(line))
                lines.append(line)
        return lines
