"""The form of a new study, with a plan that follows what is typed."""

from typing import Any

from fastapi import APIRouter, Request, Response

from levers.errors import LeversError
from levers.studies.managing import create_study
from levers.web.forms import Posted, back_to, text_of
from levers.web.pages.drafts import Draft, place_of
from levers.web.pages.plans import bought, planned, question
from levers.web.pages.rendering import fragment, page, part, service_of
from levers.web.pages.study import study_page
from levers.web.paths import address
from levers.web.refusing import message_of, status_of

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
    with service_of(request).slowly():
        return part(fragment(request, "parts/plan.html", **plan_context(Draft.of(form), with_buys=with_buys)))


@router.post("/studies")
def create(request: Request, form: Posted) -> Response:
    """Begin the study, or show the form again with everything that was typed and what is wrong."""
    service, access = service_of(request), service_of(request).allow(request, "admin")
    draft = Draft.of(form)
    if text_of(form, "more_rows") or text_of(form, "show_plan"):
        return _form(request, draft, 200)
    space, forbidden, merged, settings = draft.space, draft.forbidden, draft.merged, draft.settings
    if draft.problems or space is None:
        return _form(request, draft, 422)
    try:
        study = create_study(
            draft.fields["name"],
            space,
            forbidden=forbidden,
            merged=merged,
            storage=service.storage,
            who=access.who,
            **settings,
        )
    except LeversError as error:
        message = message_of(error)
        draft.problems.setdefault(place_of(message), message)
        return _form(request, draft, status_of(error))
    return back_to(request, f"/studies/{address(study.name)}", "The study has begun. Ask for its first runs.")


def _form(request: Request, draft: Draft, status: int) -> Response:
    shown = {"draft": draft, "problems": draft.problems}
    return page(request, "new.html", status, **shown, **plan_context(draft, keep_quiet=status == 200))


def plan_context(draft: Draft, *, keep_quiet: bool = False, with_buys: bool = True) -> dict[str, Any]:
    """The plan, or why there is none yet. A draft that is shown again keeps only problems that were found before."""
    before = dict(draft.problems)
    found, buys, waiting = None, None, ""
    if draft.is_blank:
        waiting = "The plan appears here once there are factors with their levels, and a tolerance."
    else:
        space, forbidden, merged, settings = draft.space, draft.forbidden, draft.merged, draft.settings
        if draft.problems or space is None:
            waiting = "; ".join(dict.fromkeys(draft.problems.values()))
        else:
            try:
                asked = question(space, forbidden, merged, settings)
                found, buys = planned(asked), bought(asked) if with_buys else None
            except LeversError as error:
                waiting = str(error)
    if keep_quiet:
        draft.problems.clear()
        draft.problems.update(before)
    return {"planned": found, "buys": buys, "waiting": waiting}
