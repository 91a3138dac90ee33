"""Charts with a row for each level, under the name of its factor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from levers.studies.plots.facts import cut_note
from levers.studies.views import EffectRow
from levers.web.charts.canvas import Canvas
from levers.web.charts.text import SIZE, fitted, short, text_width

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
