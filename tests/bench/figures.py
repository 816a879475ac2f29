# SPDX-License-Identifier: BSD-2-Clause
"""What the bench has measured, as docs/performance.json keeps it: the page and its plots are
written from this alone, so figures of several days can stand on one page, each with its date.
"""

import dataclasses
import datetime
import json
from dataclasses import dataclass, field
from typing import Optional

import stats


def today():
    return str(datetime.date.today())


@dataclass
class Figure:
    """What the rounds of a measure came to."""
    middle: Optional[float] = None      # the median
    worst: Optional[float] = None       # None: there was one round
    tail: Optional[float] = None        # the median of the 99th percentiles
    reason: str = ""                    # why there is no figure

    def text(self, unit):
        if self.reason:
            return self.reason.replace("|", "/")
        more = []
        if self.tail is not None:
            more.append(f"p99 {stats.number(self.tail)}")
        if self.worst is not None:
            more.append(f"worst {stats.number(self.worst)}")
        text = f"{stats.number(self.middle)} {unit}".rstrip()
        return text + (f" ({', '.join(more)})" if more else "")


@dataclass
class Line:
    """A line of a table: urnic beside its yardstick."""
    what: str
    unit: str
    less: bool                          # less is better
    ours: Figure
    yard_name: str = ""
    yard: Optional[Figure] = None
    ratio: Optional[float] = None       # the median of the rounds' ratios
    goal: str = ""
    met: str = ""
    when: str = field(default_factory=today)

    @property
    def key(self):
        return self.what, self.unit, self.yard_name

    def cells(self):
        return (self.what, self.ours.text(self.unit),
                f"{self.yard_name}: {self.yard.text(self.unit)}" if self.yard else "",
                "" if self.ratio is None else stats.number(self.ratio), self.goal, self.met)

    @classmethod
    def load(cls, line):
        figures = {name: Figure(**line[name]) for name in ("ours", "yard") if line[name]}
        return cls(**{**line, **figures})


@dataclass
class Spread:
    """A line of the table of spreads."""
    cells: list
    when: str = field(default_factory=today)

    @property
    def key(self):
        return self.cells[0]

    @classmethod
    def load(cls, line):
        return cls(**line)


@dataclass
class Curve:
    """A line of a plot."""
    name: str
    points: dict                        # {bytes: (median, worst) of the rounds}
    limit: bool = False                 # urnic is compared with it
    reason: str = ""                    # why it has no points, or not all
    when: str = field(default_factory=today)

    @property
    def key(self):
        return self.name

    @classmethod
    def load(cls, line):
        points = {int(size): tuple(point) for size, point in line["points"].items()}
        return cls(**{**line, "points": points})


@dataclass
class Chart:
    """A table and a plot over sizes."""
    name: str                           # of the plot's file
    title: str
    unit: str
    curves: list

    def curve(self, name):
        return next((c for c in self.curves if c.name == name), None)


def merged(old, new):
    """The lines of `old`, with those of `new` in the place of the same ones."""
    fresh = {line.key: line for line in new}
    return [fresh.pop(line.key, line) for line in old] + list(fresh.values())


@dataclass
class Figures:
    rounds: int = 0
    machines: dict = field(default_factory=dict)    # {date: the machine, and its load}
    tables: dict = field(default_factory=dict)      # {section: lines}
    charts: dict = field(default_factory=dict)      # {section: charts}

    def line(self, section, what, yard_name=None):
        return next((line for line in self.tables.get(section, [])
                     if line.what == what and yard_name in (None, line.yard_name)), None)

    def chart(self, name):
        return next((c for charts in self.charts.values() for c in charts if c.name == name), None)

    def merge(self, new):
        """Takes in the figures of another run, instead of its own of the same name."""
        for section, lines in new.tables.items():
            self.tables[section] = merged(self.tables.get(section, []), lines)
        for section, charts in new.charts.items():
            mine = self.charts.setdefault(section, [])
            for chart in charts:
                old = self.chart(chart.name)
                if old:
                    old.curves = merged(old.curves, chart.curves)
                else:
                    mine.append(chart)
        used = self.dates()
        self.machines = {date: text for date, text in {**self.machines, **new.machines}.items()
                         if date in used}

    def dates(self):
        return sorted({line.when for lines in self.tables.values() for line in lines} |
                      {c.when for charts in self.charts.values() for chart in charts for c in chart.curves})

    def dump(self):
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def load(cls, text):
        raw = json.loads(text)
        kind = {"spread": Spread}
        tables = {section: [kind.get(section, Line).load(line) for line in lines]
                  for section, lines in raw["tables"].items()}
        charts = {section: [Chart(**{**chart, "curves": [Curve.load(c) for c in chart["curves"]]})
                            for chart in charts]
                  for section, charts in raw["charts"].items()}
        return cls(raw["rounds"], raw["machines"], tables, charts)
