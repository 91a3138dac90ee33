"""What charts have around their data: axes, legends, and a kind word where there is no data yet."""

from collections.abc import Sequence

from levers.studies.plots.facts import Facts
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import Chart
from levers.web.charts.scales import Scale
from levers.web.charts.text import SIZE, SMALL, text_width

Entry = tuple[str, str, str]
"""An entry of a legend: the class of its colour, its sign, its text."""

LINE = 18.0
"""From one line of text to the next."""


def x_axis(canvas: Canvas, scale: Scale, top: float, bottom: float, title: str = "", *, above: bool = False) -> None:
    """Numbers below the data (or `above`), thin lines through it, and what they are."""
    ticks = scale.ticks(max(int(abs(scale.end - scale.begin) // 55), 2))
    at, text_at = (top, top - 10) if above else (bottom, bottom + 12)
    free = -1e9
    for value, text in ticks:
        x = scale(value)
        half = text_width(text, SMALL) / 2
        x_text = min(max(x, half + 1), canvas.width - half - 1)
        if not above:
            canvas.line(x, top, x, bottom, "c-grid")
        if x_text - half > free:  # the texts of a logarithmic axis come close to each other
            canvas.text(x_text, text_at, text, "c-muted", "middle", SMALL)
            free = x_text + half + 6
    canvas.line(scale.begin, at, scale.end, at, "c-axis")
    if title:
        half = text_width(title, SMALL) / 2
        middle = max(min((scale.begin + scale.end) / 2, canvas.width - half - 2), half + 2)
        canvas.text(middle, bottom + 29, title, "c-text", "middle", SMALL)


def y_axis(canvas: Canvas, scale: Scale, left: float, right: float, title: str = "") -> None:
    """Numbers left of the data, thin lines through it, and what they are: above it, where it reads without turning."""
    for value, text in scale.ticks(max(int(abs(scale.end - scale.begin) // 38), 2)):
        y = scale(value)
        canvas.line(left, y, right, y, "c-grid")
        canvas.text(left - 6, y, text, "c-muted", "end", SMALL)
    canvas.line(left, scale.begin, left, scale.end, "c-axis")
    if title:
        canvas.text(4, min(scale.begin, scale.end) - 14, title, "c-text", size=SMALL)


def label_room(scale: Scale) -> float:
    """How much room the numbers of a vertical axis need."""
    texts = [text for _, text in scale.ticks(max(int(abs(scale.end - scale.begin) // 38), 2))]
    return max([text_width(text, SMALL) for text in texts], default=0.0) + 14


def legend(canvas: Canvas, entries: Sequence[Entry], top: float = 4.0) -> float:
    """The signs and what they stand for, in as many lines as it takes; returns where they end."""
    x, y = 4.0, top + LINE / 2
    for kind, sign, text in entries:
        width = 30 + text_width(text, SMALL)
        if x + width > canvas.width and x > 4:
            x, y = 4.0, y + LINE
        canvas.parts.append(f'<g class="c-key {kind}">')
        _sign(canvas, kind, sign, x, y)
        canvas.text(x + 24, y, text, "c-text", size=SMALL)
        canvas.parts.append("</g>")
        x += width + 14
    return y + LINE / 2 + 4 if entries else top


def _sign(canvas: Canvas, kind: str, sign: str, x: float, y: float) -> None:
    match sign:
        case "bar":
            canvas.rect(x, y - 5, 18, 10, "c-fill")
        case "band":
            canvas.rect(x, y - 5, 18, 10, "c-soft")
        case "hatch":
            canvas.rect(x, y - 5, 18, 10, "c-edge", canvas.hatched(kind))
        case "empty":
            canvas.rect(x, y - 5, 18, 10, "c-outline")
        case "line":
            canvas.line(x, y, x + 18, y, "c-line")
        case "dotted" | "dashed" | "thick":
            canvas.line(x, y, x + 18, y, f"c-line c-{sign}")
        case "interval":
            canvas.line(x, y, x + 18, y, "c-line")
            canvas.mark("diamond", x + 9, y, 4)
        case _:
            if sign.startswith("line "):
                canvas.line(x, y, x + 18, y, "c-line c-dash")
            canvas.mark(sign.removeprefix("line "), x + 9, y, 4)


def wrapped(text: str, room: float, size: float = SIZE) -> list[str]:
    """A text in lines that fit.

    >>> wrapped("no outcome was told", 80)
    ['no outcome', 'was told']
    """
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def placeholder(key: str, width: int, facts: Facts) -> Chart:
    """A frame that says why there is nothing to show yet, and what to do."""
    canvas = Canvas(key, width)
    lines = wrapped(facts.nothing or facts.alt, min(width - 64, 420), 13)
    canvas.height = 64 + LINE * max(len(lines), 3)
    canvas.rect(1, 1, width - 2, canvas.height - 2, "c-nothing")
    y = canvas.height / 2 - LINE * (len(lines) - 1) / 2
    for i, line in enumerate(lines):
        canvas.text(width / 2, y + LINE * i, line, "c-muted", "middle", 13)
    return canvas.chart(facts)
