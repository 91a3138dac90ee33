"""How far from the best the leading setting can be, and when that will be near enough."""

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Facts, RunsOnly, Seen, Steps, forecast_facts
from levers.studies.plots.picture import BLUE, GREY, ORANGE, RED, Picture, new_axes, note


def draw(name: str, state: StudyState) -> Picture:
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
