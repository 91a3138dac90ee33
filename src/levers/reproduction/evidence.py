"""What runs say of a statement: estimates with worlds as independent units, and a verdict that may be `undecided`."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betaincinv, stdtrit

HOLDS, DOES_NOT, UNDECIDED, NOT_MEASURED = "holds", "does not hold", "undecided", "not measured"
"""The verdicts on a claim."""
ERROR = 0.01
"""The chance that a check decides wrongly, shared by all points that it looks at."""
FEWEST_WORLDS = 10
"""Worlds without which no statement on gaps is said to hold: gaps are 0 in most worlds and large in a few."""
AGREES = "agrees with the released"
"""How the names of claims begin that compare with numbers of the released code, whose noise is Gaussian."""
MOST_WORLDS = 1_000_000
"""Beyond this many worlds it does not matter how many exactly would decide."""

Point = tuple[str, float]
"""A panel and a place on its axis."""
ByWorld = Mapping[int, float]
"""A number for each world, by its own number."""


@dataclass(frozen=True)
class Estimate:
    """A mean over worlds: its value, its standard error, and the number of worlds.

    >>> near = Estimate.of([1.0, 2.0, 3.0])
    >>> near.value, round(near.low(0.01), 2), round(near.high(0.01), 2)
    (2.0, -2.02, 6.02)
    """

    value: float
    se: float
    n: int
    at: str = ""

    @classmethod
    def of(cls, values: Iterable[float], at: str = "") -> "Estimate":
        """From one number for each world."""
        numbers = np.asarray(list(values), dtype=np.float64)
        n = len(numbers)
        if n < 2:
            return cls(float(numbers[0]) if n else math.nan, math.inf, n, at)
        return cls(float(numbers.mean()), float(numbers.std(ddof=1)) / math.sqrt(n), n, at)

    def _reach(self, error: float) -> float:
        return float(stdtrit(self.n - 1, 1 - error)) * self.se if self.n > 1 else math.inf

    def low(self, error: float) -> float:
        """The true mean is above this, but for that error."""
        return self.value - self._reach(error)

    def high(self, error: float) -> float:
        """The true mean is below this, but for that error."""
        return self.value + self._reach(error)

    def minus(self, other: "Estimate") -> "Estimate":
        """The difference of two estimates from other worlds each."""
        return Estimate(self.value - other.value, math.hypot(self.se, other.se), min(self.n, other.n), self.at)

    def times(self, factor: float) -> "Estimate":
        """A multiple."""
        return Estimate(self.value * factor, self.se * abs(factor), self.n, self.at)

    def plus(self, number: float) -> "Estimate":
        """A shift."""
        return Estimate(self.value + number, self.se, self.n, self.at)

    @property
    def is_zero(self) -> bool:
        """Whether there was no difference in any world."""
        return self.value == 0 and (self.se == 0 or self.n == 1)


@dataclass(frozen=True)
class Judgement:
    """A verdict, and what would decide it where it is open."""

    verdict: str
    needed: str = ""


def all_above_zero(
    estimates: Sequence[Estimate], *, equal: bool = False, fewest_worlds: int = 2, error: float = ERROR
) -> Judgement:
    """Whether all of these are above 0: `holds` if all surely are, `does not hold` if one surely is not.

    With `equal` a difference of exactly 0 in all worlds is fine.

    >>> all_above_zero([Estimate(3.0, 1.0, 20)]).verdict, all_above_zero([Estimate(1.0, 1.0, 20, "x = 5")]).needed
    ('holds', 'at x = 5 it is 1 ± 1 where 0 decides: about 110 worlds')
    """
    estimates = [e for e in estimates if e.n]
    if not estimates:
        return Judgement(NOT_MEASURED)
    share = error / len(estimates)
    if any(e.high(share) < 0 for e in estimates):
        return Judgement(DOES_NOT)
    unsure = [e for e in estimates if not (e.low(share) > 0 or (equal and e.is_zero))]
    few = [e for e in estimates if e.n < fewest_worlds]
    if not unsure and not few:
        return Judgement(HOLDS)
    worst = max(unsure or few, key=lambda e: e.se / max(abs(e.value), 1e-300))
    return Judgement(UNDECIDED, _needed(worst, share, fewest_worlds))


def _needed(e: Estimate, error: float, fewest_worlds: int) -> str:
    """What the estimate is, and how many worlds like these would tell it from 0."""
    where = f"at {e.at} it" if e.at else "it"
    if e.n < 2 or not math.isfinite(e.se):
        return f"{where} was measured in {e.n} world: at least {max(fewest_worlds, 2)} are needed"
    said = f"{where} is {e.value:.3g} ± {e.se:.2g} where 0 decides"
    if e.value == 0:
        return f"{said}: no number of worlds is known to be enough"
    n = max(e.n + 1, fewest_worlds)
    while n < MOST_WORLDS and float(stdtrit(n - 1, 1 - error)) * e.se * math.sqrt(e.n / n) > abs(e.value):
        n = math.ceil(1.05 * n)
    return f"{said}: about {float(f'{n:.2g}'):,.0f} worlds" if n < MOST_WORLDS else f"{said}: a million worlds and more"


def average_above_zero(
    average: Estimate, points: Sequence[Estimate], *, fewest_worlds: int = FEWEST_WORLDS, error: float = ERROR
) -> Judgement:
    """Whether it is above 0 on average over the points, and at no point surely below.

    >>> average_above_zero(Estimate(3.0, 0.5, 20), [Estimate(-0.1, 1.0, 20), Estimate(6.1, 1.0, 20)]).verdict
    'holds'
    """
    if points and all_above_zero(points, equal=True, error=error).verdict == DOES_NOT:
        return Judgement(DOES_NOT)
    return all_above_zero([average], fewest_worlds=fewest_worlds, error=error)


def share_at_most(
    counts: Sequence[tuple[int, int]], most: float, *, groups: Sequence[tuple[int, int]] = (), error: float = ERROR
) -> Judgement:
    """Whether something happens with probability at most `most`, by exact binomial bounds.

    `counts` are (happened, runs) at each point, worlds taken as they are: the mean chance over these worlds, for which
    the binomial law is on the safe side (Hoeffding 1956). `groups` are the same in each world, which must not surely
    exceed it either, because a promise holds in every world.

    >>> share_at_most([(0, 100)], 0.1).verdict, share_at_most([(60, 100)], 0.1).verdict
    ('holds', 'does not hold')
    >>> share_at_most([(0, 6)], 0.1)
    Judgement(verdict='undecided', needed='0 of 6 runs: without any failure 44 runs would be enough')
    """
    if not counts:
        return Judgement(NOT_MEASURED)
    for cells in (counts, groups):
        if any(_share_low(k, n, error / len(cells)) > most for k, n in cells):
            return Judgement(DOES_NOT)
    highs = [_share_high(k, n, error / len(counts)) for k, n in counts]
    if max(highs) <= most:
        return Judgement(HOLDS)
    k, n = counts[int(np.argmax(highs))]
    enough = math.ceil(math.log(error / len(counts)) / math.log(1 - most))
    hint = f": without any failure {enough:,} runs would be enough" if n < enough else ""
    return Judgement(UNDECIDED, f"{k} of {n} runs{hint}")


def _share_low(k: int, n: int, error: float) -> float:
    return float(betaincinv(k, n - k + 1, error)) if k else 0.0


def _share_high(k: int, n: int, error: float) -> float:
    return float(betaincinv(k + 1, n - k, 1 - error)) if k < n else 1.0


class Lines:
    """The runs of an experiment, by panel, contender, x and world.

    Beside the columns of a row there are `missed` (whether a parent was), and `over_bound` and `over_sum`: runs over
    the bound and over the sum over phases.
    """

    def __init__(self, runs: pl.DataFrame, experiment: str) -> None:
        self.experiment = experiment
        self.runs = runs.filter(pl.col("experiment") == experiment).with_columns(
            (pl.col("parents_missed") > 0).alias("missed"),
            (pl.col("n_runs") / pl.col("bound")).alias("over_bound"),
            (pl.col("n_runs") / pl.col("expected")).alias("over_sum"),
        )
        self._by_world: dict[str, dict[tuple[str, str, float], dict[int, float]]] = {}

    def panels(self) -> list[str]:
        """The panels, in order."""
        return self.runs["panel"].unique(maintain_order=True).to_list()

    def xs(self, panel: str, *contenders: str) -> list[float]:
        """The places at which all of these contenders ran."""
        places = [{x for p, who, x in self._means("n_runs") if (p, who) == (panel, name)} for name in contenders]
        return sorted(set.intersection(*places)) if places else []

    def points(self, panels: Sequence[str], *contenders: str) -> list[Point]:
        """The panels and places at which all of these contenders ran."""
        return [(panel, x) for panel in panels for x in self.xs(panel, *contenders)]

    def worlds(self, panel: str, contender: str, x: float, column: str = "n_runs") -> ByWorld:
        """Means over the repeats in each world."""
        return self._means(column).get((panel, contender, x), {})

    def mean(self, panel: str, contender: str, x: float, column: str = "n_runs") -> Estimate:
        """The mean over worlds."""
        return Estimate.of(self.worlds(panel, contender, x, column).values(), place(panel, x))

    def all_means(self, panel: str, contender: str, column: str = "n_runs") -> list[Estimate]:
        """The means along a line."""
        return [self.mean(panel, contender, x, column) for x in self.xs(panel, contender)]

    def combined(self, panel: str, x: float, column: str = "n_runs", /, **weights: float) -> Estimate:
        """A weighted sum of contenders in the worlds that all of them ran in; names with underscores for hyphens."""
        by_world = {name: self.worlds(panel, name.replace("_", "-"), x, column) for name in weights}
        shared = set.intersection(*(set(values) for values in by_world.values()))
        sums = [sum(weights[name] * by_world[name][world] for name in weights) for world in sorted(shared)]
        return Estimate.of(sums, place(panel, x))

    def averaged(self, points: Sequence[Point], column: str, **weights: float) -> Estimate:
        """The same, averaged over points in each world first: worlds with one number are related, so one unit."""
        totals: dict[int, list[float]] = {}
        for panel, x in points:
            by_world = {name: self.worlds(panel, name.replace("_", "-"), x, column) for name in weights}
            for world in set.intersection(*(set(values) for values in by_world.values())):
                totals.setdefault(world, []).append(sum(weights[n] * by_world[n][world] for n in weights))
        return Estimate.of(float(np.mean(values)) for _, values in sorted(totals.items()))

    def single_worlds(self, points: Sequence[Point], contender: str, column: str, fewest: int = 5) -> list[Estimate]:
        """Means in each world over its repeats, which are the units here; worlds with few of them are left out."""
        here = self.runs.filter(pl.col("contender") == contender).drop_nulls(column)
        grouped = here.group_by("panel", "x", "world", maintain_order=True).agg(pl.col(column))
        wanted = set(points)
        return [
            Estimate.of(values, place(panel, x))
            for panel, x, _, values in grouped.iter_rows()
            if (panel, x) in wanted and len(values) >= fewest
        ]

    def counts(self, points: Sequence[Point], contender: str, column: str) -> list[tuple[int, int]]:
        """How often something was so at each point, and how many runs there were."""
        return self._counts(points, contender, column, ("panel", "x"))

    def world_counts(self, points: Sequence[Point], contender: str, column: str) -> list[tuple[int, int]]:
        """The same in each world of each point."""
        return self._counts(points, contender, column, ("panel", "x", "world"))

    def _counts(self, points: Sequence[Point], contender: str, column: str, by: Sequence[str]) -> list[tuple[int, int]]:
        wanted = set(points)
        here = self.runs.filter(pl.col("contender") == contender).drop_nulls(column)
        counted = here.group_by(*by, maintain_order=True).agg(pl.col(column).sum().alias("k"), pl.len().alias("n"))
        return [(int(r["k"]), int(r["n"])) for r in counted.iter_rows(named=True) if (r["panel"], r["x"]) in wanted]

    def _means(self, column: str) -> dict[tuple[str, str, float], dict[int, float]]:
        if column not in self._by_world:
            found: dict[tuple[str, str, float], dict[int, float]] = {}
            keys = ("panel", "contender", "x", "world")
            means = self.runs.drop_nulls(column).group_by(*keys, maintain_order=True).agg(pl.col(column).mean())
            for panel, contender, x, world, value in means.iter_rows():
                found.setdefault((panel, contender, x), {})[world] = float(value)
            self._by_world[column] = found
        return self._by_world[column]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, in our words: what was measured, whether it holds, and why not if not.

    `why` also says what would decide it, where it is undecided.
    """

    experiment: str
    name: str
    sentence: str
    measured: str
    verdict: str
    why: str = ""


def claim(lines: Lines, name: str, sentence: str, measured: str, found: Judgement, why: str = "") -> Claim:
    """A claim from its judgement; the reason is kept only where it does not hold."""
    if found.verdict == NOT_MEASURED:
        return Claim(lines.experiment, name, sentence, "", NOT_MEASURED)
    reason = why if found.verdict == DOES_NOT else found.needed
    return Claim(lines.experiment, name, sentence, measured, found.verdict, reason)


def place(panel: str, x: float) -> str:
    """A point in words.

    >>> place("K = 10", 5.0)
    'K = 10, x = 5'
    """
    return f"{panel}, x = {x:g}"


def falls(line: Sequence[Estimate]) -> Judgement:
    """Whether a line falls: its end surely below its beginning, and nothing surely above anything before it.

    >>> falls([Estimate(300.0, 9.0, 20), Estimate(200.0, 9.0, 20), Estimate(205.0, 9.0, 20)]).verdict
    'holds'
    """
    if len(line) < 2:
        return Judgement(NOT_MEASURED)
    pairs = [a.minus(b) for a, b in itertools.combinations(line, 2)]
    if all_above_zero(pairs, equal=True).verdict == DOES_NOT:
        return Judgement(DOES_NOT)
    return all_above_zero([replace(line[0].minus(line[-1]), at="the two ends")])


def falling(lines: Lines, name: str, sentence: str, line: Sequence[Estimate], why: str) -> Claim:
    """The claim that a line falls, with its values as what was measured."""
    return claim(lines, name, sentence, " / ".join(f"{e.value:,.0f}" for e in line), falls(line), why)


def slope(xs: Sequence[float], values: Sequence[NDArray[np.float64]]) -> list[float]:
    """The least-squares slope in each world; a row of values for each x, a column for each world.

    >>> slope([0.0, 1.0], [np.array([1.0, 2.0]), np.array([3.0, 5.0])])
    [2.0, 3.0]
    """
    centred = np.asarray(xs) - np.mean(xs)
    return [float(value) for value in centred @ np.asarray(values) / (centred @ centred)]


def span(values: Sequence[float], digits: int = 2) -> str:
    """The range of some numbers, for a table.

    >>> span([1.0, 12.345, 3.0])
    '1 to 12'
    """
    if not values:
        return "none"
    ends = (min(values), max(values))
    low, high = (f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}" for value in ends)
    return low if low == high else f"{low} to {high}"
