"""Text in a drawing: escaped, clipped to the room there is, on one line."""

import re
import unicodedata

from markupsafe import Markup, escape

from levers.studies.plots.text import clipped

SIZE, SMALL = 12.0, 11.0
"""Sizes of text. They are in the drawing, not in the style sheet, because its layout rests on them."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SLIM = frozenset("iljtfrI.,:;|!'()[]-/ ")


def escaped(text: object) -> Markup:
    """Any text as it may stand in a drawing: escaped, and without what XML cannot hold.

    >>> escaped('<b> "x" \\0 \\ud800')
    Markup('&lt;b&gt; &#34;x&#34; ? ?')
    """
    return escape(_NO_XML.sub("?", str(text)))


def short(value: object, most: int = 60) -> str:
    """A name that somebody chose, on one line, clipped, and kept from turning the text around it from right to left.

    >>> short("temperature of the second oven, zone 12", 20)
    'temperature…zone 12'
    """
    text = clipped(value, most)
    turns = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    return f"\u2068{text}\u2069" if turns else text


def text_width(text: str, size: float = SIZE) -> float:
    """About how wide a text is; no font is at hand here to measure it with.

    >>> text_width("oven") < text_width("烤箱烤箱") < text_width("the hot oven")
    True
    """
    return size * sum(_letter(c) for c in text)


def _letter(c: str) -> float:
    if unicodedata.east_asian_width(c) in "WF":
        return 1.05
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0.0
    return 0.32 if c in _SLIM else 0.72 if c.isupper() or c in "mw%@" else 0.57


def fitted(value: object, room: float, size: float = SIZE) -> str:
    """A name, clipped to what fits.

    >>> fitted("temperature of the second oven", 80)
    'temper…oven'
    """
    most = 80
    while most > 3 and text_width(found := short(value, most), size) > room:
        most = min(most, len(found)) - 1
    return short(value, most)


def place(value: float) -> str:
    """A coordinate.

    >>> place(12.0), place(3.14159)
    ('12', '3.1')
    """
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
