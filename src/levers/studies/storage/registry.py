"""From an address to a storage.

Another package registers a kind of storage by an entry point of the group `levers.storages`: its name is how addresses
begin, its value a function from an address to a storage. In its pyproject.toml:

    [project.entry-points."levers.storages"]
    etcd = "my_package:EtcdStorage"
"""

import atexit
import os

from levers.errors import StorageError
from levers.extensions import load, registered
from levers.studies.storage.base import Storage
from levers.studies.storage.memory import MemoryStorage

DEFAULT_STORAGE = "sqlite:///levers.db"
VARIABLE = "LEVERS_STORAGE"
GROUP = "levers.storages"


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
    key = (storage, os.getpid(), os.getcwd())
    if key not in _opened:
        point = registered(GROUP).get(storage.partition(":")[0])
        if point is not None:
            _opened[key] = load(point, StorageError)(storage)
        else:
            from levers.studies.storage.sql import SqlStorage, parse_url  # SQLAlchemy takes a while to import

            _opened[key] = SqlStorage(parse_url(storage))
    return _opened[key]


# connections must not cross into a forked process, and a file may be named from the current folder: both are in the key
_opened: dict[tuple[str, int, str], Storage] = {}


@atexit.register
def close_storages() -> None:
    """Close what this process has opened by address."""
    for key in [key for key in _opened if key[1] == os.getpid()]:
        _opened.pop(key).close()
