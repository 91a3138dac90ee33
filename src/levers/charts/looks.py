"""How things look in every chart, on a page and in a picture: names, colours, marks, and the fonts of pictures."""

from dataclasses import dataclass
from functools import lru_cache

COLOURS = {
    "c-lead": "#0072b2",
    "c-play": "#b35900",
    "c-gone": "#6e6e6e",
    "c-now": "#d55e00",
    "c-end": "#b37b00",
    "c-band": "#56b4e9",
    "c-aside": "#a34f7e",
    "c-ink": "#1f2328",
}
"""The colour of each class on white paper: Okabe and Ito's, which people with any kind of colour vision tell apart,
darkened where they would be hard to see on white. `charts.css` beside this file has the same ones as variables, and
lighter ones for a dark page; a test compares the two."""

MARKERS = {"diamond": "D", "circle": "o", "dot": "o", "cross": "x"}
"""What matplotlib calls a mark."""


@dataclass(frozen=True, slots=True)
class Look:
    """A thing in a chart: its name in the legend, the CSS class that gives its colour, and its mark.

    The mark differs wherever the colour does, so that nothing is told by colour alone. Things that are not points have
    the sign of their legend instead: bar, hatch, band, empty, line, dash, dashed, thick, or a mark after a line.

    >>> STANDINGS["in play"].colour, STANDINGS["in play"].marker
    ('#b35900', 'o')
    """

    label: str
    css: str
    mark: str

    @property
    def colour(self) -> str:
        """The colour for matplotlib."""
        return COLOURS[self.css]

    @property
    def marker(self) -> str:
        """The mark for matplotlib."""
        return MARKERS[self.mark]


STANDINGS = {
    label: Look(label, css, mark)
    for label, css, mark in (
        ("leading", "c-lead", "diamond"),
        ("chosen", "c-lead", "diamond"),
        ("in play", "c-play", "circle"),
        ("not chosen", "c-play", "circle"),
        ("ruled out", "c-gone", "cross"),
    )
}
"""How a level stands, as `levers.studies.analysis.views.EffectRow.standing` says it."""

USUAL = Look("95 % for this level alone", "c-gone", "usual")
"""The ordinary interval of a level, inside the one that holds for all levels at once."""

_BAR_MARKS = {"diamond": "bar", "circle": "hatch", "cross": "band"}
LEVEL_BARS = {label: Look(label, look.css, _BAR_MARKS[look.mark]) for label, look in STANDINGS.items()}
RULED_OUT = Look("ruled out after so many runs", "c-gone", "cross")
"""Where levels are bars; and what ends the bar of one that was ruled out."""

OUTCOME, SET_ASIDE = Look("outcome", "c-gone", "dot"), Look("set aside: corrected", "c-aside", "cross")
MIDDLE_HALF, MEAN_AND_RANGE = Look("middle half", "c-gone", "band"), Look("mean and range", "c-gone", "line")
ROUND_MEAN = Look("round mean", "c-lead", "thick")
PREDICTED = Look("predicted at the best setting, 95 %", "c-now", "line diamond")
"""In the history of outcomes."""

CERTIFIED = Look("certified after a round", "c-lead", "dot")
NOW, VERDICT = Look("now", "c-now", "diamond"), Look("the verdict", "c-now", "diamond")
DOUBTED = Look("in doubt", "c-aside", "cross")
END, LIKELY_TO_WORST = Look("the end", "c-end", "thick"), Look("the end: likely to worst case", "c-end", "hatch")
"""In the forecast."""

FAR = 3.0
"""Standardised residuals beyond this get another mark."""
FAR_RESIDUAL = Look(f"beyond {FAR:g} standard deviations", "c-now", "cross")
RESIDUAL, SHOULD_BE = Look("residual", "c-lead", "circle"), Look("as it should be", "c-ink", "dashed")
"""Among the residuals."""

SERIES = tuple(
    (f"c-s{i}", mark) for i, mark in enumerate(("diamond", "circle", "square", "triangle", "cross", "plus", "dot"))
)
"""Class and mark of each study in a comparison; each also has a dash of its own. No more than these are drawn."""

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
    from matplotlib import font_manager  # not above: pages have these looks too, and need no matplotlib

    known = set(font_manager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in known))


@lru_cache(maxsize=1)
def _drawable() -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    fonts = [FT2Font(font_manager.findfont(name)) for name in families()]
    return frozenset(code for font in fonts for code in font.get_charmap())


def drawable(text: str) -> str:
    """A text with a question mark for what no font here can draw.

    >>> drawable("$x_1^2$ \\U0010fffd")
    '$x_1^2$ ?'
    """
    return "".join(c if ord(c) in _drawable() else "?" for c in text)
