"""Whether factors act together: every pair is tested against the additive model (docs/theory/additivity.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc

from levers.core.model.checks.additivity import LEAST_DOF, Additive, f_ratio
from levers.core.model.fit import Fit
from levers.core.model.level_index import Numbers

MOST_PARAMETERS = 1_000
"""Free effects of the additive model beyond which pairs are not screened."""
MOST_PAIRS = 5_000
"""The most pairs of one screen."""
_MOST_WORK = 3e10  # multiplications of one screen, about 2 s
_MOST_COLUMNS = 400  # interaction columns of one pair: two factors of 21 levels
_ALIASED = 1e-8  # an interaction direction of which the additive model leaves a smaller share is a sum of main effects


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
    """All checks, smallest p-value first.

    Of `n_pairs` in all, `n_blind` cannot be judged from these runs, and `n_left_out` were not tested for lack of time.
    `reason` says why nothing was tested.
    """

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
        return PairScreen((), len(pairs), n_blind=len(pairs), reason=_too_little(model))
    chosen = _affordable(model, pairs)
    found = []
    for first, second, q, explained in _explained_squares(model, chosen):
        left = model.dof - q
        if q == 0 or (noise_sd is None and left < LEAST_DOF):
            continue
        if noise_sd is not None:
            statistic = explained / noise_sd**2
            found.append((float(chdtrc(q, statistic)), first, second, q, statistic))
        else:
            statistic = f_ratio(explained, q, model.square - explained, left)
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


def _too_little(model: Additive) -> str:
    """Why the noise cannot be judged."""
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


def _explained_squares(model: Additive, pairs: list[tuple[int, int]]) -> Iterator[tuple[int, int, int, float]]:
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
    if len(counts) == 1:  # two factors of two levels: most of what large screens are made of
        rest = float(gram[0, 0])
        return (1, float(scores[0]) ** 2 / rest) if rest > _ALIASED * float(counts[0]) else (0, 0.0)
    used = np.flatnonzero(counts > 0)
    scale = 1 / np.sqrt(counts[used])
    values, vectors = np.linalg.eigh(gram[np.ix_(used, used)] * np.outer(scale, scale))
    kept = values > _ALIASED
    along = vectors[:, kept].T @ (scores[used] * scale)
    return int(kept.sum()), float((along**2 / values[kept]).sum())
