"""What methods share that spend a number of runs and promise nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from levers.algorithms.base import Algorithm, Remark, Verdict
from levers.core.validation import check_count

BUDGET = 100
"""Runs where nobody says how many."""
NOTHING_PROMISED = Remark("nothing promised", "the method recommends a setting and says nothing of how good it is")
"""What every verdict of theirs rests on."""


@dataclass(frozen=True)
class Budgeted(Algorithm):
    """A method that makes `budget` runs and recommends a setting. It needs neither a tolerance nor the noise."""

    budget: int = BUDGET

    def __post_init__(self) -> None:
        check_count("budget", self.budget)

    def recommend(self, levels: Sequence[int], n_runs: int, stage: str) -> Verdict:
        """The verdict: these levels, and no certificate."""
        assignment = self.space.assignment(levels)
        return Verdict(
            self.name,
            assignment,
            n_runs,
            None,
            self.failure_prob,
            "none",
            runs_by_stage=((stage, n_runs),),
            provisos=(NOTHING_PROMISED,),
        )
