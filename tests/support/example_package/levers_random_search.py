"""An algorithm and a storage of another package: all that it takes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

import levers
from levers.core.codec import serialisable


@serialisable("RandomSearchState")
@dataclass(frozen=True)
class State:
    tried: tuple[tuple[tuple[int, ...], float], ...] = ()


@dataclass(frozen=True)
class RandomSearch(levers.Algorithm):
    """Try random settings, and keep the one that did best: what people do without a method."""

    budget: int = 20
    name: ClassVar[str] = "random-search"

    def start(self) -> State:
        return State()

    def ask(self, state: State, rng: np.random.Generator) -> levers.Batch | levers.Verdict:
        if len(state.tried) < self.budget:
            row = [rng.integers(m) for m in self.space.n_levels]
            return levers.Batch(np.array([row], dtype=np.int16), "trying")
        best, n, eps = max(state.tried, key=lambda pair: pair[1])[0], self.budget, self.problem.tolerance or 0.0
        return levers.Verdict(
            self.name, self.space.assignment(best), n, eps, 1.0, "none", runs_by_stage=(("trying", n),)
        )

    def tell(self, state: State, batch: levers.Batch, outcomes: ArrayLike) -> State:
        y = self.accept(batch, outcomes)
        return replace(state, tried=(*state.tried, *zip(map(tuple, batch.codes.tolist()), y.tolist(), strict=True)))


class Nameless(levers.Algorithm):
    """An algorithm whose author forgot to say its name."""


_SCRATCH = levers.MemoryStorage()


def open_scratch(url: str) -> levers.MemoryStorage:
    """A storage whose addresses begin with `scratch:`."""
    return _SCRATCH


def open_faulty(url: str) -> object:
    """A storage that cannot be opened, or is none."""
    if url.endswith("none"):
        return 7
    raise RuntimeError("the disk is gone")
