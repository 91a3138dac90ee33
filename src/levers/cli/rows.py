"""Rows of the tables that study commands print."""

from dataclasses import dataclass
from typing import Any, ClassVar

from levers.cli.common import when
from levers.studies.trials import Trial
from levers.studies.views import Status


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in a list."""

    drop: ClassVar[tuple[str, ...]] = ("updated", "goal", "algorithm", "n_factors", "to_go", "n_complete", "state")
    """Columns that a narrow screen goes without, the least important first."""

    name: str
    state: str
    algorithm: str
    goal: str
    n_factors: int
    n_complete: int
    to_go: int | None
    updated: str

    @classmethod
    def of(cls, status: Status) -> "StudyRow":
        """From its status."""
        likely = status.to_go.likely
        return cls(
            status.name,
            status.state,
            status.algorithm,
            status.goal,
            status.n_factors,
            status.n_complete,
            likely,
            when(status.updated_at),
        )


def trial_row(trial: Trial, block: int) -> dict[str, Any]:
    """A trial as one flat record."""
    return {
        "trial": trial.number,
        "block": block,
        "state": trial.state.name,
        **trial.params,
        "outcome": trial.value,
    }
