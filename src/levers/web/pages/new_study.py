"""The form of a new study, with a plan that follows what is typed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from levers.core.merging import Merging, forbidden_combinations, merged_groups
from levers.core.space import Level
from levers.errors import InvalidSettingError, InvalidSpaceError, LeversError, SheetError
from levers.experiments.plan import Plan, merged_plan, plan
from levers.studies.library import create_study
from levers.studies.settings import FORM, Setting, settings_of
from levers.studies.sheets.cells import utf8
from levers.studies.space_text import (
    Typed,
    absolute_tolerance,
    made_space,
    parse_forbidden,
    parse_levels,
    parse_merged,
    parse_setting,
    parse_text,
)
from levers.web.errors import message_of, status_of
from levers.web.pages.filters import decimal, whole
from levers.web.pages.site import fragment, page, part, service_of
from levers.web.pages.study import study_page
from levers.web.security import Posted, address, back_to, file_of, text_of

ON_FORM = settings_of(FORM)
FIELDS = ("name", "table", *(setting.name for setting in ON_FORM))
READERS: Mapping[str, Callable[[str, str], Any]] = {
    "choice": lambda text, label: text,
    "positive": decimal,
    "amount": lambda text, label: text if text.rstrip().endswith("%") else decimal(text, label),
    "number": decimal,
    "probability": decimal,
    "count": whole,
    "whole": whole,
}
"""How the text of a field is read, by the kind of setting; the others are read with the factors."""
_EMPTY_ROWS, _MOST_ROWS, _LONGEST = 3, 500, 2_000_000


@dataclass(frozen=True)
class Draft:
    """What was typed: `fields` by name, and `rows` of factor and levels."""

    fields: Mapping[str, str]
    rows: list[tuple[str, str]]
    n_empty: int = _EMPTY_ROWS
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> "Draft":
        """The form as it is first shown."""
        defaults = {setting.name: str(setting.default) for setting in ON_FORM if setting.default}
        return cls({key: defaults.get(key, "") for key in FIELDS}, [])

    @classmethod
    def of(cls, form: FormData) -> "Draft":
        """From a form. The text of a file that was chosen goes to the field for pasted text, so that it is kept."""
        fields = {key: text_of(form, key, _LONGEST) for key in FIELDS}
        problems: dict[str, str] = {}
        file = file_of(form, "file")
        if file is not None:
            try:
                fields["table"] = utf8(file.file.read(_LONGEST)).decode().strip()
            except (SheetError, UnicodeDecodeError) as error:
                problems["table"] = f"the file cannot be read: {error}"
        names = [str(value).strip() for value in form.getlist("factor")][:_MOST_ROWS]
        levels = [str(value).strip() for value in form.getlist("levels")][:_MOST_ROWS]
        rows = [(a, b) for a, b in zip(names, levels, strict=False) if a or b]
        more = _EMPTY_ROWS if text_of(form, "more_rows") else 0
        return cls(fields, rows, max(_EMPTY_ROWS, len(names) - len(rows)) + more, problems)

    def checked(self) -> dict[str, Any] | None:
        """What `create_study` is given; None when something is wrong, and then `problems` says what."""
        found = self._try("factors", self._factors)
        space = None if found is None else self._try("factors", lambda: made_space(found.factors))
        forbidden: list[Mapping[str, Level]] = []
        merged: list[list[str]] = []
        if space is not None:
            typed = self._try("forbidden", lambda: parse_forbidden(space, self.fields["forbidden"]))
            forbidden = [*found.forbidden, *(typed or [])]
            merged = [*found.merged, *parse_merged(space, self.fields["merged"])]
            self._try("merged", lambda: merged_groups(space, merged))
        baseline = None
        if space is not None and (text := self.fields["baseline"]):
            baseline = self._try("baseline", lambda: dict(space.encode(parse_setting(space, text))))
        settings = self._settings()
        if self.problems or space is None:
            return None
        return {"space": space, "forbidden": forbidden, "merged": merged, "baseline": baseline, **settings}

    def _factors(self) -> Typed:
        factors = [(name, parse_levels(levels)) for name, levels in self.rows]
        try:
            more = parse_text(self.fields["table"])
        except LeversError as error:
            self.problems.setdefault("table", str(error))
            raise InvalidSpaceError("the pasted table cannot be read") from None
        return more._replace(factors=[*factors, *more.factors])

    def _settings(self) -> dict[str, Any]:
        """The numbers, None where a field is empty; what is wrong goes to `problems`."""
        numbers = {setting.name: self._value(setting) for setting in ON_FORM if setting.kind in READERS}
        numbers["tolerance"] = self._try(
            "tolerance", lambda: absolute_tolerance(numbers["tolerance"], numbers["baseline_outcome"])
        )
        if numbers["tolerance"] is not None and numbers["budget"] is not None:
            self.problems["budget"] = "give either a tolerance or a budget of runs, and not both"
        if not self.fields["tolerance"] and not self.fields["budget"]:
            self.problems["tolerance"] = "say how far from the best is good enough, or give a budget of runs"
        return numbers

    def _value(self, setting: Setting) -> Any:
        text, read = self.fields[setting.name], READERS[setting.kind]
        if not text:
            return setting.default
        return self._try(setting.name, lambda: read(text, setting.label))

    def _try(self, key: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except (InvalidSettingError, InvalidSpaceError) as error:
            self.problems.setdefault(key, str(error))
            return None


GUESSES = (0.5, 1.0, 2.0, 4.0)
"""Noise in tolerances, to plan with while it is not known."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan rests on: the sizes of the factors and the numbers of the form.

    `apart` are the sizes before any factors were merged or tied together by forbidden combinations.
    """

    n_levels: tuple[int, ...]
    tolerance: float | None
    budget: int | None
    failure_prob: float
    noise_sd: float | None
    max_parents: int | None = None
    min_effect: float | None = None
    noise_known: bool = True
    apart: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Buys:
    """An assumption: the runs of the worst case and likely, with it and without."""

    what: str
    with_it: tuple[int, int]
    without: tuple[int, int]
    given: bool

    @property
    def saved(self) -> float | None:
        """How many times fewer runs, in the worst case."""
        return self.without[0] / self.with_it[0] if self.with_it[0] else None


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan for the form; with a noise that is not known, one for each guess of it."""

    plan: Plan
    noise_known: bool
    guesses: tuple[tuple[float, Plan], ...]


def question(given: Mapping[str, Any]) -> Question:
    """What is to be planned. Merged factors, and those that forbidden combinations tie together, count as one."""
    space = given["space"]
    forbidden, merged = forbidden_combinations(space, given["forbidden"]), merged_groups(space, given["merged"])
    names = ("tolerance", "budget", "failure_prob", "noise_sd", "max_parents", "min_effect")
    found = Merging.of(space, forbidden, merged)
    apart = space.n_levels if found.is_merged else None
    return Question(found.inner.n_levels, **{name: given[name] for name in names}, apart=apart)


@lru_cache(maxsize=256)
def made_plan(asked: Question) -> Plan:
    """The plan of a question. A noise that is not known is expected to turn out as `noise_sd`."""
    given = asdict(asked)
    n_levels, apart = list(given.pop("n_levels")), given.pop("apart")
    noise_known, noise_sd = given.pop("noise_known"), given.pop("noise_sd")
    given["noise_sd"] = (1.0 if noise_sd is None else noise_sd) if noise_known else None
    given["expected_noise"] = None if noise_known else noise_sd
    return plan(n_levels, **given) if apart is None else merged_plan(n_levels, apart, **given)


@lru_cache(maxsize=128)
def planned(asked: Question) -> Planned:
    """The plan, or one for each guess of an unknown noise.

    >>> found = planned(Question((4,) * 6, 0.5, None, 0.1, 1.0))
    >>> found.plan.worst_case_runs < found.plan.modl_runs
    True
    """
    if asked.noise_sd is not None:
        return Planned(made_plan(asked), True, ())
    if asked.tolerance is None:  # everything is in units of the noise
        return Planned(made_plan(replace(asked, noise_known=False)), False, ())
    guesses = tuple(
        (factor * asked.tolerance, made_plan(replace(asked, noise_sd=factor * asked.tolerance, noise_known=False)))
        for factor in GUESSES
    )
    return Planned(guesses[1][1], False, guesses)


@lru_cache(maxsize=128)
def bought(asked: Question) -> tuple[Buys, ...]:
    """What each assumption buys; it takes several plans, so a page shows the plan first.

    >>> bought(Question((4,) * 6, 0.5, None, 0.1, 1.0))[0].what
    'at most 3 of 6 factors matter'
    """
    if asked.tolerance is None:  # a budget is spent whatever is assumed
        return ()
    tolerance = asked.tolerance
    noise_given = asked.noise_sd is not None
    if not noise_given:
        asked = replace(asked, noise_sd=tolerance)
    base = replace(asked, noise_known=noise_given)
    found = []
    few = asked.max_parents or max(1, min(3, len(asked.n_levels) // 2))
    if len(asked.n_levels) > 1:
        words, without = f"at most {few} of {len(asked.n_levels)} factors matter", replace(base, max_parents=None)
        found.append(_pair(words, replace(base, max_parents=few), without, asked.max_parents is not None))
    least, without = asked.min_effect or 2 * tolerance, replace(base, min_effect=None)
    words = f"a factor that matters moves the outcome by {least:.3g} or more"
    found.append(_pair(words, replace(base, min_effect=least), without, asked.min_effect is not None))
    words = f"the noise is known (sd {asked.noise_sd:.3g})"
    found.append(_pair(words, asked, replace(asked, noise_known=False), noise_given))
    twice = replace(base, tolerance=2 * tolerance)
    found.append(_pair(f"a tolerance of {2 * tolerance:.3g} will do", twice, base, False))
    # what is only proposed must pay, in the worst case too; what was typed is shown as it is
    return tuple(pair for pair in found if pair is not None and (pair.given or _pays(pair)))


def _pays(pair: Buys) -> bool:
    return pair.with_it[0] < pair.without[0] and pair.with_it[1] <= pair.without[1]


def _pair(what: str, with_it: Question, without: Question, given: bool) -> Buys | None:
    try:
        a, b = made_plan(with_it), made_plan(without)
    except LeversError:  # an assumption that makes no sense here buys nothing
        return None
    return Buys(what, _runs(a), _runs(b), given)


def _runs(found: Plan) -> tuple[int, int]:
    return found.worst_case_runs, math.ceil(min(found.runs_if_few_matter, found.worst_case_runs))


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
    given = draft.checked()
    if given is None:
        return _form(request, draft, 422)
    try:
        study = create_study(draft.fields["name"], storage=service.storage, who=access.who, **given)
    except LeversError as error:
        draft.problems.setdefault(error.field if error.field in (*FIELDS, "factors") else "form", message_of(error))
        return _form(request, draft, status_of(error))
    return back_to(request, f"/studies/{address(study.name)}", "The study has begun. Ask for its first runs.")


def _form(request: Request, draft: Draft, status: int) -> Response:
    shown = {"draft": draft, "problems": draft.problems}
    return page(request, "new.html", status, **shown, **plan_context(draft, keep_quiet=status == 200))


def plan_context(draft: Draft, *, keep_quiet: bool = False, with_buys: bool = True) -> dict[str, Any]:
    """The plan, or why there is none yet. A draft that is shown again keeps only problems that were found before."""
    before = dict(draft.problems)
    found, buys, waiting = None, None, ""
    if not draft.rows and not draft.fields["table"]:
        waiting = "The plan appears here once there are factors with their levels, and a tolerance or a budget."
    elif (given := draft.checked()) is None:
        waiting = "; ".join(dict.fromkeys(draft.problems.values()))
    else:
        try:
            asked = question(given)
            found, buys = planned(asked), bought(asked) if with_buys else None
        except LeversError as error:
            waiting = str(error)
    if keep_quiet:
        draft.problems.clear()
        draft.problems.update(before)
    return {"planned": found, "buys": buys, "waiting": waiting}
