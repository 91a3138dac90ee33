"""What people do about a study's course: leave an outcome out, end it, go on after its end, change its terms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from levers.algorithms.registry import option_names
from levers.charts.view import StudyView
from levers.errors import LeversError
from levers.studies.analysis.describe import several
from levers.studies.settings import SETTINGS, Setting
from levers.studies.spec import TERMS, StudySpec, terms_of
from levers.studies.study import Study
from levers.web.errors import lines_of, status_of
from levers.web.pages.filters import decimal, exact, whole
from levers.web.pages.runs import MAX_REASON, study_address
from levers.web.pages.site import answered, is_quiet, page
from levers.web.pages.study import context, opened, refused
from levers.web.security import Posted, text_of

NOT_KNOWN = ("not known", "unknown", "none", "")
"""What people type for a term that is not known, or no longer claimed."""
router = APIRouter(include_in_schema=False)


@router.post("/studies/{name}/exclude")
def exclude(request: Request, name: str, form: Posted) -> Response:
    """Leave an outcome out that must not count, with the reason."""
    study, view = opened(request, name, "write")
    try:
        trial, reason = whole(text_of(form, "trial", 40), "the trial"), text_of(form, "reason", MAX_REASON)
        made = study.exclude(trial, reason)
    except LeversError as error:
        return refused(request, study, view, error)
    changes = "\n".join(made.changes) or "No decision changes."
    said = f"Trial {made.trial}: {exact(made.value)} does not count any more.\n{changes}"
    return answered(request, study_address(study), f"{said}\n{_stands(study)}", trial=made.trial)


def _stands(study: Study) -> str:
    found = study.status()
    if found.state == "running":
        return f"The study goes on: {found.to_go}."
    if found.state == "confirming":
        return f"{several(found.to_go.now, 'fresh run is', 'fresh runs are')} awaited to confirm the verdict."
    return "The study is in doubt: say how it goes on." if found.state == "in doubt" else "The study is finished."


@router.get("/studies/{name}/finish")
@router.get("/studies/{name}/continue")
@router.get("/studies/{name}/terms")
def question(request: Request, name: str) -> Response:
    """What the verdict would be now, how many more runs are wanted, or the terms to be changed; nothing happens yet."""
    _, view = opened(request, name, "write")
    return _asked(request, request.url.path.rpartition("/")[2], view)


@router.post("/studies/{name}/finish")
def finish(request: Request, name: str, form: Posted) -> Response:
    """End the study now."""
    study, view = opened(request, name, "write")
    reason = text_of(form, "reason", MAX_REASON)
    try:
        found = study.finish(reason)
    except LeversError as error:
        return _not_taken(request, "finish", view, error, {"reason": reason})
    said = f"The study is finished: {found.promise}."
    if view.state.confirming_block is not None:
        said = f"The confirmation is over: {_stands(study)}"
    return answered(request, study_address(study, "/verdict"), said)


@router.post("/studies/{name}/continue")
def go_on(request: Request, name: str, form: Posted) -> Response:
    """More runs after the end."""
    study, view = opened(request, name, "write")
    fields = {"n": text_of(form, "n", 40), "reason": text_of(form, "reason", MAX_REASON)}
    try:
        study.go_on(whole(fields["n"], "the number of runs") if fields["n"] else None, fields["reason"])
    except LeversError as error:
        return _not_taken(request, "continue", view, error, fields)
    return answered(request, study_address(study, "#runs"), _stands(study))


@router.post("/studies/{name}/confirm")
def confirm(request: Request, name: str, form: Posted) -> Response:
    """Fresh runs at the verdict's setting."""
    study, view = opened(request, name, "write")
    try:
        study.confirm(whole(text_of(form, "n", 40), "the number of fresh runs"), text_of(form, "reason", MAX_REASON))
    except LeversError as error:
        return refused(request, study, view, error)
    return answered(request, study_address(study, "#runs"), f"{_stands(study)} Ask for them, and enter their outcomes.")


@router.post("/studies/{name}/terms")
def restate(request: Request, name: str, form: Posted) -> Response:
    """Go on under other terms."""
    study, view = opened(request, name, "write")
    typed = {term.name: text_of(form, term.name, 60) for term in offered(view.state.spec) if term.name in form}
    reason = text_of(form, "reason", MAX_REASON)
    try:
        changes = study.restate(reason=reason, **changed_terms(view.state.spec, typed))
    except LeversError as error:
        return _not_taken(request, "terms", view, error, {**typed, "reason": reason})
    said = "\n".join(f"{change[:1].upper()}{change[1:]}." for change in changes)
    return answered(request, study_address(study), f"{said}\n{_stands(study)}")


@dataclass(frozen=True, slots=True)
class Term:
    """A term as the form shows it: its setting, and what it is now in words that can be typed."""

    setting: Setting
    now: str

    @property
    def name(self) -> str:
        """What it is called in the form."""
        return self.setting.name


def offered(spec: StudySpec) -> list[Term]:
    """The terms that can be changed under way, those that the study's algorithm knows."""
    known, now = option_names(spec.algorithm), terms_of(spec)
    settings = {setting.name: setting for setting in SETTINGS}
    fields = ("tolerance", "noise_sd")
    names = [name for name in TERMS if name in settings and (name in fields or name in known)]
    return [Term(settings[name], _typed(settings[name], now[name])) for name in names]


def _typed(setting: Setting, value: Any) -> str:
    if value is None:
        return NOT_KNOWN[0] if setting.name == "noise_sd" else ""
    return exact(value) if isinstance(value, float) else str(value)


def changed_terms(spec: StudySpec, typed: Mapping[str, str]) -> dict[str, Any]:
    """The terms that were typed and are others than now.

    >>> from levers.core.space import Space
    >>> spec = StudySpec(Space.of({"heat": ["low", "high"]}), tolerance=0.5, noise_sd=1.0)
    >>> changed_terms(spec, {"tolerance": "0.5", "budget": "40", "noise_sd": "not known"})
    {'budget': 40, 'noise_sd': None}
    """
    found: dict[str, Any] = {}
    for term in offered(spec):
        text = typed.get(term.name, term.now)
        if text != term.now:
            found[term.name] = _value(term.setting, text)
    return found


def _value(setting: Setting, text: str) -> Any:
    if text.strip().lower() in NOT_KNOWN:
        return None
    if setting.choices or (setting.kind == "amount" and text.strip().endswith("%")):
        return text.strip()
    return whole(text, setting.label) if setting.type is int else decimal(text, setting.label)


def _asked(
    request: Request,
    what: str,
    view: StudyView,
    status: int = 200,
    wrong: tuple[str, ...] = (),
    fields: Mapping[str, str] | None = None,
) -> Response:
    given: dict[str, Any] = {"wrong": wrong, "fields": fields or {}}
    given["terms"] = offered(view.state.spec)
    given["can_end"] = view.state.spec.solver.finishes_early
    return page(request, f"course/{what}.html", status, **given, **context(view))


def _not_taken(request: Request, what: str, view: StudyView, error: LeversError, fields: Mapping[str, str]) -> Response:
    """The page again with what was typed; a script is told in words instead."""
    if is_quiet(request):
        raise error
    return _asked(request, what, view, status_of(error), tuple(lines_of(error)), fields)
