"""What was typed into the form of a new study, and the plan for it. All of it is plain data, for another process."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

from levers.core.merging import Merging, forbidden_combinations, merged_groups
from levers.core.model.choices import Parts
from levers.core.outcome_scale import EVERY_SCALE, LINEAR
from levers.core.space import Level
from levers.errors import InvalidSettingError, InvalidSpaceError, LeversError
from levers.experiments.plan import GUESSES, Plan, merged_plan, plan
from levers.studies.library import create_study
from levers.studies.settings import CREATE, FORM, NOISE, RUNS, Setting, settings_of
from levers.studies.sheets.cells import typed_number, typed_whole
from levers.studies.space_text import (
    Typed,
    made_space,
    parse_forbidden,
    parse_levels,
    parse_merged,
    parse_names,
    parse_setting,
    parse_text,
    tolerance_amount,
)
from levers.studies.spec import free_levers, hard_levers
from levers.studies.storage.base import Stored
from levers.web.costs import check_cost

ON_FORM = settings_of(FORM)
ALTERNATIVES = {RUNS: ("budget", "tolerance"), NOISE: ("expected_noise", "noise_sd")}
"""Questions that are answered by one setting of two, the first unless another is chosen or typed."""
CHOICES = {question: f"by-{question}" for question in ALTERNATIVES}
SCRIPTED = "scripted"
"""A field that scripts fill in: they move the choice to what somebody types in, so that it can be relied on."""
FIELDS = ("name", "table", SCRIPTED, *CHOICES.values(), *(setting.name for setting in ON_FORM))
READERS: Mapping[str, Callable[[str, str], Any]] = {
    "choice": lambda text, label: text,
    "positive": typed_number,
    "amount": lambda text, label: text if text.rstrip().endswith("%") else typed_number(text, label),
    "number": typed_number,
    "probability": typed_number,
    "count": typed_whole,
    "whole": typed_whole,
}
"""How the text of a field is read, by the kind of setting; the others are read with the levers."""
EMPTY_ROWS = 3
MOST_PLANS = 12
"""How many plans a page takes: one for each guess of the noise, and two for each assumption that may buy something."""


@dataclass(frozen=True)
class Draft:
    """What was typed: `fields` by name, and `rows` of levers and their levels."""

    fields: Mapping[str, str]
    rows: list[tuple[str, str]]
    n_empty: int = EMPTY_ROWS
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> "Draft":
        """The form as it is first shown."""
        defaults = {setting.name: str(setting.default) for setting in ON_FORM if setting.default}
        return cls({key: defaults.get(key, "") for key in FIELDS}, [])

    def picked(self, question: str) -> str:
        """Which of two settings answers a question: the one that was chosen.

        Without scripts the choice may have been forgotten: a field that alone is filled in is the answer then.
        """
        names = ALTERNATIVES[question]
        filled = [name for name in names if self.fields[name]]
        chosen = self.fields[CHOICES[question]]
        if chosen in names and (self.fields[SCRIPTED] or len(filled) != 1):
            return chosen
        return filled[-1] if filled else names[0]

    def says_something(self, setting: Setting) -> bool:
        """Whether a setting was typed, or is wrong: then it must be seen."""
        return bool(self.fields[setting.name]) or setting.name in self.problems

    @property
    def all_picked(self) -> dict[str, bool]:
        """The settings that answer a question by one of two, and whether each is the answer."""
        return {name: name == self.picked(question) for question, names in ALTERNATIVES.items() for name in names}

    def checked(self) -> dict[str, Any] | None:
        """What `create_study` and plans are given; None when something is wrong, and then `problems` says what."""
        found = self._try("factors", self._factors)
        space = None if found is None else self._try("factors", lambda: made_space(found.factors))
        forbidden: list[Mapping[str, Level]] = []
        merged: list[list[str]] = []
        free: tuple[str, ...] = ()
        hard: tuple[str, ...] = ()
        if space is not None:
            typed = self._try("forbidden", lambda: parse_forbidden(space, self.fields["forbidden"]))
            forbidden = [*found.forbidden, *(typed or [])]
            merged = [*found.merged, *parse_merged(space, self.fields["merged"])]
            self._try("merged", lambda: merged_groups(space, merged))
            named = [*found.free, *parse_names(space, self.fields["free"])]
            free = self._try("free", lambda: free_levers(space, dict.fromkeys(named))) or ()
            slow = [*found.hard_to_change, *parse_names(space, self.fields["hard_to_change"])]
            hard = self._try("hard_to_change", lambda: hard_levers(space, dict.fromkeys(slow))) or ()
        baseline = None
        if space is not None and (text := self.fields["baseline"]):
            baseline = self._try("baseline", lambda: dict(space.encode(parse_setting(space, text))))
        settings = self._settings()
        if self.problems or space is None:
            return None
        given = {"space": space, "forbidden": forbidden, "merged": merged, "free": free, "hard_to_change": hard}
        return {**given, "baseline": baseline, **settings}

    def _factors(self) -> Typed:
        factors = [(name, parse_levels(levels)) for name, levels in self.rows]
        try:
            more = parse_text(self.fields["table"])
        except LeversError as error:
            self.problems.setdefault("table", str(error))
            raise InvalidSpaceError("the pasted table cannot be read") from None
        return more._replace(factors=[*factors, *more.factors])

    def _settings(self) -> dict[str, Any]:
        """The numbers, None where a field is empty or not the answer; what is wrong goes to `problems`."""
        others = {name for question, names in ALTERNATIVES.items() for name in names if name != self.picked(question)}
        numbers = {
            setting.name: None if setting.name in others else self._value(setting)
            for setting in ON_FORM
            if setting.kind in READERS
        }
        numbers["tolerance"] = self._try(
            "tolerance",
            lambda: tolerance_amount(numbers["tolerance"], numbers["baseline_outcome"], self.fields["scale"] or LINEAR),
        )
        asked = self.picked(RUNS)
        if all(self.fields[name] for name in ALTERNATIVES[RUNS]) and not self.fields[CHOICES[RUNS]]:
            self.problems["budget"] = "give either a tolerance or a budget of runs, and not both"
        if not self.fields[asked]:
            self.problems[asked] = "say how many runs you can make, or how close to the best it must be"
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


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan rests on: the sizes of the levers and the numbers of the form.

    `apart` are the sizes before any levers were merged or tied together by forbidden combinations, and `parts` what the
    levels of tied ones are made of.
    """

    n_levels: tuple[int, ...]
    tolerance: float | None
    budget: int | None
    failure_prob: float
    noise_sd: float | None
    max_parents: int | None = None
    min_effect: float | None = None
    apart: tuple[int, ...] | None = None
    parts: Parts = ()
    expected_noise: float | None = None
    block_size: int | None = None
    goal: str = "maximize"
    scale: str = LINEAR


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
    """A plan for the form; with a noise that is not known, one for each guess of it.

    `guessed` is whether somebody said what to expect of an unknown noise.
    """

    plan: Plan
    guesses: tuple[Plan, ...] = ()
    guessed: bool = False

    @property
    def noise_known(self) -> bool:
        """Whether the study is told the noise."""
        return self.plan.noise_known


def question(given: Mapping[str, Any]) -> Question:
    """What is to be planned. Merged levers, and those that forbidden combinations tie together, count as one."""
    space = given["space"]
    forbidden, merged = forbidden_combinations(space, given["forbidden"]), merged_groups(space, given["merged"])
    names = [one.name for one in fields(Question) if one.name not in ("n_levels", "apart", "parts")]
    found = Merging.of(space, forbidden, merged)
    apart = space.n_levels if found.is_merged else None
    parts = found.parts(merged) if found.is_merged else ()
    return Question(found.inner.n_levels, **{name: given[name] for name in names}, apart=apart, parts=parts)


@lru_cache(maxsize=256)
def made_plan(asked: Question) -> Plan:
    """The plan of a question."""
    given = asdict(asked)
    n_levels, apart, parts = (given.pop(name) for name in ("n_levels", "apart", "parts"))
    return plan(list(n_levels), **given) if apart is None else merged_plan(n_levels, apart, parts, **given)


@lru_cache(maxsize=128)
def planned(asked: Question) -> Planned:
    """The plan, and one for each guess of an unknown noise.

    >>> found = planned(Question((4,) * 6, 0.5, None, 0.1, 1.0))
    >>> found.plan.worst_case_runs < found.plan.modl_runs
    True
    """
    guessed = asked.expected_noise is not None
    if asked.noise_sd is not None or asked.tolerance is None:
        return Planned(made_plan(asked), guessed=guessed)
    middle = asked.expected_noise or asked.tolerance
    guesses = tuple(made_plan(replace(asked, expected_noise=factor * middle)) for factor in GUESSES)
    return Planned(guesses[GUESSES.index(1.0)], guesses, guessed)


@lru_cache(maxsize=128)
def bought(asked: Question) -> tuple[Buys, ...]:
    """What each assumption buys; it takes several plans, so a page shows the plan first.

    >>> bought(Question((4,) * 6, 0.5, None, 0.1, 1.0))[0].what
    'at most 3 of 6 levers matter'
    """
    if asked.tolerance is None:  # a budget is spent whatever is assumed
        return ()
    tolerance = asked.tolerance
    noise_sd = asked.noise_sd or asked.expected_noise or tolerance
    if asked.noise_sd is None:
        asked = replace(asked, expected_noise=noise_sd)
    found = []
    few = asked.max_parents or max(1, min(3, len(asked.n_levels) // 2))
    if len(asked.n_levels) > 1:
        words, without = f"at most {few} of {len(asked.n_levels)} levers matter", replace(asked, max_parents=None)
        found.append(_pair(words, replace(asked, max_parents=few), without, asked.max_parents is not None))
    least, without = asked.min_effect or 2 * tolerance, replace(asked, min_effect=None)
    say = EVERY_SCALE[asked.scale].said
    words = f"a lever that matters moves the outcome by {say(least, '.3g')} or more"
    found.append(_pair(words, replace(asked, min_effect=least), without, asked.min_effect is not None))
    known = replace(asked, noise_sd=noise_sd, expected_noise=None)
    unknown = replace(asked, noise_sd=None, expected_noise=noise_sd)
    found.append(_pair(f"the noise is known (sd {say(noise_sd, '.3g')})", known, unknown, asked.noise_sd is not None))
    found.append(
        _pair(
            f"a tolerance of {say(2 * tolerance, '.3g')} will do", replace(asked, tolerance=2 * tolerance), asked, False
        )
    )
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


def for_study(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a study is begun with: all that was given but what only plans are made with.

    >>> for_study({"space": None, "budget": 9, "expected_noise": 2.0})
    {'space': None, 'budget': 9}
    """
    only_planned = {setting.name for setting in ON_FORM if CREATE not in setting.faces}
    return {name: value for name, value in given.items() if name not in only_planned}


def begun(draft: Draft, who: str) -> list[Stored] | dict[str, str]:
    """The events with which the study begins that was typed; or what is wrong, by field."""
    given = draft.checked()
    if given is None:
        return draft.problems
    study = create_study(draft.fields["name"], who=who, **for_study(given))
    return study.storage.read(study.id, 0)


class PlanShown(NamedTuple):
    """A plan for the form, what assumptions buy, or why there is none yet; and what is wrong with what was typed.

    Plans are for runs that set every lever: with some that may be left alone, `n_free`, the study takes more.
    """

    planned: Planned | None
    buys: tuple[Buys, ...] | None
    waiting: str
    problems: dict[str, str]
    n_free: int = 0


def plan_shown(draft: Draft, *, with_buys: bool = True, most_seconds: float = math.inf) -> PlanShown:
    """The plan for what was typed, unless it takes longer than so many seconds."""
    found, buys, waiting, n_free = None, None, "", 0
    if not draft.rows and not draft.fields["table"]:
        waiting = "The plan appears here once there are levers with their levels, and how many runs you can make."
    elif (given := draft.checked()) is None:
        waiting = "; ".join(dict.fromkeys(draft.problems.values()))
    else:
        try:
            asked, n_free = question(given), len(given["free"])
            check_cost(asked.n_levels, most_seconds, MOST_PLANS if with_buys else len(GUESSES))
            found, buys = planned(asked), bought(asked) if with_buys else None
        except LeversError as error:
            waiting = str(error)
    return PlanShown(found, buys, waiting, draft.problems, n_free)
