"""Studies with a budget in worlds where levers work together, and in worlds where they do not."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from levers.algorithms.base import Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.settings import LEADER_RULES, PARTS_RULES, THIN_RULES, TOGETHER_RULES
from levers.algorithms.cfs.solver import Cfs
from levers.core.codec import from_json, to_json
from levers.core.space import Codes, Space

SIZES = (2, 2, 2, 2, 3, 2)
EVERY = np.array(list(product(*(range(m) for m in SIZES))), dtype=np.int16)


def mean(codes: Codes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Both of the first two levers, or neither; the third helps only with the fifth at its last level."""
    first = 2.0 * (codes[:, 0] == codes[:, 1]) + 0.5 * codes[:, 0] * codes[:, 1]
    found: np.ndarray[Any, np.dtype[np.float64]] = first + 1.5 * codes[:, 2] * (codes[:, 4] == 2) - 0.4 * codes[:, 2]
    return found


def added(codes: Codes) -> np.ndarray[Any, np.dtype[np.float64]]:
    found: np.ndarray[Any, np.dtype[np.float64]] = codes[:, 0] + 0.8 * (codes[:, 4] == 1) - 0.6 * codes[:, 5]
    return found


def problem(noise_sd: float | None) -> Problem:
    return Problem(Space.sized(SIZES), None, 0.1, noise_sd)


def studied(solver: Any, seed: int, noise: float, truth: Any = mean) -> Verdict:
    rng = np.random.default_rng([seed, 8])

    def outcomes_of(batch: Batch) -> tuple[Batch, Any]:
        return batch, truth(batch.codes) + noise * rng.normal(size=batch.n_runs)

    return run_to_verdict(solver, outcomes_of, np.random.default_rng(seed))


def loss(verdict: Verdict, truth: Any = mean) -> float:
    return float(truth(EVERY).max() - truth(np.array([verdict.assignment.codes]))[0])


@pytest.mark.parametrize("noise_sd", [0.3, None])
def test_levers_that_work_together_are_set_together(noise_sd: float | None) -> None:
    solver = Cfs(problem(noise_sd), budget=80)
    additive = Pooled(problem(noise_sd), budget=80, aim="best", rules=THIN_RULES)
    ours = [studied(solver, seed, 0.3) for seed in range(12)]
    before = [studied(additive, seed, 0.3) for seed in range(12)]
    assert np.mean([loss(verdict) for verdict in ours]) <= 0.05
    assert np.mean([loss(verdict) for verdict in before]) >= 0.2  # what adding up effects comes to


def test_nothing_is_certified_where_effects_do_not_add_up_and_losses_are_those_of_one_change() -> None:
    verdict = studied(Cfs(problem(None), budget=80), 3, 0.3)
    assert verdict.tolerance is None
    assert [proviso.kind for proviso in verdict.provisos] == ["work together"]
    assert verdict.n_runs == 80
    here = np.array(verdict.assignment.codes, dtype=np.int16)
    for k, losses in enumerate(verdict.effects):
        for level, shown in enumerate(losses):
            changed = here.copy()
            changed[k] = level
            assert shown is not None
            assert shown >= 0
            true = float(mean(here[None])[0] - mean(changed[None])[0])
            assert shown == pytest.approx(true, abs=0.3 + 0.4 * true)  # estimates are drawn towards 0


def test_where_effects_add_up_a_tolerance_is_certified() -> None:
    verdicts = [studied(Cfs(problem(1.0), budget=120), seed, 1.0, added) for seed in range(12)]
    certified = [verdict for verdict in verdicts if verdict.tolerance is not None]
    assert len(certified) >= 10  # interactions seem likelier than none now and then
    assert np.mean([loss(verdict, added) for verdict in verdicts]) <= 0.15


def test_a_state_goes_to_json_and_back_in_the_middle() -> None:
    solver, rng = Cfs(problem(None), budget=60), np.random.default_rng(2)
    state = solver.start()
    for _ in range(5):
        batch = solver.ask(state, rng)
        assert isinstance(batch, Batch)
        state = solver.tell(state, batch, mean(batch.codes) + 0.1 * rng.normal(size=batch.n_runs))
    again = from_json(to_json(state), PooledState)
    assert again.together == state.together
    ours, theirs = (solver.ask(one, np.random.default_rng(5)) for one in (state, again))
    assert isinstance(ours, Batch)
    assert isinstance(theirs, Batch)
    assert np.array_equal(ours.codes, theirs.codes)


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": 601},
        {"parts": (((0, 0), (0, 1), (1, 0)), (), (), (), (), ())},
        {"aim": "certify"},
        {"rules": THIN_RULES},
    ],
    ids=str,
)
def test_where_interactions_are_not_looked_for_no_runs_are_kept(changes: dict[str, Any]) -> None:
    sizes = (3, *SIZES[1:]) if "parts" in changes else SIZES
    plain = Pooled(Problem(Space.sized(sizes), None, 0.1, None), budget=60, aim="best")
    assert plain.start().runs is not None
    assert replace(plain, **changes).start().runs is None


def test_a_long_study_that_went_on_forgets_its_runs() -> None:
    solver = Pooled(problem(1.0), budget=60, aim="best")
    rng = np.random.default_rng(0)
    codes = EVERY[rng.integers(len(EVERY), size=1300)]
    state = solver.absorb(solver.start(), codes[:100], mean(codes[:100]), "past data")
    assert state.runs is not None
    assert len(state.runs) == 100
    state = solver.finish(state, codes[:60], mean(codes[:60]) + rng.normal(size=60))
    assert state.together is not None
    state = solver.absorb(solver.extend(state, 1300), codes, mean(codes) + rng.normal(size=1300), "block")
    assert state.runs is None
    assert state.together is None


def test_a_noise_stated_too_small_makes_no_interactions() -> None:
    """What is left over has to be something, and would be pairs of levers if the stated noise were relied on."""
    verdicts = [studied(Cfs(problem(0.5), budget=80), seed, 1.0, added) for seed in range(12)]
    claimed = [one for one in verdicts if "work together" in {proviso.kind for proviso in one.provisos}]
    assert len(claimed) <= 1


def test_levers_hardly_in_doubt_stay_where_they_lead() -> None:
    """The others are then compared where they will be set; under earlier rules half of the runs were elsewhere."""

    def clear(codes: Codes) -> Any:
        return 9.0 * codes[:, 0] + 0.3 * codes[:, 1]

    def later_rows(rules: int) -> Any:
        solver, rng = Pooled(problem(1.0), budget=120, aim="best", rules=rules), np.random.default_rng(5)
        state, rows = solver.start(), []
        while isinstance(step := solver.ask(state, rng), Batch):
            rows.append(step.codes)
            state = solver.tell(state, step, clear(step.codes) + rng.normal(size=step.n_runs))
        return np.concatenate(rows[1:])

    now, before = later_rows(TOGETHER_RULES), later_rows(THIN_RULES)
    assert (now[:, 0] == 1).mean() > 0.95
    assert (before[:, 0] == 1).mean() < 0.6
    assert 0.3 < (now[:, 1] == 1).mean() < 0.9  # not as clear


def test_fewer_runs_than_parameters_show_no_interactions() -> None:
    """Their odds are near even whatever holds, and would decide with whatever noise the fits differ by."""
    for n_runs, is_looked_for in ((6, False), (7, True)):
        for rules in (PARTS_RULES, Pooled.rules):
            solver = Pooled(problem(0.3), budget=n_runs, aim="best", rules=rules)
            assert solver.choices.n_parameters == 7
            rng = np.random.default_rng(1)
            state = solver.start()
            while isinstance(batch := solver.ask(state, rng), Batch):
                state = solver.tell(state, batch, mean(batch.codes) + 0.3 * rng.normal(size=batch.n_runs))
            assert (state.interaction_fit is not None) == (is_looked_for or rules == PARTS_RULES)
            assert state.trusted is not None


def test_studies_begun_before_take_outcomes_that_are_all_the_same_as_they_did() -> None:
    """What a log of theirs was decided by must come out again when it is verified."""
    for rules, is_fitted in ((LEADER_RULES, True), (Pooled.rules, False)):
        solver = Pooled(problem(0.3), budget=30, aim="best", rules=rules)
        batch = solver.ask(solver.start(), np.random.default_rng(1))
        assert isinstance(batch, Batch)
        state = solver.tell(solver.start(), batch, np.full(batch.n_runs, 4.0))
        assert (state.together is not None) == is_fitted
