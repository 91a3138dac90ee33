"""What a study is asked to find, fixed when it is created."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Algorithm, Problem
from levers.algorithms.registry import (
    ALGORITHMS,
    check_known,
    check_options,
    make_algorithm,
    option_names,
    restore_algorithm,
)
from levers.core.codec import restored, serialisable
from levers.core.cost import check_cost
from levers.core.designs.changes import HardLevers
from levers.core.merging import Forbidden, Groups, Merging, check_max_parents
from levers.core.model.choices import Choices, Parts
from levers.core.outcome_scale import LINEAR, SCALES, OutcomeScale
from levers.core.space import Assignment, Codes, Factor, Space
from levers.core.validation import check_choice, check_count, check_number
from levers.errors import InvalidSettingError, InvalidSpaceError, SheetError, about, raise_together
from levers.studies.settings import GOALS

COLUMNS = ("trial", "block", "order", "outcome", "state", "stage", "worker", "asked_at", "told_at")
"""Columns of sheets and tables that no factor may be called like, in any case."""
STAMP = "study"
"""The column of a sheet that says which study it is of. Studies begun before there was one may have such a factor."""
RESERVED = (*COLUMNS, STAMP)
"""Names that a factor of a new study cannot have, in any case."""
LEAVE_ALONE = "leave alone"
"""What people read where a run does not set a lever."""
MAX_FREE = 4
"""The most levers that a study may leave alone: it compares every way of leaving some of them."""


@serialisable("StudySpec")
@dataclass(frozen=True)
class StudySpec:
    """A problem, who solves it, and the seed from which all its randomness follows.

    `baseline` is the setting in place today, as level positions of all levers, and `baseline_outcome` its outcome.
    `free` are the levers that runs may leave to nature, by name, and `hard_to_change` those that are to be changed
    seldom, the hardest first. `scale` is the one on which effects add up: on a log scale `tolerance` and the option
    `min_effect` are shares, and `noise_sd` is that of the logarithm.

    >>> spec = StudySpec(Space.of({"heat": ["low", "high"]}), tolerance=0.5, noise_sd=1.0)
    >>> spec.solver.name, spec.sign
    ('cfs', 1.0)
    """

    space: Space
    goal: str = "maximize"
    tolerance: float | None = None
    failure_prob: float = 0.1
    noise_sd: float | None = None
    algorithm: str = "cfs"
    options: tuple[tuple[str, Any], ...] = ()
    seed: int = 0
    block_size: int | None = None
    forbidden: Forbidden = ()
    merged: Groups = ()
    baseline: tuple[int, ...] | None = None
    baseline_outcome: float | None = None
    free: tuple[str, ...] = ()
    scale: str = LINEAR
    hard_to_change: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("goal", self.goal, GOALS)
        check_choice("scale", self.scale, SCALES)
        self._check_scale()
        check_count("seed", self.seed, 0)
        if self.block_size is not None:
            check_count("block_size", self.block_size)
        check_reserved(self.space, COLUMNS)
        if self.baseline_outcome is not None:
            check_number("baseline_outcome", self.baseline_outcome)
        if self.inner_baseline is not None and min(self.inner_baseline) < 0:
            raise InvalidSettingError(
                "the baseline has levels together that are forbidden; give a setting that can be run", field="baseline"
            )
        check_free(self)
        check_hard_to_change(self)
        check_options(self.algorithm, self._solver_options)
        claimed = dict(self.options).get("max_parents")
        if self.is_merged and claimed is not None:
            check_max_parents(claimed, self.space.n_factors, self.inner.n_factors)
        check_cost(
            self.inner.n_levels, self.solver.cost
        )  # a solver that was made without its checks, and computes none
        del self.__dict__["solver"]
        problem = Problem(self.inner, self.inner_tolerance, self.failure_prob, self.noise_sd)
        solver = make_algorithm(self.algorithm, problem, **self._solver_options)  # refuses what it cannot do
        if not solver.sets_every_lever:
            raise InvalidSettingError(
                f"{self.algorithm} watches without setting, so it cannot ask for runs", field="algorithm"
            )
        self.__dict__["solver"] = solver  # what `solver` would make again

    def _check_scale(self) -> None:
        """Refuse amounts that are none on the scale of the outcome."""
        amounts = {"tolerance": self.tolerance, _MIN_EFFECT: dict(self.options).get(_MIN_EFFECT)}
        for name, amount in amounts.items():
            if amount is not None:
                self.outcome_scale.check_amount(name, amount)
        today = self.baseline_outcome
        if today is not None and (why := self.outcome_scale.refusal(today)) is not None:
            raise InvalidSettingError(f"the baseline's outcome is {today:g}; {why}", field="baseline_outcome")

    @cached_property
    def merging(self) -> Merging:
        """The way between the levers and what the algorithm sees of them."""
        return Merging.of(self.space, self.forbidden, self.merged)

    @property
    def is_merged(self) -> bool:
        """Whether some levers are studied as one."""
        return bool(self.forbidden or self.merged)

    @cached_property
    def inner_baseline(self) -> tuple[int, ...] | None:
        """The setting in place today as level positions of the inner space; -1 where it is forbidden."""
        if self.baseline is None:
            return None
        _ = self.space.assignment(self.baseline)  # which refuses what is no setting
        found: list[int] = self.contract(np.array([self.baseline], dtype=np.int16))[0].tolist()
        return tuple(found)

    @cached_property
    def inner(self) -> Space:
        """The space as the algorithm sees it."""
        return self.merging.inner if self.is_merged else self.space

    def assignment(self, codes: ArrayLike) -> Assignment:
        """The setting of all levers that a row of the inner space stands for."""
        if not self.is_merged:
            return self.space.assignment(codes)
        return self.space.assignment(self.expand(np.asarray(codes, dtype=np.int16)[None, :])[0])

    def expand(self, codes: Codes) -> Codes:
        """Level positions of all levers, from rows of the inner space. What is FREE stays so."""
        if not self.is_merged:
            return codes
        outer = self.merging.expand(np.maximum(codes, 0))
        if self.free:  # such levers are never merged, so each is a column of its own in both spaces
            outer[:, [self.space.position(name) for name in self.free]] = codes[:, self.inner_free]
        return outer

    @cached_property
    def inner_free(self) -> tuple[int, ...]:
        """Where the levers that may be left alone are in the inner space."""
        return tuple(self.inner.position(name) for name in self.free)

    @cached_property
    def inner_hard(self) -> HardLevers:
        """Levers that are hard to change in the inner space: the column of each, and its level for each code there."""
        found, merging = [], self.merging
        for name in self.hard_to_change:
            column = merging.column_of(name)
            part = merging.groups[column].index(self.space.position(name))
            found.append((column, tuple(merging.tables[column][:, part].tolist())))
        return tuple(found)

    def contract(self, codes: Codes) -> Codes:
        """Rows of the inner space, from level positions of all levers; -1 where a combination is forbidden."""
        return self.merging.contract(codes) if self.is_merged else codes

    @cached_property
    def solver(self) -> Algorithm:
        """The algorithm, ready to be asked. Its checks were made when the study was created."""
        parts = {"space": self.inner, "tolerance": self.inner_tolerance}
        problem = restored(Problem, {**parts, "failure_prob": self.failure_prob, "noise_sd": self.noise_sd})
        return restore_algorithm(self.algorithm, problem, self._solver_options)

    @property
    def _solver_options(self) -> dict[str, Any]:
        extra = ALGORITHMS[check_known(self.algorithm)].study_options(self.inner.n_factors)
        known = option_names(self.algorithm)
        if any(self.parts) and "parts" in known:
            extra["parts"] = self.parts
        if self.block_size is not None and "block_size" in known:
            extra["block_size"] = self.block_size
        if self.inner_baseline is not None and "baseline" in known:
            extra["baseline"] = self.inner_baseline
        if self.free and "free" in known:
            extra["free"] = self.inner_free
        if self.hard_to_change and "hard_to_change" in known:
            extra["hard_to_change"] = self.inner_hard
        given = dict(self.options)
        if given.get(_MIN_EFFECT) is not None:
            given[_MIN_EFFECT] = self.outcome_scale.difference(given[_MIN_EFFECT])
        return {**given, **extra}

    @property
    def inner_tolerance(self) -> float | None:
        """The tolerance as the algorithm sees it."""
        return None if self.tolerance is None else self.outcome_scale.difference(self.tolerance)

    @property
    def inner_min_effect(self) -> float | None:
        """The least effect as the algorithm sees it, where one is claimed."""
        found: float | None = self._solver_options.get(_MIN_EFFECT)
        return found

    def choices(self, by_parts: bool) -> Choices:
        """The levers as the algorithm chooses among them, and what additive fits are made of."""
        return Choices(self.inner.n_levels, self.parts if by_parts else ())

    def fitted(self, by_parts: bool) -> tuple[Factor, ...]:
        """The factors of the additive model: where it is fitted by parts, the levers that are tied stay themselves."""
        if not by_parts:
            return self.inner.factors
        return tuple(
            factor
            for inner, group, parts in zip(self.inner.factors, self.merging.groups, self.parts, strict=True)
            for factor in ([self.space.factors[k] for k in group] if parts else [inner])
        )

    @cached_property
    def parts(self) -> Parts:
        """What the levels of levers are made of that forbidden combinations tie together."""
        return self.merging.parts(self.merged) if self.forbidden else ()

    @property
    def sign(self) -> float:
        """What outcomes are multiplied with, so that larger is better."""
        return 1.0 if self.goal == "maximize" else -1.0

    @cached_property
    def outcome_scale(self) -> OutcomeScale:
        """The way between outcomes as told and what the algorithm sees of them."""
        return OutcomeScale(self.scale, self.sign)

    def generator(self, block: int) -> np.random.Generator:
        """The randomness of a block: it follows from the seed, so a study that was interrupted goes on the same."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block,)))


def free_levers(space: Space, given: Iterable[str]) -> tuple[str, ...]:
    """Names of levers that may be left alone, checked against the space and in its order.

    >>> free_levers(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), ["speed", "heat"])
    ('heat', 'speed')
    """
    places = [space.position(name) for name in _named_once(space, given, "free", "may be left alone")]
    return tuple(space.names[k] for k in sorted(places))


def hard_levers(space: Space, given: Iterable[str]) -> tuple[str, ...]:
    """Names of levers that are hard to change, checked against the space, in the order given: the hardest first.

    >>> hard_levers(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), ["speed", "heat"])
    ('speed', 'heat')
    """
    return _named_once(space, given, "hard_to_change", "is hard to change")


def _named_once(space: Space, given: Iterable[str], field: str, what: str) -> tuple[str, ...]:
    """Names of levers as given, each of the space and only once."""
    names = (given,) if isinstance(given, str) else tuple(given)
    with about(field):
        for name in names:
            space.position(name)  # which refuses what is no lever
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise InvalidSpaceError(f"{doubled!r} is named twice as a lever that {what}; name it once")
    return names


def check_free(spec: StudySpec) -> None:
    """Refuse levers that cannot be left alone, and algorithms that leave none.

    >>> spec = StudySpec(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), tolerance=0.5, noise_sd=1.0)
    >>> check_free(replace(spec, free=("heat",), algorithm="modl"))
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: modl sets every lever in every run, so none can be left alone; cfs can, or \
leave out `free`
    """
    if not spec.free:
        return
    free_levers(spec.space, spec.free)
    if "free" not in option_names(spec.algorithm):
        raise InvalidSettingError(
            f"{spec.algorithm} sets every lever in every run, so none can be left alone; cfs can, or leave out `free`",
            field="free",
        )
    if len(spec.free) > MAX_FREE:
        raise InvalidSettingError(
            f"{len(spec.free)} levers are marked as free; at most {MAX_FREE} can be, so choose those that nature may "
            "know best",
            field="free",
        )
    tied = {name for combination in spec.forbidden for name, _ in combination}
    merged = {name for group in spec.merged for name in group}
    for name in spec.free:
        if name in tied or name in merged:
            why = "a forbidden combination, which nature would not keep to" if name in tied else "a merged group"
            raise InvalidSettingError(f"{name!r} cannot be left alone: it is part of {why}", field="free")
        if any(reads_alone(level) for level in spec.space.factors[spec.space.position(name)].levels):
            raise InvalidSettingError(
                f"a level of {name!r} is called {LEAVE_ALONE!r}, which says in sheets that nobody sets it; rename it",
                field="free",
            )


def check_hard_to_change(spec: StudySpec) -> None:
    """Refuse levers that cannot be kept in place, and algorithms that do not order their runs.

    >>> spec = StudySpec(Space.of({"mould": ["A", "B"], "speed": [1, 2]}), tolerance=0.5, noise_sd=1.0)
    >>> check_hard_to_change(replace(spec, hard_to_change=("mould",), algorithm="modl"))
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: modl does not know levers that are hard to change; cfs does, or leave out \
hard_to_change and sort each sheet by the lever
    """
    if not spec.hard_to_change:
        return
    hard_levers(spec.space, spec.hard_to_change)
    if "hard_to_change" not in option_names(spec.algorithm):
        raise InvalidSettingError(
            f"{spec.algorithm} does not know levers that are hard to change; cfs does, or leave out hard_to_change "
            "and sort each sheet by the lever",
            field="hard_to_change",
        )
    alone = next((name for name in spec.hard_to_change if name in spec.free), None)
    if alone is not None:
        raise InvalidSettingError(
            f"{alone!r} is hard to change and may be left alone, where nature changes it in every run; it can be one "
            "of the two",
            field="hard_to_change",
        )


def reads_alone(cell: object) -> bool:
    """Whether a text says that a lever is not set.

    >>> reads_alone(" Leave  alone "), reads_alone("low"), reads_alone(3)
    (True, False, False)
    """
    return isinstance(cell, str) and " ".join(cell.split()).casefold() == LEAVE_ALONE


TERMS = ("tolerance", "budget", "max_runs", "aim", "noise_sd", "max_parents", "min_effect")
"""What may be restated while a study is under way."""


def terms_of(spec: StudySpec) -> dict[str, Any]:
    """The terms of a study that may be restated; None for what is not asked for, claimed or known.

    >>> terms_of(StudySpec(Space.of({"heat": ["low", "high"]}), tolerance=0.5))["tolerance"]
    0.5
    """
    return {name: getattr(spec, name) if name in _FIELDS else dict(spec.options).get(name) for name in TERMS}


def restated_spec(spec: StudySpec, terms: Mapping[str, Any]) -> tuple[StudySpec, tuple[str, ...]]:
    """What is asked for under other terms, and what changed, in words. A tolerance takes a budget's place, or back.

    >>> spec = StudySpec(Space.of({"heat": ["low", "high"]}), tolerance=0.5, noise_sd=1.0)
    >>> restated_spec(spec, {"budget": 40})[1]
    ('budget: 40, none before', 'tolerance: none, 0.5 before')
    """
    for name in terms:
        check_choice("what is restated", name, TERMS)
    if terms.get("tolerance") is not None and terms.get("budget") is not None:
        raise InvalidSettingError("give either a tolerance or a budget of runs, and not both", field="budget")
    was = terms_of(spec)
    now = {**was, **terms}
    if terms.get("budget") is not None:
        now |= {"tolerance": None, "max_runs": None}
    elif terms.get("tolerance") is not None:
        now |= {"budget": None, "aim": terms.get("aim")}
    options = {name: value for name, value in spec.options if name not in TERMS}
    options |= {name: value for name, value in now.items() if name not in _FIELDS and value is not None}
    new = replace(spec, tolerance=now["tolerance"], noise_sd=now["noise_sd"], options=tuple(sorted(options.items())))
    changes = tuple(
        f"{name.replace('_', ' ')}: {_term(spec, name, now[name])}, {_term(spec, name, was[name])} before"
        for name in sorted(TERMS)
        if now[name] != was[name]
    )
    return new, changes


_FIELDS = ("tolerance", "noise_sd")  # terms that are fields of a spec; the others are options of its algorithm


_MIN_EFFECT = "min_effect"
_AMOUNTS = ("tolerance", "noise_sd", _MIN_EFFECT)  # which are on the scale of the outcome


def _term(spec: StudySpec, name: str, value: Any) -> str:
    if value is None:
        return "not known" if name == "noise_sd" else "none"
    if name in _AMOUNTS:
        return spec.outcome_scale.said(value, "g")
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_reserved(space: Space, reserved: Collection[str]) -> None:
    """Refuse factors that are called like another column.

    >>> check_reserved(Space.of({"Trial": [1, 2]}), RESERVED)
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: a factor of a study cannot be called 'Trial': run sheets use that column; rename it
    """
    taken = [name for name in space.names if name.strip().lower() in reserved]
    if taken:
        raise InvalidSpaceError(
            f"a factor of a study cannot be called {taken[0]!r}: run sheets use that column; rename it"
        )


def check_names(space: Space) -> None:
    """Refuse to read or write a sheet of factors whose names are those of other columns."""
    taken = [name for name in space.names if name.strip().casefold() in COLUMNS]
    if taken:
        raise_together(
            SheetError,
            [f"factor {name!r} has the name of a column that sheets have anyway; rename the factor" for name in taken],
        )


def has_stamp(space: Space) -> bool:
    """Whether sheets of these factors can say which study they are of."""
    return all(name.strip().casefold() != STAMP for name in space.names)
