"""One planned look: dismissing factors and dropping levels early, at a risk that is counted in what could be lost.

A look is a block whose size is fixed before its outcomes. Its mistakes are not forbidden, they are priced: what they
lose in all, L, makes the promise fail only together with what the selection loses later. If a selection that may still
lose tolerance - r fails with probability at most delta_2 exp(lambda r), then everything fails with probability at most
delta_2 E[exp(lambda L)], which is a product over factors. The argument is in docs/theory, section 6.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from levers.core.certificates.sums import proven_gain
from levers.core.certificates.tails import slippage_tail
from levers.core.codec import serialisable

Tail: TypeAlias = NDArray[np.float64]
"""Probabilities, or a function of the loss, by cells of gaps."""
REACH = 0.7
"""The share of the tolerance at which what a look lost makes failure certain, in the count."""
SELECTION_SHARE = 0.5
"""The selection's share of the failure probability that it has together with the look before it."""
LEFT_OVER = 1.5
"""Factors without effect that a look is to leave undecided, on average."""
ANY_COUPLING = 1e9
"""The coupling that is allowed where a union bound is used: factors may depend on each other in any way."""
GAP_STEP, N_GAPS = 0.05, 180
"""Cells of gaps: from 0 to 9 standard errors, the last one for all beyond."""
_GAPS = GAP_STEP * np.arange(N_GAPS + 1)  # the ends of these cells
_LOSS_CELLS = {"slippage": 400, "proven": 200}  # cells of the losses from 0 to REACH tolerances, by certificate
_MOST_LEFT = 0.1  # the largest share of factors without effect that a look is to leave undecided
_APART = 2.2 * math.sqrt(2)
"""Standard errors of a level mean by which a level must be behind to be dropped: 2.2 of a difference."""
_SAFE_MARGIN = 4.5  # standard errors by which the difference of two levels of a parent is hardly ever too small
_MOST_TIED = 8  # rivals with one gap that are counted exactly; more are bounded by a sum
_USUAL_COUPLING = 1.25  # about the coupling of the designs that are made, less one, times runs per parameter
_COUPLING_PER_LEVEL, _FEW_LEVELS = 0.05, 6  # what that grows by for every level beyond so many
_FIRST_COUPLING, _MOST_COUPLING = 1.2, 2.0
"""The coupling that planning begins with, and the largest that a look is planned for."""
_MUCH_LONGER = 2.0**24  # a look that would be longer than the first guess by this factor is not planned
_ERRORS = np.linspace(-9.0, 9.0, 361)  # the points at which normal errors are integrated
_ERROR_STEP = float(_ERRORS[1] - _ERRORS[0])  # their distance
_DENSITY = np.exp(-_ERRORS * _ERRORS / 2) / math.sqrt(2 * math.pi)  # the standard normal density at these points
_ROUNDING = 2e-7  # more than the error of these integrals; it is added to what they give


@serialisable("Look")
@dataclass(frozen=True)
class Look:
    """What a look does with its outcomes, in standard errors of a level mean.

    A level is dropped when it is `apart` behind the leader. A factor with all its levels in play is dismissed when its
    second best level is less than `spread` ahead of its worst one, which depends on how many levels there are. `n_runs`
    are ideal runs, of a design that couples factors by `coupling` at most. The selection after the look may fail with
    probability `selection`, under the envelope that ends at `reach`.
    """

    n_runs: float
    apart: float
    spread: tuple[tuple[int, float], ...]
    selection: float
    reach: float
    coupling: float

    def dismisses(self, effects: NDArray[np.float64], standard_error: float) -> bool:
        """Whether a factor whose levels are all in play is settled by these estimates: its leader is good enough.

        >>> look = Look(100.0, 3.0, ((3, 2.0),), 0.04, 0.7, 1.0)
        >>> look.dismisses(np.array([5.0, 0.0, 1.0]), 1.0), look.dismisses(np.array([5.0, 0.0, 4.0]), 1.0)
        (True, False)
        """
        ordered = np.sort(effects)
        return bool(ordered[-2] - ordered[0] < dict(self.spread)[len(effects)] * standard_error)


@lru_cache(maxsize=256)
def null_spread(m: int, left: float) -> float:
    """The spread from the second best to the worst of m equal levels that is exceeded with probability `left`.

    P(spread < s) = m E[D^(m-1) + (m-1) (1 - Phi(Y+s)) D^(m-2)], D = Phi(Y+s) - Phi(Y), Y the worst level's error.

    >>> round(null_spread(4, 0.05), 2)
    2.68
    """
    if m == 2:
        return 0.05  # the second best is the worst, so any threshold above 0 will do
    low, high = 0.0, 12.0
    for _ in range(40):
        middle = (low + high) / 2
        inside = ndtr(_ERRORS + middle) - ndtr(_ERRORS)
        below = inside ** (m - 1) + (m - 1) * ndtr(-_ERRORS - middle) * inside ** (m - 2)
        low, high = (middle, high) if m * float(_DENSITY @ below) * _ERROR_STEP < 1 - left else (low, middle)
    return high


@lru_cache(maxsize=_MOST_TIED)
def _tied_rivals(k: int) -> Tail:
    """[gap, y]: of k rivals a gap behind the best, whose error is u < y, some are above u and at most one above y."""
    from scipy.integrate import cumulative_simpson  # loads much of scipy, and not every study has a look

    high = ndtr(_ERRORS + _GAPS[1:, None])
    at_most_one = high**k + k * high ** (k - 1) * (1 - high)
    none_above = cumulative_simpson(_DENSITY * ndtr(_ERRORS + _GAPS[:-1, None]) ** k, x=_ERRORS, initial=0)
    table: Tail = at_most_one * ndtr(_ERRORS) - none_above
    return table


def wrongly_dismissed(m: int, margin: float, tied: bool = True) -> Tail:
    """P(dismissed and the leader is at least a gap behind the best), by cells of the gap; all in standard errors.

    A parent's best level has error u, its worst one, min_effect below, v. Unless the best level leads it is at most
    second, so the factor is dismissed only if u < v - margin; some rival, error x and gap g, must lead: x - g > u.
    Rivals other than the leader must not exceed v - margin either. `tied` counts k <= m - 2 rivals with one gap
    exactly, for every k; otherwise the sum over rivals bounds all gaps. Each cell holds the largest value from it on.

    >>> bool((np.diff(wrongly_dismissed(5, 3.0)) <= 0).all()), bool(wrongly_dismissed(2, 3.0).max() < 1e-6)
    (True, True)
    """
    weight = np.exp(-((_ERRORS + margin) ** 2) / 2) / math.sqrt(2 * math.pi) * _ERROR_STEP
    values = np.zeros(len(_GAPS) - 1)
    if m > 2:
        one = _tied_rivals(1) @ weight + _ROUNDING
        if tied:
            values = np.max([_tied_rivals(k) @ weight for k in range(1, min(m - 2, _MOST_TIED) + 1)], axis=0)
        if not tied or m - 2 > _MOST_TIED:
            values = np.minimum((m - 2) * one, ndtr(-margin / math.sqrt(2)))  # never more than being dismissed at all
    from_here: Tail = np.maximum.accumulate(np.maximum(values, 0.0)[::-1])[::-1] + _ROUNDING
    return from_here


def _spread(m: int, effect: float, left: float) -> float:
    """Below this spread a factor is dismissed: the spread of equal levels, or more where that hardly adds risk."""
    return max(null_spread(m, left), effect - _SAFE_MARGIN)


def loss_tail(n_rivals: int, margin: float | None, effect: float, apart: float, gaps: Tail, proven: bool) -> Tail:
    """T(t), a bound of P(loss >= t) for a factor with so many rivals, in standard errors   (docs/theory, section 6).

    The loss is at least t when the factor was dismissed and its leader is t behind, or when its best level was dropped:
    then a leader t behind was `apart` ahead. `margin` is None for a factor that cannot be dismissed.

    >>> bool((np.diff(loss_tail(3, 2.0, 5.0, 3.0, np.arange(0.0, 4.0, 0.5), False)) <= 0).all())
    True
    """
    dropped = slippage_tail(n_rivals, gaps + apart)
    if margin is None:
        return dropped
    at = np.minimum((gaps / GAP_STEP).astype(np.int64), N_GAPS - 1)
    worst_leads = float(slippage_tail(n_rivals, np.array([effect]))[0])
    joint = wrongly_dismissed(n_rivals + 1, margin, tied=not proven)[at] + worst_leads
    either: Tail = np.minimum(slippage_tail(n_rivals, gaps), joint) + dropped
    return either


def factor_risk(
    m: int, margin: float | None, effect: float, apart: float, growth: Tail, gaps: Tail, proven: bool
) -> float:
    """A bound of E[g(loss)] over a factor's effects, where `growth` is g at the upper ends of the cells of `gaps`.

    It is sup_t g(t) T(t), one gap for all rivals. For the exponential g of `look_risk` no effects were found that
    exceed it; for other g there are some. The proven variant holds for every g   (docs/theory, section 6).
    """

    def tail(rivals: int) -> Tail:
        return loss_tail(rivals, margin, effect, apart, gaps, proven)

    if proven and m > 2:
        return float(proven_gain(growth[None, :], [tail(q) for q in range(m - 1, 0, -1)])[0])
    return float((growth * tail(m - 1)).max())


def look_risk(
    factors: Sequence[tuple[int, bool]],
    n_runs: float,
    min_effect: float,
    tolerance: float,
    left: float,
    selection: float,
    max_parents: int | None = None,
    proven: bool = False,
    coupling: float = 1.0,
) -> float:
    """delta_2 prod_k E[exp(p lambda loss_k)]^(1/p), noise 1: at most this often all fails   (docs/theory, section 6).

    p is the design's coupling. Factors are given as (levels in play, whether those are all). Only parents lose:
    with `max_parents`, the most expensive factors count.

    >>> risks = [look_risk([(4, True)] * 10, n, 0.5, 0.5, 0.05, 0.04) for n in (600, 900)]
    >>> risks[0] > risks[1] > 0.04
    True
    """
    cells = _LOSS_CELLS["proven" if proven else "slippage"]
    losses = np.arange(cells + 1, dtype=np.float64) * (REACH * tolerance / cells)
    growth = np.expm1(coupling * np.log(1 / selection) * np.minimum(np.arange(1, cells + 2), cells) / cells)
    terms: list[float] = []
    for m, whole in sorted(set(factors)):
        error = math.sqrt(m / n_runs)
        margin = min_effect / error - _spread(m, min_effect / error, left) if whole else None
        if margin is not None and margin <= 0:
            return 1.0
        risk = factor_risk(m, margin, min_effect / error, _APART, growth, losses / error, proven)
        terms += [math.log1p(risk) / coupling] * list(factors).count((m, whole))
    terms.sort(reverse=True)
    return math.exp(min(math.log(selection) + sum(terms[:max_parents]), 0.0))


@lru_cache(maxsize=256)
def plan_look(
    factors: tuple[tuple[int, bool], ...],
    min_effect: float,
    tolerance: float,
    failure_prob: float,
    max_parents: int | None = None,
    proven: bool = False,
) -> Look:
    """The shortest look after which a factor without effect is mostly dismissed, noise 1, risk at most failure_prob.

    Its length is infinite where no length is enough.

    >>> look = plan_look(((4, True),) * 10, 0.5, 0.5, 0.09)
    >>> 300 < look.n_runs < 900, look.spread[0][0]
    (True, 4)
    """
    left = min(_MOST_LEFT, LEFT_OVER / max(sum(whole for _, whole in factors), 1))
    selection = SELECTION_SHARE * failure_prob

    def length(coupling: float) -> float:
        def too_risky(n_runs: float) -> bool:
            risk = look_risk(factors, n_runs, min_effect, tolerance, left, selection, max_parents, proven, coupling)
            return risk > failure_prob

        low, high = 0.0, 2.0 * max(m for m, _ in factors) / min(min_effect, tolerance) ** 2
        longest = high * _MUCH_LONGER
        while too_risky(high):
            low, high = high, 2 * high
            if high > longest:  # the tables of tails do not reach to so small a risk
                return math.inf
        while high - low > 0.001 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if too_risky(middle) else (low, middle)
        return high

    n_parameters = sum(m - 1 for m, _ in factors)
    most_levels = max(m for m, _ in factors)
    usual = _USUAL_COUPLING + _COUPLING_PER_LEVEL * max(most_levels - _FEW_LEVELS, 0)
    coupling, n_runs = (1.0, length(1.0)) if len(factors) == 1 else (_FIRST_COUPLING, length(_FIRST_COUPLING))
    # the shorter the look, the more its factors share: a few steps to a length and a coupling that go together;
    # where no length would do for the usual coupling, none is planned for less: there may be no such design
    for _ in range(3 if len(factors) > 1 else 0):
        if math.isfinite(n_runs):
            coupling = min(1 + usual * n_parameters / n_runs, _MOST_COUPLING)
            n_runs = length(coupling)
    whole = sorted({m for m, is_whole in factors if is_whole}) if math.isfinite(n_runs) else []
    spread = tuple((m, _spread(m, min_effect / math.sqrt(m / n_runs), left)) for m in whole)
    return Look(n_runs, _APART, spread, selection, REACH, coupling)


@lru_cache(maxsize=256)
def plan_subgaussian_look(factors: tuple[tuple[int, bool], ...], min_effect: float, failure_prob: float) -> Look:
    """The same for any sub-Gaussian noise of parameter 1: with a union bound, so that nothing at all is lost.

    Its share of failure_prob is divided over one pair of levels for each dismissal and m - 1 for each factor's drops.

    >>> 700 < plan_subgaussian_look(((4, True),) * 10, 0.5, 0.1).n_runs < 1000
    True
    """
    share = (1 - SELECTION_SHARE) * failure_prob / 2
    whole = [m for m, is_whole in factors if is_whole]
    left = min(_MOST_LEFT, LEFT_OVER / max(len(whole), 1))
    margin = 2 * math.sqrt(math.log(max(len(whole), 1) / share))
    apart = 2 * math.sqrt(math.log(sum(m - 1 for m, _ in factors) / share))
    n_runs = max((m * ((null_spread(m, left) + margin) / min_effect) ** 2 for m in whole), default=1.0)
    spread = tuple((m, min_effect / math.sqrt(m / n_runs) - margin) for m in sorted(set(whole)))
    return Look(n_runs, apart, spread, SELECTION_SHARE * failure_prob, 0.0, ANY_COUPLING)
