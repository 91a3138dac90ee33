"""Studies that may leave levers alone, on worlds in which something hidden drives a lever and the outcome, or not.

What is counted: how often the recommendation is worse than certified, over all subsets of levers and all values; how
often the right lever is left alone; and how often the test for a hidden cause fires.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from levers.algorithms.base import Problem
from levers.algorithms.cfs.solver import Cfs
from levers.core.space import Space
from levers.experiments.runner import run_on_world
from levers.worlds.mechanisms import Mechanism, Table
from levers.worlds.named import coin_world, even_table, shared_cause_world
from levers.worlds.outcome import AdditiveOutcome, Noise, TableOutcome
from levers.worlds.random import random_world
from levers.worlds.scm import Hidden, World, gap

FAILURE_PROB = 0.1


class Counted(NamedTuple):
    """One study against the truth."""

    failed: bool
    left: tuple[str, ...]
    fired: bool
    n_runs: int


@dataclass(frozen=True)
class Kind:
    """A kind of study: its world, what is asked for, and whether something hidden is there to be found."""

    name: str
    world: Callable[[np.random.Generator], World]
    free: tuple[int, ...]
    hidden: bool
    tolerance: float | None = 0.5
    noise_sd: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def study(self, seed: int) -> Counted:
        """One study."""
        world = self.world(np.random.default_rng([1, seed]))
        problem = Problem(world.space, self.tolerance, FAILURE_PROB, self.noise_sd)
        verdict = run_on_world(Cfs(problem, free=self.free, **self.options), world, seed)
        certified = np.inf if verdict.tolerance is None else verdict.tolerance
        fired = any(remark.kind == "hidden cause" for remark in verdict.provisos)
        return Counted(gap(world, verdict.assignment) > certified, verdict.assignment.free, fired, verdict.n_runs)


def critical_world(sizes: tuple[int, ...], behind: float, advantage: float, rng: np.random.Generator) -> World:
    """The first lever has two levels and follows a hidden coin: leaving it alone is `advantage` better than any level,
    or worse. The others have one level that is `behind` ahead of all others, which all lose the same."""
    space = Space.sized((2, *sizes))
    coin = space.n_factors
    agree = np.eye(2) if advantage >= 0 else 1 - np.eye(2)
    tables: dict[tuple[int, ...], Any] = {(0, coin): 2 * abs(advantage) * agree}
    for k, m in enumerate(sizes, 1):
        effects = np.full(m, -behind)
        effects[rng.integers(m)] = 0.0
        tables[(k,)] = effects
    follows = Table(np.eye(2), parents=(coin,), sizes=(2,))
    mechanisms: list[Mechanism] = [follows, *(even_table(m) for m in sizes)]
    return World(space, mechanisms, TableOutcome(tables, Noise(1.0)), [Hidden("coin", 2, even_table(2))])


def unconfounded(rng: np.random.Generator) -> World:
    """A world of the paper: levers influence each other and the outcome, and nothing is hidden."""
    return random_world(4, 2, rng, levels=(2, 3), outcome_bound=3.0)


def rare_level(share: float, effect: float) -> World:
    """Nature takes the bad level of the first lever in a small share of runs; nothing is hidden."""
    space = Space.sized((2, 2))
    rarely = Table(np.array([[1 - share, share]]))
    return World(space, [rarely, even_table(2)], AdditiveOutcome({0: (0.0, effect)}, Noise(0.5)))


def kinds() -> list[Kind]:
    """All kinds of studies that are counted."""
    coin = lambda rng: coin_world(3, 2.0)  # noqa: E731
    found = [
        Kind("a hidden coin, three other levers", coin, (0,), True),
        Kind("the same, noise stated", coin, (0,), True, noise_sd=float(np.sqrt(2.0))),
        Kind("the same, all levers free", lambda rng: coin_world(2, 2.0), (0, 1, 2), True),
        Kind("the same, a budget of 120", coin, (0,), True, None, options={"budget": 120}),
        Kind("the same, days of 8", coin, (0,), True, options={"block_size": 8}),
        Kind("a hidden cause of levers alone", lambda rng: shared_cause_world(), (0,), False),
        Kind("nothing hidden, levers influence each other", unconfounded, (0,), False),
        Kind("the same, three levers free", unconfounded, (0, 1, 2), False),
        Kind("the same, noise stated", unconfounded, (0,), False, noise_sd=1.0),
        Kind("the same, a budget of 60", unconfounded, (0,), False, None, options={"budget": 60}),
    ]
    found += [
        Kind("rare level, 6 % lose 10", lambda rng: rare_level(0.06, -10.0), (0,), False),
        Kind("rare level, 3 % lose 20", lambda rng: rare_level(0.03, -20.0), (0,), False),
        Kind("rare level, 12 % lose 5", lambda rng: rare_level(0.12, -5.0), (0,), False),
        Kind("four levers free", lambda rng: random_world(4, 2, rng, levels=(2, 2)), (0, 1, 2, 3), False),
    ]
    for sizes, behind in (((), 0.0), ((2, 2), 0.32), ((3, 2, 3), 0.26)):
        for advantage in (0.3, 0.52, -0.3):
            name = f"critical gaps, {len(sizes)} other levers, left alone {advantage:+g}"

            def critical(
                rng: np.random.Generator,
                sizes: tuple[int, ...] = sizes,
                behind: float = behind,
                advantage: float = advantage,
            ) -> World:
                return critical_world(sizes, behind, advantage, rng)

            found.append(Kind(name, critical, (0,), True))
    return found
