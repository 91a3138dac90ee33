"""What is exactly true of a world: means under interventions, the best assignment, the parents."""

import math
from collections.abc import Mapping

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from levers.core.space import Assignment, Level
from levers.errors import InvalidWorldError
from levers.simulation.scm import OUTCOME, World

MAX_CONFIGURATIONS = 2_000_000
"""The most configurations of unset causes that are summed over."""


def mean_under(world: World, settings: Mapping[str, Level]) -> float:
    """E[Y | do(settings)], exact; factors that are not set follow their mechanisms.

    The sum runs over the causes of the outcome that the intervention leaves free.

    >>> from levers.simulation.named import collider_world
    >>> mean_under(collider_world(), {"X0": 2, "X1": 1})
    3.0
    """
    names = world.space.names
    fixed = {world.space.position(n): world.space.factors[world.space.position(n)].code(v) for n, v in settings.items()}
    cut = world.graph.copy()
    cut.remove_edges_from([(cause, names[k]) for k in fixed for cause in world.graph.predecessors(names[k])])
    free = [world.space.position(name) for name in nx.ancestors(cut, OUTCOME)]
    free = sorted(k for k in free if k not in fixed)
    sizes = [world.space.n_levels[k] for k in free]
    if math.prod(sizes) > MAX_CONFIGURATIONS:
        raise InvalidWorldError(
            f"{len(free)} free causes of the outcome have {math.prod(sizes):,} configurations, more than the "
            f"{MAX_CONFIGURATIONS:,} that are summed exactly; set more factors, or estimate with world.intervene"
        )
    rows = np.zeros((math.prod(sizes), world.space.n_factors), dtype=np.int16)
    for k, code in fixed.items():
        rows[:, k] = code
    if free:
        rows[:, free] = np.stack(np.unravel_index(np.arange(len(rows)), sizes), axis=1)
    weight = np.ones(len(rows))
    for k in free:
        weight *= world.mechanisms[k].probabilities(rows)[np.arange(len(rows)), rows[:, k]]
    return float(weight @ world.outcome.mean(rows))


def best_assignment(world: World) -> Assignment:
    """An assignment with the largest mean; factors that are not parents are at their first level.

    >>> from levers.simulation.named import collider_world
    >>> best_assignment(collider_world())["X0"]
    2
    """
    codes = [0] * world.space.n_factors
    for k, level in world.outcome.best().items():
        codes[k] = level
    return world.space.assignment(codes)


def true_parents(world: World) -> tuple[str, ...]:
    """Names of the outcome's parents."""
    return tuple(world.space.names[k] for k in world.outcome.parents)


def gap(world: World, codes: ArrayLike) -> float:
    """How much worse than the best an assignment is: max_x E[Y | do(x)] - E[Y | do(codes)].

    >>> from levers.simulation.named import collider_world
    >>> gap(collider_world(), best_assignment(collider_world()).codes)
    0.0
    """
    both = np.array([best_assignment(world).codes, np.asarray(codes)], dtype=np.int16)
    best, this = world.outcome.mean(both)
    return float(best - this)
