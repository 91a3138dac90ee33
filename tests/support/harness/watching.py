"""A small algorithm that leaves levers alone, to test studies with: what it says of them is no statistics."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import ArrayLike

import levers
from levers.algorithms import registry
from levers.algorithms.base import Progress, Remark
from levers.core.codec import serialisable
from levers.core.space import FREE, Codes, levels_had

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2, 3], "belt": ["A", "B"]}
SET, WATCHED = "set", "watched"
HIDDEN = Remark("hidden cause", "a hidden cause may act on what was left alone")


@serialisable("harness.WatchingState")
@dataclass(frozen=True)
class State:
    """Every run as it was made (`core.space.with_taken`) with its outcome, and whether somebody ended the study."""

    runs: tuple[tuple[tuple[int, ...], float], ...] = ()
    rounds: tuple[str, ...] = ()
    ended: bool = False
    more: int = 0


@dataclass(frozen=True)
class Watching(levers.Algorithm):
    """One round with every combination set `repeats` times, one that leaves each set of free levers alone, the end.

    The answer is the setting with the largest mean outcome, over all that was set or left alone.
    """

    free: tuple[int, ...] = ()
    repeats: int = 5
    budget: int | None = None
    name: ClassVar[str] = "watching"
    absorbs_runs: ClassVar[bool] = True
    certifies_early: ClassVar[bool] = True
    finishes_early: ClassVar[bool] = True

    def start(self) -> State:
        return State()

    def _rows(self, stage: str) -> Codes:
        rows = np.array(list(product(*map(range, self.space.n_levels))), dtype=np.int16)
        if stage == SET:
            return np.repeat(rows, self.repeats, axis=0)
        found = [rows[:1]]  # one run with everything set among those that leave something alone
        for left in product((False, True), repeat=len(self.free)):
            if any(left):
                some = rows.copy()
                some[:, [k for k, alone in zip(self.free, left, strict=True) if alone]] = FREE
                found.append(np.unique(some, axis=0))
        return np.concatenate(found)

    def ask(self, state: State, rng: np.random.Generator) -> levers.Batch | levers.Verdict:
        wanted = (SET, *([WATCHED] if self.free else []))
        left = [stage for stage in wanted if stage not in state.rounds]
        if state.more and not state.ended:
            return levers.Batch(rng.permutation(np.tile(self._rows(WATCHED), (1, 1)))[: state.more], WATCHED)
        if state.ended or not left:
            return self._verdict(state)
        return levers.Batch(rng.permutation(self._rows(left[0])), left[0])

    def tell(self, state: State, batch: levers.Batch, outcomes: ArrayLike) -> State:
        return self._with(state, batch.as_made, self.accept(batch, outcomes), batch.stage)

    def absorb(
        self, state: Any, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None
    ) -> State:
        return self._with(state, codes, np.asarray(outcomes, dtype=np.float64), stage)

    def _with(self, state: State, codes: Codes, outcomes: ArrayLike, stage: str) -> State:
        if (levels_had(codes) < 0).any():
            raise AssertionError("a run came without the levels that nature took")
        runs = zip(map(tuple, codes.tolist()), np.asarray(outcomes).tolist(), strict=True)
        return replace(state, runs=(*state.runs, *runs), rounds=(*state.rounds, stage), more=0)

    def finish(self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> State:
        return replace(self._with(state, codes, outcomes, "ended"), ended=True)

    def extend(self, state: Any, n_runs: int | None) -> State:
        found: State = replace(state, ended=False, more=n_runs or 3)
        return found

    def look_inside(self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> State:
        return self._with(state, codes, outcomes, "look")

    def interim(self, state: Any) -> levers.Verdict | None:
        return self._verdict(state) if state.runs else None

    def progress(self, state: Any) -> Progress:
        best = self._verdict(state).assignment.codes if state.runs else (0,) * self.space.n_factors
        return Progress(leaders=tuple(max(code, 0) for code in best), finished=state.ended)

    def _verdict(self, state: State) -> levers.Verdict:
        by_setting: dict[tuple[int, ...], list[float]] = {}
        for codes, outcome in state.runs:
            by_setting.setdefault(tuple(max(code, FREE) for code in codes), []).append(outcome)
        best = max(by_setting, key=lambda setting: float(np.mean(by_setting[setting])))
        chosen = self.space.assignment(best)
        return levers.Verdict(
            self.name,
            chosen,
            len(state.runs),
            tolerance=None,
            failure_prob=1.0,
            guarantee="nothing is promised",
            parents=(self.space.names[0],),
            runs_by_stage=((SET, len(state.runs)),),
            provisos=(HIDDEN,) if chosen.free else (),
        )


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it known as `watching` for a test."""
    monkeypatch.setitem(registry._OWN, Watching.name, f"{__name__}:{Watching.__name__}")


def run(trial: levers.Trial) -> tuple[float, dict[str, levers.Level]]:
    """A hidden fair coin: by nature the heat follows it, and the outcome is better where they agree."""
    coin = int(np.random.default_rng([7, trial.number]).integers(2))
    noise = float(np.random.default_rng([9, trial.number]).normal())
    taken: dict[str, levers.Level] = dict.fromkeys(trial.params.free, ("low", "high")[coin])
    heat = taken.get("heat", trial.params.get("heat"))
    value = 2.0 * (heat == ("low", "high")[coin]) + 1.0 * (trial.params.get("speed") == 2) + 0.6 * noise
    return value, taken


def tell(study: Any, trials: list[levers.Trial]) -> None:
    made = {trial.number: run(trial) for trial in trials}
    observed = {number: taken for number, (_, taken) in made.items() if taken}
    study.tell_many({number: value for number, (value, _) in made.items()}, observed=observed)


def until_left_alone(study: Any) -> list[levers.Trial]:
    """Rounds are told until one leaves the heat alone; its runs, all of them handed out."""
    while True:
        trials = study.ask(10_000)
        assert trials, "no round left anything alone"
        if any(trial.params.free for trial in trials):
            return list(trials)
        tell(study, trials)


def to_the_end(study: Any) -> levers.Verdict:
    while not study.is_finished:
        tell(study, study.running() or study.ask(10_000))
    return study.verdict()  # type: ignore[no-any-return]
