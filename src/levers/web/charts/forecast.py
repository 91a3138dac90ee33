"""How far from the best the leading setting can be, and when that will be near enough."""

from collections.abc import Sequence

from levers.studies.fold import StudyState
from levers.studies.plots.facts import Facts, RunsOnly, Seen, Steps, forecast_facts
from levers.studies.plots.text import number
from levers.web.charts.axes import Entry, label_room, legend, placeholder, x_axis, y_axis
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import NARROW, WIDE, Chart
from levers.web.charts.scales import Scale, log_spanned, spanned
from levers.web.charts.text import place

KEY = "forecast"
SQUEEZED = 60
"""When the runs go so far beyond the first block, early blocks would be squeezed into a line without a log axis."""


def forecast(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """What could be certified after each block, and the runs still to go.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> forecast("oven", study.state).title
    'oven: how far it is to the end'
    """
    seen = seen or Seen(name, state)
    facts, drawn = forecast_facts(seen)
    if drawn is None:
        return placeholder(KEY, width, facts)
    if isinstance(drawn, RunsOnly):
        return _counted(facts, drawn, width)
    return _certified(facts, drawn, width, state.open_block is None)


def runs_scale(first: float, last: float, begin: float, end: float) -> tuple[Scale, str]:
    """An axis of runs, and what to write beside it."""
    if first > 0 and last > SQUEEZED * first:
        return log_spanned([first, last], begin, end), "runs (log scale)"
    return spanned([0.0, last], begin, end, zero=True), "runs"


def stairs(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    """The path of a value that holds until the next one."""
    first, *rest = points
    return f"M{place(x(first[0]))} {place(y(first[1]))}" + "".join(f"H{place(x(a))}V{place(y(b))}" for a, b in rest)


def _certified(facts: Facts, steps: Steps, width: int, ended: bool) -> Chart:
    canvas = Canvas(KEY, width)
    top = legend(canvas, _entries(steps, ended)) + 26
    bottom = top + (240 if width > NARROW else 210)
    levels = [y for _, y in steps.points] + ([] if steps.tolerance is None else [steps.tolerance])
    y = log_spanned(levels, bottom, top) if steps.is_wide else spanned(levels, bottom, top, zero=True)
    left, right = label_room(y), width - 14.0
    last = max(steps.now, steps.end[1] if steps.end else 0)
    x, title = runs_scale(steps.points[0][0], last, left, right)
    if steps.end is not None and steps.end[1] > steps.end[0]:
        with canvas.group(f"the end: likely after {steps.end[0]:,} runs, {steps.end[1]:,} in the worst case", "c-end"):
            fill = canvas.hatched("c-end")
            canvas.rect(x(steps.end[0]), top, x(steps.end[1]) - x(steps.end[0]), bottom - top, "c-edge", fill)
    x_axis(canvas, x, top, bottom, title)
    y_axis(canvas, y, left, right, "how far from the best it can be" + (" (log scale)" if y.log else ""))
    if steps.tolerance is not None:
        with canvas.group(f"the tolerance asked for: {steps.tolerance:g}", "c-ink"):
            canvas.line(left, y(steps.tolerance), right, y(steps.tolerance), "c-line c-dashed")
    if steps.end is not None:
        with canvas.group(f"the end: likely after {steps.end[0]:,} runs", "c-end"):
            canvas.line(x(steps.end[0]), top, x(steps.end[0]), bottom, "c-line c-thick")
    canvas.parts.append('<g class="c-lead">')
    canvas.path(stairs([*steps.points, (steps.now, steps.within)], x, y), "c-line c-thick")
    canvas.parts.append("</g>")
    for runs, within in steps.points:
        with canvas.group(f"after {runs:,} runs: within {number(within)} of the best", "c-lead c-point"):
            canvas.mark("dot", x(runs), y(within), 3.5)
    word = "the verdict" if ended else "now"
    with canvas.group(f"{word}, {steps.now:,} runs: within {number(steps.within)} of the best", "c-now"):
        canvas.mark("diamond", x(steps.now), y(steps.within), 6.5)
    canvas.height = bottom + 40
    return canvas.chart(facts)


def _entries(steps: Steps, ended: bool) -> list[Entry]:
    found = [("c-lead", "dot", "certified after a block"), ("c-now", "diamond", "the verdict" if ended else "now")]
    if steps.tolerance is not None:
        found.append(("c-ink", "dashed", f"tolerance {steps.tolerance:g}"))
    if steps.end is not None and steps.end[1] > steps.end[0]:
        found.append(("c-end", "hatch", "the end: likely to worst case"))
    elif steps.end is not None:
        found.append(("c-end", "thick", "the end"))
    return found


def _counted(facts: Facts, runs: RunsOnly, width: int) -> Chart:
    """Runs only: these algorithms certify nothing before they end."""
    canvas = Canvas(KEY, width)
    bars = [("c-lead", "bar", "c-fill", f"runs so far: {runs.now:,}", runs.now)]
    if runs.in_block:
        bars.append(("c-end", "hatch", "c-edge", f"in this block: {runs.in_block:,}", runs.in_block))
    if runs.rest:
        bars.append(("c-gone", "empty", "c-outline", f"then in the worst case: {runs.rest:,}", runs.rest))
    top = legend(canvas, [(kind, sign, text) for kind, sign, _, text, _ in bars]) + 10
    x = Scale(0.0, float(sum(n for *_, n in bars)), 12, width - 24.0)
    x_axis(canvas, x, top, top + 56, "runs")
    begin = 0
    for kind, sign, looks, text, n in bars:
        with canvas.group(text, f"{kind} c-point"):
            fill = canvas.hatched(kind) if sign == "hatch" else None
            canvas.rect(x(begin), top + 12, x(begin + n) - x(begin), 32, looks, fill)
        begin += n
    canvas.height = top + 56 + 40
    return canvas.chart(facts)
