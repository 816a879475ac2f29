# SPDX-License-Identifier: BSD-2-Clause
"""Figures of several rounds: median, spread, ratio and goal."""

import math
import statistics
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
SIZES = [8, 64, 512, 4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB, 8 * MIB]


def size_name(n):
    for name, unit in (("MiB", MIB), ("KiB", KIB)):
        if n >= unit and n % unit == 0:
            return f"{n // unit} {name}"
    return f"{n} B"


def percentile(values, share):
    """The smallest of the values such that the given share of all values does not exceed it."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def number(x):
    """x with three significant digits, at most three of them after the point, and no exponent."""
    if x == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(x)))
    return f"{x:.{min(3, max(0, digits))}f}"


@dataclass(frozen=True)
class Goal:
    """At least `ratio` times the yardstick; or, if less is better, at most `ratio` times it, plus
    `plus`."""
    ratio: float
    less: bool = False
    plus: float = 0             # in the row's unit
    text: str = ""

    def met(self, pairs):
        """Whether the median over `pairs` meets the goal.  A pair is (figure, yardstick) of a
        round; a bare limit's yardstick is 1."""
        ratio = statistics.median((o - self.plus) / y for o, y in pairs)
        return ratio <= self.ratio if self.less else ratio >= self.ratio

    def __str__(self):
        return self.text or f"{'<=' if self.less else '>='} {self.ratio:g}"


def at_least(ratio):
    return Goal(ratio)


def at_most(ratio, plus=0, unit=""):
    text = f"<= {ratio:g}x + {plus * 1000 if unit == 'us' else plus:g} ns" if plus else ""
    return Goal(ratio, True, plus, text)


def ratio_of(pairs):
    return statistics.median(o / y for o, y in pairs)


def spread(values, less):
    """The median of the rounds, and the worst one."""
    return statistics.median(values), max(values) if less else min(values)
