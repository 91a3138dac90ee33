"""How the outcome arises from its parents: additive, with interaction terms, or a needle in a haystack."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.merging import connected
from levers.core.space import Codes
from levers.core.validation import check_choice, check_positive
from levers.errors import InvalidWorldError

NOISES = ("gaussian", "uniform", "two-point")
"""The kinds of noise."""
MAX_JOINT = 20_000_000
"""The most settings of interacting parents that are searched for the best one."""


class Outcome(Protocol):
    """The outcome's mechanism."""

    @property
    def parents(self) -> tuple[int, ...]:
        """Positions of its parents."""

    @property
    def noise_sd(self) -> float:
        """Standard deviation of an outcome about its mean, and its sub-Gaussian parameter."""

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        """The expected outcome of each row: depends on the parents' columns only."""

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        """One outcome per row."""

    def best(self) -> dict[int, int]:
        """A level of each parent that together maximise the mean, found exactly."""


@dataclass(frozen=True)
class Noise:
    """Noise with mean 0 and variance sd^2; each kind is sub-Gaussian with parameter sd too.

    >>> Noise(2.0, "two-point").sample(3, np.random.default_rng(0)).tolist()
    [2.0, 2.0, 2.0]
    """

    sd: float = 1.0
    kind: str = "gaussian"

    def __post_init__(self) -> None:
        check_positive("noise_sd", self.sd)
        check_choice("noise", self.kind, NOISES)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw n errors."""
        if self.kind == "gaussian":
            return rng.normal(0.0, self.sd, n)
        if self.kind == "uniform":
            half = self.sd * math.sqrt(3)
            return rng.uniform(-half, half, n)
        return np.where(rng.integers(0, 2, n) == 1, self.sd, -self.sd)


@dataclass(frozen=True)
class Interaction:
    """A coefficient times the product of some factors' values: `first` at the first level, 1 more at each next one.

    The appendix of the paper counts levels from 1, its released code from 0; a factor at 0 switches the product off.
    """

    coefficient: float
    factors: tuple[int, ...]
    first: float = 1.0


class _NoisyOutcome(Outcome):
    """An outcome that is its mean plus noise of one kind."""

    noise: Noise

    @property
    def noise_sd(self) -> float:
        return self.noise.sd

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.mean(rows) + self.noise.sample(len(rows), rng)


@dataclass(frozen=True)
class AdditiveOutcome(_NoisyOutcome):
    """Y = sum_k f_k(X_k) + noise, optionally plus interaction terms that break the assumption.

    >>> y = AdditiveOutcome({0: (0.0, 1.0), 2: (0.0, -1.0, 3.0)})
    >>> y.parents, y.best(), y.mean(np.array([[1, 0, 2]], dtype=np.int16)).tolist()
    ((0, 2), {0: 1, 2: 2}, [4.0])
    """

    effects: dict[int, tuple[float, ...]]
    noise: Noise = Noise()
    interactions: tuple[Interaction, ...] = ()

    def __post_init__(self) -> None:
        if any(k not in self.effects for term in self.interactions for k in term.factors):
            raise InvalidWorldError("an interaction may involve parents of the outcome only")

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(sorted(self.effects))

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for k in self.parents:
            total += np.asarray(self.effects[k])[rows[:, k]]
        for term in self.interactions:
            total += term.coefficient * np.prod(rows[:, term.factors] + term.first, axis=1)
        return total

    def best(self) -> dict[int, int]:
        """Found factor by factor, except that parents in one interaction are searched together."""
        best: dict[int, int] = {}
        for group in connected(self.parents, [term.factors for term in self.interactions]):
            best |= self._best_together(group)
        return best

    def _best_together(self, group: Sequence[int]) -> dict[int, int]:
        sizes = [len(self.effects[k]) for k in group]
        if math.prod(sizes) > MAX_JOINT:
            raise InvalidWorldError(
                f"{len(group)} interacting parents have {math.prod(sizes):,} settings; the best is searched among at "
                f"most {MAX_JOINT:,}, so use fewer levels or smaller interactions"
            )

        def axis(values: ArrayLike, position: int) -> NDArray[np.float64]:
            return np.asarray(values).reshape([-1 if i == position else 1 for i in range(len(group))])

        table = np.zeros(sizes)
        for position, k in enumerate(group):
            table += axis(self.effects[k], position)
        for term in self.interactions:
            if term.factors[0] in group:
                product: NDArray[np.float64] = np.full([1] * len(group), term.coefficient)
                for position in map(group.index, term.factors):
                    product = product * axis(term.first + np.arange(sizes[position]), position)
                table += product
        found = np.unravel_index(int(np.argmax(table)), sizes)
        return {k: int(level) for k, level in zip(group, found, strict=True)}


@dataclass(frozen=True)
class BernoulliOutcome:
    """An outcome of 0 or 1 whose probability is additive: base + sum_k f_k(X_k). Sub-Gaussian with parameter 1/2.

    >>> y = BernoulliOutcome({0: (0.0, 0.2)}, base=0.5)
    >>> y.mean(np.array([[1]], dtype=np.int16)).tolist(), y.noise_sd
    ([0.7], 0.5)
    """

    effects: dict[int, tuple[float, ...]]
    base: float
    noise_sd: float = 0.5

    def __post_init__(self) -> None:
        low = self.base + sum(min(values) for values in self.effects.values())
        high = self.base + sum(max(values) for values in self.effects.values())
        if low < 0 or high > 1:
            raise InvalidWorldError(f"the probability runs from {low:g} to {high:g}; it must stay between 0 and 1")

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(sorted(self.effects))

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        """The probability of a 1."""
        return self.base + AdditiveOutcome(self.effects).mean(rows)

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        return (rng.random(len(rows)) < self.mean(rows)).astype(np.float64)

    def best(self) -> dict[int, int]:
        return AdditiveOutcome(self.effects).best()


@dataclass(frozen=True)
class NeedleOutcome(_NoisyOutcome):
    """The exponentially hard instance: the mean is 0 except `height` at one setting of the parents (Section 2.2).

    >>> NeedleOutcome({0: 1, 1: 0}, height=0.5).mean(np.array([[1, 0], [1, 1]], dtype=np.int16)).tolist()
    [0.5, 0.0]
    """

    needle: dict[int, int]
    height: float
    noise: Noise = Noise()

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(sorted(self.needle))

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        """The height where all parents agree with the needle."""
        hit = np.all(rows[:, self.parents] == [self.needle[k] for k in self.parents], axis=1)
        return np.where(hit, self.height, 0.0)

    def best(self) -> dict[int, int]:
        return dict(self.needle)
