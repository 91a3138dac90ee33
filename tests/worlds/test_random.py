import numpy as np
import pytest

from levers.errors import InvalidSettingError, InvalidWorldError, LeversError
from levers.worlds.mechanisms import RandomTable
from levers.worlds.outcome import AdditiveOutcome, BernoulliOutcome
from levers.worlds.random import random_world

SIZES_OF_SEED_11 = (3, 3, 6, 4)
EFFECTS_OF_SEED_11 = {
    0: (1.3044310303863047, 1.7768420779130791, 2.82053909802861),
    3: (1.1597916558902575, 0.5210014678867557, 0.9978445061882119, 0.7599117030945614),
}
TABLES_OF_SEED_11 = [2002839165325795488, 305060146684689967, 1851766757679169026, 3188961270599761208]


def test_degree_levels_effects_and_children_follow_the_paper() -> None:
    edges: list[int] = []
    levels: list[int] = []
    effects: list[float] = []
    child_share: list[int] = []
    for seed in range(200):
        world = random_world(10, 3, np.random.default_rng(seed))
        graph = world.graph.subgraph(world.space.names)
        edges.append(graph.number_of_edges())
        levels += world.space.n_levels
        assert isinstance(world.outcome, AdditiveOutcome)
        effects += [v for values in world.outcome.effects.values() for v in values]
        assert len(world.outcome.parents) == 3
        child_share.append(sum(m.reads_outcome for m in world.mechanisms))
    assert np.mean(edges) == pytest.approx(15.0, abs=float(5 * np.std(edges) / np.sqrt(200)))  # K * degree / 2
    assert set(levels) == {3, 4, 5, 6}
    assert np.bincount(levels)[3:] == pytest.approx([500] * 4, rel=0.2)
    assert np.mean(effects) == pytest.approx(5.0 * 2 / 7, rel=0.05)  # mean of 5 Beta(2, 5)
    assert 0 < min(effects) < max(effects) < 5
    assert np.mean(child_share) > 0.5


def test_half_of_the_later_factors_are_effects_of_the_outcome() -> None:
    """With one parent, on average half of the others come after the outcome, and half of those are its effects."""
    shares = []
    for seed in range(400):
        world = random_world(9, 1, np.random.default_rng(seed), degree=0.0)
        shares.append(sum(m.reads_outcome for m in world.mechanisms) / 8)
    assert np.mean(shares) == pytest.approx(0.25, abs=float(5 * np.std(shares) / 20))


def test_no_effect_of_the_outcome_when_all_are_parents() -> None:
    world = random_world(6, 6, np.random.default_rng(0))
    assert not any(m.reads_outcome for m in world.mechanisms)


def test_same_seed_same_world() -> None:
    a, b = (random_world(8, 3, np.random.default_rng(5)) for _ in range(2))
    assert a.outcome == b.outcome
    assert set(a.graph.edges) == set(b.graph.edges)
    one, two = (w.observe(100, np.random.default_rng(1)) for w in (a, b))
    assert (one.codes == two.codes).all()


def test_roots_and_tables_have_the_stated_distributions() -> None:
    roots = np.array([RandomTable(4, seed=s).table.cells[0] for s in range(2000)])
    np.testing.assert_allclose(roots.mean(axis=0), 0.25, atol=0.03)
    np.testing.assert_allclose(
        roots.var(axis=0), 0.25 * 0.75 / 3, rtol=0.1
    )  # Dirichlet(0.5): variance a(A-a)/A^2/(A+1)
    cells = RandomTable(3, parents=(0,), sizes=(5000,), seed=1).table.cells
    np.testing.assert_allclose(cells.sum(axis=1), 1.0)
    assert cells.var() < roots.var() / 2  # normalised Beta(2, 5) rows are far from the corners


def test_min_effect_and_in_degree_are_kept() -> None:
    for seed in range(30):
        world = random_world(12, 4, np.random.default_rng(seed), degree=8.0, max_in_degree=3, min_effect=1.5)
        assert max(len(m.parents) for m in world.mechanisms) <= 3
        assert isinstance(world.outcome, AdditiveOutcome)
        assert min(np.ptp(v) for v in world.outcome.effects.values()) >= 1.5


def test_a_dense_graph_is_refused_before_memory_is_exhausted() -> None:
    with pytest.raises(InvalidWorldError, match=r"needs a table of [\d,]+ cells.*max_in_degree"):
        random_world(40, 5, np.random.default_rng(0), degree=35.0)
    random_world(40, 5, np.random.default_rng(0), degree=35.0, max_in_degree=4)


def test_interactions_follow_the_appendix() -> None:
    """alpha B M_max^-4 times products of 4, 3 and 2 parents, each without replacement."""
    world = random_world(12, 10, np.random.default_rng(3), interaction=0.5)
    assert isinstance(world.outcome, AdditiveOutcome)
    terms = world.outcome.interactions
    assert [len(set(t.factors)) for t in terms] == [4, 3, 2]
    assert {t.coefficient for t in terms} == {0.5 * 5.0 / 6**4}
    assert all(set(t.factors) <= set(world.outcome.parents) for t in terms)
    row = np.zeros((1, 12), dtype=np.int16)
    plain = AdditiveOutcome(world.outcome.effects).mean(row)[0]
    assert world.outcome.mean(row)[0] == pytest.approx(plain + 3 * 0.5 * 5.0 / 6**4)  # all factors at value 1


def test_interactions_of_the_released_code_count_levels_from_zero() -> None:
    world = random_world(12, 10, np.random.default_rng(3), interactions=(2, 3, 3), magnitude=0.05)
    assert isinstance(world.outcome, AdditiveOutcome)
    terms = world.outcome.interactions
    assert [(t.coefficient, len(set(t.factors))) for t in terms] == [(0.05, 2), (0.05, 3), (0.05, 3)]
    plain = AdditiveOutcome(world.outcome.effects)
    first, last = np.zeros((1, 12), dtype=np.int16), np.array([world.space.n_levels], dtype=np.int16) - 1
    assert world.outcome.mean(first)[0] == plain.mean(first)[0]  # a factor at 0 switches its products off
    products = sum(np.prod([world.space.n_levels[k] - 1 for k in t.factors]) for t in terms)
    assert world.outcome.mean(last)[0] == pytest.approx(plain.mean(last)[0] + 0.05 * products)
    best = world.outcome.mean(np.array([[world.outcome.best().get(k, 0) for k in range(12)]], dtype=np.int16))[0]
    some = np.random.default_rng(0).integers(0, world.space.n_levels, size=(2000, 12)).astype(np.int16)
    assert best >= world.outcome.mean(some).max()


def test_options_at_their_defaults_leave_worlds_as_they_were() -> None:
    """Drawn before there were options: the same seed must go on to mean the same world."""
    world = random_world(4, 2, np.random.default_rng(11))
    assert world.space.n_levels == SIZES_OF_SEED_11
    assert isinstance(world.outcome, AdditiveOutcome)
    assert world.outcome.effects == {k: pytest.approx(v) for k, v in EFFECTS_OF_SEED_11.items()}
    assert [m.seed for m in world.mechanisms] == TABLES_OF_SEED_11  # type: ignore[attr-defined]


@pytest.mark.parametrize(("child_prob", "reads"), [(0.0, 0), (1.0, 8)])
def test_child_prob(child_prob: float, reads: int) -> None:
    """With one parent that comes first, all others come after the outcome."""
    for seed in range(200):
        world = random_world(9, 1, np.random.default_rng(seed), degree=0.0, child_prob=child_prob, max_in_degree=2)
        n_read = sum(m.reads_outcome for m in world.mechanisms)
        assert n_read <= reads
        if n_read == reads:
            return
    raise AssertionError("never all of them")


def test_parameters_of_the_tables() -> None:
    even = random_world(3, 1, np.random.default_rng(0), degree=0.0, child_prob=0.0, root_dirichlet=1e6)
    rows = np.zeros((1, 3), dtype=np.int16)
    for k, mechanism in enumerate(even.mechanisms):
        np.testing.assert_allclose(mechanism.probabilities(rows)[0], 1 / even.space.n_levels[k], atol=0.01)
    children = random_world(8, 4, np.random.default_rng(0), degree=3.0, child_prob=0.0, table_beta=(1e6, 1e6))
    reading = [k for k, m in enumerate(children.mechanisms) if m.parents]
    assert reading
    for k in reading:
        cells = children.mechanisms[k].probabilities(np.zeros((1, 8), dtype=np.int16))[0]
        np.testing.assert_allclose(cells, 1 / children.space.n_levels[k], atol=0.01)


def test_zeros_and_ones_rank_assignments_as_the_effects_do() -> None:
    """Same seed, same order of assignments; the probability runs from 0.05 to 0.95."""
    plain, coin = (random_world(6, 3, np.random.default_rng(4), noise=noise) for noise in ("gaussian", "bernoulli"))
    assert isinstance(coin.outcome, BernoulliOutcome)
    assert plain.space.n_levels == coin.space.n_levels
    rows = np.random.default_rng(0).integers(0, plain.space.n_levels, size=(500, 6)).astype(np.int16)
    means, chances = plain.outcome.mean(rows), coin.outcome.mean(rows)
    np.testing.assert_array_equal(np.argsort(means, kind="stable"), np.argsort(chances, kind="stable"))
    assert coin.outcome.best() == plain.outcome.best()
    best = np.array([[coin.outcome.best().get(k, 0) for k in range(6)]], dtype=np.int16)
    assert coin.outcome.mean(best)[0] == pytest.approx(0.95)
    assert set(coin.observe(200, np.random.default_rng(1)).outcomes.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_parents": 0}, "n_parents must be a whole number from 1 to 5"),
        ({"n_parents": 6}, "from 1 to 5"),
        ({"levels": (1, 3)}, "the fewest levels"),
        ({"levels": (4, 3)}, "the most levels"),
        ({"degree": -1.0}, "degree"),
        ({"min_effect": 5.0}, "min_effect"),
        ({"min_effect": 4.9999}, "no effects with a range"),
        ({"interaction": 0.5, "n_parents": 3}, "only 3"),
        ({"max_in_degree": -2}, "max_in_degree"),
        ({"noise_sd": 0.0}, "noise_sd"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"child_prob": 1.5}, "child_prob"),
        ({"table_beta": (2.0, 0.0)}, "a parameter of the tables"),
        ({"root_dirichlet": -1.0}, "a parameter of the tables"),
        ({"magnitude": 0.1}, "interactions="),
        ({"interactions": (3,), "magnitude": 0.1}, "the size of an interaction"),
        ({"interactions": (2,), "magnitude": 0.1, "noise": "bernoulli"}, "probability is additive"),
    ],
)
def test_wrong_settings_are_refused(kwargs: dict[str, object], message: str) -> None:
    settings = {"n_parents": 2, **kwargs}
    with pytest.raises(LeversError, match=message) as caught:
        random_world(5, rng=np.random.default_rng(0), **settings)  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidSettingError | InvalidWorldError)
