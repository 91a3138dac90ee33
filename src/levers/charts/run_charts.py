"""Charts over runs: outcomes as told, how near the best, and several studies side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from levers.charts.facts import Facts, Outcomes, RunsOnly, Seen, Steps, forecast_facts, history_facts, number, plain
from levers.charts.svg import (
    NARROW,
    SMALL,
    WIDE,
    Canvas,
    Chart,
    Entry,
    Scale,
    fitted,
    label_room,
    legend,
    log_spanned,
    place,
    placeholder,
    short,
    spanned,
    text_width,
    x_axis,
    y_axis,
)
from levers.studies.analysis.views import Best
from levers.studies.state import StudyState

HISTORY_KEY = "history"
MOST_DOTS, MOST_BINS, MOST_BINS_NARROW = 400, 150, 80


@dataclass(frozen=True, eq=False)
class Bins:
    """Outcomes `edges[i]` to `edges[i + 1]` as their mean, range, middle half, and how many were set aside."""

    edges: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    middle: NDArray[np.float64]
    n_aside: NDArray[np.int64]

    @classmethod
    def of(cls, found: Outcomes, n_bins: int) -> "Bins":
        """So many bins of about equal size.

        >>> values = np.array([1.0, 3.0, 5.0, 9.0])
        >>> found = Outcomes(np.arange(4), np.zeros(4, np.int32), values, np.zeros(4, bool), [0, 4])
        >>> Bins.of(found, 2).mean.tolist()
        [2.0, 7.0]
        """
        y, edges = found.values, np.linspace(0, found.n_outcomes, n_bins + 1).astype(np.int64)
        at = edges[:-1]
        halves = [np.quantile(y[a:b], (0.25, 0.75)) for a, b in zip(at, edges[1:], strict=True)]
        return cls(
            edges,
            np.add.reduceat(y, at) / np.diff(edges),
            np.minimum.reduceat(y, at),
            np.maximum.reduceat(y, at),
            np.array(halves),
            np.add.reduceat(found.aside.astype(np.int64), at),
        )


def history(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A dot for each outcome or a bar for each bin, the mean of each block, and what the best setting should give.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> study.tell(study.ask()[0], 3.5)
    >>> str(history("oven", study.state).svg).count("c-outcome")
    1
    """
    seen = seen or Seen(name, state)
    facts, found = history_facts(seen), seen.outcomes
    if facts.nothing is not None:
        return placeholder(HISTORY_KEY, width, facts)
    n, best = found.n_outcomes, _predicted(seen.best)
    canvas, many = Canvas(HISTORY_KEY, width), found.n_outcomes > MOST_DOTS
    top = legend(canvas, _history_entries(found, best is not None, many)) + 44
    bottom = top + (260 if width > NARROW else 220)
    better = "larger" if state.spec.sign > 0 else "smaller"
    y = spanned([float(found.values.min()), float(found.values.max()), *(best or ())], bottom, top)
    left, right = label_room(y), width - 14.0
    x = Scale(0.5, n + 0.5, left + 6, right - (26 if best else 4))
    canvas.text(4, top - 32, f"outcome ({better} is better)", "c-text", size=SMALL)
    x_axis(canvas, x, top, bottom, "run")
    y_axis(canvas, y, left, right)
    _boundaries(canvas, found, state, x, top, bottom)
    if many:
        _bins(canvas, Bins.of(found, MOST_BINS if width > NARROW else MOST_BINS_NARROW), x, y)
    else:
        _dots(canvas, found, state, x, y)
    _block_means(canvas, found, x, y)
    if best is not None:
        low, predicted, high = best
        words = f"predicted at the best setting: {number(predicted)}, between {number(low)} and {number(high)}"
        with canvas.group(words, "c-now"):
            canvas.line(right - 10, y(low), right - 10, y(high), "c-line c-thick")
            canvas.mark("diamond", right - 10, y(predicted), 5.5)
    canvas.height = bottom + 40
    how = " So many are drawn as bins: their mean, middle half and range." if many else ""
    return canvas.chart(replace(facts, caption=facts.caption + how))


def _predicted(best: Best | None) -> tuple[float, float, float] | None:
    if best is None or best.predicted is None or best.low is None or best.high is None:
        return None
    return best.low, best.predicted, best.high


def _dots(canvas: Canvas, found: Outcomes, state: StudyState, x: Scale, y: Scale) -> None:
    stages = [plain(block.batch.stage) for block in state.blocks]
    each = zip(found.trials.tolist(), found.blocks.tolist(), found.values.tolist(), found.aside.tolist(), strict=True)
    for i, (trial, block, value, aside) in enumerate(each, 1):
        words = f"run {i}, trial {trial}, {stages[block]}: {number(value)}" + (", set aside" if aside else "")
        with canvas.group(words, f"c-outcome {'c-aside' if aside else 'c-gone'}"):
            canvas.mark("cross" if aside else "dot", x(i), y(value), 3)


def _bins(canvas: Canvas, bins: Bins, x: Scale, y: Scale) -> None:
    half = max((x(bins.edges[1]) - x(0)) / 2 - 0.4, 0.5)
    for i, (begin, end) in enumerate(zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), strict=True)):
        aside = f", {bins.n_aside[i]:,} set aside" if bins.n_aside[i] else ""
        low, mean, high = float(bins.low[i]), float(bins.mean[i]), float(bins.high[i])
        words = f"runs {begin + 1:,} to {end:,}: mean {mean:.4g}, from {low:.4g} to {high:.4g}{aside}"
        kind = "c-aside" if 2 * bins.n_aside[i] > end - begin else "c-gone"
        at, (first, third) = x((begin + end + 1) / 2), bins.middle[i].tolist()
        with canvas.group(words, f"c-outcome {kind}"):
            canvas.line(at, y(low), at, y(high), "c-line c-thin")
            canvas.rect(at - half, y(third), 2 * half, max(y(first) - y(third), 0.5), "c-soft")
            canvas.line(at - half, y(mean), at + half, y(mean), "c-line")
            if kind == "c-aside":
                canvas.mark("cross", at, y(mean), 3)


def _block_means(canvas: Canvas, found: Outcomes, x: Scale, y: Scale) -> None:
    """Not of blocks too short to be seen."""
    for i, ((begin, end), mean) in enumerate(zip(found.spans, found.means, strict=True)):
        if x(end + 0.5) - x(begin + 0.5) >= 2:
            with canvas.group(f"block {i}: mean {number(mean)} of {end - begin:,} runs", "c-lead"):
                canvas.line(x(begin + 0.5), y(mean), x(end + 0.5), y(mean), "c-line c-thick")


def _boundaries(canvas: Canvas, found: Outcomes, state: StudyState, x: Scale, top: float, bottom: float) -> None:
    """Lines between blocks, and the name of each stage; neither where they would run together."""
    drawn = free = x.begin
    for begin in found.starts[1:-1]:
        if x(begin + 0.5) - drawn >= 5:
            drawn = x(begin + 0.5)
            canvas.line(drawn, top, drawn, bottom, "c-block")
    spans = [(begin, end, plain(state.blocks[found.blocks[begin]].batch.stage)) for begin, end in found.spans]
    for stage, group in groupby(spans, key=lambda span: span[2]):
        parts = list(group)
        at, end = max(x(parts[0][0] + 0.5), free), x(parts[-1][1] + 0.5)
        text = fitted(stage, max(end - at, 120 if at == x.begin else 0), SMALL)
        if text_width(stage, SMALL) <= end - at or at == x.begin:
            canvas.text(at, top - 10, text, "c-muted", size=SMALL)
            free = at + text_width(text, SMALL) + 10


def _history_entries(found: Outcomes, best: bool, many: bool) -> list[Entry]:
    entries = [("c-gone", "band", "middle half"), ("c-gone", "line", "mean and range")] if many else []
    if not many and not found.aside.all():
        entries.append(("c-gone", "dot", "outcome"))
    if found.aside.any():
        entries.append(("c-aside", "cross", "set aside: corrected"))
    entries.append(("c-lead", "thick", "block mean"))
    return [*entries, ("c-now", "interval", "predicted at the best setting, 95 %")] if best else entries


FORECAST_KEY = "forecast"
SQUEEZED = 60
"""When the runs go so far beyond the first block, early blocks would be squeezed into a line without a log axis."""


def forecast(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """What could be certified after each block, and the runs still to go.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> forecast("oven", study.state).title
    'oven: how far it is to the end'
    """
    seen = seen or Seen(name, state)
    facts, drawn = forecast_facts(seen)
    if drawn is None:
        return placeholder(FORECAST_KEY, width, facts)
    if isinstance(drawn, RunsOnly):
        return _counted(facts, drawn, width)
    return _certified(facts, drawn, width, state.open_block is None)


def runs_scale(first: float, last: float, begin: float, end: float) -> tuple[Scale, str]:
    """An axis of runs, and what to write beside it."""
    if first > 0 and last > SQUEEZED * first:
        return log_spanned([first, last], begin, end), "runs (log scale)"
    return spanned([0.0, last], begin, end, zero=True), "runs"


def stairs(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    """The path of a value that holds until the next one."""
    first, *rest = points
    return f"M{place(x(first[0]))} {place(y(first[1]))}" + "".join(f"H{place(x(a))}V{place(y(b))}" for a, b in rest)


def _certified(facts: Facts, steps: Steps, width: int, ended: bool) -> Chart:
    canvas = Canvas(FORECAST_KEY, width)
    top = legend(canvas, _forecast_entries(steps, ended)) + 26
    bottom = top + (240 if width > NARROW else 210)
    levels = [y for _, y in steps.points] + ([] if steps.tolerance is None else [steps.tolerance])
    y = log_spanned(levels, bottom, top) if steps.is_wide else spanned(levels, bottom, top, zero=True)
    left, right = label_room(y), width - 14.0
    last = max(steps.now, steps.end[1] if steps.end else 0)
    x, title = runs_scale(steps.points[0][0], last, left, right)
    if steps.end is not None and steps.end[1] > steps.end[0]:
        with canvas.group(f"the end: likely after {steps.end[0]:,} runs, {steps.end[1]:,} in the worst case", "c-end"):
            fill = canvas.hatched("c-end")
            canvas.rect(x(steps.end[0]), top, x(steps.end[1]) - x(steps.end[0]), bottom - top, "c-edge", fill)
    x_axis(canvas, x, top, bottom, title)
    y_axis(canvas, y, left, right, "how far from the best it can be" + (" (log scale)" if y.log else ""))
    if steps.tolerance is not None:
        with canvas.group(f"the tolerance asked for: {steps.tolerance:g}", "c-ink"):
            canvas.line(left, y(steps.tolerance), right, y(steps.tolerance), "c-line c-dashed")
    if steps.end is not None:
        with canvas.group(f"the end: likely after {steps.end[0]:,} runs", "c-end"):
            canvas.line(x(steps.end[0]), top, x(steps.end[0]), bottom, "c-line c-thick")
    canvas.parts.append('<g class="c-lead">')
    canvas.path(stairs([*steps.points, (steps.now, steps.within)], x, y), "c-line c-thick")
    canvas.parts.append("</g>")
    for runs, within in steps.points:
        with canvas.group(f"after {runs:,} runs: within {number(within)} of the best", "c-lead c-point"):
            canvas.mark("dot", x(runs), y(within), 3.5)
    word = "the verdict" if ended else "now"
    with canvas.group(f"{word}, {steps.now:,} runs: within {number(steps.within)} of the best", "c-now"):
        canvas.mark("diamond", x(steps.now), y(steps.within), 6.5)
    canvas.height = bottom + 40
    return canvas.chart(facts)


def _forecast_entries(steps: Steps, ended: bool) -> list[Entry]:
    found = [("c-lead", "dot", "certified after a block"), ("c-now", "diamond", "the verdict" if ended else "now")]
    if steps.tolerance is not None:
        found.append(("c-ink", "dashed", f"tolerance {steps.tolerance:g}"))
    if steps.end is not None and steps.end[1] > steps.end[0]:
        found.append(("c-end", "hatch", "the end: likely to worst case"))
    elif steps.end is not None:
        found.append(("c-end", "thick", "the end"))
    return found


def _counted(facts: Facts, runs: RunsOnly, width: int) -> Chart:
    """Runs only: these algorithms certify nothing before they end."""
    canvas = Canvas(FORECAST_KEY, width)
    bars = [("c-lead", "bar", "c-fill", f"runs so far: {runs.now:,}", runs.now)]
    if runs.in_block:
        bars.append(("c-end", "hatch", "c-edge", f"in this block: {runs.in_block:,}", runs.in_block))
    if runs.rest:
        bars.append(("c-gone", "empty", "c-outline", f"then in the worst case: {runs.rest:,}", runs.rest))
    top = legend(canvas, [(kind, sign, text) for kind, sign, _, text, _ in bars]) + 10
    x = Scale(0.0, float(sum(n for *_, n in bars)), 12, width - 24.0)
    x_axis(canvas, x, top, top + 56, "runs")
    begin = 0
    for kind, sign, looks, text, n in bars:
        with canvas.group(text, f"{kind} c-point"):
            fill = canvas.hatched(kind) if sign == "hatch" else None
            canvas.rect(x(begin), top + 12, x(begin + n) - x(begin), 32, looks, fill)
        begin += n
    canvas.height = top + 56 + 40
    return canvas.chart(facts)


COMPARE_KEY = "compare"
SHAPES = ("diamond", "circle", "square", "triangle", "cross", "plus", "dot")
"""With each study's mark goes a colour and a dash of its own; so many are drawn at most."""

HEADER = ("study", "algorithm", "runs", "at most so far from the best", "tolerance asked for", "state")


def compare(studies: Sequence[tuple[str, StudyState]], width: int = WIDE, seen: Sequence[Seen] | None = None) -> Chart:
    """One line for each study: how far from the best its leading setting can be.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> compare([("oven", study.state)]).rows
    [('oven', 'cfs', '0', 'not known', '1', 'running')]
    """
    every = [Seen(name, state) for name, state in studies] if seen is None else list(seen)
    lines = [(one, _finite(one.steps)) for one in every]
    facts = _facts(every, [one for one, points in lines if not points], sum(bool(points) for _, points in lines))
    drawn = [(one, points) for one, points in lines if points][: len(SHAPES)]
    if not drawn:
        return placeholder(COMPARE_KEY, width, facts)
    canvas = Canvas(COMPARE_KEY, width)
    entries = [(f"c-s{i}", f"line {SHAPES[i]}", short(one.name, 30)) for i, (one, _) in enumerate(drawn)]
    top = legend(canvas, entries) + 26
    bottom = top + (260 if width > NARROW else 230)
    levels = [within for _, points in drawn for _, within in points]
    wide = min(levels) > 0 and max(levels) > 8 * min(levels)
    y = log_spanned(levels, bottom, top) if wide else spanned(levels, bottom, top, zero=True)
    left = label_room(y)
    runs = [n for _, points in drawn for n, _ in points] + [one.n_runs for one, _ in drawn]
    x, title = runs_scale(min(runs), max(runs), left, width - 14.0)
    x_axis(canvas, x, top, bottom, title)
    y_axis(canvas, y, left, width - 14.0, "how far from the best it can be" + (" (log scale)" if y.log else ""))
    for i, (one, points) in enumerate(drawn):
        _line(canvas, i, one, points, x, y)
    canvas.height = bottom + 40
    return canvas.chart(facts)


def _finite(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(n_runs, within) for n_runs, within in points if math.isfinite(within)]


def _line(canvas: Canvas, i: int, one: Seen, points: list[tuple[int, float]], x: Scale, y: Scale) -> None:
    ended, name = one.state.open_block is None, short(one.name)
    with canvas.group(name, f"c-series c-s{i}"):
        canvas.path(stairs([*points, (one.n_runs, points[-1][1])], x, y), "c-line c-dash c-thick")
        for j, (n_runs, within) in enumerate(points):
            last = ended and j == len(points) - 1
            words = f"{name}, {'the verdict, ' if last else ''}after {n_runs:,} runs: within {number(within)}"
            with canvas.group(words, "c-point"):
                canvas.mark(SHAPES[i], x(n_runs), y(within), 6 if last else 4)


def _facts(every: Sequence[Seen], without: Sequence[Seen], n_lines: int) -> Facts:
    title = "How far from the best each study's setting can be"
    rows: list[tuple[str, ...]] = [_row(one) for one in every]
    both = [(short(one.name), row) for one, row in zip(every, rows, strict=True) if one.steps]
    words = "; ".join(f"{name} within {row[3]} after {row[2]} runs" for name, row in both)
    caption = "Lower and further left is better; a large mark is a verdict."
    if n_lines > len(SHAPES):
        caption += f" The first {len(SHAPES)} of {n_lines} lines are drawn; the table has all."
    if without and n_lines:
        names = ", ".join(short(one.name) for one in without[:8]) + (" and more" if len(without) > 8 else "")
        caption += f" Nothing certified yet: {names}."
    if n_lines:
        return Facts(title, caption, f"Falling steps over runs. {words}.", HEADER, rows)
    what = "choose studies to compare" if not every else "none of these studies has certified anything"
    text = f"There is nothing to show yet: {what}. A line begins when the first block of runs of a study is complete."
    return Facts(title, text, text, HEADER, rows, nothing=text)


def _row(one: Seen) -> tuple[str, ...]:
    spec, points = one.state.spec, one.steps
    within = number(points[-1][1] if points else None)
    asked = "none: a budget" if spec.tolerance is None else number(spec.tolerance)
    ended = "finished" if one.state.open_block is None else "running"
    return plain(one.name), spec.algorithm, f"{one.n_runs}", within, asked, ended
