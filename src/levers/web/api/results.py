"""What a study says: status, effects, forecast, best setting, verdict, diagnostics."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from levers.core.space import Level
from levers.errors import NotFinishedError
from levers.studies.analysis import diagnostics, views
from levers.studies.analysis.verification import StudyVerification
from levers.web.api.deps import Absent, Name, answer, of_study, study_of
from levers.web.api.runs import CorrectionsMade, ExclusionsMade
from levers.web.api.schemas import SCALE, BestShape, Shape, VerdictShape

router = APIRouter(tags=["looking"])
MOST_SECONDS = 60.0
"""How long a study is recomputed for whoever asks."""
Head = Annotated[
    Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | Absent,
    Query(description="A digest that was noted before: the log must still contain it."),
]
Seconds = Annotated[
    float,
    Query(
        gt=0, le=1e9, description=f"How long to recompute, at most {MOST_SECONDS:g}; the rest is checked as a chain."
    ),
]


@of_study(router.get, "status", "getStatus", "Where a study stands", views.Status)
def status(request: Request, name: Name) -> Response:
    """Runs made, out and to go; times are seconds since 1970."""
    study = study_of(request, name, "read")
    return answer(views.status(study.name, study.frozen()))


@of_study(router.get, "effects", "getEffects", "What each level loses", list[views.EffectRow])
def effects(request: Request, name: Name) -> Response:
    """Against the leading level: `low` to `high` hold for all at once, `usual_low` to `usual_high` for each alone.

    These are ordinary 95 % intervals, and `p_value` is that of the ordinary test of the factor.
    """
    return answer(views.effects(study_of(request, name, "read").frozen()), kind=list[views.EffectRow])


@of_study(router.get, "part-effects", "getPartEffects", "What levels of tied levers lose", list[views.EffectRow])
def part_effects(request: Request, name: Name) -> Response:
    """Of levers that forbidden combinations tie together, each by itself, where their effects add up; else none.

    The numbers are ordinary ones: what is chosen and promised is of the combinations, in `effects`.
    """
    return answer(views.part_effects(study_of(request, name, "read").frozen()), kind=list[views.EffectRow])


@of_study(router.get, "forecast", "getForecast", "How many runs are to go", views.Forecast)
def forecast(request: Request, name: Name) -> Response:
    """In the round under way, likely, and in the worst case."""
    return answer(views.forecast(study_of(request, name, "read").frozen()))


@of_study(router.get, "best", "getBest", "The setting that the estimates favour", BestShape)
def best(request: Request, name: Name) -> Response:
    """With how far it may be from the best one; all null before the first decision."""
    return answer(BestShape.of(views.best(study_of(request, name, "read").frozen())))


@of_study(router.get, "verdict", "getVerdict", "The answer and its guarantee", VerdictShape, 409)
def verdict(request: Request, name: Name) -> Response:
    """409 while the study is not finished."""
    state = study_of(request, name, "read").frozen()
    found, chosen = views.verdict(state), views.best(state)
    if found is None or chosen is None:
        raise NotFinishedError(f"the study is not finished: {views.forecast(state)}")
    return answer(VerdictShape.of(found, chosen))


@of_study(router.get, "corrections", "listCorrections", "Outcomes that were corrected", CorrectionsMade)
def corrections(request: Request, name: Name) -> Response:
    """Oldest first, with who corrected them, when and why."""
    return answer(CorrectionsMade(corrections=study_of(request, name, "read").corrections()))


@of_study(router.get, "exclusions", "listExclusions", "Outcomes that do not count", ExclusionsMade)
def exclusions(request: Request, name: Name) -> Response:
    """Oldest first, with who left them out, when and why."""
    return answer(ExclusionsMade(exclusions=study_of(request, name, "read").exclusions()))


@of_study(router.get, "verification", "verifyStudy", "Recompute a study from its log", StudyVerification)
def verification(request: Request, name: Name, head: Head = None, seconds: Seconds = 20.0) -> Response:
    """The chain of events, designs, decisions, checks and verdict; `differences` names what is not as it should be.

    `remarks` are events that could not be recomputed, and why: they accuse nobody.
    """
    study = study_of(request, name, "read")
    return answer(study.verify(head, seconds=min(seconds, MOST_SECONDS), progress=False))


_MOST_PAIRS = 100


class ResidualShape(Shape):
    """What the fit leaves over, in a few numbers: where levers work together, by what all other runs expect of each."""

    n_runs: int
    sd: float | None
    noise_sd: float | None
    noise_known: bool
    skewness: float | None
    share_beyond_3: float | None
    autocorrelation: float | None
    n_outliers: int


class PairShape(Shape):
    """A test for the interaction of two factors; `adjusted` is Holm's p-value over all pairs tested."""

    first: str
    second: str
    dof: int
    statistic: float | None
    p_value: float
    adjusted: float


class LackShape(Shape):
    """The additive model against replicated runs."""

    dof: int
    pure_dof: int | None
    statistic: float | None
    p_value: float


class AdditivityShape(Shape):
    """Whether levers seem to interact; the pairs with the smallest p-values first."""

    in_doubt: bool
    summary: str
    reason: str | None
    n_runs: int
    noise_used: float | None
    lack: LackShape | None
    n_pairs: int
    pairs: list[PairShape]
    suspects: list[PairShape]


class EvidenceShape(Shape):
    """How strong the evidence is that a factor matters; `ratio` is null where the radius is 0 or not known."""

    factor: str
    better: Level | None
    worse: Level | None
    contrast: float | None
    radius: float | None
    ratio: float | None
    t: float | None
    shown: bool
    p_value: float | None


class Diagnostics(Shape):
    """Residuals, additivity, and evidence for each factor. On a log scale residuals are of the logarithm."""

    scale: str = Field(description=SCALE)
    residuals: ResidualShape
    additivity: AdditivityShape
    evidence: list[EvidenceShape]


@of_study(router.get, "diagnostics", "getDiagnostics", "Whether the outcomes look as assumed", Diagnostics)
def diagnose(request: Request, name: Name) -> Response:
    """Residuals, interactions between factors, and how strong the evidence is for each. Nothing here decides."""
    state = study_of(request, name, "read").frozen()
    outlying = {trial for doubt in views.doubts(state) for trial in doubt.trials}  # which would look like interactions
    left, found = diagnostics.residuals(state, most=1), diagnostics.additivity(state, outlying)
    tested, suspected = (
        [PairShape.read(one, first=found.names[one.first], second=found.names[one.second]) for one in checks]
        for checks in (found.checks[:_MOST_PAIRS], found.suspects)
    )
    additivity = AdditivityShape.read(found, n_pairs=len(found.checks), pairs=tested, suspects=suspected)
    evidence = [EvidenceShape.read(one) for one in views.evidence(state)]
    scale = state.spec.scale
    return answer(
        Diagnostics(scale=scale, residuals=ResidualShape.read(left), additivity=additivity, evidence=evidence)
    )
