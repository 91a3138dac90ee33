"""A world: factors that influence each other and the outcome, observed or set, and what is exactly true of it."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from levers.core.model.level_index import Numbers
from levers.core.space import FREE, Assignment, Codes, Level, Space
from levers.errors import InvalidSpaceError, InvalidWorldError
from levers.worlds.mechanisms import Mechanism
from levers.worlds.outcome import AdditiveOutcome, Outcome

if TYPE_CHECKING:
    import networkx as nx

OUTCOME = "Y"
"""The outcome's name in the causal graph."""
MAX_CONFIGURATIONS = 2_000_000
"""The most configurations of unset causes that are summed over."""


class Runs(NamedTuple):
    """What happened: the levels that each run had, and its outcome."""

    codes: Codes
    outcomes: Numbers


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
        self._order = self._causal_order()

    @cached_property
    def causes(self) -> dict[str, tuple[str, ...]]:
        """The direct causes of each factor and of the outcome, by name."""
        names = self.space.names
        causes = {
            name: (*(names[k] for k in mechanism.parents), *([OUTCOME] if mechanism.reads_outcome else []))
            for name, mechanism in zip(names, self.mechanisms, strict=True)
        }
        return {**causes, OUTCOME: tuple(names[k] for k in self.outcome.parents)}

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The causal graph, factor names and the outcome as nodes, for networkx."""
        import networkx as nx  # takes a while to import, and sampling does not need it

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.causes)
        graph.add_edges_from((cause, effect) for effect, causes in self.causes.items() for cause in causes)
        return graph

    def _causal_order(self) -> tuple[int | None, ...]:
        """Factor positions in causal order, None where the outcome comes; of several that could be next, the first.

        Random draws are made in this order, so it is part of what a seed means.
        """
        place = {name: k for k, name in enumerate(self.causes)}  # the outcome is the last
        sorter = TopologicalSorter({place[name]: [place[c] for c in causes] for name, causes in self.causes.items()})
        try:
            sorter.prepare()
        except CycleError as error:
            circle = " -> ".join([*self.causes][k] for k in error.args[1])
            raise InvalidWorldError(f"the factors influence each other in a circle: {circle}") from None
        order, ready = list[int](), list(sorter.get_ready())
        heapify(ready)
        while ready:
            order.append(heappop(ready))
            sorter.done(order[-1])
            for k in sorter.get_ready():
                heappush(ready, k)
        return tuple(None if k == self.space.n_factors else k for k in order)

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
        outcomes: Numbers | None = None
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


def mean_under(world: World, settings: Mapping[str, Level]) -> float:
    """E[Y | do(settings)], exact; factors that are not set follow their mechanisms.

    The sum runs over the causes of the outcome that the intervention leaves free.

    >>> from levers.worlds.named import collider_world
    >>> mean_under(collider_world(), {"X0": 2, "X1": 1})
    3.0
    """
    fixed = {world.space.position(n): world.space.factors[world.space.position(n)].code(v) for n, v in settings.items()}
    unset, todo = set[str](), list(world.causes[OUTCOME])
    while todo:
        name = todo.pop()
        if name not in unset and name not in settings:
            unset.add(name)
            todo += world.causes[name]
    free = sorted(world.space.position(name) for name in unset)
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
    best = world.outcome.best()
    return world.space.assignment([best.get(k, 0) for k in range(world.space.n_factors)])


def true_parents(world: World) -> tuple[str, ...]:
    """Names of the outcome's parents."""
    return tuple(world.space.names[k] for k in world.outcome.parents)


def gap(world: World, codes: ArrayLike) -> float:
    """How much worse than the best an assignment is: max_x E[Y | do(x)] - E[Y | do(codes)].

    >>> from levers.worlds.named import collider_world
    >>> gap(collider_world(), best_assignment(collider_world()).codes)
    0.0
    """
    best, this = world.outcome.mean(np.array([best_assignment(world).codes, np.asarray(codes)], dtype=np.int16))
    return float(best - this)


def can_draw_totals(outcome: Outcome) -> bool:
    """Whether sums can be drawn directly: the noise is Gaussian."""
    return isinstance(outcome, AdditiveOutcome) and outcome.noise.kind == "gaussian"


def draw_means(outcome: Outcome, codes: Codes, repeats: int, rng: np.random.Generator) -> tuple[Numbers, float]:
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
