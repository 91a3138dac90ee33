"""The fixed-size certificate: how often the sum of regrets of factor-wise selection can exceed the tolerance.

n runs, balanced and orthogonal, give each level mean of factor k the standard error s_k = sigma sqrt(m_k / n),
independent over factors. Each factor's empirical best is chosen. Everything depends on the runs through one number, the
scale u = tolerance sqrt(n) / sigma, so a certificate is solved once for u; any of n, tolerance and sigma follows. All
bounds are rounded up. The argument is in docs/theory, sections 2 to 4.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from levers.core.certificates.sums import Stakes, Tied, dp_bound, dp_work, proven_gain, separate, stakes_bound, tied
from levers.core.certificates.tails import log_growth_beyond, log_total_growth_beyond, slippage_tail, tail_grid
from levers.core.validation import check_choice, check_count, check_probability
from levers.errors import InvalidSettingError

CERTIFICATES = ("slippage", "proven", "subgaussian")
"""Equal gaps as the worst case, proven for any gaps, and for any sub-Gaussian noise."""
LEAST_FAILURE_PROB = 1e-9
"""The smallest failure probability: the tables of tails do not reach further."""
_CLOSE = 0.006  # how far below failure_prob, on the log scale, an accepted bound may end
_USUAL_SLOPE = 0.86  # the slope of the bound on the log scale, over that of the Chernoff bound
_AFTER_LOOK = 0.77  # the usual scale under an envelope, over the one without
_MOST_CELLS = 60_000_000  # work of one dynamic programme beyond which the Chernoff bound is used
_MOST_EXPONENT = 700.0  # the largest argument of exp: more is infinite
_EXPONENTS = np.geomspace(1e-3, 4.0, 240)  # the grid of exponents y of the Chernoff bound


def check_failure_prob(failure_prob: float) -> None:
    """Refuse a failure probability that no certificate can promise: it gets no less than a tenth of it."""
    if failure_prob < 10 * LEAST_FAILURE_PROB:
        raise InvalidSettingError(
            f"failure_prob must be at least {10 * LEAST_FAILURE_PROB:g} for a certificate", field="failure_prob"
        )


@lru_cache(maxsize=4096)
def chernoff_scale(levels: tuple[int, ...], failure_prob: float, proven: bool = False, reach: float = 0.0) -> float:
    """The scale at which the Chernoff bound equals failure_prob   (docs/theory, section 3).

    P(regret > eps) <= exp(-lambda eps) prod_k [1 + sup_t (exp(lambda s_k t) - 1) h(t)] for every lambda. With
    y = lambda eps / u this is at most delta when u >= (sum_k log B_k(y) + log(1/delta)) / y; the best y is taken. It
    stays under the envelope that ends at `reach` when also u >= sum_k log B_k(y) / ((1 - reach) y).

    >>> round((chernoff_scale((2,) * 10, 0.1) / 0.5) ** 2)
    331
    """
    return _chernoff(levels, failure_prob, proven, reach)[0]


def _chernoff(levels: tuple[int, ...], failure_prob: float, proven: bool, reach: float) -> tuple[float, float]:
    """The Chernoff scale and the exponent at which it is reached."""
    total = np.zeros(len(_EXPONENTS))
    for m in set(levels):
        total += levels.count(m) * _chernoff_exponents(m, proven)
    scales = (total + math.log(1 / failure_prob)) / _EXPONENTS
    if reach:
        scales = np.maximum(scales, total / ((1 - reach) * _EXPONENTS))
    at = int(scales.argmin())
    return float(scales[at]), float(_EXPONENTS[at])


@lru_cache(maxsize=512)
def _chernoff_exponents(m: int, proven: bool) -> NDArray[np.float64]:
    """log(1 + sup (exp(y sqrt(m) t) - 1) h(t)) on the grid of exponents, for one factor with m levels.

    What is beyond the table of h is bounded on its own: a supremum by the larger of two, the proven sum by a sum.
    """
    ends, lower_tail = tail_grid(m - 1)
    values = np.full(len(_EXPONENTS), np.inf)  # also where exp would overflow: no bound from that exponent
    usable = [(i, y) for i, y in enumerate(_EXPONENTS) if y * math.sqrt(m) * ends[-1] < _MOST_EXPONENT]
    if not proven or m == 2:
        for i, y in usable:
            inside = np.log1p((np.expm1(y * math.sqrt(m) * ends) * lower_tail).max())
            values[i] = max(inside, np.logaddexp(0.0, log_growth_beyond(m - 1, y * math.sqrt(m))))
        return values
    coarse = slice(9, None, 10)  # every tenth upper end, with the tail at the previous one
    top = ends[coarse]
    starts = np.concatenate([[0.0], top[:-1]])
    tails = [slippage_tail(q, starts) for q in range(m - 1, 0, -1)]
    for i, y in usable:
        inside = np.log1p(proven_gain(np.expm1(y * math.sqrt(m) * top)[None, :], tails)[0])
        values[i] = np.logaddexp(inside, log_total_growth_beyond(m - 1, y * math.sqrt(m)))
    return values


def usual_scale(levels: tuple[int, ...], failure_prob: float, proven: bool = False, reach: float = 0.0) -> float:
    """About the scale that `scale_needed` finds, for planning: the Chernoff scale times a share that was fitted.

    The share depends on the number of factors, their mean levels and the failure probability (docs/decisions/0019).

    >>> levels = (2, 3, 4, 5) * 4
    >>> 0.97 < usual_scale(levels, 0.09) / scale_needed(levels, 0.09) < 1.03
    True
    """
    mean = sum(levels) / len(levels)
    usual = 0.663 + 0.027 * math.log(len(levels)) + 0.039 * math.log(mean) - 0.028 * math.log(failure_prob)
    return (_AFTER_LOOK if reach else 1.0) * min(usual, 1.0) * chernoff_scale(levels, failure_prob, proven, reach)


def subgaussian_scale(levels: Sequence[int], failure_prob: float) -> float:
    """u = sqrt(4 sum_k m_k (sum_k log m_k + log(1/delta))): any sub-Gaussian noise   (docs/theory, section 4).

    A union bound over all rival assignments; each differs from the best in a direction of variance at most
    sum_k 2 m_k / n.

    >>> round(subgaussian_scale([2, 2], 0.1) ** 2, 2)
    59.02
    """
    return math.sqrt(4 * sum(levels) * (sum(math.log(m) for m in levels) + math.log(1 / failure_prob)))


@lru_cache(maxsize=4096)
def scale_needed(
    levels: tuple[int, ...], failure_prob: float, certificate: str = "slippage", reach: float = 0.0
) -> float:
    """The least scale u = tolerance sqrt(n) / sigma that a certificate accepts, nearly, never too small.

    With a `reach`, failing when a share r of the tolerance is already lost must have a probability of at most
    failure_prob^(1 - r / reach), for every r: the envelope of a selection after a look   (docs/theory, section 6).

    >>> round((scale_needed((4,) * 10, 0.1) / 0.5) ** 2) in range(1100, 1140)
    True
    """
    check_choice("certificate", certificate, CERTIFICATES)
    check_probability("failure_prob", failure_prob)
    if failure_prob < LEAST_FAILURE_PROB:
        raise InvalidSettingError(f"certificates are computed for failure_prob of {LEAST_FAILURE_PROB:g} and above")
    for m in levels:
        check_count("levels", m, 2)
    if not levels:
        return 0.0
    if certificate == "subgaussian":
        assert not reach  # a look with sub-Gaussian noise loses nothing, and needs no envelope
        return subgaussian_scale(levels, failure_prob)
    proven = certificate == "proven" and max(levels) > 2  # with two levels the slippage bound is proven, and cheaper
    most, slope = _chernoff(levels, failure_prob, proven, reach)
    if dp_work(levels, most, proven) > _MOST_CELLS:
        return most
    steep = math.log(1 / failure_prob) / reach if reach else 0.0
    likely = usual_scale(levels, failure_prob, proven, reach)
    return _least_scale(lambda u: dp_bound(levels, u, proven=proven, slope=steep), failure_prob, most, likely, slope)


def stakes_tolerance(stakes: Stakes, failure_prob: float, near: float | None = None) -> float:
    """The least tolerance that these stakes certify: V_1(0) <= failure_prob, nearly, never too small.

    `near` is a guess. Everything is in units of r, the root mean square of the errors over sqrt(levels), in which equal
    clocks have the errors sqrt(m) of an ideal design of one run.

    >>> alike = [(4, 2 / math.sqrt(400))] * 10
    >>> abs(stakes_tolerance(alike, 0.1) * 20 / scale_needed((4,) * 10, 0.1) - 1) < 0.01
    True
    """
    if not stakes:
        return 0.0
    unit, swaps = stakes_unit(stakes), [swap for one in tied(stakes) for swap in one.swaps]
    every = [*separate(stakes), *swaps]
    levels = tuple(sorted(m for m, _ in every))
    widest = max(error / math.sqrt(m) for m, error in every) / unit
    most, slope = _chernoff(levels, failure_prob, False, 0.0)
    likely = usual_scale(tuple(sorted(m for m, _ in separate(stakes))), failure_prob) if near is None else near / unit
    if dp_work(levels, most, False) > _MOST_CELLS:
        return unit * widest * (1.0 + len(swaps)) * most
    relative = [_over(stake, unit) for stake in stakes]
    enough = widest * most
    while swaps and stakes_bound(relative, enough) > failure_prob:  # the Chernoff bound is of factors that are not tied
        enough *= 1.2
    return unit * _least_scale(lambda u: stakes_bound(relative, u), failure_prob, enough, likely, slope)


def _over(stake: tuple[int, float] | Tied, unit: float) -> tuple[int, float] | Tied:
    """A stake in units of an error."""
    if isinstance(stake, Tied):
        return Tied(tuple((m, error / unit) for m, error in stake.parts), stake.n_swaps, stake.error / unit)
    return stake[0], stake[1] / unit


def stakes_unit(stakes: Stakes) -> float:
    """The root mean square of standard errors over sqrt(levels): sigma / sqrt(n) for an ideal design of n runs.

    >>> stakes_unit([(4, 0.2), (9, 0.3)])
    0.1
    """
    one_by_one = separate(stakes)
    return math.sqrt(sum(error * error / m for m, error in one_by_one) / len(one_by_one))


def _least_scale(
    bound: Callable[[float], float], failure_prob: float, most: float, likely: float, slope: float
) -> float:
    """The least u <= most with bound(u) <= failure_prob, nearly; `most` is known to be enough.

    The bound falls about as exp(-slope u), the Chernoff bound's own exponent at first, so a few secant steps do. Only a
    scale whose bound was computed and accepted is returned.
    """
    accepted, rejected, scale, slope = most, 0.0, likely, _USUAL_SLOPE * slope
    tried: tuple[float, float] | None = None
    for _ in range(12):
        excess = math.log(max(bound(scale), 1e-300) / failure_prob)
        accepted, rejected = (min(accepted, scale), rejected) if excess <= 0 else (accepted, max(rejected, scale))
        if -_CLOSE <= excess <= 0 or accepted <= rejected * 1.001:
            break
        if tried is not None and (scale - tried[0]) * (tried[1] - excess) > 0:
            slope = (tried[1] - excess) / (scale - tried[0])
        tried = scale, excess
        following = scale + (excess + _CLOSE / 2) / slope
        inside = rejected < following < accepted
        scale = following if inside else (rejected + accepted) / 2
    return accepted


def certified_levels(n_levels: Sequence[int], max_parents: int | None) -> tuple[int, ...]:
    """The level counts that can lose anything: all, or the `max_parents` largest.

    >>> certified_levels([3, 5, 4], 2)
    (4, 5)
    """
    ordered = sorted(n_levels)
    return tuple(ordered if max_parents is None else ordered[len(ordered) - min(max_parents, len(ordered)) :])
