"""Outcomes of other kinds: 0 or 1 from effects, tables, states, any function."""

import numpy as np
import pytest

from levers.core.space import Space
from levers.errors import InvalidSettingError, InvalidWorldError
from levers.worlds.mechanisms import RandomTable
from levers.worlds.named import even_table
from levers.worlds.outcome import (
    AdditiveOutcome,
    BernoulliOutcome,
    BinaryOutcome,
    FunctionOutcome,
    Interaction,
    NeedleOutcome,
    Noise,
    Outcome,
    StateOutcome,
    TableOutcome,
    bernoulli_from_effects,
    bernoulli_scale,
)
from levers.worlds.random import random_world
from levers.worlds.scm import World, best_mean, gap, mean_under

SIZES = (3, 2, 4)
ROWS = np.stack(np.unravel_index(np.arange(24), SIZES), axis=1).astype(np.int16)
EFFECTS = {0: (0.3, -1.0, 2.0), 1: (5.0, 5.5), 2: (0.0, 0.1, -0.7, 0.2)}


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.95), (0.0, 1.0), (0.3, 0.4)])
def test_effects_become_probabilities_between_low_and_high(low: float, high: float) -> None:
    outcome = bernoulli_from_effects(EFFECTS, low, high)
    additive = AdditiveOutcome(EFFECTS)
    chance = outcome.mean(ROWS)
    assert [chance.min(), chance.max()] == pytest.approx([low, high], abs=1e-12)
    assert chance.min() >= 0
    assert chance.max() <= 1
    scale = bernoulli_scale(EFFECTS, low, high)
    np.testing.assert_allclose(chance - chance[0], scale * (additive.mean(ROWS) - additive.mean(ROWS)[0]), atol=1e-12)
    assert outcome.best() == additive.best()


def test_gaps_shrink_by_the_scale_in_random_worlds() -> None:
    for seed in range(20):
        world = random_world(6, 4, np.random.default_rng(seed))
        assert isinstance(world.outcome, AdditiveOutcome)
        binary = World(
            world.space, [even_table(m) for m in world.space.n_levels], bernoulli_from_effects(world.outcome.effects)
        )
        scale = bernoulli_scale(world.outcome.effects)
        assert gap(binary, [0] * 6) == pytest.approx(scale * gap(world, [0] * 6))
        assert binary.noise_sd == 0.5


def test_flat_effects_and_wrong_bounds() -> None:
    flat = bernoulli_from_effects({0: (2.0, 2.0)}, 0.2, 0.6)
    assert flat.mean(np.zeros((1, 1), dtype=np.int16))[0] == pytest.approx(0.4)
    assert bernoulli_scale({0: (2.0, 2.0)}) == 0.0
    for low, high in ((-0.1, 0.5), (0.5, 1.1), (0.6, 0.5)):
        with pytest.raises(InvalidSettingError, match="from a low to a high within 0 to 1"):
            bernoulli_from_effects(EFFECTS, low, high)


def every_kind() -> list[Outcome]:
    rng = np.random.default_rng(4)
    table = rng.normal(size=(3, 4))
    return [
        AdditiveOutcome(EFFECTS, interactions=(Interaction(0.3, (0, 2)), Interaction(-0.2, (0, 1, 2)))),
        BernoulliOutcome({0: (0.0, 0.1, 0.2), 2: (0.0, 0.3, 0.1, 0.2)}, base=0.4),
        NeedleOutcome({0: 1, 2: 3}, 0.7),
        TableOutcome({(2, 0): table.T, (1,): [0.0, 1.0], (): -3.0}, Noise(1.0, "uniform")),
        FunctionOutcome(lambda rows: np.sin(rows[:, 0] + 2.0 * rows[:, 2]), parents=(0, 2), sizes=(3, 4)),
        BinaryOutcome(TableOutcome({(0, 1): rng.random((3, 2))})),
        StateOutcome(rng.dirichlet(np.ones(3), size=8), (0.0, 2.0, -1.0), parents=(1, 2), sizes=(2, 4)),
    ]


@pytest.mark.parametrize("outcome", every_kind(), ids=lambda outcome: type(outcome).__name__)
def test_every_kind_has_a_best_an_exact_mean_and_samples_about_it(outcome: Outcome) -> None:
    """X1 and X3 follow X2, so that watching needs joint distributions; the mean is summed by hand beside."""
    tables = [RandomTable(3, (1,), (2,), seed=1), RandomTable(2, seed=2), RandomTable(4, (0, 1), (3, 2), seed=3)]
    world = World(Space.sized(SIZES), tables, outcome)
    assert best_mean(world) == pytest.approx(outcome.mean(ROWS).max())
    weight = np.prod([t.probabilities(ROWS)[np.arange(24), ROWS[:, k]] for k, t in enumerate(tables)], axis=0)
    assert weight.sum() == pytest.approx(1.0)
    assert mean_under(world, {}) == pytest.approx(float(weight @ outcome.mean(ROWS)))
    n = 40_000
    runs = world.observe(n, np.random.default_rng(0))
    assert runs.outcomes.mean() == pytest.approx(mean_under(world, {}), abs=5 * runs.outcomes.std() / n**0.5)
    fixed = world.sample(np.tile([1, 1, 2], (n, 1)), np.random.default_rng(1)).outcomes
    assert fixed.mean() == pytest.approx(mean_under(world, (1, 1, 2)), abs=5 * outcome.noise_sd / n**0.5)
    assert fixed.std() <= outcome.noise_sd * 1.03


def test_wrong_outcomes_are_refused() -> None:
    with pytest.raises(InvalidWorldError, match="2 values for 3 states"):
        StateOutcome(np.full((1, 3), 1 / 3), (0.0, 1.0))
    with pytest.raises(InvalidWorldError, match="sum to 1"):
        StateOutcome(np.full((1, 2), 0.4), (0.0, 1.0))
    with pytest.raises(InvalidWorldError, match="'Y' reads 'X1' with 2 levels; it has 3"):
        World(Space.sized([3]), [even_table(3)], StateOutcome(np.full((2, 2), 0.5), (0.0, 1.0), (0,), (2,)))
