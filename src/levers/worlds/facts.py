"""The paper's Facts 1 and 2, checked over every subset of the factors and every value: they hold, or where they fail.

Both are claims about worlds without hidden causes that the outcome shares with its ancestors. They are why a global
intervention is enough, so a world in which one fails is a world in which the method can miss the best.
"""

import math
from collections.abc import Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levers.core.space import FREE, Assignment
from levers.errors import InvalidWorldError
from levers.worlds.scm import World, mean_tables, true_parents

MAX_INTERVENTIONS = 1_000_000
"""The most interventions, over all subsets and values, that are compared."""
ROUNDING = 1e-9
"""A violation no larger than this is rounding."""


class FactCheck(NamedTuple):
    """How far a fact is from true: the largest violation, the intervention that shows it, the two means compared."""

    violation: float
    intervention: Assignment
    mean: float
    claimed: float

    @property
    def holds(self) -> bool:
        """Whether there is no violation beyond rounding."""
        return self.violation <= ROUNDING * max(1.0, abs(self.mean))


def check_fact_1(world: World, parents: Sequence[str] | None = None) -> FactCheck:
    """Fact 1: max over all X and x of E[Y | do(X = x)] <= max over x' of E[Y | do(pa(Y) = x')]   (Section 1).

    The violation is the left side minus the right. `parents` checks the claim for another set than the true parents.

    >>> from levers.worlds.named import coin_world, shared_cause_world
    >>> check_fact_1(shared_cause_world()).holds
    True
    >>> failed = check_fact_1(coin_world(n_others=1))
    >>> failed.violation, dict(failed.intervention), failed.intervention.free
    (0.5, {'X1': 3}, ('X',))
    """
    check_countable(world)
    factors = range(world.space.n_factors)
    claimed = float(_means(world, _positions(world, parents)).max())
    best, where = -math.inf, (FREE,) * world.space.n_factors
    for chosen in chain.from_iterable(combinations(factors, size) for size in range(len(factors) + 1)):
        table = _means(world, chosen)
        if float(table.max()) > best:
            best = float(table.max())
            where = _codes(world, chosen, int(table.argmax()))
    return FactCheck(best - claimed, world.space.assignment(where), best, claimed)


def check_fact_2(world: World, parents: Sequence[str] | None = None) -> FactCheck:
    """Fact 2: E[Y | do(X_[K] = x)] = E[Y | do(pa(Y) = x')], x' the part of x that concerns the parents   (Section 1).

    The violation is the largest difference over all x. `parents` checks the claim for another set.

    >>> from levers.worlds.named import collider_world
    >>> check_fact_2(collider_world()).holds, check_fact_2(collider_world(), parents=["X0"]).violation
    (True, 1.0)
    """
    check_countable(world)
    factors = range(world.space.n_factors)
    named = _positions(world, parents)
    everywhere = _means(world, factors)
    claimed = _means(world, named).reshape([world.sizes[k] if k in named else 1 for k in factors])
    difference = np.abs(everywhere - claimed)
    flat = int(difference.argmax())
    there = np.unravel_index(flat, difference.shape)
    mean, other = float(everywhere[there]), float(np.broadcast_to(claimed, difference.shape)[there])
    return FactCheck(float(difference[there]), world.space.assignment(_codes(world, factors, flat)), mean, other)


def check_countable(world: World) -> None:
    """Refuse worlds with too many interventions to go through."""
    n_interventions = math.prod(m + 1 for m in world.space.n_levels)
    if n_interventions > MAX_INTERVENTIONS:
        raise InvalidWorldError(
            f"the world has {n_interventions:,} interventions on subsets of its factors, more than the "
            f"{MAX_INTERVENTIONS:,} that are compared; take a smaller one"
        )


def _positions(world: World, names: Sequence[str] | None) -> tuple[int, ...]:
    return tuple(sorted(world.space.position(name) for name in (true_parents(world) if names is None else names)))


def _means(world: World, chosen: Sequence[int]) -> NDArray[np.float64]:
    """E[Y | do] for every setting of the chosen factors, one axis each, the others left to nature."""
    total = np.zeros([world.sizes[k] for k in chosen])
    for scope, values in mean_tables(world, {}, [k for k in range(world.space.n_factors) if k not in chosen]):
        total += values.reshape([world.sizes[k] if k in scope else 1 for k in chosen])
    return total


def _codes(world: World, chosen: Sequence[int], flat: int) -> tuple[int, ...]:
    levels = np.unravel_index(flat, [world.sizes[k] for k in chosen]) if chosen else ()
    at = {k: int(level) for k, level in zip(chosen, levels, strict=True)}
    return tuple(at.get(k, FREE) for k in range(world.space.n_factors))
