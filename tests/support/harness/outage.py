"""A fleet whose database is restarted under it, again and again. For tests and benchmarks.

report = run_through_restarts(url, folder, workers=8, runs=2000, restarts=10)
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import levers
from harness.processes import SECONDS_TO_START, fork_context
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.study import Study
from levers.studies.workers.journal import journals

OUTAGE_SPACE: dict[str, list[int]] = {"heat": [0, 1, 2], "speed": [0, 1, 2, 3], "supplier": [0, 1]}
PAUSE = 0.005
"""Seconds that a run takes, so that the fleet lasts as long as the restarts do."""


@dataclass(frozen=True, eq=False)
class OutageReport:
    """What a fleet did while its database came and went."""

    n_restarts: int
    n_runs: int
    n_measured: int
    """Calls of the function; more than `n_runs` when a lease ran out while the database was away."""
    problems: tuple[str, ...]
    seconds: float


def outcome(run: levers.Assignment) -> float:
    """It follows from the setting, so it does not matter who made the run, or when."""
    return float((0.0, 1.4, 0.6)[run.codes[0]] + 1.2 * (run.codes[1] == 2))


def run_through_restarts(
    url: str,
    folder: Path,
    restart: Callable[[], None],
    *,
    workers: int,
    runs: int,
    restarts: int,
    every: float = 1.0,
) -> OutageReport:
    """Let `workers` processes make `runs` runs while `restart` is called now and then; check everything afterwards.

    `folder` gets the journals, and notes of what was measured.
    """
    storage = open_storage(url)
    study = create_study("outage", OUTAGE_SPACE, budget=runs, noise_sd=1.0, seed=1, storage=storage)
    context = fork_context()
    crew: list[ForkServerProcess] = []
    for i in range(workers):
        notes = folder / f"measured-{i}"
        notes.touch()
        crew.append(context.Process(target=_work, args=(url, str(folder / "journals"), str(notes), i), daemon=True))
        crew[-1].start()
    _wait_until(lambda: study.state.n_complete > 0)
    began, n_restarts = time.perf_counter(), 0
    while n_restarts < restarts and any(process.is_alive() for process in crew):
        storage.close()  # this process is not part of the fleet
        restart()
        n_restarts += 1
        time.sleep(every)
    for process in crew:
        process.join()
    seconds = time.perf_counter() - began
    storage.close()
    problems = [f"worker {i} ended with code {one.exitcode}" for i, one in enumerate(crew) if one.exitcode]
    lines = [line for i in range(workers) for line in (folder / f"measured-{i}").read_text().splitlines()]
    measured = Counter(tuple(json.loads(line)) for line in lines)
    study = load_study("outage", storage)
    problems += _check(study, measured, runs, folder / "journals")
    n_runs = study.state.n_complete
    storage.close()
    return OutageReport(n_restarts, n_runs, measured.total(), tuple(problems), seconds)


def _work(url: str, journal: str, notes: str, index: int) -> None:
    os.environ["LEVERS_JOURNAL"] = journal
    study = load_study("outage", url, who=f"worker {index}")
    with Path(notes).open("a") as file:

        def noted(run: levers.Assignment) -> float:
            time.sleep(PAUSE)
            file.write(f"{list(run.codes)}\n")
            file.flush()
            return outcome(run)

        study.optimize(noted, worker=f"worker {index}", lease=20.0)


def _check(study: Study, measured: "Counter[tuple[int, ...]]", runs: int, journal: Path) -> list[str]:
    problems = []
    if not study.is_finished:
        return ["the study is not finished"]
    plain = create_study("outage", OUTAGE_SPACE, budget=runs, noise_sd=1.0, seed=1)
    expected = plain.optimize(outcome)
    assert expected is not None
    # what speaks against a verdict may depend on the order in which outcomes came: that is how drift is found
    if replace(study.verdict(), doubts=()) != replace(expected, doubts=()):
        problems.append("the verdict is another than without restarts")
    if study.verdict().n_runs != study.state.n_complete:
        problems.append(f"{study.state.n_complete} outcomes count, and the verdict says {study.verdict().n_runs}")
    counted = Counter(
        tuple(row) for block in study.state.blocks for row in block.batch.codes[block.told_order].tolist()
    )
    if counted - measured:
        problems.append(f"{(counted - measured).total()} outcomes count that nobody measured")
    left = [one for one in journals(journal) if one.unsent or one.rejected]
    if left:
        problems.append(f"{len(left)} journals have outcomes that were not taken")
    return problems


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the fleet did not begin")
        time.sleep(0.02)
