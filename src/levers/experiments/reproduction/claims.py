"""Statements of the paper as checks: each with the number that was measured, and a verdict."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

HOLDS, DOES_NOT, ONLY_AS_RELEASED, NOT_MEASURED = "holds", "does not hold", "holds only as released", "not measured"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, in our words: what was measured, whether it holds, and why not if not."""

    experiment: str
    name: str
    sentence: str
    measured: str
    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Mean:
    """One line of a figure at one point."""

    runs: float
    runs_se: float
    gap: float
    gap_se: float
    failures: int
    n: int
    limit: float | None


class Lines:
    """The means of an experiment, by panel, contender and x."""

    def __init__(self, summary: pl.DataFrame, experiment: str) -> None:
        self._means: dict[tuple[str, str], dict[float, Mean]] = {}
        for row in summary.filter(pl.col("experiment") == experiment).iter_rows(named=True):
            mean = Mean(
                row["runs"],
                row["runs_se"] or 0.0,
                row["gap"],
                row["gap_se"] or 0.0,
                row["failures"],
                row["n"],
                row["limit"],
            )
            self._means.setdefault((row["panel"], row["contender"]), {})[row["x"]] = mean

    def __bool__(self) -> bool:
        return bool(self._means)

    def panels(self) -> list[str]:
        """The panels, in order."""
        return list(dict.fromkeys(panel for panel, _ in self._means))

    def line(self, panel: str, contender: str) -> dict[float, Mean]:
        """One contender's means by x; empty when it was not run."""
        return self._means.get((panel, contender), {})

    def pairs(self, panels: Sequence[str], one: str, other: str) -> list[tuple[Mean, Mean]]:
        """Two contenders at all points where both ran."""
        return [
            (mean, self.line(panel, other)[x])
            for panel in panels
            for x, mean in self.line(panel, one).items()
            if x in self.line(panel, other)
        ]


def claim(experiment: str, name: str, sentence: str, measured: str, holds: bool | None, why: str = "") -> Claim:
    """A claim from the outcome of its check; the reason is kept only where it does not hold."""
    if holds is None:
        return Claim(experiment, name, sentence, "", NOT_MEASURED)
    return Claim(experiment, name, sentence, measured, HOLDS if holds else DOES_NOT, "" if holds else why)


def span(values: Sequence[float], digits: int = 2) -> str:
    """The range of some numbers, for a table.

    >>> span([1.0, 12.345, 3.0])
    '1 to 12'
    """
    shown = [
        f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}" for value in (min(values), max(values))
    ]
    return shown[0] if shown[0] == shown[1] else f"{shown[0]} to {shown[1]}"


def falls(line: dict[float, Mean], sigmas: float = 0.5) -> tuple[bool, list[float]]:
    """Whether runs fall along a line: no step up beyond half a standard error, and the end below the beginning."""
    runs = [line[x] for x in sorted(line)]
    steps_up = [
        b.runs - a.runs
        for a, b in itertools.pairwise(runs)
        if b.runs - a.runs > sigmas * math.hypot(a.runs_se, b.runs_se)
    ]
    return not steps_up and runs[-1].runs < runs[0].runs, [mean.runs for mean in runs]


def same(one: Mean, other: Mean, sigmas: float = 3.0) -> bool:
    """Whether two means of runs agree within standard errors."""
    return abs(one.runs - other.runs) <= sigmas * math.hypot(one.runs_se, other.runs_se)
