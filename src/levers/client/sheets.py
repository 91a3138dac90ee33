"""Run sheets that go to a service and come from it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from levers.errors import SheetError

if TYPE_CHECKING:
    import httpx

_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of sheet, by the file's name.

    >>> kind_of("runs.XLSX")
    'xlsx'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _TYPES:
        raise SheetError(f"the name of a sheet must end in .csv, .tsv or .xlsx, not {os.fspath(path)!r}")
    return suffix[1:]


def check_new(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, or is there, before any run is handed out."""
    kind_of(path)
    target = Path(path)
    if target.exists():
        raise SheetError(f"{target} is there already; choose another file")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise SheetError(f"cannot write {str(target)!r}: its folder is not there, or cannot be written to")


def keep(path: str | os.PathLike[str], answer: "httpx.Response") -> int:
    """Write a sheet that came, unless there is nothing on it; returns how many runs it has."""
    n = int(answer.headers["levers-runs"])
    if n:
        try:
            with open(path, "xb") as file:
                file.write(answer.content)
        except OSError as error:
            reason = error.strerror or error
            raise SheetError(
                f"cannot write {os.fspath(path)!r}: {reason}; the runs are out, `ask --again` writes them once more"
            ) from None
    return n


def content_of(path: str | os.PathLike[str]) -> tuple[str, bytes]:
    """The type and the bytes of a sheet to send."""
    kind = _TYPES["." + kind_of(path)]
    try:
        return kind, Path(path).read_bytes()
    except OSError as error:
        raise SheetError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}") from None
