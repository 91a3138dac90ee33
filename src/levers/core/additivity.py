"""Whether the additive model fits: lack of fit, a screen of all pairs of factors, and confirmation runs.

The certificate assumes that effects add up. Residuals of the additive fit can contradict that; they can never prove it.
docs/theory/additivity.md says what is exact here and what is approximate.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc

from levers.core.fit import Fit
from levers.core.moments import Moments
from levers.core.space import Codes

MOST_RUNS = 20_000
"""Runs that a check looks at: beyond it an even sample, because time grows with the runs and power is ample."""
MOST_PARAMETERS = 1_000
"""Free effects of the additive model beyond which pairs are not screened."""
MOST_PAIRS = 5_000
LEAST_DOF = 5
"""Degrees of freedom for the noise below which an F test is not worth its name."""
_MOST_WORK = 3e10  # multiplications of one screen, about 2 s
_MOST_COLUMNS = 400  # interaction columns of one pair: two factors of 21 levels
_ALIASED = 1e-8  # share of an interaction column's length that the additive model leaves unexplained: rounding only
_NO_NOISE = 1e-12  # residuals this small against the outcomes are rounding
_GOLDEN = (math.sqrt(5) - 1) / 2
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """The additive model against replicated runs: `pure_dof` is None when the noise was known."""

    dof: int
    pure_dof: int | None
    statistic: float
    p_value: float


@dataclass(frozen=True, slots=True)
class PairCheck:
    """What adding the interaction of two factors explains. `adjusted` is Holm's p-value over all pairs tested."""

    first: int
    second: int
    dof: int
    statistic: float
    p_value: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class PairScreen:
    """All checks, smallest p first. Of `n_pairs`, these runs cannot tell `n_blind`; `n_left_out` were too many."""

    checks: tuple[PairCheck, ...]
    n_pairs: int
    n_blind: int = 0
    n_left_out: int = 0
    reason: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class CellMeans:
    """Mean residual and number of runs of each combination of two factors' levels; nan where there are none."""

    first: int
    second: int
    means: Numbers
    counts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Additive:
    """The additive fit of some runs, with its residuals.

    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> model = Additive.of(rows, [0.0, 1.0, 5.0, 8.0], [2, 2])
    >>> model.residuals.round(6).tolist(), round(model.square, 6), model.dof
    ([0.5, -0.5, -0.5, 0.5], 1.0, 1)
    """

    codes: Codes
    outcomes: Numbers
    fit: Fit

    @classmethod
    def of(
        cls, codes: ArrayLike, outcomes: ArrayLike, n_levels: Sequence[int], most_runs: int = MOST_RUNS
    ) -> "Additive":
        """Fit at most so many of the runs. Columns only to be allowed for, such as blocks, are factors too."""
        rows, y = np.atleast_2d(np.asarray(codes, dtype=np.int16)), np.asarray(outcomes, dtype=np.float64)
        if len(rows) > most_runs:
            at = even_sample(len(rows), most_runs)
            rows, y = rows[at], y[at]
        return cls(rows, y, Fit(Moments.empty(n_levels).add(rows, y)))

    @cached_property
    def fitted(self) -> Numbers:
        """What the model expects of each run."""
        moments, theta = self.fit.moments, np.nan_to_num(self.fit.theta)
        middle = moments.mean - float(moments.level_counts @ theta) / moments.n_runs
        total = np.full(len(self.codes), middle)
        for k, start in enumerate(moments.offsets[:-1]):
            total += theta[start + self.codes[:, k]]
        return total

    @cached_property
    def residuals(self) -> Numbers:
        """Outcomes less what the model expects."""
        return self.outcomes - self.fitted

    @cached_property
    def square(self) -> float:
        """The sum of squared residuals, from the residuals: small ones keep their digits."""
        return float(self.residuals @ self.residuals)

    @property
    def dof(self) -> int:
        """Runs less free parameters."""
        return self.fit.residual_dof

    @property
    def is_exact(self) -> bool:
        """Whether the model leaves nothing but rounding, so that there is no noise to compare with."""
        largest = float(np.abs(self.outcomes).max(initial=0.0))
        return self.square <= len(self.outcomes) * (_NO_NOISE * largest) ** 2

    def leverages(self) -> Numbers:
        """Each run's pull on its own fit: h = 1/n + (x - x_mean)^T V^+ (x - x_mean). They add up to the rank.

        >>> Additive.of([[0], [0], [1]], [1.0, 2.0, 4.0], [2]).leverages().round(6).tolist()
        [0.5, 0.5, 1.0]
        """
        moments, inverse = self.fit.moments, self.fit.inverse
        shares = moments.level_counts / moments.n_runs
        found, step = np.empty(len(self.codes)), max(1, 4_000_000 // len(shares))
        for begin in range(0, len(found), step):
            places = self.codes[begin : begin + step] + moments.offsets[:-1]
            away = np.tile(-shares, (len(places), 1))
            away[np.arange(len(places))[:, None], places] += 1.0
            found[begin : begin + step] = 1 / moments.n_runs + ((away @ inverse) * away).sum(axis=1)
        return found


def even_sample(n: int, most: int) -> NDArray[np.int64]:
    """At most `most` of n positions: one in each stretch, at a place that never repeats in step with a design.

    >>> even_sample(3, 5).tolist(), even_sample(100, 5).tolist()
    ([0, 1, 2], [0, 32, 44, 77, 89])
    """
    if n <= most:
        return np.arange(n)
    stretch = np.arange(most)
    return np.unique(((stretch + stretch * _GOLDEN % 1.0) * n / most).astype(np.int64))


def lack_of_fit(model: Additive, noise_sd: float | None = None) -> LackOfFit | None:
    """Compare what the additive model leaves over with what runs of one and the same assignment differ by.

    F = [(RSS - PE) / (c - r)] / [PE / (n - c)], PE the squares about the means of the c distinct rows, r the model's
    rank. With a known noise (RSS - PE) / sigma^2 is chi-squared on c - r. None when there are too few replicates.

    >>> rows, y = [[0, 0], [0, 1], [1, 0], [1, 1]] * 3, [0.1, 1, 1, 3, 0, 1.1, 1, 3, 0, 1, 1.2, 3.1]
    >>> found = lack_of_fit(Additive.of(rows, y, [2, 2]))
    >>> found.dof, found.pure_dof, found.p_value < 1e-5
    (1, 8, True)
    """
    _, which, counts = np.unique(model.codes, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    dof, pure_dof = len(counts) - model.fit.rank, len(model.codes) - len(counts)
    if dof < 1 or (noise_sd is None and (pure_dof < LEAST_DOF or model.is_exact)):
        return None
    means = np.bincount(which, model.residuals) / counts
    between = float((counts * means**2).sum())  # residuals instead of outcomes: a row's expectation is one number
    if noise_sd is not None:
        return LackOfFit(dof, None, between / noise_sd**2, float(chdtrc(dof, between / noise_sd**2)))
    pure = float(((model.residuals - means[which]) ** 2).sum())
    statistic = _ratio(between, dof, pure, pure_dof)
    return LackOfFit(dof, pure_dof, statistic, float(fdtrc(dof, pure_dof, statistic)))


def pair_screen(model: Additive, n_factors: int | None = None, noise_sd: float | None = None) -> PairScreen:
    """Test every pair of the first `n_factors` factors for interaction, each against the additive model alone.

    With Z the products of the two factors' level indicators, M the projection off the additive model and e = M y,

        S = e^T Z (Z^T M Z)^+ Z^T e,   q = rank(Z^T M Z),   F = [S / q] / [(RSS - S) / (n - r - q)],

    and S / sigma^2 is chi-squared on q when the noise is known. This is the F test of the two nested least-squares
    fits. Cells that were never run lower q. When the pairs are too many, those of the factors with the largest effects
    go first: under the model residuals are independent of the estimated effects, so this choice biases no p-value.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 3, (200, 4))
    >>> y = rows[:, 0] * rows[:, 2] + rng.normal(size=200)
    >>> worst = pair_screen(Additive.of(rows, y, [3] * 4)).checks[0]
    >>> worst.first, worst.second, worst.dof, worst.adjusted < 1e-6
    (0, 2, 4, True)
    """
    sizes = model.fit.moments.n_levels
    pairs = list(combinations(range(len(sizes) if n_factors is None else n_factors), 2))
    if (n_free := sum(m - 1 for m in sizes)) > MOST_PARAMETERS:
        many = f"the model has {n_free:,} free effects; pairs are screened for up to {MOST_PARAMETERS:,}"
        return PairScreen((), len(pairs), n_left_out=len(pairs), reason=many)
    if noise_sd is None and (model.is_exact or model.dof <= LEAST_DOF):
        return PairScreen((), len(pairs), n_blind=len(pairs), reason=_no_noise(model))
    chosen = _affordable(model, pairs)
    found = []
    for first, second, q, explained in _explained(model, chosen):
        left = model.dof - q
        if q == 0 or (noise_sd is None and left < LEAST_DOF):
            continue
        if noise_sd is not None:
            statistic = explained / noise_sd**2
            found.append((float(chdtrc(q, statistic)), first, second, q, statistic))
        else:
            statistic = _ratio(explained, q, model.square - explained, left)
            found.append((float(fdtrc(q, left, statistic)), first, second, q, statistic))
    found.sort()
    adjusted = holm([p for p, *_ in found])
    checks = tuple(PairCheck(k, m, q, s, p, a) for (p, k, m, q, s), a in zip(found, adjusted, strict=True))
    reason = None if checks or not pairs else "these runs cannot tell any interaction from the effects themselves"
    return PairScreen(checks, len(pairs), len(chosen) - len(found), len(pairs) - len(chosen), reason)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values of p-values in rising order: max_{j <= i} min(1, (m - j + 1) p_j).

    >>> holm([0.01, 0.02, 0.5])
    [0.03, 0.04, 0.5]
    """
    n, highest, adjusted = len(p_values), 0.0, []
    for i, p in enumerate(p_values):
        highest = max(highest, min(1.0, (n - i) * p))
        adjusted.append(highest)
    return adjusted


def cell_means(model: Additive, first: int, second: int) -> CellMeans:
    """Mean residuals by the levels of two factors: what an interaction looks like.

    >>> cell_means(Additive.of([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 5, 8], [2, 2]), 0, 1).means.round(6).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    shape = (model.fit.moments.n_levels[first], model.fit.moments.n_levels[second])
    cell = model.codes[:, first].astype(np.int64) * shape[1] + model.codes[:, second]
    counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(cell, model.residuals, minlength=shape[0] * shape[1]).reshape(shape)
    return CellMeans(first, second, np.divide(sums, counts, out=np.full(shape, np.nan), where=counts > 0), counts)


def confirmation(mean: float, predicted: float, noise_sd: float, n_runs: int, leverage: float) -> float:
    """Fresh runs at the chosen assignment against what the additive fit expects there.

    z = (mean - predicted) / (sigma sqrt(1/n_c + leverage)), leverage = 1/n + w^T V^+ w being the prediction's variance
    over sigma^2. Standard normal if the model holds and the assignment was fixed before. One that was chosen for its
    estimates is predicted on the high side, so z is then somewhat below 0 on average.

    >>> confirmation(mean=9.0, predicted=10.0, noise_sd=1.0, n_runs=10, leverage=0.15)
    -2.0
    """
    return (mean - predicted) / (noise_sd * math.sqrt(1 / n_runs + leverage))


def _ratio(upper: float, upper_dof: int, lower: float, lower_dof: int) -> float:
    """The F statistic; infinite when the larger model leaves nothing but rounding."""
    if lower <= 1e-14 * (upper + lower):
        return math.inf
    return (upper / upper_dof) / (lower / lower_dof)


def _no_noise(model: Additive) -> str:
    if model.dof > LEAST_DOF and model.is_exact:
        return "the additive model fits every run exactly, so there is no noise to compare with"
    return f"{len(model.codes)} runs leave {max(model.dof, 0)} to judge {model.fit.rank} parameters by; more are needed"


def _affordable(model: Additive, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs that there is time for, those of the factors with the largest effects first."""
    moments = model.fit.moments
    n_free, sizes = sum(m - 1 for m in moments.n_levels), moments.n_levels
    place = {k: i for i, k in enumerate(sorted(range(len(sizes)), key=lambda k: -_strength(model.fit, k)))}
    work, chosen = 0.0, list[tuple[int, int]]()
    for k, m in sorted(pairs, key=lambda pair: (max(place[pair[0]], place[pair[1]]), pair)):
        q = (sizes[k] - 1) * (sizes[m] - 1)
        cost = q * (n_free + 1.0) * (moments.n_runs + n_free) + 20.0 * q**3
        if q > _MOST_COLUMNS or work + cost > _MOST_WORK or len(chosen) == MOST_PAIRS:
            continue
        work += cost
        chosen.append((k, m))
    return sorted(chosen)


def _strength(fit: Fit, factor: int) -> float:
    """The factor's largest squared contrast over its variance, noise left out."""
    effects, variances = np.nan_to_num(fit.level_effects(factor)), fit.variances(factor)
    squares = (effects[:, None] - effects[None, :]) ** 2
    known = np.isfinite(variances) & (variances > 0)
    return float(np.divide(squares, variances, out=np.zeros_like(squares), where=known).max(initial=0.0))


def _explained(model: Additive, pairs: list[tuple[int, int]]) -> Iterator[tuple[int, int, int, float]]:
    """For each pair of factors the rank of what its interaction adds, and the squares that it explains.

    Z^T M Z needs the counts of level triples. They come factor by factor, so that memory stays that of one factor, and
    from the runs at one level at a time, so that nothing is multiplied by zero.
    """
    moments, n = model.fit.moments, model.fit.moments.n_runs
    starts, used = moments.offsets, moments.level_counts > 0
    diagonal = model.fit.inverse.diagonal()
    free = np.flatnonzero(diagonal > 0)  # a positive semidefinite matrix has nothing where its diagonal is 0
    inverse = model.fit.inverse[np.ix_(free, free)]
    shares = moments.level_counts[free] / n
    place = np.full(starts[-1], len(free))  # levels that the fit takes as reference go to a spare last column
    place[free] = np.arange(len(free))
    one_hot = np.zeros((n, len(free) + 1), dtype=np.float32)  # counts up to 2^24 are exact
    one_hot[np.arange(n)[:, None], place[model.codes + starts[:-1]]] = 1.0
    levels = [np.flatnonzero(used[a:b])[1:] for a, b in pairwise(starts)]
    for first in sorted({k for k, _ in pairs}):
        others = [m for k, m in pairs if k == first]
        columns = np.concatenate([place[levels[m] + starts[m]] for m in others])
        at_level = [np.flatnonzero(model.codes[:, first] == a) for a in levels[first]]
        parts = [one_hot[rows, :-1] for rows in at_level]
        products = [part[:, columns] for part in parts]
        shape = (len(at_level), len(columns))
        counts = np.array([z.sum(axis=0, dtype=np.float64) for z in products]).reshape(shape)
        scores = np.array([model.residuals[r] @ z for r, z in zip(at_level, products, strict=True)]).reshape(shape)
        triples = np.array([z.T @ x for x, z in zip(parts, products, strict=True)], dtype=np.float64)
        away = triples.reshape(*shape, len(free)) - counts[:, :, None] * shares
        swept = away @ inverse
        begin = 0
        for second in others:
            part = slice(begin, begin := begin + len(levels[second]))
            c, u = counts[:, part].ravel(), scores[:, part].ravel()
            d, g = (x[:, part].reshape(len(c), len(free)) for x in (away, swept))
            yield first, second, *_projected(np.diag(c) - np.outer(c, c) / n - g @ d.T, c, u)


def _projected(gram: Numbers, counts: Numbers, scores: Numbers) -> tuple[int, float]:
    """The rank of Z^T M Z and u^T (Z^T M Z)^+ u, columns scaled to length 1 first; columns of no runs are left out."""
    seen = np.flatnonzero(counts > 0)
    scale = 1 / np.sqrt(counts[seen])
    values, vectors = np.linalg.eigh(gram[np.ix_(seen, seen)] * np.outer(scale, scale))
    kept = values > _ALIASED
    along = vectors[:, kept].T @ (scores[seen] * scale)
    return int(kept.sum()), float((along**2 / values[kept]).sum())
