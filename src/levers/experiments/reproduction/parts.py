"""Results as they come in: one small file per task, so that whatever stops a run costs one task at most."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from levers.errors import InvalidSettingError
from levers.experiments.reproduction.rows import SCHEMA, Row, table
from levers.experiments.reproduction.sweep import Task

_SETTINGS = "settings.json"


@dataclass(frozen=True)
class Settings:
    """What a folder's results were made with."""

    size: str
    seed: int
    version: str
    sweeps: str


class Parts:
    """The finished tasks in a folder.

    A folder that holds results of other settings is refused, so that tables are never mixed.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._parts = folder / "parts"
        try:
            self._parts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSettingError(f"cannot write to {folder}: {error.strerror or error}") from None
        self._keep(settings)

    def _keep(self, settings: Settings) -> None:
        path = self.folder / _SETTINGS
        if path.exists():
            try:
                known = json.loads(path.read_text())
            except ValueError:
                known = None
            if known != asdict(settings):
                raise InvalidSettingError(
                    f"{self.folder} holds results of other settings ({known}); choose another folder, or delete it"
                )
        else:
            write_whole(path, json.dumps(asdict(settings)).encode())

    def done(self) -> set[str]:
        """Keys of the tasks that are finished."""
        return {path.stem for path in self._parts.glob("*.parquet")}

    def keep(self, task: Task, rows: Sequence[Row]) -> None:
        """Keep a finished task; a crash leaves all of it or nothing."""
        path = self._parts / f"{task.key}.parquet"
        temporary = path.with_suffix(".writing")
        table(list(rows)).write_parquet(temporary)
        os.replace(temporary, path)

    def runs(self, tasks: Sequence[Task]) -> pl.DataFrame:
        """All runs of these tasks, in their order: the same table whatever order they were made in."""
        frames = [pl.read_parquet(self._parts / f"{task.key}.parquet") for task in tasks]
        return pl.concat([pl.DataFrame(schema=SCHEMA), *frames])


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_bytes(data)
    os.replace(temporary, path)
