"""What each level loses against the leading one."""

import math

from levers.studies.fold import StudyState
from levers.studies.plots.levels import MARKS, Rows, cut_note, leaders, level_rows
from levers.studies.plots.picture import BLUE, GREY, RED, SKY, Picture, nothing_yet
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain
from levers.studies.views import EffectRow, effects

COLOURS = {"leading": BLUE, "chosen": BLUE, "in play": RED, "not chosen": RED, "ruled out": GREY}
HEADER = ("factor", "level", "runs", "loss", "low", "high", "standing", "ruled out after")


def draw(name: str, state: StudyState) -> Picture:
    """A dot for each level with its interval, grouped by factor."""
    title = f"{clipped(name, MAX_TITLE)}: what each level loses against the {_lead(state)} one"
    rows = effects(state)
    if not any(row.loss is not None and row.standing != _lead(state) for row in rows):
        why = "the outcomes so far do not tell levels apart" if state.n_complete else "no outcome was told"
        return nothing_yet(title, f"{why}. Ask for runs and tell their outcomes.", state)
    drawn = level_rows(rows)
    for standing in MARKS:
        _dots(drawn, standing)
    axes, tolerance = drawn.axes, state.spec.tolerance
    axes.axvline(0, color="black", linewidth=1, zorder=1)
    if tolerance is not None:
        axes.axvspan(0, tolerance, color=SKY, alpha=0.25, zorder=0.5, linewidth=0, label=f"tolerance {tolerance:g}")
    axes.set_xlabel("estimated loss (right of zero is worse)")
    axes.grid(True, axis="x", alpha=0.3)
    alt = (
        f"Dot plot of what {len(rows)} levels lose. {_lead(state).capitalize()}: {leaders(rows)}. "
        f"{sum(row.standing == 'ruled out' for row in rows)} levels are ruled out."
    )
    return Picture(drawn.figure, title, _caption(rows, state), alt, HEADER, [_cells(r) for r in rows], drawn.struck)


def _lead(state: StudyState) -> str:
    return "chosen" if state.open_block is None else "leading"


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
    colour = COLOURS[standing]
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


def _caption(rows: list[EffectRow], state: StudyState) -> str:
    if any(row.high is not None for row in rows):
        sure = f"{100 * (1 - state.spec.failure_prob):g} %"
        caption = f"Bars hold all true losses at once with probability {sure}."
    elif state.spec.algorithm == "cfs":
        caption = "Estimates from the first runs; intervals come with the first complete block."
    else:
        caption = f"Estimates without intervals: {state.spec.algorithm} gives none."
    if state.spec.tolerance is not None:
        caption += " The tolerance is for the losses of all factors together."
    return caption + cut_note(rows)


def _cells(row: EffectRow) -> tuple[str, ...]:
    after = "" if row.ruled_out_after is None else f"{row.ruled_out_after} runs"
    numbers = (number(row.loss), number(row.low), number(row.high))
    return (plain(row.factor), plain(row.level), str(row.n_runs), *numbers, row.standing, after)
