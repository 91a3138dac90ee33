"""How far from the best the leading setting can be, and when that will be near enough."""

import math

from levers.algorithms.cfs import Cfs
from levers.studies.fold import StudyState
from levers.studies.plots.picture import BLUE, GREY, ORANGE, RED, Picture, new_axes, nothing_yet, runs_so_far
from levers.studies.plots.text import MAX_TITLE, clipped, number
from levers.studies.views import Forecast, forecast, verdict

HEADER = ("what", "runs", "at most so far from the best")


def draw(name: str, state: StudyState) -> Picture:
    """What could be certified after each block, and the runs still to go."""
    title = f"{clipped(name, MAX_TITLE)}: how far it is to the end"
    solver, to_go = state.spec.solver, forecast(state)
    if not isinstance(solver, Cfs):
        return _counted(title, state, to_go)
    verdicts = [found for known in state.known if (found := solver.interim(known)) is not None]
    points = [(found.n_runs, found.tolerance) for found in verdicts if math.isfinite(found.tolerance)]
    if not points:
        why = "nothing can be certified before a block of runs is complete. Ask for runs and tell their outcomes:"
        return nothing_yet(title, f"{why} {to_go}.", state)
    return _certified(title, state, points, to_go)


def _certified(title: str, state: StudyState, points: list[tuple[int, float]], to_go: Forecast) -> Picture:
    figure, axes = new_axes(4.5)
    now, (_, within), tolerance = runs_so_far(state), points[-1], state.spec.tolerance
    runs, levels = [x for x, _ in points], [y for _, y in points]
    axes.step([*runs, now], [*levels, within], where="post", color=BLUE, linewidth=1.2)
    axes.plot(runs, levels, "o", color=BLUE, markersize=4, label="certified after a block")
    axes.plot([now], [within], "D", color=RED, markersize=8, label="the verdict" if state.open_block is None else "now")
    rows = [("after a block", str(x), number(y)) for x, y in points] + [("now", str(now), number(within))]
    if tolerance is not None:
        axes.axhline(tolerance, color="black", linestyle="--", linewidth=1, label=f"tolerance {tolerance:g}")
    if state.open_block is not None and to_go.likely is not None and to_go.worst_case is not None:
        likely, last = now + to_go.likely, now + to_go.worst_case
        if last > likely:
            text = "the end: likely to worst case"
            axes.axvspan(likely, last, color=ORANGE, alpha=0.35, hatch="//", linewidth=0, label=text)
        text = "the end: likely" if last > likely else "the end"
        axes.axvline(likely, color=ORANGE, linewidth=1.5, linestyle="-.", label=text)
        rows += [
            ("likely end", str(likely), number(tolerance)),
            ("end in the worst case", str(last), number(tolerance)),
        ]
    lowest = min([*levels, *([] if tolerance is None else [tolerance])])
    if lowest > 0 and max(levels) > 8 * lowest:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}" if f"{y:e}"[0] in "25" else "")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("runs")
    axes.set_ylabel("how far from the best it can be")
    axes.grid(True, alpha=0.3)
    sure = f"{100 * (1 - state.spec.failure_prob):g} %"
    which = "chosen" if state.open_block is None else "leading"
    caption = f"After {now:,} runs the {which} setting is within {within:.4g} of the best with probability {sure}"
    caption += "." if state.open_block is None else f"; {to_go}."
    return Picture(figure, title, caption, f"Falling steps over runs. {caption}", HEADER, rows)


def _counted(title: str, state: StudyState, to_go: Forecast) -> Picture:
    """Runs only: these algorithms certify nothing before they end."""
    now = runs_so_far(state)
    if not now:
        why = "no outcome was told. Ask for runs and tell their outcomes:"
        return nothing_yet(title, f"{why} {_words(to_go)}.", state)
    figure, axes = new_axes(2.6)
    axes.barh([0], [now], color=BLUE, label=f"runs so far: {now:,}")
    ended = verdict(state)
    rows = [("runs so far", str(now), number(None if ended is None else ended.tolerance))]
    if to_go.now:
        axes.barh([0], [to_go.now], left=now, color=ORANGE, hatch="//", edgecolor="white", label="in this block")
        rows.append(("end of this block", str(now + to_go.now), number(None)))
    if to_go.worst_case is not None and to_go.worst_case > to_go.now:
        rest = to_go.worst_case - to_go.now
        axes.barh([0], [rest], left=now + to_go.now, color="white", edgecolor=GREY, linestyle="--", label="worst case")
        rows.append(("end in the worst case", str(now + to_go.worst_case), number(state.spec.tolerance)))
    axes.set_yticks([])
    axes.set_ylim(-0.7, 0.7)
    axes.set_xlabel("runs")
    algorithm = state.spec.algorithm
    if ended is not None:
        caption = f"{algorithm} ended after {now:,} runs."
    else:
        caption = f"{algorithm} certifies nothing before it ends, so only runs are shown: {_words(to_go)}."
    return Picture(figure, title, caption, f"A bar of runs. {caption}", HEADER, rows)


def _words(to_go: Forecast) -> str:
    if to_go.worst_case is None:
        return f"{to_go.now} runs to go in this block, then more"
    return f"{to_go.worst_case} runs to go in the worst case, {to_go.now} of them in this block"
