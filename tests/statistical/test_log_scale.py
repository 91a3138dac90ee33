"""The promise on worlds in which effects multiply, counted; and what linear studies of them are in doubt about."""

import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import binom

import levers
from levers.studies.study import Study

N_STUDIES, FAILURE_PROB = 24, 0.1
SPACE = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1, 2, 3], "d": [0, 1]}


class MultiplicativeWorld:
    """Each level multiplies the outcome by a factor, and so does noise."""

    def __init__(self, seed: int | Sequence[int], effect_sd: float, noise_sd: float) -> None:
        self.rng, self.noise_sd = np.random.default_rng(seed), noise_sd
        self.logs = {name: self.rng.normal(0, effect_sd, len(levels)) for name, levels in SPACE.items()}

    def typical(self, params: levers.Assignment) -> float:
        """The median outcome at a setting."""
        return math.exp(1.0 + sum(self.logs[name][int(level)] for name, level in params.items()))

    def best(self, goal: str) -> float:
        """That of the best setting."""
        choose = max if goal == "maximize" else min
        return math.exp(1.0 + sum(choose(logs) for logs in self.logs.values()))

    def run(self, study: Study) -> levers.Verdict:
        """A study to its end."""
        while trials := study.ask(2000):
            noise = np.exp(self.noise_sd * self.rng.normal(size=len(trials)))
            study.tell_many([(t, self.typical(t.params) * float(z)) for t, z in zip(trials, noise, strict=True)])
        return study.verdict()


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
@pytest.mark.parametrize("tolerance", [0.05, 0.2])
def test_the_setting_is_within_its_percentage_of_the_best(goal: str, tolerance: float) -> None:
    failures = doubts = 0
    for seed in range(N_STUDIES):
        world = MultiplicativeWorld([seed, tolerance == 0.05, goal == "minimize"], 0.1, 0.1)
        known = None if seed % 2 else world.noise_sd
        study = levers.create_study(
            "count", SPACE, goal=goal, scale="log", tolerance=tolerance, noise_sd=known, seed=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = world.run(study)
        assert found.tolerance is not None
        assert found.tolerance <= tolerance * (1 + 1e-9)
        got, best = world.typical(found.assignment), world.best(goal)
        loss = 1 - got / best if goal == "maximize" else got / best - 1
        failures += loss > found.tolerance
        doubts += bool(found.doubts)
    assert failures <= binom.ppf(0.9999, N_STUDIES, FAILURE_PROB)
    assert doubts <= binom.ppf(0.9999, N_STUDIES, 0.03)


def test_linear_studies_of_what_multiplies_are_in_doubt_more_often() -> None:
    counts = {"linear": 0, "log": 0}
    named = 0
    for seed in range(12):
        for scale in counts:
            world = MultiplicativeWorld(seed, 0.5, 0.2)
            study = levers.create_study(
                "count", SPACE, goal="minimize", scale=scale, budget=120, aim="certify", seed=seed
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = world.run(study)
            counts[scale] += bool(found.doubts)
            named += scale == "linear" and any(doubt.scale == "log" for doubt in found.doubts)
            assert all(doubt.scale is None for doubt in found.doubts if scale == "log")
    assert counts["log"] <= binom.ppf(0.9999, 12, 0.03)
    assert counts["linear"] >= 9, counts
    assert named >= 8, named
