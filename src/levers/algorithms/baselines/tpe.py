"""Optuna's tree-structured Parzen estimator, through its own package."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import Batch, Progress, Verdict
from levers.algorithms.baselines.budgeted import Budgeted
from levers.core.codec import serialisable
from levers.core.model.level_index import Numbers
from levers.core.space import Codes
from levers.core.validation import check_count
from levers.errors import InvalidSettingError, to_install

STAGE = "TPE"


@serialisable("TpeState")
@dataclass(frozen=True, eq=False)
class TpeState:
    """All runs, in their order."""

    codes: NDArray[np.int16]
    outcomes: NDArray[np.float64]


@dataclass(frozen=True)
class Tpe(Budgeted):
    """Optuna's TPE: its default sampler over categorical parameters; recommended is the setting of the best outcome.

    A study of Optuna has a history inside. Here each batch is asked of a study in memory that was told all runs so far,
    by a new sampler with a seed from the generator, so nothing is kept but the runs. `batch_size` settings are asked
    for before any of them is told: 1 is the usual way.

    >>> from levers import Problem, Space
    >>> tpe = Tpe(Problem(Space.sized([3, 3]), None, 0.1, None), budget=8)
    >>> tpe.ask(tpe.start(), np.random.default_rng(0)).n_runs
    1
    """

    batch_size: int = 1
    name: ClassVar[str] = "tpe"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("batch_size", self.batch_size)
        import_optuna()

    @cached_property
    def _spare(self) -> list["Replay"]:
        """The study that was asked last, to be told what is new instead of everything: it saves time only."""
        return []

    def start(self) -> TpeState:
        """Nothing run."""
        return TpeState(np.zeros((0, self.space.n_factors), dtype=np.int16), np.zeros(0))

    def ask(self, state: TpeState, rng: np.random.Generator) -> Batch | Verdict:
        """What the sampler suggests, given all runs so far."""
        n_done = len(state.outcomes)
        n_runs = min(self.batch_size, self.budget - n_done)
        if n_runs == 0:
            return self.recommend(state.codes[int(np.argmax(state.outcomes))].tolist(), n_done, STAGE)
        optuna = import_optuna()
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            replay = self._spare.pop() if self._spare else Replay(self.space.names, self.space.n_levels)
            study = replay.study_after(state.codes, state.outcomes)
            study.sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
            asked = [study.ask(replay.choices) for _ in range(n_runs)]
            codes = np.array([[trial.params[name] for name in replay.choices] for trial in asked], dtype=np.int16)
            for trial in asked:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)  # which the sampler leaves out
            self._spare[:] = [replay]
        finally:
            optuna.logging.set_verbosity(verbosity)
        return Batch(codes, stage=STAGE, focus=n_done)

    def tell(self, state: TpeState, batch: Batch, outcomes: ArrayLike) -> TpeState:
        """Add the runs."""
        y = self.accept(batch, outcomes)
        n_done = len(state.outcomes)
        self.check_due(batch.stage == STAGE and batch.focus == n_done < self.budget)
        return replace(
            state,
            codes=np.concatenate([state.codes, batch.codes]),
            outcomes=np.concatenate([state.outcomes, y]),
        )

    def progress(self, state: TpeState) -> Progress:
        """The setting of the best outcome."""
        n_done = len(state.outcomes)
        best = tuple(state.codes[int(np.argmax(state.outcomes))].tolist()) if n_done else ()
        return Progress(best, finished=n_done >= self.budget)


class Replay:
    """A study of Optuna that was told some runs."""

    def __init__(self, names: Sequence[str], n_levels: Sequence[int]) -> None:
        optuna = import_optuna()
        self.choices = {
            name: optuna.distributions.CategoricalDistribution(range(m))
            for name, m in zip(names, n_levels, strict=True)
        }
        self._empty()

    def _empty(self) -> None:
        self._study = import_optuna().create_study(direction="maximize")
        self._codes, self._outcomes = np.zeros((0, len(self.choices)), dtype=np.int16), np.zeros(0)

    def study_after(self, codes: Codes, outcomes: Numbers) -> Any:
        """The study after exactly these runs: those it was told already are not told again."""
        n_told = len(self._outcomes)
        same = np.array_equal(codes[:n_told], self._codes) and np.array_equal(outcomes[:n_told], self._outcomes)
        if not same:
            self._empty()
            n_told = 0
        for row, outcome in zip(codes[n_told:].tolist(), outcomes[n_told:].tolist(), strict=True):
            params = dict(zip(self.choices, row, strict=True))
            trial = import_optuna().trial.create_trial(params=params, distributions=self.choices, value=outcome)
            self._study.add_trial(trial)
        self._codes, self._outcomes = codes, outcomes
        return self._study


def import_optuna() -> Any:
    """Optuna, or what to install."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise InvalidSettingError(f"tpe needs Optuna: {to_install('optuna')}") from error
    return optuna
