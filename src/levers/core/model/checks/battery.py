"""All checks of some runs in their order: outliers first, because one run imitates everything else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from levers.core.model.checks import claims
from levers.core.model.checks.additivity import MOST_RUNS, Additive, even_sample
from levers.core.model.checks.check import Check, Positions, Residual, Runs, noise_p_value
from levers.core.model.checks.nonadditivity import bend_of, nonadditivity
from levers.core.model.checks.order import drift, serial, setup
from levers.core.model.checks.outliers import CONTRADICTED, Outliers, outliers
from levers.core.model.checks.shape import shape
from levers.core.model.checks.spread import noise, spread
from levers.core.model.interaction_fit import InteractionFit, interaction_weights
from levers.core.model.level_index import Numbers

SEVERAL = 2
"""Outliers from which they are compared with effects that reinforce each other: a corner of large outcomes is none."""
MANY_OUTLIERS = 3
"""From so many outliers on the shape of the noise is judged with them: heavy tails look like many outliers."""
FAR_OUT = 1e-3
"""What the level for outliers is multiplied with where levers work together: good runs had p-values down to 7e-5 in 103
studies of benchmarks/together.py's worlds, and typing errors far smaller ones."""
LIKELY = 0.5
"""The probability of interactions that the other runs must leave, for runs far from added effects to be good ones."""
_MOST_CELLS = 8_000_000  # numbers of a basis: runs looked at times parameters


@dataclass(frozen=True, slots=True)
class Claims:
    """What a user claims besides the noise. `owners` says which lever each factor of the fit belongs to."""

    max_parents: int | None = None
    min_effect: float | None = None
    owners: tuple[int, ...] = ()


def check_runs(
    runs: Runs, outlier_level: float, failure_prob: float = 0.1, claimed: Claims | None = None
) -> tuple[Check, ...]:
    """Every check that these runs allow, with p-values adjusted inside each check.

    Runs that the search for outliers names, at this level, are left out of all others, so that what is said of them is
    said of them alone. A stated noise that residuals contradict is not used by the other checks: they take the
    residuals' own.

    >>> rng = np.random.default_rng(0)
    >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 6, dtype=np.int16)
    >>> runs = Runs(rows, rng.normal(0, 3, 24), (2, 2), noise_sd=1.0)
    >>> [(check.kind, check.p_value < 0.001) for check in check_runs(runs, 0.001)]
    [('outlier', False), ('noise', True), ('spread', False), ('drift', False), ('serial', False),
    ('nonadditivity', False), ('shape', False)]
    """
    if runs.n_runs == 0:
        return ()
    model = runs.model()
    few = np.unique(runs.outcomes).size <= 2  # yes or no: nothing is far from both
    named: tuple[int, ...] = ()
    checks: list[Check | None] = []
    if not few:
        found = _outliers(runs, model, outlier_level)
        named = found.named
        checks += found.checks
    kept = np.setdiff1d(np.arange(runs.n_runs), named)
    looked = runs.at(kept[even_sample(len(kept), most_runs(model.fit.rank))])
    model = looked.model()
    left = Residual.of(model)
    stated = runs.noise_sd
    holds = stated is not None and noise_p_value(left.square, left.dof, stated) >= CONTRADICTED
    trusted = stated if holds else None
    checks += [
        noise(left, stated),
        spread(looked, left, trusted),
        drift(looked, left, trusted),
        serial(looked, left),
        setup(looked, left, trusted),
    ]
    checks.append(nonadditivity(model, left, runs.n_factors, trusted))
    if not few:
        checks.append(_shape(runs, looked, left, named, failure_prob, trusted is not None))
    if claimed is not None:
        checks += _claims(looked, claimed, trusted)
    return tuple(check for check in checks if check is not None)


def check_together(
    fit: InteractionFit, named: Sequence[int], outlier_level: float, noise_sd: float | None = None
) -> tuple[Check, ...] | None:
    """The check of runs whose setting was chosen by a fit with interactions: for outliers, by that fit.

    `named` are the outliers by added effects. They may be good runs, or typing errors that look like an interaction: so
    the fit's variances are taken from the others, and where interactions are less likely than not by these, they are
    outliers, and None is returned. What such a fit cannot follow is not normal noise, and no certificate is there for
    other checks to contradict: a run is named only far beyond the level that is used where effects add up.

    >>> from levers.core.model.interaction_fit import Runs, interaction_weights
    >>> rng = np.random.default_rng(0)
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 6, dtype=np.int16)
    >>> y = 5.0 * (codes[:, 0] == codes[:, 1]) + 0.1 * rng.normal(size=24)
    >>> y[5] = 50.0
    >>> runs = Runs.none(2).add(codes, y, 0)
    >>> fit = InteractionFit((2, 2), runs, interaction_weights(runs, (2, 2), None))
    >>> [(check.kind, check.runs) for check in check_together(fit, [5], 0.001)]
    [('outlier', (5,))]
    >>> runs = Runs.none(2).add(codes, np.where(np.arange(24) == 5, 50.0, codes[:, 0] + 0.1 * rng.normal(size=24)), 0)
    >>> check_together(InteractionFit((2, 2), runs, fit.weights), [5], 0.001) is None
    True
    """
    runs = fit.runs
    if len(runs) <= fit.n_constants + 1:
        return ()
    if named:
        others = np.setdiff1d(np.arange(len(runs)), named)
        weights = interaction_weights(runs.at(others), fit.sizes, noise_sd)
        if weights.probability < LIKELY:
            return None
        fit = replace(fit, weights=weights)
    left = Residual.of_interactions(fit)
    found = outliers(left, runs.outcomes, np.arange(len(runs)), outlier_level * FAR_OUT)
    return tuple(replace(check, p_value=min(1.0, check.p_value / FAR_OUT)) for check in found.checks)


def _outliers(runs: Runs, model: Additive, level: float) -> Outliers:
    """The outliers, unless they are several and most of them fit once effects may reinforce each other."""
    at = _looked_at(model.residuals, model.fit.rank)
    left = Residual.of(model, at)
    found = outliers(left, runs.outcomes[at], at, level, runs.noise_sd)
    if len(found.named) < SEVERAL or len(at) < runs.n_runs:
        return found
    bent = left.beside(bend_of(model, runs.n_factors))
    again = outliers(bent, runs.outcomes[at], at, level, None)
    return again if 2 * len(again.named) <= len(found.named) else found


def _shape(
    runs: Runs, looked: Runs, left: Residual, named: Sequence[int], failure_prob: float, noise_is_known: bool
) -> Check | None:
    if len(named) >= MANY_OUTLIERS and runs.n_runs <= most_runs(left.basis.shape[1]):
        looked, left = runs, Residual.of(runs.model())
    return shape(looked, left, failure_prob, noise_is_known)


def _claims(looked: Runs, claimed: Claims, noise_sd: float | None) -> list[Check | None]:
    if claimed.max_parents is None and claimed.min_effect is None:
        return []
    owners = claimed.owners or tuple(range(looked.n_factors))
    found = claims.Estimated.of(looked.model(), owners, noise_sd)
    if found is None:
        return []
    checks: list[Check | None] = []
    if claimed.max_parents is not None:
        checks.append(claims.max_parents(found, claimed.max_parents))
    if claimed.min_effect is not None:
        checks.append(claims.min_effect(found, claimed.min_effect))
    return checks


def most_runs(rank: int) -> int:
    """The most runs whose basis is made: 20,000, or fewer of very many parameters."""
    return min(MOST_RUNS, max(_MOST_CELLS // max(rank, 1), 2 * rank))


def _looked_at(residuals: Numbers, rank: int) -> Positions:
    """The runs among which outliers are looked for: all, or of very many those with the largest residuals."""
    most = most_runs(rank)
    if len(residuals) <= most:
        return np.arange(len(residuals))
    return np.sort(np.argpartition(-np.abs(residuals), most // 10)[: most // 10])
