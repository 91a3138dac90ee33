"""What each level loses against the leading one."""

import math
from collections.abc import Sequence
from dataclasses import replace

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Seen, effects_facts
from levers.studies.plots.text import number
from levers.studies.views import EffectRow
from levers.web.charts.axes import Entry, legend, placeholder, x_axis
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import NARROW, WIDE, Chart
from levers.web.charts.level_rows import (
    LOOKS,
    ROW,
    Part,
    draw_heads,
    draw_label,
    factor_parts,
    label_column,
    left_out,
    level_name,
    parts_end,
)
from levers.web.charts.scales import Scale, spanned
from levers.web.charts.text import SMALL

KEY = "effects"


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
        return placeholder(KEY, width, facts)
    rows, tolerance = seen.effects, state.spec.tolerance
    canvas = Canvas(KEY, width)
    top = legend(canvas, _entries(rows, tolerance)) + 22
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
        with canvas.group(_words(row), f"c-row {kind}", (0, y - ROW / 2, canvas.width, ROW)):
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


def _entries(rows: Sequence[EffectRow], tolerance: float | None) -> list[Entry]:
    standings = [s for s in LOOKS if any(row.standing == s for row in rows)]
    found = [(*LOOKS[standing], standing) for standing in standings]
    return found if tolerance is None else [*found, ("c-band", "band", f"tolerance {tolerance:g}")]


def _words(row: EffectRow) -> str:
    if row.loss is None:
        return f"{level_name(row)}, {row.standing}, loss not known, {row.n_runs} runs"
    span = "" if row.low is None or row.high is None else f", between {number(row.low)} and {number(row.high)}"
    after = "" if row.ruled_out_after is None else f" after {row.ruled_out_after} runs"
    return f"{level_name(row)}, {row.standing}{after}, loses {number(row.loss)}{span}, {row.n_runs} runs"


def _largest_loss(rows: Sequence[EffectRow]) -> float:
    return max(abs(row.loss or 0.0) for row in rows)
