"""Charts of rows: what each level loses, when it was ruled out, and bars of evidence for factors and pairs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from levers.charts.check_facts import Bars
from levers.charts.facts import LevelMark, Levels, cut_note
from levers.charts.looks import BAR_SIGNS, STANDINGS, Look
from levers.charts.svg import SIZE, SMALL, Canvas, Scale, fitted, legend, short, spanned, text_width, x_axis

MOST_LEVELS = 150
"""The most levels that are drawn: nobody reads more, and the table has them all."""

ROW, HEAD, STEP = 20.0, 24.0, 34.0
"""From one level to the next, for the name of a factor, and from one bar to the next."""

MARGIN, NUMBERS = 12.0, 62.0
"""Room left of the bars, and right of them for their numbers."""

LABELS = {"diamond": "c-text", "circle": "c-text", "cross": "c-muted c-struck"}
BARS = {"diamond": "c-fill", "circle": "c-edge", "cross": "c-soft"}
"""Classes of a level's name and of its bar, by its mark: the name of a level that was ruled out is struck out."""


@dataclass(frozen=True, slots=True)
class Part:
    """A factor, and its levels with the middles of their rows."""

    factor: str
    top: float
    levels: list[tuple[float, LevelMark]]


def factor_parts(
    marks: Sequence[LevelMark], top: float, rank: Callable[[Sequence[LevelMark]], float], most: int = MOST_LEVELS
) -> list[Part]:
    """Where each level goes. When there are too many, the factors of highest rank come first and the rest is left out.

    >>> from levers.studies.analysis.views import EffectRow
    >>> rows = [EffectRow(f, j, 9, float(f == "b"), None, None, "in play", None) for f in "abc" for j in range(2)]
    >>> marks = [LevelMark(row, row.factor, str(row.level), "") for row in rows]
    >>> [(p.factor, len(p.levels)) for p in factor_parts(marks, 0, lambda r: r[0].row.loss or 0, most=3)]
    [('b', 2), ('a', 1)]
    """
    groups = [list(group) for _, group in groupby(marks, key=lambda mark: mark.row.factor)]
    if len(marks) > most:
        groups.sort(key=rank, reverse=True)
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
        cls,
        canvas: Canvas,
        levels: Levels,
        looks: Sequence[Look],
        rank: Callable[[Sequence[LevelMark]], float],
        order: str,
    ) -> "Frame":
        """Below a legend. `order` says in which order factors come when not all levels can be drawn."""
        top = legend(canvas, looks) + 22
        parts = factor_parts(levels.marks, top, rank)
        widest = max([text_width(short(mark.level), SIZE) for part in parts for _, mark in part.levels])
        bottom = parts[-1].levels[-1][0] + ROW / 2 + 4
        canvas.height = bottom + 40
        note = cut_note(sum([len(part.levels) for part in parts]), len(levels.marks))
        canvas.note = f"{note} {order}; the table has all." if note else ""
        return cls(parts, top, bottom, 22 + min(max(widest, 40.0), 0.28 * canvas.width))

    def rows(self, canvas: Canvas, scale: Scale, title: str, zero: float) -> list[tuple[float, LevelMark]]:
        """Draw the axis above and below, a line at `zero`, and a strip with the name of each factor; gives the rows."""
        x_axis(canvas, scale, self.top, self.bottom, above=True)
        x_axis(canvas, scale, self.top, self.bottom, title)
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
    if tolerance is not None:
        looks.append(Look(f"tolerance {tolerance:g}", "c-band", "band"))
    frame = Frame.of(canvas, data, looks, _largest_loss, "Factors whose levels lose most come first")
    scale = _loss_scale(data, frame.labels, canvas.width - (8.0 if canvas.is_narrow else 54.0))
    if tolerance is not None:
        with canvas.group(f"tolerance {tolerance:g}", "c-band"):
            canvas.rect(scale(0), frame.top, scale(tolerance) - scale(0), frame.bottom - frame.top, "c-soft")
    rows = frame.rows(canvas, scale, "estimated loss (right of zero is worse)", 0)
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
            canvas.mark(look.mark, scale(row.loss), y)
            if not canvas.is_narrow:
                canvas.text(canvas.width - 8, y, f"{row.loss:.3g}", "c-muted", "end", SMALL)


def _loss_scale(data: Levels, begin: float, end: float) -> Scale:
    """Every estimate, and the intervals as far as they leave the estimates room."""
    rows, tolerance = [mark.row for mark in data.marks], data.tolerance or 0.0
    losses = [row.loss for row in rows if row.loss is not None]
    ends = [v for row in rows for v in (row.low, row.high) if v is not None and math.isfinite(v)]
    most = 4 * max([abs(v) for v in losses] + [tolerance]) or math.inf
    return spanned([0.0, *losses, *[min(max(v, -most), most) for v in ends], tolerance], begin, end)


def _largest_loss(marks: Sequence[LevelMark]) -> float:
    return max([abs(mark.row.loss or 0.0) for mark in marks])


def draw_elimination(canvas: Canvas, data: Levels) -> None:
    """A bar for each level, as long as it was in play."""
    now = data.now
    standings = {mark.row.standing for mark in data.marks}
    looks = [
        Look("ruled out after so many runs" if standing == "ruled out" else standing, look.css, BAR_SIGNS[look.mark])
        for standing, look in STANDINGS.items()
        if standing in standings
    ]
    frame = Frame.of(canvas, data, looks, _first_out, "Factors that lost a level first come first")
    labels, scale = frame.labels, Scale(0.0, float(max(now, 1)), frame.labels, canvas.width - 46.0)
    for y, mark in frame.rows(canvas, scale, "runs", now):
        row, look = mark.row, STANDINGS[mark.row.standing]
        end = now if row.ruled_out_after is None else row.ruled_out_after
        with canvas.group(mark.words, f"c-row {look.css}", (0, y - ROW / 2, canvas.width, ROW)):
            canvas.text(16, y, fitted(mark.level, labels - 20, SIZE), LABELS[look.mark])
            fill = canvas.hatched(look.css) if look.mark == "circle" else None
            canvas.rect(labels, y - 6, scale(end) - labels, 12, BARS[look.mark], fill)
            if look.mark == "cross":
                canvas.mark("cross", scale(end), y, 4)
                canvas.text(scale(end) + 8, y, f"{end:,}", "c-muted", size=SMALL)


def _first_out(marks: Sequence[LevelMark]) -> float:
    return -min([mark.row.ruled_out_after for mark in marks if mark.row.ruled_out_after is not None], default=2**62)


def draw_bars(canvas: Canvas, data: Bars) -> None:
    """One bar below the other. An arrow ends a bar that would go on outside."""
    top = legend(canvas, data.legend) + 8
    bottom = top + STEP * len(data.bars) + 6
    longest = max([bar.value for bar in data.bars if bar.value is not None], default=0.0)
    x = Scale(0.0, min(max(1.06 * longest, data.least), data.most), MARGIN, canvas.width - NUMBERS)
    x_axis(canvas, x, top, bottom, data.axis)
    if data.limit is not None:
        with canvas.coloured("c-ink"):
            canvas.line(x(data.limit), top, x(data.limit), bottom, "c-line c-dashed")
    for i, bar in enumerate(data.bars):
        y, kind = top + STEP * i, (data.strong if bar.strong else data.weak).css
        with canvas.group(bar.words, f"c-row c-bar {kind}", (0, y, canvas.width, STEP)):
            canvas.text(MARGIN, y + 10, fitted(bar.name, canvas.width - 2 * MARGIN, SIZE), "c-text c-halo")
            if bar.value is None:
                canvas.text(MARGIN, y + 25, bar.text, "c-muted", size=SMALL)
                continue
            end, fill = x(bar.value), None if bar.strong else canvas.hatched(kind)
            canvas.rect(x.begin, y + 19, end - x.begin, 11, "c-fill" if bar.strong else "c-edge", fill)
            if bar.value > x.high:
                canvas.mark("right", end + 6, y + 24.5, 5)
            canvas.text(end + 16 if bar.value > x.high else end + 7, y + 24.5, bar.text, "c-muted", size=SMALL)
    canvas.height = bottom + 40
