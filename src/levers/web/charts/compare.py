"""Several studies' certified tolerance against runs."""

import math
from collections.abc import Sequence

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Facts, Seen
from levers.studies.plots.text import number, plain
from levers.web.charts.axes import label_room, legend, placeholder, x_axis, y_axis
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import NARROW, WIDE, Chart
from levers.web.charts.forecast import runs_scale, stairs
from levers.web.charts.scales import Scale, log_spanned, spanned
from levers.web.charts.text import short

KEY = "compare"
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
        return placeholder(KEY, width, facts)
    canvas = Canvas(KEY, width)
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
