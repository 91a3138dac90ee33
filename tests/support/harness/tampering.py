"""Single bits of a storage's file that change by themselves, and rows that somebody edits. For tests and benchmarks.

Every one must be noticed, or have changed nothing that is kept; nothing may end in a traceback.
"""

import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import levers
from levers.core.space import Level
from levers.errors import LeversError
from levers.studies import log
from levers.studies.library import create_study, delete_study, list_studies, load_study, merge_study, open_storage
from levers.studies.storage.care.check import check_storage
from levers.studies.storage.sql import SqlStorage, parse_url
from levers.studies.storage.tokens import create_token, revoke_token
from levers.studies.study import Study

LOOKS = ("studies", "status {}", "verdict {}", "effects {}", "forecast {}", "log {}", "trials {}", "token list")
"""Commands that read."""


def build_storage(path: Path, seed: int = 1) -> None:
    """A small storage in which there is everything that a storage can have."""
    rng, every = np.random.default_rng(seed), log.EVERY
    storage = SqlStorage(parse_url(f"sqlite:///{path}"))
    log.EVERY = 8  # so that there are snapshots
    try:
        for act in (_corrected, _course, _waiting):
            act(storage, rng, seed)
        create_study("gone", {"a": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=seed, storage=storage)
        delete_study("gone", storage)
        create_token(storage, "admin", note="ann")
        create_token(storage, "write", "oven")
        revoke_token(storage, create_token(storage, "read").split("_")[1])
    finally:
        log.EVERY = every
        storage.close()


def _outcome(study: Study, trial: Any, rng: np.random.Generator) -> float:
    return float(sum(study.space.encode(trial.params).codes) + rng.normal())


def _corrected(storage: SqlStorage, rng: np.random.Generator, seed: int) -> None:
    """Finished, with a failure, an import, corrections and an exclusion; and merged."""
    levels: dict[str, list[Level]] = {"heat": ["low", "high"], "time": [10, 20, 30]}
    study = create_study("oven", levels, tolerance=1.5, noise_sd=1.0, seed=seed, storage=storage, who="ann")
    study.fail(study.ask()[0], "door open")
    study.import_runs([{"heat": "low", "time": 10}, {"heat": "high", "time": 30}], [0.3, 3.1], "last year", insist=True)
    study.warns = False
    _tell_all(study, rng)
    study.correct(2, 0.5, "misread")
    study.exclude(3, "wrong batch")
    _tell_all(study, rng)
    merge_study("oven", "oven as one", ["heat", "time"], storage, seed=seed)


def _tell_all(study: Study, rng: np.random.Generator) -> None:
    while not study.is_finished:
        for trial in study.by("bob").ask(4, lease=60.0):
            key, value = f"k-{trial.number}", _outcome(study, trial, rng)
            study.once(key, "tell", lambda t=trial, v=value: str(study.accept([t.number], [v]).trials.size))  # type: ignore[misc]


def _course(storage: SqlStorage, rng: np.random.Generator, seed: int) -> None:
    """Ended, gone on with, and restated."""
    study = create_study("farm \N{SNOWMAN}", {"a": [1, 2], "b": [1, 2]}, budget=12, seed=seed, storage=storage)
    study.warns = False
    study.tell_many([(trial, _outcome(study, trial, rng)) for trial in study.ask(4)])
    study.finish("enough")
    study.go_on(4, "more")
    study.tell_many([(trial, _outcome(study, trial, rng)) for trial in study.ask(2)])
    study.restate(budget=30, reason="there is money")


def _waiting(storage: SqlStorage, rng: np.random.Generator, seed: int) -> None:
    """Under way, with runs that are out."""
    study = create_study("line", {"speed": [1, 2, 3]}, tolerance=0.5, noise_sd=1.0, seed=seed, storage=storage)
    study.tell(study.ask(3)[0], float(rng.normal()))


def dump(path: str) -> list[tuple[Any, ...]]:
    """Every row of every table, with types, byte for byte."""
    connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    connection.text_factory = bytes
    try:
        tables = [row[0].decode() for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found: list[tuple[Any, ...]] = list(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
        for table in sorted(tables):
            rows = connection.execute(f'SELECT rowid, * FROM "{table}" ORDER BY rowid').fetchall()
            found += [(table, *((type(value).__name__, value) for value in row)) for row in rows]
        return found
    finally:
        connection.close()


@dataclass
class Tampered:
    """How many changes were made, and what became of each."""

    found: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything that changed something was noticed, without a traceback."""
        return not self.missed and not self.tracebacks


def verified_studies(path: str) -> bool:
    """Whether every study verifies, and can be read at all."""
    storage = SqlStorage(parse_url(f"sqlite:///{path}"))
    try:
        return all(load_study(name, storage).verify().ok for name in list_studies(storage))
    except LeversError:
        return False
    finally:
        storage.close()


@contextmanager
def scratch() -> Iterator[str]:
    """A folder in memory, where there is one."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield folder


def flip_bits(path: Path, n: int, seed: int = 1, looks: int = 0) -> Tampered:
    """Flip n bits, one at a time, anywhere in the file; commands look at some of these files too."""
    original, rng, result = bytearray(path.read_bytes()), random.Random(seed), Tampered()
    before = dump(str(path))
    with scratch() as folder:
        file = os.path.join(folder, "flipped.db")
        for i in range(n):
            bit = rng.randrange(8 * len(original))
            original[bit // 8] ^= 1 << bit % 8
            Path(file).write_bytes(original)
            original[bit // 8] ^= 1 << bit % 8
            where = f"bit {bit % 8} of byte {bit // 8} (page {bit // 8 // 4096 + 1}, {bit // 8 % 4096})"
            _judge(file, where, before, result)
            if i < looks:
                _look(file, where, result)
            _clear(folder)
    return result


def _judge(file: str, what: str, before: list[tuple[Any, ...]], result: Tampered) -> None:
    """Noticed by the check; or every row of every table is the same, byte for byte; or noticed by `verify`."""
    try:
        if not check_storage(f"sqlite:///{file}").ok:
            result.found["noticed by storage check"] += 1
        elif _is_same(file, before):
            result.found["nothing that is kept changed"] += 1
        elif not verified_studies(file):
            result.found["noticed by verify"] += 1
        else:
            result.found["missed"] += 1
            result.missed.append(what)
    except Exception as error:  # whatever comes here would be a traceback for somebody
        result.tracebacks.append(f"{what}: {type(error).__name__}: {error}")


def _is_same(file: str, before: list[tuple[Any, ...]]) -> bool:
    try:
        return dump(file) == before
    except sqlite3.Error:
        return False


def _look(file: str, what: str, result: Tampered) -> None:
    """What the command line and the pages say of the file: an answer, or an error in one line."""
    from typer.testing import CliRunner

    from levers.cli.app import app

    for command in (c.format("oven") for c in LOOKS):
        done = CliRunner().invoke(app, [*command.split(), "--storage", f"sqlite:///{file}"])
        if done.exception is not None and not isinstance(done.exception, LeversError | SystemExit | OSError):
            result.tracebacks.append(f"{what}: levers {command}: {type(done.exception).__name__}: {done.exception}")
        result.found[f"looked at by {command.split()[0]}"] += 1
    opened = [key for key in levers.studies.library._opened if file in key[0]]
    for key in opened:
        levers.studies.library._opened.pop(key).close()
    _look_at_pages(file, what, result)


def _look_at_pages(file: str, what: str, result: Tampered) -> None:
    from starlette.testclient import TestClient

    from levers.web.app import make_app
    from levers.web.service import Service

    try:
        storage = open_storage(SqlStorage(parse_url(f"sqlite:///{file}")))
    except LeversError:
        return
    try:
        client = TestClient(make_app(Service(storage)), raise_server_exceptions=False)
        for page in ("/", "/studies/oven", "/studies/oven/trials", "/health"):
            if client.get(page).status_code == 500:
                result.tracebacks.append(f"{what}: GET {page}")
            result.found["pages looked at"] += 1
    finally:
        storage.close()


def _clear(folder: str) -> None:
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def edit_rows(path: Path, n: int, seed: int = 1) -> Tampered:
    """Edit a value, or delete a row, in any table, n times, each time in a new copy."""
    rng, result = random.Random(seed), Tampered()
    before = dump(str(path))
    with scratch() as folder:
        for i in range(n):
            file = os.path.join(folder, f"edited{i}.db")
            shutil.copyfile(path, file)
            what = _edit(file, rng)
            _judge(file, what, before, result)
            _clear(folder)
    return result


def _edit(file: str, rng: random.Random) -> str:
    connection = sqlite3.connect(file)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    full = {table: connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in sorted(tables)}
    table = rng.choice([table for table, rows in full.items() if rows])
    rowids = [row[0] for row in connection.execute(f'SELECT rowid FROM "{table}"')]
    rowid = rng.choice(rowids)
    what = f"{table}, row {rowid}"
    if rng.random() < 0.3:
        connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (rowid,))
        what = f"{what}: deleted"
    else:
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        for column in rng.sample(columns, len(columns)):
            value = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (rowid,)).fetchone()[0]
            try:
                changed = _other(value, rng)
                connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (changed, rowid))
            except sqlite3.IntegrityError:
                continue
            what = f"{what}: {column} = {str(changed)[:40]!r}, was {str(value)[:40]!r}"
            break
    connection.commit()
    connection.close()
    return what


def _other(value: Any, rng: random.Random) -> Any:
    """Another value of the same type, which somebody might put there."""
    if value is None:
        return rng.choice([1.0, "x"])
    if isinstance(value, int):
        return value + rng.choice([-1, 1, 7])
    if isinstance(value, float):
        return value + rng.choice([-1.0, 0.001, 86400.0])
    at = rng.randrange(len(value)) if value else 0
    if isinstance(value, bytes):
        return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] if value else b"x"
    letter = rng.choice([c for c in "0123456789abcdef-" if value[at : at + 1] != c])
    return value[:at] + letter + value[at + 1 :]


def space_that_holds_nothing(path: Path) -> float:
    """The share of the file's bytes in which nothing is kept: free pages, and what is not used of others."""
    connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    try:
        used = connection.execute("SELECT sum(pgsize - unused) FROM dbstat").fetchone()[0]
    finally:
        connection.close()
    return 1 - float(used) / path.stat().st_size
