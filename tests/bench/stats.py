# SPDX-License-Identifier: BSD-2-Clause
"""Figures of several rounds: medians, spread, ratios and goals."""

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
    """The smallest of the values that `share` of them do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def number(x):
    """Three digits that count, three behind the point at most, and no exponent."""
    if x == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(x)))
    return f"{x:.{min(3, max(0, digits))}f}"


@dataclass(frozen=True)
class Goal:
    """At least, or at most, `ratio` times the yardstick; at most: and `plus` on top."""
    ratio: float
    less: bool = False
    plus: float = 0             # in the unit of the row
    text: str = ""

    def met(self, pairs):
        """Of (figure, yardstick) of each round; the yardstick of a bare limit is 1."""
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
    """Of the rounds: the median, and the worst."""
    return statistics.median(values), max(values) if less else min(values)
