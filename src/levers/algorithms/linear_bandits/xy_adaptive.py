"""XY-adaptive allocation (Soare, Lazaric and Munos, NIPS 2014, Figure 3)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levers.algorithms.linear_bandits.features import directions, information, inverted, spreads
from levers.algorithms.linear_bandits.phases import PhasedElimination
from levers.core.model.level_index import Numbers, Places
from levers.core.validation import check_probability


@dataclass(frozen=True)
class XYAdaptive(PhasedElimination):
    """XY-adaptive: phases of greedy runs against the widest direction, then drop the assignments that are dominated.

    In a phase each run is the arm that makes max_y ||y||^2_{A^-1} smallest over the differences y of arms in play. It
    ends when rho_j / n_j < alpha rho_{j-1} / n_{j-1}, with rho_0 / n_0 = 1 / (d (d + 1) + 1) as in the paper. An arm is
    dropped when another's estimate is larger by sigma ||y||_{A^-1} sqrt(2 log(pi^2 |X|^2 j^2 / (6 delta))). Where the
    paper is followed with a choice: its radius has the constant 2 sqrt(2) and grows with the runs, here it is that of
    a design fixed in advance, for each phase, as in the experiments of Fiez et al. (2019); a phase begins with one run
    for each dimension instead of an identity matrix, so that estimates have no bias; and it also ends when every radius
    is below the tolerance. All of them save runs.

    >>> from levers import Problem, Space
    >>> xy = XYAdaptive(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> int(xy.start().planned.sum())
    48
    """

    alpha: float = 0.1
    name: ClassVar[str] = "xy-adaptive"
    stage: ClassVar[str] = "greedy phases"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_probability("alpha", self.alpha)

    def log_term(self, phase: int) -> float:
        """log(pi^2 |X|^2 j^2 / (6 delta)): over all ordered pairs of arms, and over phases as sum 1/j^2 = pi^2/6."""
        return math.log(math.pi**2 * len(self.features) ** 2 * phase**2 / (6 * self.failure_prob))

    def plan(self, phase: int, alive: Places, uncertainty: float | None) -> tuple[Places, float | None]:
        """Greedy runs until the uncertainty has fallen by alpha, or no interval is wider than the tolerance."""
        dimension = self.features.shape[1]
        if uncertainty is None:
            uncertainty = 1 / (dimension * (dimension + 1) + 1)
        enough = self.tolerance**2 / (2 * self.noise_sd**2 * self.log_term(phase))
        return greedy_runs(self.features, directions(self.features[alive]), self.alpha * uncertainty, enough)


def greedy_runs(features: Numbers, sides: Numbers, target: float, enough: float) -> tuple[Places, float]:
    """Arms one by one, each the one that makes rho = max_y ||y||^2_{A^-1} smallest, until rho / n < target.

    Or until rho is `enough`. Adding x changes y^T A^-1 y by -(x^T A^-1 y)^2 / (1 + x^T A^-1 x). Returns the runs of
    every arm, and rho / n at the end.
    """
    counts = np.zeros(len(features), dtype=np.int64)
    counts[_spanning_arms(features)] = 1
    inverse = inverted(information(features, counts))
    crossed, own, wide = features @ inverse @ sides.T, spreads(features, inverse), spreads(sides, inverse)
    n_runs = int(counts.sum())
    while (rho := float(wide.max())) > enough and rho / n_runs >= target:
        after = wide[None, :] - crossed**2 / (1 + own)[:, None]
        arm = int(np.argmin(after.max(axis=1)))
        counts[arm] += 1
        n_runs += 1
        side = inverse @ features[arm]
        scale = 1 / (1 + own[arm])
        to_arms, to_sides = features @ side, sides @ side
        inverse = inverse - scale * np.outer(side, side)
        crossed = crossed - scale * np.outer(to_arms, to_sides)
        own, wide = own - scale * to_arms**2, wide - scale * to_sides**2
    return counts, rho / n_runs


def _spanning_arms(features: Numbers) -> list[int]:
    """As many arms as there are dimensions, which span them: each one the farthest from those before."""
    left, chosen = features.copy(), list[int]()
    for _ in range(features.shape[1]):
        arm = int(np.argmax((left**2).sum(axis=1)))
        unit = left[arm] / np.linalg.norm(left[arm])
        left = left - np.outer(left @ unit, unit)
        chosen.append(arm)
    return chosen
