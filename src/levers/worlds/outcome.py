"""How the outcome arises from its parents: additive, of 0 and 1, by tables, by states, by any function, a needle."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.merging import connected
from levers.core.space import Codes
from levers.core.validation import check_choice, check_positive
from levers.errors import InvalidSettingError, InvalidWorldError
from levers.worlds.mechanisms import Table
from levers.worlds.potentials import MAX_JOINT, Potential, configurations, maximise

NOISES = ("gaussian", "uniform", "two-point")
"""The kinds of noise."""
BERNOULLI = "bernoulli"
"""The noise of an outcome of 0 or 1: no error is added, the mean is the probability of a 1."""
ROUNDING = 1e-9
"""How far beyond 0 and 1 a probability may be by rounding."""


class Outcome(Protocol):
    """The outcome's mechanism."""

    @property
    def parents(self) -> tuple[int, ...]:
        """Positions of its parents; hidden variables come after the factors."""

    @property
    def noise_sd(self) -> float:
        """Standard deviation of an outcome about its mean, and its sub-Gaussian parameter."""

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        """The expected outcome of each row: depends on the parents' columns only."""

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        """One outcome per row."""

    def best(self) -> dict[int, int]:
        """A level of each parent that together maximise the mean, found exactly; not asked for with hidden parents."""


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
    """A coefficient times the product of some factors' values, a level's value being its position plus one."""

    coefficient: float
    factors: tuple[int, ...]


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
            total += term.coefficient * np.prod(rows[:, term.factors] + 1.0, axis=1)
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
                    product = product * axis(np.arange(1.0, sizes[position] + 1), position)
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


@dataclass(frozen=True, eq=False)
class TableOutcome(_NoisyOutcome):
    """Y = a sum of tables, each over some parents, plus noise. Its parents may be hidden variables.

    >>> agree = TableOutcome({(0, 1): [[1.0, 0.0], [0.0, 1.0]], (2,): [0.0, 3.0], (): 10.0})
    >>> agree.parents, agree.mean(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.int16)).tolist()
    ((0, 1, 2), [11.0, 13.0])
    """

    tables: Mapping[tuple[int, ...], ArrayLike]
    noise: Noise = Noise()
    potentials: tuple[Potential, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for scope, values in self.tables.items():
            table = np.asarray(values, dtype=np.float64)
            if table.ndim != len(scope) or len(set(scope)) < len(scope) or not np.isfinite(table).all():
                raise InvalidWorldError(
                    f"the outcome's table over positions {scope} needs a finite number for each setting of these "
                    f"{len(scope)} different parents, got the shape {table.shape}"
                )
        object.__setattr__(self, "potentials", tuple(Potential.of(*item) for item in self.tables.items()))

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(sorted({k for scope in self.tables for k in scope}))

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for scope, values in self.potentials:
            total += values[tuple(rows[:, k] for k in scope)]
        return total

    def best(self) -> dict[int, int]:
        return maximise(self.potentials)[1]


@dataclass(frozen=True, eq=False)
class FunctionOutcome(_NoisyOutcome):
    """Y = any function of the rows' codes, plus noise. `sizes` are the numbers of levels of its parents.

    >>> y = FunctionOutcome(lambda rows: 2.0 * rows[:, 0] - rows[:, 1], parents=(0, 1), sizes=(2, 3))
    >>> y.best()
    {0: 1, 1: 0}
    """

    rule: Callable[[Codes], NDArray[Any]] = field(repr=False)
    parents: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    noise: Noise = Noise()

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        means = np.asarray(self.rule(rows), dtype=np.float64)
        if means.shape != (len(rows),) or not np.isfinite(means).all():
            raise InvalidWorldError("the outcome's function must give one finite number for each row")
        return means

    def best(self) -> dict[int, int]:
        """Found among all settings of the parents."""
        inside = configurations(self.sizes)
        rows = np.zeros((len(inside), max(self.parents, default=-1) + 1), dtype=np.int16)
        rows[:, self.parents] = inside
        found = inside[int(np.argmax(self.mean(rows)))]
        return {k: int(level) for k, level in zip(self.parents, found, strict=True)}


@dataclass(frozen=True, eq=False)
class BinaryOutcome:
    """An outcome of 0 or 1 whose probability is the mean of another outcome. Sub-Gaussian with parameter 1/2.

    >>> y = BinaryOutcome(TableOutcome({(0,): [0.25, 1.0]}))
    >>> y.sample(np.array([[1], [1]], dtype=np.int16), np.random.default_rng(0)).tolist()
    [1.0, 1.0]
    """

    probability: Outcome
    noise_sd: float = 0.5

    def __post_init__(self) -> None:
        if isinstance(self.probability, TableOutcome):  # the extremes of a function are known only where it is called
            tables = self.probability.potentials
            lowest = -maximise(Potential(scope, -values) for scope, values in tables)[0]
            self._check(lowest, maximise(tables)[0])

    def _check(self, low: float, high: float) -> None:
        if low < -ROUNDING or high > 1 + ROUNDING:
            raise InvalidWorldError(
                f"an outcome of 0 or 1 has a probability as its mean, not numbers from {low:g} to {high:g}"
            )

    @property
    def parents(self) -> tuple[int, ...]:
        return self.probability.parents

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        """The probability of a 1."""
        chance = self.probability.mean(rows)
        if chance.size:
            self._check(float(chance.min()), float(chance.max()))
        return chance

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        return (rng.random(len(rows)) < self.mean(rows)).astype(np.float64)

    def best(self) -> dict[int, int]:
        return self.probability.best()


@dataclass(frozen=True, eq=False)
class StateOutcome:
    """An outcome with a few states, each worth a number, by a table of probabilities: the node of a Bayesian network.

    `cells` has one row per configuration of the parents (the last varies fastest), one column per state.

    >>> y = StateOutcome(np.array([[0.9, 0.1], [0.5, 0.5]]), values=(0.0, 10.0), parents=(0,), sizes=(2,))
    >>> y.mean(np.array([[0], [1]], dtype=np.int16)).tolist(), y.noise_sd, y.best()
    ([1.0, 5.0], 5.0, {0: 1})
    """

    cells: NDArray[np.float64]
    values: tuple[float, ...]
    parents: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.cells.ndim != 2 or self.cells.shape[1] != len(self.values) or not np.isfinite(self.values).all():
            raise InvalidWorldError(f"the outcome has {len(self.values)} values for {self.cells.shape[-1]} states")
        assert self._table.sizes == self.sizes  # made here, because it checks the probabilities

    @cached_property
    def _table(self) -> Table:
        return Table(self.cells, self.parents, self.sizes)

    @property
    def noise_sd(self) -> float:
        """Half the range: no distribution on it has a larger standard deviation or sub-Gaussian parameter."""
        return (max(self.values) - min(self.values)) / 2

    def mean(self, rows: Codes) -> NDArray[np.float64]:
        means: NDArray[np.float64] = self._table.probabilities(rows) @ np.asarray(self.values)
        return means

    def sample(self, rows: Codes, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.asarray(self.values)[self._table.sample(rows, None, rng)]

    def best(self) -> dict[int, int]:
        row = int(np.argmax(self.cells @ np.asarray(self.values)))
        found = np.unravel_index(row, self.sizes) if self.sizes else ()
        return {k: int(level) for k, level in zip(self.parents, found, strict=True)}


def bernoulli_scale(effects: Mapping[int, Sequence[float]], low: float = 0.05, high: float = 0.95) -> float:
    """What `bernoulli_from_effects` multiplies effects by, and so gaps and tolerances: (high - low) / sum_k range(f_k).

    It is 0 where all effects of each factor are the same.

    >>> bernoulli_scale({0: (0.0, 1.0), 1: (1.0, 4.0)}, low=0.0, high=1.0)
    0.25
    """
    if not 0 <= low <= high <= 1:
        raise InvalidSettingError(f"probabilities run from a low to a high within 0 to 1, not from {low} to {high}")
    total = sum(max(values) - min(values) for values in effects.values())
    return (high - low) / total if total else 0.0


def bernoulli_from_effects(
    effects: Mapping[int, Sequence[float]], low: float = 0.05, high: float = 0.95
) -> BernoulliOutcome:
    """An outcome of 0 or 1 whose probability rises with additive effects, from `low` to `high` exactly.

    P(Y = 1) = low + scale * sum_k (f_k(x_k) - min f_k), with the `bernoulli_scale`: the best setting and the order of
    all settings stay, every gap is multiplied by the scale.

    >>> y = bernoulli_from_effects({0: (0.0, 1.0), 1: (1.0, 3.0)}, low=0.2, high=0.8)
    >>> y.mean(np.array([[0, 0], [1, 0], [1, 1]], dtype=np.int16)).round(3).tolist()
    [0.2, 0.4, 0.8]
    """
    scale = bernoulli_scale(effects, low, high)
    lifted = {k: tuple(scale * (value - min(values)) for value in values) for k, values in effects.items()}
    over = low + sum(max(values) for values in lifted.values()) - high  # above 0 by rounding, if at all
    base = low - max(over, 0.0) if scale else (low + high) / 2
    return BernoulliOutcome(lifted, max(base, 0.0))


def mean_products(outcome: Outcome, sizes: Sequence[int]) -> list[list[Potential]] | None:
    """The mean as a sum of products of small tables, or None where it is known as one function of all parents only.

    Expectations of the terms need the joint distribution of few variables each.

    >>> len(mean_products(AdditiveOutcome({0: (0.0, 1.0), 2: (0.0, 2.0)}), [2, 2, 2]) or ())
    2
    """
    match outcome:
        case AdditiveOutcome():
            terms = [[Potential((k,), np.asarray(outcome.effects[k]))] for k in outcome.parents]
            for term in outcome.interactions:
                values = [Potential((k,), np.arange(1.0, sizes[k] + 1)) for k in term.factors]
                terms.append([Potential((), np.array(term.coefficient)), *values])
            return terms
        case BernoulliOutcome():
            additive = mean_products(AdditiveOutcome(outcome.effects), sizes)
            return [[Potential((), np.array(outcome.base))], *(additive or [])]
        case NeedleOutcome():
            at = [Potential((k,), np.eye(sizes[k])[level]) for k, level in outcome.needle.items()]
            return [[Potential((), np.array(outcome.height)), *at]]
        case TableOutcome():
            return [[potential] for potential in outcome.potentials]
        case BinaryOutcome():
            return mean_products(outcome.probability, sizes)
        case StateOutcome():
            means = (outcome.cells @ np.asarray(outcome.values)).reshape(outcome.sizes)
            return [[Potential.of(outcome.parents, means)]]
    return None
