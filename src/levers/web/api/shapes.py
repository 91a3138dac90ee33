"""What answers hold, where a study's own values are not what JSON wants."""

from collections.abc import Iterable
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from levers.algorithms.base import Verdict
from levers.core.space import Assignment, Level
from levers.studies import views
from levers.studies.spec import StudySpec
from levers.studies.trials import Trial

Item = TypeVar("Item")
State = Literal["WAITING", "RUNNING", "COMPLETE", "FAIL", "STALE", "ABANDONED"]
Params = dict[str, Level]
_TIME = "Seconds since 1970."


class Shape(BaseModel):
    """The base of all that goes out."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(Shape):
    """What went wrong: the kind of error, and a message for people."""

    kind: str
    message: str


class Problem(Shape):
    """Every answer that is not a success."""

    error: ErrorDetail


class Page(Shape, Generic[Item]):
    """Some of many."""

    items: list[Item]
    total: int = Field(description="How many there are on all pages.")
    offset: int
    limit: int


class TrialShape(Shape):
    """One run: what to set, and what came of it."""

    trial: int
    block: int = Field(description="The block of the design, from 1.")
    stage: str
    state: State
    params: Params
    value: float | None
    worker: str | None
    asked_at: float | None = Field(description=_TIME)
    deadline: float | None = Field(description=_TIME)
    told_at: float | None = Field(description=_TIME)

    @classmethod
    def of(cls, trial: Trial) -> "TrialShape":
        """From a trial. What comes from a study is not checked once more."""
        return cls.model_construct(
            trial=trial.number,
            block=trial.block + 1,
            stage=trial.stage,
            state=trial.state.name,
            params=dict(trial.params),
            value=trial.value,
            worker=trial.worker,
            asked_at=trial.asked_at,
            deadline=trial.deadline,
            told_at=trial.told_at,
        )


class Trials(Shape):
    """Runs."""

    trials: list[TrialShape]

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Trials":
        """From trials."""
        return cls.model_construct(trials=[TrialShape.of(trial) for trial in trials])


class Taken(Shape):
    """How many outcomes were new, and how many runs failed for want of one."""

    n_new: int
    n_failed: int


class FactorShape(Shape):
    """One lever and its levels."""

    name: str
    levels: list[Level]


class StudyShape(Shape):
    """What a study is asked to find."""

    name: str
    factors: list[FactorShape]
    goal: str
    tolerance: float | None
    failure_prob: float
    noise_sd: float | None
    algorithm: str
    options: dict[str, Level | None]
    seed: int
    block_size: int | None
    forbidden: list[Params]
    merged: list[list[str]]

    @classmethod
    def of(cls, name: str, spec: StudySpec) -> "StudyShape":
        """From the study."""
        return cls(
            name=name,
            factors=[FactorShape(name=f.name, levels=list(f.levels)) for f in spec.space.factors],
            goal=spec.goal,
            tolerance=spec.tolerance,
            failure_prob=spec.failure_prob,
            noise_sd=spec.noise_sd,
            algorithm=spec.algorithm,
            options=dict(spec.options),
            seed=spec.seed,
            block_size=spec.block_size,
            forbidden=[dict(parts) for parts in spec.forbidden],
            merged=[list(names) for names in spec.merged],
        )


class BestShape(Shape):
    """The setting that the estimates favour; `params` is null before the first decision."""

    params: Params | None
    within: float | None
    predicted: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, best: views.Best | None) -> "BestShape":
        """From the study's."""
        if best is None:
            return cls(params=None, within=None, predicted=None, low=None, high=None)
        return cls(params=dict(best.params), within=best.within, predicted=best.predicted, low=best.low, high=best.high)


class VerdictShape(Shape):
    """The answer and its guarantee. The export as JSON has all that is needed to compute it again."""

    assignment: Params
    tolerance: float
    failure_prob: float
    guarantee: str
    certificate: str | None
    noise: str | None
    goal: str
    algorithm: str
    parents: list[str] | None
    n_runs: int
    runs_by_stage: dict[str, int]

    @classmethod
    def of(cls, found: Verdict, chosen: Assignment) -> "VerdictShape":
        """From the verdict, and the setting in the space as people see it."""
        return cls(
            assignment=dict(chosen),
            tolerance=found.tolerance,
            failure_prob=found.failure_prob,
            guarantee=found.guarantee,
            certificate=found.certificate,
            noise=found.noise,
            goal=found.goal,
            algorithm=found.algorithm,
            parents=None if found.parents is None else list(found.parents),
            n_runs=found.n_runs,
            runs_by_stage=dict(found.runs_by_stage),
        )


class LogEntry(Shape):
    """One event of a study."""

    seq: int
    at: float = Field(description=_TIME)
    who: str
    what: str
