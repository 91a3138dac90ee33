"""Pooled studies: the answer comes from all runs, any budget is taken, a noise that is not known is learned."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.hard_worlds import additive_world
from levers.algorithms.base import Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.cfs.allocation import allocated_rows, allocated_shares
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.two_stage import TwoStage
from levers.algorithms.cfs.verify import verify
from levers.core.certificates.certificate import scale_needed, stakes_tolerance
from levers.core.certificates.sums import dp_bound, stakes_bound
from levers.core.designs.allowed import Combinations, allowed_rows
from levers.core.designs.build import extending_design
from levers.core.designs.design import Design
from levers.core.model.choices import Choices
from levers.core.model.fit import Fit
from levers.core.model.moments import Moments
from levers.core.model.pooled import OutcomeSteps, PooledSums
from levers.core.model.posterior import Posterior, posterior
from levers.core.space import Space
from levers.errors import InvalidSettingError, OutcomeMismatchError
from levers.experiments.runner import run_on_world
from levers.studies.spec import StudySpec
from levers.worlds.scm import World, gap

WORLD = additive_world([[0.0, 1.0, 0.4], [0.0, 0.0, 0.0, 0.0], [0.8, 0.0], [0.3, 0.0, 0.9]])


def run(algorithm: Any, world: World, seed: int) -> tuple[Verdict, NDArray[np.int16], NDArray[np.float64]]:
    """A study with all its rows and outcomes."""
    rng, rows, outcomes = np.random.default_rng(seed), [], []

    def outcomes_of(batch: Batch) -> tuple[Batch, NDArray[np.float64]]:
        rows.append(batch.codes)
        outcomes.append(world.sample(batch.codes, rng).outcomes)
        return batch, outcomes[-1]

    verdict = run_to_verdict(algorithm, outcomes_of, rng)
    return verdict, np.concatenate(rows), np.concatenate(outcomes)


@pytest.mark.parametrize("seed", range(5))
def test_the_answer_is_the_leader_of_least_squares_on_all_runs(seed: int) -> None:
    verdict, rows, outcomes = run(Cfs(Problem(WORLD.space, 0.3, 0.1, 1.0)), WORLD, seed)
    blocks = np.repeat(np.arange(len(verdict.blocks)), [block.n_runs for block in verdict.blocks])
    columns = [blocks == b for b in range(len(verdict.blocks))]
    columns += [rows[:, k] == level for k, m in enumerate(WORLD.space.n_levels) for level in range(1, m)]
    fitted = np.linalg.lstsq(np.stack(columns, axis=1).astype(float), outcomes, rcond=None)[0][len(verdict.blocks) :]
    begin, dropped = 0, {(e.factor, e.level) for e in verdict.eliminations}
    for k, m in enumerate(WORLD.space.n_levels):
        effects = [0.0, *fitted[begin : begin + m - 1]]
        begin += m - 1
        in_play = [level for level in range(m) if (k, level) not in dropped]
        assert max(in_play, key=lambda level: effects[level]) == verdict.assignment.codes[k]
    assert verdict.within <= 0.3


def test_lengths_depend_on_outcomes_only_through_what_was_dropped() -> None:
    """Studies in which nothing was dropped have the same blocks, whatever their outcomes."""
    null = additive_world([[0.0] * 3] * 4)
    lengths = set()
    for seed in range(12):
        noise = np.random.default_rng(seed)
        verdict = run_to_verdict(
            Cfs(Problem(null.space, 0.4, 0.1, 1.0)),
            lambda batch, noise=noise: (batch, noise.normal(size=batch.n_runs)),  # type: ignore[misc]
            np.random.default_rng(0),  # the same designs
        )
        if not verdict.eliminations:
            lengths.add(tuple(block.n_runs for block in verdict.blocks))
    assert len(lengths) == 1


def test_blocks_have_constants_of_their_own_so_drift_between_them_does_no_harm() -> None:
    def drifting(shift: float) -> Verdict:
        rng, block = np.random.default_rng(3), iter(range(100))

        def outcomes_of(batch: Batch) -> tuple[Batch, NDArray[np.float64]]:
            return batch, WORLD.outcome.mean(batch.codes) + rng.normal(size=batch.n_runs) + shift * next(block)

        return run_to_verdict(Cfs(Problem(WORLD.space, 0.3, 0.1, 1.0)), outcomes_of, np.random.default_rng(1))

    steady, adrift = drifting(0.0), drifting(50.0)
    assert steady.assignment == adrift.assignment
    assert [b.n_runs for b in steady.blocks] == [b.n_runs for b in adrift.blocks]


@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize("budget", [2, 3, 7, 11, 12, 13, 30, 90])
@pytest.mark.parametrize("aim", ["best", "certify"])
def test_any_budget_is_spent_to_the_last_run(aim: str, budget: int, noise_sd: float | None) -> None:
    verdict, rows, _ = run(Cfs(Problem(WORLD.space, None, 0.1, noise_sd), budget=budget, aim=aim), WORLD, budget)
    assert verdict.n_runs == len(rows) == budget
    n_parameters = sum(m - 1 for m in WORLD.space.n_levels)
    if budget <= n_parameters:
        assert verdict.tolerance is None
        assert verdict.within == math.inf
        assert [proviso.kind for proviso in verdict.provisos] == ["nothing certified"]
        assert verdict.promise == "nothing is certified"
        assert verdict.statement.startswith("too few runs")
    if budget > 2 * n_parameters:
        assert 0 < verdict.within < 20


def test_the_aim_is_best_with_a_budget_and_to_certify_with_a_tolerance() -> None:
    budget = Cfs(Problem(WORLD.space, None, 0.1, 1.0), budget=60)
    assert budget.pooled.aim == "best"
    assert Cfs(Problem(WORLD.space, 0.5, 0.1, 1.0)).pooled.aim == "certify"
    with pytest.raises(InvalidSettingError, match="spends a budget") as refused:
        Cfs(Problem(WORLD.space, 0.5, 0.1, 1.0), aim="best")
    assert refused.value.field == "aim"
    with pytest.raises(InvalidSettingError, match="budget"):
        Cfs(Problem(WORLD.space, None, 0.1, 1.0), budget=1)


def test_runs_for_the_recommendation_go_to_the_levels_that_may_be_best() -> None:
    world = additive_world([[0.0, 3.0, 2.9, 0.0, 0.0], [0.0, 0.0, 5.0]])
    _, rows, _ = run(Cfs(Problem(world.space, None, 0.1, 0.5), budget=120), world, 1)
    counts = np.bincount(rows[40:, 0], minlength=5)
    assert counts[1] + counts[2] > 0.9 * counts.sum()
    assert abs(counts[1] - counts[2]) < 0.5 * counts.sum()


def test_complete_proofs_and_looks_keep_two_stages() -> None:
    problem = Problem(WORLD.space, 0.5, 0.1, 1.0)
    for options in ({"certificate": "proven"}, {"noise": "subgaussian"}, {"min_effect": 0.5}):
        assert not isinstance(Cfs(problem, **options).start(), PooledState)
    assert isinstance(Cfs(problem).start(), PooledState)
    begun_before = TwoStage(problem).start()
    step = Cfs(problem).ask(begun_before, np.random.default_rng(0))
    assert isinstance(step, Batch)
    assert step.stage == "screening"


@pytest.mark.parametrize("aim", ["best", "certify"])
@pytest.mark.parametrize("noise_sd", [1.0, None])
def test_a_verdict_follows_from_its_outcomes(aim: str, noise_sd: float | None) -> None:
    verdict, _, outcomes = run(Cfs(Problem(WORLD.space, None, 0.1, noise_sd), budget=80, aim=aim), WORLD, 5)
    assert verify(verdict, outcomes).ok
    assert not verify(verdict, outcomes + 0.1 * np.arange(len(outcomes))).ok


def test_a_batch_that_is_not_due_is_refused() -> None:
    cfs = Pooled(Problem(WORLD.space, 0.5, 0.1, 1.0), batch_size=5)
    state, rng = cfs.start(), np.random.default_rng(0)
    first = cfs.ask(state, rng)
    assert isinstance(first, Batch)
    told = cfs.tell(state, first, np.zeros(5))
    with pytest.raises(OutcomeMismatchError, match="not the one that is due"):
        cfs.tell(told, first, np.zeros(5))
    with pytest.raises(OutcomeMismatchError, match="seed"):
        cfs.tell(state, Batch(first.codes, first.stage), np.zeros(5))


def test_an_unknown_noise_costs_few_runs() -> None:
    """14 two-level levers, of which a noise bounded once made 1,076 runs in place of 135."""
    world = additive_world([[0.0, 0.8]] * 5 + [[0.0, 0.0]] * 9)
    known, unknown = (
        np.mean([run_on_world(Cfs(Problem(world.space, 0.5, 0.1, sd)), world, seed).n_runs for seed in range(20)])
        for sd in (1.0, None)
    )
    assert unknown < 1.3 * known


def test_one_outcome_again_and_again_certifies_nothing() -> None:
    cfs = Cfs(Problem(Space.sized([3, 2]), 0.5, 0.1, None))
    verdict = run_to_verdict(cfs, lambda batch: (batch, np.full(batch.n_runs, 7.0)), np.random.default_rng(0))
    assert verdict.tolerance is None
    assert verdict.n_runs > 40
    assert verdict.parents == ()
    assert verdict.statement.startswith("every outcome was the same")


def test_noise_is_never_taken_to_be_below_the_steps_of_outcomes() -> None:
    rng = np.random.default_rng(0)

    def rounded(batch: Batch) -> tuple[Batch, NDArray[np.float64]]:
        return batch, 4.0 * np.round(rng.normal(size=batch.n_runs) / 4.0)

    cfs, told = Cfs(Problem(Space.sized([3, 2]), 1.5, 0.1, None)), 0
    for seed in range(10):
        state, asked = cfs.start(), np.random.default_rng(seed)
        while isinstance(step := cfs.ask(state, asked), Batch):
            state = cfs.tell(state, *rounded(step))
            noise_sd = cfs.progress(state).noise_sd
            told += noise_sd is not None
            assert noise_sd is None or noise_sd >= 4.0 / math.sqrt(12)
    assert told >= 5  # looks that do tell a noise


def test_steps_are_those_between_few_outcomes_or_the_last_decimal() -> None:
    steps = OutcomeSteps().add(np.array([0.0, 0.0]))
    assert steps.resolution is None
    assert steps.add(np.array([100.0])).resolution == 100.0
    many = steps.add(np.arange(0.0, 60.0, 0.5))
    assert many.are_many
    assert many.resolution == 0.1
    assert OutcomeSteps().add(np.random.default_rng(1).normal(size=100)).resolution == 0.0


def test_pooled_sums_are_those_of_one_fit_with_a_constant_for_each_block() -> None:
    rng = np.random.default_rng(2)
    sizes = (3, 2, 4)
    rows = np.stack([rng.integers(0, m, 60) for m in sizes], axis=1).astype(np.int16)
    y = rng.normal(size=60)
    blocks = [(0, 20), (20, 60)]
    pooled = PooledSums.empty(sizes)
    for begin, end in blocks:
        pooled = pooled.add(Moments.empty(sizes).add(rows[begin:end], y[begin:end]))
    columns = [np.arange(60) < 20, np.arange(60) >= 20]
    columns += [rows[:, k] == level for k, m in enumerate(sizes) for level in range(1, m)]
    design = np.stack(columns, axis=1).astype(float)
    solution, square, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    fit = Fit(pooled)
    assert fit.rank == rank
    assert fit.residual_square == pytest.approx(float(square[0]))
    assert fit.theta[[1, 2]] - fit.theta[0] == pytest.approx(solution[2:4])
    together = PooledSums.empty(sizes)
    for begin, end in blocks:
        together = together.add(Moments.empty(sizes).add(rows[begin:end], y[begin:end]), None, own_constant=False)
    whole = Fit(Moments.empty(sizes).add(rows, y))
    assert Fit(together).theta == pytest.approx(whole.theta)
    assert Fit(together).residual_square == pytest.approx(whole.residual_square)


def test_stakes_agree_with_the_certificate_of_equal_clocks_and_grow_with_every_error() -> None:
    levels, scale = (2, 3, 4, 4, 6), 11.0
    stakes = [(m, math.sqrt(m) / scale) for m in levels]
    assert stakes_bound(stakes, 1.0) == pytest.approx(dp_bound(levels, scale), rel=0.02)
    assert stakes_tolerance(stakes, 0.09) * scale == pytest.approx(scale_needed(levels, 0.09), rel=0.01)
    for k in range(len(stakes)):
        wider = [(m, error * (1.3 if i == k else 1.0)) for i, (m, error) in enumerate(stakes)]
        assert stakes_bound(wider, 1.0) > stakes_bound(stakes, 1.0)
    assert stakes_bound([], 1.0) == stakes_tolerance([], 0.1) == 0.0


def test_later_blocks_lose_little_once_they_are_pooled() -> None:
    sizes = (3, 4, 5, 6, 3, 4, 5, 6)
    rows = [extending_design(sizes, 60, seed, sizes, tuple(range(8))).rows for seed in range(4)]
    assert Design(np.concatenate(rows), sizes, "pooled").single_inflation < 1.1
    fewer = extending_design((2, 3), 61, 0, sizes, (1, 5))
    assert fewer.n_runs == 61
    assert fewer.rows.max(axis=0).tolist() == [1, 2]


def test_the_posterior_shrinks_and_becomes_least_squares() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 3, 4000) for _ in range(2)], axis=1).astype(np.int16)
    y = np.array([0.0, 1.0, 2.0])[rows[:, 0]] + rng.normal(size=4000)
    many = PooledSums.empty((3, 3)).add(Moments.empty((3, 3)).add(rows, y))
    found = posterior(many, None)
    assert found.noise_sd == pytest.approx(1.0, rel=0.05)
    assert np.diff(found.mean[:3]) == pytest.approx(np.diff(Fit(many).theta[:3]), abs=0.02)
    few = PooledSums.empty((3, 3)).add(Moments.empty((3, 3)).add(rows[:3], y[:3]))
    assert np.isfinite(posterior(few, None).mean).all()
    assert abs(posterior(few, 1.0).mean).max() < abs(y[:3]).max() + 1


def test_shares_go_to_rivals_in_reach_and_columns_keep_them() -> None:
    found = Posterior(np.array([2.0, 1.9, -5.0, 0.0, 0.0]), 0.05 * np.eye(5), 1.0, 1.0)
    first, second = allocated_shares(Choices((3, 2)), found, 30)
    assert first[2] == 0.0
    assert second == pytest.approx([0.5, 0.5], abs=0.04)
    rows = allocated_rows([first, second], 20, np.random.default_rng(0))
    assert np.bincount(rows[:, 1]).tolist() == [10, 10]


def test_forbidden_combinations_are_fitted_by_parts_and_never_run() -> None:
    space = Space.of({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": ["x", "y"]})
    effects = [np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.0, 1.0])]
    forbidden = ((("a", 4), ("b", 4)), (("a", 4), ("b", 3)))
    found, broken = [], 0
    for seed, options in enumerate([(("budget", 150),), (("budget", 150), ("aim", "certify")), ()]):
        tolerance = 0.4 if not options else None
        spec = StudySpec(space, tolerance=tolerance, noise_sd=0.5, options=options, forbidden=forbidden, seed=seed)
        rng = np.random.default_rng(seed)

        def outcomes_of(batch: Batch, spec: StudySpec = spec, rng: np.random.Generator = rng) -> Any:
            codes = spec.expand(batch.codes)
            assert not ((codes[:, 0] == 3) & (codes[:, 1] >= 2)).any()
            return batch, sum(e[codes[:, k]] for k, e in enumerate(effects)) + 0.5 * rng.normal(size=len(codes))

        verdict = run_to_verdict(spec.solver, outcomes_of, rng)
        [codes] = spec.expand(np.array([verdict.assignment.codes], dtype=np.int16))
        loss = 4.0 - sum(float(e[code]) for e, code in zip(effects, codes, strict=True))  # best allowed: a 3, b 4, y
        found.append(loss)
        broken += loss > verdict.within
        assert isinstance(spec.solver, Cfs)
        assert spec.solver.pooled.choices.n_parameters == 7
    assert max(found) <= 0.5
    assert broken <= 1  # of three promises of 90 %


def test_rows_exchange_levels_until_they_are_allowed() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.permutation(np.arange(48) % 4) for _ in range(2)], axis=1).astype(np.int16)
    table = np.array([(a, b) for a in range(4) for b in range(4) if (a, b) != (3, 3)], dtype=np.int16)
    allowed = table[allowed_rows(rows, [Combinations((0, 1), table, np.arange(15))], rng)[:, 0]]
    assert not ((allowed[:, 0] == 3) & (allowed[:, 1] == 3)).any()
    assert np.bincount(allowed[:, 0]).tolist() == np.bincount(allowed[:, 1]).tolist() == [12] * 4


def test_coupling_is_one_for_orthogonal_runs_and_large_for_few() -> None:
    rows = np.stack(np.unravel_index(np.arange(24), (2, 3, 4)), axis=1).astype(np.int16)
    choices = Choices((2, 3, 4))
    fits = [
        Fit(PooledSums.empty(choices.sizes).add(Moments.empty(choices.sizes).add(rows[at], np.zeros(len(at)))))
        for at in (np.arange(24), np.array([0, 1, 2, 3, 7, 10, 13, 18, 23]))
    ]
    assert choices.coupling(fits[0], (0, 1, 2)) == pytest.approx(1.0)
    assert choices.coupling(fits[1], (0, 1, 2)) > 1.5


def test_a_study_that_imports_runs_uses_them() -> None:
    rng = np.random.default_rng(1)
    rows = np.stack([rng.integers(0, m, 300) for m in WORLD.space.n_levels], axis=1).astype(np.int16)
    cfs = Cfs(Problem(WORLD.space, 0.5, 0.1, 1.0))
    begun = cfs.absorb(cfs.start(), rows, WORLD.sample(rows, rng).outcomes, "past data")
    state, n_runs = begun, 0
    while isinstance(step := cfs.ask(state, rng), Batch):
        state = cfs.tell(state, step, WORLD.sample(step.codes, rng).outcomes)
        n_runs += step.n_runs
    alone = run_on_world(cfs, WORLD, 1)
    assert step.n_runs == n_runs < alone.n_runs
    assert gap(WORLD, step.assignment.codes) <= 0.5


def test_a_look_inside_a_round_says_what_a_stop_would_give() -> None:
    """One design of 38 runs: nothing while runs are too few, then at every run what stopping there certifies."""
    cfs = Cfs(Problem(WORLD.space, None, 0.1, 1.0), budget=38, aim="certify")
    state, rng = cfs.start(), np.random.default_rng(2)
    step = cfs.ask(state, rng)
    assert isinstance(step, Batch)
    outcomes = WORLD.sample(step.codes, rng).outcomes
    looks = [cfs.interim_inside(state, step.codes[:n], outcomes[:n]) for n in range(38)]
    said = [n for n, look in enumerate(looks) if look is not None]
    n_parameters = sum(WORLD.space.n_levels) - WORLD.space.n_factors
    assert said == list(range(said[0], 38))
    assert n_parameters < said[0] <= 2 * n_parameters
    for n in said:
        stopped = cfs.verdict(cfs.finish(state, step.codes[:n], outcomes[:n]))
        look = looks[n]
        assert look is not None
        assert (look.n_runs, look.within, look.assignment) == (n, stopped.within, stopped.assignment)
        assert "stopped early" not in {remark.kind for remark in look.provisos}
    end = cfs.interim(cfs.tell(state, step, outcomes))
    assert end is not None
    assert all(end.within < look.within for look in looks[:30] if look is not None)


def test_a_bound_on_parents_that_says_nothing_names_none_by_a_dropped_level() -> None:
    """With max_parents = K only pairs with the best level are charged for: parents are those that intervals show."""
    for seed in range(10):
        problem = Problem(WORLD.space, 0.3, 0.1, 1.0)
        plain = run(Pooled(problem), WORLD, seed)[0]
        bounded = run(Pooled(problem, max_parents=4), WORLD, seed)[0]
        assert bounded.parents == plain.parents
        shown = {
            name
            for name, row in zip(WORLD.space.names, plain.intervals, strict=True)
            if any(pair is not None and (pair[0] > 0 or pair[1] < 0) for pair in row)
        }
        assert set(plain.parents or ()) == shown
