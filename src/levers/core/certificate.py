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
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from levers.core.checks import check_choice, check_count, check_probability
from levers.core.tails import slippage_tail, tail_grid
from levers.errors import InvalidSettingError

CERTIFICATES = ("slippage", "proven", "subgaussian")
LEAST_FAILURE_PROB = 1e-9
"""Below this the tables of tails do not reach far enough."""
_FAR = 6.0  # gaps beyond this many standard errors are bounded by their tail times 1
_CLOSE = 0.01  # how far below failure_prob, on the log scale, an accepted bound may end
_MOST_CELLS = 60_000_000  # work of one dynamic programme beyond which the Chernoff bound is used
_MOST_EXPONENT = 700.0  # exp of more is infinite
_EXPONENTS = np.geomspace(1e-3, 4.0, 240)  # the grid of exponents y of the Chernoff bound


def dp_bound(
    levels: Sequence[int], scale: float, cells: int | None = None, proven: bool = False, slope: float = 0.0
) -> float:
    """Bound the failure probability by dynamic programming over factors, tolerance 1   (docs/theory, section 3).

    V_{K+1}(r) = 1{r > 1};  V_k(r) = sup_t { V_{k+1}(r) + [V_{k+1}(r + s_k t) - V_{k+1}(r)] h_{m_k - 1}(t) },
    on a grid of r where V is read at the next higher point and h at the next lower one. With a slope, the least c is
    returned for which V_1(r) <= c exp(slope r) wherever that is below 1   (docs/theory, section 6).

    >>> round(dp_bound([2] * 10, scale=7.47, cells=1000), 3)
    0.1
    """
    grid = cells or _grid_cells(scale, proven)
    value = np.zeros(grid + 1)
    for m in sorted(levels):
        step = math.sqrt(m) / scale
        n_gaps = min(grid + 1, int(_FAR * step * grid) + 2)
        lower = np.arange(n_gaps) / (grid * step)  # gap i ends at cell i + 1 and begins at cell i
        padded = np.concatenate([value, np.ones(n_gaps)])
        rise = sliding_window_view(padded, n_gaps)[1 : grid + 2] - value[:, None]
        if proven and m > 2:
            gain = proven_gain(rise, [slippage_tail(q, lower) for q in range(m - 1, 0, -1)])
        else:
            gain = (rise * slippage_tail(m - 1, lower)).max(axis=1)
        if n_gaps <= grid:
            beyond = float(slippage_tail(m - 1, np.array([n_gaps / (grid * step)]))[0])
            rest = (1.0 - value) * beyond
            gain = gain + rest if proven else np.maximum(gain, rest)  # proven: some gaps inside, some beyond
        value = np.minimum(value + gain, 1.0)
    if not slope:
        return float(value[0])
    # V at a point holds for all r down to the point before it
    return float((value * np.exp(-slope * np.maximum(np.arange(grid + 1) - 1, 0) / grid)).max())


def proven_gain(rise: NDArray[np.float64], tails: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """max over t_1 <= ... <= t_{m-1} of sum_i (g(t_i) - g(t_{i-1})) h_{m-i}(t_i), for every row g of `rise`.

    Holds for any gaps, not only equal ones: of the levels that are t_i or more behind there are m - i.
    """
    best = rise * tails[0]
    for tail in tails[1:]:
        following = np.empty_like(best)
        for b in range(rise.shape[1]):
            before = np.maximum((best[:, : b + 1] - rise[:, : b + 1] * tail[b]).max(axis=1), 0.0)
            following[:, b] = before + rise[:, b] * tail[b]
        best = np.maximum(best, following)
    widest: NDArray[np.float64] = best.max(axis=1)
    return widest


def _grid_cells(scale: float, proven: bool) -> int:
    return min(200, max(100, int(4 * scale))) if proven else min(4000, max(400, int(18 * scale)))


@lru_cache(maxsize=512)
def _chernoff_exponents(m: int, proven: bool) -> NDArray[np.float64]:
    """log(1 + sup (exp(y sqrt(m) t) - 1) h(t)) on the grid of exponents, for one factor with m levels."""
    ends, lower_tail = tail_grid(m - 1)
    values = np.full(len(_EXPONENTS), np.inf)  # also where exp would overflow: no bound from that exponent
    usable = [(i, y) for i, y in enumerate(_EXPONENTS) if y * math.sqrt(m) * ends[-1] < _MOST_EXPONENT]
    if not proven or m == 2:
        for i, y in usable:
            values[i] = np.log1p((np.expm1(y * math.sqrt(m) * ends) * lower_tail).max())
        return values
    coarse = slice(9, None, 10)  # every tenth upper end, with the tail at the previous one
    top = ends[coarse]
    starts = np.concatenate([[0.0], top[:-1]])
    tails = [slippage_tail(q, starts) for q in range(m - 1, 0, -1)]
    for i, y in usable:
        values[i] = np.log1p(proven_gain(np.expm1(y * math.sqrt(m) * top)[None, :], tails)[0])
    return values


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
        assert not reach  # a look at sub-Gaussian noise loses nothing
        return subgaussian_scale(levels, failure_prob)
    proven = certificate == "proven"
    proven = proven and max(levels) > 2  # with two levels each the plain bound is proven, and cheaper
    most, slope = _chernoff(levels, failure_prob, proven, reach)
    if _dp_work(levels, most, proven) > _MOST_CELLS:
        return most
    steep = math.log(1 / failure_prob) / reach if reach else 0.0
    return _least_scale(lambda u: dp_bound(levels, u, proven=proven, slope=steep), failure_prob, most, slope)


def _dp_work(levels: Sequence[int], scale: float, proven: bool) -> float:
    cells = _grid_cells(scale, proven)
    gaps = [min(cells, _FAR * math.sqrt(m) / scale * cells) for m in levels]
    if proven:
        return sum(cells * g * g / 2 * max(m - 2, 0) for g, m in zip(gaps, levels, strict=True)) / 4
    return sum(cells * g for g in gaps)


def _least_scale(bound: Callable[[float], float], failure_prob: float, most: float, slope: float) -> float:
    """The least u <= most with bound(u) <= failure_prob, nearly; `most` is known to be enough.

    The bound falls about as exp(-slope u), the Chernoff bound's own exponent, so a few Newton steps do. Only a scale
    whose bound was computed and accepted is returned.
    """
    accepted, rejected, scale = most, 0.0, most * 0.9
    for _ in range(12):
        excess = math.log(max(bound(scale), 1e-300) / failure_prob)
        accepted, rejected = (min(accepted, scale), rejected) if excess <= 0 else (accepted, max(rejected, scale))
        if -_CLOSE <= excess <= 0 or accepted <= rejected * 1.001:
            break
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


def runs_needed(
    levels: Sequence[int], tolerance: float, failure_prob: float, noise_sd: float, certificate: str = "slippage"
) -> int:
    """n_cap: the least number of runs whose certificate reaches the tolerance, n = ceil((u sigma / eps)^2).

    >>> abs(runs_needed([2] * 10, 0.5, 0.1, 1.0) / 223 - 1) < 0.03
    True
    """
    scale = scale_needed(tuple(sorted(levels)), failure_prob, certificate)
    return math.ceil((scale * noise_sd / tolerance) ** 2)


def tolerance_reached(
    levels: Sequence[int], n_runs: int, failure_prob: float, noise_sd: float, certificate: str = "slippage"
) -> float:
    """The smallest tolerance that n runs certify: the inverse of `runs_needed`, eps = u sigma / sqrt(n).

    >>> round(tolerance_reached([2] * 10, 223, 0.1, 1.0), 2)
    0.5
    """
    return scale_needed(tuple(sorted(levels)), failure_prob, certificate) * noise_sd / math.sqrt(n_runs)
