"""Every outcome in the order of telling; when there are many, as bins with their mean and range."""

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Outcomes, Seen, history_facts
from levers.studies.plots.text import number, plain
from levers.studies.views import Best
from levers.web.charts.axes import Entry, label_room, legend, placeholder, x_axis, y_axis
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import NARROW, WIDE, Chart
from levers.web.charts.scales import Scale, spanned
from levers.web.charts.text import SMALL, fitted, text_width

KEY = "history"
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
        return placeholder(KEY, width, facts)
    n, best = found.n_outcomes, _predicted(seen.best)
    canvas, many = Canvas(KEY, width), found.n_outcomes > MOST_DOTS
    top = legend(canvas, _entries(found, best is not None, many)) + 44
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


def _entries(found: Outcomes, best: bool, many: bool) -> list[Entry]:
    entries = [("c-gone", "band", "middle half"), ("c-gone", "line", "mean and range")] if many else []
    if not many and not found.aside.all():
        entries.append(("c-gone", "dot", "outcome"))
    if found.aside.any():
        entries.append(("c-aside", "cross", "set aside: corrected"))
    entries.append(("c-lead", "thick", "block mean"))
    return [*entries, ("c-now", "interval", "predicted at the best setting, 95 %")] if best else entries
