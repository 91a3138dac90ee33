"""What the pictures share: what one consists of, its colours, and the one that says why there is nothing to show."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from levers.studies.plots.facts import Facts

BLUE, SKY, ORANGE, RED, GREY = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#6E6E6E"
"""Okabe and Ito's colours, which people with any kind of colour vision tell apart, and a grey that can be read."""

WIDTH = 8.0
"""Inches."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure and what it says. `struck` are labels to be struck out, which needs the layout to be known."""

    figure: Figure
    facts: Facts
    struck: Sequence[Text] = ()


def new_axes(height: float) -> tuple[Figure, Axes]:
    """An empty figure of the usual width."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def add_legend(figure: Figure, title: str | None) -> None:
    """A legend above the axes, where it covers nothing, with the figure's title: apart, the two would overlap."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if handles:
        looks: dict[str, Any] = {"ncols": 4, "fontsize": 8, "frameon": False, "title_fontsize": 11}
        figure.legend(handles, labels, loc="outside upper center", title=title, **looks)
    elif title is not None:
        figure.suptitle(title, fontsize=11)


def note(facts: Facts) -> Picture:
    """A picture that only says why there is nothing to show."""
    figure, axes = new_axes(2.4)
    axes.set_axis_off()
    axes.text(0.5, 0.5, textwrap.fill(facts.alt, 70), ha="center", va="center", fontsize=12, transform=axes.transAxes)
    return Picture(figure, facts)
