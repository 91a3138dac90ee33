"""What a worker has measured and not yet told, in a small file on its own disk.

An outcome is on disk before it is told, and is marked once the study has it. So it outlives the worker, and a storage
or a service that is away. The next worker on this machine, or `levers journal send`, tells what is left.

A journal is lines of JSON: what it is for, then what happened, the latest last. A line that was cut off by a crash is
left out. One worker has it at a time, by a lock on the file that ends with the process.
"""

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from levers.core.space import Level
from levers.errors import BusyWorkerError, JournalError

VARIABLE = "LEVERS_JOURNAL"
FORMAT = 1
SUFFIX = ".jsonl"
COMPACT_BYTES = 1 << 16
"""A journal in which everything is told is emptied when it is larger than this."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose journal it is: the study's address, without any password, its name and when it was created; the worker."""

    address: str
    study: str
    created_at: float
    worker: str

    @property
    def file_name(self) -> str:
        """The same for the same worker of the same study, and nothing of them can be read from it.

        >>> Owner("sqlite:////x.db", "oven", 1.5, "ann").file_name
        'bbc0ddf17fcadce47cd5a70c6d6b3f3f.jsonl'
        """
        text = json.dumps([self.address, self.study, self.created_at, self.worker])
        return hashlib.sha256(text.encode()).hexdigest()[:32] + SUFFIX


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: a number, with what levers took that were left alone, or why there is none.

    `rejected` says why the study did not take it; None while nobody has been told. `codes` is what the run set, as
    positions of levels: a number may be another run once a storage was rolled back.
    """

    trial: int
    value: float | None = None
    observed: Mapping[str, Level] | None = None
    failed: str | None = None
    at: float = 0.0
    rejected: str | None = None
    codes: tuple[int, ...] | None = None


def journal_folder() -> Path:
    """LEVERS_JOURNAL, or `levers` in the folder where programs of this user keep their state (XDG_STATE_HOME)."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "levers"


class Journal:
    """One worker's outcomes that are not told yet, on disk.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Journal.open(Owner("sqlite:////x.db", "oven", 1.5, "ann"), folder) as journal:
    ...     journal.keep(Outcome(3, 1.25))
    ...     journal.keep(Outcome(4, 1.5))
    ...     journal.told(3)
    >>> [found.unsent for found in journals(folder)]
    [{4: Outcome(trial=4, value=1.5, observed=None, failed=None, at=0.0, rejected=None, codes=None)}]
    """

    def __init__(self, owner: Owner | None = None, path: Path | None = None, file: IO[bytes] | None = None) -> None:
        """Without a file it keeps outcomes in memory only."""
        self.owner = owner
        self.path = path
        self._file = file
        self._n_whole = 0
        self.unsent: dict[int, Outcome] = {}
        """What is to be told, the oldest first."""
        self.rejected: dict[int, Outcome] = {}
        """What the study refused; it is kept until somebody drops it."""
        self.n_unreadable = 0
        """Lines that cannot be read, and are not the last one, which a crash may have cut off."""

    @classmethod
    def open(cls, owner: Owner, folder: Path | None = None) -> "Journal":
        """The journal of a worker, new or as the last one of that name left it.

        BusyWorkerError when another has it now, JournalError when it cannot be written.
        """
        path = (folder or journal_folder()) / owner.file_name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
                file = os.fdopen(descriptor, "r+b", buffering=0)
                if not _locked(file):
                    file.close()
                    raise BusyWorkerError(
                        f"a worker called {owner.worker!r} is at work on {owner.study!r} here; give this one another "
                        "name (worker=, --worker), or stop the other"
                    )
                if _is_at(file, path):  # else whoever had it removed it before we had the lock
                    break
                file.close()
        except OSError as error:
            raise JournalError(f"the journal {path} cannot be written: {error.strerror or error}") from None
        made, data = cls(owner, path, file), file.read()
        made._read(data)
        file.truncate(made._n_whole)
        if _owner_in(data) is None:
            made._write(_header(owner), sync=True)
        return made

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def keep(self, outcome: Outcome) -> None:
        """Write an outcome down; it is on disk when this returns."""
        self.unsent[outcome.trial] = outcome
        kept: dict[str, Any] = {"trial": outcome.trial, "value": outcome.value, "observed": outcome.observed}
        kept |= {"failed": outcome.failed, "codes": outcome.codes}
        self._write({**{key: value for key, value in kept.items() if value is not None}, "at": outcome.at}, sync=True)

    def told(self, trial: int) -> None:
        """The study has it, or does not need it. If this line is lost it is told once more, which changes nothing."""
        self.unsent.pop(trial, None)
        self._write({"told": trial})
        if self._file is not None and self._is_empty and self._file.tell() > COMPACT_BYTES:
            self._file.truncate(0)
            self._write(_header(self.owner), sync=True)

    def reject(self, trial: int, reason: str) -> None:
        """The study refused it. It stays here, for somebody to look at."""
        one = self.unsent.pop(trial)
        self.rejected[trial] = replace(one, rejected=reason)
        self._write({"rejected": trial, "reason": reason}, sync=True)

    def drop(self, trial: int) -> None:
        """Forget an outcome that was not told, or was refused."""
        if self.unsent.pop(trial, None) is None and self.rejected.pop(trial, None) is None:
            raise JournalError(f"trial {trial} is not in the journal {self.path}")
        self._write({"dropped": trial}, sync=True)

    def close(self) -> None:
        """Let go of the file, and remove it if nothing is left in it."""
        if self._file is None or self._file.closed:
            return
        if self._is_empty and self.path is not None:
            with suppress(OSError):
                self.path.unlink()
        self._file.close()

    @property
    def _is_empty(self) -> bool:
        return not self.unsent and not self.rejected and not self.n_unreadable

    def _write(self, line: Mapping[str, Any], sync: bool = False) -> None:
        if self._file is None:
            return
        data = json.dumps(line, default=_plain).encode() + b"\n"
        before = os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(before)  # no half lines
            raise JournalError(f"the journal {self.path} cannot be written: {error.strerror or error}") from None

    def _read(self, data: bytes) -> None:
        """Take in what the file has; a last line without its end was cut off by a crash, and is no line."""
        lines = data.split(b"\n")
        self._n_whole = len(data) - len(lines.pop())
        for line in lines:
            if line:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            if "journal" in found:
                return
            if "trial" in found:
                trial = int(found["trial"])
                value = None if found.get("value") is None else float(found["value"])
                made = Outcome(trial, value, found.get("observed"), found.get("failed"), found["at"])
                codes = found.get("codes")
                self.unsent[trial] = made if codes is None else replace(made, codes=tuple(map(int, codes)))
            elif "rejected" in found:
                trial = int(found["rejected"])
                one = self.unsent.pop(trial)
                self.rejected[trial] = replace(one, rejected=str(found["reason"]))
            else:
                trial = int(found["told"] if "told" in found else found["dropped"])
                if self.unsent.pop(trial, None) is None and "dropped" in found:
                    self.rejected.pop(trial, None)  # what was refused stays, also if its number was told of again
        except (ValueError, KeyError, TypeError):
            self.n_unreadable += 1


def journals(folder: Path | None = None) -> list[Journal]:
    """All journals of this user, to look at; those that say nothing about whose they are left out."""
    found = []
    for path in sorted((folder or journal_folder()).glob(f"*{SUFFIX}")):
        with suppress(OSError):
            data = path.read_bytes()
            one = Journal(_owner_in(data), path)
            one._read(data)
            if one.owner is not None:
                found.append(one)
    return found


def _owner_in(data: bytes) -> Owner | None:
    """Whose journal it is, from the line that says so."""
    for line in data.split(b"\n"):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            if "journal" in found:
                return Owner(found["address"], found["study"], float(found["created_at"]), found["worker"])
    return None


def _header(owner: Owner | None) -> dict[str, Any]:
    assert owner is not None  # a journal on disk is somebody's
    return {"journal": FORMAT, **asdict(owner)}


def _locked(file: IO[bytes]) -> bool:
    """Lock a file for this worker alone; False when another has it."""
    try:
        import fcntl
    except ImportError:  # not on this system: names are then all that keeps workers apart
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _plain(value: Any) -> Any:
    """Levels as they come from numpy; whatever else a function returned is for the study to refuse."""
    return value.item() if hasattr(value, "item") else repr(value)
