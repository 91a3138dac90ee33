"""Axes with one row for each level, under the name of its factor."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from levers.studies.plots.picture import GREY, new_axes
from levers.studies.plots.text import label
from levers.studies.views import EffectRow

MAX_ROWS = 500
"""The most levels that are drawn: more would make an image that few programs open."""

ROW = 0.21  # inches
MARKS = {"leading": "D", "chosen": "D", "in play": "o", "not chosen": "o", "ruled out": "x"}
"""The marker of each standing, so that none is told by colour alone."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The axes, and where on them each level is."""

    figure: Figure
    axes: Axes
    places: Sequence[tuple[float, EffectRow]]
    struck: Sequence[Text]

    def of(self, standing: str) -> list[tuple[float, EffectRow]]:
        """The levels that stand so."""
        return [(y, row) for y, row in self.places if row.standing == standing]


def level_rows(rows: Sequence[EffectRow]) -> Rows:
    """Axes whose height grows with the rows; levels that were ruled out are grey, and to be struck out."""
    places: list[tuple[float, EffectRow]] = []
    ticks: list[tuple[float, str, EffectRow | None]] = []
    bounds: list[float] = []
    y, last = 0.0, None
    for row in rows[:MAX_ROWS]:
        if row.factor != last:
            bounds.append(y - 0.5)
            ticks.append((y, label(row.factor), None))
            y, last = y + 1, row.factor
        places.append((y, row))
        ticks.append((y, label(row.level), row))
        y += 1
    figure, axes = new_axes(1.6 + ROW * y)
    axes.set_ylim(y - 0.5, -0.5)
    axes.set_yticks([at for at, _, _ in ticks], [text for _, text, _ in ticks], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    if y > 30:
        axes.tick_params(axis="x", top=True, labeltop=True)
    for begin, end in zip(bounds[1::2], [*bounds[2::2], y - 0.5], strict=False):
        axes.axhspan(begin, end, color="#F2F2F2", zorder=0, linewidth=0)
    struck = []
    for text, (_, _, found) in zip(axes.get_yticklabels(), ticks, strict=True):
        if found is None:
            text.set_fontweight("bold")
        elif found.standing == "ruled out":
            text.set_color(GREY)
            struck.append(text)
    return Rows(figure, axes, places, struck)
