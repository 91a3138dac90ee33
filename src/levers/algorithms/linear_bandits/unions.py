"""MODL with unions of marginal sets: between its marginal action set and the exact set of surviving assignments.

The paper's Discussion asks whether unions of marginal sets would trade computation for more rejected actions. MODL
keeps the smallest marginal set (a product of level sets) that holds every assignment whose estimated gap is below the
width; here at most `unions` of them are kept. One is MODL's set, and enough of them are the exact set.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.linear_bandits.features import (
    directions,
    information,
    inverted,
    planned_runs,
    spanning,
    xy_design,
)
from levers.algorithms.linear_bandits.phases import PhasedElimination, PhaseState
from levers.algorithms.modl import BOUND_IN_TOLERANCES
from levers.core.certificates.sample_size import SCHEDULES, Schedule, make_schedule
from levers.core.model.level_index import Numbers, Places
from levers.core.validation import check_count, check_positive


def cover(gaps: Sequence[Numbers], width: float, n_boxes: int | None) -> NDArray[np.bool_]:
    """Which assignments lie in a union of at most so many boxes that holds all of {x: sum_k gaps_k[x_k] < width}.

    With levels ordered by their gaps that set holds with an assignment all smaller ones, so the boxes below its maximal
    assignments make it up exactly. While there are more than allowed, the two are joined (by the larger level of each
    factor) that add the fewest assignments to the union. A single box is the smallest marginal set. None allows all.

    >>> gaps = [np.array([0.0, 0.6]), np.array([0.0, 0.6])]
    >>> [int(cover(gaps, 1.0, n).sum()) for n in (1, 2)]  # both levels survive, and not together
    [4, 3]
    """
    order = [np.argsort(gap, kind="stable") for gap in gaps]
    sizes = tuple(len(gap) for gap in gaps)
    total = np.zeros(sizes)
    for k, (gap, ranks) in enumerate(zip(gaps, order, strict=True)):
        total += np.asarray(gap)[ranks].reshape([-1 if i == k else 1 for i in range(len(gaps))])
    exact = total < width
    inner = np.argwhere(exact)
    tops = [tuple(int(i) for i in x) for x in inner if not _has_larger(exact, x)]
    while n_boxes is not None and len(tops) > n_boxes:
        tops = _joined(tops, sizes)
    inside = _union(tops, sizes)
    ranked = np.ix_(*[np.argsort(ranks) for ranks in order])
    found: NDArray[np.bool_] = inside[ranked]
    return found


def _has_larger(exact: NDArray[np.bool_], x: NDArray[np.int64]) -> bool:
    """Whether a factor can take its next level without leaving the set."""
    for k in range(len(x)):
        above = tuple(int(i) + (j == k) for j, i in enumerate(x))
        if above[k] < exact.shape[k] and exact[above]:
            return True
    return False


def _union(tops: Sequence[tuple[int, ...]], sizes: tuple[int, ...]) -> NDArray[np.bool_]:
    inside = np.zeros(sizes, dtype=bool)
    for top in tops:
        inside[tuple(slice(0, level + 1) for level in top)] = True
    return inside


def _joined(tops: list[tuple[int, ...]], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """One box fewer: the two joined that make the smallest union, and what lies in the joined one gone."""
    best: list[tuple[int, ...]] = []
    least = math.inf
    for one, other in combinations(tops, 2):
        join = tuple(max(pair) for pair in zip(one, other, strict=True))
        kept = [top for top in tops if any(a > b for a, b in zip(top, join, strict=True))]
        size = int(_union([*kept, join], sizes).sum())
        if size < least:
            best, least = [*kept, join], size
    return best


@dataclass(frozen=True)
class MarginalUnions(PhasedElimination):
    """MODL with unions: what survives a phase is a union of at most `unions` products of levels, not a single one.

    Widths and numbers of runs are MODL's: n = 2 sigma^2 rho log(L / delta) / gamma^2, where rho is the largest variance
    of a difference between surviving assignments under the best design on them. On a product of levels that is
    2 sum_k |S_k| over the factors still open, which makes it MODL's number. `unions=None` keeps the exact set. It is an
    experiment (docs/theory/marginal_unions.md), with MODL's gaps in its proof.

    >>> from levers import Problem, Space
    >>> two = MarginalUnions(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0), unions=2)
    >>> two.start().planned.tolist()
    [0, 0, 1, 1, 1, 1]
    """

    unions: int | None = 2
    schedule: str = SCHEDULES[0]
    outcome_bound: float | None = None
    name: ClassVar[str] = "modl-unions"
    stage: ClassVar[str] = "phases"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unions is not None:
            check_count("unions", self.unions)
        if self.outcome_bound is not None:
            check_positive("outcome_bound", self.outcome_bound)
        self.widths  # noqa: B018  an unknown schedule is refused here

    @property
    def widths(self) -> Schedule:
        """MODL's widths."""
        bound = self.outcome_bound or BOUND_IN_TOLERANCES * self.tolerance
        return make_schedule(self.schedule, self.space.n_factors, self.tolerance, bound)

    def log_term(self, phase: int) -> float:
        """log(L / delta): no union bound over pairs of assignments, as in the paper's theorem."""
        return math.log(self.widths.n_phases / self.failure_prob)

    def plan(self, phase: int, alive: Places, uncertainty: float | None) -> tuple[Places, float | None]:
        """The best design on the surviving assignments for the differences between them."""
        arms = spanning(self.features[alive])
        sides = directions(arms)
        weights, _ = xy_design(arms, sides)
        most = self.widths.widths[phase - 1] ** 2 / (2 * self.noise_sd**2 * self.log_term(phase))
        planned = np.zeros(len(self.features), dtype=np.int64)
        planned[alive] = planned_runs(arms, weights, sides, most)
        return planned, uncertainty

    def survivors(self, state: PhaseState) -> tuple[Places, int, bool]:
        """The union that holds every assignment with an estimated gap below the width, of those in play."""
        gaps, lead, width = self.gaps(state)
        inside = np.zeros(len(self.features), dtype=bool)
        inside[state.alive] = cover(gaps, width, self.unions).ravel()[state.alive]
        last = state.phase == len(self.widths.widths)
        return np.flatnonzero(inside), lead, last or int(inside.sum()) == 1

    def gaps(self, state: PhaseState) -> tuple[list[Numbers], int, float]:
        """How far each level is behind its factor's best (infinite when gone), the arm that leads, and the threshold.

        Levels that are best may have been ruled out together, so the arm that leads of those in play may itself be
        behind by sum_k gaps_k; the threshold for the others is the width beyond that.
        """
        inverse = inverted(information(self.features, state.planned))
        means = self.features @ (inverse @ (self.features.T @ state.sums))
        lead = int(state.alive[int(np.argmax(means[state.alive]))])
        at = np.unravel_index(lead, self.space.n_levels)
        shaped = means.reshape(self.space.n_levels)
        gaps, behind = [], 0.0
        for k, places in enumerate(np.unravel_index(state.alive, self.space.n_levels)):
            levels = np.unique(places)
            row = shaped[tuple(slice(None) if i == k else int(at[i]) for i in range(len(at)))]
            gap = np.full(self.space.n_levels[k], np.inf)
            gap[levels] = row[levels].max() - row[levels]
            gaps.append(gap)
            behind += float(gap[at[k]])
        return gaps, lead, self.widths.widths[state.phase - 1] + behind
