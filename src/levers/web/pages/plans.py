"""How many runs a study would take, and what each assumption buys, for the form of a new study."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from levers.algorithms.base import Problem
from levers.algorithms.cfs import Cfs
from levers.algorithms.cfs_plan import error_shares
from levers.core.merging import Merging, forbidden_combinations, merged_groups
from levers.core.screening import noise_upper_bound
from levers.core.space import Level, Space
from levers.errors import InvalidSettingError, LeversError
from levers.experiments.planning import Plan, plan

GUESSES = (0.5, 1.0, 2.0, 4.0)
"""Noise in tolerances, to plan with while it is not known."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan rests on: the sizes of the factors and the numbers of the form."""

    n_levels: tuple[int, ...]
    tolerance: float | None
    budget: int | None
    failure_prob: float
    noise_sd: float | None
    max_parents: int | None = None
    min_effect: float | None = None


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


def question(
    space: Space, forbidden: list[Mapping[str, Level]], merged: list[list[str]], settings: Mapping[str, Any]
) -> Question:
    """What is to be planned. Merged factors, and those that forbidden combinations tie together, count as one."""
    inner = Merging.of(space, forbidden_combinations(space, forbidden), merged_groups(space, merged)).inner
    names = ("tolerance", "budget", "failure_prob", "noise_sd", "max_parents", "min_effect")
    return Question(tuple(inner.n_levels), **{name: settings[name] for name in names})


@lru_cache(maxsize=256)
def made_plan(asked: Question) -> Plan:
    """The plan of a question in which the noise is known."""
    return plan(
        list(asked.n_levels),
        tolerance=asked.tolerance,
        failure_prob=asked.failure_prob,
        noise_sd=1.0 if asked.noise_sd is None else asked.noise_sd,
        max_parents=asked.max_parents,
        min_effect=asked.min_effect,
        budget=asked.budget,
    )


@lru_cache(maxsize=128)
def planned(asked: Question) -> Planned:
    """The plan, or one for each guess of an unknown noise.

    >>> found = planned(Question((4,) * 6, 0.5, None, 0.1, 1.0))
    >>> found.plan.worst_case_runs < found.plan.modl_runs
    True
    """
    if asked.noise_sd is not None:
        return Planned(made_plan(asked), True, ())
    if asked.tolerance is None:
        raise InvalidSettingError("with a budget, the plan needs the noise; without it the study still works")
    guesses = tuple(
        (factor * asked.tolerance, made_plan(unknown_noise(replace(asked, noise_sd=factor * asked.tolerance))))
        for factor in GUESSES
    )
    return Planned(guesses[1][1], False, guesses)


@lru_cache(maxsize=128)
def bought(asked: Question) -> tuple[Buys, ...]:
    """What each assumption buys; it takes several plans, so a page shows the plan first.

    >>> bought(Question((4,) * 6, 0.5, None, 0.1, 1.0))[0].what
    'at most 3 of 6 factors matter'
    """
    if asked.noise_sd is not None or asked.tolerance is None:
        return tuple(_buys(asked))
    return tuple(_buys(replace(asked, noise_sd=asked.tolerance), noise_given=False))


def unknown_noise(asked: Question) -> Question:
    """About what it takes when the noise has to be estimated too.

    The first block gives an upper bound of the noise, and everything after is sized by that bound; a tenth of the
    failure probability is for the bound itself.
    """
    assert asked.noise_sd is not None  # what it would turn out to be
    noise = error_shares(asked.failure_prob, estimate_noise=True, one_shot=False).noise
    problem = Problem(Space.sized(asked.n_levels), asked.tolerance, asked.failure_prob, None)
    first = Cfs(problem, max_parents=asked.max_parents, budget=asked.budget).first_screening()
    assert first is not None  # a noise that is not known is always screened for
    dof = first - sum(m - 1 for m in asked.n_levels) - 1
    bound = noise_upper_bound(float(dof), dof, noise / 2)
    return replace(asked, noise_sd=bound * asked.noise_sd, failure_prob=asked.failure_prob - noise)


def _buys(asked: Question, noise_given: bool = True) -> list[Buys]:
    base = asked if noise_given else unknown_noise(asked)
    found = []
    few = asked.max_parents or max(1, min(3, len(asked.n_levels) // 2))
    if len(asked.n_levels) > 1:
        words = f"at most {few} of {len(asked.n_levels)} factors matter"
        found.append(
            _pair(words, replace(base, max_parents=few), replace(base, max_parents=None), asked.max_parents is not None)
        )
    if asked.tolerance is not None:
        least = asked.min_effect or 2 * asked.tolerance
        words = f"a factor that matters moves the outcome by {least:.3g} or more"
        found.append(
            _pair(words, replace(base, min_effect=least), replace(base, min_effect=None), asked.min_effect is not None)
        )
        words = f"the noise is known (sd {asked.noise_sd:.3g})"
        found.append(_pair(words, asked, unknown_noise(asked), noise_given))
        twice = replace(base, tolerance=2 * asked.tolerance)
        found.append(_pair(f"a tolerance of {2 * asked.tolerance:.3g} will do", twice, base, False))
    # what is only proposed must pay, in the worst case too; what was typed is shown as it is
    return [pair for pair in found if pair is not None and (pair.given or _pays(pair))]


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
