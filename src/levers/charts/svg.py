"""A drawing kit for SVG: scales, text that fits, lines and marks, axes, legends. Colours come from the style sheet."""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from markupsafe import Markup, escape

from levers.charts.looks import Look
from levers.errors import InvalidSettingError

WIDE, NARROW = 720, 360
"""Widths of the two drawings of a chart, in the units of its text: a page holds both and shows the one that fits."""

SIZE, SMALL = 12.0, 11.0
"""Sizes of text. They are in the drawing, not in the style sheet, because its layout rests on them."""

MAX_LABEL = 30
"""The longest label beside a row of a picture; longer ones end in an ellipsis."""

LINE, Y_APART = 18.0, 38
"""From one line of text to the next, and from one number of a vertical axis to the next."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SLIM, _BROAD = frozenset("iljtfrIJ.,:;|!'()[]-/ "), frozenset("mwMW%@+<=>~#…")


def plain(value: object) -> str:
    """A value on one line, without anything that cannot be printed.

    >>> plain("a\\nb\\0c"), plain(2.5), plain("")
    ('a b?c', '2.5', '(empty)')
    """
    line = " ".join(str(value).split())
    return (line if line.isprintable() else "".join([c if c.isprintable() else "?" for c in line])) or "(empty)"


def clipped(value: object, most: int = MAX_LABEL) -> str:
    """A value on one line, with an ellipsis in the middle of a long one: what differs is often at the end.

    >>> clipped("temperature of the second oven, zone 12")
    'temperature of the…en, zone 12'
    """
    text = plain(value)
    tail = most // 3 + 1
    return text if len(text) <= most else f"{text[: most - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


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
    turns = not text.isascii() and any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    return f"\u2068{text}\u2069" if turns else text


def text_width(text: str, size: float = SIZE) -> float:
    """About how wide a text is in DejaVu Sans, which Linux takes for a page's font: others are slimmer.

    No font is at hand here to measure it with.

    >>> text_width("oven") < text_width("烤箱烤箱") < text_width("the hot oven")
    True
    """
    return size * sum([_letter(c) for c in text])


def _letter(c: str) -> float:
    if unicodedata.east_asian_width(c) in "WF":
        return 1.05
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0.0
    return 0.36 if c in _SLIM else 0.92 if c in _BROAD else 0.72 if c.isupper() else 0.64


def fitted(value: object, room: float, size: float = SIZE) -> str:
    """A name, clipped to what fits.

    >>> fitted("temperature of the second oven", 80)
    'temp…oven'
    """
    most = 80
    while most > 3 and text_width(found := short(value, most), size) > room:
        most = min(most, len(found)) - 1
    return short(value, most)


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


def place(value: float) -> str:
    """A coordinate.

    >>> place(12.0), place(3.14159)
    ('12', '3.1')
    """
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers from `low` to `high` on the way from `begin` to `end`. What is outside is put at the edge.

    >>> scale = Scale(0.0, 10.0, 100.0, 200.0)
    >>> scale(2.5), scale(99), [text for _, text in scale.ticks(3)]
    (125.0, 200.0, ['0', '5', '10'])
    >>> [text for _, text in Scale(1.0, 1000.0, 0.0, 90.0, log=True).ticks(4)]
    ['1', '10', '100', '1,000']
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise InvalidSettingError(f"a scale from {self.low} to {self.high} shows nothing")

    def __call__(self, value: float) -> float:
        """Where a number is."""
        at = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(at / self.low) / math.log(self.high / self.low)
        else:  # halves, because the difference of two very large numbers has no floating-point number
            share = (at / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """About so many round numbers, and their texts."""
        if self.log:
            return self._log_ticks(most)
        step = nice_step((self.high / 2 - self.low / 2) / max(most, 1) * 2)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(i * step, tick_text(i * step, step)) for i in range(first, last + 1)]

    def ticks_apart(self, room: int) -> list[tuple[float, str]]:
        """Round numbers as far apart as their texts need."""
        return self.ticks(max(int(abs(self.end - self.begin) // room), 2))

    @property
    def label_room(self) -> float:
        """How much room the numbers of a vertical axis need."""
        return max([text_width(text, SMALL) for _, text in self.ticks_apart(Y_APART)], default=0.0) + 14

    def _log_ticks(self, most: int) -> list[tuple[float, str]]:
        """As many of 1, 2, 5, 10, 20, ... as there is room for; else powers of ten, else every second, and so on."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for digits, every in [((1.0, 2.0, 5.0), 1), *(((1.0,), every) for every in range(1, len(powers) + 1))]:
            found = [d * 10.0**power for power in powers if power % every == 0 for d in digits]
            found = [v for v in found if self.low <= v <= self.high]
            if len(found) <= max(most, 2):
                break
        return [(v, tick_text(v, v)) for v in found]


def nice_step(least: float) -> float:
    """The next of 1, 2, 5 times a power of ten.

    >>> nice_step(0.03), nice_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next((digit * power for digit in (1, 2, 5) if digit * power >= least * (1 - 1e-9)), 10 * power)


def tick_text(value: float, step: float) -> str:
    """A number beside an axis whose marks are `step` apart, with no more digits than that takes.

    >>> tick_text(0.30000000000000004, 0.1), tick_text(1200, 100), tick_text(3e9, 1e9), tick_text(1e-7, 1e-7)
    ('0.3', '1,200', '3e+09', '1e-07')
    """
    digits = max(0, -math.floor(math.log10(abs(step)) + 1e-9))
    if abs(value) < 1e7 and digits <= 5:
        return f"{value + 0.0:,.{digits}f}"
    if abs(value) < abs(step) / 2:
        return "0"
    figures = math.floor(math.log10(abs(value)) + 1e-9) - math.floor(math.log10(abs(step)) + 1e-9) + 1
    return f"{value:.{min(max(figures, 1), 15)}g}"


def spanned(values: Iterable[float], begin: float, end: float, *, zero: bool = False, log: bool = False) -> Scale:
    """A scale on which all the numbers are, with a little room; `zero` makes it begin at zero, unless it is `log`.

    >>> spanned([0, 100], 0, 100)
    Scale(low=-4.0, high=104.0, begin=0, end=100, log=False)
    >>> spanned([3, 3], 0, 100).low < 3 < spanned([3, 3], 0, 100).high
    True
    """
    if log:
        found = [v for v in values if math.isfinite(v) and v > 0] or [1.0, 10.0]
        times = max((max(found) / min(found)) ** 0.05, 1.15)
        return Scale(min(found) / times, max(found) * times, begin, end, log=True)
    found = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = (min(0.0, *found), max(0.0, *found)) if zero else (min(found), max(found))
    if high / 2 - low / 2 <= 1e-9 * max(abs(low), abs(high)):
        room = 0.5 * max(abs(low), abs(high)) or 1.0
        return Scale(0.0 if zero and low == 0 else low - room, high + room, begin, end)
    limit, room = 1.7e308, 0.08 * (high / 2 - low / 2)
    return Scale(low if zero and low == 0 else max(low - room, -limit), min(high + room, limit), begin, end)


_MARKS = {
    "diamond": ("c-fill", "M{x} {t}L{r} {y}L{x} {b}L{l} {y}Z"),
    "circle": ("c-open", "M{l} {y}a{d} {d} 0 1 0 {e} 0a{d} {d} 0 1 0 -{e} 0Z"),
    "dot": ("c-fill", "M{l} {y}a{d} {d} 0 1 0 {e} 0a{d} {d} 0 1 0 -{e} 0Z"),
    "cross": ("c-line", "M{l} {t}L{r} {b}M{l} {b}L{r} {t}"),
    "square": ("c-open", "M{l} {t}H{r}V{b}H{l}Z"),
    "triangle": ("c-open", "M{x} {t}L{r} {b}H{l}Z"),
    "plus": ("c-line", "M{x} {t}V{b}M{l} {y}H{r}"),
    "left": ("c-fill", "M{l} {y}L{r} {t}V{b}Z"),
    "right": ("c-fill", "M{r} {y}L{l} {t}V{b}Z"),
}
BARS = {"bar": "c-fill", "band": "c-soft", "hatch": "c-edge", "empty": "c-outline"}
LINES = {
    "line": "c-line",
    "dash": "c-line c-dash",
    "dashed": "c-line c-dashed",
    "thick": "c-line c-thick",
    "usual": "c-line c-usual",
}
"""Classes of what is not a point."""


class Canvas:
    """Collects the parts of one drawing.

    >>> canvas = Canvas("effects", 360)
    >>> with canvas.group("heat low", "c-lead"):
    ...     canvas.mark("diamond", 10, 10)
    >>> print(canvas.parts[0])
    <g class="c-lead"><title>heat low</title>
    """

    def __init__(self, key: str, width: int) -> None:
        self.key, self.width, self.height = key, width, 0.0
        self.is_narrow = width <= NARROW
        self.note = ""  # what the caption has to add about how it is drawn
        self.is_cut = False  # whether something is left out of the drawing that the table has
        self.id = f"{key}-{width}"
        self.parts: list[str] = []
        self._patterns: dict[str, str] = {}

    @contextmanager
    def coloured(self, kind: str) -> Iterator[None]:
        """What is drawn inside takes the colour of a class."""
        self.parts.append(f'<g class="{kind}">')
        yield
        self.parts.append("</g>")

    @contextmanager
    def group(self, label: str, kind: str = "", hit: tuple[float, float, float, float] | None = None) -> Iterator[None]:
        """What belongs together, with words that browsers show over it. `hit` is where the mouse finds it."""
        self.parts.append(f'<g class="{kind}"><title>{escaped(label)}</title>')
        if hit is not None:
            x, y, w, h = map(place, hit)
            self.parts.append(f'<rect class="c-hit" x="{x}" y="{y}" width="{w}" height="{h}"/>')
        yield
        self.parts.append("</g>")

    def text(
        self, x: float, y: float, text: str, kind: str = "c-text", anchor: str = "start", size: float = SIZE
    ) -> None:
        """A line of text whose middle is at y."""
        at = f'x="{place(x)}" y="{place(y + 0.35 * size)}" font-size="{place(size)}" text-anchor="{anchor}"'
        self.parts.append(f'<text class="{kind}" {at}>{escaped(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.path(f"M{place(x1)} {place(y1)}L{place(x2)} {place(y2)}", kind)

    def path(self, d: str, kind: str) -> None:
        """Any line."""
        self.parts.append(f'<path class="{kind}" d="{d}"/>')

    def rect(self, x: float, y: float, width: float, height: float, kind: str, fill: str = "") -> None:
        """A rectangle."""
        size = f'width="{place(max(width, 0.5))}" height="{place(height)}"'
        self.parts.append(f'<rect class="{kind}" x="{place(x)}" y="{place(y)}" {size}{fill}/>')

    def bar(self, look: Look, x: float, y: float, width: float, height: float) -> None:
        """A rectangle that looks so; a pattern in its colour hatches it. Two drawings on a page never share one."""
        fill = ""
        if look.mark == "hatch":
            fill = f' fill="url(#{self._patterns.setdefault(look.css, f"{self.id}-hatch-{look.css}")})"'
        self.rect(x, y, width, height, BARS[look.mark], fill)

    def mark(self, shape: str, x: float, y: float, radius: float = 4.5) -> None:
        """A mark in the colour of the group around it."""
        kind, d = _MARKS[shape]
        at = {"x": x, "y": y, "l": x - radius, "r": x + radius, "t": y - radius, "b": y + radius}
        at |= {"d": radius, "e": 2 * radius}
        self.path(d.format_map({name: place(value) for name, value in at.items()}), f"c-mark {kind}")

    def interval(self, scale: Scale, low: float, high: float, y: float) -> None:
        """A bar with ends; an arrow where it goes on outside."""
        self.line(scale(low), y, scale(high), y, "c-line")
        for end, inside, arrow, back in ((low, low >= scale.low, "left", 3), (high, high <= scale.high, "right", -3)):
            if inside:
                self.line(scale(end), y - 3, scale(end), y + 3, "c-line")
            else:
                self.mark(arrow, scale(end) + back, y, 3)

    def drawing(self, title: str, alt: str) -> Markup:
        """All of it, with a title and what it shows in words."""
        size, hatch = 'width="6" height="6"', '<path class="c-line" d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5"/>'
        patterns = "".join(
            f'<pattern id="{name}" class="{kind}" {size} patternUnits="userSpaceOnUse">'
            f'<rect class="c-soft" {size}/>{hatch}</pattern>'
            for kind, name in self._patterns.items()
        )
        # every part is either a number, a constant of this package, or went through `escaped`
        return Markup(
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart chart-{self.width}" role="img" direction="ltr" '
            f'viewBox="0 0 {self.width} {place(self.height)}" aria-labelledby="{self.id}-title {self.id}-desc">'
            f'<title id="{self.id}-title">{escaped(title)}</title>'
            f'<desc id="{self.id}-desc">{escaped(alt)}</desc>'
            f"{f'<defs>{patterns}</defs>' if patterns else ''}{''.join(self.parts)}</svg>"
        )

    def x_axis(self, scale: Scale, top: float, bottom: float, title: str = "", *, above: bool = False) -> None:
        """Numbers below the data (or `above`), thin lines through it, and what they are."""
        at, text_at = (top, top - 10) if above else (bottom, bottom + 12)
        free = -1e9
        for value, text in scale.ticks_apart(55):
            x, half = scale(value), text_width(text, SMALL) / 2
            x_text = min(max(x, half + 1), self.width - half - 1)
            if not above:
                self.line(x, top, x, bottom, "c-grid")
            if x_text - half > free:  # the texts of a logarithmic axis come close to each other
                self.text(x_text, text_at, text, "c-muted", "middle", SMALL)
                free = x_text + half + 6
        self.line(scale.begin, at, scale.end, at, "c-axis")
        if title:
            title += " (log scale)" if scale.log else ""
            half = text_width(title, SMALL) / 2
            middle = max(min((scale.begin + scale.end) / 2, self.width - half - 2), half + 2)
            self.text(middle, bottom + 29, title, "c-text", "middle", SMALL)

    def y_axis(self, scale: Scale, left: float, right: float, title: str = "") -> None:
        """Numbers left of the data, thin lines through it, and what they are: above, where it reads without turning."""
        for value, text in scale.ticks_apart(Y_APART):
            y = scale(value)
            self.line(left, y, right, y, "c-grid")
            self.text(left - 6, y, text, "c-muted", "end", SMALL)
        self.line(left, scale.begin, left, scale.end, "c-axis")
        if title:
            title += " (log scale)" if scale.log else ""
            self.text(4, min(scale.begin, scale.end) - 14, title, "c-text", size=SMALL)

    def stairs(self, points: Sequence[tuple[float, float]], x: Scale, y: Scale, kind: str) -> None:
        """A value that holds until the next one."""
        (a, b), *rest = points
        begin = f"M{place(x(a))} {place(y(b))}"
        self.path(begin + "".join([f"H{place(x(a))}V{place(y(b))}" for a, b in rest]), kind)

    def legend(self, looks: Sequence[Look], top: float = 4.0) -> float:
        """The signs and what they stand for, in as many lines as it takes; returns where they end."""
        x, y = 4.0, top + LINE / 2
        for look in looks:
            width = 30 + text_width(look.label, SMALL)
            if x + width > self.width and x > 4:
                x, y = 4.0, y + LINE
            with self.coloured(f"c-key {look.css}"):
                for sign in look.mark.split():
                    if sign in BARS:
                        self.bar(look, x, y - 5, 18, 10)
                    elif sign in LINES:
                        self.line(x, y, x + 18, y, LINES[sign])
                    else:
                        self.mark(sign, x + 9, y, 4)
                self.text(x + 24, y, look.label, "c-text", size=SMALL)
            x += width + 14
        return y + LINE / 2 + 4 if looks else top

    def placeholder(self, why: str) -> None:
        """A frame that says why there is nothing to show yet, and what to do."""
        lines = wrapped(why, min(self.width - 64, 420), 13)
        self.height = 64 + LINE * max(len(lines), 3)
        self.rect(1, 1, self.width - 2, self.height - 2, "c-nothing")
        y = self.height / 2 - LINE * (len(lines) - 1) / 2
        for i, line in enumerate(lines):
            self.text(self.width / 2, y + LINE * i, line, "c-muted", "middle", 13)
