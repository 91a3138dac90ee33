"""What the additive fit leaves over: against what it expects, and against a normal distribution."""

import math

from levers.studies.diagnostics import Residuals
from levers.studies.fold import StudyState
from levers.studies.plots.facts import Facts, Seen, nothing_yet
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain
from levers.web.charts.axes import legend, placeholder, wrapped, x_axis, y_axis
from levers.web.charts.canvas import Canvas
from levers.web.charts.chart import NARROW, WIDE, Chart
from levers.web.charts.scales import spanned
from levers.web.charts.text import SMALL

KEY = "residuals"
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
    facts = _facts(seen, found)
    if facts.nothing is not None:
        return placeholder(KEY, width, facts)
    canvas = Canvas(KEY, width)
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


def _facts(seen: Seen, found: Residuals) -> Facts:
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
