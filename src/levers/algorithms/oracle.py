"""The oracle of the paper's experiments: MODL on the true parents, which nobody knows in practice."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import AlgorithmBase, Batch, Verdict
from levers.algorithms.modl import Modl, ModlState
from levers.algorithms.subspace import Subspace, baseline_of
from levers.core.schedules import SCHEDULES
from levers.errors import InvalidSettingError


@dataclass(frozen=True)
class Oracle(AlgorithmBase):
    """MODL restricted to the factors named in `parents`; the others stay at their first level.

    >>> from levers.algorithms.base import Problem
    >>> from levers.core.space import Space
    >>> oracle = Oracle(Problem(Space.sized([3, 3]), 0.5, 0.1, 1.0), parents=["X2"])
    >>> set(oracle.ask(oracle.start(), np.random.default_rng(0)).codes[:, 0].tolist())
    {0}
    """

    parents: Sequence[str] = ()
    schedule: str = SCHEDULES[0]
    outcome_bound: float | None = None
    name: str = field(init=False, default="oracle")

    def __post_init__(self) -> None:
        self.check_complete()
        if not self.parents:
            raise InvalidSettingError("the oracle needs the true parents: pass parents=[...] with at least one factor")
        self.modl  # noqa: B018  wrong names and options are refused here

    @property
    def inside(self) -> Subspace:
        """The part of the space that is searched."""
        positions = tuple(sorted({self.space.position(name) for name in self.parents}))
        return Subspace(self.space, positions, baseline_of(self.space, None))

    @property
    def modl(self) -> Modl:
        """The algorithm that searches it."""
        return Modl(self.inside.problem(self.problem), self.schedule, None, self.outcome_bound)

    def start(self) -> ModlState:
        """MODL's own start."""
        return self.modl.start()

    def ask(self, state: ModlState, rng: np.random.Generator) -> Batch | Verdict:
        """MODL's next batch with the other factors held."""
        step = self.modl.ask(state, rng)
        if isinstance(step, Batch):
            return self.inside.widen_batch(step)
        return replace(self.inside.widen_verdict(step), algorithm=self.name, parents=None)

    def tell(self, state: ModlState, batch: Batch, outcomes: ArrayLike) -> ModlState:
        """MODL's own tell."""
        y = self.accept(batch, outcomes)
        return self.modl.tell(state, self.inside.narrow_batch(batch), y)
