"""Bars with their names above them, so that long names have the whole width, on a phone too."""

from collections.abc import Sequence
from dataclasses import dataclass

from levers.web.charts.canvas import Canvas
from levers.web.charts.scales import Scale
from levers.web.charts.text import SIZE, SMALL, fitted

STEP = 34.0
"""From one bar to the next."""

MARGIN, NUMBERS = 12.0, 62.0
"""Room left of the bars, and right of them for their numbers."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, a length, its number as text, and words. Colour, mark and hatch follow from whether it is `strong`."""

    name: str
    value: float | None
    text: str
    words: str
    strong: bool


def bar_scale(canvas: Canvas, bars: Sequence[Bar], least: float, most: float) -> Scale:
    """A scale from zero to the longest bar, to `least` at least and `most` at most."""
    longest = max([bar.value for bar in bars if bar.value is not None], default=0.0)
    return Scale(0.0, min(max(1.06 * longest, least), most), MARGIN, canvas.width - NUMBERS)


def draw_bars(canvas: Canvas, bars: Sequence[Bar], x: Scale, top: float, strong: str, weak: str) -> None:
    """One bar below the other; `strong` and `weak` are colours. An arrow ends a bar that would go on outside."""
    for i, bar in enumerate(bars):
        y = top + STEP * i
        kind = strong if bar.strong else weak
        with canvas.group(bar.words, f"c-row c-bar {kind}", (0, y, canvas.width, STEP)):
            canvas.text(MARGIN, y + 10, fitted(bar.name, canvas.width - 2 * MARGIN, SIZE), "c-text c-halo")
            if bar.value is None:
                canvas.text(MARGIN, y + 25, bar.text, "c-muted", size=SMALL)
                continue
            end, fill = x(bar.value), None if bar.strong else canvas.hatched(kind)
            canvas.rect(x.begin, y + 19, end - x.begin, 11, "c-fill" if bar.strong else "c-edge", fill)
            if bar.value > x.high:
                canvas.mark("right", end + 6, y + 24.5, 5)
            canvas.text(end + 16 if bar.value > x.high else end + 7, y + 24.5, bar.text, "c-muted", size=SMALL)
