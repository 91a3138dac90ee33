"""Names of studies."""

import difflib
from collections.abc import Sequence

from levers.errors import InvalidNameError, NoSuchStudyError, StudyExistsError

MAX_NAME = 200


def check_name(name: str) -> str:
    """A name that can be typed on a command line and shown on one line.

    >>> check_name("line 3")
    'line 3'
    """
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > MAX_NAME:
        raise InvalidNameError(
            f"a study's name is a text of 1 to {MAX_NAME} characters without spaces around it, not {name!r}"
        )
    if name.startswith("-"):
        raise InvalidNameError(
            f"a study's name cannot begin with a dash, because commands take that for an option: {name!r}"
        )
    if name in (".", ".."):
        raise InvalidNameError(f"a study cannot be called {name!r}, because a web address takes that for a folder")
    if not name.isprintable():
        raise InvalidNameError(f"a study's name must be printable on one line, not {name!r}")
    return name


def no_such_study(name: str, known: Sequence[str], url: str) -> NoSuchStudyError:
    """The error for a name that is not there, with what might have been meant.

    >>> str(no_such_study("lin", ["line", "farm"], "sqlite:///x.db"))
    "there is no study 'lin' in sqlite:///x.db (did you mean 'line'?); there are: line, farm"
    """
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    listed = ", ".join(known[:10]) + (" ..." if len(known) > 10 else "")
    there = f"there are: {listed}" if known else "there is none yet; `levers create` makes one"
    return NoSuchStudyError(f"there is no study {name!r} in {url}{hint}; {there}")


def exists_already(name: str) -> StudyExistsError:
    """The error for a name that is taken."""
    return StudyExistsError(f"there is a study called {name!r} already; load it, or choose another name")


def deleted() -> NoSuchStudyError:
    """The error for a study that was removed while somebody held it."""
    return NoSuchStudyError("this study was deleted")
