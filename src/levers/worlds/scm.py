"""A world: factors and hidden variables that influence each other and the outcome, and what is exactly true of it."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from levers.core.model.level_index import Numbers
from levers.core.space import FREE, MAX_LEVELS, Assignment, Codes, Level, Space
from levers.core.validation import check_count
from levers.errors import InvalidSpaceError, InvalidWorldError
from levers.worlds.confounding import Arrows
from levers.worlds.mechanisms import Computed, Drawn, Mechanism, RandomTable, StateTable, Table, conditional
from levers.worlds.outcome import AdditiveOutcome, BernoulliOutcome, BinaryOutcome, Outcome, StateOutcome, mean_products
from levers.worlds.potentials import Potential, check_size, configurations, maximise, sum_out

if TYPE_CHECKING:
    import networkx as nx

OUTCOME = "Y"
"""The outcome's name in the causal graph."""
MAX_SUBSETS = 4096
"""The most subsets of confounded factors among which the best to leave alone is searched."""
ROUNDING = 1e-9
"""Leaving a factor alone must win by more than this, relative to the means, before it is recommended."""
CHUNK = 100_000
"""How many runs an estimate draws at a time."""

Intervention: TypeAlias = Mapping[str, Level] | ArrayLike
"""What is set, do(X = x): names with levels (an Assignment is one), or a code for each factor, FREE where it is not."""


class Runs(NamedTuple):
    """What happened: the levels that each run had, and its outcome."""

    codes: Codes
    outcomes: Numbers


class Estimate(NamedTuple):
    """A mean estimated from simulated runs, and its standard error."""

    mean: float
    standard_error: float
    n_runs: int


@dataclass(frozen=True, eq=False)
class Hidden:
    """A variable that is neither observed nor set: a cause of factors, of the outcome, or of both.

    In what mechanisms and the outcome read, hidden variables stand after the factors: the first of them at position K.

    >>> Hidden("mood", 2, Table(np.array([[0.5, 0.5]]))).n_states
    2
    """

    name: str
    n_states: int
    mechanism: Mechanism

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidWorldError(f"a hidden variable's name must be a text that is not blank, not {self.name!r}")
        check_count(f"the number of states of {self.name!r}", self.n_states, 2, MAX_LEVELS)


class World:
    """A structural causal model over the factors of a space, hidden variables and one outcome.

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

    def __init__(
        self, space: Space, mechanisms: Sequence[Mechanism], outcome: Outcome, hidden: Sequence[Hidden] = ()
    ) -> None:
        if len(mechanisms) != space.n_factors:
            raise InvalidWorldError(f"{space.n_factors} factors need as many mechanisms, got {len(mechanisms)}")
        self.space = space
        self.mechanisms = tuple(mechanisms)
        self.outcome = outcome
        self.hidden = tuple(hidden)
        self.names = (*space.names, *(node.name for node in self.hidden))
        """Names of all variables: the factors, then the hidden ones."""
        self.sizes = (*space.n_levels, *(node.n_states for node in self.hidden))
        """How many levels or states each variable has."""
        self._all_mechanisms = (*self.mechanisms, *(node.mechanism for node in self.hidden))
        self._check()
        self._order = self._causal_order()

    def _check(self) -> None:
        if OUTCOME in self.names:
            kind = "factor" if OUTCOME in self.space.names else "hidden variable"
            raise InvalidWorldError(f"no {kind} may be called {OUTCOME!r}: that is the outcome's name in the graph")
        for name in (node.name for node in self.hidden if self.names.count(node.name) > 1):
            raise InvalidWorldError(f"two variables are named {name!r}; give the hidden one its own name")
        readers = zip(self.names, (m.parents for m in self._all_mechanisms), strict=True)
        for name, read in (*readers, (OUTCOME, self.outcome.parents)):
            if len(set(read)) < len(read) or not all(0 <= k < len(self.sizes) for k in read):
                raise InvalidWorldError(
                    f"{name!r} reads positions {read}; they must be different, from 0 to {len(self.sizes) - 1}"
                )
        for name, size, mechanism in zip(self.names, self.sizes, self._all_mechanisms, strict=True):
            if (
                isinstance(mechanism, Table | RandomTable | StateTable | Computed | Drawn)
                and mechanism.n_levels != size
            ):
                raise InvalidWorldError(f"{name!r} has {size} levels, but its mechanism is for {mechanism.n_levels}")
            if isinstance(mechanism, Table | RandomTable):
                self._check_sizes(name, mechanism.parents, mechanism.sizes)
        if isinstance(self.outcome, AdditiveOutcome | BernoulliOutcome):
            if any(k >= self.space.n_factors for k in self.outcome.parents):
                raise InvalidWorldError(
                    "an additive outcome is a sum over factors with noise that is independent of them; use a "
                    "TableOutcome for one that reads hidden variables"
                )
            self._check_sizes(OUTCOME, *zip(*((k, len(v)) for k, v in self.outcome.effects.items()), strict=True))
        elif isinstance(self.outcome, StateOutcome):
            self._check_sizes(OUTCOME, self.outcome.parents, self.outcome.sizes)

    def _check_sizes(self, name: str, parents: Sequence[int] = (), sizes: Sequence[int] = ()) -> None:
        for k, size in zip(parents, sizes, strict=True):
            if size != self.sizes[k]:
                raise InvalidWorldError(f"{name!r} reads {self.names[k]!r} with {size} levels; it has {self.sizes[k]}")

    @cached_property
    def causes(self) -> dict[str, tuple[str, ...]]:
        """The direct causes of each factor, each hidden variable and the outcome, by name."""
        names = self.names
        causes = {
            name: (*(names[k] for k in mechanism.parents), *([OUTCOME] if mechanism.reads_outcome else []))
            for name, mechanism in zip(names, self._all_mechanisms, strict=True)
        }
        return {**causes, OUTCOME: tuple(names[k] for k in self.outcome.parents)}

    @cached_property
    def arrows(self) -> Arrows:
        """The causal graph by positions."""
        return Arrows(self.space.n_factors, tuple(m.parents for m in self._all_mechanisms), self.outcome.parents)

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        """The causal graph for networkx: factors, hidden variables (`hidden` is True for them) and the outcome."""
        import networkx as nx  # takes a while to import, and sampling does not need it

        graph: nx.DiGraph[str] = nx.DiGraph()
        secret = {node.name for node in self.hidden}
        graph.add_nodes_from((name, {"hidden": name in secret}) for name in self.causes)
        graph.add_edges_from((cause, effect) for effect, causes in self.causes.items() for cause in causes)
        return graph

    @property
    def noise_sd(self) -> float:
        """A bound on the standard deviation of an outcome, and its sub-Gaussian parameter, when every factor is set.

        Hidden causes of the outcome vary where nobody looks: sqrt(sd^2 + (range / 2)^2), the range of the mean over
        their states at the worst setting of the factors (Hoeffding's lemma).
        """
        bounded = isinstance(self.outcome, BinaryOutcome | StateOutcome)  # theirs is for any mixture of their values
        if bounded or all(k < self.space.n_factors for k in self.outcome.parents):
            return self.outcome.noise_sd
        spread = 0.0
        for term in _terms(self, {}):
            table = sum_out(term, keep=range(len(self.sizes)))
            axes = tuple(axis for axis, k in enumerate(table.scope) if k >= self.space.n_factors)
            spread += float(np.ptp(table.values, axis=axes).max()) if axes else 0.0
        return math.hypot(self.outcome.noise_sd, spread / 2)

    @cached_property
    def best(self) -> tuple[Assignment, float]:
        """The best of all interventions, on any subset of the factors, and its mean; see `best_assignment`."""
        return _search(self)

    def _causal_order(self) -> tuple[int | None, ...]:
        """Positions in causal order, None where the outcome comes; of several variables that could be next, the first.

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
        return tuple(None if k == len(self.names) else k for k in order)

    def sample(self, settings: ArrayLike, rng: np.random.Generator) -> Runs:
        """One run per row of settings: a level's position is set from outside, FREE leaves the factor to nature."""
        rows = np.array(settings, dtype=np.int16, ndmin=2)
        if rows.shape[1] != self.space.n_factors:
            raise InvalidSpaceError(f"each run needs {self.space.n_factors} settings, got {rows.shape[1]}")
        if rows.size and (rows.min() < FREE or (rows >= np.asarray(self.space.n_levels)).any()):
            raise InvalidSpaceError("a setting is not a level of its factor")
        rows, outcomes = self._draw(rows, rng)
        return Runs(rows[:, : self.space.n_factors] if self.hidden else rows, outcomes)

    def _draw(self, rows: Codes, rng: np.random.Generator) -> tuple[Codes, Numbers]:
        """The rows with what nature chose, hidden variables in columns after the factors, and the outcomes."""
        natural = rows == FREE
        if self.hidden:
            unseen = np.full((len(rows), len(self.hidden)), FREE, dtype=np.int16)
            rows, natural = np.hstack([rows, unseen]), np.hstack([natural, unseen == FREE])
        if not natural[:, : self.space.n_factors].any() and max(self.outcome.parents, default=0) < self.space.n_factors:
            return rows, self.outcome.sample(rows, rng)
        outcomes: Numbers | None = None
        for k in self._order:
            if k is None:
                outcomes = self.outcome.sample(rows, rng)
            elif natural[:, k].any():
                drawn = self._all_mechanisms[k].sample(rows, outcomes, rng)
                rows[:, k] = np.where(natural[:, k], drawn, rows[:, k])
        assert outcomes is not None  # the outcome is a node of every world
        return rows, outcomes

    def observe(self, n_runs: int, rng: np.random.Generator) -> Runs:
        """Runs in which nothing is set."""
        return self.sample(np.full((n_runs, self.space.n_factors), FREE), rng)

    def intervene(self, settings: Mapping[str, Level], n_runs: int, rng: np.random.Generator) -> Runs:
        """Runs in which the named factors are set and the others left to nature: do(X = x)."""
        return self.sample(np.tile(codes_of(self, settings), (n_runs, 1)), rng)


def codes_of(world: World, settings: Intervention) -> Codes:
    """The code of each factor under an intervention: FREE for those that are not set.

    >>> from levers.worlds.named import collider_world
    >>> codes_of(collider_world(), {"X1": 2}).tolist()
    [-1, 2, -1]
    """
    space = world.space
    if isinstance(settings, Mapping):
        row = np.full(space.n_factors, FREE, dtype=np.int16)
        for name, level in settings.items():
            k = space.position(name)
            row[k] = space.factors[k].code(level)
        return row
    given = np.asarray(settings)
    if given.shape != (space.n_factors,) or given.dtype.kind not in "iu":
        raise InvalidSpaceError(
            f"an intervention is a code for each of {space.n_factors} factors ({FREE} for one left to nature), or "
            f"names with levels, not {settings!r}"
        )
    return np.array(space.assignment(given).codes, dtype=np.int16)


def mean_under(world: World, settings: Intervention) -> float:
    """E[Y | do(settings)], exact; factors that are not set follow their mechanisms, as hidden variables always do.

    The causes of the outcome that the intervention leaves free are summed out one by one.

    >>> from levers.worlds.named import coin_world, collider_world
    >>> mean_under(collider_world(), {"X0": 2, "X1": 1})
    3.0
    >>> mean_under(coin_world(n_others=0), {}), mean_under(coin_world(n_others=0), {"X": "heads"})
    (1.0, 0.5)
    """
    return _mean(world, codes_of(world, settings))


def _mean(world: World, codes: Codes) -> float:
    fixed = {k: int(code) for k, code in enumerate(codes) if code != FREE}
    if all(k in fixed for k in world.outcome.parents):
        return float(world.outcome.mean(np.maximum(codes, 0)[None, :])[0])
    return sum(float(table.values) for table in mean_tables(world, fixed, range(world.space.n_factors)))


def estimate_mean_under(world: World, settings: Intervention, n_runs: int, rng: np.random.Generator) -> Estimate:
    """E[Y | do(settings)] from simulated runs, where the exact sum is out of reach.

    What is averaged is the outcome's mean given its causes, so its own noise adds nothing to the error.

    >>> from levers.worlds.named import coin_world
    >>> estimate_mean_under(coin_world(n_others=0), {"X": "heads"}, 10_000, np.random.default_rng(0))
    Estimate(mean=0.499, standard_error=0.005..., n_runs=10000)
    """
    check_count("n_runs", n_runs, 2)
    row = codes_of(world, settings)
    parts = []
    for start in range(0, n_runs, CHUNK):
        rows, _ = world._draw(np.tile(row, (min(CHUNK, n_runs - start), 1)), rng)
        parts.append(world.outcome.mean(rows))
    means = np.concatenate(parts)
    return Estimate(float(means.mean()), float(means.std(ddof=1)) / math.sqrt(n_runs), n_runs)


def distribution_under(world: World, names: Sequence[str], settings: Intervention) -> Numbers:
    """P(names | do(settings)), exact: one axis for each name, in the order given.

    Effects of the outcome have no exact distribution here.

    >>> from levers.worlds.named import coin_world
    >>> distribution_under(coin_world(), ["X", "coin"], {}).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    if not names or len(set(names)) < len(names) or not set(names) <= set(world.names):
        raise InvalidSpaceError(f"name one or more different variables of the world, not {list(names)!r}")
    asked = [world.names.index(name) for name in names]
    fixed = {k: int(code) for k, code in enumerate(codes_of(world, settings)) if code != FREE}
    free = _free_ancestors(world, asked, fixed)
    for k in free:
        if world._all_mechanisms[k].reads_outcome:
            raise InvalidWorldError(
                f"{world.names[k]!r} is an effect of the outcome, whose distribution is not a table; sample instead"
            )
    tables = [_conditional(world, k, fixed) for k in free]
    tables += [Potential((k,), np.eye(world.sizes[k])[fixed[k]]) for k in asked if k in fixed]
    found = sum_out(tables, keep=asked)
    return found.values.transpose([found.scope.index(k) for k in asked])


def _conditional(world: World, k: int, fixed: Mapping[int, int]) -> Potential:
    try:
        return conditional(world._all_mechanisms[k], k, world.sizes, fixed)
    except InvalidWorldError as error:
        raise InvalidWorldError(f"{world.names[k]!r}: {error}") from None


def _free_ancestors(world: World, positions: Collection[int], set_: Collection[int]) -> list[int]:
    """Those of the variables, and of their causes, that follow their mechanisms."""
    found, todo = set[int](), list(positions)
    while todo:
        k = todo.pop()
        if k not in found and k not in set_:
            found.add(k)
            todo += world._all_mechanisms[k].parents
    return sorted(found)


def _terms(world: World, fixed: Mapping[int, int]) -> list[list[Potential]]:
    """The outcome's mean as a sum of products of tables over its parents that are not fixed."""
    outcome, sizes = world.outcome, world.sizes
    products = mean_products(outcome, sizes)
    if products is not None:
        return [[potential.at(fixed) for potential in term] for term in products]
    free = [k for k in outcome.parents if k not in fixed]
    check_size(math.prod(sizes[k] for k in free))
    inside = configurations([sizes[k] for k in free])
    rows = np.zeros((len(inside), len(sizes)), dtype=np.int16)
    rows[:, free] = inside
    for k, level in fixed.items():
        rows[:, k] = level
    return [[Potential.of(free, outcome.mean(rows).reshape([sizes[k] for k in free]))]]


def mean_tables(world: World, fixed: Mapping[int, int], left: Collection[int]) -> list[Potential]:
    """E[Y | do] as a sum of tables over the factors that are set, but not to a fixed level.

    `left` are the factors left to nature unless they are fixed; all others are set, and are axes of the tables.
    """
    axes = {k for k in range(world.space.n_factors) if k not in left and k not in fixed}
    tables = []
    for term in _terms(world, fixed):
        free = _free_ancestors(world, {k for potential in term for k in potential.scope}, {*axes, *fixed})
        tables.append(sum_out([*term, *(_conditional(world, k, fixed) for k in free)], axes))
    return tables


def best_assignment(world: World) -> Assignment:
    """The intervention with the largest mean, over all subsets of the factors and all their levels.

    Factors that do not matter are at their first level. A factor is left alone only where that is strictly better,
    which takes a hidden cause that it shares with the outcome, directly or by way of others (`confounded_factors`);
    without one, setting every factor is never worse (Fact 1).

    >>> from levers.worlds.named import coin_world, collider_world
    >>> best_assignment(collider_world())["X0"]
    2
    >>> best_assignment(coin_world()).free
    ('X',)
    """
    return world.best[0]


def best_mean(world: World) -> float:
    """The largest mean that any intervention has: max over subsets X and levels x of E[Y | do(X = x)].

    >>> from levers.worlds.named import coin_world
    >>> best_mean(coin_world(n_others=0))
    1.0
    """
    return world.best[1]


def _search(world: World) -> tuple[Assignment, float]:
    n_factors = world.space.n_factors
    if not world.hidden:
        best = world.outcome.best()
        codes = np.array([best.get(k, 0) for k in range(n_factors)], dtype=np.int16)
        return world.space.assignment(codes), float(world.outcome.mean(codes[None, :])[0])
    candidates = world.arrows.territory(range(n_factors))
    if 2 ** len(candidates) > MAX_SUBSETS:
        raise InvalidWorldError(
            f"{len(candidates)} factors share hidden causes with the outcome; which of them to leave alone is searched "
            f"among at most {MAX_SUBSETS:,} subsets, so hide less or use fewer factors"
        )
    found: tuple[float, dict[int, int], tuple[int, ...]] | None = None
    for size in range(len(candidates) + 1):
        for left in combinations(candidates, size):
            if world.arrows.territory(left) != left:  # a subset of it is at least as good
                continue
            value, levels = maximise(mean_tables(world, {}, left))
            if found is None or value > found[0] + ROUNDING * max(1.0, abs(found[0])):
                found = value, levels, left
    assert found is not None  # to leave nothing alone is always tried
    value, levels, left = found
    return world.space.assignment([FREE if k in left else levels.get(k, 0) for k in range(n_factors)]), value


def confounded_factors(world: World) -> tuple[str, ...]:
    """Factors that could be worth leaving alone: those in the territory of hidden causes of the outcome.

    >>> from levers.worlds.named import coin_world, shared_cause_world
    >>> confounded_factors(coin_world()), confounded_factors(shared_cause_world())
    (('X',), ())
    """
    return tuple(world.names[k] for k in world.arrows.territory(range(world.space.n_factors)))


def true_parents(world: World) -> tuple[str, ...]:
    """Names of the outcome's observed parents: the factors that it reads, itself or through hidden variables only."""
    return tuple(world.names[k] for k in sorted(world.arrows.observed_causes(world.outcome.parents)))


def gap(world: World, settings: Intervention) -> float:
    """How much worse than the best an intervention is: max_{X, x} E[Y | do(X = x)] - E[Y | do(settings)].

    The intervention is a code for each factor, an assignment, or names with levels; factors without a level, or with
    the code FREE, are left to nature.

    >>> from levers.worlds.named import coin_world, collider_world
    >>> gap(collider_world(), best_assignment(collider_world()).codes)
    0.0
    >>> gap(collider_world(), {"X0": 2, "X1": 1, "C": 0})
    1.0
    >>> gap(coin_world(n_others=0), {"X": "heads"}), gap(coin_world(n_others=0), {})
    (0.5, 0.0)
    """
    return best_mean(world) - _mean(world, codes_of(world, settings))


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
