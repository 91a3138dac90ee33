"""Which level was ruled out after how many runs."""

from levers.studies.fold import StudyState
from levers.studies.plots.levels import MARKS, cut_note, leaders, level_rows
from levers.studies.plots.picture import BLUE, GREY, ORANGE, Picture, nothing_yet, runs_so_far
from levers.studies.plots.text import MAX_TITLE, clipped, plain
from levers.studies.views import effects, forecast

COLOURS = {"leading": BLUE, "chosen": BLUE, "in play": ORANGE, "not chosen": ORANGE, "ruled out": "#BBBBBB"}
LABELS = {"ruled out": "ruled out, at the cross"}
HATCHES = {"in play": "///", "not chosen": "///"}


def draw(name: str, state: StudyState) -> Picture:
    """A bar for each level, as long as it was in play."""
    title = f"{clipped(name, MAX_TITLE)}: levels in play"
    if len(state.known) < 2:
        why = "levels are ruled out when a block of runs is complete. Ask for runs and tell their outcomes;"
        return nothing_yet(title, f"{why} {forecast(state).now} are to go in this block.", state)
    rows, now = effects(state), runs_so_far(state)
    drawn = level_rows(rows)
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
    n_gone = sum(row.standing == "ruled out" for row in rows)
    caption = f"{n_gone} of {len(rows)} levels ruled out in {now:,} runs; a decision falls when a block is complete."
    alt = f"Bars of how long each of {len(rows)} levels was in play; {n_gone} were ruled out. Ahead: {leaders(rows)}."
    cells = [
        (plain(row.factor), plain(row.level), str(row.ruled_out_after or now), str(row.n_runs), row.standing)
        for row in rows
    ]
    header = ("factor", "level", "in play until run", "runs of this level", "standing")
    return Picture(drawn.figure, title, caption + cut_note(rows), alt, header, cells, drawn.struck)
