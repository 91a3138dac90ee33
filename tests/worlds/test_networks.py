"""Bayesian networks and graphs as worlds: read, sampled, exact, and the same as pgmpy's own answers."""

import gzip
import json
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from levers.cli.app import app
from levers.errors import InvalidWorldError
from levers.worlds.facts import check_fact_2
from levers.worlds.files import load_world
from levers.worlds.mechanisms import StateTable
from levers.worlds.networks import graph_world, network_world, read_bif
from levers.worlds.outcome import AdditiveOutcome, TableOutcome
from levers.worlds.scm import World, best_assignment, best_mean, confounded_factors, gap, mean_under, true_parents

Tables = Mapping[str, tuple[Sequence[str], Sequence[str], NDArray[np.float64]]]
"""Of each node: its states, its parents, and a row of probabilities for each configuration of these."""


def bif(tables: Tables) -> str:
    """A network in the interchange format."""
    lines = ["network unknown {", "}"]
    for name, (states, _, _) in tables.items():
        lines += [f"variable {name} {{", f"  type discrete [ {len(states)} ] {{ {', '.join(states)} }};", "}"]
    for name, (_, parents, cells) in tables.items():
        if not parents:
            lines += [f"probability ( {name} ) {{", f"  table {', '.join(map(repr, cells[0].tolist()))};", "}"]
            continue
        lines.append(f"probability ( {name} | {', '.join(parents)} ) {{")
        places = np.ndindex(*(len(tables[parent][0]) for parent in parents))
        for row, place in zip(cells.tolist(), places, strict=True):
            states = [tables[parent][0][level] for parent, level in zip(parents, place, strict=True)]
            lines.append(f"  ({', '.join(states)}) {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def random_network(n_nodes: int, seed: int, reach: int = 6) -> Tables:
    """A network of 2 to 4 states a node, each with up to 3 parents among the few nodes before it."""
    rng = np.random.default_rng(seed)
    tables: dict[str, tuple[list[str], list[str], NDArray[np.float64]]] = {}
    for k in range(n_nodes):
        states = [f"s{j}" for j in range(int(rng.integers(2, 5)))]
        before = list(tables)[-reach:]
        parents = rng.choice(before, size=min(len(before), int(rng.integers(0, 4))), replace=False).tolist()
        n_rows = int(np.prod([len(tables[parent][0]) for parent in parents], dtype=np.int64))
        tables[f"N{k}"] = (states, parents, rng.dirichlet(np.ones(len(states)), size=n_rows))
    return tables


YES_NO = ("no", "yes")
ASIA: Tables = {  # the structure of Lauritzen and Spiegelhalter's example, with other numbers
    "asia": (YES_NO, (), np.array([[0.98, 0.02]])),
    "smoke": (YES_NO, (), np.array([[0.6, 0.4]])),
    "tub": (YES_NO, ("asia",), np.array([[0.985, 0.015], [0.9, 0.1]])),
    "lung": (YES_NO, ("smoke",), np.array([[0.98, 0.02], [0.88, 0.12]])),
    "bronc": (YES_NO, ("smoke",), np.array([[0.75, 0.25], [0.45, 0.55]])),
    "either": (YES_NO, ("tub", "lung"), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])),
    "xray": (YES_NO, ("either",), np.array([[0.94, 0.06], [0.03, 0.97]])),
    "dysp": (YES_NO, ("either", "bronc"), np.array([[0.92, 0.08], [0.25, 0.75], [0.35, 0.65], [0.12, 0.88]])),
}


@cache
def read(text: str) -> Any:
    """pgmpy's own network; reading one takes it a second."""
    logging.getLogger("pgmpy").setLevel(logging.ERROR)
    from pgmpy.readwrite import BIFReader

    return BIFReader(string=text).get_model()


def made(tables: Tables) -> Any:
    """The same without a file."""
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    network = DiscreteBayesianNetwork()
    network.add_nodes_from(tables)
    for name, (states, parents, cells) in tables.items():
        network.add_edges_from((parent, name) for parent in parents)
        names = {node: list(tables[node][0]) for node in (name, *parents)}
        sizes = [len(names[parent]) for parent in parents]
        network.add_cpds(TabularCPD(name, len(states), cells.T, list(parents), sizes, state_names=names))
    return network


def pgmpy_mean(network: Any, outcome: str, done: Mapping[str, str]) -> float:
    """What pgmpy's own inference says, states worth their positions."""
    from pgmpy.inference import VariableElimination

    there = network.do(list(done)) if done else network
    found = VariableElimination(there).query([outcome], evidence=dict(done), show_progress=False)
    order = [found.state_names[outcome].index(state) for state in sorted(found.state_names[outcome])]
    return float(found.values[order] @ np.arange(len(order)))


def test_asia_is_a_world(tmp_path: Path) -> None:
    text = bif(ASIA)
    (tmp_path / "asia.bif").write_text(text)
    world = load_world(tmp_path / "asia.bif", "dysp")
    assert world.space.n_factors == 7
    assert true_parents(world) == ("bronc", "either")
    assert best_mean(world) == 0.88
    assert dict(best_assignment(world))["bronc"] == "yes"
    assert gap(world, {**dict.fromkeys(world.space.names, "no")}) == pytest.approx(0.8)
    assert world.noise_sd == 0.5
    for done in ({}, {"smoke": "yes"}, {"either": "no"}, {"lung": "yes", "bronc": "no"}):
        assert mean_under(world, done) == pytest.approx(pgmpy_mean(read(text), "dysp", done))
    runs = world.observe(100_000, np.random.default_rng(0))
    assert set(runs.outcomes.tolist()) == {0.0, 1.0}
    assert runs.outcomes.mean() == pytest.approx(mean_under(world, {}), abs=0.008)
    assert check_fact_2(world).holds


def test_effects_of_the_outcome_are_factors(tmp_path: Path) -> None:
    """With `either` as the outcome, its effects read its state, whatever that is worth; setting them does nothing."""
    (tmp_path / "asia.bif.gz").write_bytes(gzip.compress(bif(ASIA).encode()))
    world = load_world(tmp_path / "asia.bif.gz", "either")
    assert world.causes["dysp"] == ("bronc", "Y")
    assert mean_under(world, {"xray": "yes"}) == pytest.approx(mean_under(world, {}))
    valued = network_world(made(ASIA), "either", {"no": 40.0, "yes": -2.5})
    dyspnoea = valued.mechanisms[valued.space.position("dysp")]
    assert isinstance(dyspnoea, StateTable)
    runs = valued.observe(100_000, np.random.default_rng(1))
    codes = {name: runs.codes[:, k] == 1 for k, name in enumerate(valued.space.names)}
    assert set(runs.outcomes.tolist()) == {40.0, -2.5}
    sick = runs.outcomes == -2.5
    assert (sick == (codes["tub"] | codes["lung"])).all()
    for either, bronc, share in ((False, False, 0.08), (False, True, 0.75), (True, False, 0.65), (True, True, 0.88)):
        among = (sick == either) & (codes["bronc"] == bronc)
        assert codes["dysp"][among].mean() == pytest.approx(share, abs=5 * 0.5 / among.sum() ** 0.5)
    assert dict(best_assignment(valued))["tub"] == dict(best_assignment(valued))["lung"] == "no"
    assert best_mean(valued) == 40.0
    with pytest.raises(InvalidWorldError, match="must differ"):
        network_world(made(ASIA), "either", {"no": 1.0, "yes": 1.0})
    with pytest.raises(InvalidWorldError, match="the states of 'either' are no, yes"):
        network_world(made(ASIA), "either", {"no": 1.0})


@pytest.mark.parametrize(("n_nodes", "outcome"), [(27, "N20"), (37, "N36")], ids=["insurance-sized", "alarm-sized"])
def test_networks_of_real_size_are_read_sampled_and_exact(n_nodes: int, outcome: str) -> None:
    tables = random_network(n_nodes, seed=n_nodes)
    text = bif(tables)
    world = network_world(read(text), outcome)
    assert world.space.n_factors == n_nodes - 1
    states, parents, cells = tables[outcome]
    means = cells @ np.arange(len(states))
    assert set(true_parents(world)) == set(parents)
    assert len(parents) >= 2
    assert best_mean(world) == pytest.approx(means.max())
    assert gap(world, [0] * (n_nodes - 1)) == pytest.approx(means.max() - means[0])
    first = {"N0": "s1", parents[0]: "s0"}
    for done in ({}, first):
        assert mean_under(world, done) == pytest.approx(pgmpy_mean(read(text), outcome, done), abs=1e-9)
    runs = world.observe(100_000, np.random.default_rng(0))
    assert runs.outcomes.mean() == pytest.approx(mean_under(world, {}), abs=5 * runs.outcomes.std() / 100_000**0.5)


@pytest.mark.parametrize(
    "tables",
    [ASIA, random_network(27, 1), random_network(37, 2)],
    ids=["asia", "as large as insurance", "as large as alarm"],
)
def test_algorithms_are_compared_on_networks(tmp_path: Path, tables: Tables) -> None:
    outcome = max(tables, key=lambda name: len(tables[name][1]))
    path = tmp_path / "network.bif"
    path.write_text(bif(tables))
    command = f"compare --world {path} --outcome {outcome} --repeats 2 --workers 1 --tolerance 0.4 --format json"
    done = CliRunner().invoke(app, [*command.split(), "--algorithms", "cfs,modl,parents-first,oracle"])
    assert done.exit_code == 0, done.output
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)}
    assert list(rows) == ["cfs", "modl", "parents-first", "oracle"]
    for name in ("modl", "oracle"):
        assert rows[name]["gap_mean"] <= 0.4, name
    assert rows["cfs"]["runs_mean"] < rows["modl"]["runs_mean"]


def test_wrong_networks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidWorldError, match="say which node is the outcome; those without effects are dysp, xray"):
        network_world(made(ASIA), None)
    with pytest.raises(InvalidWorldError, match="no node 'disp'; those without effects are dysp, xray"):
        network_world(made(ASIA), "disp")
    (tmp_path / "x.bif").write_text("variable {")
    with pytest.raises(InvalidWorldError, match="BIF network"):
        load_world(tmp_path / "x.bif", "a")
    with pytest.raises(InvalidWorldError, match="BIF network"):
        read_bif(b"\x1f\x8bnot gzip", "a")
    with pytest.raises(InvalidWorldError, match="'Y' is not the outcome, but has its name"):
        network_world(made({"Y": (YES_NO, (), np.eye(2)[:1]), "Z": (YES_NO, ("Y",), np.eye(2))}), "Z")
    with pytest.raises(InvalidWorldError, match="'a': factor 'a' has 1 level"):
        network_world(made({"a": (("on",), (), np.ones((1, 1))), "b": (YES_NO, ("a",), np.eye(2)[:1])}), "b")
    with pytest.raises(InvalidWorldError, match="no node but the outcome"):
        network_world(made({"a": (YES_NO, (), np.eye(2)[:1])}), "a")


def test_a_network_without_a_table_is_refused() -> None:
    from pgmpy.models import DiscreteBayesianNetwork

    with pytest.raises(InvalidWorldError, match="'a' has no table"):
        network_world(DiscreteBayesianNetwork([("a", "b")]), "b")


def test_a_graph_is_a_world() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph([("U", "a"), ("U", "b"), ("a", "Y"), ("b", "Y"), ("Y", "c"), ("b", "c")])
    graph.nodes["U"].update(hidden=True, levels=["left", "right"], table=[[0.25, 0.75]])
    graph.nodes["a"].update(levels=["low", "high"], table=[[0.9, 0.1], [0.3, 0.7]])
    graph.nodes["Y"]["effects"] = {"a": [0.0, 2.0], "b": [1.0, 0.0, 0.5]}
    world = graph_world(graph, np.random.default_rng(0))
    assert world.space.names == ("a", "b", "c")
    assert set(world.graph.edges) == set(graph.edges)
    assert isinstance(world.outcome, AdditiveOutcome)
    assert best_assignment(world).codes == (1, 0, 0)
    assert mean_under(world, {"b": 2}) == pytest.approx(2.0 * (0.25 * 0.1 + 0.75 * 0.7))
    assert world.observe(100, np.random.default_rng(1)).codes.shape == (100, 3)

    del graph.nodes["Y"]["effects"]
    graph.add_edge("U", "Y")
    random = graph_world(graph, np.random.default_rng(5), outcome_bound=2.0)
    assert isinstance(random.outcome, TableOutcome)
    assert confounded_factors(random) == ("a", "b")
    assert best_assignment(random).free == ()  # additive in the hidden cause: nothing is gained by leaving alone
    same = graph_world(graph, np.random.default_rng(5), outcome_bound=2.0)
    assert mean_under(random, {}) == mean_under(same, {})


def changed(**attributes: object) -> World:
    graph: nx.DiGraph[str] = nx.DiGraph([("a", "b"), ("b", "Y"), ("Y", "c")])
    for node, value in attributes.items():
        graph.nodes[node].update(value)
    return graph_world(graph, np.random.default_rng(0))


def test_wrong_graphs_are_refused() -> None:
    with pytest.raises(InvalidWorldError, match="node 'b': a table for parents of sizes"):
        changed(b={"table": [[0.5, 0.5, 0.0]]})
    with pytest.raises(InvalidWorldError, match="node 'a': cannot reshape"):
        changed(a={"table": [0.5, 0.5]})
    with pytest.raises(InvalidWorldError, match="node 'a': factor 'a' has 1 level"):
        changed(a={"levels": [1]})
    with pytest.raises(InvalidWorldError, match="'c' is an effect of the outcome"):
        changed(c={"table": [[0.5, 0.5, 0.0]]})
    with pytest.raises(InvalidWorldError, match="must be of its parents: b"):
        changed(Y={"effects": {"a": [1.0]}})
    with pytest.raises(InvalidWorldError, match="'Y' reads 'b' with 1 levels"):
        changed(Y={"effects": {"b": [1.0]}})
    with pytest.raises(InvalidWorldError, match="no node 'Y' for the outcome"):
        graph_world(nx.DiGraph([("a", "b")]), np.random.default_rng(0))
    with pytest.raises(InvalidWorldError, match="nodes must be texts"):
        graph_world(nx.DiGraph([(1, "Y")]), np.random.default_rng(0))
    with pytest.raises(InvalidWorldError, match="in a circle"):
        graph_world(nx.DiGraph([("a", "b"), ("b", "a"), ("a", "Y")]), np.random.default_rng(0))
