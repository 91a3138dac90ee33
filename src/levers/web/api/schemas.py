"""What requests bring and answers hold: models that refuse what they do not know."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model, model_validator

from levers.algorithms.base import Verdict
from levers.core.model.confirmation import Confirmation
from levers.core.space import Level
from levers.studies.analysis import views
from levers.studies.analysis.describe import on_parents
from levers.studies.analysis.estimates import Gain
from levers.studies.outcomes import MAX_OUTCOME, Surprise
from levers.studies.run import MOST_FRESH
from levers.studies.settings import CREATE, PLAN, SETTINGS, settings_of
from levers.studies.spec import StudySpec
from levers.studies.state import Trial
from levers.web.service import Limits

MOST = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""
LONGEST_LEASE = 1e9
MOST_ROWS = Limits().rows
MOST_KEYS = 2_000


def _whole(value: Any) -> Any:
    """To JSON, 3.0 is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# constraints come first: those around the validator would be missing in the document
Whole = BeforeValidator(_whole)
LevelIn = bool | Annotated[int, Field(ge=-MOST, le=MOST)] | float | str
Levels = Annotated[list[LevelIn], Field(min_length=2, fail_fast=True)]
Value = Annotated[float, Field(ge=-MAX_OUTCOME, le=MAX_OUTCOME)]
TrialNumber = Annotated[int, Field(ge=0, le=MOST, description="The trial's number."), Whole]
# said in the document; what is refused, and why, the study says in words (core.validation.check_text)
_CONTROL = r"\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_LINE, _WORDS = rf"^[^{_CONTROL}]*$", rf"^[^{_CONTROL}]*[^\s{_CONTROL}][^{_CONTROL}]*$"
Text = Annotated[str, Field(max_length=10_000, json_schema_extra={"pattern": _LINE})]
Reason = Annotated[
    str,
    Field(
        max_length=10_000,
        pattern=r"[^\s\x00-\x1f]",
        json_schema_extra={"pattern": _WORDS},
        description="Why; kept in the log.",
    ),
]
Count = Annotated[int, Field(ge=1, le=MOST), Whole]
Seed = Annotated[int, Field(ge=0, le=MOST), Whole]


def _short(value: Any) -> Any:
    """A JSON object with very many keys, each of them wrong, would make as many messages."""
    if isinstance(value, dict) and len(value) > MOST_KEYS:
        raise ValueError(f"there are {len(value):,} keys; at most {MOST_KEYS:,} are possible")
    return value


Short = BeforeValidator(_short)
Row = Annotated[dict[str, LevelIn], Short]


ObservedLevels = Annotated[Row | None, Field(description="The level that each lever took which the trial left alone.")]


class Wire(BaseModel):
    """The base of all that comes in. Wrong input is refused at its first mistake: millions cost nobody anything."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, value: Any) -> Any:
        return _short(value)


class FactorIn(Wire):
    """One lever and its levels."""

    name: str
    levels: Levels


def _form(factors: Any) -> str:
    if isinstance(factors, list):
        return "counts" if factors and not isinstance(factors[0], dict | FactorIn) else "list"
    return "by_name"


ByName = Annotated[dict[str, Levels], Field(min_length=1), Short, Tag("by_name")]
Listed = Annotated[list[FactorIn], Field(min_length=1, fail_fast=True), Tag("list")]
Counts = Annotated[
    list[Annotated[int, Field(ge=2, le=32767), Whole]], Field(min_length=1, fail_fast=True), Tag("counts")
]
_LISTS = "a list where it is not certain that their order is kept"
Factors = Annotated[
    ByName | Listed, Discriminator(_form), Field(description=f"Levels by the factors' names, or {_LISTS}.")
]
FactorsOrCounts = Annotated[
    ByName | Listed | Counts,
    Discriminator(_form),
    Field(description=f"Levels by the factors' names, {_LISTS}, or only how many levels each has."),
]


Positive = Annotated[float, Field(gt=0, le=MAX_OUTCOME)]
Amount = Positive | Annotated[str, Field(max_length=60, pattern=r"^[0-9]+([.,][0-9]+)? ?%$")]
_TYPES: dict[str, Any] = {
    "text": str,
    "positive": Positive | None,
    "amount": Amount | None,
    "number": Value | None,
    "assignment": Row | None,
    "probability": Annotated[float, Field(gt=0, lt=1)],
    "count": Count | None,
    "whole": Seed | None,
    "combinations": Annotated[list[Row], Field(fail_fast=True)],
    "groups": Annotated[list[Annotated[list[str], Short]], Short],
    "names": Annotated[list[str], Field(max_length=MOST_KEYS)],
}
"""What a request may bring for each kind of setting."""


_EXPLAINED = ("combinations", "groups", "amount", "assignment", "names")


class Settings(Wire):
    """A request that brings settings of a study."""

    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {setting.name: getattr(self, setting.name) for setting in SETTINGS if hasattr(self, setting.name)}


S = TypeVar("S", bound=Settings)


def _with_settings(face: str) -> Callable[[type[S]], type[S]]:
    """The model of a request, with a field more for each setting of a face."""
    fields: dict[str, Any] = {}
    for setting in settings_of(face):
        default = setting.default
        kind: Any = Literal[setting.choices] if setting.choices else _TYPES[setting.kind]
        if setting.choices and default is None:
            kind = kind | None
        described = setting.help if setting.kind in _EXPLAINED else None
        fields[setting.name] = (kind, Field(default=list(default) if default == () else default, description=described))
    return lambda base: create_model(base.__name__, __base__=base, __module__=__name__, __doc__=base.__doc__, **fields)


@_with_settings(CREATE)
class NewStudy(Settings):
    """A study to begin. Give a tolerance, or a budget of runs."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "oven 2", "factors": {"heat": ["low", "high"], "speed": [1, 2, 3]}, "tolerance": 0.5}]
        }
    )

    name: str
    factors: Factors
    options: Annotated[dict[str, LevelIn | None], Short] = Field(
        default={}, description="Further options of the algorithm."
    )


@_with_settings(PLAN)
class PlanFor(Settings):
    """A study to plan. Factors may also be given by their numbers of levels; give a tolerance, or a budget.

    Without a `noise_sd` the study has to learn the noise, and the plan is for one of `expected_noise`.
    """

    factors: FactorsOrCounts


class CopyTo(Wire):
    """The name of the copy."""

    name: str


class MergeTo(Wire):
    """The name of the new study, the levers that it studies as one, and its budget if the old one has one."""

    name: str
    factors: Annotated[list[str], Short]
    budget: Count | None = None
    seed: Seed | None = None


class Ask(Wire):
    """How many runs, for whom, and after how many seconds others may have them."""

    n: Annotated[int, Field(ge=1, le=MOST_ROWS), Whole] = 1
    worker: Annotated[str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": _LINE})] | None = None
    lease: Annotated[float, Field(gt=0, le=LONGEST_LEASE)] | None = None


class Renew(Wire):
    """Trials that are still being run, and for how many seconds from now nobody else may have them."""

    trials: Annotated[list[TrialNumber], Field(fail_fast=True)] = Field(min_length=1)
    lease: Annotated[float, Field(gt=0, le=LONGEST_LEASE)]


class Outcome(Wire):
    """The outcome of a trial; null when the run gave none, which fails it."""

    trial: TrialNumber
    value: Value | None
    observed: ObservedLevels = None


class Outcomes(Wire):
    """Many outcomes: all are taken, or none."""

    outcomes: Annotated[list[Outcome], Field(fail_fast=True)]


class Fail(Wire):
    """A run that gave no outcome."""

    trial: TrialNumber
    reason: Text = ""


class Corrected(Wire):
    """Another outcome for a trial."""

    trial: TrialNumber
    value: Value
    observed: ObservedLevels = None


class Correct(Corrected):
    """Another outcome for a trial, and why."""

    reason: Reason


class CorrectMany(Wire):
    """Other outcomes for several trials, and why: all are taken, or none."""

    outcomes: Annotated[list[Corrected], Field(fail_fast=True)] = Field(min_length=1)
    reason: Reason


class Exclude(Wire):
    """Outcomes that must not count, and why: all are taken, or none."""

    trials: Annotated[list[TrialNumber], Field(fail_fast=True)] = Field(min_length=1)
    reason: Reason


class Finish(Wire):
    """Why the study ends now."""

    reason: Text = ""


class GoOn(Wire):
    """How many more runs are wanted after the end; null for as many as the algorithm likes."""

    n_runs: Annotated[int, Field(ge=1, le=MOST_ROWS), Whole] | None = None
    reason: Text = ""


class Confirm(Wire):
    """How many fresh runs are wanted at the verdict's setting, and as many at the baseline."""

    n_runs: Annotated[int, Field(ge=2, le=MOST_FRESH), Whole] = 12
    reason: Text = ""


class Restate(Wire):
    """Other terms: only those that are sent change. `null` for one that is not known, or no longer claimed."""

    tolerance: Amount | None = None
    budget: Count | None = None
    max_runs: Count | None = None
    aim: Literal["certify", "best"] | None = None
    noise_sd: Positive | None = None
    max_parents: Count | None = None
    min_effect: Positive | None = None
    reason: Text = ""


class Import(Wire):
    """Past runs: the settings of each, its outcome, and where they come from."""

    rows: Annotated[list[Row], Field(fail_fast=True)] = Field(min_length=1)
    values: Annotated[list[Value], Field(fail_fast=True)] = Field(min_length=1)
    note: Text = ""

    @model_validator(mode="after")
    def _one_value_each(self) -> "Import":
        if len(self.rows) != len(self.values):
            raise ValueError(f"there are {len(self.rows)} rows and {len(self.values)} values; give one for each")
        return self


def _kind(body: Any) -> str:
    return "many" if isinstance(body, dict) and "outcomes" in body else "one"


Told = Annotated[Annotated[Outcome, Tag("one")] | Annotated[Outcomes, Tag("many")], Discriminator(_kind)]
Corrections = Annotated[Annotated[Correct, Tag("one")] | Annotated[CorrectMany, Tag("many")], Discriminator(_kind)]

Item = TypeVar("Item")
State = Literal["WAITING", "RUNNING", "COMPLETE", "FAIL", "STALE", "ABANDONED", "EXCLUDED"]
Params = dict[str, Level]
_TIME = "Seconds since 1970."
FLAGS = "Outcomes far from what the other runs lead one to expect. They are stored; `correct` mends what was mistyped."


SCALE = (
    "linear or log. On a log scale tolerances, losses and gains are relative changes of the outcome (0.05 is 5 %), and "
    "noise is that of its logarithm."
)
TYPICAL = "; on a log scale the typical one, the median"
UNCLAIMED = "without what was claimed of levers (max_parents, min_effect); null where nothing was, or none is certified"


class Shape(BaseModel):
    """The base of all that goes out. Numbers that JSON does not have, such as infinity, become null."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    @classmethod
    def read(cls, value: object, **more: Any) -> Self:
        """From the attributes of a value that are called like the fields, and what else is given."""
        return cls(**{name: getattr(value, name) for name in cls.model_fields if name not in more}, **more)


class ErrorDetail(Shape):
    """What went wrong: the kind of error, a message for people, and what it is about."""

    kind: str
    message: str
    field: str | None = Field(default=None, description="The setting that is wrong, if it is about one.")
    problems: list[str] = Field(default=[], description="All that is wrong, if it is more than one thing.")
    rows: list[tuple[int, str]] = Field(default=[], description="Wrong rows of a sheet, as far as they are listed.")
    n_wrong: int = Field(default=0, description="How many rows of the sheet are wrong.")
    flags: list[Surprise] = Field(default=[], description="Outcomes that were refused because nobody insisted.")


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
    block: int = Field(description="Runs made together, from 1: `block_size` of them, or a round where it has none.")
    stage: str
    state: State
    params: Params = Field(description="The level of every lever that the run sets.")
    free: list[str] = Field(description="Levers to leave alone; say with the outcome which level each took.")
    observed: Params | None = Field(description="The level that each of these took, once it was told.")
    value: float | None
    worker: str | None
    asked_at: float | None = Field(description=_TIME)
    deadline: float | None = Field(description=_TIME)
    told_at: float | None = Field(description=_TIME)

    @classmethod
    def of(cls, trial: Trial) -> "TrialShape":
        """From a trial. What comes from a study is not checked once more."""
        own: dict[str, Any] = {"trial": trial.number, "block": trial.block + 1, "params": dict(trial.params)}
        own["state"] = trial.state.name
        own |= {"free": list(trial.params.free), "observed": None if trial.observed is None else dict(trial.observed)}
        same = {name: getattr(trial, name) for name in cls.model_fields if name not in own}
        return cls.model_construct(**same, **own)


class Trials(Shape):
    """Runs."""

    trials: list[TrialShape]

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Trials":
        """From trials."""
        return cls.model_construct(trials=[TrialShape.of(trial) for trial in trials])


class Taken(Shape):
    """How many outcomes were new, how many runs failed for want of one, and which outcomes are a surprise."""

    n_new: int
    n_failed: int
    flags: list[Surprise] = Field(default=[], description=FLAGS)


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
    free: list[str]
    hard_to_change: list[str]
    baseline: Params | None
    baseline_outcome: float | None
    scale: str = Field(description=SCALE)

    @classmethod
    def of(cls, name: str, spec: StudySpec) -> "StudyShape":
        """From the study."""
        forbidden = [dict(parts) for parts in spec.forbidden]
        baseline = None if spec.baseline is None else dict(spec.space.assignment(spec.baseline))
        own: dict[str, Any] = {"name": name, "factors": spec.space.factors, "options": dict(spec.options)}
        return cls.read(spec, **own, forbidden=forbidden, baseline=baseline)


class BestShape(Shape):
    """The setting that the estimates favour; `params` is null before the first decision."""

    params: Params | None
    free: list[str] | None = Field(description="Levers that the setting leaves alone.")
    within: float | None
    within_without_claims: float | None = Field(description=f"The same {UNCLAIMED}.")
    predicted: float | None = Field(description=f"The mean outcome to expect there{TYPICAL}.")
    low: float | None
    high: float | None
    in_doubt: bool | None
    gain: Gain | None = Field(description="What it gains over the baseline, if the study has one.")
    compared_with: str | None = Field(description="What `within` is about, in words.")
    scale: str | None = Field(description=SCALE)

    @classmethod
    def of(cls, best: views.Best | None) -> "BestShape":
        """From the study's."""
        if best is None:
            return cls(**dict.fromkeys(cls.model_fields))
        return cls.read(best, params=dict(best.params), free=list(best.params.free))


class RemarkShape(Shape):
    """A condition of the guarantee, or what contradicts it: for programs its kind and levers, for people its text."""

    kind: str
    text: str
    levers: list[str]
    trials: list[int]
    block: int | None
    p_value: float | None
    scale: str | None = Field(description="The scale on which the same outcomes raise no such doubt.")


class VerdictShape(Shape):
    """The answer and its guarantee. The export as JSON has all that is needed to compute it again."""

    assignment: Params
    free: list[str] = Field(description="Levers that the setting leaves alone.")
    on_parents: Params | None = Field(
        description="What it is enough to set if no lever matters but those shown to. Null if not looked for."
    )
    tolerance: float | None
    tolerance_without_claims: float | None = Field(description=f"The same {UNCLAIMED}.")
    failure_prob: float
    guarantee: str
    certificate: str | None
    noise: str | None
    goal: str
    algorithm: str
    parents: list[str] | None
    parents_together: list[list[str]] = Field(
        description="Levers studied as one of which some are shown to matter, though not which."
    )
    n_runs: int
    runs_by_stage: dict[str, int]
    provisos: list[RemarkShape]
    doubts: list[RemarkShape]
    predicted: float | None = Field(description=f"The mean outcome to expect at the setting{TYPICAL}.")
    low: float | None
    high: float | None
    gain: Gain | None = Field(description="What the setting gains over the baseline, if the study has one.")
    p_values: dict[str, float | None] = Field(description="Of each lever's ordinary test, for itself and at one look.")
    confirmation: Confirmation | None = Field(description="What fresh runs at the setting say, if any were asked for.")
    scale: str = Field(description=SCALE)

    @classmethod
    def of(cls, found: Verdict, best: views.Best) -> "VerdictShape":
        """From the verdict, and the setting in the space as people see it."""
        own: dict[str, Any] = {"assignment": dict(best.params), "guarantee": found.statement, "gain": best.gain}
        own |= {"free": list(best.params.free), "on_parents": on_parents(found)}
        own |= {"predicted": best.predicted, "low": best.low, "high": best.high}
        own |= {"runs_by_stage": dict(found.runs_by_stage), "p_values": found.p_values_by_lever}
        return cls.read(found, **own)
