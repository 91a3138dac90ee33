"""Workers that are killed at any moment. For tests and benchmarks.

report = kill_workers("sqlite:///x.db", folder, kills=500)
"""

import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from harness.processes import SECONDS_TO_START, completed, fork_context
from levers.core.codec import to_json
from levers.errors import StudyError
from levers.studies.analysis import views
from levers.studies.library import copy_study, create_study, load_study, open_storage
from levers.studies.state import StudyState, Trial
from levers.studies.storage.base import Storage
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study

KILL_SPACE: dict[str, list[int]] = {"heat": [0, 1, 2], "speed": [0, 1, 2, 3], "supplier": [0, 1]}
TOLERANCES = (0.5, 0.25, 0.1, 0.05)
"""Of the studies whose workers are killed, in turn. The last takes thousands of runs, enough for snapshots."""

WORKER = "worker"
LEASE = 0.2  # seconds: a trial of a killed worker comes back soon
PAUSE = 0.01
MOST_AT_A_TIME = 8
PHASES = {b"s": "starting", b"a": "in ask", b"b": "between", b"t": "in tell", b"n": "after tell"}


@dataclass(frozen=True)
class KillReport:
    """What is left of studies whose workers were killed."""

    kills: int
    studies: int
    landed: dict[str, int]
    """Where kills landed, by what the worker was doing."""
    n_told: int
    """Outcomes for which `tell` returned, in all studies."""
    n_lost: int
    n_doubled: int
    n_different: int
    """Studies that ended otherwise than without interruption, or than their log says."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing was lost, counted twice or changed."""
        return not (self.n_lost or self.n_doubled or self.n_different)


def kill_workers(
    url: str, folder: Path, *, kills: int, seed: int = 0, tolerances: Sequence[float] = TOLERANCES
) -> KillReport:
    """Kill a worker and start the next, `kills` times, on as many studies as that takes; then check all of them."""
    began, rng = time.perf_counter(), np.random.default_rng([seed, 1])
    landed: Counter[str] = Counter()
    told = lost = doubled = different = index = 0
    while not index or landed.total() < kills:
        task = _Task(url, seed + index, tolerances[index % len(tolerances)], folder / f"{seed + index}.told")
        landed += _kill_until_finished(task, kills - landed.total(), rng)
        found = _check_killed(task)
        told, lost, doubled, different = told + found[0], lost + found[1], doubled + found[2], different + found[3]
        index += 1
    seconds = time.perf_counter() - began
    return KillReport(landed.total(), index, dict(landed), told, lost, doubled, different, seconds)


@dataclass(frozen=True)
class _Task:
    """A study that workers are killed on, and the file where they note what they told."""

    url: str
    seed: int
    tolerance: float
    notes: Path

    @property
    def name(self) -> str:
        return f"killed {self.seed}"

    def create(self, storage: str | Storage) -> Study:
        return create_study(
            self.name, KILL_SPACE, tolerance=self.tolerance, noise_sd=1.0, seed=self.seed, storage=storage
        )

    def outcome(self, state: StudyState, trial: int) -> float:
        """It follows from the row of the design, so it does not matter which trial made it, or when."""
        block, row = _row(state, trial)
        heat, speed, _ = state.blocks[block].batch.codes[row].tolist()
        effect = (0.0, 1.4, 0.6)[heat] + 1.2 * (speed == 2)
        return float(effect + np.random.default_rng([self.seed, block, row]).normal())


def _kill_until_finished(task: _Task, kills: int, rng: np.random.Generator) -> Counter[str]:
    """Start workers until one reaches the verdict; kill the first `kills` of them, whatever they are doing."""
    context, landed = fork_context(), Counter[str]()
    phase = task.notes.with_suffix(".phase")
    while True:
        phase.write_bytes(b"s")
        ready, says_ready = context.Pipe(duplex=False)
        draw = int(rng.integers(2**31))
        process = context.Process(target=_work_until_killed, args=(task, phase, draw, says_ready), daemon=True)
        process.start()
        says_ready.close()
        if landed.total() < kills:
            if rng.random() < 0.1:
                delay = rng.uniform(0, 0.05)  # likely while it starts
            else:
                delay = min(0.001 + rng.exponential(0.015), 0.06)
                ready.poll(SECONDS_TO_START)  # also when it ended
            process.join(delay)
            process.kill()
        process.join()
        ready.close()
        code = process.exitcode
        process.close()
        if code == 0:
            return landed
        if code != -9:
            raise StudyError(f"a worker on {task.name!r} ended with code {code}; its error is above")
        landed[PHASES[phase.read_bytes()]] += 1


def _work_until_killed(task: _Task, phase: Path, draw: int, says_ready: "Connection[bytes, bytes]") -> None:
    """A worker: ask, compute, tell, note, until the verdict."""
    rng = np.random.default_rng(draw)
    marks = os.open(phase, os.O_WRONLY)
    notes = os.open(task.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        study = load_study(task.name, task.url, who=WORKER)
    except StudyError:  # the first worker, or the one before was killed while creating it
        study = task.create(task.url)
    state = study.state
    says_ready.send_bytes(b".")
    # go on with what the one before had, or leave it until the lease is over
    held = study.running(WORKER) if rng.random() < 0.5 else []
    while not study.is_finished:
        if not held:
            os.pwrite(marks, b"a", 0)
            held = study.ask(int(rng.integers(1, MOST_AT_A_TIME + 1)), worker=WORKER, lease=LEASE)
        os.pwrite(marks, b"b", 0)
        if not held:
            time.sleep(PAUSE)
            continue
        state = study.state
        time.sleep(rng.uniform(0, 0.002))
        outcomes = [(trial, task.outcome(state, trial.number)) for trial in held]
        os.pwrite(marks, b"t", 0)
        told, held = _tell_somehow(study, outcomes, rng)
        os.pwrite(marks, b"n", 0)
        # one call, so that a kill leaves all of it or nothing
        os.write(notes, "".join(f"{trial.number} {value!r}\n" for trial, value in told).encode())


def _tell_somehow(
    study: Study, outcomes: list[tuple[Trial, float]], rng: np.random.Generator
) -> tuple[list[tuple[Trial, float]], list[Trial]]:
    """All at once or the first only, now and then with a run that failed; returns what was told, and what is left."""
    if rng.random() < 0.1:
        study.fail(outcomes.pop()[0], "by chance")
    if outcomes and rng.random() < 0.5:
        study.tell(*outcomes[0])
        return outcomes[:1], [trial for trial, _ in outcomes[1:]]
    if outcomes:
        study.tell_many(outcomes)
    return outcomes, []


def _check_killed(task: _Task) -> tuple[int, int, int, int]:
    """Outcomes that were told; how many of them are lost; rows that count twice; 1 if the study ended otherwise."""
    storage = open_storage(task.url)
    study = load_study(task.name, storage)
    replayed = copy_study(task.name, "replayed", storage, MemoryStorage())
    plain = _undisturbed(task, study.state)
    lines = [line.split() for line in task.notes.read_text().splitlines()]
    noted = {int(trial): float(value) for trial, value in lines}
    complete, values = completed(study.state)
    known = dict(zip(complete.tolist(), values.tolist(), strict=True))
    lost = sum(known.get(trial) != value for trial, value in noted.items())
    rows = {_row(study.state, trial) for trial in known}
    verdict = study.verdict()
    doubled = len(known) - len(rows) + abs(verdict.n_runs - len(rows)) + abs(study.state.n_complete - len(rows))
    same = to_json(verdict) == to_json(replayed.verdict()) and conclusions(study.state) == conclusions(plain.state)
    storage.close()
    return len(noted), lost, doubled, int(not same)


def _undisturbed(task: _Task, killed: StudyState) -> Study:
    """The same study with one worker, whom nobody ends, and who tells the outcomes in the same order.

    The order counts: checks for drift and for runs that follow each other go by it.
    """
    created = task.create(MemoryStorage())
    ticks = itertools.count(int(created.state.created_at) + 1)
    study = Study(created.name, created.storage, created.id, clock=lambda: float(next(ticks)))
    told_at = {_row(killed, trial): (killed.trials.told_at[trial], trial) for trial in completed(killed)[0].tolist()}
    never = (math.inf, 0)
    while not study.is_finished:
        due = study.ask_numbers(2**40).tolist()
        for trial in sorted(due, key=lambda trial: told_at.get(_row(study.state, trial), never)):
            study.tell(trial, task.outcome(study.state, trial))
    return study


def conclusions(state: StudyState) -> tuple[str, list[tuple[object, ...]]]:
    """What a study says at its end, with rows of the design where a verdict has the numbers of trials.

    A run that was lost with its worker is made again as another trial, so its number, which a doubt names, is another.
    """
    verdict = views.verdict(state)
    assert verdict is not None  # only called at the end
    doubts: list[tuple[object, ...]] = [
        (doubt.kind, doubt.levers, doubt.block, doubt.p_value, [_row(state, trial) for trial in doubt.trials])
        for doubt in verdict.doubts
    ]
    return to_json(replace(verdict, doubts=())), doubts


def _row(state: StudyState, trial: int) -> tuple[int, int]:
    """The block and row of the design that a trial makes."""
    return int(state.trials.block[trial]), int(state.trials.row[trial])
