"""Errors as answers: which status an error has, in one place, and never a stack trace."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from levers.errors import (
    InvalidNameError,
    LeversError,
    NoSuchStudyError,
    NoSuchTrialError,
    SheetError,
    StorageError,
    StudyError,
    SurprisingOutcomesError,
    TrialError,
)
from levers.studies.settings import SETTINGS

_STATUS = {
    404: (NoSuchStudyError, NoSuchTrialError),
    422: (InvalidNameError,),
    409: (StudyError, TrialError),
    503: (StorageError,),
}
_FIELDS = {"name", "factors", *(setting.name for setting in SETTINGS)}


class RefusedError(Exception):
    """A request that the service itself refuses, before any study sees it.

    `no_token` says that it is only because no token came with it; `retry_after` is when to try again, in seconds.
    """

    def __init__(self, status: int, message: str, *, no_token: bool = False, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.no_token = no_token
        self.headers = {} if retry_after is None else {"retry-after": str(retry_after)}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as an answer: its status, its kind, and a message; for people in `lines` where there is more to say."""

    status: int
    kind: str
    message: str
    lines: tuple[str, ...]
    no_token: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> "Problem":
        """From any error that the application answers.

        >>> Problem.of(RefusedError(403, "the token is for one study only")).kind
        'Refused'
        """
        if isinstance(error, LeversError):
            return cls(status_of(error), type(error).__name__, message_of(error), lines_of(error), about=about(error))
        if isinstance(error, RefusedError):
            return cls(error.status, "Refused", str(error), (str(error),), error.no_token)
        if isinstance(error, RequestValidationError):
            found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:10]]
            loc = error.errors()[0]["loc"]
            field_of_it = {"field": loc[1]} if loc[0] == "body" and len(loc) > 1 and loc[1] in _FIELDS else {}
            return cls(422, "InvalidRequest", "; ".join(found), ("; ".join(found),), about=field_of_it)
        assert isinstance(error, HTTPException)  # the framework's own: an address or a method that there is not
        told = "The address may be mistyped." if error.status_code == 404 else str(error.detail)
        return cls(error.status_code, "Refused", str(error.detail), (told,))


def status_of(error: LeversError) -> int:
    """The HTTP status of an error: 404 not there, 409 not now, 503 no storage, 422 wrong input.

    >>> status_of(NoSuchStudyError("x")), status_of(TrialError("x")), status_of(LeversError("x"))
    (404, 409, 422)
    """
    return next((status for status, kinds in _STATUS.items() if isinstance(error, kinds)), 422)


def message_of(error: LeversError) -> str:
    """What a client may read. A storage's address and its driver's words stay in the log of the service."""
    return "the storage does not answer; see the log of the service" if isinstance(error, StorageError) else str(error)


def lines_of(error: LeversError) -> tuple[str, ...]:
    """The same for a page, where each wrong row of a sheet has a line of its own.

    >>> lines_of(SheetError.of_rows([(4, "trial is empty")], 3))
    ('3 rows are wrong; nothing was stored.', 'row 4: trial is empty', 'and 2 more')
    """
    if isinstance(error, SheetError) and error.rows:
        return (error.heading(error.n_wrong), *error.problems)
    return (message_of(error),)


def about(error: LeversError) -> dict[str, Any]:
    """What an error is about, for programs: the setting, all problems, the wrong rows; only what there is.

    >>> about(LeversError("tolerance must be above 0", field="tolerance"))
    {'field': 'tolerance'}
    """
    found: dict[str, Any] = {}
    if not isinstance(error, StorageError):
        found = {"field": error.field, "problems": [sendable(one) for one in error.problems]}
    if isinstance(error, SheetError):
        found |= {"rows": [(row, sendable(why)) for row, why in error.rows], "n_wrong": error.n_wrong}
    if isinstance(error, SurprisingOutcomesError):
        found["flags"] = [asdict(one) for one in error.flags]
    return {key: value for key, value in found.items() if value}


def sendable(text: str) -> str:
    """A text that can be sent: half a character cannot.

    >>> sendable("a" + chr(0xDC80)).isascii()
    True
    """
    return text.encode("utf-8", "backslashreplace").decode()
