"""Which level was ruled out after how many runs."""

from dataclasses import replace

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Seen, cut_note, elimination_facts
from levers.studies.plots.levels import MARKS, level_rows
from levers.studies.plots.picture import BLUE, GREY, ORANGE, Picture, note

COLOURS = {"leading": BLUE, "chosen": BLUE, "in play": ORANGE, "not chosen": ORANGE, "ruled out": "#BBBBBB"}
LABELS = {"ruled out": "ruled out, at the cross"}
HATCHES = {"in play": "///", "not chosen": "///"}


def draw(name: str, state: StudyState) -> Picture:
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
            color=COLOURS[standing],
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
