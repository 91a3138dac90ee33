"""Studies in days: whole days, a constant for each, and at most so many runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import levers
from harness.hard_worlds import additive_world, slippage_world
from levers.algorithms.base import Batch, Problem, Verdict
from levers.algorithms.cfs.settings import LATEST_RULES, POOLED_RULES
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.algorithms.cfs.verify import verify
from levers.core.codec import from_json, to_json
from levers.errors import InvalidSettingError
from levers.worlds.scm import World, gap

WORLD = additive_world([[0.0, 0.8, 0.2], [0.5, 0.0], [0.0, 0.1, 0.2, 0.9], [0.3, 0.0], [0.0, 0.0]])
TIED = (((0, 0), (0, 1), (1, 0)), (), (), (), ())
Numbers = NDArray[np.float64]


def cfs_of(world: World = WORLD, tolerance: float | None = 0.5, noise_sd: float | None = 1.0, **options: Any) -> Cfs:
    return Cfs(Problem(world.space, tolerance, 0.1, noise_sd), **options)


def studied(cfs: Cfs, world: World, shifts: Numbers, seed: int = 0) -> tuple[Verdict, list[Batch], list[Numbers]]:
    """Run to the verdict; day d of the study has shifts[d] added to its outcomes."""
    rng, state, batches, outcomes = np.random.default_rng(seed), cfs.start(), list[Batch](), list[Numbers]()
    n_days = 0
    while isinstance(step := cfs.ask(state, np.random.default_rng([seed, len(batches)])), Batch):
        lengths = cfs.block_lengths(state, step.n_runs)
        day = n_days + np.repeat(np.arange(len(lengths)), lengths)
        n_days += len(lengths)
        y = world.sample(step.codes, rng).outcomes + shifts[day]
        state = cfs.tell(state, step, y)
        batches.append(step)
        outcomes.append(y)
    return step, batches, outcomes


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise_sd": None},
        {"tolerance": None, "budget": 90},
        {"tolerance": None, "budget": 90, "noise_sd": None},
        {"tolerance": None, "budget": 90, "aim": "certify"},
        {"tolerance": None, "budget": 30, "aim": "certify"},
        {"max_runs": 60},
        {"parts": TIED},
        {"max_parents": 3},
    ],
    ids=str,
)
def test_what_happens_to_a_whole_day_changes_nothing(settings: dict[str, Any]) -> None:
    """The strongest of all properties of a constant: any shift of a day leaves every decision as it was."""
    cfs = cfs_of(block_size=8, **settings)
    plain, rows, _ = studied(cfs, WORLD, np.zeros(500))
    shifted, others, _ = studied(cfs, WORLD, np.random.default_rng(9).normal(0.0, 30.0, 500))
    assert plain.assignment == shifted.assignment
    assert plain.tolerance == pytest.approx(shifted.tolerance)
    assert all(np.array_equal(one.codes, other.codes) for one, other in zip(rows, others, strict=True))
    assert plain.rules == LATEST_RULES


@pytest.mark.parametrize("size", [8, 12, 5])
@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "budget": 90}, {"max_runs": 70}], ids=str)
def test_rounds_are_whole_days_but_for_the_last(size: int, settings: dict[str, Any]) -> None:
    verdict, batches, _ = studied(cfs_of(block_size=size, **settings), WORLD, np.zeros(500))
    lengths = [batch.n_runs for batch in batches]
    assert all(n % size == 0 for n in lengths[:-1])
    most = settings.get("budget") or settings.get("max_runs")
    assert lengths[-1] % size == 0 or sum(lengths) == most
    if "budget" in settings:
        assert verdict.n_runs == 90


def test_levels_are_about_equally_often_in_every_day() -> None:
    cfs = cfs_of(block_size=8)
    first = cfs.ask(cfs.start(), np.random.default_rng(0))
    assert isinstance(first, Batch)
    days = first.codes.reshape(-1, 8, 5)
    for k, m in enumerate(WORLD.space.n_levels):
        counts = np.stack([np.bincount(day[:, k], minlength=m) for day in days])
        assert np.abs(counts - 8 / m).max() <= 1.5


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "budget": 40}], ids=str)
def test_runs_may_be_told_in_any_pieces(settings: dict[str, Any]) -> None:
    at_once, by_three = (cfs_of(block_size=8, batch_size=n, **settings) for n in (None, 3))
    state, rng = at_once.start(), np.random.default_rng(3)
    step = at_once.ask(state, np.random.default_rng(7))
    assert isinstance(step, Batch)
    y = WORLD.sample(step.codes, rng).outcomes
    whole, block, stored = at_once.tell(state, step, y), at_once.tell_block(state, step, y), by_three.start()
    done = 0
    while done < step.n_runs:
        piece = by_three.ask(from_json(to_json(stored), type(stored)), np.random.default_rng(7))
        assert isinstance(piece, Batch)
        stored = by_three.tell(stored, piece, y[done : done + piece.n_runs])
        done += piece.n_runs
    for other in (block, stored):
        assert other.leaders == whole.leaders
        assert (other.target, other.n_runs, other.n_done) == (whole.target, whole.n_runs, 0)
        np.testing.assert_allclose(other.pooled.information, whole.pooled.information)
        np.testing.assert_allclose(other.pooled.sums, whole.pooled.sums, atol=1e-9)


@pytest.mark.parametrize("aim", ["certify", "best"])
def test_told_runs_find_their_days_wherever_others_are_missing(aim: str) -> None:
    cfs = cfs_of(tolerance=None, budget=80, aim=aim, block_size=8)
    state = cfs.start()
    step = cfs.ask(state, np.random.default_rng(0))
    assert isinstance(step, Batch)
    y = WORLD.sample(step.codes, np.random.default_rng(1)).outcomes
    told = np.random.default_rng(2).permutation(step.n_runs)[: step.n_runs - 5]
    told.sort()
    shift = 50.0 * (np.arange(step.n_runs) // 8)
    ends = [cfs.finish(state, step.codes[told], (y + s)[told], told) for s in (0 * shift, shift)]
    assert cfs.verdict(ends[0]).assignment == cfs.verdict(ends[1]).assignment
    np.testing.assert_allclose(ends[0].pooled.sums, ends[1].pooled.sums, atol=1e-9)
    kept = [cfs.absorb(state, step.codes[told], (y + s)[told], "kept", told) for s in (0 * shift, shift)]
    np.testing.assert_allclose(kept[0].pooled.sums, kept[1].pooled.sums, atol=1e-9)
    np.testing.assert_allclose(kept[0].pooled.sums, ends[0].pooled.sums, atol=1e-9)


def test_a_look_inside_a_round_has_the_same_constants() -> None:
    cfs = cfs_of(block_size=8)
    state, rng = cfs.start(), np.random.default_rng(1)
    step = cfs.ask(state, rng)
    assert isinstance(step, Batch)
    y, n = WORLD.sample(step.codes, rng).outcomes, step.n_runs - 3
    shift = 50.0 * (np.arange(step.n_runs) // 8)
    looks = [cfs.interim_inside(state, step.codes[:n], (y + s)[:n]) for s in (0 * shift, shift)]
    assert looks[0] is not None
    assert looks[1] is not None
    assert looks[0].tolerance == pytest.approx(looks[1].tolerance)


def test_a_verdict_in_days_can_be_recomputed() -> None:
    verdict, _, outcomes = studied(cfs_of(block_size=8), WORLD, np.zeros(500))
    assert verify(verdict, np.concatenate(outcomes)).ok
    assert dict(verdict.options)["block_size"] == 8


def test_days_too_short_for_a_constant_are_full_all_the_same() -> None:
    cfs = cfs_of(block_size=3)
    verdict, batches, _ = studied(cfs, WORLD, np.zeros(500))
    assert "short days" in [proviso.kind for proviso in verdict.provisos]
    assert all(batch.n_runs % 3 == 0 for batch in batches)
    assert cfs.block_lengths(cfs.start(), 12) == (12,)


def test_studies_begun_before_days_go_on_as_they_were() -> None:
    """A day was a number of runs handed out together, and nothing else."""
    before, now = cfs_of(), cfs_of(block_size=8)
    state = replace(before.start(), rules=POOLED_RULES)
    one, other = (cfs.ask(state, np.random.default_rng(0)) for cfs in (before, now))
    assert isinstance(one, Batch)
    assert isinstance(other, Batch)
    assert np.array_equal(one.codes, other.codes)
    y = WORLD.sample(one.codes, np.random.default_rng(0)).outcomes
    assert to_json(before.tell(state, one, y)) == to_json(now.tell(state, one, y))
    long = replace(state, target=500)
    assert before.block_lengths(long, 500) == (500,)
    assert len(before.block_lengths(before.start(), 500)) > 5


def test_drift_does_little_harm_to_long_rounds_without_days() -> None:
    """Parts of a long round have constants of their own, though nobody said what is made together."""
    world = additive_world([[0.0, 0.0]] * 3)
    cfs, runs = cfs_of(world, tolerance=0.15), list[list[int]]()
    for drift in (0.0, 1.0):
        state, rng, told = cfs.start(), np.random.default_rng(1), 0
        runs.append([])
        while isinstance(step := cfs.ask(state, rng), Batch):
            y = world.sample(step.codes, np.random.default_rng(told)).outcomes
            state = cfs.tell(state, step, y + drift * (told + np.arange(step.n_runs)) / 100)
            told += step.n_runs
            runs[-1].append(step.n_runs)
        assert np.sqrt(state.fit.residual_square / state.fit.residual_dof) < 1.07
        assert state.pooled.n_blocks > len(state.blocks) + 2
    assert runs[0] == runs[1]


def test_a_study_hands_its_block_size_to_the_solver() -> None:
    study = levers.create_study("s", {"a": [0, 1, 2], "b": [0, 1]}, tolerance=0.5, noise_sd=1.0, block_size=8, seed=1)
    assert len(study.state.blocks[0].values) % 8 == 0
    other = levers.create_study(
        "t", {"a": [0, 1], "b": [0, 1]}, tolerance=0.5, noise_sd=1.0, block_size=8, seed=1, algorithm="modl"
    )
    assert other.spec.block_size == 8


@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize(("day_sd", "drift"), [(1.0, 0.0), (0.0, 1.0)], ids=["day effects", "drift"])
def test_day_effects_and_drift_break_no_promise_and_cost_little(
    day_sd: float, drift: float, noise_sd: float | None
) -> None:
    """Days of 8 whose means differ by one sd of the noise, or a drift of one sd in 100 runs."""
    world, n_studies, failed, runs, without = slippage_world(3, 3), 20, 0, 0, 0
    for seed in range(n_studies):
        day = np.arange(500)
        shifts = day_sd * np.random.default_rng([seed, 5]).normal(size=500) + drift * 8 * day / 100
        verdict, _, _ = studied(cfs_of(world, noise_sd=noise_sd, block_size=8), world, shifts, seed)
        failed += gap(world, verdict.assignment.codes) > verdict.within
        runs += verdict.n_runs
        without += studied(cfs_of(world, noise_sd=noise_sd), world, np.zeros(500), seed)[0].n_runs
    assert failed <= binom.ppf(0.999, n_studies, 0.1)
    assert runs <= 1.08 * without  # rounds are filled up to whole days


def test_rules_without_days_say_so() -> None:
    kinds = []
    for options in ({"block_size": 8}, {"block_size": 8, "min_effect": 0.3}, {"min_effect": 0.3}):
        verdict, *_ = studied(cfs_of(**options), WORLD, np.zeros(5000))
        kinds.append("days unknown" in {remark.kind for remark in verdict.provisos})
    assert kinds == [False, True, False]


@pytest.mark.parametrize(
    ("most", "options"),
    [(4, {}), (11, {}), (60, {}), (60, {"noise_sd": None}), (60, {"block_size": 8}), (60, {"certificate": "proven"})],
    ids=str,
)
def test_a_study_never_takes_more_than_max_runs(most: int, options: dict[str, Any]) -> None:
    """With and without: the same study but for its end, and what it has by then is certified."""
    limited, free = (cfs_of(tolerance=0.3, **{**options, **more}) for more in ({"max_runs": most}, {}))
    verdict, batches, _ = studied(limited, WORLD, np.zeros(5000))
    assert verdict.n_runs == most
    assert verdict.tolerance is None or verdict.tolerance > 0.3
    assert (verdict.tolerance is None) == (most < 8)
    assert studied(free, WORLD, np.zeros(5000))[0].n_runs > most
    state = limited.start()
    assert limited.outlook(state, 0).worst_case in (None, most - batches[0].n_runs)
    enough = cfs_of(tolerance=3.0, max_runs=500, **options)
    assert studied(enough, WORLD, np.zeros(500))[0].within <= 3.0


def test_a_sparse_study_never_takes_more_than_max_runs() -> None:
    world = additive_world([[0.0, 1.5, 1.4]] * 2 + [[0.0, 0.0, 0.0]] * 38)
    sparse = Sparse(Problem(world.space, 0.3, 0.1, 1.0), max_parents=2, max_runs=150)
    verdict = levers.run_on_world(sparse, world, 0)
    assert verdict.n_runs == 150
    assert verdict.within > 0.3


def test_the_most_runs_go_with_a_tolerance_only() -> None:
    for options in ({"tolerance": None, "budget": 40}, {"tolerance": None, "budget": 40, "certificate": "proven"}):
        with pytest.raises(InvalidSettingError, match="beside a tolerance") as refused:
            cfs_of(max_runs=30, **options)
        assert refused.value.field == "max_runs"
    with pytest.raises(InvalidSettingError):
        cfs_of(max_runs=1)


def test_at_the_most_runs_the_promise_is_kept() -> None:
    """Planned in advance, so the certificate has its whole share: failures at gaps that it just resolves."""
    n_studies, failed = 60, 0
    nothing = additive_world([[0.0, 0.0, 0.0]] * 2)
    within = studied(cfs_of(nothing, tolerance=0.2, max_runs=60), nothing, np.zeros(500))[0].within
    world = additive_world([[within * 1.001, 0.0, 0.0], [within * 1.001, 0.0, 0.0]])
    for seed in range(n_studies):
        verdict, _, _ = studied(cfs_of(world, tolerance=0.2, max_runs=60), world, np.zeros(500), seed)
        failed += gap(world, verdict.assignment.codes) > verdict.within
    assert failed <= binom.ppf(0.999, n_studies, 0.1)
