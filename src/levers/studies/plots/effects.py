"""What each level loses against the leading one."""

import math
from dataclasses import replace

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Seen, cut_note, effects_facts
from levers.studies.plots.levels import MARKS, Rows, level_rows
from levers.studies.plots.picture import BLUE, GREY, RED, SKY, Picture, note

COLOURS = {"leading": BLUE, "chosen": BLUE, "in play": RED, "not chosen": RED, "ruled out": GREY}


def draw(name: str, state: StudyState) -> Picture:
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
