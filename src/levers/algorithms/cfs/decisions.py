"""What CFS decides by: shares of the error, lengths of blocks, whether to screen on, what a look drops."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import Remark
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.state import CfsState
from levers.core.certificates.certificate import scale_needed, subgaussian_scale, usual_scale
from levers.core.certificates.look import Look
from levers.core.model.elimination import Elimination
from levers.core.model.evidence import (
    Confidence,
    Evidence,
    Knowledge,
    Standing,
    anytime_radius,
    forecasts,
    planned_radius,
)
from levers.core.model.pairs import Pairs, level_rows

EQUAL_GAPS = Remark(
    "equal gaps", "for factors of three levels or more, equal gaps are taken as the worst case (checked numerically)"
)
"""What a selection by the slippage certificate rests on besides what is proven, in the words of earlier versions."""
EQUAL_GAPS_OF_FOUR = Remark(
    "equal gaps", "for factors of four levels or more, equal gaps are taken as the worst case (checked numerically)"
)
"""The same since three levels are proven (docs/theory/slippage.md)."""
NOTHING_CERTIFIED = Remark(
    "nothing certified",
    "too few runs to certify anything: the setting is the best guess of a shrunken fit, and may be far from the best",
)
"""Said in place of a certificate where the runs do not determine every difference between levels."""
Losses = tuple[tuple[float | None, ...], ...]
Intervals = tuple[tuple[tuple[float, float] | None, ...], ...]


class Shares(NamedTuple):
    """The failure probability in parts: comparing levels, dismissing factors, bounding the noise, selecting."""

    screening: float
    dismissal: float
    noise: float
    selection: float


def error_shares(
    failure_prob: float, estimate_noise: bool, one_shot: bool, dismiss: bool = False, look: bool = False
) -> Shares:
    """A tenth each for screening and for the noise, four for dismissals, where needed; the rest for the selection.

    With a planned look screening takes less, and the rest is for the look and the selection together.

    >>> round(error_shares(0.1, estimate_noise=False, one_shot=False).selection, 6)
    0.09
    """
    screening = 0.0 if one_shot else (settings.AFTER_LOOK_SHARE if look else settings.SCREENING_SHARE) * failure_prob
    noise = settings.NOISE_SHARE * failure_prob if estimate_noise else 0.0
    dismissal = settings.DISMISSAL_SHARE * failure_prob if dismiss and not one_shot and not look else 0.0
    return Shares(screening, dismissal, noise, failure_prob - screening - dismissal - noise)


def pair_error(screening_prob: float, n_levels: Sequence[int], all_pairs: bool) -> float:
    """The error of one one-sided comparison, a.

    That no factor loses its best level needs sum_k (M_k - 1) comparisons to hold. That every factor with a dropped
    level is a parent, which `max_parents` relies on, and that the best of the levels that a look left is not dropped,
    need all sum_k M_k (M_k - 1) (docs/theory, sections 5 and 6).

    >>> pair_error(0.01, [3, 3], all_pairs=False)
    0.0025
    """
    comparisons = sum(m * (m - 1) if all_pairs else m - 1 for m in n_levels)
    return screening_prob / comparisons


def first_block(n_levels: Sequence[int], estimate_noise: bool, wanted: float = 0.0) -> int:
    """Runs of the first screening block: those wanted, but neither fewer nor many more than there are parameters.

    >>> [first_block([3] * 10, estimate_noise=False, wanted=n) for n in (0, 50, math.inf)]
    [36, 50, 60]
    >>> first_block([2, 2], estimate_noise=True)
    23
    """
    n_parameters = sum(m - 1 for m in n_levels)
    least, most = (per * n_parameters for per in settings.FIRST_BLOCK)
    needed = n_parameters + 1 + (settings.LEAST_DOF if estimate_noise else 5)
    return max(math.ceil(min(max(wanted, least), most) - 1e-9), needed)  # 2.2 times 90 is 198, not a bit more


def next_block(sizes: Sequence[int], n_runs: int) -> int:
    """Runs of a later screening block over factors of these sizes."""
    n_parameters = sum(m - 1 for m in sizes)
    return max(math.ceil(settings.NEXT_BLOCK * n_parameters), math.ceil(settings.GROWTH * n_runs), n_parameters + 6)


def cheap_scale(levels: tuple[int, ...], failure_prob: float, bound: str, reach: float = 0.0) -> float:
    """The scale of a certificate, roughly: exact for a few factors, else the Chernoff bound times its usual excess."""
    if not levels:
        return 0.0
    if bound == "subgaussian":
        return subgaussian_scale(levels, failure_prob)
    if len(levels) <= settings.FEW_FACTORS:
        return scale_needed(levels, failure_prob, bound, reach)
    return usual_scale(levels, failure_prob, bound == "proven", reach)


def longest_design(sizes: Sequence[int], runs_if_ideal: float) -> float:
    """About the most runs of a design that is worth so many ideal ones; it has a row more than parameters at least."""
    n_parameters = sum(m - 1 for m in sizes)
    return max(runs_if_ideal, n_parameters + 2.0) + min(n_parameters, 0.1 * runs_if_ideal + settings.ROUNDED)


@dataclass(frozen=True, eq=False)
class Prospect:
    """What is known when CFS decides whether to screen on, and what that could cost.

    With a tolerance the cost is runs, further screening plus the selection after it; with a budget, of which `left`
    runs are left, it is the tolerance reached. Certificates are gauged by the cheap Chernoff bound times its usual
    ratio to the tight one. `following` is the size of the next screening block.
    """

    state: CfsState
    now: Standing
    known: Knowledge
    confidence: Confidence
    following: int
    bound: str
    tolerance: float | None
    left: int | None
    failure_prob: float
    reach: float

    def selection_pays(self, most_screening: float) -> bool:
        """Whether selecting now is expected to be best: no length of further screening promises to do better.

        Screening never takes more than `most_screening` runs, so that a study is at most about twice as long as a
        single design that settles everything.
        """
        if self.left is not None and self.following + sum(m - 1 for m in self.now.at_stake) + 2 > self.left:
            return True
        if self.tolerance is not None and self.state.n_runs + self.following > most_screening:
            return True
        least = settings.WORTH * self.cost(self.now, 0.0)
        return all(cost >= least for cost in self.screening_costs())

    def screening_costs(self) -> Iterator[float]:
        """What lengths of further screening promise to cost in all, effects being as estimated, shortest first."""
        most = self.left if self.left is not None else self.cost(self.now, 0.0)
        lengths = [max(self.state.n_runs * (growth - 1), float(self.following)) for growth in settings.GROWTHS]
        lengths = [more for more in dict.fromkeys(lengths) if more < most]
        growths = [1 + more / self.state.n_runs for more in lengths]
        batches = forecasts(self.state.evidence, growths, self.confidence, self.now, self.known)
        for more, then in zip(lengths, chain.from_iterable(batches), strict=True):
            certain = self.tolerance is not None and then.upper_loss <= (1 - self.reach) * self.tolerance
            yield more if certain else self.cost(then, more)

    def cost(self, then: Standing, more: float) -> float:
        """What a selection costs after `more` runs of screening."""
        scale = cheap_scale(then.at_stake, self.failure_prob, self.bound, self.reach) * self.confidence.noise_sd
        if self.left is not None:
            return scale / math.sqrt(self.left - more)
        assert self.tolerance is not None  # a study has a tolerance or a budget
        return more + (scale / self.tolerance) ** 2


def look_factors(
    state: CfsState, n_levels: tuple[int, ...], tied: tuple[int, ...] = ()
) -> tuple[tuple[int, bool], ...]:
    """The factors that a look varies: how many levels are in play, and whether those are all and may be dismissed."""
    return tuple(
        (len(state.active[k]), len(state.active[k]) == n_levels[k] and k not in tied) for k in state.open_factors
    )


def after_look(
    state: CfsState,
    look: Look,
    factors: tuple[int, ...],
    levels: tuple[tuple[int, ...], ...],
    effects: tuple[NDArray[np.float64], ...],
    root_n: float,
    n_levels: tuple[int, ...],
    tied: tuple[int, ...] = (),
) -> CfsState:
    """The state with the look's dismissals and drops, on top of what screening has dropped.

    `factors` and `levels` are what the look varied, `effects` its estimates, with independent errors of standard error
    sqrt(m) / `root_n`. A dismissed factor is closed at its leader.
    """
    active, leaders, closed = list(state.active), list(state.leaders), set(state.closed)
    dropped: list[Elimination] = []
    for k, varied, values in zip(factors, levels, effects, strict=True):
        error = math.sqrt(len(varied)) / root_n
        best = int(np.argmax(values))
        whole = len(varied) == n_levels[k] and k not in tied
        if whole and varied[best] in active[k] and look.dismisses(values, error):
            leaders[k] = varied[best]
            closed.add(k)
            continue
        mean = dict(zip(varied, values.tolist(), strict=True))
        first = max(mean[level] for level in active[k])  # of those in play: what is left must hold what beat the rest
        behind = {level: first - mean[level] for level in active[k]}
        kept = tuple(level for level in active[k] if behind[level] < look.apart * error)
        dropped += [Elimination(k, level, state.n_runs, behind[level]) for level in active[k] if level not in kept]
        active[k] = kept
    ledger = state.eliminations + tuple(dropped)
    return replace(
        state, active=tuple(active), leaders=tuple(leaders), closed=tuple(sorted(closed)), eliminations=ledger
    )


def loss_intervals(
    evidence: Evidence,
    leaders: Sequence[int],
    n_levels: Sequence[int],
    noise_sd: float,
    failure_prob: float,
    rho: float | None,
    dof: float | None = None,
) -> tuple[Losses, Intervals]:
    """What each level loses against the chosen one: estimates, and intervals that all hold at once.

    Both sides of every pair get failure_prob / sum_k M_k (M_k - 1), so any choice of leaders is covered: at any time,
    or with `dof`, the degrees of freedom of the noise, at one moment that was fixed in advance.

    >>> evidence = Evidence.none((2,)).add(np.array([0.0, 2.0, -2.0, 0.0]), np.full(4, 0.01))
    >>> losses, intervals = loss_intervals(evidence, [0], [2], 1.0, 0.1, 10.0)
    >>> losses, [round(x, 2) for x in intervals[0][1]]
    (((0.0, 2.0),), [1.72, 2.28])
    """
    error = failure_prob / sum(m * (m - 1) for m in n_levels)
    if dof is None:
        radius = anytime_radius(evidence.information, noise_sd, error, rho or 1.0)
    else:
        radius = planned_radius(evidence.information, noise_sd, error, dof)
    sizes = evidence.sizes
    known = [(row > 0).tolist() for row in level_rows(evidence.information, sizes, leaders)]
    middle = [row.tolist() for row in level_rows(evidence.estimates, sizes, leaders)]
    half = [row.tolist() for row in level_rows(radius, sizes, leaders)]
    losses: list[tuple[float | None, ...]] = []
    intervals: list[tuple[tuple[float, float] | None, ...]] = []
    for k, leader in enumerate(leaders):
        known[k][leader], half[k][leader] = True, 0.0
        found = list(zip(known[k], middle[k], half[k], strict=True))
        losses.append(tuple(x if sure else None for sure, x, _ in found))
        intervals.append(tuple((x - r, x + r) if sure else None for sure, x, r in found))
    return tuple(losses), tuple(intervals)


def most_lost(
    evidence: Evidence, leaders: Sequence[int], radius: Pairs, in_play: Sequence[Sequence[int]]
) -> tuple[float, ...]:
    """What each leader loses at most to another level in play: U_k = max(0, max_j (d_j + r_j)).

    d_j is by how much level j is ahead of the leader, and r_j its radius. All hold at once where the radii of all pairs
    do, whatever the leaders were chosen by; infinite where nothing is known of a level.

    >>> evidence = Evidence.none((2,)).add(np.array([0.0, 2.0, -2.0, 0.0]), np.full(4, 0.01))
    >>> most_lost(evidence, [1], np.full(4, 0.5), [(0, 1)]), most_lost(evidence, [0], np.full(4, 0.5), [(0, 1)])
    ((2.5,), (0.0,))
    """
    behind = level_rows(evidence.estimates, evidence.sizes, leaders)
    radii = level_rows(radius, evidence.sizes, leaders)
    found = []
    for k, (leader, levels) in enumerate(zip(leaders, in_play, strict=True)):
        rivals = [level for level in levels if level != leader]
        ahead = [float(radii[k][level] - behind[k][level]) for level in rivals]
        found.append(max([0.0, *ahead]))
    return tuple(found)


def shown_losses(effects: Sequence[NDArray[np.float64]], leaders: Sequence[int]) -> Losses:
    """What each level loses against the leader by these effects; None where one of the two is nan.

    >>> shown_losses([np.array([1.0, 0.25, math.nan])], [0])
    ((0.0, 0.75, None),)
    """
    found = []
    for values, leader in zip(effects, leaders, strict=True):
        losses = [None if math.isnan(loss) else loss for loss in (values[leader] - values).tolist()]
        losses[leader] = 0.0
        found.append(tuple(losses))
    return tuple(found)


def widened(intervals: Intervals, losses: Losses) -> Intervals:
    """Intervals that hold the losses shown, too: a wider interval holds no less surely.

    >>> widened((((0.0, 0.0), (1.0, 2.0), None),), ((0.0, 0.75, 3.0),))
    (((0.0, 0.0), (0.75, 2.0), None),)
    """
    return tuple(
        tuple(
            pair if pair is None or loss is None else (min(pair[0], loss), max(pair[1], loss))
            for pair, loss in zip(pairs, row, strict=True)
        )
        for pairs, row in zip(intervals, losses, strict=True)
    )


def equal_gaps(n_levels: Sequence[int]) -> tuple[Remark, ...]:
    """What a certificate of factors with so many levels rests on besides what is proven: nothing below four.

    >>> equal_gaps((2, 3)), equal_gaps((2, 4)) == (EQUAL_GAPS_OF_FOUR,)
    ((), True)
    """
    return (EQUAL_GAPS_OF_FOUR,) if max(n_levels) >= 4 else ()


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
    return f"{sure} for additive effects, {noise} {size}{given}"


def pooled_guarantee(noise_known: bool, max_parents: int | None) -> str:
    """The guarantee of a pooled study in one sentence; its provisos say what is not proven.

    >>> pooled_guarantee(True, 3)
    'for additive effects, Gaussian noise of known size, at most 3 factors that matter'
    """
    size = "of known size" if noise_known else "of estimated size"
    given = "" if max_parents is None else f", at most {max_parents} factors that matter"
    return f"for additive effects, Gaussian noise {size}{given}"
