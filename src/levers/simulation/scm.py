"""A world: factors that influence each other and the outcome, which can be watched or set."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.space import FREE, Codes, Level, Space
from levers.errors import InvalidSpaceError, InvalidWorldError
from levers.simulation.mechanisms import Mechanism
from levers.simulation.outcome import Outcome

OUTCOME = "Y"


class Runs(NamedTuple):
    """What happened: the levels that each run had, and its outcome."""

    codes: Codes
    outcomes: NDArray[np.float64]


class World:
    """A structural causal model over the factors of a space and one outcome.

    >>> from levers.simulation.mechanisms import Table
    >>> from levers.simulation.outcome import AdditiveOutcome, Noise
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
