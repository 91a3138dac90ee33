"""Sums drawn directly have the law of sums of runs."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from levers.algorithms.base import Problem
from levers.algorithms.modl import Modl
from levers.algorithms.registry import make_algorithm
from levers.core.model.moments import Moments
from levers.errors import InvalidWorldError
from levers.experiments.runner import run_by_phases, run_on_world
from levers.worlds.outcome import AdditiveOutcome, Interaction, Noise
from levers.worlds.random import random_world
from levers.worlds.scm import World, draw_means, true_parents

N = 3000
ROWS = np.array([[0, 0], [1, 1], [2, 0], [0, 1], [2, 1]], dtype=np.int16)
OUTCOME = AdditiveOutcome({0: (0.0, 1.0, -2.0), 1: (0.0, 0.5)}, Noise(1.5), (Interaction(0.2, (0, 1)),))
REPEATS = 7


def by_rows(rng: np.random.Generator) -> Moments:
    moments = Moments.empty((3, 2))
    for _ in range(REPEATS):
        moments = moments.add(ROWS, OUTCOME.sample(ROWS, rng))
    return moments


def by_totals(rng: np.random.Generator) -> Moments:
    means, within = draw_means(OUTCOME, ROWS, REPEATS, rng)
    return Moments.empty((3, 2)).add_repeated(ROWS, REPEATS, means, within)


def statistics(moments: Moments) -> list[float]:
    return [moments.mean, moments.square, *moments.sums]


def test_the_law_is_the_same() -> None:
    one = np.array([statistics(by_rows(np.random.default_rng([1, i]))) for i in range(N)])
    other = np.array([statistics(by_totals(np.random.default_rng([2, i]))) for i in range(N)])
    assert (by_rows(np.random.default_rng(0)).counts == by_totals(np.random.default_rng(0)).counts).all()
    spread = np.sqrt(one.var(axis=0) / N + other.var(axis=0) / N)
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * spread).all()
    # a variance of N normal values has a relative standard error of sqrt(2 / N); the squares' tail is a little heavier
    assert np.allclose(one.var(axis=0), other.var(axis=0), rtol=5 * np.sqrt(4 / N))
    correlated = np.abs(np.corrcoef(one.T) - np.corrcoef(other.T))
    assert correlated.max() < 5 * np.sqrt(2 / N)
    for column in range(one.shape[1]):
        assert ks_2samp(one[:, column], other[:, column]).pvalue > 1e-4, column


@pytest.mark.parametrize("name", ["modl", "oracle", "parents-first"])
def test_studies_by_phases_are_like_studies_by_rows(name: str) -> None:
    world = random_world(5, 2, np.random.default_rng(3))
    problem = Problem(world.space, 0.5, 0.1, 1.0)
    options = {"parents": true_parents(world)} if name == "oracle" else {}
    algorithm = make_algorithm(name, problem, **options)
    rows = np.array([run_on_world(algorithm, world, seed).n_runs for seed in range(150)])
    phases = np.array([run_by_phases(algorithm, world, seed).n_runs for seed in range(150)])
    assert ks_2samp(rows, phases).pvalue > 1e-3
    assert abs(rows.mean() - phases.mean()) < 4 * np.sqrt((rows.var() + phases.var()) / 150)


def test_other_noise_goes_by_rows() -> None:
    world = random_world(3, 1, np.random.default_rng(3), noise="uniform")
    with pytest.raises(InvalidWorldError, match="Gaussian noise only"):
        draw_means(world.outcome, np.zeros((2, 3), dtype=np.int16), 5, np.random.default_rng(0))
    assert isinstance(world, World)
    modl = Modl(Problem(world.space, 0.5, 0.1, 1.0))
    assert run_by_phases(modl, world, 1) == run_on_world(modl, world, 1)
