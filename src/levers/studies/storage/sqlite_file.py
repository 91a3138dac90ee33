"""The file behind an SQLite storage: opened so that it is noticed when it goes, and read where it cannot be written.

SQLite goes on writing into a file that was deleted or replaced, and a commit there says nothing. So each connection
remembers which file it has open, by device and inode, and whoever writes compares that with what is at the address.
"""

import os
import sqlite3
import time
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import quote

from levers.errors import StorageError, UnreachableError
from levers.studies.storage.shares import warn_of_share

BUSY_SECONDS = 120
"""How long a write waits for others before it gives up."""

_WAL_TRIES, _WAL_PAUSE = 50, 0.05
"""How often changing SQLite's journal mode is tried while others use the file, and seconds between tries."""
_SIDES = ("-wal", "-shm")
"""What SQLite keeps beside a file that is in use: the latest changes, and an index of them."""

Identity: TypeAlias = tuple[int, int] | None
"""Device and inode of a file; None when there is none."""


class OpenFile(sqlite3.Connection):
    """A connection that knows which file it has open, and what lay beside it."""

    path: str = ""
    is_read_only: bool = False
    is_immutable: bool = False
    identities: tuple[Identity, ...] = ()
    stamp: tuple[int, ...] | None = None

    def moved(self) -> str | None:
        """What happened to the file since it was opened, in a sentence; None when it is where it was."""
        now = _identities(self.path)
        if now[0] is None:
            return f"the file {self.path} was deleted or moved while it was in use"
        if now[0] != self.identities[0]:
            return f"another file is at {self.path} than the one that was in use"
        if self.is_immutable:
            return None if _stamp(self.path) == self.stamp else f"the file {self.path} was changed while it was read"
        for side, was, found in zip(_SIDES, self.identities[1:], now[1:], strict=True):
            if was is not None and was != found:
                what = "deleted" if found is None else "replaced"
                return f"the file {self.path}{side}, which holds the latest changes, was {what} while it was in use"
        return None

    def close(self) -> None:
        """Close it, unless another file has taken its name.

        The last connection to close deletes the write-ahead log by its name, which would be that of the other file. So
        such a connection puts everything that was kept into the file it has, wherever that is now, and stays open.
        """
        if not self.is_read_only and self.path and self.moved() is not None:
            self.save_log()
            _keep_for_ever(self)
            return
        super().close()

    def save_log(self) -> None:
        """Bring what was kept from the write-ahead log into the file itself, by what is open and not by name."""
        with suppress(sqlite3.Error):
            if self.in_transaction:
                self.rollback()
            self.execute("PRAGMA busy_timeout = 1000").close()
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()


def _keep_for_ever(connection: OpenFile) -> None:
    """One reference that nothing gives up, not even the end of the interpreter, which would close the connection."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class SqliteFile:
    """A file to connect to. The first connection may make it; later ones may not, so that a deleted file is missed.

    >>> import tempfile
    >>> file = SqliteFile(os.path.join(tempfile.mkdtemp(), "levers.db"))
    >>> connection = file.connect()
    >>> connection.moved() is None
    True
    >>> os.unlink(file.path)
    >>> connection.moved().endswith("was deleted or moved while it was in use")
    True
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # connections are made later, maybe from elsewhere
        self._was_open = False
        warn_of_share(self.path)

    def connect(self) -> OpenFile:
        """A new connection, set up as studies need it."""
        there = os.path.exists(self.path)
        if self._was_open and not there:
            raise UnreachableError(gone(self.path))
        why = read_only_reason(self.path) if there else None
        for _ in range(3):  # the file may be replaced while it is opened
            before = _identities(self.path)[0]
            found = self._reading() if why is not None else self._writing()
            found.identities = _identities(self.path)
            if before in (None, found.identities[0]) and found.identities[0] is not None:
                self._was_open = True
                return found
            _keep_for_ever(found)
        raise UnreachableError(gone(self.path))

    def _open(self, options: str) -> OpenFile:
        found = sqlite3.connect(
            f"file:{quote(self.path)}?{options}",
            uri=True,
            timeout=BUSY_SECONDS,
            check_same_thread=False,
            isolation_level=None,  # transactions begin where we say, not where the driver guesses
            factory=OpenFile,
        )
        found.path = self.path
        found.execute("PRAGMA trusted_schema=OFF").close()  # a damaged file must not run what it holds
        found.execute("PRAGMA cell_size_check=ON").close()
        return found

    def _writing(self) -> OpenFile:
        """WAL: readers and a writer do not wait for each other. FULL: what was told survives power loss.

        With `secure_delete` what is deleted is gone from the file too.
        """
        found = self._open("mode=rw" if self._was_open else "mode=rwc")
        try:
            _set_wal(found)
            for setting in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
                found.execute(f"PRAGMA {setting}").close()
            found.execute("SELECT count(*) FROM sqlite_master").close()  # opens the files beside it
        except BaseException:
            sqlite3.Connection.close(found)
            raise
        return found

    def _reading(self) -> OpenFile:
        """A file that may not be written. Without a write-ahead log it can be read as it is, beside it nothing is made.

        With one SQLite needs its index too, which it can only use if it is there already.
        """
        wal = self.path + "-wal"
        has_log = os.path.exists(wal) and os.path.getsize(wal) > 0
        found = self._open("mode=ro" if has_log else "immutable=1")
        found.is_read_only, found.is_immutable, found.stamp = True, not has_log, _stamp(self.path)
        try:
            found.execute("SELECT count(*) FROM sqlite_master").close()
        except sqlite3.OperationalError as error:
            sqlite3.Connection.close(found)
            if "unable to open" in str(error):
                raise StorageError(
                    f"{self.path} can only be read here, and its latest changes are in {wal}, which cannot be read "
                    "without writing beside it; copy both files to a folder of yours"
                ) from None
            raise
        return found


def gone(path: str) -> str:
    """What is said when a file that was in use is not there any more."""
    return (
        f"the file {path} is not there any more; nothing is stored until it is. Put it back, and it goes on by itself; "
        "or stop what uses it, and bring a backup back with `levers storage restore`"
    )


def read_only_reason(path: str) -> str | None:
    """Why a file that is there cannot be written, in words; None when it can."""
    folder = os.path.dirname(path)
    if not os.access(path, os.W_OK):
        return f"{path} is not yours to write"
    if not os.access(folder, os.W_OK) and not all(os.access(path + side, os.W_OK) for side in _SIDES):
        return f"nothing can be written beside it in {folder}"
    return None


def _set_wal(connection: sqlite3.Connection) -> None:
    for attempt in range(_WAL_TRIES):
        try:
            # changing the mode needs the file alone, and does not wait by itself
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == _WAL_TRIES - 1:
                raise
            time.sleep(_WAL_PAUSE)


def _identities(path: str) -> tuple[Identity, ...]:
    """Device and inode of a file and of what lies beside it."""
    return tuple(_identity(path + side) for side in ("", *_SIDES))


def _identity(path: str) -> Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _stamp(path: str) -> tuple[int, ...] | None:
    """What changes when somebody writes to a file that we read as if nobody did."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    log = path + "-wal"
    beside = os.path.getsize(log) if os.path.exists(log) else 0
    return (found.st_mtime_ns, found.st_size, beside)
