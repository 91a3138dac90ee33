"""What no check can see: python benchmarks/no_check.py [draws] [part of a row's name]

For each row of benchmarks/doubt.py in which more than 10 % of studies failed unmarked, a bound on what ANY check can do
whose false-alarm rate is at most 3 % over all honest studies   (docs/theory/doubts.md, "What no check can see").

A check is a set A of outcomes. Let broken studies have the density b, a mixture over which levels are best, and let h
be a mixture of honest studies. If P(A) <= a for every honest study, then P_h(A) <= a, so by the lemma of Neyman and
Pearson P_b(A) is at most that of {b / h > t}, and the share of studies that fail and are marked, the integral of w b
over A with w = P(failed | outcomes), is at most that of {w b / h > t}. What is left of the failures is unmarked
whatever is checked. The bound holds for any h; these were found by a small search.

Outcomes are those of balanced orthogonal designs with as many runs as such studies take on average, and noise of known
size: independent level means, and cell means where levers work together. The last columns are the least share of
studies that fail unmarked with all 3 % of alarms, and with the share that the check of that kind has.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from levers.algorithms.base import Problem
from levers.algorithms.cfs.two_stage import TwoStage
from levers.core.certificates.certificate import scale_needed
from levers.core.space import Space
from levers.studies.analysis.doubts import SHARES

Numbers = NDArray[np.float64]
ALARMS = 0.03
"""How often honest studies may be doubted, by all checks together."""


@dataclass(frozen=True)
class Drawn:
    """Outcomes of broken and of honest studies: log(b / h), and how likely each is a failure if it is a broken one."""

    n_runs: float
    broken: Numbers
    broken_fails: Numbers
    honest: Numbers
    honest_fails: Numbers

    @property
    def failed(self) -> float:
        """The share of broken studies that fail."""
        return float(self.broken_fails.mean())

    def power(self, level: float) -> float:
        """The most broken studies that a check of this level can doubt: P_b(b / h > t) with P_h(b / h > t) = level."""
        return float((self.broken > np.quantile(self.honest, 1 - level)).mean())

    def least_unmarked(self, level: float) -> float:
        """The fewest studies that fail unmarked: E_b[w] - E_b[w; w b / h > t] with P_h(w b / h > t) = level."""
        broken, honest = (
            ratio + np.log(np.maximum(fails, 1e-300))
            for ratio, fails in ((self.broken, self.broken_fails), (self.honest, self.honest_fails))
        )
        marked = self.broken_fails * (broken > np.quantile(honest, 1 - level))
        return self.failed - float(marked.mean())


def centred(values: Numbers) -> Numbers:
    """Numbers of levels less their mean."""
    return np.asarray(values - values.mean(axis=-1, keepdims=True))


def noise(rng: np.random.Generator, shape: tuple[int, ...], error: float) -> Numbers:
    """Errors of level means about their own mean."""
    return centred(rng.normal(0.0, error, shape))


def tail_of_sum(chances: Numbers, least: int) -> Numbers:
    """P(sum over levers >= least) where lever k adds u with chance `chances[:, k, u]`, by convolution."""
    held = np.zeros((len(chances), least + 1))  # the last entry is for all sums from `least` on
    held[:, 0] = 1.0
    for k in range(chances.shape[1]):
        following = held * chances[:, k, :1]
        for u in range(1, chances.shape[2]):
            following[:, u:] += held[:, :-u] * chances[:, k, u : u + 1]
            following[:, least] += held[:, least + 1 - u :].sum(axis=1) * chances[:, k, u]
        held = following
    return held[:, least]


# max_parents: all K levers matter by one gap, P were claimed


@dataclass(frozen=True)
class Parents:
    """Levers whose best level is `gap` ahead of all others; so many wrong levels are a failure."""

    n_levers: int
    n_levels: int
    claimed: int
    gap: float
    noise_sd: float
    n_runs: int
    mistakes: int
    sizes: tuple[float, float, float] = (1.25, 1.5, 1.7)
    """Honest effects of parents, in gaps: one level ahead by the first or second, or normal effects of the third."""
    worth: int | None = None
    """Runs, divided equally, with which as many fail as were counted: more than `n_runs` where levels are left out."""

    SHARES = (0.48, 0.48, 0.04)
    """How often each of them."""

    def drawn(self, n: int, rng: np.random.Generator) -> Drawn:
        """All levers matter; against `claimed` of them, any ones, with larger effects."""
        shape, error = (n, self.n_levers, self.n_levels), self.error
        best = centred(np.eye(self.n_levels))
        broken = noise(rng, shape, error) + self.gap * best[rng.integers(self.n_levels, size=shape[:2])]
        matters = rng.random(shape[:2]).argsort(axis=1) < self.claimed
        kind = rng.choice(3, size=shape[:2], p=self.SHARES)
        size = self.gap * np.array([*self.sizes[:2], 0.0])[kind]
        effects = size[:, :, None] * best[rng.integers(self.n_levels, size=shape[:2])]
        effects += (kind == 2)[:, :, None] * noise(rng, shape, self.sizes[2] * self.gap)
        honest = noise(rng, shape, error) + matters[:, :, None] * effects
        found = [(self._ratio(means), self._fails(means)) for means in (broken, honest)]
        return Drawn(self.n_runs, *found[0], *found[1])

    @property
    def error(self) -> float:
        """The standard error of a level mean."""
        return self.noise_sd * math.sqrt(self.n_levels / (self.worth or self.n_runs))

    def _ahead(self, means: Numbers, gap: float) -> Numbers:
        """log of the mean over levels of what "this one is ahead by the gap" is more likely than no effect."""
        exponent = (gap * means - gap * gap * (1 - 1 / self.n_levels) / 2) / self.error**2
        return np.asarray(logsumexp(exponent, axis=2) - math.log(self.n_levels))

    def _ratio(self, means: Numbers) -> Numbers:
        """log(b / h): h is the mean over all sets of `claimed` levers, an elementary symmetric polynomial."""
        spread = (self.sizes[2] * self.gap / self.error) ** 2
        normal = (means**2).sum(axis=2) / (2 * self.error**2) * spread / (1 + spread)
        normal -= (self.n_levels - 1) / 2 * math.log1p(spread)
        kinds = [self._ahead(means, size * self.gap) for size in self.sizes[:2]] + [normal]
        one = logsumexp(np.stack(kinds) + np.log(self.SHARES)[:, None, None], axis=0)
        sums = np.full((len(means), self.claimed + 1), -np.inf)
        sums[:, 0] = 0.0
        for k in range(self.n_levers):
            sums[:, 1:] = np.logaddexp(sums[:, 1:], sums[:, :-1] + one[:, k : k + 1])
        honest = sums[:, -1] - math.log(math.comb(self.n_levers, self.claimed))
        return np.asarray(self._ahead(means, self.gap).sum(axis=1) - honest)

    def _fails(self, means: Numbers) -> Numbers:
        """P(so many leaders are wrong | outcomes), best levels being as likely as the outcomes say."""
        exponent = self.gap * means / self.error**2
        right = np.exp((exponent - logsumexp(exponent, axis=2, keepdims=True)).max(axis=2))
        return tail_of_sum(np.stack([right, 1 - right], axis=2), self.mistakes)


# min_effect: ten levers of three levels, effects (e, e / 2, 0), 0.6 was claimed


@dataclass(frozen=True)
class SmallEffects:
    """A look over all levers, and a selection on fresh runs among the levels that it left."""

    effect: float
    matters: float
    """How often an honest lever has effects (0.6, 0.3, 0), in any order; otherwise it has none."""

    LEAST, TOLERANCE, N_LEVERS = 0.6, 0.5, 10

    def drawn(self, n: int, rng: np.random.Generator) -> Drawn:
        """All levers matter by less than was claimed; against no effect, or the least one that was claimed."""
        shape = (n, self.N_LEVERS)
        broken, n_runs = self._study(patterns(self.effect)[rng.integers(6, size=shape)], rng)
        effects = patterns(self.LEAST)[rng.integers(6, size=shape)] * (rng.random(shape) < self.matters)[:, :, None]
        honest, _ = self._study(effects, rng)
        found = [(self._ratio(said), self._fails(said)) for said in (broken, honest)]
        return Drawn(n_runs, *found[0], *found[1])

    def _study(self, effects: Numbers, rng: np.random.Generator) -> tuple["LookedAt", float]:
        look = TwoStage(Problem(Space.sized([3] * 10), self.TOLERANCE, 0.1, 1.0), min_effect=self.LEAST).start().look
        assert look is not None
        error = math.sqrt(3 / look.n_runs)
        first = noise(rng, effects.shape, error) + centred(effects)
        ordered = np.sort(first, axis=2)
        dismissed = ordered[:, :, 1] - ordered[:, :, 0] < dict(look.spread)[3] * error
        near = ordered[:, :, 2:] - first < look.apart * error
        kept = np.where(dismissed[:, :, None], False, near)
        kept &= kept.sum(axis=2, keepdims=True) > 1
        twos, threes = ((kept.sum(axis=2) == m).sum(axis=1) for m in (2, 3))
        n_more = np.array(
            [selection_runs(int(a), int(b), look.selection, look.reach) for a, b in zip(twos, threes, strict=True)]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = kept.sum(axis=2) / n_more[:, None]
        errors = rng.normal(size=effects.shape) * np.sqrt(np.nan_to_num(variance))[:, :, None]
        second = np.where(kept, effects + errors, 0.0)
        second -= np.where(kept, second.sum(axis=2, keepdims=True) / np.maximum(kept.sum(axis=2), 1)[:, :, None], 0.0)
        opened = kept.any(axis=2)
        leaders = np.where(opened, np.where(kept, second, -np.inf).argmax(axis=2), first.argmax(axis=2))
        said = LookedAt(first, second, kept, error**2, np.where(opened, variance, 1.0), leaders)
        return said, look.n_runs + float(n_more.mean())

    def _ratio(self, said: "LookedAt") -> Numbers:
        broken = logsumexp(said.likelihoods(patterns(self.effect)), axis=2) - math.log(6)
        large = logsumexp(said.likelihoods(patterns(self.LEAST)), axis=2) - math.log(6)
        honest = np.logaddexp(math.log1p(-self.matters), math.log(self.matters) + large)
        return np.asarray((broken - honest).sum(axis=1))

    def _fails(self, said: "LookedAt") -> Numbers:
        """P(leaders lose more than the tolerance | outcomes); a loss is none, half the effect, or all of it."""
        ways = patterns(self.effect)
        lost = np.rint((self.effect - ways) / (self.effect / 2)).astype(int)  # of each level, in half effects
        exponent = said.likelihoods(ways)
        chance = np.exp(exponent - logsumexp(exponent, axis=2, keepdims=True))
        units = np.stack([(chance * (lost.T[said.leaders] == u)).sum(axis=2) for u in range(3)], axis=2)
        return tail_of_sum(units, math.floor(2 * self.TOLERANCE / self.effect + 1e-9) + 1)


@dataclass(frozen=True)
class LookedAt:
    """Level means of a look, and of the levels kept in the selection, with their variances, and the leaders."""

    first: Numbers
    second: Numbers
    kept: NDArray[np.bool_]
    first_variance: float
    second_variance: Numbers
    leaders: NDArray[np.int64]

    def likelihoods(self, ways: Numbers) -> Numbers:
        """How much more likely each way that levels may differ makes the outcomes than no effect, in logarithms."""
        own = centred(ways)
        by_look = (self.first @ own.T - (own**2).sum(axis=1) / 2) / self.first_variance
        kept = self.kept.astype(np.float64)
        counts = np.maximum(kept.sum(axis=2, keepdims=True), 1.0)
        squares = kept @ (ways**2).T - (kept @ ways.T) ** 2 / counts
        return np.asarray(by_look + (self.second @ ways.T - squares / 2) / self.second_variance[:, :, None])


def patterns(size: float) -> Numbers:
    """Effects (size, size / 2, 0) in every order."""
    return np.array(list(permutations((size, size / 2, 0.0))))


@lru_cache(maxsize=256)
def selection_runs(twos: int, threes: int, risk: float, reach: float) -> float:
    """Runs of a selection among so many levers of two and of three levels; none where nothing is left."""
    scale = scale_needed((2,) * twos + (3,) * threes, risk, "slippage", reach)
    return (scale / SmallEffects.TOLERANCE) ** 2


# interactions: c (a - 2)(b - 2) of two of six levers of three levels


@dataclass(frozen=True)
class Together:
    """Two of six levers of three levels have effects only together: `size` in two opposite corners of their levels,
    -`size` in the other two. Which pair, which levels are in the middle, and which corners, is drawn.

    With `ordered` the middle levels are known, as if levels were numbers and the effect linear in both.
    """

    n_runs: int
    ordered: bool = False
    size: float = 0.5

    N_LEVERS, N_LEVELS = 6, 3

    def drawn(self, n: int, rng: np.random.Generator) -> Drawn:
        """Single effects say nothing of the pair, so leaders are at random; a failure is a leader in a bad corner."""
        ways = self._ways()
        n_pairs = math.comb(self.N_LEVERS, 2)
        error = math.sqrt(self.N_LEVELS**2 / self.n_runs)  # of a cell mean, noise 1
        found = []
        for broken in (True, False):
            means = rng.normal(0.0, error, (n, n_pairs, self.N_LEVELS, self.N_LEVELS))
            means = centred(centred(means).swapaxes(2, 3)).swapaxes(2, 3)
            if broken:
                pair, way = rng.integers(n_pairs, size=n), rng.integers(len(ways), size=n)
                means[np.arange(n), pair] += ways[way]
            leaders = rng.integers(self.N_LEVELS, size=(n, self.N_LEVERS))
            first, second = np.triu_indices(self.N_LEVERS, 1)
            at = ways[:, leaders[:, first], leaders[:, second]]  # [way, study, pair]: what it is worth where they lead
            exponent = np.einsum("npij,wij->wnp", means, ways) - (ways**2).sum(axis=(1, 2))[:, None, None] / 2
            likelihood = np.exp(exponent / error**2)
            total = likelihood.mean(axis=(0, 2))
            bad = (likelihood * (at < 0)).mean(axis=(0, 2))
            found.append((np.log(total), bad / total))
        return Drawn(self.n_runs, *found[0], *found[1])

    def _ways(self) -> Numbers:
        """What a pair's cells are worth, one way a row."""
        lines = [np.array([-1.0, 0.0, 1.0])]
        if not self.ordered:
            lines += [np.array([0.0, -1.0, 1.0]), np.array([-1.0, 1.0, 0.0])]
        return np.array([sign * self.size * np.outer(a, b) for a in lines for b in lines for sign in (1, -1)])


@dataclass(frozen=True)
class Row:
    """One row of the table: its name, the share of false alarms that its check has, and how outcomes are drawn."""

    name: str
    share: float
    drawn: Callable[[int, np.random.Generator], Drawn]


def rows() -> list[Row]:
    """The rows of benchmarks/doubt.py with more than 10 % of unmarked failures, at the runs that were counted there."""
    many = (1.6, 1.8, 1.7)  # of thirty levers parents are found less easily, and may be larger
    parents = [
        (Parents(3, 3, 1, 0.5, 1.0, 66, 1, worth=82), ""),
        (Parents(3, 3, 1, 0.5, 1.0, 77, 1, worth=80), ", noise unknown"),
        (Parents(10, 3, 3, 0.25, 0.5, 44, 2), ""),
        (Parents(10, 3, 3, 0.25, 0.5, 56, 2), ", noise unknown"),
        (Parents(30, 2, 10, 0.125, 0.5, 68, 4, many), ""),
        (Parents(30, 2, 10, 0.125, 0.5, 78, 4, many), ", noise unknown"),
    ]
    found = [
        Row(f"max_parents a third of K={one.n_levers}, at the edge{end}", SHARES["max_parents"], one.drawn)
        for one, end in parents
    ]
    found += [
        Row("effects of 0.2, min_effect 0.6", SHARES["min_effect"], SmallEffects(0.2, 0.08).drawn),
        Row("effects of 0.3, min_effect 0.6", SHARES["min_effect"], SmallEffects(0.3, 0.22).drawn),
    ]
    for n_runs, end in ((88, ""), (104, ", noise unknown")):
        found.append(Row(f"interaction 0.5 (a - 2)(b - 2){end}", SHARES["pairs"], Together(n_runs).drawn))
        ordered = Together(n_runs, ordered=True)
        found.append(Row(f"interaction 0.5 (a - 2)(b - 2), linear{end}", SHARES["pairs"], ordered.drawn))
    return found


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    heads = f"{'runs':>5} {'failed':>7} {'power <=':>9} {'unmarked >=':>11} {'at own share':>12} {'s':>5}"
    print(f"{'broken':58} {heads}")
    for row in rows():
        if wanted not in row.name:
            continue
        began = time.perf_counter()
        drawn = row.drawn(n, np.random.default_rng(7))
        print(
            f"{row.name:58} {drawn.n_runs:5.0f} {drawn.failed:7.1%} {drawn.power(ALARMS):9.1%} "
            f"{drawn.least_unmarked(ALARMS):11.1%} {drawn.least_unmarked(row.share):12.1%} "
            f"{time.perf_counter() - began:5.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
