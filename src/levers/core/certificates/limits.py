"""Lower limits of runs: for any method, and for the rule that runs one balanced design (docs/theory, section 7)."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from levers.core.certificates.tails import slippage_tail


def binary_divergence(p: float, q: float) -> float:
    """kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q)) of two coins.

    >>> round(binary_divergence(0.1, 0.9), 3)
    1.758
    """
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def instance_bound(effects: Sequence[Sequence[float]], tolerance: float, failure_prob: float, noise_sd: float) -> float:
    """LB-A: E[runs] >= kl(delta, 1-delta) T_k for each factor whose other levels are more than eps behind.

    T_k = min_w max_j 2 sigma^2 (1/w_* + 1/w_j) / (Delta_j + eps)^2; the largest over factors is returned, 0 if none
    qualifies (docs/theory, section 7).

    >>> instance_bound([[0.0, 2.0]], 0.5, 0.1, 1.0) > 2
    True
    """
    if failure_prob >= 0.5:
        return 0.0
    divergence = binary_divergence(failure_prob, 1 - failure_prob)
    gaps = [np.sort(max(row) - np.asarray(row))[1:] for row in effects]
    times = [_selection_time(behind + tolerance, noise_sd) for behind in gaps if behind[0] > tolerance]
    return divergence * max(times, default=0.0)


def _selection_time(distances: NDArray[np.float64], noise_sd: float) -> float:
    """min over weights of max_j 2 sigma^2 (1/w_* + 1/w_j) / d_j^2, by its single unknown w_*."""

    def value(best_share: float) -> float:
        # all j are equal at the optimum: 1/w_j = c d_j^2 - 1/w_*, with c such that the shares sum to 1
        low, high = (1 / best_share) / float(distances.min() ** 2) * (1 + 1e-12), 1e12
        for _ in range(200):
            middle = math.sqrt(low * high)
            shares = best_share + float((1 / (middle * distances**2 - 1 / best_share)).sum())
            low, high = (middle, high) if shares > 1 else (low, middle)
        return high

    from scipy.optimize import minimize_scalar  # loads much of scipy, and only plans need it

    best = minimize_scalar(value, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-6})
    return 2 * noise_sd**2 * float(best.fun)


def null_bound(
    n_levels: Sequence[int], tolerance: float, failure_prob: float, noise_sd: float, min_effect: float = 0.0
) -> float:
    """E[runs] of any method on effects of which these factors, given by their numbers of levels, have none.

    For the r largest of them and c <= r, with g = eps/c, or `min_effect` if that is larger and known to the method:
    E[runs] >= 2 sigma^2 kl(q, 1 - delta) / (g^2 sum_k (m_k - 1) / m_k^2), where q = P(r - c + 1 hits or more), factor k
    being hit with probability 1/m_k, must be less than 1 - delta. The largest of these is returned, 0 if there is none
    (docs/theory, section 7).

    >>> round(null_bound([4] * 10, 0.5, 0.1, 1.0)), null_bound([], 0.5, 0.1, 1.0)
    (285, 0.0)
    """
    hits, information, best = np.ones(1), 0.0, 0.0
    for r, m in enumerate(sorted(n_levels, reverse=True), 1):
        hits = np.convolve(hits, [1 - 1 / m, 1 / m])  # P(0), ..., P(r) hits
        information += (m - 1) / m**2
        enough = np.minimum(np.cumsum(hits[:0:-1]), 1.0)  # P(r - c + 1 hits or more), for c = 1, ..., r
        gap = np.maximum(tolerance / np.arange(1, r + 1), min_effect)
        divergence = rel_entr(enough, 1 - failure_prob) + rel_entr(1 - enough, failure_prob)
        bounds = np.where(enough < 1 - failure_prob, divergence * (noise_sd / gap) ** 2, 0.0)
        best = max(best, 2 * float(bounds.max()) / information)
    return best


def worst_case_bound(
    n_levels: Sequence[int], tolerance: float, failure_prob: float, noise_sd: float, min_effect: float = 0.0
) -> float:
    """LB-C: E[runs] of any method on its worst effects (docs/theory, section 7).

    For r factors with M levels (here: the r largest, M the least of them) and m <= r hits of gap eps/m (`min_effect` if
    that is larger and known), with p = ((m-1) + (r-m+1) delta)/r: the larger of (2 M sigma^2 / gap^2) kl(1/M, 1-p) if
    1-p > 1/M and (2 sigma^2 / gap^2) kl(p, 1-p) if p < 1/2.

    >>> worst_case_bound([4] * 10, 0.5, 0.1, 1.0) > 50
    True
    """
    ordered = sorted(n_levels, reverse=True)
    best = 0.0
    for r in range(1, len(ordered) + 1):
        levels, m = ordered[r - 1], np.arange(1, r + 1)
        p = ((m - 1) + (r - m + 1) * failure_prob) / r
        unit = 2 * (noise_sd / np.maximum(tolerance / m, min_effect)) ** 2
        chosen = levels * (rel_entr(1 / levels, 1 - p) + rel_entr(1 - 1 / levels, p))  # levels kl(1/M, 1-p)
        told = rel_entr(p, 1 - p) + rel_entr(1 - p, p)  # kl(p, 1-p)
        found = unit * np.maximum(np.where(1 - p > 1 / levels, chosen, 0.0), np.where(p < 0.5, told, 0.0))
        best = max(best, float(found.max()))
    return best


def slippage_failures(levels: Sequence[int], scale: float) -> NDArray[np.float64]:
    """Failure probabilities of the balanced rule on equal-gap instances, tolerance 1, computed exactly.

    In instance c = 1, ..., K all factors' other levels are just over 1/c behind; the rule fails when c factors or more
    choose wrongly, which is a Poisson-binomial tail.

    >>> slippage_failures([2], 2.0).round(3).tolist()
    [0.159]
    """
    n = len(levels)
    hits = np.arange(1.0, n + 1)
    counts = np.zeros((n, n + 1))  # a row for each instance: P(0), ..., P(K) wrong factors
    counts[:, 0] = 1.0
    for m in levels:
        moved = counts * slippage_tail(m - 1, scale / (hits * math.sqrt(m)))[:, None]
        counts -= moved
        counts[:, 1:] += moved[:, :-1]
    enough = np.arange(n + 1) >= hits[:, None]
    return np.asarray((counts * enough).sum(axis=1))


def necessary_runs(levels: Sequence[int], tolerance: float, failure_prob: float, noise_sd: float) -> int:
    """The least n at which no equal-gap instance defeats the balanced fixed-size rule: no certificate can ask for less.

    >>> necessary_runs([2] * 10, 0.5, 0.1, 1.0) in range(190, 224)
    True
    """
    return math.ceil((_necessary_scale(tuple(sorted(levels)), failure_prob) * noise_sd / tolerance) ** 2)


@lru_cache(maxsize=1024)
def _necessary_scale(levels: tuple[int, ...], failure_prob: float) -> float:
    low, high = 1e-3, 1.0
    while slippage_failures(levels, high).max() > failure_prob:
        high *= 2
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slippage_failures(levels, middle).max() > failure_prob else (low, middle)
    return low
