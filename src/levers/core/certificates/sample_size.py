"""The paper's formulas: the widths of MODL's phases by schedule, and how many runs each method needs. All round up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from levers.core.validation import check_choice

SCHEDULES = ("released-code", "algorithm-1", "proof")
"""Names of the schedules; the first is the default, because the paper's figures were made with it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The widths gamma of the phases, largest first, and the number L that the sample size takes the logarithm of."""

    widths: tuple[float, ...]
    n_phases: int


def make_schedule(name: str, n_factors: int, tolerance: float, outcome_bound: float) -> Schedule:
    """The widths of the named schedule (docs/decisions/0001).

    ============== ============================== ========================== ==========
    name           L                              gamma                      last gamma
    released-code  ceil(log2(B K / eps)), l=0..L  eps 2^(L - l - 1)          eps / 2
    algorithm-1    floor(log2(2 B K / eps))       (eps / K) 2^(L - l + 1)    2 eps / K
    proof          floor(log2(2 B K / eps))       (eps / K) 2^(L - l - 1)    eps / (2 K)
    ============== ============================== ========================== ==========

    >>> make_schedule("released-code", n_factors=10, tolerance=0.5, outcome_bound=5.0).widths
    (32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25)
    >>> make_schedule("proof", n_factors=2, tolerance=0.5, outcome_bound=1.0).widths
    (0.5, 0.25, 0.125)
    """
    check_choice("schedule", name, SCHEDULES)
    if name == "released-code":
        last = max(0, math.ceil(math.log2(outcome_bound * n_factors / tolerance)))
        return Schedule(tuple(tolerance * 2.0 ** (last - phase - 1) for phase in range(last + 1)), max(last, 1))
    last = max(1, math.floor(math.log2(2 * outcome_bound * n_factors / tolerance)))
    shift = 1 if name == "algorithm-1" else -1
    unit = tolerance / n_factors
    return Schedule(tuple(unit * 2.0 ** (last - phase + shift) for phase in range(1, last + 1)), last)


def phase_runs(n_active: int, width: float, failure_prob: float, noise_sd: float, n_phases: int) -> int:
    """Runs of one elimination phase:  n = ceil(4 sigma^2 sum_k |S_k| log(L / delta) / gamma^2)   (Algorithm 1).

    >>> phase_runs(n_active=45, width=0.25, failure_prob=0.1, noise_sd=1.0, n_phases=7)
    12236
    """
    return math.ceil(4 * noise_sd**2 * n_active * math.log(n_phases / failure_prob) / width**2)


def parent_test_runs(n_factors: int, n_levels: int, tolerance: float, failure_prob: float, noise_sd: float) -> int:
    """Runs at each level of one factor's test:  n_k = ceil(8 sigma^2 / eps^2 log(2 K M_k / delta))   (Algorithm 2).

    >>> parent_test_runs(n_factors=10, n_levels=4, tolerance=0.25, failure_prob=0.05, noise_sd=1.0)
    945
    """
    return math.ceil(8 * noise_sd**2 / tolerance**2 * math.log(2 * n_factors * n_levels / failure_prob))


def needle_test_runs(n_levels: Sequence[int], tolerance: float, failure_prob: float, noise_sd: float) -> int:
    """Runs at each assignment of the naive search:  n = ceil(8 sigma^2 (sum_k log M_k + log(1/delta)) / eps^2).

    With the threshold half-way between the two means, a sub-Gaussian mean of n runs errs with probability at most
    exp(-n (eps/2)^2 / (2 sigma^2)) = delta / prod_k M_k, which a union bound over all assignments can carry
    (Section 2.2 gives the order, not the constant).

    >>> needle_test_runs([2, 2, 2], tolerance=1.0, failure_prob=0.1, noise_sd=1.0)
    36
    """
    log_actions = sum(math.log(m) for m in n_levels)
    return math.ceil(8 * noise_sd**2 * (log_actions + math.log(1 / failure_prob)) / tolerance**2)


def successive_radius(n_actions: int, n_pulls: int, failure_prob: float, noise_sd: float) -> float:
    """Half-width of an action's mean after t pulls:  alpha_t = sigma sqrt(2 log(4 |A| t^2 / delta) / t).

    Two-sided sub-Gaussian tails 2 exp(-t alpha^2 / (2 sigma^2)) = delta / (2 |A| t^2), summed over t and A, stay below
    delta because sum 1/t^2 = pi^2/6 < 2 (Even-Dar, Mannor and Mansour 2006, Theorem 8, constant made explicit).

    >>> round(successive_radius(100, 50, 0.1, 1.0), 4)
    0.8029
    """
    return noise_sd * math.sqrt(2 * math.log(4 * n_actions * n_pulls**2 / failure_prob) / n_pulls)
