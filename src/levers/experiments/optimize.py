"""Optimise any Python function of an assignment."""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from typing import Any, overload

from levers.algorithms.base import Verdict
from levers.algorithms.registry import DEFAULT_ALGORITHM
from levers.core.outcome_scale import LINEAR
from levers.core.space import Assignment, Level, Space
from levers.errors import InvalidOutcomeError, InvalidSettingError, LeversError, StudyError, StudyExistsError
from levers.studies.library import create_study, load_study
from levers.studies.run import AnyStudy, Returned
from levers.studies.spec import StudySpec
from levers.studies.storage.base import Storage
from levers.studies.study import Study


@overload
def optimize(
    fn: Callable[[Assignment], Returned],
    space: Space | Mapping[str, Sequence[Level]],
    *,
    tolerance: float | str | None = None,
    noise_sd: float | None = None,
    failure_prob: float = 0.1,
    goal: str = "maximize",
    scale: str = LINEAR,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int | None = None,
    name: str | None = None,
    storage: str | Storage | None = None,
    progress: bool | None = None,
    timeout: None = None,
    n_runs: None = None,
    until: None = None,
    patience: float | None = None,
    workers: int = 1,
    **options: Any,
) -> Verdict: ...


@overload
def optimize(
    fn: Callable[[Assignment], Returned],
    space: Space | Mapping[str, Sequence[Level]],
    *,
    tolerance: float | str | None = None,
    noise_sd: float | None = None,
    failure_prob: float = 0.1,
    goal: str = "maximize",
    scale: str = LINEAR,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int | None = None,
    name: str,
    storage: str | Storage,
    progress: bool | None = None,
    timeout: float | None = None,
    n_runs: int | None = None,
    until: Callable[[AnyStudy], bool] | None = None,
    patience: float | None = None,
    workers: int = 1,
    **options: Any,
) -> Verdict | None: ...


def optimize(
    fn: Callable[[Assignment], Returned],
    space: Space | Mapping[str, Sequence[Level]],
    *,
    tolerance: float | str | None = None,
    noise_sd: float | None = None,
    failure_prob: float = 0.1,
    goal: str = "maximize",
    scale: str = LINEAR,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int | None = None,
    name: str | None = None,
    storage: str | Storage | None = None,
    progress: bool | None = None,
    timeout: float | None = None,
    n_runs: int | None = None,
    until: Callable[[AnyStudy], bool] | None = None,
    patience: float | None = None,
    workers: int = 1,
    **options: Any,
) -> Verdict | None:
    """Find the assignment at which a noisy function is best, up to `tolerance`, except with `failure_prob`.

    `fn` takes an assignment (a mapping of factor names to levels) and returns one noisy number; `noise_sd` is the
    standard deviation of that noise, estimated when it is not given. Instead of a tolerance, `budget=200` spends that
    many runs. It takes all settings of `create_study`, and other options go to the algorithm, for example
    `max_parents=3`. With `free=["heat"]` some runs leave that lever alone, and `fn` returns the outcome with the level
    that it took: `return 3.5, {"heat": "low"}`. With `scale="log"`, for times and other outcomes above 0 whose effects
    multiply, `tolerance="5%"` is of the best one's outcome.

    With a `name` and a `storage`, as in `storage="sqlite:///levers.db"`, every run is kept as it is made, and the same
    call goes on where an earlier one was stopped, whatever stopped it. Such a call may stop before there is a verdict,
    as `Study.optimize` does: after `timeout` seconds, after `n_runs` runs of this call, or when `until(study)` is true.
    It returns None then. A storage that is away is waited for, `patience` seconds long (ten minutes if not given), and
    what was measured is kept in a journal on this machine until it is told; see `Study.optimize`.

    Runs in memory are not lost by an exception of the function or by Ctrl-C either: the exception has them, as
    `error.study`. Progress is shown in a terminal, if not said otherwise. With `workers=4` four runs are made at the
    same time, in threads of this process: for functions that wait for a machine or another program.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def yield_of(run):
    ...     return {"low": 0.0, "high": 2.0}[run["heat"]] + 0.5 * rng.normal()
    >>> verdict = optimize(yield_of, {"heat": ["low", "high"], "shift": ["day", "night"]},
    ...                    tolerance=0.5, noise_sd=0.5, seed=1)
    >>> verdict.assignment["heat"], verdict.parents
    ('high', ('heat',))
    """
    if not callable(fn):
        raise InvalidSettingError(f"fn must be a function of an assignment, not {type(fn).__name__}")
    if (name is None) != (storage is None):
        missing = "name" if name is None else "storage"
        raise InvalidSettingError(
            "to keep the runs, give a storage and a name: when the call is made again, it goes on with the study of "
            f"that name; {missing} is missing",
            field=missing,
        )
    if storage is None and (timeout, n_runs, until) != (None, None, None):
        raise InvalidSettingError(
            "a call that may stop before the verdict needs name= and storage=, or its runs would be lost",
            field="storage",
        )
    given = {"tolerance": tolerance, "noise_sd": noise_sd, "failure_prob": failure_prob, "goal": goal}
    given |= {"scale": scale, "algorithm": algorithm, "seed": seed, **options}
    study = _begun(name or algorithm, space, storage, given)
    with _kept(study, in_memory=storage is None):
        return study.optimize(
            _numbers_of(fn),
            workers=workers,
            timeout=timeout,
            n_runs=n_runs,
            until=until,
            patience=patience,
            progress=progress,
        )


def _begun(
    name: str, space: Space | Mapping[str, Sequence[Level]], storage: str | Storage | None, given: Mapping[str, Any]
) -> Study:
    """The study of that name: a new one, or one that was begun before and asks for the same."""
    try:
        return create_study(name, space, storage=storage, **given)
    except StudyExistsError:
        assert storage is not None  # memory is empty
    found = load_study(name, storage)
    wanted = create_study(name, space, **given).spec
    if given["seed"] is None:
        wanted = replace(wanted, seed=found.spec.seed)
    differ = differences(found.spec, wanted)
    if differ:
        raise StudyError(
            f"the study {name!r} in {found.storage.url} was begun with other settings: {', '.join(differ)}; take "
            f"another name, or go on with it as it is: levers.load_study({name!r}, ...).optimize(fn)"
        )
    return found


def differences(found: StudySpec, wanted: StudySpec, only: Container[str] | None = None) -> list[str]:
    """What a study was asked for and what is wanted of it now, where they differ; `only` names what to look at.

    >>> from levers.studies.spec import StudySpec
    >>> space = Space.of({"heat": [1, 2]})
    >>> differences(StudySpec(space, tolerance=0.5), StudySpec(space, tolerance=1.0))
    ['tolerance was 0.5 and is 1.0 here']
    """
    before, now = _settings(found), _settings(wanted)
    return [
        key if key in _LONG else f"{key} was {before.get(key)!r} and is {now.get(key)!r} here"
        for key in {**before, **now}
        if before.get(key) != now.get(key) and (only is None or key in only)
    ]


_LONG = ("space", "forbidden", "merged")
"""Settings that are too long to be quoted in a message."""


def _settings(spec: StudySpec) -> dict[str, Any]:
    """What a study was asked for, the options of its algorithm among the rest."""
    return {one.name: getattr(spec, one.name) for one in fields(spec) if one.name != "options"} | dict(spec.options)


@contextmanager
def _kept(study: Study, *, in_memory: bool) -> Iterator[None]:
    """Whatever goes wrong inside, the runs are kept: the exception has the study and says how to go on."""
    try:
        yield
    except BaseException as error:
        with suppress(AttributeError, TypeError):  # an exception may refuse attributes
            error.study = study  # type: ignore[attr-defined]
        with suppress(LeversError):  # a storage that is gone is an error already
            error.add_note(_how_to_go_on(study, in_memory))
        raise


def _how_to_go_on(study: Study, in_memory: bool) -> str:
    n_runs, where = study.status().n_complete, study.storage.url
    kept = f"levers: {'1 run is' if n_runs == 1 else f'{n_runs:,} runs are'} kept in {where}"
    if in_memory:
        return (
            f"{kept}, in the `study` of this exception. To go on in the same session: import sys; "
            "sys.last_value.study.optimize(fn). With name= and storage= runs outlive the session"
        )
    return f"{kept}. To go on, make the same call again, or levers.load_study({study.name!r}, {where!r}).optimize(fn)"


def _numbers_of(fn: Callable[[Assignment], Returned]) -> Callable[[Assignment], Returned]:
    """The function, held to finite numbers: an error says at which run it returned something else."""

    def checked(run: Assignment) -> Returned:
        found = fn(run)
        if isinstance(found, tuple) and len(found) == 2:  # with what levers took that were left alone
            return number(run, found[0]), found[1]
        return number(run, found)

    def number(run: Assignment, value: Any) -> float:
        if isinstance(value, float) and math.isfinite(value):
            return value
        try:
            found = float(value)
        except (TypeError, ValueError):
            raise InvalidOutcomeError(f"the function returned {value!r} at {dict(run)}; it must be a number") from None
        if not math.isfinite(found):
            raise InvalidOutcomeError(f"the function returned {found} at {dict(run)}; it must be finite")
        return found

    return checked
