"""From an address to a storage."""

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from levers.studies.storage.base import Storage
from levers.studies.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from levers.studies.storage.sql import SqlStorage

DEFAULT_STORAGE = "sqlite:///levers.db"
VARIABLE = "LEVERS_STORAGE"


def default_storage() -> str:
    """LEVERS_STORAGE, or a file in the current folder."""
    return os.environ.get(VARIABLE) or DEFAULT_STORAGE


def open_storage(storage: "str | Storage | None") -> Storage:
    """A storage from its address; None is a new one in memory.

    >>> open_storage(None).url
    'memory'
    """
    if storage is None:
        return MemoryStorage()
    if not isinstance(storage, str):
        return storage
    return _opened(storage, os.getpid(), os.getcwd())


@lru_cache(maxsize=16)
def _opened(url: str, _process: int, _folder: str) -> "SqlStorage":
    # connections must not cross into a forked process, and a file may be named from the current folder
    from levers.studies.storage.sql import SqlStorage, parse_url  # SQLAlchemy takes a while to import

    return SqlStorage(parse_url(url))
