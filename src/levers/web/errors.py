"""Errors as answers: which status an error has, in one place, and never a stack trace."""

from levers.errors import (
    InvalidNameError,
    LeversError,
    NoSuchStudyError,
    NoSuchTrialError,
    StorageError,
    StudyError,
    TrialError,
)

_STATUS: tuple[tuple[type[LeversError], int], ...] = (
    (NoSuchStudyError, 404),
    (NoSuchTrialError, 404),
    (InvalidNameError, 422),
    (StudyError, 409),
    (TrialError, 409),
    (StorageError, 503),
    (LeversError, 422),
)


class RefusedError(Exception):
    """A request that the service itself refuses, before any study sees it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: LeversError) -> int:
    """The HTTP status of an error: 404 not there, 409 not now, 503 no storage, 422 wrong input.

    >>> status_of(NoSuchStudyError("x")), status_of(TrialError("x")), status_of(LeversError("x"))
    (404, 409, 422)
    """
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def message_of(error: LeversError) -> str:
    """What a client may read. A storage's address and its driver's words stay in the log of the service."""
    return "the storage does not answer; see the log of the service" if isinstance(error, StorageError) else str(error)
