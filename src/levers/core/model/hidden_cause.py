"""Whether something hidden drives both a lever and the outcome: runs that leave it alone against runs that set it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from levers.core.model.fit import Fit
from levers.core.model.level_index import Numbers
from levers.core.model.ordinary import Noise


@dataclass(frozen=True, slots=True)
class HiddenCause:
    """What leaving levers alone yields beyond the effects of the levels that nature took: the excess, and its test.

    `p_value` is that of no excess against one above 0, already multiplied by the number of `comparisons`.
    """

    excess: float
    standard_error: float
    p_value: float
    comparisons: int


class Taken(NamedTuple):
    """A factor that was left alone: the places of its levels in the row of all levels, how often nature took each as
    shares, and its level in the setting that leaves nothing alone."""

    places: NDArray[np.int64]
    shares: Numbers
    level: int


def hidden_cause(
    fit: Fit,
    noise: Noise,
    gain: float,
    gain_error: float,
    gain_dof: int,
    taken: Sequence[Taken],
    n_subsets: int,
) -> HiddenCause | None:
    """Test whether the gain from leaving factors S alone exceeds what the effects of the levels taken explain.

    Where nothing hidden drives both a factor of S and the outcome, leaving S alone while the others stay at x changes
    the mean by the effects of the levels that nature takes (docs/theory/left_alone.md, section 3):

        E[Y | do(x_-S)] - E[Y | do(x)] = sum_{s in S} sum_i p_s(i) (theta_s[i] - theta_s[x_s]).

    The left side is `gain`, measured on runs of its own with standard error `gain_error`. The right side is c^T theta
    of a `fit` to other runs in which every factor was set; `taken` has for each factor of S the shares p_s of the
    levels that nature took in the runs that left S alone. Under the hypothesis the excess is normal with mean 0 for
    every x that is fixed in advance. The x in use was chosen by the fit, so each of the prod_s M_s settings of S is
    charged for, and each of `n_subsets` subsets that are looked at. None where the fit does not determine the effect of
    a level taken.

    >>> from levers.core.model.moments import Moments
    >>> fit = Fit(Moments.empty([2, 2]).add([[0, 0], [0, 1], [1, 0], [1, 1]] * 25, [0.0, 1.0, 0.0, 1.0] * 25))
    >>> found = hidden_cause(fit, Noise(0.5, None), 0.5, 0.08, 60, [Taken(np.arange(2), np.array([0.5, 0.5]), 1)], 1)
    >>> round(found.excess, 3), round(found.standard_error, 3), found.comparisons, round(found.p_value, 7)
    (0.5, 0.094, 2, 1.7e-06)
    """
    weights: NDArray[np.float64] = np.zeros(sum(fit.moments.n_levels))
    comparisons = n_subsets
    for one in taken:
        weights[one.places] = one.shares
        weights[one.places[one.level]] -= 1.0
        comparisons *= len(one.places)
    used = np.flatnonzero(weights)
    if not fit.determined or (fit.moments.level_counts[used] == 0).any():
        return None
    explained = float(weights[used] @ fit.theta[used])
    variance = noise.sd**2 * float(weights @ fit.inverse @ weights) + gain_error**2
    excess, error = gain - explained, math.sqrt(max(variance, 0.0))
    if error == 0.0:
        return None
    dof = gain_dof if noise.dof is None else min(gain_dof, noise.dof)
    # with a stated noise too: what varies when levers are left alone is estimated
    tail = float(stdtr(dof, -excess / error)) if dof > 0 else float(ndtr(-excess / error))
    return HiddenCause(excess, error, min(1.0, comparisons * tail), comparisons)
