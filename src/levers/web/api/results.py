"""What a study says: status, effects, forecast, best setting, verdict, diagnostics."""

import math

from fastapi import APIRouter, Request, Response

from levers.core.model.additivity import LackOfFit
from levers.core.model.interactions import PairCheck
from levers.core.space import Level
from levers.errors import NotFinishedError
from levers.studies.analysis import diagnostics, views
from levers.studies.analysis.views import FactorEvidence, evidence
from levers.web.api.deps import Name, answer, answer_value, responses, service_of, study_of
from levers.web.api.schemas import BestShape, Shape, VerdictShape

router = APIRouter(tags=["looking"])
_ERRORS = responses(404)


@router.get(
    "/studies/{name}/status",
    operation_id="getStatus",
    summary="Where a study stands",
    response_model=views.Status,
    responses=_ERRORS,
)
def status(request: Request, name: Name) -> Response:
    """Runs made, out and to go; times are seconds since 1970."""
    study = study_of(request, name, "read")
    return answer_value(views.Status, views.status(study.name, study.frozen()))


@router.get(
    "/studies/{name}/effects",
    operation_id="getEffects",
    summary="What each level loses",
    response_model=list[views.EffectRow],
    responses=_ERRORS,
)
def effects(request: Request, name: Name) -> Response:
    """Against the leading level, with intervals that all hold at once."""
    return answer_value(list[views.EffectRow], views.effects(study_of(request, name, "read").frozen()))


@router.get(
    "/studies/{name}/forecast",
    operation_id="getForecast",
    summary="How many runs are to go",
    response_model=views.Forecast,
    responses=_ERRORS,
)
def forecast(request: Request, name: Name) -> Response:
    """In the block under way, likely, and in the worst case."""
    return answer_value(views.Forecast, views.forecast(study_of(request, name, "read").frozen()))


@router.get(
    "/studies/{name}/best",
    operation_id="getBest",
    summary="The setting that the estimates favour",
    response_model=BestShape,
    responses=_ERRORS,
)
def best(request: Request, name: Name) -> Response:
    """With how far it may be from the best one; all null before the first decision."""
    return answer(BestShape.of(views.best(study_of(request, name, "read").frozen())))


@router.get(
    "/studies/{name}/verdict",
    operation_id="getVerdict",
    summary="The answer and its guarantee",
    response_model=VerdictShape,
    responses=responses(404, 409),
)
def verdict(request: Request, name: Name) -> Response:
    """409 while the study is not finished."""
    state = study_of(request, name, "read").frozen()
    found, chosen = views.verdict(state), views.best(state)
    if found is None or chosen is None:
        raise NotFinishedError(f"the study is not finished: {views.forecast(state)}")
    return answer(VerdictShape.of(found, chosen.params))


_MOST_PAIRS = 100


class ResidualShape(Shape):
    """What the additive fit leaves over, in a few numbers."""

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

    @classmethod
    def of(cls, names: tuple[str, ...], check: PairCheck) -> "PairShape":
        """From a check."""
        return cls(
            first=names[check.first],
            second=names[check.second],
            dof=check.dof,
            statistic=_finite(check.statistic),
            p_value=check.p_value,
            adjusted=check.adjusted,
        )


class LackShape(Shape):
    """The additive model against replicated runs."""

    dof: int
    pure_dof: int | None
    statistic: float | None
    p_value: float

    @classmethod
    def of(cls, lack: LackOfFit) -> "LackShape":
        """From the test."""
        return cls(dof=lack.dof, pure_dof=lack.pure_dof, statistic=_finite(lack.statistic), p_value=lack.p_value)


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


class Diagnostics(Shape):
    """Residuals, additivity, and evidence for each factor."""

    residuals: ResidualShape
    additivity: AdditivityShape
    evidence: list[EvidenceShape]


@router.get(
    "/studies/{name}/diagnostics",
    operation_id="getDiagnostics",
    summary="Whether the outcomes look as assumed",
    response_model=Diagnostics,
    responses=responses(404),
)
def diagnose(request: Request, name: Name) -> Response:
    """Residuals, interactions between factors, and how strong the evidence is for each. Nothing here decides."""
    state = study_of(request, name, "read").frozen()
    with service_of(request).slowly():
        left = diagnostics.residuals(state, most=1)
        found = diagnostics.additivity(state)
    return answer(
        Diagnostics(
            residuals=ResidualShape(**{field: getattr(left, field) for field in ResidualShape.model_fields}),
            additivity=AdditivityShape(
                in_doubt=found.in_doubt,
                summary=found.summary,
                reason=found.reason,
                n_runs=found.n_runs,
                noise_used=found.noise_used,
                lack=None if found.lack is None else LackShape.of(found.lack),
                n_pairs=len(found.checks),
                pairs=[PairShape.of(found.names, check) for check in found.checks[:_MOST_PAIRS]],
                suspects=[PairShape.of(found.names, check) for check in found.suspects],
            ),
            evidence=[_evidence(one) for one in evidence(state)],
        )
    )


def _evidence(one: FactorEvidence) -> EvidenceShape:
    return EvidenceShape(
        factor=one.factor,
        better=one.better,
        worse=one.worse,
        contrast=one.contrast,
        radius=one.radius,
        ratio=_finite(one.ratio),
        t=_finite(one.t),
        shown=one.shown,
    )


def _finite(value: float | None) -> float | None:
    """JSON has no infinity.

    >>> _finite(math.inf), _finite(0.5)
    (None, 0.5)
    """
    return value if value is not None and math.isfinite(value) else None
