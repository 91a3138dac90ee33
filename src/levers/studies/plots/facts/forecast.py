"""How far from the best the leading setting can be and how many runs are to go, in words and as a table."""

import math
from dataclasses import dataclass

from levers.algorithms.cfs import Cfs
from levers.studies.plots.facts.common import Facts, nothing_yet
from levers.studies.plots.facts.seen import Seen
from levers.studies.plots.text import MAX_TITLE, clipped, number
from levers.studies.views import Forecast

HEADER = ("what", "runs", "at most so far from the best")


@dataclass(frozen=True, slots=True)
class Steps:
    """What was certified after each block, where the study is now, and between which runs it will end (or None)."""

    points: list[tuple[int, float]]
    now: int
    within: float
    tolerance: float | None
    end: tuple[int, int] | None

    @property
    def is_wide(self) -> bool:
        """Whether the tolerances need a logarithmic axis."""
        seen = [y for _, y in self.points] + ([] if self.tolerance is None else [self.tolerance])
        return min(seen) > 0 and max(seen) > 8 * min(seen)


@dataclass(frozen=True, slots=True)
class RunsOnly:
    """Runs so far, in the block under way, and after it in the worst case (None when there is no telling)."""

    now: int
    in_block: int
    rest: int | None


def forecast_facts(seen: Seen) -> tuple[Facts, Steps | RunsOnly | None]:
    """The facts, and what is to be drawn.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> facts, steps = forecast_facts(Seen("oven", study.state))
    >>> facts.title, steps
    ('oven: how far it is to the end', None)
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: how far it is to the end"
    if not isinstance(seen.state.spec.solver, Cfs):
        return counted_facts(title, seen)
    points = [(n_runs, within) for n_runs, within in seen.steps if math.isfinite(within)]
    if not points:
        why = "nothing can be certified before a block of runs is complete. Ask for runs and tell their outcomes:"
        return nothing_yet(title, f"{why} {seen.forecast}.", seen), None
    return _certified(title, seen, points)


def _certified(title: str, seen: Seen, points: list[tuple[int, float]]) -> tuple[Facts, Steps]:
    now, (_, within), tolerance = seen.n_runs, points[-1], seen.state.spec.tolerance
    to_go, ended = seen.forecast, seen.state.open_block is None
    rows: list[tuple[str, ...]] = [("after a block", str(x), number(y)) for x, y in points]
    rows.append(("now", str(now), number(within)))
    end = None
    if not ended and to_go.likely is not None and to_go.worst_case is not None:
        end = (now + to_go.likely, now + to_go.worst_case)
        rows += [
            ("likely end", str(end[0]), number(tolerance)),
            ("end in the worst case", str(end[1]), number(tolerance)),
        ]
    sure = f"{100 * (1 - seen.state.spec.failure_prob):g} %"
    caption = f"After {now:,} runs the {seen.lead} setting is within {within:.4g} of the best with probability {sure}"
    caption += "." if ended else f"; {to_go}."
    facts = Facts(title, caption, f"Falling steps over runs. {caption}", HEADER, rows)
    return facts, Steps(points, now, within, tolerance, end)


def counted_facts(title: str, seen: Seen) -> tuple[Facts, RunsOnly | None]:
    """Runs only: algorithms other than cfs certify nothing before they end."""
    now, to_go, algorithm = seen.n_runs, seen.forecast, seen.state.spec.algorithm
    if not now:
        why = "no outcome was told. Ask for runs and tell their outcomes:"
        return nothing_yet(title, f"{why} {to_go_words(to_go)}.", seen), None
    reached = None if seen.verdict is None else seen.verdict.tolerance
    rows: list[tuple[str, ...]] = [("runs so far", str(now), number(reached))]
    if to_go.now:
        rows.append(("end of this block", str(now + to_go.now), number(None)))
    rest = None if to_go.worst_case is None else to_go.worst_case - to_go.now
    if to_go.worst_case is not None and rest:
        rows.append(("end in the worst case", str(now + to_go.worst_case), number(seen.state.spec.tolerance)))
    if seen.verdict is not None:
        caption = f"{algorithm} ended after {now:,} runs."
    else:
        caption = f"{algorithm} certifies nothing before it ends, so only runs are shown: {to_go_words(to_go)}."
    return Facts(title, caption, f"A bar of runs. {caption}", HEADER, rows), RunsOnly(now, to_go.now, rest)


def to_go_words(to_go: Forecast) -> str:
    """Runs to go of an algorithm that does not guess.

    >>> to_go_words(Forecast(12, None, 90))
    '90 runs to go in the worst case, 12 of them in this block'
    """
    if to_go.worst_case is None:
        return f"{to_go.now} runs to go in this block, then more"
    return f"{to_go.worst_case} runs to go in the worst case, {to_go.now} of them in this block"
