"""What a study by CFS is set up with, and what follows from that before the first run."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from levers.algorithms.base import AlgorithmBase
from levers.algorithms.cfs.state import CfsState
from levers.core.certificates.certificate import (
    CERTIFICATES,
    LEAST_FAILURE_PROB,
    certified_levels,
    scale_needed,
    subgaussian_scale,
    usual_scale,
)
from levers.core.certificates.look import Look, plan_look, plan_subgaussian_look
from levers.core.model.evidence import Confidence, Evidence, Knowledge, Standing, forecasts
from levers.core.validation import check_choice, check_count, check_positive
from levers.errors import InvalidSettingError

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


_ODD = 1e6
_USUAL_NOISE = 2.0  # tolerances: what the first block takes the noise for while it is not known
_TO_MEASURE = 2.2  # runs per parameter, at least, of a first block that has to tell the noise as well
NOISES = ("gaussian", "subgaussian")
_DISMISSED_AT = 6.5  # standard errors of min_effect at which a factor without effect is about to be dismissed
MOST_CELLS = 200_000_000
"""Runs times factors of the largest design: 400 MB."""
RHO_SHARE = 0.1  # the mixture is tightest at about twenty times this share of the first block's information


@dataclass(frozen=True)
class CfsSettings(AlgorithmBase):
    """The options of CFS, checked, with the sizes and errors that they imply."""

    certificate: str = CERTIFICATES[0]
    noise: str = NOISES[0]
    max_parents: int | None = None
    min_effect: float | None = None
    budget: int | None = None
    batch_size: int | None = None
    most_cells: int = MOST_CELLS
    name: str = field(init=False, default="cfs")

    def __post_init__(self) -> None:
        check_choice("certificate", self.certificate, CERTIFICATES[:2])
        check_choice("noise", self.noise, NOISES)
        self.check_max_parents(self.max_parents)
        if self.min_effect is not None:
            check_positive("min_effect", self.min_effect)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        if (self.budget is None) == (self.problem.tolerance is None):
            raise InvalidSettingError("give either a tolerance or a budget of runs, and not both", field="budget")
        if self.noise == "subgaussian" and self.problem.noise_sd is None:
            raise InvalidSettingError(
                "sub-Gaussian noise cannot be bounded from the data; give noise_sd", field="noise_sd"
            )
        if self.failure_prob < 10 * LEAST_FAILURE_PROB:  # a certificate gets no less than a tenth of it
            raise InvalidSettingError(
                f"failure_prob must be at least {10 * LEAST_FAILURE_PROB:g} for a certificate", field="failure_prob"
            )
        check_count("most_cells", self.most_cells)
        if self.most_runs() * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(
                f"this may take {self.most_runs():.2g} runs, more than a design can hold; raise the tolerance",
                field="tolerance",
            )
        if self.budget is not None:
            check_count("budget", self.budget, first_block(self.space.n_levels, self.problem.noise_sd is None))

    def shares(self, state: CfsState | None = None) -> Shares:
        """How the failure probability is shared out; decided before the first run."""
        one_shot = self.budget is not None and self.first_screening() is None
        look = self.looks if state is None else self.looks_in(state)
        dismiss = self.min_effect is not None and (self.budget is not None or (state is not None and state.rules == 1))
        return error_shares(self.failure_prob, self.problem.noise_sd is None, one_shot, dismiss, look)

    @property
    def bound(self) -> str:
        """Which certificate a selection uses."""
        return "subgaussian" if self.noise == "subgaussian" else self.certificate

    def known(self, state: CfsState) -> Knowledge:
        """What screening may use of what the user knows.

        The least effect is the look's, where one is planned, and where none pays, dismissals would cost more than they
        bring. With a budget, screening dismisses factors.
        """
        return Knowledge(self.max_parents, self.min_effect if self.shares(state).dismissal else None)

    def first_screening(self) -> int | None:
        """Runs of the first screening block; None when a budget is too small to screen at all.

        The more the rest of the study will take, the more it pays to know before it is planned.
        """
        levels, noise_sd = self.space.n_levels, self.problem.noise_sd
        if self.budget is not None:
            n_runs = first_block(levels, noise_sd is None, FIRST_SHARE_OF_BUDGET * self.budget)
            too_small = 2 * n_runs > self.budget and noise_sd is not None
            return None if too_small else n_runs
        if noise_sd is not None:
            return first_block(levels, False, FIRST_SHARE * self._runs_at_once(noise_sd))
        wanted = FIRST_SHARE * self._runs_at_once(_USUAL_NOISE * self.tolerance)
        return first_block(levels, True, max(wanted, _TO_MEASURE * sum(m - 1 for m in levels)))

    def _runs_at_once(self, noise_sd: float) -> float:
        """Runs of a single design that would settle everything at once, about; infinite where it overflows."""
        levels = certified_levels(self.space.n_levels, self.max_parents)
        ratio = cheap_scale(levels, self.shares().selection, self.bound) * noise_sd / self.tolerance
        return ratio * ratio

    @cached_property
    def looks(self) -> bool:
        """Whether a look is planned: with a least effect, if it is much shorter than a design that settles everything.

        Both lengths grow with the square of the noise, so this can be decided while the noise is not known; whether to
        have it is decided when it is.
        """
        if self.min_effect is None or self.problem.tolerance is None or self.problem.noise_sd == 0:
            return False
        whole = tuple((m, True) for m in self.space.n_levels)
        levels = certified_levels(self.space.n_levels, self.max_parents)
        return self.paying_look(whole, levels, self.problem.noise_sd or self.tolerance) is not None

    def looks_in(self, state: CfsState) -> bool:
        """Whether a look is part of this study."""
        return self.looks and state.rules > 1

    def paying_look(
        self, factors: tuple[tuple[int, bool], ...], at_stake: tuple[int, ...], noise_sd: float
    ) -> Look | None:
        """The look over factors with so many levels in play, and whether those are all; None where it does not pay.

        It must be much shorter than a design that settles all that is at stake. A look's design has more rows than
        parameters however small the noise is.
        """
        assert self.min_effect is not None  # see looks
        if not all(1 / _ODD < x / noise_sd < _ODD for x in (self.min_effect, self.tolerance)):
            return None  # numbers that no experiment has
        look = self._look_over(factors, noise_sd)
        single = (cheap_scale(at_stake, self.failure_prob, self.bound) * noise_sd / self.tolerance) ** 2
        length = max(look.n_runs, LOOK_ROWS * sum(m - 1 for m, _ in factors))
        fits = look.n_runs * self.space.n_factors <= self.most_cells
        return look if fits and length < LOOK_PAYS * single else None

    def _look_over(self, factors: tuple[tuple[int, bool], ...], noise_sd: float) -> Look:
        assert self.min_effect is not None  # see looks
        unknown = self.problem.noise_sd is None
        rest = error_shares(self.failure_prob, unknown, one_shot=False, look=True).selection
        effect, ordered = self.min_effect / noise_sd, tuple(sorted(factors))
        if self.noise == "subgaussian":
            return plan_subgaussian_look(ordered, effect, rest)
        proven = self.certificate == "proven"
        return plan_look(ordered, effect, self.tolerance / noise_sd, rest, self.max_parents, proven)

    def selection_risk(self, state: CfsState) -> tuple[float, float]:
        """How often the selection may fail, and the share of the tolerance at which its envelope ends."""
        if state.look is None:
            return self.shares(state).selection, 0.0
        return state.look.selection, state.look.reach

    def confidence(self, state: CfsState) -> Confidence:
        """What the radii are made of at this point of the study."""
        assert state.noise_sd is not None  # known from the start, or bounded after the first block
        assert state.rho is not None  # set by the first block
        shares, n_factors = self.shares(state), self.space.n_factors
        dismissal = shares.dismissal / n_factors
        if state.rules == 1 and self.problem.noise_sd is not None:
            dismissal *= 0.1  # 0.1.0 spent the rest at the end of its first block
        planned = state.rho / RHO_SHARE  # what rho is tuned to must not depend on outcomes
        if self.min_effect is not None and self.problem.noise_sd is not None:
            planned = (_DISMISSED_AT * self.problem.noise_sd / self.min_effect) ** 2
        return Confidence(
            noise_sd=state.noise_sd,
            pair_error=pair_error(
                shares.screening,
                self.space.n_levels,
                self.looks_in(state) or (self.max_parents or n_factors) < n_factors,
            ),
            pair_rho=state.rho,
            dismissal_error=dismissal,
            dismissal_rho=RHO_SHARE * planned,
        )

    def most_screening(self, noise_sd: float) -> float:
        """Screening for longer than a single design would take cannot be worth it."""
        if self.problem.tolerance is None:
            return math.inf
        return max(self._runs_at_once(noise_sd), float(self.first_screening() or 0))

    def most_runs(self) -> float:
        """Runs of the largest design that may come up, as far as is known before the first run."""
        if self.budget is not None:
            return float(self.budget)
        return self.most_screening(self.problem.noise_sd or 0.0)
