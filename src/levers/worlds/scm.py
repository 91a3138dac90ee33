"""A world: factors that influence each other and the outcome, watched or set, and what is exactly true of it."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.space import FREE, Assignment, Codes, Level, Space
from levers.errors import InvalidSpaceError, InvalidWorldError
from levers.worlds.mechanisms import Mechanism
from levers.worlds.outcome import AdditiveOutcome, Outcome

OUTCOME = "Y"


class Runs(NamedTuple):
    """What happened: the levels that each run had, and its outcome."""

    codes: Codes
    outcomes: NDArray[np.float64]


class World:
    """A structural causal model over the factors of a space and one outcome.

    >>> from levers.worlds.mechanisms import Table
    >>> from levers.worlds.outcome import AdditiveOutcome, Noise
    >>> coin = Table(np.array([[0.5, 0.5]]))
    >>> copy = Table(np.array([[0.9, 0.1], [0.1, 0.9]]), parents=(0,), sizes=(2,))
    >>> world = World(Space.sized([2, 2]), [coin, copy], AdditiveOutcome({1: (0.0, 1.0)}, Noise(0.1)))
    >>> sorted(world.graph.edges)
    [('X1', 'X2'), ('X2', 'Y')]
    >>> world.intervene({"X1": 2}, 3, np.random.default_rng(0)).codes[:, 0].tolist()
    [1, 1, 1]
    """

    def __init__(self, space: Space, mechanisms: Sequence[Mechanism], outcome: Outcome) -> None:
        if len(mechanisms) != space.n_factors:
            raise InvalidWorldError(f"{space.n_factors} factors need as many mechanisms, got {len(mechanisms)}")
        if OUTCOME in space.names:
            raise InvalidWorldError(f"no factor may be called {OUTCOME!r}: that is the outcome's name in the graph")
        self.space = space
        self.mechanisms = tuple(mechanisms)
        self.outcome = outcome
        if not nx.is_directed_acyclic_graph(self.graph):
            raise InvalidWorldError(f"the factors influence each other in a circle: {nx.find_cycle(self.graph)}")

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The causal graph, factor names and the outcome as nodes."""
        names = self.space.names
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from([*names, OUTCOME])
        graph.add_edges_from((names[k], OUTCOME) for k in self.outcome.parents)
        for name, mechanism in zip(names, self.mechanisms, strict=True):
            graph.add_edges_from((names[k], name) for k in mechanism.parents)
            if mechanism.reads_outcome:
                graph.add_edge(OUTCOME, name)
        return graph

    @cached_property
    def _order(self) -> tuple[int | None, ...]:
        """Factor positions in causal order, None where the outcome comes."""
        order = nx.lexicographical_topological_sort(self.graph, key=[*self.space.names, OUTCOME].index)
        return tuple(None if name == OUTCOME else self.space.position(name) for name in order)

    def sample(self, settings: ArrayLike, rng: np.random.Generator) -> Runs:
        """One run per row of settings: a level's position is set from outside, FREE leaves the factor to nature."""
        rows = np.array(settings, dtype=np.int16, ndmin=2)
        if rows.shape[1] != self.space.n_factors:
            raise InvalidSpaceError(f"each run needs {self.space.n_factors} settings, got {rows.shape[1]}")
        if rows.size and (rows.min() < FREE or (rows >= np.asarray(self.space.n_levels)).any()):
            raise InvalidSpaceError("a setting is not a level of its factor")
        natural = rows == FREE
        if not natural.any():
            return Runs(rows, self.outcome.sample(rows, rng))
        outcomes: NDArray[np.float64] | None = None
        for k in self._order:
            if k is None:
                outcomes = self.outcome.sample(rows, rng)
            elif natural[:, k].any():
                drawn = self.mechanisms[k].sample(rows, outcomes, rng)
                rows[:, k] = np.where(natural[:, k], drawn, rows[:, k])
        assert outcomes is not None  # the outcome is a node of every world
        return Runs(rows, outcomes)

    def observe(self, n_runs: int, rng: np.random.Generator) -> Runs:
        """Runs in which nothing is set."""
        return self.sample(np.full((n_runs, self.space.n_factors), FREE), rng)

    def intervene(self, settings: Mapping[str, Level], n_runs: int, rng: np.random.Generator) -> Runs:
        """Runs in which the named factors are set and the others left to nature: do(X = x)."""
        row = np.full(self.space.n_factors, FREE)
        for name, level in settings.items():
            k = self.space.position(name)
            row[k] = self.space.factors[k].code(level)
        return self.sample(np.tile(row, (n_runs, 1)), rng)


MAX_CONFIGURATIONS = 2_000_000
"""The most configurations of unset causes that are summed over."""


def mean_under(world: World, settings: Mapping[str, Level]) -> float:
    """E[Y | do(settings)], exact; factors that are not set follow their mechanisms.

    The sum runs over the causes of the outcome that the intervention leaves free.

    >>> from levers.worlds.named import collider_world
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

    >>> from levers.worlds.named import collider_world
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

    >>> from levers.worlds.named import collider_world
    >>> gap(collider_world(), best_assignment(collider_world()).codes)
    0.0
    """
    both = np.array([best_assignment(world).codes, np.asarray(codes)], dtype=np.int16)
    best, this = world.outcome.mean(both)
    return float(best - this)


def can_draw_totals(outcome: Outcome) -> bool:
    """Whether sums can be drawn directly: the noise is Gaussian."""
    return isinstance(outcome, AdditiveOutcome) and outcome.noise.kind == "gaussian"


def draw_means(
    outcome: Outcome, codes: Codes, repeats: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], float]:
    """Run every row `repeats` times: the mean outcome of each row, and the sum of squares about these means.

    >>> outcome = AdditiveOutcome({0: (0.0, 1.0)})
    >>> means, within = draw_means(outcome, np.array([[0], [1]], dtype=np.int16), 1_000_000, np.random.default_rng(0))
    >>> means.round(2).tolist(), round(within / 2_000_000, 2)
    ([0.0, 1.0], 1.0)
    """
    if not can_draw_totals(outcome):
        raise InvalidWorldError("sums can be drawn directly with Gaussian noise only; sample the rows")
    if repeats == 0 or len(codes) == 0:
        return np.zeros(len(codes)), 0.0
    sd = outcome.noise_sd
    means = outcome.mean(codes) + rng.normal(0.0, sd / np.sqrt(repeats), len(codes))
    within = sd**2 * float(rng.chisquare(len(codes) * (repeats - 1))) if repeats > 1 else 0.0
    return means, within
