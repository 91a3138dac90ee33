"""Files that people asked for: at a path that can be written to, there whole or not at all."""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from levers.errors import LeversError

MEDIA_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".html": "text/html",
}
"""What each kind of file is called over HTTP."""


def target_of(path: str | os.PathLike[str], suffixes: Sequence[str], error: type[LeversError]) -> tuple[Path, str]:
    """The path and its suffix, in small letters; an error when it has none of these or is in no folder.

    >>> target_of("runs.CSV", (".csv", ".xlsx"), LeversError)[1]
    '.csv'
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in suffixes:
        known = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise error(f"cannot write {str(target)!r}: its name must end in {known}")
    if "\0" in str(target) or not target.parent.is_dir():
        raise error(f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}")
    return target, suffix


@contextmanager
def whole_file(target: Path, error: type[LeversError]) -> Iterator[BinaryIO]:
    """A file to write to. It gets its name when everything is written, and on the disk; an OSError becomes `error`."""
    draft = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as problem:
        raise error(f"cannot write {str(target)!r}: {problem.strerror or problem}") from problem
    finally:
        with suppress(OSError):
            draft.unlink()
