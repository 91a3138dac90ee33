"""The paper's elimination rule: how far each level is behind its factor's best, and which levels are dropped for it."""

import math
from dataclasses import dataclass

import numpy as np

from levers.core.codec import serialisable
from levers.core.model.fit import Fit
from levers.core.model.level_index import ActiveLevels


@serialisable("Elimination")
@dataclass(frozen=True, slots=True)
class Elimination:
    """A level that was ruled out: which, after how many runs, and its estimated distance to the best.

    >>> Elimination(factor=0, level=2, n_runs=400, gap=1.25).gap
    1.25
    """

    factor: int
    level: int
    n_runs: int
    gap: float


@dataclass(frozen=True, slots=True)
class Gaps:
    """The leading level of each factor, and how far each level in play is behind it (None when too little is known)."""

    leaders: tuple[int, ...]
    behind: tuple[tuple[float | None, ...], ...]


def lemma_variance(active: ActiveLevels, n_runs: int) -> float:
    """The variance over sigma^2 that the paper's design lemma promises: sum_k 2 |S_k| / (n - |S_k|)   (Lemma 4.2).

    The bound with n - |S_k| allows for level counts that cannot be equal; it is infinite when n <= some |S_k|.

    >>> lemma_variance(((0, 1), (0, 1, 2)), 20)
    0.575163...
    """
    if n_runs <= max(len(levels) for levels in active):
        return math.inf
    return sum(2 * len(levels) / (n_runs - len(levels)) for levels in active)


def empirical_gaps(fit: Fit, active: ActiveLevels, most_variance: float = math.inf) -> Gaps:
    """Distance of each level in play to its factor's best: max_i theta_k[i] - theta_k[j]   (Section 4.1).

    A contrast that the design does not determine, or only with more than `most_variance` sigma^2, is None: too little
    is known to rule anything out (docs/decisions/0002). A level that was never run cannot lead.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([3]).add([[0], [1], [2], [2]], [0.0, 1.0, 4.0, 4.0]))
    >>> empirical_gaps(fit, ((0, 1, 2),))
    Gaps(leaders=(2,), behind=((4.0, 3.0, 0.0),))
    """
    theta = np.where(np.isnan(fit.theta), -np.inf, fit.theta).tolist()
    starts = fit.moments.offsets.tolist()
    leaders = tuple(
        max(levels, key=lambda j, start=start: theta[start + j])  # type: ignore[misc]
        for start, levels in zip(starts, active, strict=False)
    )
    places = [start + j for start, levels in zip(starts, active, strict=False) for j in levels]
    against = [start + lead for start, lead, levels in zip(starts, leaders, active, strict=False) for _ in levels]
    variances = fit.pair_variances(np.array(places), np.array(against)).tolist()
    known = iter(
        theta[b] - theta[a] if math.isfinite(v) and v <= most_variance else None
        for a, b, v in zip(places, against, variances, strict=True)
    )
    return Gaps(leaders, tuple(tuple(next(known) for _ in levels) for levels in active))


def eliminate(
    gaps: Gaps, active: ActiveLevels, width: float, n_runs: int
) -> tuple[ActiveLevels, tuple[Elimination, ...]]:
    """Keep the levels whose gap is below the width: S_k <- { j in S_k : gap_k[j] < gamma }   (Algorithm 1).

    >>> eliminate(Gaps((2,), ((4.0, None, 0.0),)), ((0, 1, 2),), width=1.0, n_runs=9)
    (((1, 2),), (Elimination(factor=0, level=0, n_runs=9, gap=4.0),))
    """
    dropped = tuple(
        Elimination(factor, level, n_runs, gap)
        for factor, (levels, behind) in enumerate(zip(active, gaps.behind, strict=True))
        for level, gap in zip(levels, behind, strict=True)
        if gap is not None and gap >= width
    )
    gone = {(e.factor, e.level) for e in dropped}
    survivors = tuple(
        tuple(level for level in levels if (factor, level) not in gone) for factor, levels in enumerate(active)
    )
    return survivors, dropped


def count_single(active: ActiveLevels) -> int:
    """How many factors are settled, with one level left."""
    return sum(len(levels) == 1 for levels in active)
