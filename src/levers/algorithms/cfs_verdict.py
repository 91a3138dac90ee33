"""What CFS says at the end: estimated losses with intervals, and the guarantee in words."""

from collections.abc import Sequence

import numpy as np

from levers.core.screening import Evidence, anytime_radius

Losses = tuple[tuple[float | None, ...], ...]
Intervals = tuple[tuple[tuple[float, float] | None, ...], ...]


def loss_intervals(
    evidence: Evidence,
    leaders: Sequence[int],
    n_levels: Sequence[int],
    noise_sd: float,
    failure_prob: float,
    rho: float | None,
) -> tuple[Losses, Intervals]:
    """What each level loses against the chosen one: estimates, and intervals that all hold at once.

    Both sides of every pair get failure_prob / sum_k M_k (M_k - 1), so any choice of leaders is covered, at any time.

    >>> pairs = np.array([[[0.0, 2.0], [-2.0, 0.0]]])
    >>> evidence = Evidence.none(1, 2).add(pairs, np.full((1, 2, 2), 0.01))
    >>> losses, intervals = loss_intervals(evidence, [0], [2], 1.0, 0.1, 10.0)
    >>> losses, [round(x, 2) for x in intervals[0][1]]
    (((0.0, 2.0),), [1.72, 2.28])
    """
    error = failure_prob / sum(m * (m - 1) for m in n_levels)
    radius = anytime_radius(evidence.information, noise_sd, error, rho or 1.0)
    row = np.arange(len(n_levels))
    known = (evidence.information[row, leaders] > 0).tolist()
    middle = evidence.estimates[row, leaders].tolist()
    half = radius[row, leaders].tolist()
    losses: list[tuple[float | None, ...]] = []
    intervals: list[tuple[tuple[float, float] | None, ...]] = []
    for k, (leader, m) in enumerate(zip(leaders, n_levels, strict=True)):
        known[k][leader], half[k][leader] = True, 0.0
        found = list(zip(known[k][:m], middle[k], half[k], strict=False))
        losses.append(tuple(x if sure else None for sure, x, _ in found))
        intervals.append(tuple((x - r, x + r) if sure else None for sure, x, r in found))
    return tuple(losses), tuple(intervals)


def selection_guarantee(
    selected: bool, bound: str, noise_known: bool, max_parents: int | None, min_effect: float | None
) -> str:
    """The guarantee in one sentence.

    >>> selection_guarantee(True, "proven", True, None, None)
    'proven for additive effects, Gaussian noise of known size'
    """
    noise = "sub-Gaussian noise" if bound == "subgaussian" else "Gaussian noise"
    size = "of known size" if noise_known else "of estimated size"
    facts = []
    if max_parents is not None:
        facts.append(f"at most {max_parents} factors that matter")
    if min_effect is not None:
        facts.append(f"effects of at least {min_effect:g} where they do")
    given = "".join(f", {fact}" for fact in facts)
    sure = "proven" if noise_known or not selected else "checked numerically"
    claim = f"{sure} for additive effects, {noise} {size}{given}"
    if selected and bound == "slippage":
        claim += "; for factors of three levels or more, equal gaps are taken as the worst case (checked numerically)"
    return claim
