"""The widths of MODL's phases. The paper gives two schedules and its released code a third; all are here by name."""

import math
from dataclasses import dataclass

from levers.core.checks import check_choice

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
