"""How often an honest study is doubted, and how often a study that rests on something false fails unmarked."""

from functools import cache

import pytest
from scipy.stats import binom

from harness.doubtful import SHAPES, Kind, Outcome, broken_kinds, honest_kinds, outcome, unclaimed_kinds
from levers.studies.analysis.doubts import SHARES

SHORT = tuple(shape for shape in SHAPES if shape.n_factors < 30)
"""Studies that take little time; benchmarks/doubt.py counts them all."""
KINDS = {kind.name: kind for kind in (*broken_kinds(), *unclaimed_kinds(), *honest_kinds())}


@cache
def counted(name: str, n: int) -> list[Outcome]:
    kind = KINDS[name]
    shapes = SHORT if kind.shapes == SHAPES else kind.shapes
    return [outcome(Kind(**{**vars(kind), "shapes": shapes}), seed) for seed in range(n)]


def test_honest_studies_are_hardly_ever_doubted() -> None:
    names = ["honest, noise stated", "honest, noise unknown", "honest, max_parents", "honest, min_effect"]
    names += ["honest, hard to change", "honest, hard to change, noise unknown"]
    found = [one for name in names for one in counted(name, 10)]
    assert sum(one.ever for one in found) <= binom.ppf(0.999, len(found), sum(SHARES.values()))


@pytest.mark.parametrize(
    "name",
    [
        "noise understated 1.5 times",
        "noise understated 2 times",
        "noise understated 5 times",
        "1 % outliers of 10 sd",
        "drift of 1 sd in 100 runs",
        "days of 1 sd",
        "days of 1 sd, block_size 8",
        "set-up error of 0.5 sd, block_size 8",
        "set-up error of 1 sd, block_size 8, noise unknown",
        "lognormal noise",
        "sd tripled at one level",
        "interactions, alpha = 5",
        "interaction 2 (a - 2)(b - 2)",
    ],
)
def test_what_rests_on_something_false_fails_unmarked_no_more_often_than_was_promised(name: str) -> None:
    found = counted(name, 14)
    unmarked = sum(one.failed and not one.doubts for one in found)
    assert unmarked <= binom.ppf(0.999, len(found), 0.1)


@pytest.mark.parametrize("name", ["one typo, times 10", "one typo, times 100", "one typo, times 10, noise unknown"])
def test_a_typo_is_named_by_its_trial(name: str) -> None:
    found = [one for one in counted(name, 18) if one.named is not None]
    assert len(found) >= 12
    assert sum(bool(one.named) for one in found) >= binom.ppf(0.001, len(found), 0.95)
    assert not any(one.failed and not one.doubts for one in found)


@pytest.mark.parametrize(
    "name",
    [
        "max_parents 2, true 8",
        "max_parents a third of K=3, at the edge",
        "max_parents a third of K=10, at the edge, noise unknown",
        "max_parents a third of K=3, at the edge without it, noise unknown",
        "max_parents a third of K=10, at the edge without it",
        "effects of 0.2, min_effect 0.6",
    ],
)
def test_what_is_certified_without_a_claim_holds_where_the_claim_is_false(name: str) -> None:
    found = [one.unclaimed for one in counted(name, 30)]
    assert None not in found
    assert sum(map(bool, found)) <= binom.ppf(0.999, len(found), 0.1)
