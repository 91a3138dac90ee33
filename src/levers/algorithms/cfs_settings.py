"""What a study by CFS is set up with, and what follows from that before the first run."""

import math
from dataclasses import dataclass, field

from levers.algorithms.base import AlgorithmBase
from levers.algorithms.cfs_plan import (
    LOOK_PAYS,
    Shares,
    cheap_scale,
    dismissal_block,
    error_shares,
    first_block,
    look_quantile,
    pair_error,
)
from levers.algorithms.cfs_plan import look_error as share_of_look
from levers.algorithms.cfs_state import CfsState
from levers.core.certificate import CERTIFICATES, LEAST_FAILURE_PROB, certified_levels
from levers.core.checks import check_choice, check_count, check_positive
from levers.core.screening import Confidence, Knowledge
from levers.errors import InvalidSettingError

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
            raise InvalidSettingError("give either a tolerance or a budget of runs, and not both")
        if self.noise == "subgaussian" and self.problem.noise_sd is None:
            raise InvalidSettingError("sub-Gaussian noise cannot be bounded from the data; give noise_sd")
        if self.failure_prob < LEAST_FAILURE_PROB:
            raise InvalidSettingError(f"failure_prob must be at least {LEAST_FAILURE_PROB:g} for a certificate")
        check_count("most_cells", self.most_cells)
        if self.most_runs() * self.space.n_factors > self.most_cells:
            raise InvalidSettingError(
                f"this may take {self.most_runs():.2g} runs, more than a design can hold; raise the tolerance"
            )
        if self.budget is not None:
            check_count("budget", self.budget, first_block(self.space.n_levels, self.problem.noise_sd is None))

    @property
    def shares(self) -> Shares:
        """How the failure probability is shared out; decided before the first run."""
        one_shot = self.budget is not None and self.first_screening() is None
        return error_shares(self.failure_prob, self.problem.noise_sd is None, one_shot, self.min_effect is not None)

    @property
    def bound(self) -> str:
        """Which certificate a selection uses."""
        return "subgaussian" if self.noise == "subgaussian" else self.certificate

    @property
    def known(self) -> Knowledge:
        """What the user knows."""
        return Knowledge(self.max_parents, self.min_effect)

    def first_screening(self) -> int | None:
        """Runs of the first screening block; None when a budget is too small to screen at all."""
        n_runs = max(first_block(self.space.n_levels, self.problem.noise_sd is None), self.planned_look() or 0)
        too_small = self.budget is not None and 2 * n_runs > self.budget and self.problem.noise_sd is not None
        return None if too_small else n_runs

    @property
    def look_error(self) -> float:
        """The error of one factor's dismissal at the planned look."""
        return share_of_look(self.shares, self.space.n_factors)

    def planned_look(self) -> int | None:
        """With a known noise and least effect, a first block long enough to dismiss most factors, if that can pay."""
        if self.min_effect is None or self.problem.noise_sd is None or self.problem.tolerance is None:
            return None
        quantile = look_quantile(self.look_error, self.noise == "gaussian")
        planned = dismissal_block(self.space.n_levels, self.min_effect, self.problem.noise_sd, quantile)
        levels = certified_levels(self.space.n_levels, self.max_parents)
        scale = cheap_scale(levels, self.shares.selection, self.bound)
        return planned if planned < LOOK_PAYS * (scale * self.problem.noise_sd / self.tolerance) ** 2 else None

    def confidence(self, state: CfsState) -> Confidence:
        """What the radii are made of at this point of the study."""
        assert state.noise_sd is not None  # known from the start, or bounded after the first block
        assert state.rho is not None  # set by the first block
        shares, n_factors = self.shares, self.space.n_factors
        plans_look = self.planned_look() is not None
        first_look = plans_look and len(state.blocks) == 1
        planned = state.rho / RHO_SHARE  # what rho is tuned to must not depend on outcomes
        if self.min_effect is not None and self.problem.noise_sd is not None:
            planned = (_DISMISSED_AT * self.problem.noise_sd / self.min_effect) ** 2
        return Confidence(
            noise_sd=state.noise_sd,
            pair_error=pair_error(shares.screening, self.space.n_levels, (self.max_parents or n_factors) < n_factors),
            pair_rho=state.rho,
            dismissal_error=shares.dismissal / n_factors - (self.look_error if plans_look else 0.0),
            dismissal_rho=RHO_SHARE * planned,
            first_look=look_quantile(self.look_error, self.noise == "gaussian") if first_look else None,
        )

    def most_screening(self, noise_sd: float) -> float:
        """Runs of a single design that would settle everything at once: screening for longer cannot be worth it."""
        if self.problem.tolerance is None:
            return math.inf
        levels = certified_levels(self.space.n_levels, self.max_parents)
        scale = cheap_scale(levels, self.shares.selection, self.bound)
        return max((scale * noise_sd / self.tolerance) ** 2, float(self.first_screening() or 0))

    def most_runs(self) -> float:
        """Runs of the largest design that may come up, as far as is known before the first run."""
        if self.budget is not None:
            return float(self.budget)
        return self.most_screening(self.problem.noise_sd or 0.0)
