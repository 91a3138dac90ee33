"""What fresh runs say of a verdict, as a small picture: where their mean should lie, and where it does."""

from collections.abc import Sequence
from dataclasses import dataclass

from levers.charts.facts import Facts, Row, drawn_amount, nothing_yet, number
from levers.charts.looks import Look
from levers.charts.svg import SMALL, Canvas, spanned
from levers.charts.view import StudyView
from levers.core.model.confirmation import GAIN, IN_DOUBT, Confirmation, Estimated
from levers.core.outcome_scale import EVERY_SCALE, OutcomeScale
from levers.studies.analysis.confirmation import confirmation_words
from levers.studies.analysis.describe import expected_words

EXPECTED, PREDICTED = Look("to be expected of fresh runs", "c-lead", "band"), Look("predicted", "c-lead", "diamond")
BORNE_OUT = Look("mean of the fresh runs, 95 %", "c-now", "line dot")
NOT_BORNE_OUT = Look("mean of the fresh runs, 95 %: in doubt", "c-aside", "line cross")
_HEIGHT = 54.0
_MARKS = {"c-now": "dot", "c-aside": "cross"}


@dataclass(frozen=True, slots=True)
class Compared:
    """What is drawn: the number measured, the number predicted, and the interval in which the first should lie."""

    what: str
    measured: Estimated
    predicted: Estimated | None
    expected: tuple[float, float] | None
    in_doubt: bool
    is_gain: bool
    words: tuple[str, ...]


def confirmation_facts(view: StudyView) -> Facts[Compared]:
    """Facts about the confirmation; without data where nobody asked for one, or no fresh run is complete.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> confirmation_facts(StudyView("oven", study.state)).alt
    'There is nothing to show yet: nobody has asked for fresh runs to confirm a verdict.'
    """
    found = None if view.verdict is None else view.verdict.confirmation
    heading, header = "what fresh runs at the setting gave", ("", "runs", "value", "low", "high")
    if found is None:
        return nothing_yet(heading, "nobody has asked for fresh runs to confirm a verdict.", view)
    said = [f"{line[:1].upper()}{line[1:]}." for line in confirmation_words(found)]
    if found.measured is None:
        return nothing_yet(heading, confirmation_words(found)[0] + ".", view)
    scale, is_gain = EVERY_SCALE[found.scale], found.compared == GAIN
    measured, predicted, what = found.measured, found.predicted, f"{expected_words(scale)} at the setting"
    low, high = found.expected_low, found.expected_high
    if is_gain and found.gain is not None:
        what = f"gain over the baseline{' in percent' if scale.is_log else ''}"
        measured = _drawn(scale, found.gain)
        predicted = None if found.predicted_gain is None else _drawn(scale, found.predicted_gain)
        low, high = drawn_amount(scale, low), drawn_amount(scale, high)
    span = None if low is None or high is None else (low, high)
    data = Compared(what, measured, predicted, span, found.answer == IN_DOUBT, is_gain, tuple(said))
    caption = "Fresh runs were made after the setting was chosen, and no fit has them."
    return Facts(view.title, heading, caption, " ".join(said), header, _rows(found), data)


def _drawn(scale: OutcomeScale, found: Estimated) -> Estimated:
    value, low, high = (drawn_amount(scale, one) for one in (found.value, found.low, found.high))
    return Estimated(value or 0.0, low, high)


def _rows(found: Confirmation) -> Sequence[Row]:
    amounts, outcomes = EVERY_SCALE[found.scale], OutcomeScale()

    def row(what: str, n_runs: str, one: Estimated | None, on: OutcomeScale = outcomes) -> Row | None:
        if one is None:
            return None
        return (what, n_runs, number(one.value, on), number(one.low, on), number(one.high, on))

    span: Row | None = None
    if found.expected_low is not None:
        on = amounts if found.compared == GAIN else outcomes
        ends = (number(found.expected_low, on), number(found.expected_high, on))
        span = (f"{found.compared} to be expected", "", "", *ends)
    mean = "median" if amounts.is_log else "mean"
    rows = (
        row(f"{mean} at the setting", str(found.n_runs), found.measured),
        row("predicted there", "", found.predicted),
        row(f"{mean} at the baseline", str(found.n_baseline), found.baseline),
        row("gain over the baseline", "", found.gain, amounts),
        row("gain predicted", "", found.predicted_gain, amounts),
        span,
    )
    return [one for one in rows if one is not None]


def draw_confirmation(canvas: Canvas, data: Compared) -> None:
    """A band where the mean should lie, with the prediction, and below it the mean of the fresh runs."""
    look = NOT_BORNE_OUT if data.in_doubt else BORNE_OUT
    top = canvas.legend([EXPECTED, PREDICTED, look] if data.expected else [look]) + 10
    middle, bottom, right = top + _HEIGHT / 2, top + _HEIGHT, canvas.width - 14.0
    ends = [one for one in (data.measured.low, data.measured.high) if one is not None]
    values = [data.measured.value, *ends, *(data.expected or ()), *([0.0] if data.is_gain else [])]
    x = spanned([*values, *([] if data.predicted is None else [data.predicted.value])], 14.0, right)
    canvas.x_axis(x, top, bottom, data.what)
    if data.is_gain:
        with canvas.coloured("c-ink"):
            canvas.line(x(0), top, x(0), bottom, "c-line c-dashed")
    if data.expected is not None:
        low, high = data.expected
        with canvas.group(f"to be expected: {number(low)} to {number(high)}", "c-lead"):
            canvas.rect(x(low), top + 8, x(high) - x(low), middle - top - 10, "c-soft")
            if data.predicted is not None:
                canvas.mark("diamond", x(data.predicted.value), (top + middle) / 2 + 3)
    with canvas.group(data.words[0], look.css):
        if data.measured.low is not None and data.measured.high is not None:
            canvas.interval(x, data.measured.low, data.measured.high, middle + 12)
        canvas.mark(_MARKS[look.css], x(data.measured.value), middle + 12)
    answer = "in doubt" if data.in_doubt else "confirmed" if data.expected else "measured only"
    canvas.text(right, bottom + 44, answer, "c-text", "end", SMALL)
    canvas.height = bottom + 54
