"""Worlds on which promises are most likely to be broken: gaps about what a study can just resolve."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from levers.core.certificates.certificate import scale_needed
from levers.core.certificates.limits import slippage_failures
from levers.core.space import Codes, Space
from levers.worlds.named import even_table
from levers.worlds.outcome import AdditiveOutcome, BernoulliOutcome, Noise, Outcome
from levers.worlds.scm import World

TOLERANCE, FAILURE_PROB = 0.5, 0.1
SELECTION = 0.9 * FAILURE_PROB  # what is left of it for choosing levels
JUST_OVER = 1 + 1e-9

Worlds = Callable[[int], World]
"""The world of each seed."""


def always(make: Callable[..., World], *settings: object) -> Worlds:
    """The same world for every seed, made when it is needed."""
    return lambda seed: make(*settings)


def seeded(make: Callable[..., World], *settings: object) -> Worlds:
    """A world of its own for each seed."""
    return lambda seed: make(seed, *settings)


def additive_world(effects: Sequence[Sequence[float]], noise: Noise | None = None) -> World:
    """A world without a graph to speak of: every factor is a parent with these effects.

    >>> additive_world([[0.0, 1.0], [0.0, 0.5, 0.2]]).space.n_levels
    (2, 3)
    """
    sizes = [len(row) for row in effects]
    outcome: Outcome = AdditiveOutcome({k: tuple(row) for k, row in enumerate(effects)}, noise or Noise())
    return World(Space.sized(sizes), [even_table(m) for m in sizes], outcome)


def worst_gap(levels: Sequence[int], scale: float) -> float:
    """The equal gap, in tolerances, at which the balanced rule fails most often.

    >>> worst_gap([2], 2.0)
    1.0
    """
    return 1.0 / (1 + int(slippage_failures(levels, scale).argmax()))


@cache
def _critical(levels: tuple[int, ...], risk: float = SELECTION) -> tuple[float, float]:
    """The least scale of a design for these levels, and the worst equal gap in tolerances."""
    scale = scale_needed(levels, risk)
    return scale, worst_gap(levels, scale) * JUST_OVER


@cache
def slippage_world(
    n_factors: int, n_levels: int, noise: Noise | None = None, stretch: float = 1.0, n_without: int = 0
) -> World:
    """The worst equal-gap instance of a fixed-size design that is just large enough: one level is best, by one gap.

    `stretch` makes the gaps larger, as an earlier look can just resolve. Some factors may be without effect.
    """
    _, gap = _critical((n_levels,) * n_factors)
    parent = [stretch * gap * TOLERANCE] + [0.0] * (n_levels - 1)
    return additive_world([parent] * n_factors + [[0.0] * n_levels] * n_without, noise)


@cache
def near_and_far_world(
    n_factors: int, n_near: int, far: tuple[float, ...], stretch: float = 1.0, n_without: int = 0
) -> World:
    """Some rivals at the critical gap, and others behind the best by so many standard errors.

    Standard errors are those at which the near rivals alone are just certified: levels 2.5 to 9 of them behind are
    dropped about then or late, or stay; levels further behind are dropped early.
    """
    levels = (n_near + 1,) * n_factors
    scale, gap = _critical(levels)
    error = math.sqrt(n_near + 1) * TOLERANCE / scale
    near = stretch * gap * TOLERANCE
    parent = [near] + [0.0] * n_near + [near - distance * error for distance in far]
    return additive_world([parent] * n_factors + [[0.0] * len(parent)] * n_without)


def mixed_world(seed: int, stretch: float = 1.0) -> World:
    """Gaps of all sizes about the resolution of the design, and some factors without effect."""
    rng = np.random.default_rng([seed, 77])
    sizes = rng.integers(2, 7, size=int(rng.integers(2, 9)))
    unit = stretch * TOLERANCE / len(sizes)
    return additive_world([(unit * rng.choice([0, 1, 3]) * rng.exponential(size=m)).tolist() for m in sizes])


def one_parent_world() -> World:
    """One of six factors matters, by just over the tolerance."""
    return additive_world([[TOLERANCE * JUST_OVER, 0.0, 0.0, 0.0]] + [[0.0] * 4] * 5)


def edge_world() -> World:
    """Six parents whose effects range over exactly 0.6, with a second level that is hard to tell from the best."""
    return additive_world([[0.6, 0.6 - TOLERANCE / 3 * JUST_OVER, 0.0]] * 6)


def look_world(gap: float, rivals: int, n_parents: int = 10) -> World:
    """Parents at the edge of what a look may dismiss: some levels a gap behind the best, the rest half way."""
    parent = [0.5] + [0.5 - gap] * rivals + [0.25] * (3 - rivals) + [0.0]
    return additive_world([parent] * n_parents + [[0.0] * 5] * (10 - n_parents))


def noisy_world(n_factors: int, n_levels: int, noise_sd: float) -> World:
    """The worst equal gap, with a noise of any size."""
    return slippage_world(n_factors, n_levels, Noise(noise_sd))


def bernoulli_world() -> World:
    """Two factors that move a probability: gaps of half the tolerance of 0.2."""
    outcome = BernoulliOutcome({0: (0.1 + 1e-9, 0.0, 0.0), 1: (0.1 + 1e-9, 0.0)}, base=0.4)
    return World(Space.sized([3, 2]), [even_table(3), even_table(2)], outcome)


@dataclass(frozen=True)
class ScaledOutcome:
    """Outcomes of 0 or 1, recorded as 0 or another number: 100 for per cent.

    >>> y = ScaledOutcome(BernoulliOutcome({0: (0.0, 0.2)}, base=0.5), 100.0)
    >>> y.mean(np.array([[1]], dtype=np.int16)).tolist(), y.noise_sd
    ([70.0], 50.0)
    """

    counted: BernoulliOutcome
    unit: float

    @property
    def parents(self) -> tuple[int, ...]:
        return self.counted.parents

    @property
    def noise_sd(self) -> float:
        return self.unit * self.counted.noise_sd

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        return self.unit * self.counted.mean(rows)

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.unit * self.counted.sample(rows, rng)

    def best(self) -> dict[int, int]:
        return self.counted.best()


def rare_world(base: float, gap: float, sizes: tuple[int, ...], unit: float = 1.0) -> World:
    """Outcomes of 0 or 1, mostly 0; the last level of each factor is best, which ties do not favour."""
    effects = {k: (0.0,) * (m - 1) + (gap * JUST_OVER,) for k, m in enumerate(sizes)}
    outcome = ScaledOutcome(BernoulliOutcome(effects, base), unit)
    return World(Space.sized(sizes), [even_table(m) for m in sizes], outcome)


@dataclass(frozen=True)
class RoundedOutcome:
    """Y = the nearest multiple of a step to offset + sum_k f_k(X_k) + Gaussian noise with sd 1.

    >>> y = RoundedOutcome({0: (0.0, 1.0)}, step=0.5, offset=0.1)
    >>> bool(abs(np.diff(y.mean(np.array([[0], [1]], dtype=np.int16)))[0] - 1) < 1e-3)
    True
    """

    effects: dict[int, tuple[float, ...]]
    step: float
    offset: float = 0.0
    noise_sd: float = 1.0

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(sorted(self.effects))

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        """The expected rounded outcome, which is not quite additive where steps are coarse."""
        return self.mean_at(self.offset + AdditiveOutcome(self.effects).mean(rows))

    def mean_at(self, exact: NDArray[np.float64]) -> NDArray[np.float64]:
        """E round(x + noise) = sum over steps of the chance of being beyond half of each."""
        lowest = math.floor((float(exact.min()) - 9.0) / self.step)
        edges = (np.arange(lowest, math.ceil((float(exact.max()) + 9.0) / self.step)) + 0.5) * self.step
        return np.asarray(lowest * self.step + self.step * norm.sf(edges[None, :] - exact[:, None]).sum(axis=1))

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        exact = self.offset + AdditiveOutcome(self.effects).mean(rows) + rng.normal(size=len(rows))
        return np.asarray(self.step * np.rint(exact / self.step))

    def best(self) -> dict[int, int]:
        return AdditiveOutcome(self.effects).best()


def rounded_world(seed: int, step: float, sizes: tuple[int, ...], n_wrong: int, tolerance: float) -> World:
    """Where so many wrong levels lose just over the tolerance in the mean of what is recorded, about any offset."""
    offset = float(np.random.default_rng([seed, 78]).uniform(-0.5, 0.5)) * step
    plain = RoundedOutcome({}, step)

    def lost(gap: float) -> float:
        low, high = plain.mean_at(np.array([offset + gap * (len(sizes) - n_wrong), offset + gap * len(sizes)]))
        return float(high - low) - tolerance * JUST_OVER

    gap = brentq(lost, 0.0, 2 * (tolerance + step), xtol=1e-12) * (1 + 1e-9)
    effects = {k: (0.0,) * (m - 1) + (gap,) for k, m in enumerate(sizes)}
    return World(Space.sized(sizes), [even_table(m) for m in sizes], RoundedOutcome(effects, step, offset))
