"""How strong the evidence is for each factor."""

import math

from levers.studies.evidence import FactorEvidence
from levers.studies.fold import StudyState
from levers.studies.plots.facts import Facts, Seen, nothing_yet
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain
from levers.web.charts.axes import legend, placeholder, x_axis
from levers.web.charts.bars import STEP, Bar, bar_scale, draw_bars
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import WIDE, Chart
from levers.web.charts.text import short

KEY = "evidence"
MOST = 60
"""The most factors that are drawn."""

HEADER = ("factor", "better level", "worse level", "gain", "needed", "gain over needed", "standard errors", "shown")


def evidence(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A bar for each factor, strongest first: what its levels differ by over what it takes to be shown.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> evidence("oven", study.state).header[0]
    'what'
    """
    seen = seen or Seen(name, state)
    found = sorted(seen.evidence, key=_strength, reverse=True)
    facts, proofs = _facts(seen, found), any(one.ratio is not None for one in found)
    if facts.nothing is not None:
        return placeholder(KEY, width, facts)
    bars = [_bar(one, proofs) for one in found[:MOST]]
    canvas = Canvas(KEY, width)
    entries = [("c-lead", "bar", "shown to matter")] if any(bar.strong for bar in bars) else []
    if not all(bar.strong for bar in bars):
        entries.append(("c-play", "hatch", "not shown (yet)" if proofs else "described, not shown"))
    if proofs:
        entries.append(("c-ink", "dashed", "enough to be shown"))
    top = legend(canvas, entries) + 8
    bottom, x = top + STEP * len(bars) + 6, bar_scale(canvas, bars, 1.4 if proofs else 1.0, 8.0 if proofs else 40.0)
    title = "gain over what it takes to be shown" if proofs else "gain in standard errors"
    x_axis(canvas, x, top, bottom, title)
    if proofs:
        canvas.parts.append('<g class="c-ink">')
        canvas.line(x(1), top, x(1), bottom, "c-line c-dashed")
        canvas.parts.append("</g>")
    draw_bars(canvas, bars, x, top, "c-lead", "c-play")
    canvas.height = bottom + 40
    return canvas.chart(facts)


def _strength(one: FactorEvidence) -> tuple[float, float]:
    return (-1.0 if one.ratio is None else one.ratio, -1.0 if one.t is None else one.t)


def _bar(one: FactorEvidence, proofs: bool) -> Bar:
    value, name = one.ratio if proofs else one.t, short(one.factor)
    if value is None or one.contrast is None:
        return Bar(one.factor, None, "not known", f"{name}: not known", one.shown)
    words = f"{name}: {short(one.better)} gains {number(one.contrast)} over {short(one.worse)}"
    if one.radius is not None:
        words += f"; {number(one.radius)} is needed, so it is {'' if one.shown else 'not '}shown"
    text = "all" if math.isinf(value) else f"{value:.3g}"
    return Bar(one.factor, value, text, words, one.shown)


def _facts(seen: Seen, found: list[FactorEvidence]) -> Facts:
    title = f"{clipped(seen.name, MAX_TITLE)}: how strong the evidence is for each factor"
    if all(one.ratio is None and one.t is None for one in found):
        why = "the outcomes so far do not tell levels apart. Ask for runs and tell their outcomes."
        return nothing_yet(title, why, seen)
    shown = [short(one.factor) for one in found if one.shown]
    n = len(found)
    if any(one.ratio is not None for one in found):
        caption = f"{len(shown)} of {n} factors are shown to matter, all statements together holding with probability "
        caption += f"{100 * (1 - seen.state.spec.failure_prob):g} %. A factor is shown when its bar passes 1"
        # with max_parents a level that was dropped at an earlier look is proof enough
        caption += ", or did earlier." if any(one.shown and (one.ratio or 0) < 1 for one in found) else "."
    else:
        caption = f"The largest difference of each of {n} factors in standard errors: it describes, and proves nothing."
    if n > MOST:
        caption += f" The strongest {MOST} of {n} factors are drawn; the table has all."
    names = ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
    alt = f"Bars of the evidence for {n} factors, strongest: {short(found[0].factor)}. "
    alt += f"Shown to matter: {names or 'none'}."
    return Facts(title, caption, alt, HEADER, [_cells(one) for one in found])


def _cells(one: FactorEvidence) -> tuple[str, ...]:
    levels = ("", "") if one.contrast is None else (plain(one.better), plain(one.worse))
    numbers = (number(one.contrast), number(one.radius), number(one.ratio), number(one.t))
    return (plain(one.factor), *levels, *numbers, "yes" if one.shown else "no")
