"""Which levels to run for what a study that aims for the best setting can promise at its end.

The end leaves out levels far behind, and counts the differences between each leader and its other rivals
(docs/theory/pooled.md, section 6). Runs that serve the setting alone leave many rivals just not far enough behind: a
factor whose best level is hardly in doubt is run there almost only, and a dozen runs of a rival would settle it. Every
run sets all factors, so each factor is divided by itself (docs/decisions/0056).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from levers.algorithms.cfs.allocation import indicators_of, own_variances
from levers.algorithms.cfs.settings import FOR_PROMISE, PROMISE_FROM, PROMISE_OVER, SURELY_FAR
from levers.core.model.choices import Choices
from levers.core.model.posterior import Posterior

_HALVINGS = 40
"""Of the interval in which the number of runs that all levels in question have is looked for."""


def share_for_promise(runs_a_parameter: float) -> float:
    """The share of the next runs that serve the promise: none while the setting is hardly known.

    >>> share_for_promise(2.0), share_for_promise(7.0), share_for_promise(20.0)
    (0.0, 0.5, 0.9)
    """
    return min(max((runs_a_parameter - PROMISE_FROM) / PROMISE_OVER, 0.0), FOR_PROMISE)


def never_far_by_chance(n_pairs: int, failure_prob: float, growth: float) -> float:
    """A distance, in standard errors, that no two equal levels of `n_pairs` are ever apart, except with failure_prob.

    A rival that is far behind at one look gets no more runs, so that what looked far by chance is never taken back, and
    a level without effect is shown to be worse. While runs become `growth` times as many, the standardised difference
    is a stationary process in their logarithm, which crosses b at the rate b phi(b) / 2:

        n_pairs (1 - Phi(b)) (1 + b^2 log(growth) / 3) <= failure_prob,

    two thirds of these crossings being seen by looks some runs apart.

    >>> round(never_far_by_chance(6, 0.025, 1.0), 2), round(never_far_by_chance(6, 0.025, 100.0), 2)
    (2.64, 3.53)
    """
    low, high, looks = 0.0, 40.0, math.log(max(growth, 1.0)) / 3
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        ever = n_pairs * float(ndtr(-middle)) * (1 + middle**2 * looks)
        low, high = (middle, high) if ever > failure_prob else (low, middle)
    return high


def promised_shares(
    choices: Choices, found: Posterior, n_left: int, distance: float, kept_apart: float = 0.0
) -> list[NDArray[np.float64]]:
    """For each factor the share of the next runs that each level gets, if all `n_left` serve the promise.

    Let c be the runs that the leader is to have. A rival that is d behind is left out where d > t sigma sqrt(1/c_j +
    1/c), t being the `distance` of levels left out, so it needs

        c_j = 1 / ((d / (a t sigma))^2 - 1/c)

    runs, and no more than c, where it counts with the others; a > 1, because d is an estimate. Each level gets what it
    lacks, and c is as large as the runs left allow. `kept_apart` is a t from which on a rival gets no more runs, if it
    is the larger one: see `never_far_by_chance`.

    >>> rival = Posterior(np.array([1.0, 0.9, 0.2]), 0.04 * np.eye(3), 1.0, 1.0)
    >>> [share] = promised_shares(Choices((3,)), rival, 60, 3.0)
    >>> share.round(2).tolist()
    [0.47, 0.47, 0.06]
    """
    every = [_of_factor(places, found) for places in choices.places]
    widest = max(len(runs) for runs, _ in every)
    runs = np.stack([np.pad(own, (0, widest - len(own))) for own, _ in every])
    behind = np.stack([np.pad(own, (0, widest - len(own)), constant_values=np.inf) for _, own in every])
    far = max(SURELY_FAR * distance, kept_apart)
    reach = (behind / (far * found.noise_sd)) ** 2  # 1 over the runs that a rival needs, at least

    def lacking(each: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            needed = 1.0 / np.maximum(reach - 1.0 / each, 0.0)
        return np.maximum(np.minimum(needed, each) - runs, 0.0)

    low, high = np.full((len(runs), 1), 1e-9), runs.max(axis=1, keepdims=True) + n_left
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        too_many = lacking(middle).sum(axis=1, keepdims=True) > n_left
        low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
    added = lacking(low)
    row = np.arange(len(runs))
    added[row, behind.argmin(axis=1)] += n_left - added.sum(axis=1)  # where no rival is in question any more
    return [share[: len(own)] for share, (own, _) in zip(added / n_left, every, strict=True)]


def mixed_shares(
    serving: Sequence[NDArray[np.float64]], promised: Sequence[NDArray[np.float64]], part: float
) -> list[NDArray[np.float64]]:
    """The shares of runs of which a part serves the promise, and the others the setting.

    >>> mixed_shares([np.array([1.0, 0.0])], [np.array([0.5, 0.5])], 0.5)[0].tolist()
    [0.75, 0.25]
    """
    return [(1 - part) * own + part * other for own, other in zip(serving, promised, strict=True)]


def _of_factor(places: NDArray[np.int64], found: Posterior) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many runs each level's mean is worth by its variance, and how far it is behind the leader."""
    used, indicators = indicators_of(places)
    joint = indicators @ found.covariance[np.ix_(used, used)] @ indicators.T
    values = indicators @ found.mean[used]
    return found.noise_sd**2 / own_variances(joint), values.max() - values
