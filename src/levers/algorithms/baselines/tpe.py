"""Optuna's tree-structured Parzen estimator, through its own package."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import Batch, Progress, Verdict
from levers.algorithms.baselines.budgeted import Budgeted
from levers.core.codec import serialisable
from levers.core.validation import check_count
from levers.errors import InvalidSettingError

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

    A sampler of Optuna has a history inside. Here each batch is asked of a fresh study in memory that was told all runs
    so far, with a seed from the generator, so nothing is kept but the runs. `batch_size` settings are asked for before
    any of them is told: 1 is the usual way.

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
        choices: dict[str, Any] = {
            name: optuna.distributions.CategoricalDistribution(range(m))
            for name, m in zip(self.space.names, self.space.n_levels, strict=True)
        }
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(
                optuna.trial.create_trial(
                    params=dict(zip(choices, row, strict=True)), distributions=choices, value=outcome
                )
                for row, outcome in zip(state.codes.tolist(), state.outcomes.tolist(), strict=True)
            )
            asked = [study.ask(choices) for _ in range(n_runs)]
        finally:
            optuna.logging.set_verbosity(verbosity)
        codes = np.array([[trial.params[name] for name in choices] for trial in asked], dtype=np.int16)
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


def import_optuna() -> Any:
    """Optuna, or what to install."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise InvalidSettingError("tpe needs Optuna: pip install 'levers[optuna]'") from error
    return optuna
