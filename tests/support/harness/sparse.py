"""Studies of worlds with very many factors, few of which matter, and what came of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import Batch, Problem, run_to_verdict
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.core.space import Space

TOLERANCE, FAILURE_PROB = 0.5, 0.1
Effects = dict[int, tuple[float, ...]]
"""The effects of the levels of each parent."""


class Outcome(NamedTuple):
    """Runs of a study, what its answer loses, how many parents it found, and how many factors it found by mistake."""

    n_runs: int
    loss: float
    n_found: int
    n_false: int

    @property
    def failed(self) -> bool:
        """Whether the promise is broken."""
        return self.loss > TOLERANCE


def study_sparse(
    n_levels: Sequence[int],
    effects: Mapping[int, Sequence[float]],
    max_parents: int,
    seed: int,
    noise_sd: float = 1.0,
    known: bool = True,
) -> Outcome:
    """Study a world in which the outcome is a sum of these effects and Gaussian noise."""
    noise = np.random.default_rng([seed, 1])

    def outcomes_of(batch: Batch) -> tuple[Batch, NDArray[np.float64]]:
        y = noise_sd * noise.normal(size=batch.n_runs)
        for k, values in effects.items():
            y += np.asarray(values)[batch.codes[:, k]]
        return batch, y

    space = Space.sized(n_levels)
    solver = Sparse(Problem(space, TOLERANCE, FAILURE_PROB, noise_sd if known else None), max_parents)
    verdict = run_to_verdict(solver, outcomes_of, np.random.default_rng([seed, 2]))
    loss = sum(max(values) - values[verdict.assignment.codes[k]] for k, values in effects.items())
    false = set(verdict.parents or ()) - {space.names[k] for k in effects}
    return Outcome(verdict.n_runs, loss, len(verdict.parents or ()), len(false))


def random_effects(n_levels: Sequence[int], n_parents: int, rng: np.random.Generator) -> Effects:
    """Parents at random, with effects of 5 Beta(2, 5)."""
    parents = rng.choice(len(n_levels), n_parents, replace=False).tolist()
    return {k: tuple((5 * rng.beta(2, 5, size=n_levels[k])).tolist()) for k in parents}


def equal_gaps(n_levels: Sequence[int], n_parents: int, gap: float, rng: np.random.Generator) -> Effects:
    """Parents at random, one level of each a gap ahead of all others."""
    effects: Effects = {}
    for k in rng.choice(len(n_levels), n_parents, replace=False).tolist():
        best = int(rng.integers(n_levels[k]))
        effects[k] = tuple(gap * (level == best) for level in range(n_levels[k]))
    return effects


def just_over(n_wrong: int) -> float:
    """The gap at which so many wrong levels lose just more than the tolerance."""
    return TOLERANCE / n_wrong * (1 + 1e-9)
