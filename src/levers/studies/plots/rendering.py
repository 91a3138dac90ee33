"""A picture as the bytes of a file. The same study gives the same SVG, whatever the user's own matplotlib settings."""

import re
import textwrap
import threading
from collections.abc import Callable
from html import escape
from io import BytesIO
from typing import Any

from matplotlib import style
from matplotlib.lines import Line2D

from levers.studies.fold import StudyState
from levers.studies.plots import effects, elimination, forecast, history
from levers.studies.plots.page import html_page
from levers.studies.plots.picture import GREY, Picture, add_legend
from levers.studies.plots.text import drawable, families

DRAW: dict[str, Callable[[str, StudyState], Picture]] = {
    "effects": effects.draw,
    "history": history.draw,
    "elimination": elimination.draw,
    "forecast": forecast.draw,
}
DPI = 150
_SETTINGS = threading.Lock()  # matplotlib keeps its settings in one place for all threads


def rendered(name: str, state: StudyState, kind: str, suffix: str) -> bytes:
    """Draw one of the pictures and turn it into a file."""
    settings: dict[str, Any] = {
        "font.family": list(families()),
        "font.size": 9.5,
        "figure.dpi": DPI,  # the layout is made at the size that is drawn
        "figure.constrained_layout.w_pad": 0.1,
        "figure.constrained_layout.h_pad": 0.08,
        "text.parse_math": False,  # a dollar in a name is a dollar
        "hatch.linewidth": 0.8,
        "svg.fonttype": "path",
        "svg.hashsalt": "levers",
    }
    with _SETTINGS, style.context(["default", settings]):
        picture = DRAW[kind](name, state)
        add_legend(picture.figure, None if suffix == ".html" else drawable(picture.facts.title))
        if suffix != ".html":  # a page has its own
            picture.figure.supxlabel(textwrap.fill(picture.facts.caption, 118), fontsize=8)
        _strike(picture)
        if suffix == ".png":
            return _image(picture)
        drawing = _drawing(picture)
    return (drawing if suffix == ".svg" else html_page(picture.facts, drawing)).encode()


def _strike(picture: Picture) -> None:
    """A line through some labels. The layout stays as it is then, or the lines would miss them."""
    figure = picture.figure
    engine = figure.get_layout_engine()
    assert engine is not None  # every figure here is made with one
    engine.execute(figure)
    figure.set_layout_engine(None)
    for text in picture.struck:
        box = text.get_window_extent().transformed(figure.transFigure.inverted())
        y = (box.y0 + box.y1) / 2
        figure.add_artist(Line2D([box.x0, box.x1], [y, y], color=GREY, linewidth=0.9))


def _image(picture: Picture) -> bytes:
    file = BytesIO()
    picture.figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None, "Description": picture.facts.alt})
    return file.getvalue()


def _drawing(picture: Picture) -> str:
    file = BytesIO()
    without = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    picture.figure.savefig(file, format="svg", dpi=DPI, metadata=without)
    text = file.getvalue().decode()
    words = escape(f"{picture.facts.title}. {picture.facts.alt}")
    found = re.search(r"<svg [^>]*>", text)
    assert found is not None  # that is how an SVG file begins
    opened = f'<svg role="img" aria-label="{words}" {found[0].removeprefix("<svg ")}\n <title>{words}</title>'
    return text[: found.start()] + opened + text[found.end() :]
