"""Charts with a row for each level: what it loses, and when it was ruled out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from levers.charts.facts import Seen, cut_note, effects_facts, elimination_facts, number
from levers.charts.svg import (
    NARROW,
    SIZE,
    SMALL,
    WIDE,
    Canvas,
    Chart,
    Entry,
    Scale,
    fitted,
    legend,
    placeholder,
    short,
    spanned,
    text_width,
    x_axis,
)
from levers.studies.analysis.views import EffectRow
from levers.studies.state import StudyState

MOST = 150
"""The most levels that are drawn: nobody reads more, and the table has them all."""

ROW, HEAD = 20.0, 24.0
LOOKS = {
    "leading": ("c-lead", "diamond"),
    "chosen": ("c-lead", "diamond"),
    "in play": ("c-play", "circle"),
    "not chosen": ("c-play", "circle"),
    "ruled out": ("c-gone", "cross"),
}
"""Colour and mark of each standing, so that none is told by colour alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """A factor, and its levels with the middles of their rows."""

    factor: str
    top: float
    levels: list[tuple[float, EffectRow]]


def factor_parts(
    rows: Sequence[EffectRow], top: float, rank: Callable[[Sequence[EffectRow]], float], most: int = MOST
) -> list[Part]:
    """Where each level goes. When there are too many, the factors of highest rank come first and the rest is left out.

    >>> rows = [EffectRow(f, j, 9, float(f == "b"), None, None, "in play", None) for f in "abc" for j in range(2)]
    >>> [(p.factor, len(p.levels)) for p in factor_parts(rows, 0, lambda r: r[0].loss or 0, most=3)]
    [('b', 2), ('a', 1)]
    """
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row.factor)]
    if len(rows) > most:
        groups.sort(key=rank, reverse=True)
    parts, y, left = [], top, most
    for group in groups:
        kept = group[:left]
        if kept:
            parts.append(Part(group[0].factor, y, [(y + HEAD + ROW * (i + 0.5), row) for i, row in enumerate(kept)]))
            y += HEAD + ROW * len(kept) + 4
            left -= len(kept)
    return parts


def parts_end(parts: Sequence[Part]) -> float:
    """Where the last row ends."""
    return parts[-1].levels[-1][0] + ROW / 2 + 4


def left_out(parts: Sequence[Part], rows: Sequence[EffectRow], order: str) -> str:
    """A sentence for the caption when not all levels are drawn."""
    n_drawn = sum(len(part.levels) for part in parts)
    note = cut_note(n_drawn, len(rows))
    return f"{note} {order}; the table has all." if note else ""


def label_column(canvas: Canvas, parts: Sequence[Part]) -> float:
    """How wide the names of the levels may be."""
    widest = max(text_width(short(row.level), SIZE) for part in parts for _, row in part.levels)
    return 22 + min(max(widest, 40.0), 0.28 * canvas.width)


def draw_heads(canvas: Canvas, parts: Sequence[Part]) -> None:
    """A strip with the name of each factor, over the lines of the axis."""
    for part in parts:
        canvas.rect(0, part.top, canvas.width, HEAD - 3, "c-stripe")
        canvas.text(8, part.top + (HEAD - 3) / 2, fitted(part.factor, canvas.width - 16, SIZE), "c-text c-bold")


def draw_label(canvas: Canvas, y: float, row: EffectRow, room: float) -> None:
    """The name of a level, struck out if it was ruled out."""
    kind = "c-muted c-struck" if row.standing == "ruled out" else "c-text"
    canvas.text(16, y, fitted(row.level, room - 20, SIZE), kind)


def level_name(row: EffectRow) -> str:
    """Factor and level in words."""
    return f"{short(row.factor)}: {short(row.level)}"


EFFECTS_KEY = "effects"


def effects(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A mark for each level with its interval, grouped by factor.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> effects("oven", study.state).title
    'oven: what each level loses against the leading one'
    """
    seen = seen or Seen(name, state)
    facts = effects_facts(seen)
    if facts.nothing is not None:
        return placeholder(EFFECTS_KEY, width, facts)
    rows, tolerance = seen.effects, state.spec.tolerance
    canvas = Canvas(EFFECTS_KEY, width)
    top = legend(canvas, _effects_entries(rows, tolerance)) + 22
    parts = factor_parts(rows, top, _largest_loss)
    bottom = parts_end(parts)
    labels, values = label_column(canvas, parts), 54.0 if width > NARROW else 8.0
    scale = _scale(rows, tolerance, labels, width - values)
    if tolerance is not None:
        band = scale(tolerance) - scale(0)
        canvas.parts.append(f'<g class="c-band"><title>tolerance {tolerance:g}</title>')
        canvas.rect(scale(0), top, band, bottom - top, "c-soft")
        canvas.parts.append("</g>")
    x_axis(canvas, scale, top, bottom, above=True)
    x_axis(canvas, scale, top, bottom, "estimated loss (right of zero is worse)")
    canvas.line(scale(0), top, scale(0), bottom, "c-zero")
    draw_heads(canvas, parts)
    if width > NARROW:
        canvas.text(width - 8, top - 10, "loss", "c-muted", "end", SMALL)
    for part in parts:
        _levels(canvas, part, scale, labels)
    canvas.height = bottom + 40
    order = "Factors whose levels lose most come first"
    return canvas.chart(replace(facts, caption=facts.caption + left_out(parts, rows, order)))


def _levels(canvas: Canvas, part: Part, scale: Scale, labels: float) -> None:
    for y, row in part.levels:
        kind, mark = LOOKS[row.standing]
        with canvas.group(_effects_words(row), f"c-row {kind}", (0, y - ROW / 2, canvas.width, ROW)):
            draw_label(canvas, y, row, labels)
            if row.loss is None:
                canvas.text(scale(0) + 6, y, "not known", "c-muted", size=SMALL)
                continue
            if row.low is not None and row.high is not None and row.low < row.high:
                _interval(canvas, scale, row.low, row.high, y)
            canvas.mark(mark, scale(row.loss), y)
            if canvas.width > NARROW:
                canvas.text(canvas.width - 8, y, f"{row.loss:.3g}", "c-muted", "end", SMALL)


def _interval(canvas: Canvas, scale: Scale, low: float, high: float, y: float) -> None:
    """A bar with ends; an arrow where it goes on outside."""
    canvas.line(scale(low), y, scale(high), y, "c-line")
    for end, inside, arrow, back in ((low, low >= scale.low, "left", 3), (high, high <= scale.high, "right", -3)):
        if inside:
            canvas.line(scale(end), y - 3, scale(end), y + 3, "c-line")
        else:
            canvas.mark(arrow, scale(end) + back, y, 3)


def _scale(rows: Sequence[EffectRow], tolerance: float | None, begin: float, end: float) -> Scale:
    """Every estimate, and the intervals as far as they leave the estimates room."""
    losses = [row.loss for row in rows if row.loss is not None]
    ends = [v for row in rows for v in (row.low, row.high) if v is not None and math.isfinite(v)]
    most = 4 * max([abs(v) for v in losses] + [tolerance or 0.0]) or math.inf
    return spanned([0.0, *losses, *(min(max(v, -most), most) for v in ends), tolerance or 0.0], begin, end)


def _effects_entries(rows: Sequence[EffectRow], tolerance: float | None) -> list[Entry]:
    standings = [s for s in LOOKS if any(row.standing == s for row in rows)]
    found = [(*LOOKS[standing], standing) for standing in standings]
    return found if tolerance is None else [*found, ("c-band", "band", f"tolerance {tolerance:g}")]


def _effects_words(row: EffectRow) -> str:
    if row.loss is None:
        return f"{level_name(row)}, {row.standing}, loss not known, {row.n_runs} runs"
    span = "" if row.low is None or row.high is None else f", between {number(row.low)} and {number(row.high)}"
    after = "" if row.ruled_out_after is None else f" after {row.ruled_out_after} runs"
    return f"{level_name(row)}, {row.standing}{after}, loses {number(row.loss)}{span}, {row.n_runs} runs"


def _largest_loss(rows: Sequence[EffectRow]) -> float:
    return max(abs(row.loss or 0.0) for row in rows)


ELIMINATION_KEY = "elimination"


def elimination(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A bar for each level, as long as it was in play.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> "when a block of runs is complete" in elimination("oven", study.state).alt
    True
    """
    seen = seen or Seen(name, state)
    facts = elimination_facts(seen)
    if facts.nothing is not None:
        return placeholder(ELIMINATION_KEY, width, facts)
    rows, now = seen.effects, seen.n_runs
    canvas = Canvas(ELIMINATION_KEY, width)
    top = legend(canvas, _elimination_entries(rows)) + 22
    parts = factor_parts(rows, top, _first_out)
    bottom, labels = parts_end(parts), label_column(canvas, parts)
    scale = Scale(0.0, float(max(now, 1)), labels, width - 46.0)
    x_axis(canvas, scale, top, bottom, above=True)
    x_axis(canvas, scale, top, bottom, "runs")
    canvas.line(scale(now), top, scale(now), bottom, "c-zero")
    draw_heads(canvas, parts)
    for y, row in (level for part in parts for level in part.levels):
        end = now if row.ruled_out_after is None else row.ruled_out_after
        kind, mark = LOOKS[row.standing]
        with canvas.group(_elimination_words(row, now), f"c-row {kind}", (0, y - ROW / 2, width, ROW)):
            draw_label(canvas, y, row, labels)
            fill = canvas.hatched(kind) if mark == "circle" else None
            looks = {"diamond": "c-fill", "circle": "c-edge", "cross": "c-soft"}[mark]
            canvas.rect(labels, y - 6, scale(end) - labels, 12, looks, fill)
            if mark == "cross":
                canvas.mark("cross", scale(end), y, 4)
                canvas.text(scale(end) + 8, y, f"{end:,}", "c-muted", size=SMALL)
    canvas.height = bottom + 40
    order = "Factors that lost a level first come first"
    return canvas.chart(replace(facts, caption=facts.caption + left_out(parts, rows, order)))


def _elimination_words(row: EffectRow, now: int) -> str:
    if row.ruled_out_after is not None:
        return f"{level_name(row)}, ruled out after {row.ruled_out_after:,} runs"
    return f"{level_name(row)}, {row.standing} after {now:,} runs"


def _first_out(rows: Sequence[EffectRow]) -> float:
    return -min((row.ruled_out_after for row in rows if row.ruled_out_after is not None), default=2**62)


def _elimination_entries(rows: Sequence[EffectRow]) -> list[Entry]:
    signs = {"diamond": "bar", "circle": "hatch", "cross": "cross"}
    found = []
    for standing, (kind, mark) in LOOKS.items():
        if any(row.standing == standing for row in rows):
            text = "ruled out after so many runs" if standing == "ruled out" else standing
            found.append((kind, signs[mark], text))
    return found
