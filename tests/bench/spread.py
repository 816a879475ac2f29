# SPDX-License-Identifier: BSD-2-Clause
"""How far runs differ, with each end on its own processor and where the scheduler puts it."""

import stats
from figures import Spread

RUNS = 20
GOAL = 1.5
HEAD = ("what", "p50, pinned", "p99, pinned", "p50, unpinned", "p99, unpinned", "unit",
        "p50, ratio", "p99, ratio", "goal", "met")


def figures(p):
    """(what, unit, whether less is better, measure) of each figure; the measure's argument says
    whether to pin the ends to processors."""
    for way in ("map", "auto"):
        for program in ("ib_send_lat", "ib_write_lat"):
            yield f"{program}, 8 B, {way}", "us", True, (
                lambda pin, way=way, program=program: p.lat(p.host(way, pin), program)[0])
        yield f"ib_send_bw, 8 B, {way}", "M/s", False, (
            lambda pin, way=way: p.rate(p.host(way, pin), "ib_send_bw", 300_000))
    yield "ib_send_lat, 8 B, veth", "us", True, lambda pin: p.lat(p.wire(pin=pin), "ib_send_lat")[0]


def compare(what, unit, less, pinned, unpinned):
    """The figure's line in the table.  p99 is what 99 of 100 runs do not exceed; of rates, what
    99 of 100 runs reach."""
    share = 0.99 if less else 0.01
    at = [(stats.percentile(v, 0.5), stats.percentile(v, share)) for v in (pinned, unpinned)]
    ratios = [u / k if less else k / u for k, u in zip(*at)]
    return (what, *map(stats.number, at[0] + at[1]), unit, *map(stats.number, ratios),
            f"< {GOAL}", "yes" if max(ratios) < GOAL else "NO")


def measure(p, runner, quick, wanted=lambda what: True):
    lines = []
    for what, unit, less, run in figures(p):
        if not wanted(what):
            continue
        runner.say(f"spread: {what}")
        pinned, unpinned = runner.alternate([lambda run=run: run(True), lambda run=run: run(False)],
                                            2 if quick else RUNS)
        reason = pinned.reason or unpinned.reason
        cells = ((what, reason.replace("|", "/"), *[""] * (len(HEAD) - 3), "NO") if reason else
                 compare(what, unit, less, pinned.values, unpinned.values))
        runner.say("    " + " | ".join(cells))
        lines.append(Spread(list(cells)))
    return lines
