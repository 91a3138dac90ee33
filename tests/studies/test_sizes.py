"""Large spaces: what a decision takes in the log, and what is refused before anything is computed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import levers
from levers.algorithms.base import Batch, Problem
from levers.algorithms.registry import make_algorithm
from levers.core.codec import from_json, to_json
from levers.core.cost import study_cost
from levers.core.space import Space
from levers.errors import InvalidSpaceError
from levers.studies.events import Decided
from levers.studies.storage.memory import MemoryStorage

ONE_LARGE = [500] + [2] * 30


@pytest.mark.parametrize(
    ("n_levels", "options", "most"),
    [
        (ONE_LARGE, {}, 400_000),  # 6.7 MB when the whole matrix was kept
        (ONE_LARGE, {"min_effect": 1.0}, 6_000_000),  # 165 MB when every lever was kept as wide as the largest
        ([50] * 10, {}, 400_000),
        ([2] * 200, {}, 250_000),
        ([5] * 1000, {"max_parents": 5}, 20_000),
        ([3] * 3, {}, 3_000),
    ],
)
def test_what_a_decision_takes_in_the_log(n_levels: list[int], options: dict[str, Any], most: int) -> None:
    cfs = make_algorithm("cfs", Problem(Space.sized(n_levels), 1.0, 0.1, 1.0), batch_size=2**40, **options)
    batch = cfs.ask(cfs.start(), np.random.default_rng(0))
    assert isinstance(batch, Batch)
    state = cfs.tell_block(cfs.start(), batch, np.random.default_rng(1).normal(size=batch.n_runs))
    text = to_json(Decided(state))
    assert len(text) <= most
    assert to_json(from_json(text, Decided)) == text
    sparse, pooled = "max_parents" in options, "min_effect" not in options
    assert len(text) < 1.3 * study_cost(n_levels, sparse=sparse, pooled=pooled).stored + 20_000


def spelled(n_levels: list[int]) -> dict[str, list[int]]:
    return {f"x{k}": list(range(m)) for k, m in enumerate(n_levels)}


def created(n_levels: list[int], **options: Any) -> None:
    levers.create_study("large", spelled(n_levels), **{"tolerance": 50.0, "noise_sd": 1.0, **options})


def planned(n_levels: list[int], **options: Any) -> None:
    levers.plan(spelled(n_levels), tolerance=50.0, noise_sd=1.0, **options)


REFUSED: list[tuple[list[int], dict[str, Any], str]] = [
    ([1001, 2], {}, "a lever has 1,001 levels; a study takes at most 1,000"),
    ([2] * 10_001, {"max_parents": 5}, "there are 10,001 levers; a study takes at most 10,000"),
    ([6] * 9_000, {"max_parents": 5}, "have 54,000 levels; a study takes at most 50,000$"),
    ([60] * 20 + [70] * 20, {"certificate": "proven"}, "would take about .* seconds"),
    (list(range(2, 320)), {"max_parents": 5}, "have 51,039 levels"),  # a plan of a thousand different counts took 450 s
]


@pytest.mark.parametrize(
    ("door", "n_levels", "options", "said"),
    [
        *((door, *case) for door in (created, planned) for case in REFUSED),
        (
            created,
            [2] * 1501,
            {},
            "a study takes at most 3,000, or 50,000 with max_parents of at most 375, a quarter",
        ),
        (
            created,
            [5] * 1000,
            {"tolerance": None, "budget": 300, "max_parents": 10},
            "with a tolerance in place of the",
        ),
        (created, [2] * 1501, {"max_parents": 400, "min_effect": 1.0}, "of the levers and no min_effect, complete"),
        (created, [2] * 1501, {"algorithm": "modl"}, "a study takes at most 3,000$"),
        (created, [900] * 3, {"min_effect": 1.0}, "every decision of this study would take 52 MB"),
    ],
)
def test_what_is_too_large_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    door: Callable[..., None],
    n_levels: list[int],
    options: dict[str, Any],
    said: str,
) -> None:
    """Before anything is computed, such as a table for each of a thousand different level counts."""

    def computed(*_: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr("levers.core.certificates.certificate._chernoff_exponents", computed)
    with pytest.raises(InvalidSpaceError, match=said) as refused:
        door(n_levels, **options)
    assert "\n" not in str(refused.value)
    assert refused.value.field == "factors"


def test_merged_levers_count_as_the_combinations_they_become() -> None:
    space = spelled([16, 16] * 12)
    merged = [(f"x{k}", f"x{k + 1}") for k in range(0, 24, 2)]
    with pytest.raises(InvalidSpaceError, match="have 3,072 levels"):
        levers.create_study("merged", space, tolerance=5.0, noise_sd=1.0, merged=merged)


def test_what_is_within_the_limits_begins() -> None:
    cases: list[tuple[list[int], dict[str, Any]]] = [([2] * 10_000, {"max_parents": 5}), ([1000, 2, 2], {})]
    for n_levels, options in cases:
        study = levers.create_study("large", spelled(n_levels), tolerance=20.0, noise_sd=1.0, **options)
        assert study.status().state == "running"


def test_a_study_that_is_larger_than_is_begun_today_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that came later must not end a study."""
    storage = MemoryStorage()
    study = levers.create_study("old", spelled([3, 3]), tolerance=1.0, noise_sd=1.0, seed=1, storage=storage)
    monkeypatch.setattr("levers.core.cost.MAX_FACTOR_LEVELS", 2)
    with pytest.raises(InvalidSpaceError, match="at most 2"):
        created([3, 3])
    again = levers.load_study("old", storage)
    again.tell_many((trial, float(trial.number % 3)) for trial in again.ask(1000))
    assert again.status().n_complete == study.status().n_complete > 0
