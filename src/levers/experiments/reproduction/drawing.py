"""One experiment's figure. Everything that needs matplotlib is here and in `scales`."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from itertools import pairwise
from typing import Any

import polars as pl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from levers.experiments.comparison import Comparison
from levers.experiments.reproduction.scales import scale_gap, scale_runs, scale_x
from levers.experiments.reproduction.styles import in_order, style_of
from levers.studies.plots.text import drawable, families, plain

WIDTH = 7.0
"""Inches: a page of a paper, so that 8 points are 8 points in print."""

DPI = 200
TOLERANCE = Comparison.tolerance
_SMALL = 8.0


@dataclass(frozen=True)
class Labels:
    """What is written on and said about a figure."""

    x: str
    limit: str
    alt: str


def rendered(points: pl.DataFrame, labels: Labels) -> dict[str, bytes]:
    """A figure as files, by suffix. `points` is the part of a summary that belongs to one experiment."""
    settings: dict[str, Any] = {
        "font.family": list(families()),
        "font.size": _SMALL,
        "axes.titlesize": _SMALL,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "ytick.minor.width": 0.4,
        "xtick.labelsize": _SMALL,
        "ytick.labelsize": _SMALL,
        "lines.scale_dashes": False,  # a bolder line keeps its pattern
        "figure.dpi": DPI,  # the layout is made at the size that is drawn
        "text.parse_math": False,  # a dollar in a name is a dollar
        "svg.fonttype": "path",
        "svg.hashsalt": "levers",
    }
    with style.context(["default", settings]):
        figure = draw(points, labels)
        image, drawing = BytesIO(), BytesIO()
        figure.savefig(image, format="png", dpi=DPI, metadata={"Software": None, "Description": labels.alt})
        figure.savefig(drawing, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return {".png": image.getvalue(), ".svg": _with_words(drawing.getvalue().decode(), labels.alt).encode()}


def draw(points: pl.DataFrame, labels: Labels) -> Figure:
    """Runs in the upper row, gaps in the lower one, a legend outside the axes."""
    panels = points["panel"].unique(maintain_order=True).to_list()
    contenders = in_order(points["contender"])
    figure = Figure(figsize=(WIDTH, 4.0 if len(panels) == 1 else 4.5), layout="constrained")
    grid: Any = figure.subplots(
        2, len(panels), sharex="col", sharey="row", squeeze=False, gridspec_kw={"height_ratios": [3, 2]}
    )
    for column, panel in enumerate(panels):
        here = points.filter(pl.col("panel") == panel).sort("x", maintain_order=True)
        xs = here["x"].unique().sort().to_list()
        upper, lower = grid[0, column], grid[1, column]
        upper.set_title(textwrap.fill(drawable(plain(panel)), 84 // len(panels)))
        for place, contender in enumerate(contenders):
            line = here.filter(pl.col("contender") == contender)
            for axes, quantity in ((upper, "runs"), (lower, "gap")):
                _plot(axes, line, quantity, contender, _shift(xs, place, len(contenders)))
        _plot_limit(upper, here)
        lower.axhline(TOLERANCE, color="black", linewidth=0.7, dashes=(4, 3), zorder=1)
        scale_x(lower, xs, 7 if len(panels) > 2 else 12)
    scale_runs(grid[0, 0], points)
    scale_gap(grid[1, 0], points, TOLERANCE)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, which="major", color="#DDDDDD", linewidth=0.5)
        axes.set_axisbelow(True)
        if axes not in grid[:, 0]:  # the row shares one axis
            axes.tick_params(axis="y", which="both", left=False)
    grid[0, 0].set_ylabel("runs")
    grid[1, 0].set_ylabel("average gap\n(square-root scale)")
    figure.align_ylabels(grid[:, 0])
    if len(panels) == 1:  # a label of the whole figure would be centred under axes and legend together
        grid[1, 0].set_xlabel(drawable(labels.x))
    else:
        figure.supxlabel(drawable(labels.x), fontsize=_SMALL)
    _legend(figure, contenders, labels.limit if points["limit"].is_not_null().any() else None, len(panels) == 1)
    return figure


def _shift(xs: Sequence[float], place: int, of: int) -> float:
    """A little to the side, so that equal results lie beside and not under each other."""
    room = min(0.08 * (xs[-1] - xs[0]), 0.4 * min(b - a for a, b in pairwise(xs))) if len(xs) > 1 else 0.5
    return room * ((place + 0.5) / of - 0.5)


def _looks(contender: str) -> dict[str, Any]:
    look = style_of(contender)
    return {
        "color": look.colour,
        "marker": look.marker,
        "markersize": look.size,
        "markerfacecolor": "white" if look.hollow else look.colour,
        "markeredgecolor": look.colour,
        "markeredgewidth": 0.9,
        "linewidth": 1.3,
        "linestyle": (0, look.dashes) if look.dashes else "-",
    }


def _plot(axes: Axes, line: pl.DataFrame, quantity: str, contender: str, shift: float) -> None:
    if line.is_empty():
        return
    middle = line[quantity].to_numpy()
    errors = line[f"{quantity}_se"].fill_null(0.0).to_numpy()  # one world alone has none
    drawn = axes.errorbar(line["x"].to_numpy() + shift, middle, yerr=errors, capsize=1.8, **_looks(contender))
    for bar in drawn.lines[2]:
        bar.set(linewidth=0.8, linestyle="-")


def _plot_limit(axes: Axes, here: pl.DataFrame) -> None:
    limits = here.drop_nulls("limit").group_by("x").agg(pl.col("limit").mean()).sort("x")
    xs, ys = limits["x"].to_list(), limits["limit"].to_list()
    if len(xs) == 1:  # a line needs two ends
        xs, ys = [xs[0] - 0.3, xs[0] + 0.3], ys * 2
    if xs:
        axes.plot(xs, ys, color="black", linewidth=0.9, dashes=(1, 1.4), zorder=1.5)


def _legend(figure: Figure, contenders: Sequence[str], limit: str | None, beside: bool) -> None:
    handles = [Line2D([], [], label=drawable(plain(name)), **_looks(name)) for name in contenders]
    if limit is not None:
        handles.append(Line2D([], [], color="black", linewidth=0.9, dashes=(1, 1.4), label=drawable(limit)))
    label = f"tolerance {TOLERANCE:g} (gap)"
    handles.append(Line2D([], [], color="black", linewidth=0.7, dashes=(4, 3), label=label))
    looks: dict[str, Any] = {"fontsize": _SMALL, "frameon": False, "handlelength": 3.6, "ncols": 1 if beside else 3}
    looks["loc"] = "outside right upper" if beside else "outside upper center"
    figure.legend(handles=handles, **looks).set_gid("legend")


def _with_words(drawing: str, alt: str) -> str:
    words = escape(alt)
    found = re.search(r"<svg [^>]*>", drawing)
    assert found is not None  # that is how an SVG file begins
    opened = f'<svg role="img" aria-label="{words}" {found[0].removeprefix("<svg ")}\n <title>{words}</title>'
    return drawing[: found.start()] + opened + drawing[found.end() :]
