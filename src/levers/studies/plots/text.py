"""Names that people chose, as text that any picture can hold."""

from functools import lru_cache

MAX_LABEL = 30
"""The longest label beside a row; longer ones end in an ellipsis."""

MAX_TITLE = 60

_FALLBACKS = (
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Arial Unicode MS",
)


@lru_cache(maxsize=1)
def families() -> tuple[str, ...]:
    """The font that matplotlib brings, then those of this machine that have what it lacks."""
    from matplotlib import font_manager  # not above: pages use the rest of this file, and need no matplotlib

    known = set(font_manager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in known))


@lru_cache(maxsize=1)
def _drawable() -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    fonts = [FT2Font(font_manager.findfont(name)) for name in families()]
    return frozenset(code for font in fonts for code in font.get_charmap())


def plain(value: object) -> str:
    """A value on one line, without anything that cannot be printed.

    >>> plain("a\\nb\\0c"), plain(2.5), plain("")
    ('a b?c', '2.5', '(empty)')
    """
    line = " ".join(str(value).split())
    return "".join(c if c.isprintable() else "?" for c in line) or "(empty)"


def clipped(value: object, most: int = MAX_LABEL) -> str:
    """A value on one line, with an ellipsis in the middle of a long one: what differs is often at the end.

    >>> clipped("temperature of the second oven, zone 12")
    'temperature of the…en, zone 12'
    """
    text = plain(value)
    tail = most // 3 + 1
    return text if len(text) <= most else f"{text[: most - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def drawable(text: str) -> str:
    """A text with a question mark for what no font here can draw.

    >>> drawable("$x_1^2$ \\U0010fffd")
    '$x_1^2$ ?'
    """
    return "".join(c if ord(c) in _drawable() else "?" for c in text)


def label(value: object) -> str:
    """A value beside a row of a picture."""
    return drawable(clipped(value))


def number(value: float | None) -> str:
    """A number in a table.

    >>> number(1 / 3), number(None)
    ('0.333333', 'not known')
    """
    return "not known" if value is None else f"{value:.6g}"
