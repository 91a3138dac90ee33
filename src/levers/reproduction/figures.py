"""The paper's figures from a reproduction: runs above, average gap below, one column for each panel.

A figure has the methods of the paper's own and cfs, at most five lines; the others are in a second one beside modl.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from levers.charts.looks import drawable, families
from levers.charts.svg import plain
from levers.errors import InvalidSettingError, to_install
from levers.experiments.compare import Comparison
from levers.reproduction.results import write_whole
from levers.reproduction.run import Reproduction
from levers.reproduction.sweeps import MODL, OTHERS, SWEEPS

if TYPE_CHECKING:  # matplotlib is an extra, imported where something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOLERANCE = Comparison.tolerance
"""The gap that every method may have, drawn as a dashed line."""
WIDTH = 7.0
"""Inches: a page of a paper, so that 8 points are 8 points in print."""
DPI = 200
"""Dots per inch of the PNG files."""
LARGE_SPREAD = 10.0
"""Largest over smallest mean runs from which on the axis is logarithmic."""
SECOND = "-others"
"""What the name of a second figure ends with."""
_POINTS = 8.0  # the size of all text
_GAP_TICKS = (0.5, 1.0, 0.1, 2.0, 5.0, 0.2, 0.05, 0.01, 10.0, 20.0, 50.0, 100.0)
"""Ticks of the axis of gaps, the most useful ones first."""
_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("font.size", "axes.titlesize", "xtick.labelsize", "ytick.labelsize"), _POINTS),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    "ytick.minor.width": 0.4,
    "lines.scale_dashes": False,  # a bolder line keeps its pattern
    "figure.dpi": DPI,  # the layout is made at the size that is drawn
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.fonttype": "path",
    "svg.hashsalt": "levers",
}
"""Settings of matplotlib, so that the same results give the same file everywhere."""


@dataclass(frozen=True)
class Style:
    """A line of a figure. Markers and dashes differ as colours do, so that print without colour is enough."""

    colour: str
    marker: str
    dashes: tuple[float, ...] = ()
    hollow: bool = False
    size: float = 4.5


@dataclass(frozen=True)
class Reference:
    """A line without points in the upper row: a column of the summary, what it is called, and how it is dashed."""

    column: str
    label: str
    dashes: tuple[float, ...] = (1, 1.4)
    colour: str = "#000000"


LIMIT = Reference("limit", "limit of balanced designs")
CEILING = Reference("ceiling", "bound on modl, corrected", (3, 1, 1, 1), "#8C3D00")
THEOREM = Reference("bound", "bound on modl of the theorem", (6, 1.5, 1, 1.5), "#8C3D00")
NEEDLE = (
    Reference("limit", "lower bound if told the height"),
    Reference("bound", "theorem's bound, flat world", (6, 1.5, 1, 1.5), "#8C3D00"),
)

STYLES: dict[str, Style] = {
    "cfs": Style("#0072B2", "o"),
    "modl": Style("#D55E00", "s", (5, 1.5), size=4.0),
    "modl, algorithm-1": Style("#E69F00", "^", (5, 1.5, 1, 1.5), hollow=True, size=5.0),
    "modl, proof": Style("#CC79A7", "v", (5, 1.5, 1, 1.5, 1, 1.5), hollow=True, size=5.0),
    "parents-first": Style("#009E73", "D", (8, 2), hollow=True, size=4.0),
    "oracle": Style("#000000", "P", (2.5, 1.2), hollow=True, size=5.5),
    "observational-regression": Style("#56B4E9", "X", (1.2, 1.2), size=5.0),
    "successive-elimination": Style("#882255", ">", (8, 2, 2, 2), size=5.0),
    "naive search": Style("#6E6E6E", "<", (4, 1.2, 4, 3), hollow=True, size=5.0),
}
"""Okabe and Ito's colours, without their yellow, which is lost on white paper; a wine red and a grey are the rest."""

OTHER = Style("#444444", "h", (3, 3), hollow=True)
"""The style of any other contender."""


def check_can_draw() -> None:
    """Refuse to begin what would end in figures where there is nothing to draw them with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InvalidSettingError(f"figures need matplotlib: {to_install('figures')}") from error


def draw_figures(reproduction: Reproduction, folder: str | Path) -> list[Path]:
    """One figure for each experiment that has results, as PNG and SVG. The same results give the same SVG bytes."""
    check_can_draw()
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, points in figures(reproduction).items():
            for suffix, content in rendered(name, points).items():
                paths.append(target / f"{name}{suffix}")
                write_whole(paths[-1], content)
    except OSError as error:
        raise InvalidSettingError(f"cannot write to {target}: {error.strerror or error}") from None
    return paths


def drawn(reproduction: Reproduction) -> list[str]:
    """The experiments that there are results of, in the order of the report."""
    found = set(reproduction.runs["experiment"])
    return [name for name in reproduction.names if name in found]


def figures(reproduction: Reproduction) -> dict[str, pl.DataFrame]:
    """The figures by name, each with the part of the summary that it shows."""
    found, summary = {}, reproduction.summary
    for name in drawn(reproduction):
        points = summary.filter(pl.col("experiment") == name)
        first = points.filter(~pl.col("contender").is_in(OTHERS))
        second = points.filter(pl.col("contender").is_in([MODL.label, *OTHERS]))
        if first.is_empty() or set(second["contender"]) <= {MODL.label}:
            found[name] = points
            continue
        found[name] = first
        # panels in which there are no others say nothing new
        panels = second.filter(pl.col("contender") != MODL.label)["panel"].unique()
        found[name + SECOND] = second.filter(pl.col("panel").is_in(panels.to_list()))
    return found


def experiment_of(figure: str) -> str:
    """The experiment that a figure belongs to.

    >>> experiment_of("parents-others"), experiment_of("parents")
    ('parents', 'parents')
    """
    return figure.removesuffix(SECOND)


def references(figure: str) -> tuple[Reference, ...]:
    """The lines of a figure that were computed, not measured."""
    if experiment_of(figure) == "hardness":
        return NEEDLE
    return (LIMIT, THEOREM) if figure.endswith(SECOND) else (LIMIT, CEILING)


def alt_text(name: str, points: pl.DataFrame) -> str:
    """A figure in words, for people who cannot see it.

    >>> points = pl.DataFrame({"panel": ["K = 4", "K = 4"], "contender": ["cfs", "cfs"], "runs": [90.0, 1200.0]})
    >>> alt_text("elimination", points)
    'Whole assignments as arms: successive elimination. Mean runs and mean gap against parents of the outcome; panels:
    K = 4. Mean runs: cfs 90 to 1,200.'
    """
    sweep = SWEEPS[experiment_of(name)]
    panels = "; ".join(points["panel"].unique(maintain_order=True))
    spans = []
    for contender in in_order(points["contender"]):
        runs = points.filter(pl.col("contender") == contender)["runs"].to_list()
        low, high = f"{min(runs):,.0f}", f"{max(runs):,.0f}"
        spans.append(f"{contender} {low if low == high else f'{low} to {high}'}")
    title = f"{sweep.title}{', other methods' if name.endswith(SECOND) else ''}"
    what = f"{title}. Mean runs and mean gap against {sweep.x_label}; panels: {panels}."
    return f"{what} Mean runs: {'; '.join(spans)}."


def rendered(name: str, points: pl.DataFrame) -> dict[str, bytes]:
    """A figure as files, by suffix. `points` is the part of a summary that it shows."""
    from matplotlib import style

    alt = alt_text(name, points)
    with style.context(["default", {"font.family": list(families()), **_SETTINGS}]):
        figure = draw(points, SWEEPS[experiment_of(name)].x_label, references(name))
        image, drawing = BytesIO(), BytesIO()
        figure.savefig(image, format="png", dpi=DPI, metadata={"Software": None, "Description": alt})
        figure.savefig(drawing, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return {".png": image.getvalue(), ".svg": _with_words(drawing.getvalue().decode(), alt).encode()}


def draw(points: pl.DataFrame, x_label: str, computed: Sequence[Reference]) -> "Figure":
    """Runs in the upper row, gaps in the lower one, a legend outside the axes."""
    from matplotlib.figure import Figure

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
        for reference in computed:
            _plot_reference(upper, here, reference)
        lower.axhline(TOLERANCE, color="black", linewidth=0.7, dashes=(4, 3), zorder=1)
        scale_x(lower, xs, 7 if len(panels) > 2 else 12)
    shown = [reference for reference in computed if not _reference_points(points, reference).is_empty()]
    scale_runs(grid[0, 0], points, shown)
    scale_gap(grid[1, 0], points)
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
        grid[1, 0].set_xlabel(drawable(x_label))
    else:
        figure.supxlabel(drawable(x_label), fontsize=_POINTS)
    _legend(figure, contenders, shown, len(panels) == 1)
    return figure


def _shift(xs: Sequence[float], place: int, of: int) -> float:
    """A little to the side, so that equal results lie beside and not under each other."""
    room = min(0.08 * (xs[-1] - xs[0]), 0.4 * min(b - a for a, b in pairwise(xs))) if len(xs) > 1 else 0.5
    return room * ((place + 0.5) / of - 0.5)


def _plot(axes: "Axes", line: pl.DataFrame, quantity: str, contender: str, shift: float) -> None:
    if line.is_empty():
        return
    middle = line[quantity].to_numpy()
    errors = line[f"{quantity}_se"].fill_null(0.0).to_numpy()  # one world alone has none
    drawn = axes.errorbar(line["x"].to_numpy() + shift, middle, yerr=errors, capsize=1.8, **_looks(contender))
    for bar in drawn.lines[2]:
        bar.set(linewidth=0.8, linestyle="-")


def _reference_points(here: pl.DataFrame, reference: Reference) -> pl.DataFrame:
    """The line by panel and x. Bounds on modl are those of its own row: other schedules have others."""
    known = here.drop_nulls(reference.column)
    own = known.filter(pl.col("contender") == MODL.label)
    known = own if reference.column != "limit" and not own.is_empty() else known
    return known.group_by("panel", "x").agg(pl.col(reference.column).mean().alias("y")).sort("panel", "x")


def _plot_reference(axes: "Axes", here: pl.DataFrame, reference: Reference) -> None:
    line = _reference_points(here, reference)
    xs, ys = line["x"].to_list(), line["y"].to_list()
    if len(xs) == 1:  # a line needs two ends
        xs, ys = [xs[0] - 0.3, xs[0] + 0.3], ys * 2
    if xs:
        axes.plot(xs, ys, color=reference.colour, linewidth=0.9, dashes=reference.dashes, zorder=1.5)


def _legend(figure: "Figure", contenders: Sequence[str], computed: Sequence[Reference], beside: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=drawable(plain(name)), **_looks(name)) for name in contenders]
    handles += [
        Line2D([], [], color=line.colour, linewidth=0.9, dashes=line.dashes, label=drawable(line.label))
        for line in computed
    ]
    label = f"tolerance {TOLERANCE:g} (gap)"
    handles.append(Line2D([], [], color="black", linewidth=0.7, dashes=(4, 3), label=label))
    looks: dict[str, Any] = {"fontsize": _POINTS, "frameon": False, "handlelength": 3.6, "ncols": 1 if beside else 3}
    looks["loc"] = "outside right upper" if beside else "outside upper center"
    figure.legend(handles=handles, **looks).set_gid("legend")


def _looks(contender: str) -> dict[str, Any]:
    look = STYLES.get(contender, OTHER)
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


def in_order(contenders: Iterable[str]) -> list[str]:
    """Contenders, each once, in the order of all legends and tables; unknown ones last.

    >>> in_order(["oracle", "new", "cfs", "oracle"])
    ['cfs', 'oracle', 'new']
    """
    found = list(dict.fromkeys(contenders))
    return [name for name in STYLES if name in found] + [name for name in found if name not in STYLES]


def scale_runs(axes: "Axes", points: pl.DataFrame, computed: Sequence[Reference]) -> None:
    """Logarithmic if the lines are far apart. An error bar that would reach down to zero leaves the axes."""
    from matplotlib.ticker import LogLocator, NullFormatter

    runs = points["runs"].to_numpy()
    errors = points["runs_se"].fill_null(0.0).to_numpy()
    lines = [y for reference in computed for y in _reference_points(points, reference)["y"]]
    lowest = min([*np.maximum(runs - errors, runs / 4), *lines])
    highest = max([*(runs + errors), *lines])
    axes.yaxis.set_major_formatter(short)
    if lowest <= 0 or highest < LARGE_SPREAD * lowest:
        axes.set_ylim(0, 1.08 * max(highest, 1.0))
        return
    axes.set_yscale("log", nonpositive="clip")
    decades = math.log10(highest / lowest)
    margin = 10 ** (0.05 * decades)
    axes.set_ylim(lowest / margin, highest * margin)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,), numticks=12))
    axes.yaxis.set_minor_locator(LogLocator(10, subs=range(2, 10), numticks=12))
    axes.yaxis.set_major_formatter(short)  # the change of scale has reset it
    axes.yaxis.set_minor_formatter(NullFormatter())


def scale_gap(axes: "Axes", points: pl.DataFrame) -> None:
    """The square root of the gap: small gaps can be told apart, zero stays on the axis, and so does the tolerance."""
    from matplotlib.ticker import FixedLocator

    errors = points["gap_se"].fill_null(0.0).to_numpy()
    top = 1.15 * max(TOLERANCE, float(np.max(points["gap"].to_numpy() + errors)))
    there, back = (lambda gap: np.sign(gap) * np.sqrt(np.abs(gap))), (lambda root: np.sign(root) * np.square(root))
    axes.set_yscale("function", functions=(there, back))
    axes.set_ylim(-0.004 * top, top)
    axes.yaxis.set_major_locator(FixedLocator(gap_ticks(top)))
    axes.yaxis.set_minor_locator(FixedLocator([]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def gap_ticks(top: float, apart: float = 0.13) -> list[float]:
    """Round gaps, none so near to another that their labels would touch.

    >>> gap_ticks(0.575), gap_ticks(20.0)
    ([0.0, 0.01, 0.1, 0.2, 0.5], [0.0, 0.5, 2.0, 5.0, 10.0, 20.0])
    """
    ticks = [0.0]
    for tick in _GAP_TICKS:
        if tick <= top and all(abs(math.sqrt(tick / top) - math.sqrt(other / top)) >= apart for other in ticks):
            ticks.append(tick)
    return sorted(ticks)


def scale_x(axes: "Axes", xs: Sequence[float], most: int) -> None:
    """Ticks at the points, thinned from the right where there are too many to be read."""
    step = -(-len(xs) // most)
    axes.set_xticks(xs[::-1][::step], [f"{x:g}" for x in xs[::-1][::step]])
    margin = 0.07 * (xs[-1] - xs[0]) or 0.6
    axes.set_xlim(xs[0] - margin, xs[-1] + margin)


def short(value: float, _: object = None) -> str:
    """A number of runs on an axis.

    >>> short(500), short(2500), short(40_000), short(3e7)
    ('500', '2.5k', '40k', '30M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _with_words(drawing: str, alt: str) -> str:
    """The drawing with its words for people who cannot see it, as a label and as a title."""
    words = escape(alt)
    before, attributes, after = re.split(r"<svg ([^>]*>)", drawing, maxsplit=1)
    return f'{before}<svg role="img" aria-label="{words}" {attributes}\n <title>{words}</title>{after}'
