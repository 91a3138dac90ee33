"""All checks of some runs in their order: outliers first, because one run imitates everything else."""

from collections.abc import Sequence

import numpy as np

from levers.core.model.additivity import MOST_RUNS, even_sample
from levers.core.model.checks.check import NOISE, Check, Positions, Residual, Runs, noise_p_value
from levers.core.model.checks.outliers import outliers
from levers.core.model.level_index import Numbers

_MOST_CELLS = 8_000_000  # numbers of a basis: runs looked at times parameters


def check_runs(runs: Runs, outlier_level: float) -> tuple[Check, ...]:
    """Every check that these runs allow, with p-values adjusted inside each check.

    Runs that the search for outliers names, at this level, are left out of all others.

    >>> rng = np.random.default_rng(0)
    >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 6, dtype=np.int16)
    >>> runs = Runs(rows, rng.normal(0, 3, 24), (2, 2), noise_sd=1.0)
    >>> [(check.kind, check.p_value < 0.001) for check in check_runs(runs, 0.001)]
    [('outlier', False), ('noise', True)]
    """
    if runs.n_runs == 0:
        return ()
    model = runs.model()
    at = _looked_at(model.residuals, model.fit.rank)
    few = np.unique(runs.outcomes).size <= 2  # yes or no: nothing is far from both
    found = outliers(Residual.of(model, at), at, 0.0 if few else outlier_level, runs.noise_sd)
    checks = [] if few else list(found.checks)
    kept = np.setdiff1d(np.arange(runs.n_runs), found.named)
    looked = runs.at(kept[even_sample(len(kept), most_runs(model.fit.rank))])
    left = Residual.of(looked.model())
    checks += noise(left, runs.noise_sd)
    return tuple(checks)


def noise(left: Residual, noise_sd: float | None) -> Sequence[Check]:
    """The stated noise against all residuals: RSS / sigma^2 is chi-squared on the degrees of freedom.

    Too large a noise is no doubt: it costs runs and nothing else.
    """
    if noise_sd is None or left.dof < 1:
        return ()
    p_value = noise_p_value(left.square, left.dof, noise_sd)
    return (Check(NOISE, left.square / noise_sd**2, p_value, size=float(np.sqrt(left.square / left.dof))),)


def most_runs(rank: int) -> int:
    """The most runs whose basis is made: 20,000, or fewer of very many parameters."""
    return min(MOST_RUNS, max(_MOST_CELLS // max(rank, 1), 2 * rank))


def _looked_at(residuals: Numbers, rank: int) -> Positions:
    """The runs among which outliers are looked for: all, or of very many those with the largest residuals."""
    most = most_runs(rank)
    if len(residuals) <= most:
        return np.arange(len(residuals))
    return np.sort(np.argpartition(-np.abs(residuals), most // 10)[: most // 10])
