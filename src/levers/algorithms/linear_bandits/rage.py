"""RAGE, randomised adaptive gap elimination (Fiez, Jain, Jamieson and Ratliff, NeurIPS 2019, Algorithm 1)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from levers.algorithms.linear_bandits.features import directions, planned_runs, xy_design
from levers.algorithms.linear_bandits.phases import PhasedElimination
from levers.core.model.level_index import Places
from levers.core.validation import check_positive

GAP_IN_TOLERANCES = 10.0
"""Default of the largest gap between two assignments, in tolerances. It only says how wide the first phase is."""


@dataclass(frozen=True)
class Rage(PhasedElimination):
    """RAGE: phases of halving width, each the optimal design for the differences of the assignments in play.

    Phase t takes the design w that minimises rho = max_y ||y||^2_{A(w)^-1} over the differences y of the arms in play,
    and enough runs for a radius ||y||_{A^-1} sigma sqrt(2 log(|Z|^2 t^2 / delta)) of at most width_t for all of them.
    Where the paper is followed with a choice: its widths 2^-t are for gaps of at most 2, so the first width is a
    quarter of `outcome_bound`, rounded so that the last one is the tolerance, where every arm in play is good enough;
    and the price of rounding a design is measured instead of bounded by (1 + eps) and a least number of runs. Both save
    runs. Its elimination keeps z* with any widths, so a wrong `outcome_bound` costs runs only.

    >>> from levers import Problem, Space
    >>> rage = Rage(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> rage.widths, rage.start().planned.tolist()
    ((2.0, 1.0, 0.5), [5, 5, 5, 5, 5, 5])
    """

    outcome_bound: float | None = None
    name: ClassVar[str] = "rage"
    stage: ClassVar[str] = "optimal designs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.outcome_bound is not None:
            check_positive("outcome_bound", self.outcome_bound)

    @property
    def widths(self) -> tuple[float, ...]:
        """The widths of the phases: halved from one to the next, the last one the tolerance."""
        largest = self.outcome_bound or GAP_IN_TOLERANCES * self.tolerance
        halvings = max(0, math.ceil(math.log2(largest / (4 * self.tolerance))))
        return tuple(self.tolerance * 2**left for left in range(halvings, -1, -1))

    def log_term(self, phase: int) -> float:
        """log(|Z|^2 / delta_t) with delta_t = delta / t^2   (Algorithm 1)."""
        return math.log(len(self.features) ** 2 * phase**2 / self.failure_prob)

    def plan(self, phase: int, alive: Places, uncertainty: float | None) -> tuple[Places, float | None]:
        """The optimal design over all arms for the differences of those in play."""
        sides = directions(self.features[alive])
        weights, _ = xy_design(self.features, sides)
        most = self.widths[phase - 1] ** 2 / (2 * self.noise_sd**2 * self.log_term(phase))
        return planned_runs(self.features, weights, sides, most), uncertainty
