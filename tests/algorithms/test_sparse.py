import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from harness.hard_worlds import additive_world
from harness.sparse import Effects, equal_gaps, random_effects, study_sparse
from levers.algorithms.base import Batch, Problem, Verdict
from levers.algorithms.cfs.settings import SCREENING, SELECTION
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.cfs.sparse import state as sparse_state
from levers.algorithms.cfs.sparse.certificate import runs_to_go
from levers.algorithms.cfs.sparse.finding import level_groups
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.algorithms.cfs.sparse.state import ParentFit, SparseBlock, SparseState, block_rows
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.certificates.sums import dp_bound, stakes_bound
from levers.core.codec import from_json, to_json
from levers.core.model import permutation
from levers.core.model.permutation import log_subset_mgf, subset_sum_limits
from levers.core.space import Space
from levers.errors import InvalidSettingError, OutcomeMismatchError
from levers.testing.algorithms import Answer, check_contract

LEVELS = (2, 3, 4, 5, 6) * 12
PARENTS: Effects = {3: (0.0, 2.0, 0.0, 1.0, 0.0), 20: (1.5, 0.0), 34: (0.0, 0.0, 3.0, 0.0, 0.0, 0.0)}


def solver(max_parents: int = 3, noise_sd: float | None = 1.0, **options: int) -> Sparse:
    return Sparse(Problem(Space.sized(LEVELS), 0.5, 0.1, noise_sd), max_parents, **options)


def answer_to(effects: Effects, noise_sd: float = 1.0, seed: int = 5) -> Answer:
    noise = np.random.default_rng(seed)

    def answer(batch: Batch) -> tuple[Batch, ArrayLike]:
        y = noise_sd * noise.normal(size=batch.n_runs)
        return batch, y + sum(np.asarray(values)[batch.codes[:, k]] for k, values in effects.items())

    return answer


def finish(sparse: Sparse, answer: Answer, seed: int = 0) -> tuple[SparseState, Verdict]:
    rng, state = np.random.default_rng(seed), sparse.start()
    while isinstance(step := sparse.ask(state, rng), Batch):
        state = sparse.tell(state, *answer(step))
    return state, step


@pytest.mark.parametrize("noise_sd", [1.0, None])
@pytest.mark.parametrize("batch_size", [37, None])
def test_the_contract_is_kept(noise_sd: float | None, batch_size: int | None) -> None:
    sparse = solver(noise_sd=noise_sd) if batch_size is None else solver(noise_sd=noise_sd, batch_size=batch_size)
    verdict = check_contract(sparse, lambda: answer_to(PARENTS))
    assert verdict.parents == ("X4", "X21", "X35")
    assert [verdict.assignment.codes[k] for k in PARENTS] == [1, 0, 2]


def test_a_verdict_says_everything() -> None:
    state, verdict = finish(solver(), answer_to(PARENTS))
    assert verdict.within <= 0.5
    assert verdict.certificate == "slippage"
    assert verdict.noise == "known, sd 1"
    assert verdict.rules == 4
    assert verdict.guarantee.endswith("at most 3 factors that matter")
    assert [remark.kind for remark in verdict.provisos] == ["equal gaps", "pooled selection", "only with claims"]
    assert sum(n for _, n in verdict.runs_by_stage) == verdict.n_runs == sum(b.n_runs for b in verdict.blocks)
    assert {e.factor for e in verdict.eliminations} <= set(PARENTS)
    for k, (effects, intervals) in enumerate(zip(verdict.effects, verdict.intervals, strict=True)):
        assert len(effects) == len(intervals) == LEVELS[k]
        if k not in PARENTS:
            assert all(effect is None for effect in effects)
            assert all(interval is None for interval in intervals)
            continue
        truth = PARENTS[k]
        for interval, value in zip(intervals, truth, strict=True):
            assert interval is not None
            assert interval[0] <= truth[verdict.assignment.codes[k]] - value <= interval[1]
    assert sparse_options(verdict) == {"max_parents": 3, "batch_size": None, "most_cells": 200_000_000}
    assert len(to_json(state)) < 20_000 + 12 * state.n_runs  # seeds and outcomes, no rows


def sparse_options(verdict: Verdict) -> dict[str, object]:
    return dict(verdict.options)


def test_when_all_parents_are_found_the_others_stay_where_they_are() -> None:
    effects: Effects = {3: (1.9, 2.0, 2.0, 1.9, 0.0), 20: (1.5, 0.0)}
    sparse, answer = Sparse(Problem(Space.sized(LEVELS), 0.2, 0.1, 1.0), 2), answer_to(effects)
    rng, state, stages = np.random.default_rng(0), sparse.start(), []
    while isinstance(step := sparse.ask(state, rng), Batch):
        stages.append(step.stage)
        if step.stage == SELECTION:
            varied = np.flatnonzero((step.codes != step.codes[0]).any(axis=0)).tolist()
            assert varied == [3]
            assert np.array_equal(step.codes[0, 4:20], state.leaders[4:20])
        state = sparse.tell(state, *answer(step))
    assert set(stages) == {SCREENING, SELECTION}
    assert set(state.found) == {3, 20}


def test_fewer_parents_than_allowed_leave_unknown_factors_in_the_certificate() -> None:
    state, verdict = finish(solver(8), answer_to(PARENTS))
    assert set(verdict.parents or ()) == {"X4", "X21", "X35"}
    assert len(state.at_stake) >= 5
    assert "unknown factors" in [remark.kind for remark in verdict.provisos]
    assert verdict.within <= 0.5
    assert verdict.n_runs > finish(solver(), answer_to(PARENTS))[1].n_runs


def test_nothing_matters() -> None:
    _, verdict = finish(solver(2), answer_to({}))
    assert verdict.parents == ()
    assert set(verdict.effects[0]) == {None}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_unknown_noise_is_bounded_and_costs_some_runs(scale: float) -> None:
    problem = Problem(Space.sized(LEVELS), 0.5 * scale, 0.1, None)
    effects = {k: tuple(scale * value for value in values) for k, values in PARENTS.items()}
    state, verdict = finish(Sparse(problem, 3), answer_to(effects, scale))
    assert state.noise_sd is not None
    assert scale < state.noise_sd < 1.6 * scale
    assert "estimated" in verdict.guarantee
    known = finish(solver(), answer_to(PARENTS))[1]
    assert known.n_runs <= verdict.n_runs < 1.6 * known.n_runs


def test_no_noise_at_all_is_never_taken_for_less_than_rounding() -> None:
    for noise_sd in (None, 1e-3):
        sparse = solver(noise_sd=noise_sd)
        state, verdict = finish(sparse, answer_to(PARENTS, 0.0))
        assert state.noise_sd is not None
        assert state.noise_sd > 0
        assert verdict.parents == ("X4", "X21", "X35")


def test_noise_that_no_design_can_answer_ends_with_what_was_reached() -> None:
    _, verdict = finish(solver(noise_sd=None, most_cells=30_000), answer_to(PARENTS, 30.0))
    assert 500 <= verdict.n_runs <= 1100
    assert verdict.within > 5.0


def test_two_strong_parents_do_not_hide_a_weak_one() -> None:
    strong: Effects = {0: (0.0, 40.0), 9: (0.0, 0.0, 30.0, 0.0, 0.0, 0.0), 13: (0.0, 0.0, 0.0, 1.5, 0.0)}
    _, verdict = finish(solver(), answer_to(strong))
    assert verdict.parents == ("X1", "X10", "X14")
    assert [verdict.assignment.codes[k] for k in strong] == [1, 2, 3]


@pytest.mark.parametrize("n_levels", [2, 5])
def test_a_single_parent(n_levels: int) -> None:
    result = study_sparse((n_levels,) * 300, {17: (1.0,) + (0.0,) * (n_levels - 1)}, 1, seed=4)
    assert result.loss == 0.0
    assert result.n_false == 0


def test_as_many_parents_as_factors() -> None:
    levels = (3, 2, 4)
    result = study_sparse(levels, {k: (1.0,) + (0.0,) * (m - 1) for k, m in enumerate(levels)}, 3, seed=0)
    assert result.loss <= 0.5
    assert result.n_false == 0


def test_a_wrong_batch_is_refused() -> None:
    sparse, rng = solver(batch_size=50), np.random.default_rng(0)
    state = sparse.start()
    first = sparse.ask(state, rng)
    assert isinstance(first, Batch)
    y = np.zeros(first.n_runs)
    told = sparse.tell(state, first, y)
    other = np.array(first.codes)
    other[0, 0] = 1 - other[0, 0]
    wrong = [(told, first), (state, replace(first, codes=other)), (state, replace(first, focus=None))]
    wrong += [(state, replace(first, stage=SELECTION)), (told, replace(first, focus=1))]
    for at, batch in wrong:
        with pytest.raises(OutcomeMismatchError):
            sparse.tell(at, batch, y)
    finished, _ = finish(solver(), answer_to(PARENTS))
    with pytest.raises(OutcomeMismatchError, match="not the one that is due"):
        sparse.tell(finished, first, y)


def test_a_stored_block_is_the_design_whatever_its_seed_would_give() -> None:
    sparse, answer = solver(), answer_to(PARENTS)
    step = sparse.ask(sparse.start(), np.random.default_rng(0))
    assert isinstance(step, Batch)
    _, y = answer(step)
    stored = replace(step, focus=12345)  # as if another version had made these rows of that seed
    state = sparse.tell_block(sparse.start(), stored, y)
    same = sparse.tell_block(sparse.start(), step, y)
    assert state.found == same.found
    assert state.leaders == same.leaders
    back = from_json(to_json(state), SparseState)
    assert np.array_equal(block_rows(back.blocks[0], LEVELS), step.codes)
    uneven = np.array(step.codes)
    uneven[:, 0] = 0
    with pytest.raises(OutcomeMismatchError, match="balanced"):
        sparse.tell_block(sparse.start(), replace(stored, codes=uneven), y)


def test_a_stored_block_of_settled_parents_moves_nothing_else() -> None:
    sparse = Sparse(Problem(Space.sized(LEVELS), 0.2, 0.1, 1.0), 1)
    answer, rng, state = answer_to({3: (2.0, 2.0, 2.0, 2.0, 0.0)}), np.random.default_rng(0), sparse.start()
    while isinstance(step := sparse.ask(state, rng), Batch) and step.stage == SCREENING:
        state = sparse.tell(state, *answer(step))
    assert isinstance(step, Batch)
    _, y = answer(step)
    stored = replace(step, focus=12345)
    assert sparse.tell_block(state, stored, y).leaders == sparse.tell(state, step, y).leaders
    moved = np.array(step.codes)
    moved[0, 0] = 1 - moved[0, 0]
    with pytest.raises(OutcomeMismatchError):
        sparse.tell_block(state, replace(stored, codes=moved), y)


def test_an_early_end_is_certified_for_what_it_is() -> None:
    sparse, answer = solver(6), answer_to(PARENTS)
    assert sparse.interim(sparse.start()) is None
    step = sparse.ask(sparse.start(), np.random.default_rng(0))
    assert isinstance(step, Batch)
    state = sparse.tell(sparse.start(), *answer(step))
    assert not state.finished
    verdict = sparse.interim(state)
    assert verdict is not None
    assert verdict.within > 0.5
    assert verdict.provisos[-1].kind == "ended early"


def test_rows_are_made_again_when_they_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = finish(solver(), answer_to(PARENTS))[1]
    monkeypatch.setattr(sparse_state, "_CACHED_CELLS", 1)
    monkeypatch.setattr(sparse_state, "_CELLS_AT_ONCE", 500)
    assert to_json(finish(solver(), answer_to(PARENTS))[1]) == to_json(kept)


def test_settings_that_cannot_be_are_refused() -> None:
    space = Space.sized(LEVELS)
    for problem, parents, words in (
        (Problem(space, 0.5, 0.1, 1.0), 0, "max_parents"),
        (Problem(space, 0.5, 0.1, 1.0), 61, "max_parents"),
        (Problem(space, None, 0.1, 1.0), 2, "tolerance"),
        (Problem(space, 0.5, 1e-12, 1.0), 2, "failure_prob"),
        (Problem(space, 1e-6, 0.1, 1.0), 2, "raise the tolerance"),
    ):
        with pytest.raises(InvalidSettingError, match=words):
            Sparse(problem, parents)


def test_many_parents_and_levels_are_possible() -> None:
    levels = (12,) * 10 + (2,) * 290
    effects = random_effects(levels, 60, np.random.default_rng(0))
    result = study_sparse(levels, effects, 60, seed=0)
    assert result.loss <= 0.5
    assert result.n_false == 0


# The formulas


def test_the_generating_function_is_that_of_all_subsets() -> None:
    rng = np.random.default_rng(0)
    for n, s in ((1, 1), (5, 2), (9, 4), (9, 8), (9, 9), (7, 0)):
        x = rng.normal(size=n)
        exact = math.log(np.mean([math.exp(sum(chosen)) for chosen in combinations(x, s)]))
        [found], [several, _] = log_subset_mgf([x], [s]), log_subset_mgf([x, rng.normal(size=12)], [s, 3])
        assert found == pytest.approx(exact, abs=1e-12)
        assert several == pytest.approx(exact, abs=1e-12)


def test_the_bound_for_long_blocks_is_above_the_exact_value(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    blocks = [rng.normal(size=400), rng.standard_t(3, size=300)]
    counts = [[80, 60], [200, 150]]
    low, high = subset_sum_limits(blocks, counts, 1e-6)
    monkeypatch.setattr(permutation, "_EXACT_RUNS", 10)
    lower, higher = subset_sum_limits(blocks, counts, 1e-6)
    assert (lower <= low).all()
    assert (higher >= high).all()
    assert (higher < 1.6 * high).all()


def test_limits_hold_for_shuffled_columns_with_heavy_tails() -> None:
    rng = np.random.default_rng(2)
    e = rng.standard_t(2, size=60)
    [low], [high] = subset_sum_limits([e], [[12]], 0.01)
    sums = np.array([rng.permutation(e)[:12].sum() for _ in range(20_000)])
    assert (sums > high).mean() <= 0.01
    assert (sums < low).mean() <= 0.01


def test_groups_are_all_ways_to_split_the_levels() -> None:
    for m in (2, 3, 4, 5, 6):
        splits = {frozenset([frozenset(g), frozenset(range(m)) - frozenset(g)]) for g in level_groups(m)}
        assert len(splits) == len(level_groups(m)) == 2 ** (m - 1) - 1
    assert level_groups(8) == tuple((level,) for level in range(8))


def test_a_configuration_of_equals_is_the_bound_of_one_design() -> None:
    scale = 12.0
    levels = (2, 3, 3, 5)
    configuration = tuple((m, math.sqrt(m) / scale) for m in levels)
    assert dp_bound(levels, scale) <= stakes_bound(configuration, 1.0) * 1.001
    assert stakes_bound(configuration, 1.0) <= 1.02 * dp_bound(levels, scale)
    finer = (*configuration[:-1], (5, math.sqrt(5) / scale / 3))
    assert stakes_bound(finer, 1.0) < stakes_bound(configuration, 1.0)
    assert stakes_bound((), 1.0) == 0.0


def test_runs_to_go_are_enough_and_the_tolerance_is_the_least() -> None:
    configuration = ((2, 0.3), (5, 0.5), (5, 0.2))
    n = runs_to_go(configuration, [1.0] * 3, 0.5, 0.09)
    for factor, enough in ((1.0, True), (0.97, False)):
        later = tuple((m, (s**-2 + factor * n / m) ** -0.5) for m, s in configuration)
        assert (stakes_bound(later, 0.5) <= 0.09) == enough
    least = stakes_tolerance(configuration, 0.09)
    assert stakes_bound(configuration, least) <= 0.09 < stakes_bound(configuration, 0.99 * least)


def test_the_fit_is_least_squares_with_a_constant_for_each_block() -> None:
    rng = np.random.default_rng(3)
    levels = (2, 3, 4)
    blocks = tuple(SparseBlock(seed, n, (1,), (in_play,), False) for seed, n, in_play in
                   ((1, 24, (0, 1, 2)), (2, 12, (0, 2))))  # fmt: skip
    rows = np.concatenate([block_rows(block, levels) for block in blocks])
    y = rng.normal(size=36) + 1e6
    fit = ParentFit(levels, blocks, y, (1, 2))
    design = np.column_stack(
        [
            np.arange(36) < 24,
            np.arange(36) >= 24,
            *(rows[:, 1] == i for i in (1, 2)),
            *(rows[:, 2] == i for i in (1, 2, 3)),
        ]
    ).astype(float)
    theta, square, _, _ = np.linalg.lstsq(design, y - 1e6, rcond=None)
    assert fit.effects(1) == pytest.approx([0.0, *theta[2:4]], abs=1e-6)
    assert fit.effects(2) == pytest.approx([0.0, *theta[4:]], abs=1e-6)
    assert fit.residual_square == pytest.approx(float(square[0]))
    covariance = np.linalg.inv(design.T @ design)
    assert fit.variances(1)[1, 2] == pytest.approx(covariance[2, 2] + covariance[3, 3] - 2 * covariance[2, 3])
    assert fit.level_sums()[0, 1] == pytest.approx(float(fit.residuals[rows[:, 0] == 1].sum()))


def test_worlds_of_the_harness_have_the_gap_that_was_asked_for() -> None:
    effects = equal_gaps(LEVELS, 5, 0.25, np.random.default_rng(0))
    assert [sorted(values)[-2:] for values in effects.values()] == [[0.0, 0.25]] * 5


@pytest.mark.parametrize(("n_levels", "n_parents", "effect"), [(5, 0, 0.0), (5, 5, 0.3), (2, 5, 0.6), (2, 2, 2.0)])
def test_a_study_takes_about_what_it_said_at_first_and_never_more_than_at_most(
    n_levels: int, n_parents: int, effect: float
) -> None:
    solver = Cfs(Problem(Space.sized([n_levels] * 400), 0.5, 0.1, 1.0), max_parents=5)
    world = additive_world([[effect * (k < n_parents), *[0.0] * (n_levels - 1)] for k in range(400)])
    rng, state, said = np.random.default_rng(1), solver.start(), []
    n_runs = 0
    while isinstance(step := solver.ask(state, rng), Batch):
        n_runs += step.n_runs
        coming = solver.outlook(state, step.n_runs)
        assert coming.likely is not None
        assert coming.worst_case is not None
        said.append((n_runs + coming.likely, n_runs + coming.worst_case))
        state = solver.tell(state, step, world.sample(step.codes, rng).outcomes)
    assert 0.7 < said[0][0] / n_runs < 1.6
    assert min(most for _, most in said) >= n_runs
