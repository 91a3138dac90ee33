"""What a page needs of a chart: the drawing, what it says in words, and its data."""

from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Seen

WIDE, NARROW = 720, 360
"""Widths of the two drawings of a chart, in the units of its text: a page holds both and shows the one that fits."""


@dataclass(frozen=True, eq=False)
class Chart:
    """A drawing with a title, a caption, what it shows in words, and its data as a table.

    `struck` are the rows of the table about levels that were ruled out. Looks are classes only; see charts.css.
    """

    key: str
    title: str
    caption: str
    alt: str
    svg: Markup
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    struck: frozenset[int]


class Draw(Protocol):
    """How a chart of a study is made. Give `seen` when several charts of the same study go on one page."""

    def __call__(self, name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
        """Draw it."""
