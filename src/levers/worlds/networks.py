"""Worlds from graphs: Bayesian networks in BIF, by way of pgmpy, and networkx graphs with given or random tables."""

import gzip
import io
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Factor, Space
from levers.core.validation import check_count, check_positive
from levers.errors import InvalidSettingError, InvalidSpaceError, InvalidWorldError, to_install
from levers.worlds.mechanisms import Mechanism, RandomTable, StateTable, Table
from levers.worlds.outcome import AdditiveOutcome, Noise, Outcome, StateOutcome, TableOutcome
from levers.worlds.scm import OUTCOME, Hidden, World

if TYPE_CHECKING:
    import networkx as nx

MAX_TEXT = 50_000_000
"""The longest network, unpacked, in bytes."""
NOISE_SDS = 6
"""Effects of a random outcome tell it apart as far as this many standard deviations beyond its extreme means."""
_SUM_ERROR = 0.01  # how far from 1 the rounded probabilities of published networks may sum


def read_bif(content: bytes, outcome: str | None, values: Mapping[str, float] | None = None) -> World:
    """A world from the content of a BIF file, plain or compressed; see `network_world`. Needs the `networks` extra."""
    try:
        from pgmpy.readwrite import BIFReader  # takes seconds to import
    except ImportError as error:
        raise InvalidSettingError(f"reading a BIF network needs pgmpy: {to_install('networks')}") from error
    try:
        packed = content[:2] == b"\x1f\x8b"
        text = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_TEXT + 1) if packed else content
        if len(text) > MAX_TEXT:
            raise InvalidWorldError(f"the network is longer than the {MAX_TEXT:,} bytes that are read")
        lines = text.decode().replace("\r\n", "\n") + "\n"  # pgmpy skips a last block without a line's end
        network = BIFReader(string=lines).get_model()
    except InvalidWorldError:
        raise
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidWorldError(f"the file is not a BIF network: {error}") from None
    except Exception as error:  # pgmpy raises many kinds on a file that is not what it expects
        raise InvalidWorldError(f"the file is not a BIF network that pgmpy can read: {error!r:.200}") from error
    if not network.nodes:
        raise InvalidWorldError("the file has no nodes of a BIF network")
    return network_world(network, outcome, values)


def network_world(network: Any, outcome: str | None, values: Mapping[str, float] | None = None) -> World:
    """A world from pgmpy's DiscreteBayesianNetwork: one node is the outcome, every other one a factor.

    The outcome is a number: `values` has what each of its states is worth, their position 0, 1, ... if it is not given.
    Nodes that depend on it are factors too, effects of the outcome.

    >>> from pgmpy.factors.discrete import TabularCPD
    >>> from pgmpy.models import DiscreteBayesianNetwork
    >>> network = DiscreteBayesianNetwork([("smoke", "cough")])
    >>> smoke = TabularCPD("smoke", 2, [[0.7], [0.3]], state_names={"smoke": ["no", "yes"]})
    >>> names = {"cough": ["no", "yes"], "smoke": ["no", "yes"]}
    >>> network.add_cpds(smoke, TabularCPD("cough", 2, [[0.9, 0.4], [0.1, 0.6]], ["smoke"], [2], state_names=names))
    >>> world = network_world(network, "cough")
    >>> from levers.worlds.scm import best_assignment, mean_under
    >>> dict(best_assignment(world)), mean_under(world, {})
    ({'smoke': 'yes'}, 0.25)
    """
    nodes = [str(node) for node in network.nodes]
    if outcome is None or outcome not in nodes:
        ends = sorted(str(node) for node in network.nodes if not list(network.successors(node)))
        said = "say which node is the outcome" if outcome is None else f"the network has no node {outcome!r}"
        raise InvalidWorldError(f"{said}; those without effects are {', '.join(ends)}")
    names = [node for node in nodes if node != outcome]
    if OUTCOME in names:
        raise InvalidWorldError(f"the node {OUTCOME!r} is not the outcome, but has its name; rename it")
    if not names:
        raise InvalidWorldError("the network has no node but the outcome, so there is nothing to set")
    tables = {node: _network_table(network, node) for node in nodes}
    factors = []
    for name in names:
        try:
            factors.append(Factor(name, tables[name][2]))
        except InvalidSpaceError as error:
            raise InvalidWorldError(f"node {name!r}: {error}") from None
    space = Space(factors)
    worth = _state_values(outcome, tables[outcome][2], values)
    mechanisms = []
    for name in names:
        read, cells, _ = tables[name]
        if outcome in read:  # the outcome's state is the last parent of a table
            place = read.index(outcome)
            read, cells = [*read[:place], *read[place + 1 :], outcome], np.moveaxis(cells, place, len(read) - 1)
        positions = tuple(space.position(parent) for parent in read if parent != outcome)
        sizes = tuple(space.n_levels[k] for k in positions)
        bins = (0, len(worth) - 1) if outcome in read else None
        table = Table(cells.reshape(-1, cells.shape[-1]), positions, sizes, bins)
        mechanisms.append(StateTable(table, worth) if bins else table)
    read, cells, _ = tables[outcome]
    positions = tuple(space.position(parent) for parent in read)
    sizes = tuple(space.n_levels[k] for k in positions)
    return World(space, mechanisms, StateOutcome(cells.reshape(-1, len(worth)), worth, positions, sizes))


def _network_table(network: Any, node: str) -> tuple[list[str], NDArray[np.float64], list[str]]:
    """A node's parents, its probabilities with an axis for each parent and the node's own last, and its states."""
    cpd = network.get_cpds(node)
    if cpd is None:
        raise InvalidWorldError(f"node {node!r} has no table of probabilities")
    read = [str(variable) for variable in cpd.variables[1:]]
    cells = np.moveaxis(np.asarray(cpd.values, dtype=np.float64), 0, -1)
    sums = cells.sum(axis=-1, keepdims=True)
    if (cells < 0).any() or not np.allclose(sums, 1.0, atol=_SUM_ERROR):
        raise InvalidWorldError(f"node {node!r}: every row of its table must be non-negative and sum to 1")
    return read, cells / sums, [str(state) for state in cpd.state_names[node]]


def _state_values(outcome: str, states: Sequence[str], values: Mapping[str, float] | None) -> tuple[float, ...]:
    if values is None:
        return tuple(float(position) for position in range(len(states)))
    if set(values) != set(states):
        raise InvalidWorldError(f"the states of {outcome!r} are {', '.join(states)}; give each a value")
    return tuple(float(values[state]) for state in states)


def graph_world(
    graph: "nx.DiGraph[str]",
    rng: np.random.Generator,
    *,
    outcome: str = OUTCOME,
    n_levels: int = 3,
    outcome_bound: float = 5.0,
    noise_sd: float = 1.0,
) -> World:
    """A world on a networkx graph. What its nodes do not say is random, as in the paper's worlds.

    Attributes of a node: `levels`, a list (1 to `n_levels`); `hidden`, true for one that is neither seen nor set;
    `table`, a row of probabilities for each configuration of its parents in the order of its edges, the last varying
    fastest (Beta(2, 5), a root's Dirichlet(0.5)). The outcome's node may have `effects`, a mapping from each parent to
    numbers (outcome_bound * Beta(2, 5)). Its effects read it rounded to whole numbers, and their tables are random.

    >>> import networkx as nx
    >>> world = graph_world(nx.DiGraph([("a", "b"), ("b", "Y"), ("Y", "c")]), np.random.default_rng(0))
    >>> world.space.names, world.causes["c"], world.outcome.parents
    (('a', 'b', 'c'), ('Y',), (1,))
    """
    check_count("n_levels", n_levels, 2)
    check_positive("outcome_bound", outcome_bound)
    if outcome not in graph:
        raise InvalidWorldError(f"the graph has no node {outcome!r} for the outcome; name it with outcome=")
    nodes = [node for node in graph if node != outcome]
    if not all(isinstance(node, str) for node in nodes):
        raise InvalidWorldError("the graph's nodes must be texts, the names of variables; see networkx.relabel_nodes")
    if OUTCOME in nodes:
        raise InvalidWorldError(f"the node {OUTCOME!r} is not the outcome, but has its name; rename it")
    names = sorted(nodes, key=lambda name: bool(graph.nodes[name].get("hidden", False)))  # hidden ones last
    place = {name: k for k, name in enumerate(names)}
    variables = []
    for name in names:
        try:
            variables.append(Factor(name, graph.nodes[name].get("levels", range(1, n_levels + 1))))
        except InvalidSpaceError as error:
            raise InvalidWorldError(f"node {name!r}: {error}") from None
    sizes = [variable.n_levels for variable in variables]
    effects = _graph_effects(graph, outcome, dict(zip(names, sizes, strict=True)), outcome_bound, rng)
    made: Outcome = AdditiveOutcome({place[name]: values for name, values in effects.items()}, Noise(noise_sd))
    if any(graph.nodes[name].get("hidden", False) for name in effects):
        made = TableOutcome({(place[name],): values for name, values in effects.items()}, Noise(noise_sd))
    bins = _bins(list(effects.values()), noise_sd)
    mechanisms: list[Mechanism] = []
    for k, name in enumerate(names):
        causes = [str(cause) for cause in graph.predecessors(name)]
        read = tuple(place[cause] for cause in causes if cause != outcome)
        of = tuple(sizes[p] for p in read)
        seed = int(rng.integers(2**63))
        given = graph.nodes[name].get("table")
        if given is None:
            mechanisms.append(RandomTable(sizes[k], read, of, bins if outcome in causes else None, seed))
            continue
        if outcome in causes:
            raise InvalidWorldError(f"node {name!r} is an effect of the outcome; its table is random")
        try:
            mechanisms.append(Table(np.asarray(given, dtype=np.float64).reshape(-1, sizes[k]), read, of))
        except ValueError as error:
            raise InvalidWorldError(f"node {name!r}: {error}") from None
    n_factors = sum(not graph.nodes[name].get("hidden", False) for name in names)
    hidden = [Hidden(names[k], sizes[k], mechanisms[k]) for k in range(n_factors, len(names))]
    return World(Space(variables[:n_factors]), mechanisms[:n_factors], made, hidden)


def _graph_effects(
    graph: "nx.DiGraph[str]", outcome: str, sizes: Mapping[str, int], bound: float, rng: np.random.Generator
) -> dict[str, tuple[float, ...]]:
    """Additive effects of the outcome's parents, given or random."""
    parents = [str(cause) for cause in graph.predecessors(outcome)]
    given = graph.nodes[outcome].get("effects")
    if given is None:
        return {name: tuple((bound * rng.beta(2, 5, size=sizes[name])).tolist()) for name in parents}
    if set(given) != set(parents):
        raise InvalidWorldError(f"the outcome's effects must be of its parents: {', '.join(parents)}")
    return {name: tuple(float(value) for value in given[name]) for name in parents}


def _bins(effects: Iterable[Sequence[float]], noise_sd: float) -> tuple[int, int]:
    """The whole numbers that effects of the outcome tell apart; outcomes beyond them are clipped."""
    low, high = sum(min(values) for values in effects), sum(max(values) for values in effects)
    return math.floor(low - NOISE_SDS * noise_sd), math.ceil(high + NOISE_SDS * noise_sd)
