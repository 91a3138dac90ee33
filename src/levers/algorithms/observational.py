"""Regress on the data you have: what many people do, and what the paper's released code does. It is biased."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import CHUNK, Algorithm, Batch, Verdict
from levers.core.certificates.sample_size import phase_runs
from levers.core.codec import serialisable
from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.core.space import FREE
from levers.core.validation import check_count


@serialisable("ObservationalState")
@dataclass(frozen=True, eq=False)
class ObservationalState:
    """The moments of what nature showed."""

    moments: Moments


@dataclass(frozen=True)
class ObservationalRegression(Algorithm):
    """Watch, never set: fit the additive model to observed runs and take the best level of each factor.

    Wrong when a factor is an effect of the outcome (conditioning on it biases its causes), and blind to levels that
    nature rarely shows: those seen fewer than `min_count` times are left out, as a careful analyst would.
    The default number of runs is MODL's last phase, at width eps/2.

    >>> from levers import Problem, Space
    >>> watch = ObservationalRegression(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0))
    >>> batch = watch.ask(watch.start(), np.random.default_rng(0))
    >>> batch.n_runs, batch.is_global
    (885, False)
    """

    runs: int | None = None
    min_count: int = 5
    name: ClassVar[str] = "observational-regression"
    sets_every_lever: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.check_complete()
        check_count("min_count", self.min_count)
        if self.runs is not None:
            check_count("runs", self.runs)

    @property
    def wanted(self) -> int:
        """How many runs to watch."""
        default = phase_runs(sum(self.space.n_levels), self.tolerance / 2, self.failure_prob, self.noise_sd, 1)
        return default if self.runs is None else self.runs

    def start(self) -> ObservationalState:
        """Nothing seen."""
        return ObservationalState(Moments.empty(self.space.n_levels))

    def ask(self, state: ObservationalState, rng: np.random.Generator) -> Batch | Verdict:
        """Runs in which every factor is left to nature."""
        n_runs = min(CHUNK, self.wanted - state.moments.n_runs)
        if n_runs == 0:
            return self._verdict(state)
        return Batch(np.full((n_runs, self.space.n_factors), FREE, dtype=np.int16), stage="watching")

    def tell(self, state: ObservationalState, batch: Batch, outcomes: ArrayLike) -> ObservationalState:
        """Add what was seen; the batch must carry the levels that nature chose."""
        y = self.accept(batch, outcomes)
        return replace(state, moments=state.moments.add(batch.codes, y))

    def _verdict(self, state: ObservationalState) -> Verdict:
        fit = Fit(state.moments)
        codes = []
        for k in range(self.space.n_factors):
            begin, end = fit.moments.offsets[k], fit.moments.offsets[k + 1]
            counts = fit.moments.level_counts[begin:end]
            common = counts >= min(self.min_count, int(counts.max()))
            codes.append(int(np.argmax(np.where(common, np.nan_to_num(fit.level_effects(k)), -np.inf))))
        n_runs = state.moments.n_runs
        guarantee = "none: association is not causation"
        return self.verdict_on(codes, n_runs, guarantee, runs_by_stage=(("watching", n_runs),))
