"""Assignments as arms of a linear bandit: features, directions between arms, and designs for these directions.

The one-hot design has rank d - K + 1. So the features are a constant and, for each factor, orthonormal contrasts of its
levels, scaled so that every column has mean square 1 over all arms: a basis of the same space without its redundancy.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from levers.core.model.level_index import Numbers, Places, contrast_basis
from levers.errors import TooManyActionsError

MAX_ARMS = 256
"""The most assignments that methods are run on which compare all pairs of arms."""
MAX_SINGLE_ARMS = 4096
"""The same of methods that compare each arm with one other."""
DESIGN_STEPS = 300
"""Steps of the search for a design."""
_SAME = 9  # decimals up to which two directions are the same
_RIDGE = 1e-9  # added to an information matrix, as a share of its mean diagonal: far below what any design has


def check_arms(n_arms: int, max_actions: int, method: str) -> None:
    """Refuse more arms than a method can be run on, and say what to do.

    >>> check_arms(300, MAX_ARMS, "rage")
    Traceback (most recent call last):
    levers.errors.TooManyActionsError: rage holds every assignment as an arm, and is run on at most 256 of them, \
not 300; use cfs or modl, which work on levels, or fewer factors, or raise max_actions and wait
    """
    if n_arms > max_actions:
        raise TooManyActionsError(
            f"{method} holds every assignment as an arm, and is run on at most {max_actions:,} of them, not "
            f"{n_arms:,}; use cfs or modl, which work on levels, or fewer factors, or raise max_actions and wait"
        )


@lru_cache(maxsize=16)
def arm_features(n_levels: tuple[int, ...]) -> Numbers:
    """A row of features for every assignment, in the order of `numpy.unravel_index`: x = (1, contrasts of its levels).

    >>> arm_features((2, 2)).round(6).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]
    """
    codes = np.unravel_index(np.arange(math.prod(n_levels)), n_levels)
    columns = [math.sqrt(m) * contrast_basis(m)[code] for m, code in zip(n_levels, codes, strict=True)]
    features = np.concatenate([np.ones((len(codes[0]), 1)), *columns], axis=1)
    features.flags.writeable = False
    return features


def directions(features: Numbers) -> Numbers:
    """The differences between arms, each once and with one of its two signs: Y = {x - x'}.

    >>> directions(arm_features((2, 2))).shape  # 6 pairs, of which two and two differ by the same
    (4, 3)
    """
    these, those = np.triu_indices(len(features), k=1)
    if not len(these):
        return np.zeros((0, features.shape[1]))
    found = np.round(features[these] - features[those], _SAME) + 0.0
    first = np.argmax(found != 0, axis=1)
    found *= np.sign(found[np.arange(len(found)), first])[:, None]
    return np.unique(found, axis=0)


def spanning(features: Numbers) -> Numbers:
    """The same arms in a basis of what they span: some of all arms may differ in fewer ways than all do.

    >>> spanning(arm_features((2, 2))[:2]).shape
    (2, 2)
    """
    _, values, basis = np.linalg.svd(features, full_matrices=False)
    found: Numbers = features @ basis[values > 1e-9 * values[0]].T
    return found


def information(features: Numbers, weights: Numbers | Places) -> Numbers:
    """A = sum_a w_a x_a x_a^T.

    >>> information(arm_features((2,)), np.array([3, 1])).tolist()
    [[4.0, 2.0], [2.0, 4.0]]
    """
    found: Numbers = (features * weights[:, None]).T @ features
    return found


def inverted(matrix: Numbers) -> Numbers:
    """The inverse of an information matrix, where runs need not tell everything.

    A direction that they do not determine gets a variance so large that nothing is concluded from it.

    >>> spreads(np.array([[0.0, 1.0], [1.0, 0.0]]), inverted(np.diag([0.0, 4.0]))).round(6).tolist()
    [0.25, 500000000.0]
    """
    dimension = len(matrix)
    found: Numbers = np.linalg.inv(matrix + _RIDGE * np.trace(matrix) / dimension * np.eye(dimension))
    return found


def spreads(sides: Numbers, inverse: Numbers) -> Numbers:
    """||y||^2 in the metric of A^-1 for each row y: the variance over sigma^2 of its estimate.

    >>> spreads(np.array([[0.0, 2.0]]), np.eye(2) / 8).tolist()
    [0.5]
    """
    found: Numbers = np.einsum("ij,ij->i", sides @ inverse, sides)
    return found


def xy_design(features: Numbers, sides: Numbers) -> tuple[Numbers, float]:
    """Weights of the arms that keep the largest variance over all directions small: min_w max_y ||y||^2_{A(w)^-1}.

    Frank-Wolfe with steps 2/(t + 2), as Fiez et al. (2019) solve it, from equal weights: each step moves towards the
    arm that lowers the largest variance fastest. The maximum is not smooth, so the best weights met are kept. Equal
    weights are optimal where the arms are a product of levels and the directions all differences between them.

    >>> weights, value = xy_design(arm_features((2, 3)), directions(arm_features((2, 3))))
    >>> round(value, 6)  # 2 (2 + 3), as in the paper's design lemma
    10.0
    """
    weights = np.full(len(features), 1 / len(features))
    best, least = weights, math.inf
    for step in range(1, DESIGN_STEPS + 1):
        inverse = inverted(information(features, weights))
        variances = spreads(sides, inverse)
        worst = int(np.argmax(variances))
        if variances[worst] < least:
            best, least = weights, float(variances[worst])
        gains = (features @ (inverse @ sides[worst])) ** 2
        if float(gains.max()) <= (1 + 1e-6) * float(variances[worst]):
            break  # no arm lowers it: optimal for this direction, so for the largest
        share = 2 / (step + 2)
        weights = (1 - share) * weights
        weights[int(np.argmax(gains))] += share
    return best, least


def rounded(weights: Numbers, n_runs: int) -> Places:
    """Whole numbers of runs in these proportions: efficient rounding (Pukelsheim, Optimal Design of Experiments, 12.5).

    >>> rounded(np.array([0.5, 0.3, 0.2, 0.0]), 7).tolist()
    [3, 2, 2, 0]
    """
    used = np.flatnonzero(weights > 1e-6)
    share = weights[used] / weights[used].sum()
    counts = np.ceil(np.maximum(n_runs - len(used) / 2, 0.0) * share).astype(np.int64)
    while (missing := n_runs - int(counts.sum())) != 0:
        if missing > 0:
            counts[int(np.argmin(counts / share))] += 1
        else:
            counts[int(np.argmax(np.where(counts > 0, counts - 1, -np.inf) / share))] -= 1
    full: NDArray[np.int64] = np.zeros(len(weights), dtype=np.int64)
    full[used] = counts
    return full


def planned_runs(features: Numbers, weights: Numbers, sides: Numbers, most: float) -> Places:
    """The fewest runs in about these proportions that give every direction a variance of at most `most` sigma^2.

    Papers bound what rounding costs beforehand; here it is measured, and runs are added until they are enough.

    >>> counts = planned_runs(arm_features((2, 3)), np.full(6, 1 / 6), directions(arm_features((2, 3))), 0.5)
    >>> int(counts.sum())  # 10 / 0.5 = 20 would do if 20 runs could be balanced over 6 arms
    21
    """
    ideal = float(spreads(sides, inverted(information(features, weights))).max())
    n_runs = max(math.ceil(ideal / most - 1e-9), 1)
    while True:
        counts = rounded(weights, n_runs)
        if float(spreads(sides, inverted(information(features, counts))).max()) <= most * (1 + 1e-6):
            return counts
        n_runs += max(1, n_runs // 50)
