"""How often the alarm about interactions is false, and how often it comes when it should, in whole studies."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import levers
from levers.core.space import Space
from levers.studies.analysis import views
from levers.studies.analysis.diagnostics import ALARM, Additivity, additivity
from levers.studies.analysis.views import evidence
from levers.studies.study import Study
from levers.worlds.outcome import AdditiveOutcome, Interaction, Noise, Outcome
from levers.worlds.random import random_world

N_STUDIES = 28


def studied(
    space: Space,
    outcome: Outcome,
    seed: int,
    tolerance: float,
    noise_sd: float | None,
    look: Callable[[Study], None] | None = None,
) -> tuple[Study, list[Additivity]]:
    """A study from start to end, looked at after every block."""
    study = levers.create_study("s", space, tolerance=tolerance, noise_sd=noise_sd, seed=seed)
    rng, looks = np.random.default_rng([11, seed]), []
    while not study.is_finished:
        trials = study.ask(100_000)
        values = outcome.sample(np.array([trial.params.codes for trial in trials], dtype=np.int16), rng)
        study.tell_many(zip(trials, values.tolist(), strict=True))
        looks.append(additivity(study.state))
        if look is not None:
            look(study)
    return study, looks


@cache
def additive_studies(noise_sd: float | None) -> list[list[Additivity]]:
    found = []
    for seed in range(N_STUDIES):
        world = random_world(5, 2, np.random.default_rng([1, seed]), levels=(2, 4))
        found.append(studied(world.space, world.outcome, seed, 0.6, noise_sd)[1])
    return found


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_additive_worlds_are_hardly_ever_suspected_however_often_one_looks(noise_sd: float | None) -> None:
    studies = additive_studies(noise_sd)
    assert sum(len(looks) for looks in studies) > 2 * N_STUDIES  # studies did go on from what they had seen
    assert all(looks[-1].reason is None for looks in studies)  # and could be judged
    n_suspected = sum(any(look.suspects for look in looks) for looks in studies)
    n_lacking = sum(
        any(look.lack is not None and look.lack.p_value < look.level for look in looks) for looks in studies
    )
    assert max(n_suspected, n_lacking) <= binom.ppf(0.999, N_STUDIES, ALARM)


@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_p_values_of_adaptive_studies_are_as_spread_as_they_claim(noise_sd: float | None) -> None:
    """Blocks depend on earlier outcomes, so this is not a theorem: at the end about one in twenty is below 0.05."""
    p = np.array([check.p_value for looks in additive_studies(noise_sd) for check in looks[-1].checks])
    lack = np.array([looks[-1].lack.p_value for looks in additive_studies(noise_sd) if looks[-1].lack is not None])
    assert len(p) > 230
    for values in (p, lack):
        assert binom.ppf(0.0005, len(values), 0.05) <= (values < 0.05).sum() <= binom.ppf(0.9995, len(values), 0.05)
        assert abs(values.mean() - 0.5) < 4 / np.sqrt(12 * len(values))


@pytest.mark.parametrize(("noise_sd", "least"), [(1.0, 0.85), (None, 0.85)])
def test_levers_that_must_fit_each_other_are_found(noise_sd: float | None, least: float) -> None:
    """(a - 2)(b - 2) for levels 1 to 3: no effect of its own, so nothing is dropped, and a corner is lost or won."""
    n, n_found, n_alone, balance = 16, 0, 0, (-2.0, -4.0, -6.0)
    outcome = AdditiveOutcome({0: balance, 1: balance, 2: (0.0, 0.5, 0.2)}, Noise(1.0), (Interaction(1.0, (0, 1)),))
    for seed in range(n):
        looks = studied(Space.sized([3] * 6), outcome, seed, 0.7, noise_sd)[1]
        suspects = [(check.first, check.second) for check in looks[-1].suspects]
        n_found += bool(suspects) and suspects[0] == (0, 1)
        n_alone += suspects == [(0, 1)]
    assert n_found >= least * n
    assert n_alone >= 0.95 * n_found  # no innocent pair is named beside it


def test_levers_without_effect_are_hardly_ever_shown_to_matter() -> None:
    """The radius of the evidence covers all pairs at all times: false proofs in at most the failure probability."""
    false: list[int] = []
    found = 0
    for seed in range(24):
        shown: set[str] = set()

        def look(study: Study, shown: set[str] = shown) -> None:
            rows = evidence(study.state)
            found = views.certified(study.state)
            assert found is not None
            assert {row.factor for row in rows if row.shown} == set(found.parents or ())
            shown.update(row.factor for row in rows if row.shown)

        world = random_world(4, 1, np.random.default_rng([2, seed]), levels=(2, 4), min_effect=1.0)
        studied(world.space, world.outcome, seed, 0.6, None if seed % 2 else 1.0, look)
        parent = world.space.names[world.outcome.parents[0]]
        found += parent in shown
        false.append(len(shown - {parent}))
    assert sum(n > 0 for n in false) <= binom.ppf(0.999, 24, 0.1)
    assert found >= 19  # a study may end before its evidence is that strong
