"""What the fresh runs of a study say of its verdict. The statistics are in `core/model/confirmation.py`."""

from dataclasses import replace

import numpy as np

from levers.algorithms.base import Remark
from levers.core.model.confirmation import (
    CONFIRMED,
    GAIN,
    IN_DOUBT,
    MEASURED,
    OUTCOME,
    UNDECIDED,
    Confirmation,
    Estimated,
    difference_of,
    expected_mean,
    level_at,
    mean_of,
    overestimates,
    pooled_noise,
)
from levers.core.space import FREE
from levers.studies.analysis.describe import several
from levers.studies.analysis.estimates import Estimates
from levers.studies.events import Values
from levers.studies.state import APART, CONFIRMATION, CONFIRMING, StudyState
from levers.studies.transitions import ending

KIND = "confirmation"
"""The kind of the doubt."""
_SEED = 0
"""Where draws begin: the same runs always give the same answer."""


def confirmation(state: StudyState, estimates: Estimates | None = None) -> Confirmation | None:
    """What fresh runs say of the verdict, from confirmations that are over; None where nobody asked for any.

    Runs count that were made at the verdict's setting and at the baseline: if a correction has changed the setting
    since, earlier fresh runs say nothing of it. `estimates` are those of the state, if they are at hand.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=0.1, seed=1)
    >>> _ = study.optimize(lambda params: 2.0 * (params["heat"] == "high"))
    >>> study.confirm(3)
    >>> confirmation(study.state).answer
    'undecided'
    >>> _ = study.optimize(lambda params: 1.0)
    >>> found = confirmation(study.state)
    >>> found.answer, found.measured.value, found.predicted.value, found.p_value < 0.001
    ('in doubt', 1.0, 2.0, True)
    """
    blocks = [block for block in state.blocks if block.role in (CONFIRMING, CONFIRMATION)]
    if not blocks or state.open_block is not None:
        return None
    spec, setting = state.spec, ending(state).assignment.codes
    baseline = None if spec.inner_baseline is None else tuple(spec.inner_baseline)
    fresh, others = runs_at(state, setting), np.zeros(0)
    if baseline is not None and baseline != setting:
        others = runs_at(state, baseline)
    estimates = estimates or Estimates.of(state)
    predicted, gain = estimates.prediction(setting), None
    if baseline is not None and baseline != setting and FREE not in setting:
        gain = estimates.gain(setting, baseline)
    made = Confirmation(
        UNDECIDED,
        n_runs=len(fresh),
        measured=mean_of(fresh) if len(fresh) else None,
        predicted=None if predicted is None else Estimated(*predicted),
        n_baseline=len(others),
        baseline=mean_of(others) if len(others) else None,
        gain=difference_of(fresh, others, spec.sign) if len(fresh) and len(others) else None,
        predicted_gain=None if gain is None or gain.estimate is None else Estimated(gain.estimate, gain.low, gain.high),
        look=n_looks(state),
        n_awaited=sum(block.n_missing for block in blocks if block.role == CONFIRMING),
    )
    return _compared(made, estimates, setting, baseline, fresh, others) if len(fresh) else made


def _compared(
    made: Confirmation,
    estimates: Estimates,
    setting: tuple[int, ...],
    baseline: tuple[int, ...] | None,
    fresh: Values,
    others: Values,
) -> Confirmation:
    """The answer: what was measured against what was predicted."""
    against = baseline if len(others) and made.predicted_gain is not None else None
    found = estimates.least_squares(setting, against)
    if found is None or estimates.fitted is None or made.predicted is None:
        return replace(made, answer=MEASURED)
    fit, sign = estimates.fitted.fit, estimates.sign
    noise = pooled_noise(fit, estimates.noise_sd, [fresh, others])
    if noise is None:
        return replace(made, answer=MEASURED)
    usual, variance = found
    measured, runs = sign * float(fresh.mean()), 1 / len(fresh)
    if against is not None:
        measured, runs = measured - sign * float(others.mean()), runs + 1 / len(others)
    rng = np.random.default_rng(_SEED)
    too_good = overestimates(fit, estimates.choices.places, setting, against, runs, noise, rng)
    level = level_at(made.look)
    expected = expected_mean(usual, measured, variance + runs, too_good, noise, level)
    ends = (expected.low, expected.high)
    low, high = ends if against is not None else sorted(sign * end for end in ends)
    return replace(
        made,
        answer=IN_DOUBT if expected.p_value < level else CONFIRMED,
        compared=OUTCOME if against is None else GAIN,
        expected_low=low,
        expected_high=high,
        p_value=expected.p_value,
        level=level,
        notices=expected.notices,
    )


def runs_at(state: StudyState, setting: tuple[int, ...]) -> Values:
    """The fresh outcomes at a setting, of confirmations that are over, in the order of their rows."""
    found = [np.zeros(0)]
    for block in state.blocks:
        if block.role == CONFIRMATION:
            values = block.values[(block.batch.codes == np.array(setting)).all(axis=1)]
            found.append(values[~np.isnan(values)])
    return np.concatenate(found)


def n_looks(state: StudyState) -> int:
    """How often fresh runs have been compared with a verdict: at each confirmation, and at each later round's end."""
    over = [i for i, block in enumerate(state.blocks) if block.role == CONFIRMATION and len(block.told_order)]
    if not over:
        return 0
    return len(over) + sum(block.role not in APART for block in state.blocks[over[0] :])


def confirmation_doubt(state: StudyState) -> Remark | None:
    """The doubt that fresh runs raise; None where they raise none."""
    found = confirmation(state)
    if found is None or found.answer != IN_DOUBT:
        return None
    return Remark(KIND, doubt_words(found), p_value=found.p_value)


def doubt_words(found: Confirmation) -> str:
    """What fresh runs contradict, and what to do.

    >>> made = Confirmation("in doubt", 12, Estimated(5.0, 4.0, 6.0), Estimated(8.0, 7.0, 9.0), compared="outcome")
    >>> doubt_words(replace(made, expected_low=6.5, expected_high=9.5, p_value=0.001))[:80]
    '12 fresh runs at the setting gave a mean of 5 where 8 was predicted, and 6.5 to '
    """
    measured, predicted, what = found.measured, found.predicted, "a mean of"
    if found.compared == GAIN:
        measured, predicted, what = found.gain, found.predicted_gain, "a gain over the baseline of"
    assert measured is not None  # else nothing was compared, and so with the others
    assert predicted is not None
    assert found.p_value is not None
    where = f"{found.expected_low:.4g} to {found.expected_high:.4g}"
    return (
        f"{found.n_runs} fresh runs at the setting gave {what} {measured.value:.4g} where {predicted.value:.4g} was "
        f"predicted, and {where} was to be expected ({_chance(found.p_value)}): levers may act together, or something "
        "else has changed since; go by the fresh runs, look at the checks, merge levers or go on"
    )


def confirmation_words(found: Confirmation) -> list[str]:
    """What fresh runs say, a sentence each, without a full stop; the answer comes first.

    >>> gain = Estimated(3.1, 1.2, 5.0)
    >>> made = Confirmation("measured", 12, Estimated(8.0, 7.0, 9.0), n_baseline=12, gain=gain, look=1)
    >>> for line in confirmation_words(made):
    ...     print(line)
    measured only, since nothing was predicted: 12 fresh runs at the setting gave a mean of 8, 95 % between 7 and 9
    12 fresh runs at each: a gain over the baseline of 3.1, 95 % between 1.2 and 5, no model needed
    """
    lines = []
    awaited = several(found.n_awaited, "fresh run is", "fresh runs are")
    if found.measured is None:
        why = f"{awaited} awaited" if found.n_awaited else "there are no fresh runs at this setting"
        return [f"not confirmed yet: {why}"]
    decides = found.p_value is not None and found.level is not None
    chance = f", {_chance(found.p_value)}" if found.p_value is not None else ""
    expected = f" ({found.expected_low:.4g} to {found.expected_high:.4g} was to be expected{chance})" if decides else ""
    start = {CONFIRMED: "confirmed", IN_DOUBT: "in doubt"}.get(
        found.answer, "measured only, since nothing was predicted"
    )
    runs = several(found.n_runs, "fresh run", "fresh runs")
    predicted = "" if found.predicted is None else f"; {found.predicted.value:.4g} was predicted"
    own = expected if found.compared == OUTCOME else ""
    lines.append(f"{start}: {runs} at the setting gave a mean of {_span(found.measured)}{predicted}{own}")
    if found.gain is not None:
        each = " at each" if found.n_runs == found.n_baseline else f", and {found.n_baseline} at the baseline"
        own = expected if found.compared == GAIN else ""
        predicted = "" if found.predicted_gain is None else f"; {found.predicted_gain.value + 0.0:.4g} was predicted"
        lines.append(f"{runs}{each}: a gain over the baseline of {_span(found.gain)}, no model needed{predicted}{own}")
    if found.notices is not None:
        lines.append(f"a prediction too good by {found.notices:.3g} or more would be noticed in 8 of 10 cases")
    if found.look > 1 and found.level is not None:
        lines.append(f"look {found.look} at fresh runs: the level is {found.level:.2g}, so that all looks share 5 %")
    if found.n_awaited:
        lines.append(f"{awaited} awaited, and not counted yet")
    return lines


def _span(found: Estimated) -> str:
    value = f"{found.value + 0.0:.4g}"
    if found.low is None or found.high is None:
        return value
    return f"{value}, 95 % between {found.low + 0.0:.4g} and {found.high + 0.0:.4g}"


def _chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
