"""All charts as SVG drawings for a page: rows of levels, bars, and charts over runs. They draw what the facts say."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from levers.charts import check_facts, facts, looks
from levers.charts.check_facts import Bars, InOrder, Leftover
from levers.charts.confirmation import confirmation_facts, draw_confirmation
from levers.charts.facts import (
    TABLE_HAS_ALL,
    Bins,
    Facts,
    History,
    LevelMark,
    Levels,
    Line,
    RunsOnly,
    Steps,
    cut_note,
    is_wide,
)
from levers.charts.looks import FAR, LEVEL_BARS, RULED_OUT, SERIES, STANDINGS, USUAL, Look
from levers.charts.svg import (
    LINES,
    NARROW,
    SIZE,
    SMALL,
    WIDE,
    Canvas,
    Scale,
    fitted,
    short,
    spanned,
    text_width,
    wrapped,
)
from levers.charts.view import StudyView

MOST_LEVELS = 150
"""The most levels that are drawn: nobody reads more, and the table has them all."""

ROW, HEAD, STEP = 20.0, 24.0, 34.0
"""From one level to the next, for the name of a factor, and from one bar to the next."""

MARGIN, NUMBERS = 12.0, 62.0
"""Room left of the bars, and right of them for their numbers."""

LABELS = {"diamond": "c-text", "circle": "c-text", "cross": "c-muted c-struck"}
"""Classes of a level's name, by its mark: that of a level that was ruled out is struck out."""


@dataclass(frozen=True, slots=True)
class Part:
    """A factor, and its levels with the middles of their rows."""

    factor: str
    top: float
    levels: list[tuple[float, LevelMark]]


def factor_parts(
    marks: Sequence[LevelMark], top: float, rank: Callable[[LevelMark], float], most: int = MOST_LEVELS
) -> list[Part]:
    """Where each level goes. When there are too many, the factors of levels of highest rank come first.

    >>> from levers.studies.analysis.views import EffectRow
    >>> rows = [EffectRow(f, j, 9, float(f == "b"), None, None, "in play", None) for f in "abc" for j in range(2)]
    >>> marks = [LevelMark(row, row.factor, str(row.level), "") for row in rows]
    >>> [(p.factor, len(p.levels)) for p in factor_parts(marks, 0, lambda mark: mark.row.loss or 0, most=3)]
    [('b', 2), ('a', 1)]
    """
    groups = [list(group) for _, group in groupby(marks, key=lambda mark: mark.row.factor)]
    if len(marks) > most:
        groups.sort(key=lambda group: max(map(rank, group)), reverse=True)
    parts, y, left = [], top, most
    for group in groups:
        kept = group[:left]
        if kept:
            parts.append(Part(group[0].factor, y, [(y + HEAD + ROW * (i + 0.5), mark) for i, mark in enumerate(kept)]))
            y += HEAD + ROW * len(kept) + 4
            left -= len(kept)
    return parts


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the rows of a chart are: their factors, between which heights, and how wide the names of levels may be."""

    parts: Sequence[Part]
    top: float
    bottom: float
    labels: float

    @classmethod
    def of(
        cls, canvas: Canvas, levels: Levels, looks: Sequence[Look], rank: Callable[[LevelMark], float], order: str
    ) -> "Frame":
        """Below a legend. `order` says in which order factors come when not all levels can be drawn."""
        top = canvas.legend(looks) + 22
        parts = factor_parts(levels.marks, top, rank)
        widest = max([text_width(short(mark.level), SIZE) for part in parts for _, mark in part.levels])
        bottom = parts[-1].levels[-1][0] + ROW / 2 + 4
        canvas.height = bottom + 40
        note = cut_note(sum([len(part.levels) for part in parts]), len(levels.marks))
        canvas.note = f"{note} {order}." if note else ""
        canvas.is_cut = bool(note)
        return cls(parts, top, bottom, 22 + min(max(widest, 40.0), 0.28 * canvas.width))

    def rows(self, canvas: Canvas, scale: Scale, title: str, zero: float) -> list[tuple[float, LevelMark]]:
        """Draw the axis above and below, a line at `zero`, and a strip with the name of each factor; gives the rows."""
        canvas.x_axis(scale, self.top, self.bottom, above=True)
        canvas.x_axis(scale, self.top, self.bottom, title)
        canvas.line(scale(zero), self.top, scale(zero), self.bottom, "c-zero")
        for part in self.parts:
            canvas.rect(0, part.top, canvas.width, HEAD - 3, "c-stripe")
            canvas.text(8, part.top + (HEAD - 3) / 2, fitted(part.factor, canvas.width - 16, SIZE), "c-text c-bold")
        return [level for part in self.parts for level in part.levels]


def draw_effects(canvas: Canvas, data: Levels) -> None:
    """A mark for each level with its interval, grouped by factor."""
    tolerance = data.tolerance
    standings = {mark.row.standing for mark in data.marks}
    looks = [look for standing, look in STANDINGS.items() if standing in standings]
    if [mark for mark in data.marks if mark.row.usual_low != mark.row.usual_high]:
        looks.append(USUAL)
    if tolerance is not None:
        looks.append(Look(data.tolerance_words, "c-band", "band"))
    order = "Factors whose levels lose most come first"
    frame = Frame.of(canvas, data, looks, lambda mark: abs(mark.row.loss or 0.0), order)
    scale = _loss_scale(data, frame.labels, canvas.width - (8.0 if canvas.is_narrow else 54.0))
    if tolerance is not None:
        with canvas.group(data.tolerance_words, "c-band"):
            canvas.rect(scale(0), frame.top, scale(tolerance) - scale(0), frame.bottom - frame.top, "c-soft")
    rows = frame.rows(canvas, scale, data.axis, 0)
    if not canvas.is_narrow:
        canvas.text(canvas.width - 8, frame.top - 10, "loss", "c-muted", "end", SMALL)
    for y, mark in rows:
        row, look = mark.row, STANDINGS[mark.row.standing]
        with canvas.group(mark.words, f"c-row {look.css}", (0, y - ROW / 2, canvas.width, ROW)):
            canvas.text(16, y, fitted(mark.level, frame.labels - 20, SIZE), LABELS[look.mark])
            if row.loss is None:
                canvas.text(scale(0) + 6, y, "not known", "c-muted", size=SMALL)
                continue
            if row.low is not None and row.high is not None and row.low < row.high:
                canvas.interval(scale, row.low, row.high, y)
            if row.usual_low is not None and row.usual_high is not None and row.usual_low < row.usual_high:
                canvas.line(scale(row.usual_low), y, scale(row.usual_high), y, LINES["usual"])
            canvas.mark(look.mark, scale(row.loss), y)
            if not canvas.is_narrow:
                canvas.text(canvas.width - 8, y, f"{row.loss:.3g}", "c-muted", "end", SMALL)


def _loss_scale(data: Levels, begin: float, end: float) -> Scale:
    """Every estimate, and the intervals as far as they leave the estimates room."""
    rows, tolerance = [mark.row for mark in data.marks], data.tolerance or 0.0
    losses = [row.loss for row in rows if row.loss is not None]
    spans = [(row.low, row.high, row.usual_low, row.usual_high) for row in rows]
    ends = [v for span in spans for v in span if v is not None and math.isfinite(v)]
    most = 4 * max([abs(v) for v in losses] + [tolerance]) or math.inf
    return spanned([0.0, *losses, *[min(max(v, -most), most) for v in ends], tolerance], begin, end)


def draw_elimination(canvas: Canvas, data: Levels) -> None:
    """A bar for each level, as long as it was in play."""
    standings = {mark.row.standing for mark in data.marks}
    bars = [look for standing, look in LEVEL_BARS.items() if standing in standings]
    looks = [RULED_OUT if look.label == "ruled out" else look for look in bars]
    order = "Factors that lost a level first come first"
    frame = Frame.of(canvas, data, looks, lambda mark: -(mark.row.ruled_out_after or math.inf), order)
    labels, scale = frame.labels, Scale(0.0, float(max(data.now, 1)), frame.labels, canvas.width - 46.0)
    for y, mark in frame.rows(canvas, scale, "runs", data.now):
        look, end = STANDINGS[mark.row.standing], data.end_of(mark)
        with canvas.group(mark.words, f"c-row {look.css}", (0, y - ROW / 2, canvas.width, ROW)):
            canvas.text(16, y, fitted(mark.level, labels - 20, SIZE), LABELS[look.mark])
            canvas.bar(LEVEL_BARS[mark.row.standing], labels, y - 6, scale(end) - labels, 12)
            if look.mark == "cross":
                canvas.mark("cross", scale(end), y, 4)
                canvas.text(scale(end) + 8, y, f"{end:,}", "c-muted", size=SMALL)


def draw_bars(canvas: Canvas, data: Bars) -> None:
    """One bar below the other. An arrow ends a bar that would go on outside."""
    top = canvas.legend(data.legend) + 8
    bottom = top + STEP * len(data.bars) + 6
    longest = max([bar.value for bar in data.bars if bar.value is not None], default=0.0)
    x = Scale(0.0, min(max(1.06 * longest, data.least), data.most), MARGIN, canvas.width - NUMBERS)
    canvas.x_axis(x, top, bottom, data.axis)
    if data.limit is not None:
        with canvas.coloured("c-ink"):
            canvas.line(x(data.limit), top, x(data.limit), bottom, "c-line c-dashed")
    for i, bar in enumerate(data.bars):
        y, look = top + STEP * i, data.strong if bar.strong else data.weak
        with canvas.group(bar.words, f"c-row c-bar {look.css}", (0, y, canvas.width, STEP)):
            canvas.text(MARGIN, y + 10, fitted(bar.name, canvas.width - 2 * MARGIN, SIZE), "c-text c-halo")
            if bar.value is None:
                canvas.text(MARGIN, y + 25, bar.text, "c-muted", size=SMALL)
                continue
            end = x(bar.value)
            canvas.bar(look, x.begin, y + 19, end - x.begin, 11)
            if bar.value > x.high:
                canvas.mark("right", end + 6, y + 24.5, 5)
            canvas.text(end + 16 if bar.value > x.high else end + 7, y + 24.5, bar.text, "c-muted", size=SMALL)
    canvas.height = bottom + 40


MOST_BINS, MOST_BINS_NARROW = 150, 80
SQUEEZED = 60
"""When the runs go so far beyond the first round, early rounds would be squeezed into a line without a log axis."""

HEIGHT, ABOVE, BELOW = 210.0, 34.0, 48.0
"""Of each of the two drawings of residuals."""


def draw_history(canvas: Canvas, data: History) -> None:
    """A dot for each outcome or a bar for each bin, the mean of each round, and what the best setting should give."""
    found, best, many = data.outcomes, data.predicted, not data.words
    entries = [looks.MIDDLE_HALF, looks.MEAN_AND_RANGE] if many else []
    if not many and not found.aside.all():
        entries.append(looks.OUTCOME)
    if found.aside.any():
        entries.append(looks.SET_ASIDE)
    entries += [looks.ROUND_MEAN] if best is None else [looks.ROUND_MEAN, looks.PREDICTED]
    top = canvas.legend(entries) + 44
    bottom = top + (220 if canvas.is_narrow else 260)
    drawn = [float(found.values.min()), float(found.values.max()), *(best or ())]
    y = spanned(drawn, bottom, top, log=found.scale.is_log)
    left, right = y.label_room, canvas.width - 14.0
    x = Scale(0.5, len(found.values) + 0.5, left + 6, right - (26 if best else 4))
    canvas.text(4, top - 32, data.axis, "c-text", size=SMALL)
    canvas.x_axis(x, top, bottom, "run")
    canvas.y_axis(y, left, right)
    _boundaries(canvas, data, x, top, bottom)
    if many:
        canvas.note = " So many are drawn as bins: their mean, middle half and range."
        _bins(canvas, Bins.of(found, MOST_BINS_NARROW if canvas.is_narrow else MOST_BINS), x, y)
    else:
        each = zip(data.words, found.values.tolist(), found.aside.tolist(), strict=True)
        for i, (words, value, aside) in enumerate(each, 1):
            look = looks.SET_ASIDE if aside else looks.OUTCOME
            with canvas.group(words, f"c-outcome {look.css}"):
                canvas.mark(look.mark, x(i), y(value), 3)
    for (begin, end), mean, words in zip(found.spans, found.means, data.mean_words, strict=True):
        if x(end + 0.5) - x(begin + 0.5) >= 2:  # a shorter round would not be seen
            with canvas.group(words, looks.ROUND_MEAN.css):
                canvas.line(x(begin + 0.5), y(mean), x(end + 0.5), y(mean), "c-line c-thick")
    if best is not None:
        low, predicted, high = best
        with canvas.group(data.predicted_words, looks.PREDICTED.css):
            canvas.line(right - 10, y(low), right - 10, y(high), "c-line c-thick")
            canvas.mark("diamond", right - 10, y(predicted), 5.5)
    canvas.height = bottom + 40


def _bins(canvas: Canvas, bins: Bins, x: Scale, y: Scale) -> None:
    half = max((x(bins.edges[1]) - x(0)) / 2 - 0.4, 0.5)
    each = zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), bins.words(), strict=True)
    for i, (begin, end, words) in enumerate(each):
        low, mean, high = float(bins.low[i]), float(bins.mean[i]), float(bins.high[i])
        at, (first, third) = x((begin + end + 1) / 2), bins.middle[i].tolist()
        look = looks.SET_ASIDE if 2 * bins.n_aside[i] > end - begin else looks.OUTCOME
        with canvas.group(words, f"c-outcome {look.css}"):
            canvas.line(at, y(low), at, y(high), "c-line c-thin")
            canvas.rect(at - half, y(third), 2 * half, max(y(first) - y(third), 0.5), "c-soft")
            canvas.line(at - half, y(mean), at + half, y(mean), "c-line")
            if look is looks.SET_ASIDE:
                canvas.mark(look.mark, at, y(mean), 3)


def _boundaries(canvas: Canvas, data: History, x: Scale, top: float, bottom: float) -> None:
    """Lines between rounds, and the name of each stage that has one; neither where they would run together."""
    found, drawn, free = data.outcomes, x.begin, x.begin
    for begin in found.starts[1:-1]:
        if x(begin + 0.5) - drawn >= 5:
            drawn = x(begin + 0.5)
            canvas.line(drawn, top, drawn, bottom, "c-block")
    spans = [(begin, end, data.stages[found.blocks[begin]]) for begin, end in found.spans]
    for stage, group in groupby(spans, key=lambda span: span[2]):
        if not stage:
            continue
        parts = list(group)
        at, end = max(x(parts[0][0] + 0.5), free), x(parts[-1][1] + 0.5)
        text = fitted(stage, max(end - at, 120 if at == x.begin else 0), SMALL)
        if text_width(stage, SMALL) <= end - at or at == x.begin:
            canvas.text(at, top - 10, text, "c-muted", size=SMALL)
            free = at + text_width(text, SMALL) + 10


def draw_forecast(canvas: Canvas, data: Steps | RunsOnly) -> None:
    """What could be certified after each round, and the runs still to go."""
    if isinstance(data, RunsOnly):
        _counted(canvas, data)
        return
    tolerance, end, now_within = data.tolerance, data.end, data.now_within
    entries = [looks.CERTIFIED, data.look]
    if tolerance is not None:
        entries.append(Look(data.tolerance_words, "c-ink", "dashed"))
    if end is not None:
        entries.append(looks.LIKELY_TO_WORST if end[1] > end[0] else looks.END)
    top = canvas.legend(entries) + 26
    bottom = top + (210 if canvas.is_narrow else 240)
    reached = [within for _, within in data.points] + [now_within] + ([] if tolerance is None else [tolerance])
    y = spanned(reached, bottom, top, zero=True, log=data.log)
    left, right = y.label_room, canvas.width - 14.0
    x = runs_scale(data.points[0][0] if data.points else data.now, max(data.now, end[1] if end else 0), left, right)
    if end is not None and end[1] > end[0]:
        with canvas.group(f"the end: likely after {end[0]:,} runs, {end[1]:,} in the worst case", "c-end"):
            canvas.bar(looks.LIKELY_TO_WORST, x(end[0]), top, x(end[1]) - x(end[0]), bottom - top)
    canvas.x_axis(x, top, bottom, "runs")
    canvas.y_axis(y, left, right, data.axis)
    if tolerance is not None:
        with canvas.group(f"the {data.tolerance_words} that was asked for", "c-ink"):
            canvas.line(left, y(tolerance), right, y(tolerance), "c-line c-dashed")
    if end is not None:
        with canvas.group(f"the end: likely after {end[0]:,} runs", "c-end"):
            canvas.line(x(end[0]), top, x(end[0]), bottom, "c-line c-thick")
    with canvas.coloured("c-lead"):
        canvas.stairs([*data.points, (data.now, now_within)], x, y, "c-line c-thick")
    for (runs, within), words in zip(data.points, data.words, strict=True):
        with canvas.group(words, "c-lead c-point"):
            canvas.mark("dot", x(runs), y(within), 3.5)
    with canvas.group(data.now_words, data.look.css):
        canvas.mark(data.look.mark, x(data.now), y(now_within), 6.5)
    canvas.height = bottom + 40


def runs_scale(first: float, last: float, begin: float, end: float) -> Scale:
    """An axis of runs."""
    log = first > 0 and last > SQUEEZED * first
    return spanned([first if log else 0.0, last], begin, end, zero=True, log=log)


def _counted(canvas: Canvas, data: RunsOnly) -> None:
    """Runs only: these algorithms certify nothing before they end."""
    top = canvas.legend([look for look, _ in data.bars]) + 10
    x = Scale(0.0, float(sum([n for _, n in data.bars])), 12, canvas.width - 24.0)
    canvas.x_axis(x, top, top + 56, "runs")
    begin = 0
    for look, n in data.bars:
        with canvas.group(look.label, f"{look.css} c-point"):
            canvas.bar(look, x(begin), top + 12, x(begin + n) - x(begin), 32)
        begin += n
    canvas.height = top + 56 + 40


def draw_compare(canvas: Canvas, data: Sequence[Line]) -> None:
    """One line for each study: how far from the best its leading setting can be."""
    entries = [Look(line.label, css, f"dash {mark}") for line, (css, mark) in zip(data, SERIES, strict=False)]
    top = canvas.legend(entries) + 26
    bottom = top + (230 if canvas.is_narrow else 260)
    reached = [within for line in data for _, within in line.points]
    y = spanned(reached, bottom, top, zero=True, log=is_wide(reached))
    left = y.label_room
    runs = [n for line in data for n, _ in line.points] + [line.n_runs for line in data]
    x = runs_scale(min(runs), max(runs), left, canvas.width - 14.0)
    canvas.x_axis(x, top, bottom, "runs")
    canvas.y_axis(y, left, canvas.width - 14.0, "how far from the best it can be")
    for line, (css, mark) in zip(data, SERIES, strict=False):
        with canvas.group(line.name, f"c-series {css}"):
            canvas.stairs([*line.points, (line.n_runs, line.points[-1][1])], x, y, "c-line c-dash c-thick")
            for j, ((n_runs, within), words) in enumerate(zip(line.points, line.words, strict=True), 1):
                with canvas.group(words, "c-point"):
                    canvas.mark(mark, x(n_runs), y(within), 6 if line.ended and j == len(line.points) else 4)
    canvas.height = bottom + 40


def draw_residuals(canvas: Canvas, data: Leftover) -> None:
    """Two small charts: beside each other, or one below the other where the page is narrow."""
    found, width = data.residuals, canvas.width
    top = _residual_legend(canvas, found.standardised, found.noise_sd) + ABOVE
    half = float(width) if canvas.is_narrow else width / 2
    _against_fit(canvas, data, half, top)
    below = top + HEIGHT + BELOW + ABOVE if canvas.is_narrow else top
    _quantiles(canvas, data, 0 if canvas.is_narrow else half, below)
    canvas.height = below + HEIGHT + BELOW - 8


def draw_in_order(canvas: Canvas, data: InOrder) -> None:
    """A mark for each run, lines between days, and the numbers of the trials that stand out."""
    top = _residual_legend(canvas, data.standardised, data.noise_sd) + ABOVE
    bottom = top + HEIGHT
    x = Scale(data.trials[0] - 0.5, data.trials[-1] + 0.5, 48, canvas.width - 14.0)
    drawn = x.begin
    for day in data.days:
        if x(day - 0.5) - drawn >= 5:  # else the lines run together
            drawn = x(day - 0.5)
            canvas.line(drawn, top, drawn, bottom, "c-block")
    y = _residual_axes(canvas, x, top, data.residual, data.noise_sd, "trial", data.axis)
    each = zip(map(x, data.trials), map(y, data.residual), data.standardised, data.words, strict=True)
    _points(canvas, "c-run", each)
    for trial, residual in zip(data.trials, data.residual, strict=True):
        if trial in data.outliers:
            at_end = x(trial) > canvas.width / 2
            canvas.text(x(trial) + (-7 if at_end else 7), y(residual), str(trial), anchor="end" if at_end else "start")
    canvas.height = bottom + 40


def _residual_legend(canvas: Canvas, standardised: Iterable[float], noise_sd: float | None) -> float:
    entries = [looks.RESIDUAL]
    if any(abs(one) > FAR for one in standardised):
        entries.append(looks.FAR_RESIDUAL)
    if noise_sd is not None:
        entries.append(Look("two noise sds", "c-band", "band"))
    return canvas.legend([*entries, looks.SHOULD_BE])


def _residual_axes(
    canvas: Canvas, x: Scale, top: float, residual: Sequence[float], noise_sd: float | None, title: str, axis: str
) -> Scale:
    """The axes of a drawing of residuals, with a band as wide as the noise around 0; gives the upward one."""
    bottom, noise = top + HEIGHT, 0.0 if noise_sd is None else 2 * noise_sd
    y = spanned([*residual, noise, -noise], bottom, top)
    if noise:
        with canvas.coloured("c-band"):
            canvas.rect(x.begin, y(noise), x.end - x.begin, y(-noise) - y(noise), "c-soft")
    canvas.x_axis(x, top, bottom, title)
    canvas.y_axis(y, x.begin, x.end)
    canvas.text(4, top - 16, axis, size=SMALL)
    with canvas.coloured("c-ink"):
        canvas.line(x.begin, y(0), x.end, y(0), "c-line c-dashed")
    return y


def _against_fit(canvas: Canvas, data: Leftover, right: float, top: float) -> None:
    found = data.residuals
    residual, fit = found.residual.tolist(), found.fitted.tolist()
    x = spanned(fit, 48, right - 14, log=data.scale.is_log)
    y = _residual_axes(canvas, x, top, residual, found.noise_sd, "expected by the fit", data.axis)
    _points(canvas, "c-point", zip(map(x, fit), map(y, residual), found.standardised, data.words, strict=True))


def _quantiles(canvas: Canvas, data: Leftover, left: float, top: float) -> None:
    found, bottom, right = data.residuals, top + HEIGHT, canvas.width
    canvas.text(left + 4, top - 16, "standardised residual", size=SMALL)
    if not len(found.observed):
        for i, line in enumerate(wrapped("too few runs for standardised residuals", right - left - 80)):
            canvas.text((left + right) / 2, top + 80 + 18 * i, line, "c-muted", "middle")
        return
    observed, normal = found.observed.tolist(), found.normal.tolist()
    y, x = spanned([*observed, *normal], bottom, top), spanned(normal, left + 48, right - 14)
    canvas.x_axis(x, top, bottom, "expected of a normal distribution")
    canvas.y_axis(y, x.begin, x.end)
    with canvas.coloured("c-ink"):
        canvas.line(x(x.low), y(x.low), x(x.high), y(x.high), "c-line c-dashed")
    _points(canvas, "c-quantile", zip(map(x, normal), map(y, observed), observed, data.quantile_words, strict=True))


def _points(canvas: Canvas, kind: str, points: Iterable[tuple[float, float, float, str]]) -> None:
    """Place, standardised residual and words of each: a circle, or a cross where a normal distribution has nothing."""
    for x, y, standardised, words in points:
        outside = abs(standardised) > FAR
        with canvas.group(words, f"{kind} {'c-now' if outside else 'c-lead'}"):
            canvas.mark("cross" if outside else "circle", x, y, 3.2 if outside else 2.4)


S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Chart:
    """A drawing, and what it says. Its looks are classes only; see charts.css."""

    key: str
    facts: Facts[Any]
    svg: Markup


@dataclass(frozen=True)
class Kind(Generic[S, T]):
    """A kind of chart: how its facts are found, and how their data are drawn."""

    key: str
    facts: Callable[[S], Facts[T]]
    draw: Callable[[Canvas, T], None]

    def chart(self, found: Facts[T], width: int = WIDE) -> Chart:
        """Draw it; where there is nothing to draw, say so."""
        canvas = Canvas(self.key, width)
        if found.data is None:
            canvas.placeholder(found.alt)
        else:
            self.draw(canvas, found.data)
        in_table = " ".join(filter(None, (TABLE_HAS_ALL if canvas.is_cut else "", found.in_table)))
        said = replace(found, caption=found.caption + canvas.note, in_table=in_table)
        return Chart(self.key, said, canvas.drawing(found.title, found.alt))

    def both(self, of: S) -> tuple[Chart, Chart]:
        """For a wide and for a narrow window.

        >>> import levers
        >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
        >>> wide, narrow = CHARTS["effects"].both(StudyView("oven", study.state))
        >>> wide.facts.title
        'oven: what each level loses against the leading one'
        """
        found = self.facts(of)
        return self.chart(found, WIDE), self.chart(found, NARROW)


CHARTS: dict[str, Kind[StudyView, Any]] = {
    kind.key: kind
    for kind in (
        Kind("effects", facts.effects_facts, draw_effects),
        Kind("elimination", facts.elimination_facts, draw_elimination),
        Kind("forecast", facts.forecast_facts, draw_forecast),
        Kind("history", facts.history_facts, draw_history),
        Kind("residuals", check_facts.residuals_facts, draw_residuals),
        Kind("order", check_facts.in_order_facts, draw_in_order),
        Kind("additivity", check_facts.additivity_facts, draw_bars),
        Kind("evidence", check_facts.evidence_facts, draw_bars),
        Kind("confirmation", confirmation_facts, draw_confirmation),
    )
}
"""The charts of one study, in the order in which they are of use."""

COMPARE: Kind[Sequence[StudyView], Any] = Kind("compare", facts.compare_facts, draw_compare)
"""The chart of several studies."""


def charts_of(view: StudyView, keys: Iterable[str]) -> list[tuple[Chart, Chart]]:
    """Some charts of a study, for a wide and for a narrow window: drawn once, then kept with the view."""
    return [view.keep(f"chart {key}", partial(CHARTS[key].both, view)) for key in keys]
