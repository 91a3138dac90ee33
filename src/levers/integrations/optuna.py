"""Optuna: a sampler that asks for the runs of a levers study, and a callback that stops at its verdict."""

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levers.algorithms.base import Verdict
from levers.core.space import Level
from levers.errors import InvalidOutcomeError, InvalidSettingError, StudyExistsError, TrialError, to_install
from levers.studies.library import create_study, load_study
from levers.studies.study import Study

try:
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler
    from optuna.storages import InMemoryStorage
    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise InvalidSettingError(f"the sampler needs Optuna: {to_install('optuna')}") from error

LEASE = 3600.0
"""Seconds after which the run of a process that gave no sign goes to another, where processes share a storage."""
MOST_LEVELS = 1_000
"""The most levels that a stepped parameter may have."""
_TRIAL, _FIRST = "levers:trial", "levers:first"
_SHORTEST_WAIT, _LONGEST_WAIT = 0.01, 1.0
log = logging.getLogger("levers")


@dataclass(frozen=True, slots=True)
class _Out:
    """A run that is out: its trial in the levers study, and the thread that has it."""

    trial: int
    thread: int


class LeversSampler(BaseSampler):
    """Samples what a levers study asks for; the answer is certified, where other samplers give the luckiest run.

    Parameters are categorical or stepped; the first trial, at the first level of each, shows which there are, unless
    `distributions` says so before. `settings` are those of `levers.create_study`: a `tolerance` or a `budget`,
    `noise_sd` if it is known, and so on. The goal is the direction of the Optuna study. A pruned or failed trial is a
    failed run, which is asked for again.

    Several threads (`n_jobs`) share one sampler. Several processes share a study by Optuna's own storage, and by
    `storage`, where levers keeps its part of it, under `name` (the Optuna study's, if not given).

    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> def objective(trial):
    ...     return 3.0 * (trial.suggest_categorical("fan", ["off", "on"]) == "on") + trial.suggest_int("heat", 1, 3)
    >>> study = optuna.create_study(direction="maximize", sampler=LeversSampler(tolerance=0.5, noise_sd=0.1, seed=1))
    >>> study.optimize(objective, n_trials=200, callbacks=[stop_at_verdict])
    >>> dict(study.sampler.verdict().assignment)
    {'fan': 'on', 'heat': 3}
    """

    def __init__(
        self,
        *,
        distributions: Mapping[str, BaseDistribution] | None = None,
        storage: str | None = None,
        name: str | None = None,
        lease: float = LEASE,
        **settings: Any,
    ) -> None:
        if "goal" in settings:
            raise InvalidSettingError("the goal is the direction of the Optuna study; leave it out here")
        self._given = None if distributions is None else dict(distributions)
        for parameter, distribution in (distributions or {}).items():
            levels_of(parameter, distribution)
        self._storage, self._name, self._lease, self._settings = storage, name, lease, settings
        self._distributions: dict[str, BaseDistribution] = {}
        self._study: Study | None = None
        self._out: dict[int, _Out] = {}
        self._lock = threading.RLock()

    @property
    def levers_study(self) -> Study:
        """The study that says what to run; there is one as soon as the parameters are known."""
        if self._study is None:
            raise InvalidSettingError("no trial has been made yet, so there is no study")
        return self._study

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to run."""
        return self._study is not None and self._study.is_finished

    def verdict(self) -> Verdict:
        """The answer with its guarantee; `NotFinishedError` before the end."""
        return self.levers_study.verdict()

    def infer_relative_search_space(self, study: "optuna.Study", trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters, once they are known."""
        self._raise_error_if_multi_objective(study)
        with self._lock:
            if self._study is None:
                self._begin(study)
            return dict(self._distributions)

    def sample_relative(
        self, study: "optuna.Study", trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """What the next run sets. Waits while all runs of the round are with other threads or processes."""
        if not search_space:
            return {}
        pause = _SHORTEST_WAIT
        while True:
            with self._lock:
                found = self.levers_study
                if asked := found.ask(1, lease=None if self._storage is None else self._lease):
                    self._out[trial._trial_id] = _Out(asked[0].number, threading.get_ident())
                    study._storage.set_trial_system_attr(trial._trial_id, _TRIAL, asked[0].number)
                    return self._values(asked[0].params.codes)
                if found.is_finished:  # another trial was begun before the callback could stop the study
                    return self._values(found.verdict().assignment.codes)
                if self._out and all(one.thread == threading.get_ident() for one in self._out.values()):
                    raise InvalidSettingError(
                        f"{len(self._out)} trials are out, and what comes next depends on them: tell them first"
                    )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)

    def sample_independent(
        self, study: "optuna.Study", trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The first level, in the trial that shows which parameters there are; any other parameter is refused."""
        if self._study is not None:
            known = ", ".join(self._distributions)
            raise InvalidSettingError(
                f"{param_name!r} is not among the parameters of the first trial ({known}); every trial has to suggest "
                "the same ones, because a run sets all levers"
            )
        levels = levels_of(param_name, param_distribution)
        study._storage.set_trial_system_attr(trial._trial_id, _FIRST, True)
        return levels[0]

    def after_trial(
        self, study: "optuna.Study", trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Tell the outcome, or that there is none."""
        with self._lock:
            out = self._out.pop(trial._trial_id, None)
            which = trial.system_attrs.get(_TRIAL) if out is None else out.trial
            if self._study is None or which is None:
                return
            try:
                if state is TrialState.COMPLETE and values is not None and math.isfinite(values[0]):
                    if (why := self._study.outcome_scale.refusal(values[0])) is not None:
                        self._study.fail(which, why)
                        raise InvalidOutcomeError(f"the outcome of Optuna trial {trial.number} is {values[0]:g}; {why}")
                    self._study.tell(which, float(values[0]))
                else:
                    self._study.fail(which, f"Optuna trial {trial.number}: {state.name.lower()}")
            except TrialError as error:  # its time was over, and another process made the same run
                log.warning("the outcome of Optuna trial %d is not used: %s", trial.number, error)

    def _values(self, codes: Sequence[int]) -> dict[str, Any]:
        """What Optuna calls the levels of a setting."""
        pairs = zip(self._distributions.items(), codes, strict=True)
        return {name: levels_of(name, distribution)[code] for (name, distribution), code in pairs}

    def _begin(self, study: "optuna.Study") -> None:
        """Make or open the levers study, if it is known what the levers are."""
        if self._storage is None and not isinstance(study._storage, InMemoryStorage):
            raise InvalidSettingError(
                "this Optuna study is in a storage that other processes may share, so levers needs one too: "
                "LeversSampler(storage='sqlite:///levers.db')"
            )
        made = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        shown = self._given or next((dict(one.distributions) for one in made if one.distributions), None)
        if shown is None:
            return
        space = {name: [_named(level) for level in levels_of(name, given)] for name, given in shown.items()}
        goal = "minimize" if study.direction is StudyDirection.MINIMIZE else "maximize"
        name = self._name or study.study_name
        try:
            begun = create_study(name, space, goal=goal, storage=self._storage, **self._settings)
            begun.warns = False
            first = [one for one in made if one.value is not None and _FIRST in one.system_attrs]
            whole = [one for one in first if set(one.params) == set(shown)]
            if whole:
                rows = [{key: _named(value) for key, value in one.params.items()} for one in whole]
                begun.import_runs(rows, [one.value for one in whole if one.value is not None], "the first trials")
        except StudyExistsError:  # another process was faster, or this one goes on where it was stopped
            assert self._storage is not None  # a study in memory is new every time
            begun = load_study(name, self._storage)
            begun.warns = False
            _check_same(begun, space, goal)
        self._study, self._distributions = begun, shown


def stop_at_verdict(study: "optuna.Study", trial: FrozenTrial) -> None:
    """A callback for `study.optimize` that stops it when its sampler has a verdict, or outcomes contradict one."""
    sampler = study.sampler
    if not isinstance(sampler, LeversSampler):
        raise InvalidSettingError("stop_at_verdict stops a study whose sampler is a LeversSampler")
    if sampler.is_finished:
        study.stop()


def levels_of(name: str, distribution: BaseDistribution) -> list[Any]:
    """The values of a parameter, in order; one that has no steps is refused.

    >>> levels_of("heat", IntDistribution(10, 30, step=10)), levels_of("rate", FloatDistribution(0.0, 0.3, step=0.1))
    ([10, 20, 30], [0.0, 0.1, 0.2, 0.3])
    >>> levels_of("rate", FloatDistribution(0.0, 1.0))
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: 'rate' may take any value between 0.0 and 1.0, and a lever has levels: give
    suggest_float a step, or suggest_categorical the values to try
    """
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if not isinstance(distribution, IntDistribution | FloatDistribution):
        raise InvalidSettingError(f"{name!r} has a distribution of a kind that is not known: {distribution}")
    if distribution.step is None:
        raise InvalidSettingError(
            f"{name!r} may take any value between {distribution.low} and {distribution.high}, and a lever has levels: "
            "give suggest_float a step, or suggest_categorical the values to try"
        )
    if distribution.log:
        raise InvalidSettingError(f"{name!r} is on a log scale: give suggest_categorical the values to try")
    n = round((distribution.high - distribution.low) / distribution.step) + 1
    if n > MOST_LEVELS:
        raise InvalidSettingError(
            f"{name!r} has {n:,} levels, more than {MOST_LEVELS:,}: give it a larger step, or suggest_categorical"
        )
    if isinstance(distribution, IntDistribution):
        return [distribution.low + i * distribution.step for i in range(n)]
    digits = 12  # steps such as 0.1 add up with errors in the last ones
    return [round(distribution.low + i * distribution.step, digits) for i in range(n)]


def _named(choice: object) -> Level:
    """A choice as a level: Optuna allows None too."""
    return choice if isinstance(choice, str | int | float | bool) else str(choice)


def _check_same(begun: Study, space: Mapping[str, Sequence[Level]], goal: str) -> None:
    """Refuse to go on with a study of other levers under the same name."""
    known = {factor.name: list(factor.levels) for factor in begun.space.factors}
    if known != {name: list(levels) for name, levels in space.items()} or begun.spec.goal != goal:
        raise InvalidSettingError(
            f"the storage has a study {begun.name!r} with other levers or another goal; give LeversSampler another name"
        )
