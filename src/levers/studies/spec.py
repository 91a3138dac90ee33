"""What a study is asked to find, fixed when it is created."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from levers.algorithms.base import Algorithm, Problem
from levers.algorithms.registry import make_algorithm
from levers.core.codec import serialisable
from levers.core.merging import Forbidden, Groups, Merging
from levers.core.space import Space
from levers.core.validation import check_choice, check_count
from levers.errors import InvalidSettingError, InvalidSpaceError

RESERVED = ("trial", "block", "order", "outcome", "state", "stage", "worker", "asked_at", "told_at")
"""Names that a factor of a study cannot have, in any case."""


GOALS = ("maximize", "minimize")
_MOST_CELLS, _MOST_RUNS = 20_000_000, 2_000_000  # of one block: it is kept, and read again by every process
_WHOLE_BLOCK = 2**40  # a study hands out runs one by one, so an algorithm may as well plan a whole block at once


@serialisable("StudySpec")
@dataclass(frozen=True)
class StudySpec:
    """A problem, who solves it, and the seed from which all its randomness follows.

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

    def __post_init__(self) -> None:
        check_choice("goal", self.goal, GOALS)
        check_count("seed", self.seed, 0)
        if self.block_size is not None:
            check_count("block_size", self.block_size)
        reserved = [name for name in self.space.names if name.strip().lower() in RESERVED]
        if reserved:
            raise InvalidSpaceError(
                f"a factor of a study cannot be called {reserved[0]!r}: run sheets use that column; rename it"
            )
        if self.algorithm == "observational-regression":
            raise InvalidSettingError(
                "observational-regression watches without setting, so it cannot ask for runs", field="algorithm"
            )
        _ = self.solver  # refuses what it cannot do, before anything is stored

    @cached_property
    def merging(self) -> Merging:
        """The space as the algorithm sees it."""
        return Merging.of(self.space, self.forbidden, self.merged)

    @cached_property
    def solver(self) -> Algorithm:
        """The algorithm, ready to be asked."""
        options = dict(self.options)
        if self.algorithm == "cfs":
            options["batch_size"] = _WHOLE_BLOCK
            options["most_cells"] = min(_MOST_CELLS, _MOST_RUNS * self.merging.inner.n_factors)
        problem = Problem(self.merging.inner, self.tolerance, self.failure_prob, self.noise_sd)
        return make_algorithm(self.algorithm, problem, **options)

    @property
    def sign(self) -> float:
        """What outcomes are multiplied with, so that larger is better."""
        return 1.0 if self.goal == "maximize" else -1.0

    def generator(self, block: int) -> np.random.Generator:
        """The randomness of a block: it follows from the seed, so a study that was interrupted goes on the same."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block,)))
