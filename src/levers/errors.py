"""Every exception that levers raises on purpose: a LeversError, those about a study or a trial with kinds of their own.

All are also ValueErrors, so code that catches ValueError keeps working. What an error is about is in its fields
(`field`, `problems`, `rows`); the message is for people, and no code reads it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class LeversError(ValueError):
    """Base of all errors that levers raises on purpose.

    `field` is the setting that is wrong, by its name in `create_study` (None when it is about no single one), and
    `problems` lists everything that is wrong when there is more than one thing.

    >>> LeversError("tolerance must be above 0", field="tolerance").field
    'tolerance'
    """

    field: str | None = None
    problems: tuple[str, ...] = ()

    def __init__(self, message: str = "", *, field: str | None = None, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        if field is not None:
            self.field = field
        self.problems = tuple(problems)


class InvalidSpaceError(LeversError):
    """The factors or their levels cannot be studied as given."""

    field = "factors"


class NoSuchLevelError(InvalidSpaceError, KeyError):
    """An assignment was asked for a factor that it does not set, or that does not exist.

    It is a KeyError, so that assignments are mappings like any other: `get` and `in` work.

    >>> str(NoSuchLevelError("there is no factor 'heet'"))
    "there is no factor 'heet'"
    """

    __str__ = Exception.__str__  # a KeyError prints its message in quotes


class InvalidSettingError(LeversError):
    """A tolerance, probability, size or option is outside what the method accepts."""


class UnknownAlgorithmError(LeversError):
    """The algorithm's name is not in the registry."""


class TooManyActionsError(LeversError):
    """The method keeps one record per assignment and there are too many assignments."""


class InvalidWorldError(LeversError):
    """A structural causal model is inconsistent, or too large to be held in memory."""


class OutcomeMismatchError(LeversError):
    """The outcomes do not fit the batch they answer."""


class InvalidOutcomeError(LeversError):
    """An outcome is missing, not a number or infinite."""


class StateMismatchError(LeversError):
    """A saved state does not belong to the class or algorithm that reads it."""


class StudyError(LeversError):
    """A study does not exist, exists already, or cannot do what was asked now."""


class DamagedLogError(StudyError):
    """A log in the storage is not as it was written: an event was changed, added or removed.

    `seq` is the first event that is wrong, 0 where it is what the storage says of the log as a whole.
    """

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(f"{what}; `levers verify` says what is wrong, `levers storage repair` saves what can be read")
        self.seq = seq


class NotFinishedError(StudyError):
    """The study has no verdict yet."""


class NoSuchStudyError(StudyError):
    """There is no study of that name."""


class InvalidNameError(StudyError):
    """A study cannot be called that."""

    field = "name"


class StudyExistsError(StudyError):
    """There is a study of that name already."""

    field = "name"


class TrialError(LeversError):
    """A trial does not exist, or its state does not allow what was asked."""


class NoSuchTrialError(TrialError):
    """There is no trial of that number."""


class ObservedLevelError(TrialError):
    """A run left levers alone, and which level each took was not told, or cannot be. Nothing was stored."""


class LateOutcomeError(TrialError):
    """An outcome that is not needed any more: its run was made and told by somebody else, or its round was given up."""


class FailedRunError(LeversError):
    """A run gave no outcome. A function that `optimize` calls raises this to say why: the run is made again."""


class SurprisingOutcomesError(TrialError):
    """Outcomes are far from what the study's runs lead one to expect, and nobody has insisted. Nothing was stored.

    `flags` has each of them with what was expected, as `levers.studies.outcomes.Surprise`.
    """

    flags: tuple[Any, ...] = ()

    @classmethod
    def of(cls, flags: Sequence[Any]) -> "SurprisingOutcomesError":
        """An error about these outcomes."""
        error = cls(f"{surprising(flags)}; nothing was stored. Store them anyway if they are right (insist)")
        error.flags = tuple(flags)
        return error


def surprising(flags: Sequence[object], most: int = 5) -> str:
    """Surprising outcomes in a sentence: some of them, and how many more.

    >>> surprising(["trial 3: 72, expected about 7 (between 5 and 9)"])
    'an outcome is far from what the other runs lead one to expect: trial 3: 72, expected about 7 (between 5 and 9)'
    """
    what = "an outcome is" if len(flags) == 1 else f"{len(flags):,} outcomes are"
    listed = "; ".join(str(one) for one in flags[:most])
    more = f"; and {len(flags) - most:,} more" if len(flags) > most else ""
    return f"{what} far from what the other runs lead one to expect: {listed}{more}"


class RepeatedKeyError(LeversError):
    """A key stands for one request, and came again with another."""


class TokenError(LeversError):
    """A token cannot be made as asked, or is not known."""


class SheetError(LeversError):
    """A sheet cannot be read, or has rows that are wrong. Nothing of it was stored.

    `rows` has the number of each wrong row with what is wrong in it, as far as they are listed; `n_wrong` counts all.

    >>> str(SheetError.of_rows([(4, "outcome 'x' is not a number"), (9, "trial is empty")], 7))
    "7 rows are wrong; nothing was stored. row 4: outcome 'x' is not a number; row 9: trial is empty; and 5 more"
    """

    rows: tuple[tuple[int, str], ...] = ()
    n_wrong: int = 0

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[int, str]], n_wrong: int) -> "SheetError":
        """An error about rows: some of them listed, all of them counted."""
        parts = [f"row {row}: {reason}" for row, reason in rows]
        if n_wrong > len(rows):
            parts.append(f"and {n_wrong - len(rows)} more")
        error = cls(f"{cls.heading(n_wrong)} {'; '.join(parts)}", problems=parts)
        error.rows, error.n_wrong = tuple(rows), n_wrong
        return error

    @staticmethod
    def heading(n_wrong: int) -> str:
        """What stands above a list of wrong rows."""
        return f"{n_wrong} {'row is' if n_wrong == 1 else 'rows are'} wrong; nothing was stored."


class StorageError(LeversError):
    """A storage cannot be reached, or was written by another version."""


class UnreachableError(StorageError):
    """A storage or a service does not answer now. Nothing is wrong with the request: it may be made again later."""


class JournalError(LeversError):
    """A worker's journal cannot be written, or does not have what was asked for."""


class BusyWorkerError(LeversError):
    """A worker of that name is at work on the study already."""

    field = "worker"


def to_install(extra: str) -> str:
    """What installs the libraries of an extra, for an error that says which is missing.

    The package is on no index, so this is done in a checkout, as the README says.

    >>> to_install("excel")
    "pip install '.[excel]' in a checkout of levers"
    """
    return f"pip install '.[{extra}]' in a checkout of levers"


@contextmanager
def about(field: str) -> Iterator[None]:
    """Errors inside are about this setting, whoever raises them.

    >>> try:
    ...     with about("merged"):
    ...         raise InvalidSpaceError("there is no factor 'heet'")
    ... except LeversError as error:
    ...     error.field
    'merged'
    """
    try:
        yield
    except LeversError as error:
        error.field = field
        raise


def raise_together(error: type[LeversError], problems: Sequence[str]) -> None:
    """Raise one error that lists every problem found, so that they can be mended in one go.

    >>> raise_together(LeversError, [])
    >>> raise_together(LeversError, ["a is wrong", "b is wrong"])
    Traceback (most recent call last):
    levers.errors.LeversError: 2 problems: a is wrong; b is wrong
    """
    if len(problems) == 1:
        raise error(problems[0])
    if problems:
        raise error(f"{len(problems)} problems: " + "; ".join(problems), problems=problems)
