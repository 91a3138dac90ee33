"""Every outcome in the order of telling."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from levers.studies.fold import StudyState
from levers.studies.plots.facts import MANY, Outcomes, Seen, history_facts
from levers.studies.plots.picture import BLUE, GREY, ORANGE, RED, Picture, new_axes, note


def draw(name: str, state: StudyState) -> Picture:
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
