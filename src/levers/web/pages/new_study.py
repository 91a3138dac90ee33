"""The form of a new study, with a plan that follows what is typed."""

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from levers.errors import LeversError, SheetError
from levers.studies.settings import QUESTIONS, Setting
from levers.studies.sheets.cells import utf8
from levers.web.drafts import CHOICES, EMPTY_ROWS, FIELDS, ON_FORM, Draft, plan_shown
from levers.web.errors import message_of, status_of
from levers.web.limits import jobs
from levers.web.pages.site import fragment, page, part, service_of
from levers.web.pages.study import study_page
from levers.web.security import Posted, address, back_to, file_of, text_of

_MOST_ROWS, _LONGEST = 500, 500_000

router = APIRouter(include_in_schema=False)


@router.get("/new")
def new_page(request: Request) -> Response:
    """The empty form."""
    service_of(request).allow(request, "admin")
    return _form(request, Draft.empty(), 200)


@router.get("/studies/new")
def new_or_study(request: Request) -> Response:
    """The form; but a study may have been called `new`, and then this is its address."""
    if any(name == "new" for _, name in service_of(request).storage.names()):
        return study_page(request, "new")
    return new_page(request)


@router.post("/plan")
def plan_part(request: Request, form: Posted, with_buys: bool = True) -> Response:
    """The plan for what is in the form now. A page asks first without what assumptions buy, which takes longer."""
    service_of(request).allow(request, "read")
    return part(fragment(request, "parts/plan.html", **_plan(request, draft_of(form), with_buys=with_buys)))


@router.post("/studies")
def create(request: Request, form: Posted) -> Response:
    """Begin the study, or show the form again with everything that was typed and what is wrong."""
    service, access = service_of(request), service_of(request).allow(request, "admin")
    draft = draft_of(form)
    if text_of(form, "more_rows") or text_of(form, "show_plan"):
        return _form(request, draft, 200)
    name = draft.fields["name"]
    try:
        service.check_new(name)
        found = service.compute(request, jobs.study_of_draft, draft, access.who)
        if isinstance(found, dict):
            draft.problems.update(found)
            return _form(request, draft, 422)
        study = service.begin(name, found, access.who)
    except LeversError as error:
        draft.problems.setdefault(error.field if error.field in (*FIELDS, "factors") else "form", message_of(error))
        return _form(request, draft, status_of(error))
    return back_to(request, f"/studies/{address(study.name)}", "The study has begun. Ask for its first runs.")


def _form(request: Request, draft: Draft, status: int) -> Response:
    asked: dict[str, list[Setting]] = {question: [] for question in QUESTIONS}
    for setting in ON_FORM:
        asked[setting.question].append(setting)
    shown = {
        "draft": draft,
        "problems": draft.problems,
        "questions": QUESTIONS,
        "asked": asked,
        "choices": CHOICES,
        "picked": draft.all_picked,
        "opened": {question for question in QUESTIONS if any(map(draft.says_something, asked[question]))},
    }
    return page(request, "new.html", status, **shown, **_plan(request, draft, keep_quiet=status == 200))


def draft_of(form: FormData) -> Draft:
    """From a form. The text of a file that was chosen goes to the field for pasted text, so that it is kept."""
    fields = {key: text_of(form, key) for key in FIELDS}
    problems: dict[str, str] = {}
    file = file_of(form, "file")
    if file is not None:
        try:
            fields["table"] = utf8(file.file.read(_LONGEST + 1)).decode().strip()
        except (SheetError, UnicodeDecodeError) as error:
            problems["table"] = f"the file cannot be read: {error}"
    for key, text in fields.items():
        if len(text) > _LONGEST:
            problems[key] = f"at most {_LONGEST:,} characters can be entered here; begin such a study over the API"
            fields[key] = text[:_LONGEST]
    names = [str(value).strip() for value in form.getlist("factor")][:_MOST_ROWS]
    levels = [str(value).strip() for value in form.getlist("levels")][:_MOST_ROWS]
    rows = [(a, b) for a, b in zip(names, levels, strict=False) if a or b]
    more = EMPTY_ROWS if text_of(form, "more_rows") else 0
    return Draft(fields, rows, max(EMPTY_ROWS, len(names) - len(rows)) + more, problems)


def _plan(request: Request, draft: Draft, *, keep_quiet: bool = False, with_buys: bool = True) -> dict[str, Any]:
    """The plan, or why there is none yet. A draft that is shown again keeps only problems that were found before."""
    if not draft.rows and not draft.fields["table"]:
        shown = plan_shown(draft, with_buys=with_buys)  # which needs no plan
    else:
        service = service_of(request)
        shown = service.compute(request, jobs.plan_of_draft, draft, with_buys, service.limits.computing_seconds)
    if not keep_quiet:
        draft.problems.update(shown.problems)
    return {"planned": shown.planned, "buys": shown.buys, "waiting": shown.waiting, "n_free": shown.n_free}
