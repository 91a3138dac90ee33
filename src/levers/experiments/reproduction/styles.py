"""How each contender looks: the same colour, marker and line in every figure."""

from collections.abc import Iterable
from dataclasses import dataclass

Dashes = tuple[float, ...]


@dataclass(frozen=True)
class Style:
    """A line of a figure. Markers and dashes differ as colours do, so that print without colour is enough."""

    colour: str
    marker: str
    dashes: Dashes = ()
    hollow: bool = False
    size: float = 4.5


STYLES: dict[str, Style] = {
    "cfs": Style("#0072B2", "o"),
    "modl": Style("#D55E00", "s", (5, 1.5), size=4.0),
    "modl, algorithm-1": Style("#E69F00", "^", (5, 1.5, 1, 1.5), hollow=True, size=5.0),
    "modl, proof": Style("#CC79A7", "v", (5, 1.5, 1, 1.5, 1, 1.5), hollow=True, size=5.0),
    "parents-first": Style("#009E73", "D", (8, 2), hollow=True, size=4.0),
    "oracle": Style("#000000", "P", (2.5, 1.2), hollow=True, size=5.5),
    "observational-regression": Style("#56B4E9", "X", (1.2, 1.2), size=5.0),
    "successive-elimination": Style("#882255", ">", (8, 2, 2, 2), size=5.0),
    "naive search": Style("#6E6E6E", "<", (4, 1.2, 4, 3), hollow=True, size=5.0),
}
"""Okabe and Ito's colours, without their yellow, which is lost on white paper; a wine red and a grey are the rest."""

OTHER = Style("#444444", "h", (3, 3), hollow=True)
"""Whoever else is in a table."""


def style_of(contender: str) -> Style:
    """The look of a contender.

    >>> style_of("cfs").colour, style_of("somebody else") == OTHER
    ('#0072B2', True)
    """
    return STYLES.get(contender, OTHER)


def in_order(contenders: Iterable[str]) -> list[str]:
    """Contenders, each once, in the order of all legends and tables; unknown ones last.

    >>> in_order(["oracle", "new", "cfs", "oracle"])
    ['cfs', 'oracle', 'new']
    """
    found = list(dict.fromkeys(contenders))
    return [name for name in STYLES if name in found] + [name for name in found if name not in STYLES]
