"""Every outcome in the order of telling."""

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from levers.studies.events import Numbers
from levers.studies.fold import SET_ASIDE, StudyState
from levers.studies.plots.picture import BLUE, GREY, ORANGE, RED, Picture, new_axes, nothing_yet
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain
from levers.studies.trials import TrialState
from levers.studies.views import Best, best

MANY = 2000
"""From so many outcomes on they are drawn as one image, and tables list blocks instead of outcomes."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes as they came: trial, block and value of each; `starts` says where a block begins."""

    trials: Numbers
    blocks: NDArray[np.int32]
    values: NDArray[np.float64]
    starts: list[int]

    @classmethod
    def of(cls, state: StudyState) -> "Outcomes":
        """Sorted by block first, since blocks follow each other even where clocks of several machines do not agree."""
        table = state.trials
        done = np.flatnonzero(table.state[: table.n_trials] == TrialState.COMPLETE)
        done = done[np.lexsort((done, table.told_at[done], table.block[done]))]
        blocks = table.block[done]
        flat = np.concatenate([np.zeros(0), *(block.values for block in state.blocks)])
        begins = np.cumsum([0, *(block.n_runs for block in state.blocks)])
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(done)]
        return cls(done, blocks, flat[begins[blocks] + table.row[done]], starts)


def draw(name: str, state: StudyState) -> Picture:
    """A dot for each outcome, the mean of each block, and what is predicted at the best setting."""
    title = f"{clipped(name, MAX_TITLE)}: outcomes in the order of telling"
    found, leader = Outcomes.of(state), best(state)
    n = len(found.values)
    if not n:
        return nothing_yet(title, "no outcome was told. Ask for runs and tell their outcomes.", state)
    figure, axes = new_axes(4.5)
    aside = np.isin(found.blocks, [i for i, block in enumerate(state.blocks) if block.role == SET_ASIDE])
    at, small = np.arange(1, n + 1), n > MANY
    size, shade = (max(24_000 / n, 1.5), 0.4) if small else (12.0, 0.7)
    for which, mark, colour, text in ((~aside, "o", GREY, "outcome"), (aside, "x", ORANGE, "set aside: corrected")):
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
    means = [float(found.values[a:b].mean()) for a, b in pairwise(found.starts)]
    axes.hlines(
        means,
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
    header, rows = _table(found, state, means)
    caption = _caption(n, state, leader)
    alt = f"Scatter plot of {n} outcomes from {found.values.min():.4g} to {found.values.max():.4g}. {caption}"
    return Picture(figure, title, caption, alt, header, rows)


def _boundaries(axes: Axes, found: Outcomes, state: StudyState) -> None:
    """Thin lines between blocks, and the name of each stage; neither where they would run together."""
    n, drawn, free = len(found.values), 0, 0.0
    for begin in found.starts[1:-1]:
        if begin - drawn >= n / 120:
            axes.axvline(begin + 0.5, color="black", linewidth=0.6, linestyle=(0, (2, 3)), alpha=0.6, zorder=0)
            drawn = begin
    blocks = [(begin, end, state.blocks[found.blocks[begin]].batch.stage) for begin, end in pairwise(found.starts)]
    for stage, group in groupby(blocks, key=lambda block: block[2]):
        parts = list(group)
        at = max(float(parts[0][0]), free)
        width = n * (0.02 + 0.0105 * len(stage))  # about that of so many letters
        if at + width <= parts[-1][1] or at == 0:
            place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(stage, (at + 0.5, 1), (3, 2), fontsize=8, **place)
            free = at + width


def _caption(n: int, state: StudyState, leader: Best | None) -> str:
    caption = f"{n:,} outcomes in {len(state.blocks)} blocks; dotted lines divide blocks."
    if leader is not None and leader.predicted is not None:
        caption += f" At the best setting {leader.predicted:.4g} is predicted, {leader.low:.4g} to {leader.high:.4g}."
    if n > MANY:
        caption += " So many are drawn as one image, and tables list blocks."
    past = sum(len(p.values) for p in state.past)
    return caption + (f" {past:,} imported runs are not shown." if past else "")


def _table(found: Outcomes, state: StudyState, means: list[float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    stages = [plain(block.batch.stage) for block in state.blocks]
    rows: list[tuple[str, ...]] = []
    if len(found.values) <= MANY:
        each = zip(found.trials.tolist(), found.blocks.tolist(), found.values.tolist(), strict=True)
        rows += [(str(i), str(t), str(b), stages[b], number(value)) for i, (t, b, value) in enumerate(each, 1)]
        return ("run", "trial", "block", "stage", "outcome"), rows
    for (begin, end), mean in zip(pairwise(found.starts), means, strict=True):
        here, block = found.values[begin:end], int(found.blocks[begin])
        ends = (number(float(here.min())), number(float(here.max())))
        rows.append((str(block), stages[block], f"{begin + 1} to {end}", number(mean), *ends))
    return ("block", "stage", "runs", "mean", "smallest", "largest"), rows
