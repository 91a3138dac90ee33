import logging
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from levers.core.space import FREE, Space
from levers.errors import InvalidSettingError, InvalidSpaceError, InvalidWorldError
from levers.worlds.graph import draw_graph
from levers.worlds.mechanisms import Computed, RandomTable, Table
from levers.worlds.named import collider_world, even_table, factory_line, needle_world, rare_level_world
from levers.worlds.outcome import AdditiveOutcome, FunctionOutcome, Interaction, NeedleOutcome, Noise
from levers.worlds.scm import World, best_assignment, gap, mean_under, true_parents


def chain_world(sd: float = 1.0) -> World:
    """X1 -> X2 -> Y -> X4, X1 -> X3, and X3 -> Y."""
    spec = Table(np.array([[0.7, 0.3], [0.2, 0.8]]), parents=(0,), sizes=(2,))
    three = Table(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]), parents=(0,), sizes=(2,))
    echo = Table(np.array([[0.9, 0.1], [0.1, 0.9]]), bins=(0, 1))
    root = Table(np.array([[0.6, 0.4]]))
    outcome = AdditiveOutcome({1: (0.0, 1.0), 2: (0.5, -1.0, 2.0)}, Noise(sd))
    return World(Space.sized([2, 2, 3, 2]), [root, spec, three, echo], outcome)


def test_graph_order_and_parents() -> None:
    world = chain_world()
    assert set(world.graph.edges) == {("X1", "X2"), ("X1", "X3"), ("X2", "Y"), ("X3", "Y"), ("Y", "X4")}
    assert true_parents(world) == ("X2", "X3")


def test_observational_frequencies_agree_with_pgmpy() -> None:
    """pgmpy answers queries on the same network, with and without do(X1): sampling must agree."""
    logging.getLogger("pgmpy").setLevel(logging.ERROR)
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import CausalInference, VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    world = chain_world()
    network = DiscreteBayesianNetwork([("X1", "X2"), ("X1", "X3")])
    tables = [m.cells.T for m in world.mechanisms[:3] if isinstance(m, Table)]
    network.add_cpds(
        TabularCPD("X1", 2, tables[0]),
        TabularCPD("X2", 2, tables[1], evidence=["X1"], evidence_card=[2]),
        TabularCPD("X3", 3, tables[2], evidence=["X1"], evidence_card=[2]),
    )
    n = 200_000
    seen = world.observe(n, np.random.default_rng(1))
    joint = VariableElimination(network).query(["X2", "X3"], show_progress=False)
    exact = joint.values if joint.variables == ["X2", "X3"] else joint.values.T
    counted = np.bincount(3 * seen.codes[:, 1] + seen.codes[:, 2], minlength=6).reshape(2, 3) / n
    np.testing.assert_allclose(counted, exact, atol=5 * np.sqrt(0.25 / n))

    done = world.intervene({"X1": 2}, n, np.random.default_rng(2))
    causal = CausalInference(network).query(["X3"], do={"X1": 1}, show_progress=False)
    np.testing.assert_allclose(np.bincount(done.codes[:, 2]) / n, causal.values, atol=5 * np.sqrt(0.25 / n))
    after = CausalInference(network).query(["X2"], do={"X1": 1}, show_progress=False)
    expected = float(np.dot(after.values, [0.0, 1.0]) + np.dot(causal.values, [0.5, -1.0, 2.0]))
    assert mean_under(world, {"X1": 2}) == pytest.approx(expected)


def test_means_of_samples_agree_with_exact_means() -> None:
    world = chain_world()
    n = 100_000
    for seed, settings in enumerate([{}, {"X1": 1}, {"X1": 2, "X3": 3}, {"X2": 1, "X3": 2, "X1": 1, "X4": 1}]):
        sampled = world.intervene(settings, n, np.random.default_rng(seed)).outcomes
        assert sampled.mean() == pytest.approx(mean_under(world, settings), abs=5 * sampled.std() / np.sqrt(n))


def test_each_row_may_be_set_differently() -> None:
    world = chain_world(sd=1e-9)
    settings = np.array([[0, 1, 2, 1], [1, FREE, 0, 0], [FREE, 0, FREE, FREE]], dtype=np.int16)
    runs = world.sample(settings, np.random.default_rng(0))
    kept = settings != FREE
    assert (runs.codes[kept] == settings[kept]).all()
    assert (runs.codes >= 0).all()
    np.testing.assert_allclose(runs.outcomes, world.outcome.mean(runs.codes), atol=1e-6)
    assert (settings[2] == [FREE, 0, FREE, FREE]).all()  # the caller's rows are not changed


def test_an_effect_of_the_outcome_reads_it_rounded_and_clipped() -> None:
    low = World(Space.sized([2]), [Table(np.eye(2), bins=(0, 1))], NeedleOutcome({}, 0.0, Noise(1e-9)))
    assert (low.observe(50, np.random.default_rng(0)).codes == 0).all()
    high = World(Space.sized([2, 2]), [even_table(2), Table(np.eye(2), bins=(0, 1))], AdditiveOutcome({0: (9.0, 9.0)}))
    assert (high.observe(50, np.random.default_rng(0)).codes[:, 1] == 1).all()


def test_setting_all_factors_cuts_every_arrow() -> None:
    """Under a global intervention the mean depends on the parents only (Fact 1.2 of the paper)."""
    world = chain_world()
    for x1 in (1, 2):
        for x4 in (1, 2):
            assert mean_under(world, {"X1": x1, "X2": 2, "X3": 3, "X4": x4}) == 3.0


def test_wrong_settings_and_worlds_are_refused() -> None:
    world = chain_world()
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidSpaceError, match="needs 4 settings"):
        world.sample([[0, 0]], rng)
    for bad in (2, -2):
        with pytest.raises(InvalidSpaceError, match="not a level"):
            world.sample([[bad, 0, 0, 0]], rng)
    with pytest.raises(InvalidSpaceError, match="not a level of factor 'X1'"):
        world.intervene({"X1": 9}, 1, rng)
    loop = Table(np.full((2, 2), 0.5), parents=(1,), sizes=(2,))
    back = Table(np.full((2, 2), 0.5), parents=(0,), sizes=(2,))
    with pytest.raises(InvalidWorldError, match="in a circle"):
        World(Space.sized([2, 2]), [loop, back], AdditiveOutcome({0: (0.0, 1.0)}))
    with pytest.raises(InvalidWorldError, match="as many mechanisms"):
        World(Space.sized([2, 2]), [loop], AdditiveOutcome({0: (0.0, 1.0)}))
    with pytest.raises(InvalidWorldError, match="called 'Y'"):
        World(Space.of({"Y": [1, 2]}), [even_table(2)], AdditiveOutcome({0: (0.0, 1.0)}))
    with pytest.raises(InvalidWorldError, match="sum to 1"):
        Table(np.array([[0.5, 0.4]]))
    with pytest.raises(InvalidWorldError, match="needs 4 rows"):
        Table(np.array([[0.5, 0.5]]), parents=(0,), sizes=(4,))
    with pytest.raises(InvalidWorldError, match="parents of the outcome only"):
        AdditiveOutcome({0: (0.0, 1.0)}, interactions=(Interaction(1.0, (0, 1)),))
    with pytest.raises(InvalidSettingError, match="noise must be one of"):
        Noise(1.0, "cauchy")
    with pytest.raises(InvalidSettingError, match="n_parents"):
        needle_world([2, 2], 3, 1.0, rng)


def test_too_many_configurations_are_refused_before_memory_is() -> None:
    sizes = [6] * 12
    outcome = AdditiveOutcome(dict.fromkeys(range(12), (0.0,) * 6))
    world = World(Space.sized(sizes), [even_table(6)] * 12, outcome)
    assert mean_under(world, {}) == 0.0  # an additive mean needs each factor's own distribution only
    whole = FunctionOutcome(lambda rows: rows.sum(axis=1), parents=tuple(range(12)), sizes=(6,) * 12)
    with pytest.raises(InvalidWorldError, match=r"2,176,782,336 configurations.*estimate_mean_under"):
        mean_under(World(Space.sized(sizes), [even_table(6)] * 12, whole), {})
    tied = AdditiveOutcome(dict.fromkeys(range(12), (0.0,) * 6), interactions=(Interaction(1.0, tuple(range(12))),))
    with pytest.raises(InvalidWorldError, match="12 interacting parents"):
        tied.best()
    with pytest.raises(InvalidWorldError, match="max_in_degree"):
        RandomTable(6, parents=tuple(range(9)), sizes=(6,) * 9, bins=(0, 40))


@pytest.mark.parametrize("kind", ["gaussian", "uniform", "two-point"])
def test_noise_has_the_stated_variance(kind: str) -> None:
    drawn = Noise(2.0, kind).sample(200_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(0.0, abs=0.03)
    assert drawn.var() == pytest.approx(4.0, rel=0.02)


def brute_force_best(outcome: AdditiveOutcome, sizes: list[int]) -> float:
    rows: NDArray[np.int16] = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1).astype(np.int16)
    return float(outcome.mean(rows).max())


@pytest.mark.parametrize("seed", range(5))
def test_the_best_assignment_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [3, 4, 2, 3, 2]
    effects = {k: tuple(rng.normal(size=m)) for k, m in enumerate(sizes)}
    for terms in ((), (Interaction(0.3, (0, 1, 2)), Interaction(-0.5, (2, 3)))):
        outcome = AdditiveOutcome(effects, interactions=terms)
        world = World(Space.sized(sizes), [even_table(m) for m in sizes], outcome)
        best = mean_under(world, best_assignment(world))
        assert best == pytest.approx(brute_force_best(outcome, sizes))
        assert gap(world, (0, 0, 0, 0, 0)) == pytest.approx(best - mean_under(world, world.space.assignment([0] * 5)))


def test_the_named_worlds_are_what_they_say() -> None:
    assert gap(collider_world(), (2, 2, 0)) == 0.0
    assert gap(collider_world(), (0, 2, 0)) == 2.0
    assert rare_level_world().mechanisms[0].probabilities(np.zeros((1, 2), dtype=np.int16))[0, 2] == 1e-4
    line = factory_line()
    assert len(true_parents(line)) == 5
    assert nx.has_path(line.graph, "Y", "inspection")
    needle = needle_world([3, 3, 3], 2, 0.7, np.random.default_rng(1))
    assert mean_under(needle, best_assignment(needle)) == 0.7
    assert mean_under(needle, {}) == 0.0  # left to nature, the needle never shows
    assert needle.observe(1000, np.random.default_rng(0)).codes.shape == (1000, 3)


def test_computed_factors_have_probabilities_too() -> None:
    double = Computed(3, lambda rows, y: rows[:, 0] * 2.0, parents=(0,))
    np.testing.assert_array_equal(
        double.probabilities(np.array([[0], [1]], dtype=np.int16)), [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    )


def test_the_graph_is_drawn_to_a_file(tmp_path: Path) -> None:
    for name in ("g.png", "g.svg"):
        assert draw_graph(chain_world(), tmp_path / name).stat().st_size > 2000
    drawn = (tmp_path / "g.svg").read_text()
    assert drawn.count("#e69f00") >= 1  # the outcome
    assert drawn.count("#56b4e9") >= 2  # its two parents
    with pytest.raises(InvalidSettingError, match=r"\.png, \.svg or \.pdf"):
        draw_graph(chain_world(), tmp_path / "g.txt")
