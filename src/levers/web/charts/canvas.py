"""A drawing that grows by lines, marks and text. Looks are class names; the style sheet gives them colours."""

from collections.abc import Iterator
from contextlib import contextmanager

from markupsafe import Markup

from levers.studies.plots.facts import Facts
from levers.web.charts.chart import Chart
from levers.web.charts.text import SIZE, escaped, place

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


class Canvas:
    """Collects the parts of one drawing.

    >>> canvas = Canvas("effects", 360)
    >>> with canvas.group("heat low", "c-lead"):
    ...     canvas.mark("diamond", 10, 10)
    >>> print(canvas.parts[0])
    <g class="c-lead"><title>heat low</title>
    >>> canvas.hatched("c-play") == canvas.hatched("c-play")
    True
    """

    def __init__(self, key: str, width: int) -> None:
        self.key, self.width, self.height = key, width, 0.0
        self.id = f"{key}-{width}"
        self.parts: list[str] = []
        self._patterns: dict[str, str] = {}

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
        at = f'x="{place(x)}" y="{place(y + 0.35 * size)}"'
        self.parts.append(
            f'<text class="{kind}" {at} font-size="{place(size)}" text-anchor="{anchor}">{escaped(text)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.path(f"M{place(x1)} {place(y1)}L{place(x2)} {place(y2)}", kind)

    def path(self, d: str, kind: str) -> None:
        """Any line."""
        self.parts.append(f'<path class="{kind}" d="{d}"/>')

    def rect(self, x: float, y: float, width: float, height: float, kind: str, fill: str | None = None) -> None:
        """A rectangle. `fill` is a pattern, see `hatched`."""
        size = f'width="{place(max(width, 0.5))}" height="{place(height)}"'
        pattern = "" if fill is None else f' fill="{fill}"'
        self.parts.append(f'<rect class="{kind}" x="{place(x)}" y="{place(y)}" {size}{pattern}/>')

    def mark(self, shape: str, x: float, y: float, radius: float = 4.5) -> None:
        """A mark in the colour of the group around it."""
        kind, d = _MARKS[shape]
        at = {"x": x, "y": y, "l": x - radius, "r": x + radius, "t": y - radius, "b": y + radius}
        at |= {"d": radius, "e": 2 * radius}
        self.path(d.format_map({name: place(value) for name, value in at.items()}), f"c-mark {kind}")

    def hatched(self, kind: str) -> str:
        """A pattern in a colour, as the fill of a rectangle. Two drawings on a page never share one."""
        name = self._patterns.setdefault(kind, f"{self.id}-hatch-{kind}")
        return f"url(#{name})"

    def chart(self, facts: Facts) -> Chart:
        """The drawing with what it says."""
        patterns = "".join(
            f'<pattern id="{name}" class="{kind}" width="6" height="6" patternUnits="userSpaceOnUse">'
            '<rect class="c-soft" width="6" height="6"/>'
            '<path class="c-line" d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5"/></pattern>'
            for kind, name in self._patterns.items()
        )
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart chart-{self.width}" role="img" direction="ltr" '
            f'viewBox="0 0 {self.width} {place(self.height)}" aria-labelledby="{self.id}-title {self.id}-desc">'
            f'<title id="{self.id}-title">{escaped(facts.title)}</title>'
            f'<desc id="{self.id}-desc">{escaped(facts.alt)}</desc>'
            f"{f'<defs>{patterns}</defs>' if patterns else ''}{''.join(self.parts)}</svg>"
        )
        # every part above is either a number, a constant of this package, or went through `escaped`
        return Chart(
            self.key, facts.title, facts.caption, facts.alt, Markup(svg), facts.header, facts.rows, facts.struck
        )
