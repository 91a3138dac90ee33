"""Charts of what the promise rests on: evidence for each factor, residuals, pairs that act together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from levers.charts.facts import MAX_TITLE, Facts, Seen, clipped, nothing_yet, number, plain
from levers.charts.svg import (
    NARROW,
    SIZE,
    SMALL,
    WIDE,
    Canvas,
    Chart,
    Scale,
    fitted,
    legend,
    placeholder,
    short,
    spanned,
    wrapped,
    x_axis,
    y_axis,
)
from levers.core.model.interactions import PairCheck
from levers.studies.analysis.diagnostics import ALARM, Additivity, Residuals
from levers.studies.analysis.evidence import FactorEvidence
from levers.studies.state import StudyState

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


EVIDENCE_KEY = "evidence"
MOST_FACTORS = 60
"""The most factors that are drawn."""

EVIDENCE_HEADER = (
    "factor",
    "better level",
    "worse level",
    "gain",
    "needed",
    "gain over needed",
    "standard errors",
    "shown",
)


def evidence(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A bar for each factor, strongest first: what its levels differ by over what it takes to be shown.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> evidence("oven", study.state).header[0]
    'what'
    """
    seen = seen or Seen(name, state)
    found = sorted(seen.evidence, key=_strength, reverse=True)
    facts, proofs = _evidence_facts(seen, found), any(one.ratio is not None for one in found)
    if facts.nothing is not None:
        return placeholder(EVIDENCE_KEY, width, facts)
    bars = [_evidence_bar(one, proofs) for one in found[:MOST_FACTORS]]
    canvas = Canvas(EVIDENCE_KEY, width)
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


def _evidence_bar(one: FactorEvidence, proofs: bool) -> Bar:
    value, name = one.ratio if proofs else one.t, short(one.factor)
    if value is None or one.contrast is None:
        return Bar(one.factor, None, "not known", f"{name}: not known", one.shown)
    words = f"{name}: {short(one.better)} gains {number(one.contrast)} over {short(one.worse)}"
    if one.radius is not None:
        words += f"; {number(one.radius)} is needed, so it is {'' if one.shown else 'not '}shown"
    text = "all" if math.isinf(value) else f"{value:.3g}"
    return Bar(one.factor, value, text, words, one.shown)


def _evidence_facts(seen: Seen, found: list[FactorEvidence]) -> Facts:
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
    if n > MOST_FACTORS:
        caption += f" The strongest {MOST_FACTORS} of {n} factors are drawn; the table has all."
    names = ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
    alt = f"Bars of the evidence for {n} factors, strongest: {short(found[0].factor)}. "
    alt += f"Shown to matter: {names or 'none'}."
    return Facts(title, caption, alt, EVIDENCE_HEADER, [_evidence_cells(one) for one in found])


def _evidence_cells(one: FactorEvidence) -> tuple[str, ...]:
    levels = ("", "") if one.contrast is None else (plain(one.better), plain(one.worse))
    numbers = (number(one.contrast), number(one.radius), number(one.ratio), number(one.t))
    return (plain(one.factor), *levels, *numbers, "yes" if one.shown else "no")


ADDITIVITY_KEY = "additivity"
MOST_PAIRS, MOST_ROWS = 12, 500
"""The most pairs that are drawn and listed."""

ADDITIVITY_HEADER = (
    "factor",
    "and factor",
    "degrees of freedom",
    "statistic",
    "p",
    "p, adjusted for all pairs",
    "suspected",
)


def additivity(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """A bar for each of the most suspicious pairs: how many zeros its adjusted p-value has.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> "a single lever" in additivity("oven", study.state).alt
    True
    """
    seen = seen or Seen(name, state)
    found = seen.additivity
    facts = _additivity_facts(seen, found)
    if facts.nothing is not None:
        return placeholder(ADDITIVITY_KEY, width, facts)
    first = sorted(found.checks, key=lambda check: check not in found.suspects)[:MOST_PAIRS]
    bars = [_additivity_bar(found, check) for check in first]
    canvas = Canvas(ADDITIVITY_KEY, width)
    entries = [("c-now", "bar", "suspected")] if found.suspects else []
    entries += [("c-gone", "hatch", "no sign"), ("c-ink", "dashed", f"alarm: p below {ALARM:g}")]
    top, alarm = legend(canvas, entries) + 8, -math.log10(ALARM)
    bottom, x = top + STEP * len(bars) + 6, bar_scale(canvas, bars, 1.5 * alarm, 12.0)
    x_axis(canvas, x, top, bottom, "zeros of the adjusted p-value")
    canvas.parts.append('<g class="c-ink">')
    canvas.line(x(alarm), top, x(alarm), bottom, "c-line c-dashed")
    canvas.parts.append("</g>")
    draw_bars(canvas, bars, x, top, "c-now", "c-gone")
    canvas.height = bottom + 40
    return canvas.chart(facts)


def _additivity_bar(found: Additivity, check: PairCheck) -> Bar:
    names = (short(found.names[check.first], 40), short(found.names[check.second], 40))
    value = -math.log10(max(check.adjusted, 1e-300))
    words = f"{names[0]} and {names[1]}: p = {check.adjusted:.2g} adjusted for all pairs"
    return Bar(f"{names[0]} and {names[1]}", value, f"p {check.adjusted:.1g}", words, check in found.suspects)


def _additivity_facts(seen: Seen, found: Additivity) -> Facts:
    title = f"{clipped(seen.name, MAX_TITLE)}: do factors act together?"
    if not found.checks:
        return nothing_yet(title, f"{plain(found.reason or found.summary)}. {_advice(seen)}", seen)
    n = len(found.checks)
    caption = clipped(found.summary, 900)
    caption = caption[:1].upper() + caption[1:] + "."
    if n > MOST_PAIRS:
        caption += f" The {MOST_PAIRS} most suspicious of {n:,} pairs are drawn"
        caption += f"; the table has {MOST_ROWS}." if n > MOST_ROWS else "; the table has all."
    rows = [_additivity_cells(found, check) for check in found.checks[:MOST_ROWS]]
    return Facts(
        title,
        caption,
        f"Bars of how suspicious {min(n, MOST_PAIRS)} pairs of factors are. {caption}",
        ADDITIVITY_HEADER,
        rows,
    )


def _advice(seen: Seen) -> str:
    if len(seen.state.spec.merging.inner.names) < 2:
        return "The certificate needs no such check here."
    if seen.state.open_block is None:
        return "The study has ended: a new one with more runs could tell."
    return "Ask for runs and tell their outcomes."


def _additivity_cells(found: Additivity, check: PairCheck) -> tuple[str, ...]:
    names = (plain(found.names[check.first]), plain(found.names[check.second]))
    numbers = (number(check.statistic), f"{check.p_value:.3g}", f"{check.adjusted:.3g}")
    return (*names, str(check.dof), *numbers, "yes" if check in found.suspects else "no")


RESIDUALS_KEY = "residuals"
FAR = 3.0
"""Standardised residuals beyond this get another mark."""

HEIGHT, ABOVE, BELOW = 210.0, 34.0, 48.0


def residuals(name: str, state: StudyState, width: int = WIDE, seen: Seen | None = None) -> Chart:
    """Two small charts: beside each other, or one below the other where the page is narrow.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> residuals("oven", study.state).title
    'oven: what the fit leaves over'
    """
    seen = seen or Seen(name, state)
    found = seen.residuals
    facts = _residuals_facts(seen, found)
    if facts.nothing is not None:
        return placeholder(RESIDUALS_KEY, width, facts)
    canvas = Canvas(RESIDUALS_KEY, width)
    entries = [("c-lead", "circle", "residual")]
    if (abs(found.standardised) > FAR).any():
        entries.append(("c-now", "cross", f"beyond {FAR:g} standard deviations"))
    if found.noise_sd is not None:
        entries.append(("c-band", "band", "two noise sds"))
    top = legend(canvas, [*entries, ("c-ink", "dashed", "as it should be")]) + ABOVE
    beside = width > NARROW
    half = width / 2 if beside else float(width)
    _against_fit(canvas, found, 0, half, top)
    below = top if beside else top + HEIGHT + BELOW + ABOVE
    _quantiles(canvas, found, half if beside else 0, width, below)
    canvas.height = below + HEIGHT + BELOW - 8
    return canvas.chart(facts)


def _against_fit(canvas: Canvas, found: Residuals, left: float, right: float, top: float) -> None:
    bottom = top + HEIGHT
    noise = 0.0 if found.noise_sd is None else 2 * found.noise_sd
    y = spanned([*found.residual.tolist(), noise, -noise], bottom, top)
    x = spanned(found.fitted.tolist(), left + 48, right - 14)
    if noise:
        canvas.parts.append('<g class="c-band">')
        canvas.rect(x.begin, y(noise), x.end - x.begin, y(-noise) - y(noise), "c-soft")
        canvas.parts.append("</g>")
    x_axis(canvas, x, top, bottom, "expected by the fit")
    y_axis(canvas, y, x.begin, x.end)
    canvas.text(left + 4, top - 16, "outcome less what was expected", size=SMALL)
    canvas.parts.append('<g class="c-ink">')
    canvas.line(x.begin, y(0), x.end, y(0), "c-line c-dashed")
    canvas.parts.append("</g>")
    each = zip(found.fitted, found.residual, found.standardised, found.trial, found.stage, strict=True)
    for expected, residual, scaled, trial, stage in each:
        far = abs(scaled) > FAR
        which = f"trial {trial}" if trial >= 0 else "imported run"
        words = f"{which}, {plain(stage)}: {residual:.4g} away from {expected:.4g}"
        with canvas.group(words, "c-point " + ("c-now" if far else "c-lead")):
            canvas.mark("cross" if far else "circle", x(float(expected)), y(float(residual)), 3.2 if far else 2.4)


def _quantiles(canvas: Canvas, found: Residuals, left: float, right: float, top: float) -> None:
    bottom = top + HEIGHT
    canvas.text(left + 4, top - 16, "standardised residual", size=SMALL)
    if not len(found.observed):
        for i, line in enumerate(wrapped("too few runs for standardised residuals", right - left - 80)):
            canvas.text((left + right) / 2, top + 80 + 18 * i, line, "c-muted", "middle")
        return
    y = spanned([*found.observed.tolist(), *found.normal.tolist()], bottom, top)
    x = spanned(found.normal.tolist(), left + 48, right - 14)
    x_axis(canvas, x, top, bottom, "expected of a normal distribution")
    y_axis(canvas, y, x.begin, x.end)
    canvas.parts.append('<g class="c-ink">')
    canvas.line(x(x.low), y(x.low), x(x.high), y(x.high), "c-line c-dashed")
    canvas.parts.append("</g>")
    for normal, observed in zip(found.normal.tolist(), found.observed.tolist(), strict=True):
        far = abs(observed) > FAR
        with canvas.group(
            f"{observed:.3g} where {normal:.3g} is normal", "c-quantile " + ("c-now" if far else "c-lead")
        ):
            canvas.mark("cross" if far else "circle", x(normal), y(observed), 3.2 if far else 2.4)


def _residuals_facts(seen: Seen, found: Residuals) -> Facts:
    title = f"{clipped(seen.name, MAX_TITLE)}: what the fit leaves over"
    if not found.n_runs:
        return nothing_yet(title, "no outcome was told. Ask for runs and tell their outcomes.", seen)
    n = found.n_runs
    caption = f"Each outcome of {n:,} runs less what the sum of its levels' effects expects."
    if found.sd is None:
        caption += " There are too few runs yet to tell the noise from them."
    else:
        caption += f" Their sd is {found.sd:.3g}{_noise(found)}."
        caption += " None stands out." if not found.n_outliers else f" {found.n_outliers:,} stand out: check them."
    if len(found.residual) < n:
        caption += f" {len(found.residual)} are drawn, the largest among them."
    caption += " Good: an even band left, points along the line right or below."
    rows: list[tuple[str, ...]] = [("runs", f"{n}"), ("sd of the residuals", number(found.sd))]
    rows.append(("noise sd stated" if found.noise_known else "noise sd at most", number(found.noise_sd)))
    rows += [
        ("skewness (normal: 0)", number(found.skewness)),
        ("share beyond 3 sd (normal: 0.0027)", number(found.share_beyond_3)),
        ("correlation of one run with the next (normal: 0)", number(found.autocorrelation)),
        ("outliers", str(found.n_outliers)),
    ]
    alt = f"Residuals against what the fit expects, and against a normal distribution. {caption}"
    return Facts(title, caption, alt, ("what", "value"), rows)


def _noise(found: Residuals) -> str:
    if found.noise_sd is None or not math.isfinite(found.noise_sd):
        return ""
    return f", where a noise of {found.noise_sd:.3g} " + ("was stated" if found.noise_known else "is the upper bound")
