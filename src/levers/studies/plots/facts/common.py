"""What a picture says besides its drawing, and words that several pictures share."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from levers.studies.plots.facts.seen import Seen
from levers.studies.plots.text import clipped
from levers.studies.views import EffectRow

AHEAD = ("leading", "chosen")
"""How the levels that are ahead stand."""


@dataclass(frozen=True, eq=False)
class Facts:
    """A title, a caption, what is shown in words, and the data as a table.

    `struck` are rows of the table about what was ruled out. `nothing` says why there is nothing to draw, if so.
    """

    title: str
    caption: str
    alt: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    struck: frozenset[int] = field(default_factory=frozenset)
    nothing: str | None = None


def nothing_yet(title: str, why: str, seen: Seen) -> Facts:
    """What is said when there is nothing to show, with what to do."""
    text = f"There is nothing to show yet: {why}"
    block = seen.state.open_block
    told, to_go = seen.state.n_complete, block.n_missing if block else 0
    rows: list[tuple[str, ...]] = [("outcomes told", str(told)), ("runs to go in this block", str(to_go))]
    caption = f"{told} outcomes told, {to_go} to go in this block."
    return Facts(title, caption, text, ("what", "runs"), rows, nothing=text)


def struck_rows(rows: Sequence[EffectRow]) -> frozenset[int]:
    """Where the levels that were ruled out are."""
    return frozenset(i for i, row in enumerate(rows) if row.standing == "ruled out")


def cut_note(n_drawn: int, n_rows: int, which: str = "first") -> str:
    """A sentence for the caption when not all levels are drawn.

    >>> cut_note(100, 160), cut_note(16, 16)
    (' The first 100 of 160 levels are drawn.', '')
    """
    return f" The {which} {n_drawn} of {n_rows} levels are drawn." if n_drawn < n_rows else ""


def leaders(rows: Sequence[EffectRow], most: int = 8) -> str:
    """The leading levels in words."""
    found = [f"{clipped(row.factor)} {clipped(row.level)}" for row in rows if row.standing in AHEAD]
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
