"""What a user claimed about the levers, held against their estimated effects: how many matter, and how much."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, fdtrc

from levers.core.model.checks.additivity import Additive, f_ratio
from levers.core.model.checks.check import EFFECT, PARENTS, Check, bonferroni
from levers.core.model.level_index import Numbers

_SHOWN = 0.05  # over all levers, of one that is counted among those that matter


@dataclass(frozen=True, eq=False)
class Estimated:
    """The estimated effects of levers and their covariance over sigma^2, lever by lever without a reference level.

    `owners` are the levers, `members` the positions of their effects; `differences` has the estimates and variances of
    all differences between levels of a lever that is one factor.
    """

    effects: Numbers
    covariance: Numbers
    owners: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    differences: tuple[tuple[Numbers, Numbers], ...]
    square: float
    dof: int
    noise_sd: float | None

    @classmethod
    def of(cls, model: Additive, owners: Sequence[int], noise_sd: float | None) -> "Estimated | None":
        """The effects of a fit whose first factors belong to these levers; None where runs do not determine them."""
        fit = model.fit
        if not fit.determined or (noise_sd is None and (fit.residual_dof < 1 or model.is_exact)):
            return None
        starts, place = fit.moments.offsets, list[int]()
        members: dict[int, list[int]] = {}
        differences: dict[int, tuple[Numbers, Numbers]] = {}
        for k, owner in enumerate(owners):
            levels = np.arange(starts[k], starts[k + 1])
            free = levels[fit.inverse.diagonal()[levels] > 0]
            members.setdefault(owner, []).extend(range(len(place), len(place) + len(free)))
            place += free.tolist()
            theta = fit.level_effects(k)
            differences[owner] = theta[:, None] - theta[None, :], fit.variances(k)
        shared = {owner for owner in members if list(owners).count(owner) > 1}
        none = np.zeros((0, 0)), np.zeros((0, 0))
        found = sorted(owner for owner in members if members[owner])
        return cls(
            np.nan_to_num(fit.theta[place]),
            fit.inverse[np.ix_(place, place)],
            tuple(found),
            tuple(tuple(members[owner]) for owner in found),
            tuple(none if owner in shared else differences[owner] for owner in found),
            model.square,
            model.dof,
            noise_sd,
        )

    def p_value(self, statistic: float, dof: int) -> float:
        """How likely squares this large are, in units of the noise: chi-squared, or F where the noise is estimated."""
        if dof < 1:
            return 1.0
        if self.noise_sd is not None:
            return float(chdtrc(dof, statistic / self.noise_sd**2))
        return float(fdtrc(dof, self.dof, f_ratio(statistic, dof, self.square, self.dof)))

    def squares(self, lever: int) -> float:
        """What leaving out a lever adds to the squares: t^T C^-1 t, the nested F test's numerator."""
        at = list(self.members[lever])
        return float(self.effects[at] @ np.linalg.solve(self.covariance[np.ix_(at, at)], self.effects[at]))

    @property
    def p_values(self) -> list[float]:
        """The p-value of each lever."""
        return [self.p_value(self.squares(k), len(self.members[k])) for k in range(len(self.members))]


def max_parents(found: Estimated, claimed: int) -> Check | None:
    """Whether more levers matter than were claimed: a test of "at most so many have an effect".

    Two ways, each with half of the level. One lever at a time: (K - P) times the (P + 1)-th smallest p-value of K
    levers holds for "at least P + 1 matter" (Benjamini and Heller 2008). And all at once, for many small effects: if
    the claim is true, some K - P levers have none, so their joint F test must not be extreme whichever they are; the
    set with the least squares is found by leaving out the strongest lever again and again. `size` is how many matter.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, (80, 4))
    >>> model = Additive.of(rows, rows @ [1.5, 1.5, 1.5, 0] + rng.normal(size=80), [2] * 4)
    >>> check = max_parents(Estimated.of(model, range(4), None), 1)
    >>> check.size, check.p_value < 1e-6
    (3.0, True)
    """
    n_levers = len(found.members)
    if claimed >= n_levers:
        return None
    p_values = sorted(found.p_values)
    single = (n_levers - claimed) * p_values[claimed]
    together, n_left = _least_squares(found, n_levers - claimed)
    p_value = min(1.0, 2 * min(single, found.p_value(together, n_left)))
    n_shown = sum(p * n_levers < _SHOWN for p in p_values)
    return Check(PARENTS, together, p_value, float(max(n_shown, claimed + 1)))


def _least_squares(found: Estimated, n_levers: int) -> tuple[float, int]:
    """The joint squares of so many levers, the strongest ones left out one by one, and their parameters."""
    left = list(range(len(found.members)))
    while True:
        at = [i for k in left for i in found.members[k]]
        inverse = np.linalg.inv(found.covariance[np.ix_(at, at)])
        pull = inverse @ found.effects[at]
        total = float(found.effects[at] @ pull)
        if len(left) <= n_levers:
            return total, len(at)
        gains, begin = [], 0
        for k in left:
            own = slice(begin, begin := begin + len(found.members[k]))
            gains.append(float(pull[own] @ np.linalg.solve(inverse[own, own], pull[own])))
        left.pop(int(np.argmax(gains)))


def min_effect(found: Estimated, least: float) -> Check | None:
    """Whether some lever matters, but by less than was claimed: a test of "each has no effect, or at least this one".

    For a lever of q parameters, T = min(t^T C^-1 t, min over pairs of levels of ((least - |difference|)_+ / se)^2): how
    far the estimates are from no effect, and from any effect that large. Under the claim one of the two is an ordinary
    squared error, so T is at most chi-squared on q, and the sum over levers at most on the sum of q if levers are
    nearly independent. The smaller of the joint p-value and the smallest single one (Bonferroni) counts, each with
    half of the level. `factor` is the lever that stands out most, `size` its largest difference.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, (400, 3))
    >>> model = Additive.of(rows, rows @ [1.0, 0.5, 0] + rng.normal(size=400), [2] * 3)
    >>> check = min_effect(Estimated.of(model, range(3), None), 1.2)
    >>> check.factor, check.p_value < 1e-3
    (1, True)
    """
    total, n_parameters, single, sizes = 0.0, 0, list[float](), list[float]()
    levers = [k for k, (values, _) in enumerate(found.differences) if values.size]
    scale = found.noise_sd**2 if found.noise_sd is not None else found.square / max(found.dof, 1)
    for k in levers:
        differences, variances = found.differences[k]
        known = np.isfinite(variances) & (variances > 0)
        if not known.any():
            single.append(1.0)
            sizes.append(0.0)
            continue
        away = np.maximum(least - np.abs(differences[known]), 0.0) ** 2 / variances[known]
        q = len(found.members[k])
        # a level that was never run might be the one that makes the effect
        unseen = not np.isfinite(variances).all()
        distance = 0.0 if unseen else min(found.squares(k), float(away.min()))
        total, n_parameters = total + distance, n_parameters + q
        single.append(found.p_value(distance, q))
        sizes.append(float(np.abs(differences[known]).max()))
    if not n_parameters or scale <= 0:
        return None
    worst = int(np.argmin(single))
    p_value = min(1.0, 2 * min(found.p_value(total, n_parameters), bonferroni(single)))
    return Check(EFFECT, total, p_value, sizes[worst], factor=found.owners[levers[worst]])
