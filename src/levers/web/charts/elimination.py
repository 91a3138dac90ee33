"""Which level was ruled out after how many runs."""

from collections.abc import Sequence
from dataclasses import replace

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Seen, elimination_facts
from levers.studies.views import EffectRow
from levers.web.charts.axes import Entry, legend, placeholder, x_axis
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import WIDE, Chart
from levers.web.charts.level_rows import (
    LOOKS,
    ROW,
    draw_heads,
    draw_label,
    factor_parts,
    label_column,
    left_out,
    level_name,
    parts_end,
)
from levers.web.charts.scales import Scale
from levers.web.charts.text import SMALL

KEY = "elimination"


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
        return placeholder(KEY, width, facts)
    rows, now = seen.effects, seen.n_runs
    canvas = Canvas(KEY, width)
    top = legend(canvas, _entries(rows)) + 22
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
        with canvas.group(_words(row, now), f"c-row {kind}", (0, y - ROW / 2, width, ROW)):
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


def _words(row: EffectRow, now: int) -> str:
    if row.ruled_out_after is not None:
        return f"{level_name(row)}, ruled out after {row.ruled_out_after:,} runs"
    return f"{level_name(row)}, {row.standing} after {now:,} runs"


def _first_out(rows: Sequence[EffectRow]) -> float:
    return -min((row.ruled_out_after for row in rows if row.ruled_out_after is not None), default=2**62)


def _entries(rows: Sequence[EffectRow]) -> list[Entry]:
    signs = {"diamond": "bar", "circle": "hatch", "cross": "cross"}
    found = []
    for standing, (kind, mark) in LOOKS.items():
        if any(row.standing == standing for row in rows):
            text = "ruled out after so many runs" if standing == "ruled out" else standing
            found.append((kind, signs[mark], text))
    return found
