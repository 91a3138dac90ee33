"""What a pooled study settles before its first outcome: shares of the error, lengths of rounds, whole days."""

import math
from dataclasses import dataclass
from functools import cached_property

from levers.algorithms.base import Problem
from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.settings import BEST, CERTIFY
from levers.core.certificates.certificate import certified_levels
from levers.core.model.choices import Choices


@dataclass(frozen=True)
class PooledPlan:
    """The settings of a study, and what follows from them.

    A round is what is designed at once. Where `block_size` runs are made together, on a day or a sheet, a round is as
    many whole days as it takes; only the last day of a budget, or of `max_runs`, may be short.
    """

    problem: Problem
    choices: Choices
    max_parents: int | None
    budget: int | None
    max_runs: int | None
    aim: str
    block_size: int | None
    spares: bool = True
    at_once: bool = True
    by_parts: bool = False

    @property
    def most_runs(self) -> int | None:
        """Runs of the whole study, at most; None where there is no limit."""
        return self.budget if self.budget is not None else self.max_runs

    @property
    def tolerance(self) -> float:
        """The tolerance of a study without a budget."""
        assert self.problem.tolerance is not None  # a study has a tolerance or a budget
        return self.problem.tolerance

    @cached_property
    def shares(self) -> decisions.Shares:
        """How the failure probability is shared out: dropping levels, bounding the noise they are dropped by, the rest.

        Where all runs are one design no level is dropped, and nothing is spent on it.
        """
        delta = self.problem.failure_prob
        if self.aim == CERTIFY and self.first_round == self.most_runs:
            return decisions.Shares(0.0, 0.0, 0.0, (1 - settings.RESERVE) * delta)
        screening, reserve = settings.POOLED_SHARE * delta, settings.RESERVE * delta
        noise = settings.POOLED_NOISE_SHARE * delta if self.problem.noise_sd is None else 0.0
        return decisions.Shares(screening, 0.0, noise, delta - screening - noise - reserve)

    @cached_property
    def first_round(self) -> int:
        """Runs of the first round. With a budget of few runs per parameter it is all of them."""
        if self.budget is not None and self.aim == BEST:
            wanted = settings.FIRST_TO_BEST * self.choices.n_parameters
            left = max(self.budget - wanted, 0) // 4  # a short budget needs its runs where they serve the answer
            if self.at_once and self.budget < settings.ALL_AT_ONCE * self.choices.n_parameters:
                return self.budget  # too little would be left to follow what the first round shows
            return self.whole(max(wanted + (min(settings.FIRST_SPARE, left) if self.spares else 0), 2), self.budget)
        if self.budget is not None and self.budget < settings.RUNS_TO_ELIMINATE * self.choices.n_parameters:
            return self.budget
        unknown = self.problem.noise_sd is None
        if self.budget is not None:
            wanted = settings.FIRST_SHARE_OF_BUDGET * self.budget
        else:
            noise_sd = self.problem.noise_sd or settings.USUAL_NOISE * self.tolerance
            wanted = settings.FIRST_SHARE * self.runs_at_once(noise_sd)
            if unknown:
                wanted = max(wanted, settings.TO_MEASURE * self.choices.n_parameters)
        return self.whole(decisions.first_block(self.choices.sizes, unknown, wanted), self.most_runs)

    def runs_at_once(self, noise_sd: float, without_ties: bool = False) -> float:
        """Runs of a single design that would settle everything at once, about; if no levers were tied, perhaps."""
        levels, more = certified_levels(self.choices.n_levels, self.max_parents), 1.0
        if self.by_parts and self.max_parents is None and self.choices.is_tied:
            levels, more = self.choices.sizes_allowed, 1.0 if without_ties else settings.TIED_COST
        selection = (1 - settings.POOLED_SHARE) * self.problem.failure_prob
        return more * (decisions.cheap_scale(levels, selection, "slippage") * noise_sd / self.tolerance) ** 2

    def whole(self, n_runs: float, left: int | None) -> int:
        """A length of so many runs in whole days, as far as runs are left.

        >>> from levers import Problem, Space
        >>> problem = Problem(Space.sized([2, 2]), 0.5, 0.1, 1.0)
        >>> plan = PooledPlan(problem, Choices((2, 2)), None, None, None, CERTIFY, 8)
        >>> plan.whole(9, None), plan.whole(9, 12), plan.whole(16, 12)
        (16, 12, 12)
        """
        size = self.block_size or 1
        length = math.ceil(math.ceil(n_runs) / size) * size
        return length if left is None else min(length, left)

    def part_of(self, n_runs: float, left: int, nearly: float) -> int:
        """A round of so many runs of those that are left; all of these, where it would be nearly so many."""
        return left if n_runs > nearly * left else self.whole(n_runs, left)
