"""How CFS shares out its failure probability and decides how long to screen."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from levers.core.certificate import scale_needed, subgaussian_scale, usual_scale
from levers.core.screening import Confidence, Evidence, Knowledge, Standing, forecasts

SCREENING_SHARE = 0.1
DISMISSAL_SHARE = 0.4
AFTER_LOOK_SHARE = 0.03  # for screening, when a planned look does most of it
NOISE_SHARE = 0.1
FIRST_BLOCK = (1.8, 3.0)  # runs of the first block per parameter, at least and at most
FIRST_SHARE = 0.3  # in between, this share of the runs that would settle everything at once
FIRST_SHARE_OF_BUDGET = 0.2
NEXT_BLOCK = 1.5  # runs of a later block per parameter still open, at least
GROWTH = 0.6  # and at least this share of the runs so far
_LEAST_DOF = 20  # degrees of freedom for the noise in the first block, when it has to be estimated
LOOK_PAYS = 0.7  # a planned look must be shorter than this share of a design that settles everything
LOOK_ROWS = 1.8  # rows of a look's design for each parameter, at least: what nearly independent factors take
_FEW = 3  # up to this many factors the tight certificate is cheap enough to look ahead with
_WORTH = 0.99  # screening on must promise to cost less than this share of selecting now
_GROWTHS = (1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.3, 2.7, 3.2, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 16.0, 20.0)


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
    screening = 0.0 if one_shot else (AFTER_LOOK_SHARE if look else SCREENING_SHARE) * failure_prob
    noise = NOISE_SHARE * failure_prob if estimate_noise else 0.0
    dismissal = DISMISSAL_SHARE * failure_prob if dismiss and not one_shot and not look else 0.0
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
    least, most = (per * n_parameters for per in FIRST_BLOCK)
    needed = n_parameters + 1 + (_LEAST_DOF if estimate_noise else 5)
    return max(math.ceil(min(max(wanted, least), most) - 1e-9), needed)  # 2.2 times 90 is 198, not a bit more


def next_block(sizes: Sequence[int], n_runs: int) -> int:
    """Runs of a later screening block over factors of these sizes."""
    n_parameters = sum(m - 1 for m in sizes)
    return max(math.ceil(NEXT_BLOCK * n_parameters), math.ceil(GROWTH * n_runs), n_parameters + 6)


@dataclass(frozen=True, eq=False)
class Prospect:
    """What is known when CFS decides whether to screen on, and what that could cost.

    With a tolerance the cost is runs, further screening plus the selection after it; with a budget, of which `left`
    runs are left, it is the tolerance reached. Certificates are gauged by the cheap Chernoff bound times its usual
    ratio to the tight one. `following` is the size of the next screening block.
    """

    evidence: Evidence
    now: Standing
    known: Knowledge
    confidence: Confidence
    n_runs: int
    following: int
    failure_prob: float
    bound: str
    tolerance: float | None
    left: int | None
    reach: float = 0.0

    def selection_pays(self, most_screening: float) -> bool:
        """Whether selecting now is expected to be best: no length of further screening promises to do better.

        Screening never takes more than `most_screening` runs, so that a study is at most about twice as long as a
        single design that settles everything.
        """
        if self.left is not None and self.following + sum(m - 1 for m in self.now.at_stake) + 2 > self.left:
            return True
        if self.tolerance is not None and self.n_runs + self.following > most_screening:
            return True
        least = _WORTH * self.cost(self.now, 0.0)
        return all(cost >= least for cost in self.screening_costs())

    def screening_costs(self) -> Iterator[float]:
        """What lengths of further screening promise to cost in all, effects being as estimated, shortest first."""
        most = self.left if self.left is not None else self.cost(self.now, 0.0)
        lengths = [max(self.n_runs * (growth - 1), float(self.following)) for growth in _GROWTHS]
        lengths = [more for more in dict.fromkeys(lengths) if more < most]
        growths = [1 + more / self.n_runs for more in lengths]
        standings = forecasts(self.evidence, growths, self.confidence, self.now, self.known)
        for more, then in zip(lengths, standings, strict=True):
            certain = self.tolerance is not None and then.upper_loss <= (1 - self.reach) * self.tolerance
            yield more if certain else self.cost(then, more)

    def cost(self, then: Standing, more: float) -> float:
        """What a selection costs after `more` runs of screening."""
        scale = cheap_scale(then.at_stake, self.failure_prob, self.bound, self.reach) * self.confidence.noise_sd
        if self.left is not None:
            return scale / math.sqrt(self.left - more)
        assert self.tolerance is not None  # a study has a tolerance or a budget
        return more + (scale / self.tolerance) ** 2


def cheap_scale(levels: tuple[int, ...], failure_prob: float, bound: str, reach: float = 0.0) -> float:
    """The scale of a certificate, roughly: exact for a few factors, else the Chernoff bound times its usual excess."""
    if not levels:
        return 0.0
    if bound == "subgaussian":
        return subgaussian_scale(levels, failure_prob)
    if len(levels) <= _FEW:
        return scale_needed(levels, failure_prob, bound, reach)
    return usual_scale(levels, failure_prob, bound == "proven", reach)
