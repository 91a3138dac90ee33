"""Forms of a study's page: ask for runs, tell outcomes, report failures, correct."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData

from levers.core.space import Level
from levers.errors import InvalidSettingError, LeversError
from levers.studies.analysis.describe import several
from levers.studies.events import numbers
from levers.studies.outcomes import new_outcomes, taken_levels
from levers.studies.sheets.cells import level_finder, level_text
from levers.studies.state import TrialState
from levers.studies.storage.tokens import short_name
from levers.studies.study import Study
from levers.web.cache import who_told
from levers.web.pages.filters import decimal, exact, has_comma, whole
from levers.web.pages.site import answered, is_quiet, page, service_of
from levers.web.pages.study import open_runs, opened, panels_of, refused
from levers.web.security import Posted, address, text_of

MAX_REASON = 500
router = APIRouter(include_in_schema=False)


def study_address(study: Study, place: str = "") -> str:
    """The address of a study's page."""
    return f"/studies/{address(study.name)}{place}"


@router.post("/studies/{name}/ask")
def ask(request: Request, name: str, form: Posted) -> Response:
    """Hand out runs."""
    study, view = opened(request, name, "write")
    try:
        n = whole(text_of(form, "n"), "the number of runs")
        most = service_of(request).limits.rows
        if not 1 <= n <= most:
            raise InvalidSettingError(f"ask for 1 to {most:,} runs, not {n:,}")
        due = service_of(request).change(study, lambda: study.ask_numbers(n))
    except LeversError as error:
        return refused(request, study, view, error, {"n": text_of(form, "n", 40)})
    return answered(request, study_address(study, "#runs"), _handed_out(study, len(due), n))


def _handed_out(study: Study, n: int, wanted: int) -> str:
    if n == wanted:
        return several(n, "run is out", "runs are out") + ". Make them in the order given: it is random on purpose."
    if n:
        return f"{n:,} of {wanted:,} runs are out: {study.forecast().what_follows}."
    if study.is_finished:
        return f"There are no runs to make. {_ended(study)}"
    out = study.status().n_running
    are = several(out, "run is", "runs are")
    return f"Nothing to hand out: {are} out, and {study.forecast().what_follows}."


def _ended(study: Study) -> str:
    if study.is_held:
        return "Outcomes contradict the answer: see what is in doubt, and say how the study goes on."
    return "The study is finished: there is a verdict."


@router.post("/studies/{name}/tell")
def tell(request: Request, name: str, form: Posted) -> Response:
    """Take the outcomes that were typed: one row or all. Rows that cannot be taken stay, with the reason.

    So do outcomes that are a surprise, until whoever typed them says that they are right.
    """
    study, _ = opened(request, name, "write")
    typed = {t: text for t, text in entries(form, "outcome").items() if text}
    only = text_of(form, "save")
    chosen = typed if only in ("", "all", INSIST) else {t: text for t, text in typed.items() if str(t) == only}
    if not chosen:
        raise InvalidSettingError("no outcome was typed in; nothing was stored")
    asked = entries(form, "asked")
    insisted = {t for t, text in chosen.items() if only == INSIST and asked.get(t) == text}
    levels = levels_typed(form)
    saved, problems = take(study, chosen, comma=has_comma(typed.values()), insisted=insisted, levels=levels)
    said = f"{several(len(saved), 'outcome', 'outcomes')} saved." if saved else "Nothing was stored."
    if study.is_finished:
        said += f" {_ended(study)}"
    n_asked = sum(found.asked for found in problems.values())
    if n_asked:
        said += f" {several(n_asked, 'outcome is', 'outcomes are')} far from what was expected, and not stored."
    if len(problems) > n_asked:
        said += f" {several(len(problems) - n_asked, 'row needs', 'rows need')} another look."
    if is_quiet(request):
        kind = "problem" if problems else "done"
        wrong = [
            {"trial": t, "problem": found.text, "may_correct": found.may_correct, "asked": found.asked}
            for t, found in problems.items()
        ]
        return JSONResponse({"kind": kind, "message": said, "saved": saved, "problems": wrong})
    if not problems:
        return answered(request, study_address(study, "#runs"), said)
    study, view = opened(request, name, "write")
    left = {
        t: (typed.get(t, ""), *problems.get(t, _RIGHT)[:2], levels.get(t, {})) for t in typed | levels if t not in saved
    }
    return page(request, "study.html", 409, wrong=(said,), **panels_of(view, open_runs(view, study, typed=left)))


INSIST = "insist"
"""What the button sends that stores surprising outcomes."""


class Refusal(NamedTuple):
    """Why an outcome was not stored; whether it is only a surprise; whether it can be corrected."""

    text: str
    asked: bool = False
    may_correct: bool = False


_RIGHT = Refusal("")


def take(
    study: Study,
    typed: dict[int, str],
    *,
    comma: bool = False,
    insisted: Collection[int] = (),
    levels: Mapping[int, Mapping[int, str]] | None = None,
) -> tuple[list[int], dict[int, Refusal]]:
    """Store what can be stored, in one piece; of the rest say why not.

    Outcomes that are a surprise are stored if they are `insisted` upon. `levels` is what was chosen, by the positions
    of the levers, for those that a run left alone.
    """
    values, observed, problems = {}, {}, {}
    for trial, text in typed.items():
        try:
            values[trial], observed[trial] = decimal(text, comma=comma), observed_of(study, levels, trial)
        except InvalidSettingError as error:
            problems[trial] = Refusal(str(error))
    trials = numbers(list(values))
    taken = taken_levels(study.space, list(values), observed) if levels else None
    with study.writing() as transaction:
        outcomes = np.array(list(values.values()), dtype=np.float64)
        found = new_outcomes(transaction.state, trials, outcomes, taken)
        for place, reason in (*found.problems, *found.late):
            problems[int(trials[place])] = Refusal(reason)
        for flag in study.surprises(transaction.state, found.trials, found.values):
            assert flag.trial is not None  # of outcomes that were told
            if flag.trial not in insisted:
                problems[flag.trial] = Refusal(f"{flag.expectation}; is {exact(flag.value)} right?", asked=True)
        stored = ~np.isin(found.trials, list(problems))
        known = [t for t in values if t not in problems and t not in found.trials.tolist()]
        had = None if found.observed is None else found.observed[stored]
        study.take(transaction, found.trials[stored], found.values[stored], had)
    told = [t for t in problems if t in values and _is_told(study, t)]
    tellers = who_told(study, study.state, told)
    for trial in told:
        value = study.trial(trial).value
        assert value is not None  # it was told
        by = f" by {short_name(tellers[trial])}" if trial in tellers else ""
        reason = f"it was told already{by}: {exact(value)}. Yours is {exact(values[trial])}."
        problems[trial] = Refusal(reason, may_correct=True)
    return [*found.trials[stored].tolist(), *known], problems


def _is_told(study: Study, trial: int) -> bool:
    table = study.state.trials
    return 0 <= trial < table.n_trials and table.state[trial] == TrialState.COMPLETE


@router.post("/studies/{name}/fail")
def fail(request: Request, name: str, form: Posted) -> Response:
    """Take note of a run that gave no outcome."""
    study, _ = opened(request, name, "write")
    trial = whole(text_of(form, "trial") or text_of(form, "fail"), "the trial")
    reason = text_of(form, "reason", MAX_REASON) or text_of(form, f"reason-{trial}", MAX_REASON)
    study.fail(trial, reason)
    said = f"Trial {trial} failed; its run will be asked for again."
    return answered(request, study_address(study, "#runs"), said, trial=trial)


@router.post("/studies/{name}/correct")
def correct(request: Request, name: str, form: Posted) -> Response:
    """Another outcome for a trial that was told, with the reason."""
    study, view = opened(request, name, "write")
    row = text_of(form, "correct")
    fields = {
        "trial": row or text_of(form, "trial", 40),
        "value": text_of(form, f"outcome-{row}" if row else "value", 60),
        "reason": text_of(form, f"reason-{row}" if row else "reason", MAX_REASON),
    }
    try:
        number, value = whole(fields["trial"], "the trial"), decimal(fields["value"])
        observed = observed_of(study, levels_typed(form), number)
        made = study.correct(number, value, fields["reason"], observed=observed or None)
    except LeversError as error:
        return refused(request, study, view, error, fields)
    changes = "\n".join(made.changes) or "No decision changes."
    levels = "".join(f" {lever} took {level_text(now)}, not {level_text(was)}." for lever, was, now in made.observed)
    said = f"Trial {made.trial}: {exact(made.before)} is now {exact(made.value)}.{levels}\n{changes}"
    return answered(request, study_address(study, "#corrections"), said, trial=made.trial)


def levels_typed(form: FormData) -> dict[int, dict[int, str]]:
    """What was chosen for levers that runs left alone: `observed-17-2` is that of the third lever in trial 17.

    >>> levels_typed(FormData([("observed-17-2", "low"), ("observed-18-2", "")]))
    {17: {2: 'low'}}
    """
    found: dict[int, dict[int, str]] = {}
    for key, value in form.multi_items():
        match = re.fullmatch(r"observed-([0-9]{1,15})-([0-9]{1,6})", key)
        if match and isinstance(value, str) and value.strip():
            found.setdefault(int(match[1]), {})[int(match[2])] = value[:500]
    return found


def observed_of(study: Study, levels: Mapping[int, Mapping[int, str]] | None, trial: int) -> dict[str, Level]:
    """What levers took in a trial, as the form says it."""
    found: dict[str, Level] = {}
    for k, text in (levels or {}).get(trial, {}).items():
        if k >= study.space.n_factors:
            raise InvalidSettingError("the form is of another study; load the page again")
        factor = study.space.factors[k]
        place = level_finder(factor)(text)
        if place < 0:
            raise InvalidSettingError(f"{text[:60]!r} is not a level of {factor.name!r}; choose the one that it took")
        found[factor.name] = factor.levels[place]
    return found


def entries(form: FormData, name: str) -> dict[int, str]:
    """The fields of all rows: `outcome-17` is that of trial 17.

    >>> entries(FormData([("outcome-17", " 2,5 "), ("outcome-x", "1")]), "outcome")
    {17: '2,5'}
    """
    found = {}
    for key, value in form.multi_items():
        match = re.fullmatch(rf"{name}-([0-9]{{1,15}})", key)
        if match and isinstance(value, str):
            found[int(match[1])] = value.strip()[:60]
    return found
