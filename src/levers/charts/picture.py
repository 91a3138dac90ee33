"""Charts as files (PNG, SVG, HTML), drawn with matplotlib."""

import math
import os
import re
import textwrap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from io import BytesIO
from itertools import groupby
from typing import Any

import numpy as np

from levers.charts import check_facts, facts, looks
from levers.charts.check_facts import InOrder
from levers.charts.facts import MOST_ROWS, Facts, History, LevelMark, Levels, RunsOnly, Steps, cut_note
from levers.charts.html import html_page, table
from levers.charts.looks import COLOURS, FAR, STANDINGS, USUAL, drawable, families
from levers.charts.svg import clipped
from levers.charts.view import StudyView
from levers.core.validation import check_choice
from levers.errors import InvalidSettingError, to_install
from levers.studies.run import AnyStudy
from levers.studies.sheets.files import target_of, whole_file
from levers.studies.state import StudyState

try:
    from matplotlib import style
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text
except ImportError as error:
    raise InvalidSettingError(f"pictures need matplotlib: {to_install('figures')}") from error

WIDTH, SOFT = 8.0, 0.25
"""Inches, and the opacity of what is drawn lightly."""
MOST_DAYS = 120
"""The most days that are divided by lines: more would run together."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure. `struck` are labels to be struck out, which needs the layout to be known.

    `note` is what the caption has to add about how it is drawn.
    """

    figure: Figure
    note: str = ""
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


def placeholder(why: str) -> Picture:
    """A picture that only says why there is nothing to show."""
    figure, axes = new_axes(2.4)
    axes.set_axis_off()
    axes.text(0.5, 0.5, textwrap.fill(why, 70), ha="center", va="center", fontsize=12, transform=axes.transAxes)
    return Picture(figure)


MAX_ROWS = 500
"""The most levels that are drawn: more would make an image that few programs open."""

ROW = 0.21  # inches


@dataclass(frozen=True, eq=False)
class Rows:
    """The axes, and where on them each level is."""

    figure: Figure
    axes: Axes
    places: Sequence[tuple[float, LevelMark]]
    struck: Sequence[Text]

    def of(self, standing: str) -> list[tuple[float, LevelMark]]:
        """The levels that stand so."""
        return [(y, mark) for y, mark in self.places if mark.row.standing == standing]


def level_rows(marks: Sequence[LevelMark]) -> Rows:
    """Axes whose height grows with the rows; levels that were ruled out are grey, and to be struck out."""
    places: list[tuple[float, LevelMark]] = []
    ticks: list[tuple[float, str, str | None]] = []
    bounds: list[float] = []
    y, last = 0.0, None
    for mark in marks[:MAX_ROWS]:
        if mark.row.factor != last:
            bounds.append(y - 0.5)
            ticks.append((y, mark.factor, None))
            y, last = y + 1, mark.row.factor
        places.append((y, mark))
        ticks.append((y, mark.level, mark.row.standing))
        y += 1
    figure, axes = new_axes(1.6 + ROW * y)
    axes.set_ylim(y - 0.5, -0.5)
    axes.set_yticks([at for at, _, _ in ticks], [drawable(clipped(text)) for _, text, _ in ticks], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    if y > 30:
        axes.tick_params(axis="x", top=True, labeltop=True)
    for begin, end in zip(bounds[1::2], [*bounds[2::2], y - 0.5], strict=False):
        axes.axhspan(begin, end, color="#F2F2F2", zorder=0, linewidth=0)
    struck = []
    for text, (_, _, standing) in zip(axes.get_yticklabels(), ticks, strict=True):
        if standing is None:
            text.set_fontweight("bold")
        elif standing == "ruled out":
            text.set_color(STANDINGS[standing].colour)
            struck.append(text)
    return Rows(figure, axes, places, struck)


def draw_effects(data: Levels) -> Picture:
    """A dot for each level with its interval, grouped by factor."""
    drawn = level_rows(data.marks)
    for standing in STANDINGS:
        _dots(drawn, standing)
    axes, tolerance = drawn.axes, data.tolerance
    _usual_intervals(drawn)
    axes.axvline(0, color="black", linewidth=1, zorder=1)
    if tolerance is not None:
        look: dict[str, Any] = {"color": COLOURS["c-band"], "alpha": SOFT, "linewidth": 0}
        axes.axvspan(0, tolerance, zorder=0.5, label=data.tolerance_words, **look)
    axes.set_xlabel(data.axis)
    axes.grid(True, axis="x", alpha=0.3)
    return Picture(drawn.figure, cut_note(len(drawn.places), len(data.marks)), drawn.struck)


def _dots(drawn: Rows, standing: str) -> None:
    places, losses, below, above = [], [], [], []
    for y, mark in drawn.of(standing):
        loss, low, high = mark.row.loss, mark.row.low, mark.row.high
        if loss is None:
            drawn.axes.annotate("not known", (0, y), (4, 0), textcoords="offset points", fontsize=7, va="center")
            continue
        places.append(y)
        losses.append(loss)
        below.append(math.nan if low is None or high is None else loss - low)
        above.append(math.nan if low is None or high is None else high - loss)
    if not places:
        return
    span, look = None if all(map(math.isnan, below)) else (below, above), STANDINGS[standing]
    style: dict[str, Any] = {"color": look.colour, "elinewidth": 1.2, "capsize": 2, "zorder": 3, "label": standing}
    style["markerfacecolor"] = "white" if look.mark == "circle" else look.colour
    size = 6 if look.mark == "diamond" else 5
    drawn.axes.errorbar(losses, places, xerr=span, fmt=look.marker, markersize=size, **style)


def _usual_intervals(drawn: Rows) -> None:
    label = USUAL.label
    for standing, look in STANDINGS.items():
        rows = [(y, mark.row.usual_low, mark.row.usual_high) for y, mark in drawn.of(standing)]
        known = [(y, low, high) for y, low, high in rows if low is not None and high is not None and low < high]
        if known:
            places, lows, highs = zip(*known, strict=True)
            style: dict[str, Any] = {"color": look.colour, "alpha": 0.5, "linewidth": 3.5, "zorder": 2.5}
            drawn.axes.hlines(places, lows, highs, label=label, **style)
            label = "_"  # once in the legend


def draw_elimination(data: Levels) -> Picture:
    """A bar for each level, as long as it was in play."""
    drawn = level_rows(data.marks)
    axes = drawn.axes
    for standing, look in STANDINGS.items():
        places = [y for y, _ in drawn.of(standing)]
        ends = [data.end_of(mark) for _, mark in drawn.of(standing)]
        if not places:
            continue
        style: dict[str, Any] = {"color": look.colour, "label": standing, "edgecolor": "white", "linewidth": 0}
        if look.mark == "cross":
            style |= {"color": (look.colour, SOFT), "label": "ruled out, at the cross"}
        axes.barh(places, ends, height=0.6, hatch="///" if look.mark == "circle" else None, **style)
        if look.mark == "cross":
            axes.plot(ends, places, "x", color=look.colour, markersize=5, clip_on=False)
            for y, end in zip(places, ends, strict=True):
                axes.annotate(f"{end:,}", (end, y), (6, 0), textcoords="offset points", fontsize=7.5, va="center")
    axes.set_xlim(0, max(data.now, 1))
    axes.axvline(data.now, color=COLOURS["c-gone"], linewidth=1, linestyle=":")
    axes.set_xlabel("runs")
    return Picture(drawn.figure, cut_note(len(drawn.places), len(data.marks)), drawn.struck)


def draw_forecast(data: Steps | RunsOnly) -> Picture:
    """What could be certified after each round, and the runs still to go."""
    if isinstance(data, RunsOnly):
        return _counted(data)
    figure, axes = new_axes(4.5)
    runs, reached = [x for x, _ in data.points], [y for _, y in data.points]
    look, now = looks.CERTIFIED, data.look
    last = reached[-1] if reached else data.now_within
    axes.step([*runs, data.now], [*reached, last], where="post", color=look.colour, linewidth=1.2)
    axes.plot(runs, reached, look.marker, color=look.colour, markersize=4, label=look.label)
    axes.plot([data.now], [data.now_within], now.marker, color=now.colour, markersize=8, label=now.label)
    if data.tolerance is not None:
        text = data.tolerance_words
        axes.axhline(data.tolerance, color="black", linestyle="--", linewidth=1, label=text)
    if data.end is not None:
        likely, latest = data.end
        if latest > likely:
            look = looks.LIKELY_TO_WORST
            axes.axvspan(likely, latest, color=look.colour, alpha=0.35, hatch="//", linewidth=0, label=look.label)
        text = "the end: likely" if latest > likely else looks.END.label
        axes.axvline(likely, color=looks.END.colour, linewidth=1.5, linestyle="-.", label=text)
    if data.log:
        _log_axis(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("runs")
    axes.set_ylabel(data.axis)
    axes.grid(True, alpha=0.3)
    return Picture(figure)


def _counted(data: RunsOnly) -> Picture:
    """Runs only: these algorithms certify nothing before they end."""
    figure, axes = new_axes(2.6)
    begin = 0
    for look, n in data.bars:
        style: dict[str, Any] = {"color": look.colour}
        if look.mark == "hatch":
            style |= {"hatch": "//", "edgecolor": "white"}
        elif look.mark == "empty":
            style = {"color": "white", "edgecolor": look.colour, "linestyle": "--"}
        axes.barh([0], [n], left=begin, label=look.label, **style)
        begin += n
    axes.set_yticks([])
    axes.set_ylim(-0.7, 0.7)
    axes.set_xlabel("runs")
    return Picture(figure)


def _log_axis(axes: Axes) -> None:
    """A logarithmic axis upwards, with plain numbers at it."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}" if f"{y:e}"[0] in "25" else "")


def draw_history(data: History) -> Picture:
    """A dot for each outcome, the mean of each round, and what is predicted at the best setting."""
    found, best = data.outcomes, data.predicted
    figure, axes = new_axes(4.5)
    n = len(found.values)
    at, small = np.arange(1, n + 1), n > MOST_ROWS
    size, shade = (max(24_000 / n, 1.5), 0.4) if small else (12.0, 0.7)
    for which, look in ((~found.aside, looks.OUTCOME), (found.aside, looks.SET_ASIDE)):
        if which.any():
            style: dict[str, Any] = {"color": look.colour, "marker": look.marker}
            lines = 0 if look.mark == "dot" else 1
            axes.scatter(at[which], found.values[which], size, alpha=shade, linewidths=lines, rasterized=small, **style)
            axes.scatter([], [], 12, label=look.label, **style)  # for the legend, where a speck is not seen
    begins, ends, look = np.add(found.starts[:-1], 0.5), np.add(found.starts[1:], 0.5), looks.ROUND_MEAN
    axes.hlines(found.means, begins, ends, color=look.colour, linewidth=2, label=look.label)
    _boundaries(axes, data)
    if best is not None:
        low, predicted, high = best
        look, span = looks.PREDICTED, ([predicted - low], [high - predicted])
        axes.errorbar([1 + 1.04 * n], [predicted], span, fmt="D", color=look.colour, capsize=4, label=look.label)
    axes.set_xlim(0, 2 + 1.08 * n)
    axes.set_xlabel("run")
    axes.set_ylabel(data.axis)
    if found.scale.is_log:
        _log_axis(axes)
    axes.grid(True, axis="y", alpha=0.3)
    return Picture(figure, " So many are drawn as one image, and tables list rounds." if small else "")


def _boundaries(axes: Axes, data: History) -> None:
    """Thin lines between rounds, and the name of each stage that has one; neither where they would run together."""
    found, drawn, free = data.outcomes, 0, 0.0
    n = len(found.values)
    for begin in found.starts[1:-1]:
        if begin - drawn >= n / 120:
            axes.axvline(begin + 0.5, color="black", linewidth=0.6, linestyle=(0, (2, 3)), alpha=0.6, zorder=0)
            drawn = begin
    blocks = [(begin, end, data.stages[found.blocks[begin]]) for begin, end in found.spans]
    for stage, group in groupby(blocks, key=lambda block: block[2]):
        if not stage:
            continue
        parts = list(group)
        at = max(float(parts[0][0]), free)
        width = n * (0.02 + 0.0105 * len(stage))  # about that of so many letters
        if at + width <= parts[-1][1] or at == 0:
            place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(stage, (at + 0.5, 1), (3, 2), fontsize=8, **place)
            free = at + width


def draw_residuals(data: InOrder) -> Picture:
    """What each run leaves over, by its trial, with lines between days and the numbers of those that stand out."""
    figure, axes = new_axes(4.5)
    trials, residual = np.array(data.trials), np.array(data.residual)
    far = np.abs(np.array(data.standardised)) > FAR
    if data.noise_sd is not None:
        band: dict[str, Any] = {"color": COLOURS["c-band"], "alpha": SOFT, "linewidth": 0, "label": "two noise sds"}
        axes.axhspan(-2 * data.noise_sd, 2 * data.noise_sd, zorder=0, **band)
    for which, look in ((~far, looks.RESIDUAL), (far, looks.FAR_RESIDUAL)):
        if which.any():
            style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "label": look.label}
            axes.plot(trials[which], residual[which], linestyle="", markersize=4.5, markerfacecolor="white", **style)
    axes.axhline(0, color="black", linestyle="--", linewidth=1, label=looks.SHOULD_BE.label)
    for day in data.days if len(data.days) <= MOST_DAYS else ():
        axes.axvline(day - 0.5, color="black", linewidth=0.6, linestyle=(0, (2, 3)), alpha=0.6, zorder=0)
    for trial, left in zip(data.trials, data.residual, strict=True):
        if trial in data.outliers:
            axes.annotate(str(trial), (trial, left), (6, 3), textcoords="offset points", fontsize=8)
    axes.set_xlabel("trial")
    axes.set_ylabel(data.axis)
    axes.grid(True, axis="y", alpha=0.3)
    return Picture(figure)


_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fafafa; --rule: #cccccc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --rule: #444444; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; }
figure { margin: 0 0 2rem; }
svg { display: block; background: #ffffff; border-radius: 6px; padding: 8px; box-sizing: border-box;
  width: 100%; height: auto; }
figcaption { margin-top: .5rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; display: block;
  overflow-x: auto; }
th, td { border-bottom: 1px solid var(--rule); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top;
  overflow-wrap: normal; } /* a narrow table scrolls: no number breaks in its middle */
@media print { th, td { overflow-wrap: anywhere; } } /* paper does not scroll */
"""
# nothing can be loaded or run, whatever a name says; large pictures hold an image of their own
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


Draw = tuple[Callable[[StudyView], Facts[Any]], Callable[[Any], Picture]]
DRAW: dict[str, Draw] = {
    "effects": (facts.effects_facts, draw_effects),
    "history": (facts.history_facts, draw_history),
    "elimination": (facts.elimination_facts, draw_elimination),
    "forecast": (facts.forecast_facts, draw_forecast),
    "residuals": (check_facts.in_order_facts, draw_residuals),
}
"""Of each picture its facts, and how their data are drawn."""
PLOTS = tuple(DRAW)
"""The pictures there are."""
DPI, _UNSAID = 150, ("Date", "Creator", "Format", "Type")  # what matplotlib would add to a drawing
_SETTINGS = threading.Lock()  # matplotlib keeps its settings in one place for all threads


def drawn(name: str, state: StudyState, kind: str) -> tuple[Facts[Any], Picture]:
    """One of the pictures, and what it says."""
    find, draw = DRAW[kind]
    found = find(StudyView(name, state))
    picture = placeholder(found.alt) if found.data is None else draw(found.data)
    return replace(found, caption=found.caption + picture.note), picture


def rendered(name: str, state: StudyState, kind: str, suffix: str) -> bytes:
    """Draw one of the pictures and turn it into a file."""
    settings: dict[str, Any] = {
        "font.family": list(families()),
        "font.size": 9.5,
        "figure.dpi": DPI,  # the layout is made at the size that is drawn
        "figure.constrained_layout.w_pad": 0.1,
        "figure.constrained_layout.h_pad": 0.08,
        "text.parse_math": False,  # a dollar in a name is a dollar
        "hatch.linewidth": 0.8,
        "svg.fonttype": "path",
        "svg.hashsalt": "levers",
    }
    with _SETTINGS, style.context(["default", settings]):
        said, picture = drawn(name, state, kind)
        add_legend(picture.figure, None if suffix == ".html" else drawable(said.title))
        if suffix != ".html":  # a page has its own
            picture.figure.supxlabel(textwrap.fill(said.caption, 118), fontsize=8)
        _strike(picture)
        file, is_png = BytesIO(), suffix == ".png"
        about = {"Software": None, "Description": said.alt} if is_png else dict.fromkeys(_UNSAID)
        picture.figure.savefig(file, format="png" if is_png else "svg", dpi=DPI, metadata=about)
    if is_png:
        return file.getvalue()
    drawing = _labelled(file.getvalue().decode(), said)
    return (drawing if suffix == ".svg" else _page(said, drawing)).encode()


def _page(said: Facts[Any], drawing: str) -> str:
    """The picture with its caption and its table."""
    svg = drawing[drawing.index("<svg ") :].strip()
    figure = f"<figure>\n{svg}\n<figcaption>{escape(said.caption)}</figcaption>\n</figure>"
    return html_page(said.title, _STYLE, _POLICY, f"{figure}\n{table(said.header, said.rows)}")


def _strike(picture: Picture) -> None:
    """A line through some labels. The layout stays as it is then, or the lines would miss them."""
    figure = picture.figure
    engine = figure.get_layout_engine()
    assert engine is not None  # every figure here is made with one
    engine.execute(figure)
    figure.set_layout_engine(None)
    for text in picture.struck:
        box = text.get_window_extent().transformed(figure.transFigure.inverted())
        y = (box.y0 + box.y1) / 2
        figure.add_artist(Line2D([box.x0, box.x1], [y, y], color=COLOURS["c-gone"], linewidth=0.9))


def _labelled(text: str, said: Facts[Any]) -> str:
    """A drawing that says in words what it shows."""
    words = escape(f"{said.title}. {said.alt}")
    found = re.search(r"<svg [^>]*>", text)
    assert found is not None  # that is how an SVG file begins
    opened = f'<svg role="img" aria-label="{words}" {found[0].removeprefix("<svg ")}\n <title>{words}</title>'
    return text[: found.start()] + opened + text[found.end() :]


SUFFIXES = (".png", ".svg", ".html")
"""How the name of a picture's file may end."""

__all__ = ["PLOTS", "SUFFIXES", "save_plot"]


def save_plot(study: AnyStudy, kind: str, path: str | os.PathLike[str]) -> None:
    """Write one of `PLOTS` as .png, .svg or .html, by the path's suffix. The file is there whole or not at all.

    >>> import levers, tempfile
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plot(study, "effects", f"{folder}/effects.svg")
    ...     os.listdir(folder)
    ['effects.svg']
    >>> save_plot(study, "effects", "effects.pdf")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: cannot write 'effects.pdf': its name must end in .png, .svg or .html
    """
    check_choice("kind", kind, PLOTS)
    target, suffix = target_of(path, SUFFIXES, InvalidSettingError)
    content = rendered(study.name, study.state, kind, suffix)
    with whole_file(target, InvalidSettingError) as file:
        file.write(content)
