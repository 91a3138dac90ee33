"""Many workers on one study at once. For tests and benchmarks.

report = run_fleet("sqlite:///y.db", folder, workers=16, trials=20_000)
"""

import multiprocessing
import os
import time
import traceback
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.processes import SECONDS_TO_START, completed, fork_context
from levers.errors import StudyError
from levers.studies.events import Asked, Values
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.study import Study

FLEET_SPACE: dict[str, list[int]] = {f"x{i}": [0, 1, 2, 3] for i in range(10)}
PAUSE = 0.01


@dataclass(frozen=True, eq=False)
class FleetReport:
    """What many workers at once did to a study."""

    n_told: int
    problems: tuple[str, ...]
    seconds: float
    ask_seconds: Values
    tell_seconds: Values


def run_fleet(
    url: str, folder: Path, *, workers: int, trials: int, seed: int = 0, lease: float | None = None
) -> FleetReport:
    """Let processes ask for one trial after the other and tell it, until about `trials` were told; check every one.

    With a `lease`, in seconds, every trial has a deadline to keep track of; it should be one that nobody misses.
    """
    name = f"fleet {seed}"
    storage = open_storage(url)
    create_study(name, FLEET_SPACE, budget=trials, noise_sd=1.0, seed=seed, storage=storage)
    storage.close()
    context = fork_context()
    gate = context.Barrier(workers + 1)
    files = [folder / f"fleet-{i}.csv" for i in range(workers)]
    crew: list[ForkServerProcess] = []
    for i, file in enumerate(files):
        crew.append(context.Process(target=_work_in_fleet, args=(name, url, file, i, gate, lease), daemon=True))
        crew[-1].start()
    gate.wait(SECONDS_TO_START)
    began = time.perf_counter()
    for process in crew:
        process.join()
    seconds = time.perf_counter() - began
    codes = [process.exitcode for process in crew]
    problems = [f"worker {i} ended with code {code}" for i, code in enumerate(codes) if code]
    # on a busy machine the others may be done before a worker has begun: it then noted nothing
    kept = [file for file in files if file.exists() and file.stat().st_size]
    noted = np.concatenate([np.zeros((0, 6)), *(np.loadtxt(file, ndmin=2, delimiter=",") for file in kept)])
    study = load_study(name, storage)
    problems += _check_fleet(study, noted)
    storage.close()
    return FleetReport(len(noted), tuple(problems), seconds, noted[:, 3] - noted[:, 2], noted[:, 5] - noted[:, 4])


def _work_in_fleet(
    name: str, url: str, file: Path, index: int, gate: "multiprocessing.synchronize.Barrier", lease: float | None
) -> None:
    """A worker: one trial at a time. Every fourth takes a little time for a run."""
    rng = np.random.default_rng([index, 2])
    study = load_study(name, url, who=f"worker {index}")
    gate.wait(SECONDS_TO_START)
    with file.open("w") as notes:
        while True:
            begin = time.perf_counter()
            held = study.ask(lease=lease)
            asked = time.perf_counter()
            if not held:
                if study.is_finished:
                    return
                time.sleep(rng.uniform(0.005, 0.02))
                continue
            if index % 4 == 3:
                time.sleep(rng.uniform(0, 0.002))
            value = float(held[0].params.codes[0] + rng.normal())
            run = time.perf_counter()
            study.tell(held[0], value)
            notes.write(f"{held[0].number},{value!r},{begin!r},{asked!r},{run!r},{time.perf_counter()!r}\n")


def _check_fleet(study: Study, noted: NDArray[np.float64]) -> list[str]:
    problems = []
    numbers, values = noted[:, 0].astype(np.int64), noted[:, 1]
    if len(np.unique(numbers)) != len(numbers):
        problems.append(f"{len(numbers) - len(np.unique(numbers))} trials were handed out twice")
    records = [record.record().event for record in study.storage.read(study.storage.find(study.name), 0)]
    handed = np.concatenate([event.trials for event in records if isinstance(event, Asked)])
    if len(np.unique(handed)) != len(handed):
        problems.append("the log hands out a trial twice")
    complete, known = completed(study.state)
    order = np.argsort(numbers)
    if not (np.array_equal(numbers[order], complete) and np.array_equal(values[order], known)):
        problems.append("the outcomes in the study are not those that were told")
    if not study.is_finished or study.verdict().n_runs != len(numbers) or study.state.n_complete != len(numbers):
        problems.append(f"{len(numbers)} outcomes were told, and the study counts {study.state.n_complete}")
    return problems


def run_forked(url: str, *, children: int, asks: int) -> int:
    """Carry an open study into forked processes, which ask and tell with it; returns how many outcomes count after.

    Connections must not be shared between processes, and this is the easiest way to do it by accident.
    """
    process = fork_context().Process(target=_fork_with_a_study, args=(url, children, asks))
    process.start()
    process.join()
    if process.exitcode:
        raise StudyError(f"a forked worker on {url!r} failed; its error is above")
    storage = open_storage(url)
    n_complete = load_study("forked", storage).state.n_complete
    storage.close()
    return n_complete


def _fork_with_a_study(url: str, children: int, asks: int) -> None:
    # a tolerance whose first block has runs for everyone: nobody has to wait for the next
    study = create_study("forked", FLEET_SPACE, tolerance=0.1, noise_sd=1.0, seed=0, storage=url)
    study.tell(study.ask()[0], 0.0)  # so that a connection is open
    crew = []
    for _ in range(children):
        crew.append(os.fork())
        if not crew[-1]:
            code = 1
            try:
                for _ in range(asks):
                    study.tell_many((trial, 0.0) for trial in study.ask())
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)  # not through the parent's clean-up
    study.tell(study.ask()[0], 0.0)  # the parent's own connection still works beside theirs
    failed = [child for child in crew if os.waitpid(child, 0)[1]]
    raise SystemExit(1 if failed else 0)
