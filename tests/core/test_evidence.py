import math
from itertools import chain

import numpy as np
import pytest
from scipy.stats import binom

from levers.core.codec import from_json, to_json
from levers.core.model.evidence import (
    Confidence,
    Evidence,
    Knowledge,
    Mask,
    PaddedEvidence,
    Standing,
    anytime_noise_bound,
    anytime_radius,
    assess,
    forecasts,
    level_mask,
    noise_upper_bound,
)
from levers.core.model.pairs import Pairs, pair_groups


def test_the_anytime_radius_holds_at_all_times_at_once() -> None:
    """A walk is looked at after each of 400 steps: it leaves the radius at any time in at most a of the cases."""
    error, n = 0.1, 2000
    rng = np.random.default_rng(0)
    information = np.cumsum(np.full(400, 0.5))
    walks = np.cumsum(rng.normal(size=(n, 400)) * math.sqrt(0.5), axis=1) / information
    ever = (walks > anytime_radius(information, 1.0, error, rho=5.0)).any(axis=1).sum()
    assert ever <= binom.ppf(0.999, n, error)
    fixed = math.sqrt(2 * math.log(1 / error)) / np.sqrt(information)
    assert (walks > fixed).any(axis=1).sum() > binom.ppf(0.999, n, error)  # a fixed-time radius does not


def test_the_noise_bound_holds_as_often_as_promised() -> None:
    rng = np.random.default_rng(1)
    squares = rng.chisquare(20, size=4000) * 1.5**2
    below = sum(noise_upper_bound(s, 20, 0.05) < 1.5 for s in squares)
    assert binom.ppf(0.001, 4000, 0.05) <= below <= binom.ppf(0.999, 4000, 0.05)


def test_the_anytime_noise_bound_holds_however_blocks_are_chosen() -> None:
    """An adversary adds residual degrees of freedom until the bound fails, or 3000 are spent."""
    rng = np.random.default_rng(2)
    failed = 0
    for _ in range(1000):
        square, dof = 0.0, 0
        while dof < 3000:
            more = 5 if square < dof else 60  # small steps while the residuals happen to be small
            square, dof = square + float(rng.chisquare(more)), dof + more
            if anytime_noise_bound(square, dof, 0.05) < 1.0:
                failed += 1
                break
    assert failed <= binom.ppf(0.999, 1000, 0.05)
    assert math.isinf(anytime_noise_bound(5.0, 5, 0.01))


def test_evidence_pools_blocks_by_precision() -> None:
    difference = np.array([0.0, 1.0, -1.0, 0.0])
    pooled = Evidence.none((2,)).add(difference, np.full(4, 1.0)).add(3 * difference, np.full(4, 0.5))
    assert pooled.estimate(0, 0, 1) == pytest.approx((1 + 2 * 3) / 3)
    assert pooled.known(0, 0, 1) == 3.0
    unknown = pooled.add(difference, np.full(4, np.inf))
    assert (unknown.information == pooled.information).all()


def pairs(*effects: tuple[float, ...]) -> tuple[tuple[int, ...], Pairs, Mask]:
    """Level counts, estimates of all differences, and the mask of levels, for factors with these effects."""
    sizes = tuple(len(row) for row in effects)
    estimates = np.concatenate([np.subtract.outer(row, row).ravel() for row in effects])
    return sizes, estimates, level_mask([tuple(range(m)) for m in sizes], max(sizes))


def test_a_level_is_not_its_own_rival() -> None:
    """Nothing is known about a level against itself; that must not keep a factor open."""
    sizes, estimates, active = pairs((0.1, 0.0), (0.0, 0.2))
    radius = np.tile([np.inf, 0.3, 0.3, np.inf], 2)
    nothing = np.zeros(2, dtype=bool)
    found = assess(sizes, estimates, (radius, radius), active, nothing, nothing, Knowledge(min_effect=0.6))
    assert not found.open.any()


def stand(sizes: tuple[int, ...], estimates: Pairs, active: Mask, radius: float, known: Knowledge) -> Standing:
    nothing = np.zeros(len(sizes), dtype=bool)
    radii = np.full_like(estimates, radius), np.full_like(estimates, radius)
    return assess(sizes, estimates, radii, active, nothing, nothing, known)


def test_levels_behind_by_more_than_the_radius_go_and_name_a_parent() -> None:
    given = pairs((0.0, 2.0, 1.8), (0.1, 0.0))
    found = stand(*given, 0.5, Knowledge())
    assert found.active.tolist() == [[False, True, True], [True, True, False]]
    assert found.parents.tolist() == [True, False]
    assert found.leaders.tolist() == [1, 0]
    assert found.at_stake == (2, 2)
    assert found.upper_loss == pytest.approx((0.5 - 0.2) + (0.5 - 0.1))


def test_max_parents_closes_the_others_once_all_are_found() -> None:
    given = pairs((0.0, 2.0, 1.8), (0.1, 0.0), (0.0, 0.0, 0.0))
    one = stand(*given, 0.5, Knowledge(max_parents=1))
    assert one.open.tolist() == [True, False, False]
    assert one.at_stake == (2,)
    two = stand(*given, 0.5, Knowledge(max_parents=2))
    assert two.open.tolist() == [True, True, True]
    assert two.at_stake == (2, 3)  # the parent found, and the more expensive of the others
    assert two.upper_loss == pytest.approx(0.3 + 0.5)


def test_min_effect_closes_factors_that_cannot_have_it() -> None:
    given = pairs((0.0, 2.0, 1.8), (0.1, 0.0), (0.0, 0.4))
    found = stand(*given, 0.5, Knowledge(min_effect=0.7))
    assert found.open.tolist() == [True, False, True]  # 0.1 + 0.5 < 0.7 <= 0.4 + 0.5; a parent stays open


def test_forecasts_shrink_estimates_and_radius() -> None:
    sizes, estimates, active = pairs((0.0, 1.0))
    evidence = Evidence.none(sizes).add(estimates, np.full(4, 0.1))
    nothing = np.zeros(1, dtype=bool)
    sure = Confidence(1.0, 0.01, 1.0, 0.0, 1.0)
    now = assess(sizes, evidence.estimates, sure.radii(evidence.information), active, nothing, nothing, Knowledge())
    assert now.at_stake == (2,)
    batches = forecasts(evidence, [1.0, 4.0], sure, now, Knowledge())
    assert [then.at_stake for then in chain.from_iterable(batches)] == [(2,), ()]
    noise = Evidence.none(sizes).add(0.3 * estimates, np.full(4, 0.1))
    [[then]] = forecasts(noise, [1000.0], sure, now, Knowledge())
    assert then.at_stake == (2,)  # 0.3 is less than its error
    dismissals = Confidence(1.0, 0.01, 1.0, 0.05, 1.0)
    compare, dismiss = dismissals.radii(evidence.information)
    assert dismiss[1] < compare[1]


@pytest.mark.parametrize("known", [Knowledge(), Knowledge(max_parents=3), Knowledge(min_effect=0.5)])
@pytest.mark.parametrize("sizes", [(2, 9, 3, 40, 2, 17), (5, 130, 5), (3, 3, 3)])
def test_what_is_found_does_not_depend_on_which_factors_are_compared_together(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, known: Knowledge, sizes: tuple[int, ...]
) -> None:
    """All factors padded to the largest, as earlier versions did, and in groups: the same to the last bit."""
    _, estimates, active = pairs(*(tuple(rng.normal(size=m)) for m in sizes))
    information = rng.uniform(0.0, 9.0, size=len(estimates))
    evidence = Evidence(sizes, estimates * information, information)
    active &= rng.random(active.shape) < 0.8
    active[:, 0] = True
    found = []
    for few in (10**9, 0):
        monkeypatch.setattr("levers.core.model.pairs._FEW_CELLS", few)
        pair_groups.cache_clear()
        nothing = np.zeros(len(sizes), dtype=bool)
        radii = Confidence(1.0, 0.01, 1.0, 0.02, 1.0).radii(evidence.information)
        one = assess(sizes, evidence.estimates, radii, active, nothing, nothing, known)
        arrays = (one.active, one.parents, one.open, one.leaders, evidence.least(one.active))
        found.append((*(array.tolist() for array in arrays), one.upper_loss, one.at_stake))
    pair_groups.cache_clear()
    assert found[0] == found[1]


def test_evidence_of_earlier_versions_is_read_without_its_padding(rng: np.random.Generator) -> None:
    padded = np.zeros((2, 2, 3, 3))
    padded[0, :, :2, :2], padded[1, :, :, :] = rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 3, 3))
    old = from_json(to_json(PaddedEvidence(padded[:, 0], padded[:, 1])), PaddedEvidence).of((2, 3))
    assert old.estimates.shape == (13,)
    assert old.weighted.tobytes() == padded[0, 0, :2, :2].tobytes() + padded[1, 0].tobytes()
    assert old.information.tobytes() == padded[0, 1, :2, :2].tobytes() + padded[1, 1].tobytes()
