"""Charts as files (PNG, SVG, HTML), drawn with matplotlib."""

import math
import os
import re
import textwrap
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from levers.charts.facts import (
    MANY,
    Facts,
    Outcomes,
    RunsOnly,
    Seen,
    Steps,
    cut_note,
    drawable,
    effects_facts,
    elimination_facts,
    families,
    forecast_facts,
    history_facts,
    label,
)
from levers.core.validation import check_choice
from levers.errors import InvalidSettingError
from levers.studies.analysis.views import EffectRow
from levers.studies.state import StudyState
from levers.studies.study import Study

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


EFFECTS_COLOURS = {"leading": BLUE, "chosen": BLUE, "in play": RED, "not chosen": RED, "ruled out": GREY}


def draw_effects(name: str, state: StudyState) -> Picture:
    """A dot for each level with its interval, grouped by factor."""
    seen = Seen(name, state)
    facts = effects_facts(seen)
    if facts.nothing is not None:
        return note(facts)
    drawn = level_rows(seen.effects)
    for standing in MARKS:
        _dots(drawn, standing)
    axes, tolerance = drawn.axes, state.spec.tolerance
    axes.axvline(0, color="black", linewidth=1, zorder=1)
    if tolerance is not None:
        axes.axvspan(0, tolerance, color=SKY, alpha=0.25, zorder=0.5, linewidth=0, label=f"tolerance {tolerance:g}")
    axes.set_xlabel("estimated loss (right of zero is worse)")
    axes.grid(True, axis="x", alpha=0.3)
    caption = facts.caption + cut_note(len(drawn.places), len(seen.effects))
    return Picture(drawn.figure, replace(facts, caption=caption), drawn.struck)


def _dots(drawn: Rows, standing: str) -> None:
    here = [(y, row, row.loss) for y, row in drawn.of(standing) if row.loss is not None]
    for y, row in drawn.of(standing):
        if row.loss is None:
            drawn.axes.annotate("not known", (0, y), (4, 0), textcoords="offset points", fontsize=7, va="center")
    if not here:
        return
    spans = [
        (math.nan, math.nan) if row.low is None or row.high is None else (loss - row.low, row.high - loss)
        for _, row, loss in here
    ]
    known = not all(math.isnan(low) for low, _ in spans)
    colour = EFFECTS_COLOURS[standing]
    drawn.axes.errorbar(
        [loss for _, _, loss in here],
        [y for y, _, _ in here],
        xerr=([low for low, _ in spans], [high for _, high in spans]) if known else None,
        fmt=MARKS[standing],
        color=colour,
        markersize=6 if MARKS[standing] == "D" else 5,
        markerfacecolor="white" if MARKS[standing] == "o" else colour,
        elinewidth=1.2,
        capsize=2,
        zorder=3,
        label=standing,
    )


ELIMINATION_COLOURS = {"leading": BLUE, "chosen": BLUE, "in play": ORANGE, "not chosen": ORANGE, "ruled out": "#BBBBBB"}
LABELS = {"ruled out": "ruled out, at the cross"}
HATCHES = {"in play": "///", "not chosen": "///"}


def draw_elimination(name: str, state: StudyState) -> Picture:
    """A bar for each level, as long as it was in play."""
    seen = Seen(name, state)
    facts = elimination_facts(seen)
    if facts.nothing is not None:
        return note(facts)
    drawn, now = level_rows(seen.effects), seen.n_runs
    axes = drawn.axes
    for standing in MARKS:
        here = drawn.of(standing)
        if not here:
            continue
        ends = [now if row.ruled_out_after is None else row.ruled_out_after for _, row in here]
        axes.barh(
            [y for y, _ in here],
            ends,
            height=0.6,
            color=ELIMINATION_COLOURS[standing],
            hatch=HATCHES.get(standing),
            edgecolor="white",
            linewidth=0,
            label=LABELS.get(standing, standing),
        )
        if standing == "ruled out":
            axes.plot(ends, [y for y, _ in here], "x", color="black", markersize=5, clip_on=False)
            for (y, _), end in zip(here, ends, strict=True):
                axes.annotate(f"{end:,}", (end, y), (6, 0), textcoords="offset points", fontsize=7.5, va="center")
    axes.set_xlim(0, max(now, 1))
    axes.axvline(now, color=GREY, linewidth=1, linestyle=":")
    axes.set_xlabel("runs")
    caption = facts.caption + cut_note(len(drawn.places), len(seen.effects))
    return Picture(drawn.figure, replace(facts, caption=caption), drawn.struck)


def draw_forecast(name: str, state: StudyState) -> Picture:
    """What could be certified after each block, and the runs still to go."""
    facts, drawn = forecast_facts(Seen(name, state))
    if drawn is None:
        return note(facts)
    if isinstance(drawn, RunsOnly):
        return _counted(facts, drawn)
    return _certified(facts, drawn, state.open_block is None)


def _certified(facts: Facts, steps: Steps, ended: bool) -> Picture:
    figure, axes = new_axes(4.5)
    runs, levels = [x for x, _ in steps.points], [y for _, y in steps.points]
    axes.step([*runs, steps.now], [*levels, steps.within], where="post", color=BLUE, linewidth=1.2)
    axes.plot(runs, levels, "o", color=BLUE, markersize=4, label="certified after a block")
    axes.plot([steps.now], [steps.within], "D", color=RED, markersize=8, label="the verdict" if ended else "now")
    if steps.tolerance is not None:
        text = f"tolerance {steps.tolerance:g}"
        axes.axhline(steps.tolerance, color="black", linestyle="--", linewidth=1, label=text)
    if steps.end is not None:
        likely, last = steps.end
        if last > likely:
            text = "the end: likely to worst case"
            axes.axvspan(likely, last, color=ORANGE, alpha=0.35, hatch="//", linewidth=0, label=text)
        text = "the end: likely" if last > likely else "the end"
        axes.axvline(likely, color=ORANGE, linewidth=1.5, linestyle="-.", label=text)
    if steps.is_wide:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}" if f"{y:e}"[0] in "25" else "")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("runs")
    axes.set_ylabel("how far from the best it can be")
    axes.grid(True, alpha=0.3)
    return Picture(figure, facts)


def _counted(facts: Facts, runs: RunsOnly) -> Picture:
    """Runs only: these algorithms certify nothing before they end."""
    figure, axes = new_axes(2.6)
    axes.barh([0], [runs.now], color=BLUE, label=f"runs so far: {runs.now:,}")
    if runs.in_block:
        axes.barh(
            [0], [runs.in_block], left=runs.now, color=ORANGE, hatch="//", edgecolor="white", label="in this block"
        )
    if runs.rest:
        begin = runs.now + runs.in_block
        axes.barh([0], [runs.rest], left=begin, color="white", edgecolor=GREY, linestyle="--", label="worst case")
    axes.set_yticks([])
    axes.set_ylim(-0.7, 0.7)
    axes.set_xlabel("runs")
    return Picture(figure, facts)


def draw_history(name: str, state: StudyState) -> Picture:
    """A dot for each outcome, the mean of each block, and what is predicted at the best setting."""
    seen = Seen(name, state)
    facts, found, leader = history_facts(seen), seen.outcomes, seen.best
    if facts.nothing is not None:
        return note(facts)
    figure, axes = new_axes(4.5)
    n = found.n_outcomes
    at, small = np.arange(1, n + 1), n > MANY
    size, shade = (max(24_000 / n, 1.5), 0.4) if small else (12.0, 0.7)
    looks = (~found.aside, "o", GREY, "outcome"), (found.aside, "x", ORANGE, "set aside: corrected")
    for which, mark, colour, text in looks:
        if which.any():
            axes.scatter(
                at[which],
                found.values[which],
                size,
                color=colour,
                marker=mark,
                alpha=shade,
                linewidths=0 if mark == "o" else 1,
                rasterized=small,
            )
            axes.scatter([], [], 12, color=colour, marker=mark, label=text)  # for the legend, where a speck is not seen
    axes.hlines(
        found.means,
        np.add(found.starts[:-1], 0.5),
        np.add(found.starts[1:], 0.5),
        color=BLUE,
        linewidth=2,
        label="block mean",
    )
    _boundaries(axes, found, state)
    if leader is not None and leader.predicted is not None and leader.low is not None and leader.high is not None:
        axes.errorbar(
            [1 + 1.04 * n],
            [leader.predicted],
            yerr=([leader.predicted - leader.low], [leader.high - leader.predicted]),
            fmt="D",
            color=RED,
            capsize=4,
            label="predicted at the best setting, 95 %",
        )
    axes.set_xlim(0, 2 + 1.08 * n)
    axes.set_xlabel("run")
    axes.set_ylabel("outcome (" + ("larger" if state.spec.sign > 0 else "smaller") + " is better)")
    axes.grid(True, axis="y", alpha=0.3)
    how = " So many are drawn as one image, and tables list blocks." if small else ""
    return Picture(figure, replace(facts, caption=facts.caption + how))


def _boundaries(axes: Axes, found: Outcomes, state: StudyState) -> None:
    """Thin lines between blocks, and the name of each stage; neither where they would run together."""
    n, drawn, free = len(found.values), 0, 0.0
    for begin in found.starts[1:-1]:
        if begin - drawn >= n / 120:
            axes.axvline(begin + 0.5, color="black", linewidth=0.6, linestyle=(0, (2, 3)), alpha=0.6, zorder=0)
            drawn = begin
    blocks = [(begin, end, state.blocks[found.blocks[begin]].batch.stage) for begin, end in found.spans]
    for stage, group in groupby(blocks, key=lambda block: block[2]):
        parts = list(group)
        at = max(float(parts[0][0]), free)
        width = n * (0.02 + 0.0105 * len(stage))  # about that of so many letters
        if at + width <= parts[-1][1] or at == 0:
            place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(stage, (at + 0.5, 1), (3, 2), fontsize=8, **place)
            free = at + width


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
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
"""
# nothing can be loaded or run, whatever a name says; large pictures hold an image of their own
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html_page(facts: Facts, drawing: str) -> str:
    """The page, with the SVG drawing in it."""
    title = escape(facts.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<figure>
{drawing[drawing.index("<svg ") :].strip()}
<figcaption>{escape(facts.caption)}</figcaption>
</figure>
{table(facts.header, facts.rows)}
</body>
</html>
"""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table.

    >>> print(table(["level"], [["<b>"]]))
    <table>
    <thead><tr><th scope="col">level</th></tr></thead>
    <tbody>
    <tr><td>&lt;b&gt;</td></tr>
    </tbody>
    </table>
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


DRAW: dict[str, Callable[[str, StudyState], Picture]] = {
    "effects": draw_effects,
    "history": draw_history,
    "elimination": draw_elimination,
    "forecast": draw_forecast,
}
DPI = 150
_SETTINGS = threading.Lock()  # matplotlib keeps its settings in one place for all threads


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
        picture = DRAW[kind](name, state)
        add_legend(picture.figure, None if suffix == ".html" else drawable(picture.facts.title))
        if suffix != ".html":  # a page has its own
            picture.figure.supxlabel(textwrap.fill(picture.facts.caption, 118), fontsize=8)
        _strike(picture)
        if suffix == ".png":
            return _image(picture)
        drawing = _drawing(picture)
    return (drawing if suffix == ".svg" else html_page(picture.facts, drawing)).encode()


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
        figure.add_artist(Line2D([box.x0, box.x1], [y, y], color=GREY, linewidth=0.9))


def _image(picture: Picture) -> bytes:
    file = BytesIO()
    picture.figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None, "Description": picture.facts.alt})
    return file.getvalue()


def _drawing(picture: Picture) -> str:
    file = BytesIO()
    without = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    picture.figure.savefig(file, format="svg", dpi=DPI, metadata=without)
    text = file.getvalue().decode()
    words = escape(f"{picture.facts.title}. {picture.facts.alt}")
    found = re.search(r"<svg [^>]*>", text)
    assert found is not None  # that is how an SVG file begins
    opened = f'<svg role="img" aria-label="{words}" {found[0].removeprefix("<svg ")}\n <title>{words}</title>'
    return text[: found.start()] + opened + text[found.end() :]


PLOTS = ("effects", "history", "elimination", "forecast")
"""The pictures there are."""

SUFFIXES = (".png", ".svg", ".html")
"""How the name of a picture's file may end."""

__all__ = ["PLOTS", "SUFFIXES", "save_plot"]


def save_plot(study: Study, kind: str, path: str | os.PathLike[str]) -> None:
    """Write one of `PLOTS` as .png, .svg or .html, by the path's suffix. The file is there whole or not at all.

    >>> import levers, tempfile
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plot(study, "effects", Path(folder) / "effects.svg")
    ...     [file.name for file in Path(folder).iterdir()]
    ['effects.svg']
    >>> save_plot(study, "effects", "effects.pdf")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: cannot write 'effects.pdf': its name must end in .png, .svg or .html
    """
    check_choice("kind", kind, PLOTS)
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidSettingError(f"cannot write {str(target)!r}: its name must end in .png, .svg or .html")
    if "\0" in str(target) or not target.parent.is_dir():
        raise InvalidSettingError(f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InvalidSettingError("pictures need matplotlib; install it with: pip install 'levers[figures]'") from error

    _write(target, rendered(study.name, study.state, kind, suffix))


def _write(target: Path, content: bytes) -> None:
    draft = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb") as file:
            file.write(content)
        os.replace(draft, target)
    except OSError as error:
        raise InvalidSettingError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink()
