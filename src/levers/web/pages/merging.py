"""Going on with levers that influence each other studied as one."""

from fastapi import APIRouter, Request, Response

from levers.errors import LeversError
from levers.studies.managing import merge_study
from levers.web.forms import Posted, back_to, text_of
from levers.web.pages.rendering import page, service_of
from levers.web.pages.study import context, opened
from levers.web.pages.words import whole
from levers.web.paths import address
from levers.web.refusing import message_of, status_of

router = APIRouter(include_in_schema=False)


@router.get("/studies/{name}/merge")
def merge_page(request: Request, name: str) -> Response:
    """The form, with the levers of the address ticked."""
    study, _ = opened(request, name, "admin")
    return _form(request, name, request.query_params.getlist("factors"), f"{study.name[:180]}, merged")


@router.post("/studies/{name}/merge")
def merge(request: Request, name: str, form: Posted) -> Response:
    """Begin the new study, or show the form again with what is wrong."""
    study, _ = opened(request, name, "admin")
    chosen = [str(value) for value in form.getlist("factors")][:500]
    new_name, typed = text_of(form, "new_name", 300), text_of(form, "budget", 20)
    who = service_of(request).allow(request, "admin").who
    try:
        budget = whole(typed, "the budget") if typed else None
        made = merge_study(study.name, new_name, chosen, study.storage, budget=budget, who=who)
    except LeversError as error:
        return _form(request, name, chosen, new_name, message_of(error), typed, status_of(error))
    n = sum(len(past.values) for past in made.state.past)
    said = f"The study has begun, with {n:,} runs of {study.name} as evidence. Ask for its first runs."
    return back_to(request, f"/studies/{address(made.name)}", said)


def _form(
    request: Request,
    name: str,
    chosen: list[str],
    new_name: str,
    wrong: str = "",
    budget: str = "",
    status: int = 200,
) -> Response:
    _, sight = opened(request, name, "admin")
    spec = sight.state.spec
    return page(
        request,
        "merge.html",
        status,
        factors=spec.space.names,
        chosen=chosen,
        new_name=new_name,
        wrong=wrong,
        budget=budget,
        has_budget="budget" in dict(spec.options),
        **context(sight),
    )
