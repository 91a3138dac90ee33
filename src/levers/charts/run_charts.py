"""Charts over runs: outcomes as told, how near the best, what the fit leaves over, and several studies side by side."""

from collections.abc import Sequence
from itertools import groupby

from levers.charts import looks
from levers.charts.check_facts import Leftover
from levers.charts.facts import Bins, History, Line, RunsOnly, Steps, is_wide
from levers.charts.looks import SERIES, Look
from levers.charts.svg import (
    SMALL,
    Canvas,
    Scale,
    fitted,
    label_room,
    legend,
    log_spanned,
    spanned,
    stairs,
    text_width,
    wrapped,
    x_axis,
    y_axis,
)

MOST_BINS, MOST_BINS_NARROW = 150, 80
SQUEEZED = 60
"""When the runs go so far beyond the first block, early blocks would be squeezed into a line without a log axis."""

FAR = 3.0
"""Standardised residuals beyond this get another mark."""

HEIGHT, ABOVE, BELOW = 210.0, 34.0, 48.0
"""Of each of the two drawings of residuals."""


def draw_history(canvas: Canvas, data: History) -> None:
    """A dot for each outcome or a bar for each bin, the mean of each block, and what the best setting should give."""
    found, best, many = data.outcomes, data.predicted, not data.words
    entries = [looks.MIDDLE_HALF, looks.MEAN_AND_RANGE] if many else []
    if not many and not found.aside.all():
        entries.append(looks.OUTCOME)
    if found.aside.any():
        entries.append(looks.SET_ASIDE)
    entries += [looks.BLOCK_MEAN] if best is None else [looks.BLOCK_MEAN, looks.PREDICTED]
    top = legend(canvas, entries) + 44
    bottom = top + (220 if canvas.is_narrow else 260)
    y = spanned([float(found.values.min()), float(found.values.max()), *(best or ())], bottom, top)
    left, right = label_room(y), canvas.width - 14.0
    x = Scale(0.5, len(found.values) + 0.5, left + 6, right - (26 if best else 4))
    canvas.text(4, top - 32, data.axis, "c-text", size=SMALL)
    x_axis(canvas, x, top, bottom, "run")
    y_axis(canvas, y, left, right)
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
        if x(end + 0.5) - x(begin + 0.5) >= 2:  # a shorter block would not be seen
            with canvas.group(words, looks.BLOCK_MEAN.css):
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
    """Lines between blocks, and the name of each stage; neither where they would run together."""
    found, drawn, free = data.outcomes, x.begin, x.begin
    for begin in found.starts[1:-1]:
        if x(begin + 0.5) - drawn >= 5:
            drawn = x(begin + 0.5)
            canvas.line(drawn, top, drawn, bottom, "c-block")
    spans = [(begin, end, data.stages[found.blocks[begin]]) for begin, end in found.spans]
    for stage, group in groupby(spans, key=lambda span: span[2]):
        parts = list(group)
        at, end = max(x(parts[0][0] + 0.5), free), x(parts[-1][1] + 0.5)
        text = fitted(stage, max(end - at, 120 if at == x.begin else 0), SMALL)
        if text_width(stage, SMALL) <= end - at or at == x.begin:
            canvas.text(at, top - 10, text, "c-muted", size=SMALL)
            free = at + text_width(text, SMALL) + 10


def draw_forecast(canvas: Canvas, data: Steps | RunsOnly) -> None:
    """What could be certified after each block, and the runs still to go."""
    if isinstance(data, RunsOnly):
        _counted(canvas, data)
    else:
        _certified(canvas, data)


def _certified(canvas: Canvas, data: Steps) -> None:
    tolerance, end = data.tolerance, data.end
    entries = [looks.CERTIFIED, looks.VERDICT if data.ended else looks.NOW]
    if tolerance is not None:
        entries.append(Look(f"tolerance {tolerance:g}", "c-ink", "dashed"))
    if end is not None:
        entries.append(looks.LIKELY_TO_WORST if end[1] > end[0] else looks.END)
    top = legend(canvas, entries) + 26
    bottom = top + (210 if canvas.is_narrow else 240)
    reached = [within for _, within in data.points] + ([] if tolerance is None else [tolerance])
    y = log_spanned(reached, bottom, top) if data.log else spanned(reached, bottom, top, zero=True)
    left, right = label_room(y), canvas.width - 14.0
    x, title = runs_scale(data.points[0][0], max(data.now, end[1] if end else 0), left, right)
    if end is not None and end[1] > end[0]:
        with canvas.group(f"the end: likely after {end[0]:,} runs, {end[1]:,} in the worst case", "c-end"):
            canvas.rect(x(end[0]), top, x(end[1]) - x(end[0]), bottom - top, "c-edge", canvas.hatched("c-end"))
    x_axis(canvas, x, top, bottom, title)
    y_axis(canvas, y, left, right, "how far from the best it can be" + (" (log scale)" if y.log else ""))
    if tolerance is not None:
        with canvas.group(f"the tolerance asked for: {tolerance:g}", "c-ink"):
            canvas.line(left, y(tolerance), right, y(tolerance), "c-line c-dashed")
    if end is not None:
        with canvas.group(f"the end: likely after {end[0]:,} runs", "c-end"):
            canvas.line(x(end[0]), top, x(end[0]), bottom, "c-line c-thick")
    with canvas.coloured("c-lead"):
        canvas.path(stairs([*data.points, (data.now, data.within)], x, y), "c-line c-thick")
    for (runs, within), words in zip(data.points, data.words, strict=True):
        with canvas.group(words, "c-lead c-point"):
            canvas.mark("dot", x(runs), y(within), 3.5)
    with canvas.group(data.now_words, "c-now"):
        canvas.mark("diamond", x(data.now), y(data.within), 6.5)
    canvas.height = bottom + 40


def runs_scale(first: float, last: float, begin: float, end: float) -> tuple[Scale, str]:
    """An axis of runs, and what to write beside it."""
    if first > 0 and last > SQUEEZED * first:
        return log_spanned([first, last], begin, end), "runs (log scale)"
    return spanned([0.0, last], begin, end, zero=True), "runs"


def _counted(canvas: Canvas, data: RunsOnly) -> None:
    """Runs only: these algorithms certify nothing before they end."""
    kinds = {"bar": "c-fill", "hatch": "c-edge", "empty": "c-outline"}
    top = legend(canvas, [look for look, _ in data.bars]) + 10
    x = Scale(0.0, float(sum([n for _, n in data.bars])), 12, canvas.width - 24.0)
    x_axis(canvas, x, top, top + 56, "runs")
    begin = 0
    for look, n in data.bars:
        with canvas.group(look.label, f"{look.css} c-point"):
            fill = canvas.hatched(look.css) if look.mark == "hatch" else None
            canvas.rect(x(begin), top + 12, x(begin + n) - x(begin), 32, kinds[look.mark], fill)
        begin += n
    canvas.height = top + 56 + 40


def draw_compare(canvas: Canvas, data: Sequence[Line]) -> None:
    """One line for each study: how far from the best its leading setting can be."""
    entries = [Look(line.label, css, f"line {mark}") for line, (css, mark) in zip(data, SERIES, strict=False)]
    top = legend(canvas, entries) + 26
    bottom = top + (230 if canvas.is_narrow else 260)
    reached = [within for line in data for _, within in line.points]
    y = log_spanned(reached, bottom, top) if is_wide(reached) else spanned(reached, bottom, top, zero=True)
    left = label_room(y)
    runs = [n for line in data for n, _ in line.points] + [line.n_runs for line in data]
    x, title = runs_scale(min(runs), max(runs), left, canvas.width - 14.0)
    x_axis(canvas, x, top, bottom, title)
    y_axis(canvas, y, left, canvas.width - 14.0, "how far from the best it can be" + (" (log scale)" if y.log else ""))
    for line, (css, mark) in zip(data, SERIES, strict=False):
        with canvas.group(line.name, f"c-series {css}"):
            canvas.path(stairs([*line.points, (line.n_runs, line.points[-1][1])], x, y), "c-line c-dash c-thick")
            for j, ((n_runs, within), words) in enumerate(zip(line.points, line.words, strict=True), 1):
                with canvas.group(words, "c-point"):
                    canvas.mark(mark, x(n_runs), y(within), 6 if line.ended and j == len(line.points) else 4)
    canvas.height = bottom + 40


def draw_residuals(canvas: Canvas, data: Leftover) -> None:
    """Two small charts: beside each other, or one below the other where the page is narrow."""
    found, width = data.residuals, canvas.width
    entries = [looks.RESIDUAL]
    if (abs(found.standardised) > FAR).any():
        entries.append(Look(f"beyond {FAR:g} standard deviations", "c-now", "cross"))
    if found.noise_sd is not None:
        entries.append(Look("two noise sds", "c-band", "band"))
    top = legend(canvas, [*entries, looks.SHOULD_BE]) + ABOVE
    half = float(width) if canvas.is_narrow else width / 2
    _against_fit(canvas, data, half, top)
    below = top + HEIGHT + BELOW + ABOVE if canvas.is_narrow else top
    _quantiles(canvas, data, 0 if canvas.is_narrow else half, below)
    canvas.height = below + HEIGHT + BELOW - 8


def _against_fit(canvas: Canvas, data: Leftover, right: float, top: float) -> None:
    found, bottom = data.residuals, top + HEIGHT
    noise = 0.0 if found.noise_sd is None else 2 * found.noise_sd
    y = spanned([*found.residual.tolist(), noise, -noise], bottom, top)
    x = spanned(found.fitted.tolist(), 48, right - 14)
    if noise:
        with canvas.coloured("c-band"):
            canvas.rect(x.begin, y(noise), x.end - x.begin, y(-noise) - y(noise), "c-soft")
    x_axis(canvas, x, top, bottom, "expected by the fit")
    y_axis(canvas, y, x.begin, x.end)
    canvas.text(4, top - 16, "outcome less what was expected", size=SMALL)
    with canvas.coloured("c-ink"):
        canvas.line(x.begin, y(0), x.end, y(0), "c-line c-dashed")
    points = zip(found.fitted.tolist(), found.residual.tolist(), strict=True)
    places = [(x(a), y(b)) for a, b in points]
    _points(canvas, "c-point", places, (abs(found.standardised) > FAR).tolist(), data.words)


def _quantiles(canvas: Canvas, data: Leftover, left: float, top: float) -> None:
    found, bottom, right = data.residuals, top + HEIGHT, canvas.width
    canvas.text(left + 4, top - 16, "standardised residual", size=SMALL)
    if not len(found.observed):
        for i, line in enumerate(wrapped("too few runs for standardised residuals", right - left - 80)):
            canvas.text((left + right) / 2, top + 80 + 18 * i, line, "c-muted", "middle")
        return
    y = spanned([*found.observed.tolist(), *found.normal.tolist()], bottom, top)
    x = spanned(found.normal.tolist(), left + 48, right - 14)
    x_axis(canvas, x, top, bottom, "expected of a normal distribution")
    y_axis(canvas, y, x.begin, x.end)
    with canvas.coloured("c-ink"):
        canvas.line(x(x.low), y(x.low), x(x.high), y(x.high), "c-line c-dashed")
    points = zip(found.normal.tolist(), found.observed.tolist(), strict=True)
    places = [(x(a), y(b)) for a, b in points]
    _points(canvas, "c-quantile", places, (abs(found.observed) > FAR).tolist(), data.quantile_words)


def _points(
    canvas: Canvas, kind: str, places: Sequence[tuple[float, float]], far: Sequence[bool], words: Sequence[str]
) -> None:
    """A circle for each residual, a cross for those far from what a normal distribution gives."""
    for (x, y), outside, text in zip(places, far, words, strict=True):
        with canvas.group(text, f"{kind} {'c-now' if outside else 'c-lead'}"):
            canvas.mark("cross" if outside else "circle", x, y, 3.2 if outside else 2.4)
