"""Which pairs of factors seem to act together."""

import math

from levers.core.interactions import PairCheck
from levers.studies.diagnostics import ALARM, Additivity
from levers.studies.fold import StudyState
from levers.studies.plots.facts import Facts, Seen, nothing_yet
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain
from levers.web.charts.axes import legend, placeholder, x_axis
from levers.web.charts.bars import STEP, Bar, bar_scale, draw_bars
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import WIDE, Chart
from levers.web.charts.text import short

KEY = "additivity"
MOST, MOST_ROWS = 12, 500
"""The most pairs that are drawn and listed."""

HEADER = ("factor", "and factor", "degrees of freedom", "statistic", "p", "p, adjusted for all pairs", "suspected")


def additivity(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A bar for each of the most suspicious pairs: how many zeros its adjusted p-value has.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> "a single lever" in additivity("oven", study.state).alt
    True
    """
    seen = seen or Seen(name, state)
    found = seen.additivity
    facts = _facts(seen, found)
    if facts.nothing is not None:
        return placeholder(KEY, width, facts)
    first = sorted(found.checks, key=lambda check: check not in found.suspects)[:MOST]
    bars = [_bar(found, check) for check in first]
    canvas = Canvas(KEY, width)
    entries = [("c-now", "bar", "suspected")] if found.suspects else []
    entries += [("c-gone", "hatch", "no sign"), ("c-ink", "dashed", f"alarm: p below {ALARM:g}")]
    top, alarm = legend(canvas, entries) + 8, -math.log10(ALARM)
    bottom, x = top + STEP * len(bars) + 6, bar_scale(canvas, bars, 1.5 * alarm, 12.0)
    x_axis(canvas, x, top, bottom, "zeros of the adjusted p-value")
    canvas.parts.append('<g class="c-ink">')
    canvas.line(x(alarm), top, x(alarm), bottom, "c-line c-dashed")
    canvas.parts.append("</g>")
    draw_bars(canvas, bars, x, top, "c-now", "c-gone")
    canvas.height = bottom + 40
    return canvas.chart(facts)


def _bar(found: Additivity, check: PairCheck) -> Bar:
    names = (short(found.names[check.first], 40), short(found.names[check.second], 40))
    value = -math.log10(max(check.adjusted, 1e-300))
    words = f"{names[0]} and {names[1]}: p = {check.adjusted:.2g} adjusted for all pairs"
    return Bar(f"{names[0]} and {names[1]}", value, f"p {check.adjusted:.1g}", words, check in found.suspects)


def _facts(seen: Seen, found: Additivity) -> Facts:
    title = f"{clipped(seen.name, MAX_TITLE)}: do factors act together?"
    if not found.checks:
        return nothing_yet(title, f"{plain(found.reason or found.summary)}. {_advice(seen)}", seen)
    n = len(found.checks)
    caption = clipped(found.summary, 900)
    caption = caption[:1].upper() + caption[1:] + "."
    if n > MOST:
        caption += f" The {MOST} most suspicious of {n:,} pairs are drawn"
        caption += f"; the table has {MOST_ROWS}." if n > MOST_ROWS else "; the table has all."
    rows = [_cells(found, check) for check in found.checks[:MOST_ROWS]]
    return Facts(title, caption, f"Bars of how suspicious {min(n, MOST)} pairs of factors are. {caption}", HEADER, rows)


def _advice(seen: Seen) -> str:
    if len(seen.state.spec.merging.inner.names) < 2:
        return "The certificate needs no such check here."
    if seen.state.open_block is None:
        return "The study has ended: a new one with more runs could tell."
    return "Ask for runs and tell their outcomes."


def _cells(found: Additivity, check: PairCheck) -> tuple[str, ...]:
    names = (plain(found.names[check.first]), plain(found.names[check.second]))
    numbers = (number(check.statistic), f"{check.p_value:.3g}", f"{check.adjusted:.3g}")
    return (*names, str(check.dof), *numbers, "yes" if check in found.suspects else "no")
