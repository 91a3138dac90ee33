"""Run an algorithm on some of the factors while the others stay at a fixed level."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from levers.algorithms.base import Batch, Problem, Verdict
from levers.core.elimination import Elimination
from levers.core.space import Codes, Space


@dataclass(frozen=True)
class Subspace:
    """Some factors of a space, and the level at which each of the others is held.

    >>> inner = Subspace(Space.sized([2, 3, 2]), positions=(1,), baseline=(0, 0, 1))
    >>> inner.widen(np.array([[2]], dtype=np.int16)).tolist()
    [[0, 2, 1]]
    """

    space: Space
    positions: tuple[int, ...]
    baseline: tuple[int, ...]

    def problem(self, whole: Problem, failure_prob: float | None = None) -> Problem:
        """The problem on these factors alone."""
        inner = replace(whole, space=self.space.subspace(self.positions))
        return inner if failure_prob is None else replace(inner, failure_prob=failure_prob)

    def widen(self, codes: Codes) -> Codes:
        """Rows over these factors as rows over all of them."""
        rows = np.tile(np.asarray(self.baseline, dtype=np.int16), (len(codes), 1))
        rows[:, self.positions] = codes
        return rows

    def widen_batch(self, batch: Batch) -> Batch:
        """An inner batch as it is to be run."""
        return replace(batch, codes=self.widen(batch.codes))

    def narrow_batch(self, batch: Batch) -> Batch:
        """The inner algorithm's view of a batch that was run."""
        return replace(batch, codes=np.ascontiguousarray(batch.codes[:, self.positions]))

    def widen_verdict(self, verdict: Verdict) -> Verdict:
        """An inner verdict as a verdict on the whole space."""
        effects: list[tuple[float | None, ...]] = [(None,) * m for m in self.space.n_levels]
        for k, row in zip(self.positions, verdict.effects, strict=True):
            effects[k] = row
        codes = self.widen(np.asarray([verdict.assignment.codes], dtype=np.int16))[0]
        return replace(
            verdict,
            assignment=self.space.assignment(codes),
            effects=tuple(effects),
            eliminations=tuple(
                Elimination(self.positions[e.factor], e.level, e.n_runs, e.gap) for e in verdict.eliminations
            ),
        )


def baseline_of(space: Space, given: Sequence[int] | None) -> tuple[int, ...]:
    """The fixed intervention x_0: the one given, or every factor's first level."""
    return space.assignment((0,) * space.n_factors if given is None else given).codes
