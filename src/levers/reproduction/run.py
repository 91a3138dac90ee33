"""Run experiments, go on where an earlier call was stopped, and write the tables of results."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from levers.core.validation import check_choice, check_count
from levers.errors import InvalidSettingError
from levers.reproduction.backends import run_local, run_on_cluster
from levers.reproduction.results import Parts, Settings, summary, write_whole
from levers.reproduction.sweeps import GAUSSIAN, SIZES, SWEEPS, WORLDS_AND_REPEATS, Task, experiments
from levers.studies.analysis.tables import as_pandas

ALL = "all"
"""The name that stands for all experiments."""


@dataclass(frozen=True)
class Reproduction:
    """What was run: every run as a row, what it was made with, and how long this session took."""

    names: tuple[str, ...]
    settings: Settings
    runs: pl.DataFrame
    seconds: float
    n_resumed: int
    n_tasks: int

    @property
    def summary(self) -> pl.DataFrame:
        """Means and standard errors, one row per line and point of a figure."""
        return summary(self.runs)

    def dataframe(self, of: str = "runs", *, pandas: bool = False) -> pl.DataFrame | Any:
        """The runs, or their `summary`. With `pandas`, as a pandas frame, as `Study.trials_dataframe` gives it.

        >>> from levers.reproduction.results import Row, table
        >>> row = Row("degree", "p", 1.0, "cfs", 0, 0, 10, 0.1, False, None)
        >>> made = Reproduction(("degree",), Settings("smoke", 0, "1", ""), table([row]), 0.0, 0, 1)
        >>> made.dataframe("summary", pandas=True)[["contender", "runs", "n"]].values.tolist()
        [['cfs', 10.0, 1]]
        """
        frame = self.runs if check_choice("of", of, ("runs", "summary")) == "runs" else self.summary
        return as_pandas(frame) if pandas else frame


def reproduce(
    what: str,
    folder: str | Path,
    *,
    size: str = "notebook",
    seed: int = 0,
    workers: int = 1,
    scheduler: str | None = None,
    noise: str = GAUSSIAN,
    on_task: Callable[[Task, int, int], None] = lambda task, done, of: None,
) -> Reproduction:
    """Run one experiment of the paper, or all; what a folder holds already is not run again.

    Writes results.parquet and results.csv (one row per run). Interrupt it at any time: the same call goes on, and ends
    with the same bytes. With another `noise` than the paper's, the experiments and lines that it allows are run.
    """
    names, tasks = all_tasks(what, size, seed, noise)
    settings = Settings(size, seed, version("levers"), fingerprint(size), noise)
    with closing(Parts(Path(folder), settings)) as parts:
        known = parts.done()
        todo = [task for task in tasks if task.key not in known]
        began, n_done = time.perf_counter(), len(tasks) - len(todo)
        for task, rows in run_on_cluster(todo, scheduler) if scheduler else run_local(todo, workers):
            parts.keep(task, rows)
            n_done += 1
            on_task(task, n_done, len(tasks))
        runs = parts.runs(tasks)
        write_tables(Path(folder), runs)
    return Reproduction(names, settings, runs, time.perf_counter() - began, len(tasks) - len(todo), len(tasks))


def all_tasks(what: str, size: str, seed: int = 0, noise: str = GAUSSIAN) -> tuple[tuple[str, ...], list[Task]]:
    """The experiments that a name stands for, and all their tasks.

    >>> names, tasks = all_tasks("degree", "smoke")
    >>> names, len(tasks)
    (('degree',), 6)
    """
    possible = experiments(noise)
    names = possible if what == ALL else (check_choice("the experiment", what, [ALL, *SWEEPS]),)
    if names[0] not in possible:
        raise InvalidSettingError(f"{what} has no {noise} noise; with it there are: {', '.join(possible)}")
    check_choice("size", size, SIZES)
    check_count("seed", seed, 0)
    return names, [task for name in names for task in SWEEPS[name].tasks(size, seed, noise)]


def fingerprint(size: str) -> str:
    """A short digest of all sweeps of a size: results made with other points or contenders must not be mixed in."""
    text = repr([(name, sweep.points[size], WORLDS_AND_REPEATS[size]) for name, sweep in SWEEPS.items()])
    return sha256(text.encode()).hexdigest()[:12]


def write_tables(folder: Path, runs: pl.DataFrame) -> None:
    """Write the runs as Parquet and CSV, and the summary as CSV."""
    temporary = folder / ".results.writing"
    runs.write_parquet(temporary)
    temporary.replace(folder / "results.parquet")
    write_whole(folder / "results.csv", runs.write_csv().encode())
    write_whole(folder / "summary.csv", summary(runs).write_csv().encode())
