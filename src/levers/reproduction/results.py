"""Results: one row per run, kept in one small file per task, so that whatever stops a run costs one task at most."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from threading import get_ident
from typing import Any, get_type_hints
from weakref import WeakValueDictionary, finalize

import polars as pl
from polars.exceptions import PolarsError

from levers.errors import InvalidSettingError
from levers.reproduction.sweeps import GAUSSIAN, Task

if sys.platform != "win32":
    import fcntl

_SETTINGS = "settings.json"  # the file that says what a folder's results were made with
_LOCK = ".lock"  # the file that a process locks while it writes to a folder
_POINT = ("experiment", "panel", "x", "contender")  # the columns that name one point of a figure's line
_MEANS = ("parents_exact", "parents_missed", "limit", "bound", "ceiling", "expected")  # their means are in the summary
_TYPES: dict[Any, Any] = {str: pl.String, float: pl.Float64, int: pl.Int64, bool: pl.Boolean}
"""The column type of each type of a row; what may be None has the same."""


@dataclass(frozen=True, slots=True)
class Row:
    """One contender on one world, once.

    `parents_missed` counts true parents that were not reported. `limit` is what no method of a kind can do without: the
    fewest runs of a balanced design, or the bound on searches for a needle. The others are for MODL: `bound` is the
    theorem's, `ceiling` one that holds for the schedule, `expected` the sum over phases without noise. For a needle
    `bound` is the theorem's lower bound, on the flat world.
    """

    experiment: str
    panel: str
    x: float
    contender: str
    world: int
    repeat: int
    n_runs: int
    gap: float
    failed: bool
    parents_exact: bool | None
    parents_missed: int | None = None
    limit: float | None = None
    bound: float | None = None
    ceiling: float | None = None
    expected: int | None = None


SCHEMA = {name: _TYPES[kind if kind in _TYPES else kind.__args__[0]] for name, kind in get_type_hints(Row).items()}
"""The columns of a table of runs."""


@dataclass(frozen=True)
class Settings:
    """What a folder's results were made with."""

    size: str
    seed: int
    version: str
    sweeps: str
    noise: str = GAUSSIAN


class Parts:
    """The finished tasks in a folder, which is this object's alone until it is closed, or its process ends.

    A folder that holds results of other settings is refused, so that tables are never mixed.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._parts = folder / "parts"
        try:
            self._parts.mkdir(parents=True, exist_ok=True)
            self._close = finalize(self, os.close, _lock(folder))
        except OSError as error:
            raise InvalidSettingError(f"cannot write to {folder}: {error.strerror or error}") from None
        _open[_owner(folder)] = self
        try:
            self._keep(settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the folder to others."""
        self._close()

    def _keep(self, settings: Settings) -> None:
        path = self.folder / _SETTINGS
        if not path.exists() and not any(self._parts.glob("*.parquet")):
            write_whole(path, json.dumps(asdict(settings)).encode())
            return
        try:
            known: Any = {"noise": GAUSSIAN, **json.loads(path.read_text())}  # folders from before do not say
        except (OSError, ValueError, TypeError):
            known = f"its {_SETTINGS} cannot be read"
        if known != asdict(settings):
            raise InvalidSettingError(
                f"{self.folder} holds results of other settings ({known}); choose another folder, or delete it"
            )

    def done(self) -> set[str]:
        """Keys of the tasks that are finished. A file that cannot be read, as a power cut may leave, does not count."""
        return {path.stem for path in self._parts.glob("*.parquet") if _is_whole(path)}

    def keep(self, task: Task, rows: Sequence[Row]) -> None:
        """Keep a finished task; a crash leaves all of it or nothing."""
        data = BytesIO()
        table(list(rows)).write_parquet(data)
        write_whole(self._parts / f"{task.key}.parquet", data.getvalue())

    def runs(self, tasks: Sequence[Task]) -> pl.DataFrame:
        """All runs of these tasks, in their order: the same table whatever order they were made in."""
        frames = [pl.read_parquet(self._parts / f"{task.key}.parquet") for task in tasks]
        return pl.concat([pl.DataFrame(schema=SCHEMA), *frames])


_open: WeakValueDictionary[tuple[Path, int], Parts] = WeakValueDictionary()
"""What each thread has open. A thread makes one call at a time, so what it left open belongs to a call that failed."""


def table(rows: list[Row]) -> pl.DataFrame:
    """Rows as a table."""
    return pl.DataFrame([asdict(row) for row in rows], schema=SCHEMA)


def summary(runs: pl.DataFrame) -> pl.DataFrame:
    """Means over all runs of a point, with standard errors that take worlds as the independent units.

    >>> rows = [Row("e", "p", 1.0, "cfs", world, 0, 10 * (world + 1), 0.1, False, None) for world in range(4)]
    >>> summary(table(rows)).select("runs", "runs_se", "failures", "n").row(0)
    (25.0, 6.454972243679028, 0, 4)
    """
    by_world = runs.group_by(*_POINT, "world", maintain_order=True).agg(
        pl.col("n_runs", "gap", *_MEANS).mean(), pl.col("failed").sum(), pl.len().alias("n")
    )
    root_n = (pl.len().cast(pl.Float64)).sqrt()
    return by_world.group_by(*_POINT, maintain_order=True).agg(
        pl.col("n_runs").mean().alias("runs"),
        (pl.col("n_runs").std() / root_n).alias("runs_se"),
        pl.col("gap").mean(),
        (pl.col("gap").std() / root_n).alias("gap_se"),
        pl.col("failed").sum().alias("failures"),
        pl.col("n").sum(),
        pl.col(*_MEANS).mean(),
        pl.len().alias("worlds"),
    )


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    temporary = path.with_name(f".{path.name}.writing")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _is_whole(path: Path) -> bool:
    try:
        return pl.read_parquet(path).schema == pl.Schema(SCHEMA)
    except (PolarsError, OSError):
        return False


def _owner(folder: Path) -> tuple[Path, int]:
    return folder.resolve(), get_ident()


def _lock(folder: Path) -> int:
    """A descriptor that holds the folder for as long as it is open; the kernel closes it when the process dies."""
    left_open = _open.get(_owner(folder))
    if left_open is not None:  # kept alive by the traceback of an interrupted call, as notebooks do
        left_open.close()
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform != "win32":  # there, two processes in one folder are not noticed
            # flock, not lockf: it also holds between threads, and closing another descriptor does not lose it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise InvalidSettingError(
                f"another process writes to {folder}; wait until it is done, or choose another folder"
            ) from None
        raise
    return descriptor
