"""Where logs are kept: in memory, SQLite or PostgreSQL."""

from levers.studies.storage.base import Storage, Writing
from levers.studies.storage.choice import DEFAULT_STORAGE, open_storage

__all__ = ["DEFAULT_STORAGE", "Storage", "Writing", "open_storage"]
