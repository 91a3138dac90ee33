"""What is wrong with the rows of a sheet, told in one message that can be worked through."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from levers.errors import SheetError

MAX_LISTED = 20
"""How many wrong rows an error lists; the others are counted."""


@dataclass(frozen=True, eq=False)
class Fault:
    """One kind of mistake: where it is, and what to say about each place."""

    places: NDArray[np.int64]
    reason: Callable[[int], str]


@dataclass
class Problems:
    """Wrong rows in the order of the file: the first few with reasons, all of them counted."""

    listed: list[tuple[int, str]] = field(default_factory=list)
    n: int = 0

    def add(self, row: int, reason: str) -> None:
        """Note a wrong row; the reason is dropped once there are more than an error can list."""
        self.n += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append((row, reason))


def raise_rows(problems: Sequence[tuple[int, str]], n_problems: int | None = None) -> None:
    """Raise one SheetError for rows that are wrong; `n_problems` counts them all when only some are given.

    >>> raise_rows([])
    >>> raise_rows([(4, "outcome 'x' is not a number"), (9, "trial is empty")], n_problems=7)
    Traceback (most recent call last):
    levers.errors.SheetError: 7 rows are wrong; nothing was stored. row 4: outcome 'x' is not a number; \
row 9: trial is empty; and 5 more
    """
    if not problems and not n_problems:
        return
    reasons: dict[int, list[str]] = {}
    for row, reason in problems:
        reasons.setdefault(row, []).append(reason)
    n = len(reasons) if n_problems is None else n_problems
    parts = [f"row {row}: {', '.join(why)}" for row, why in sorted(reasons.items())[:MAX_LISTED]]
    if n > len(parts):
        parts.append(f"and {n - len(parts)} more")
    raise SheetError(f"{n} {'row is' if n == 1 else 'rows are'} wrong; nothing was stored. " + "; ".join(parts))


def shown(value: object, most: int = 60) -> str:
    """A value for a message, cut when it is long.

    >>> shown("x" * 100, most=10)
    "'xxxxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}..."


def listed(values: Sequence[object], most: int = 12) -> str:
    """Values for a message, with a count of those left out.

    >>> listed(["low", "high", "off"], most=2)
    "'low', 'high' and 1 more"
    """
    some = ", ".join(shown(value) for value in values[:most])
    return some if len(values) <= most else f"{some} and {len(values) - most} more"
