"""What the fresh runs of a study say of its verdict. The statistics are in `core/model/confirmation.py`."""

from collections.abc import Callable
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
from levers.core.outcome_scale import EVERY_SCALE, OutcomeScale
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
    >>> found.answer, found.measured.value, round(found.predicted.value, 1), found.p_value < 0.001
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
    scale = spec.outcome_scale
    made = Confirmation(
        UNDECIDED,
        n_runs=len(fresh),
        measured=_told(scale, mean_of(scale.additive(fresh))) if len(fresh) else None,
        predicted=None if predicted is None else Estimated(*predicted),
        n_baseline=len(others),
        baseline=_told(scale, mean_of(scale.additive(others))) if len(others) else None,
        gain=_gained(scale, fresh, others) if len(fresh) and len(others) else None,
        predicted_gain=None if gain is None or gain.estimate is None else Estimated(gain.estimate, gain.low, gain.high),
        look=n_looks(state),
        n_awaited=sum(block.n_missing for block in blocks if block.role == CONFIRMING),
        scale=scale.name,
    )
    return _compared(made, estimates, setting, baseline, fresh, others) if len(fresh) else made


def _told(scale: OutcomeScale, found: Estimated) -> Estimated:
    """A mean of additive numbers as an outcome; on a log scale the typical one."""
    low, high = (None if end is None else scale.told(end) for end in (found.low, found.high))
    return Estimated(scale.told(found.value), low, high)


def _gained(scale: OutcomeScale, fresh: Values, others: Values) -> Estimated:
    found = difference_of(scale.additive(fresh), scale.additive(others), scale.sign)
    return Estimated(scale.gain(found.value), scale.gain(found.low), scale.gain(found.high))


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
    fit, scale = estimates.fitted.fit, estimates.scale
    fresh, others = scale.inward(fresh), scale.inward(others)
    noise = pooled_noise(fit, estimates.noise_sd, [fresh, others])
    if noise is None:
        return replace(made, answer=MEASURED)
    usual, variance = found
    measured, runs = float(fresh.mean()), 1 / len(fresh)
    if against is not None:
        measured, runs = measured - float(others.mean()), runs + 1 / len(others)
    rng = np.random.default_rng(_SEED)
    too_good = overestimates(fit, estimates.choices.places, setting, against, runs, noise, rng)
    level = level_at(made.look)
    expected = expected_mean(usual, measured, variance + runs, too_good, noise, level)
    ends = (expected.low, expected.high)
    low, high = map(scale.gain, ends) if against is not None else sorted(map(scale.outward, ends))
    return replace(
        made,
        answer=IN_DOUBT if expected.p_value < level else CONFIRMED,
        compared=OUTCOME if against is None else GAIN,
        expected_low=low,
        expected_high=high,
        p_value=expected.p_value,
        level=level,
        notices=scale.loss(expected.notices),
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
    """How often fresh runs have been compared with a verdict: at each confirmation, and at each later round's end.

    A round that was given up without an outcome leaves nothing new to compare.
    """
    told = [block for block in state.blocks if len(block.told_order)]
    over = [i for i, block in enumerate(told) if block.role == CONFIRMATION]
    if not over:
        return 0
    return len(over) + sum(block.role not in APART for block in told[over[0] :])


def has_empty_rounds(state: StudyState) -> bool:
    """Whether a round was given up without an outcome: up to edition 3 of the rules it counted as a look."""
    return any(block.role not in APART and not len(block.told_order) for block in state.blocks)


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
    measured, predicted, what = found.measured, found.predicted, _mean_words(found)
    say: Callable[[float], str] = _number
    if found.compared == GAIN:
        measured, predicted, what = found.gain, found.predicted_gain, "a gain over the baseline of"
        say = EVERY_SCALE[found.scale].said
    assert measured is not None  # else nothing was compared, and so with the others
    assert predicted is not None
    assert found.p_value is not None
    assert found.expected_low is not None
    assert found.expected_high is not None
    where = f"{say(found.expected_low)} to {say(found.expected_high)}"
    return (
        f"{found.n_runs} fresh runs at the setting gave {what} {say(measured.value)} where {say(predicted.value)} was "
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
    lines, amount = [], EVERY_SCALE[found.scale].said
    awaited = several(found.n_awaited, "fresh run is", "fresh runs are")
    if found.measured is None:
        why = f"{awaited} awaited" if found.n_awaited else "there are no fresh runs at this setting"
        return [f"not confirmed yet: {why}"]
    chance = f", {_chance(found.p_value)}" if found.p_value is not None else ""
    expected = ""
    if found.expected_low is not None and found.expected_high is not None:
        say = amount if found.compared == GAIN else _number
        expected = f" ({say(found.expected_low)} to {say(found.expected_high)} was to be expected{chance})"
    start = {CONFIRMED: "confirmed", IN_DOUBT: "in doubt"}.get(
        found.answer, "measured only, since nothing was predicted"
    )
    runs = several(found.n_runs, "fresh run", "fresh runs")
    predicted = "" if found.predicted is None else f"; {found.predicted.value:.4g} was predicted"
    own = expected if found.compared == OUTCOME else ""
    measured = _span(found.measured, _number)
    lines.append(f"{start}: {runs} at the setting gave {_mean_words(found)} {measured}{predicted}{own}")
    if found.gain is not None:
        each = " at each" if found.n_runs == found.n_baseline else f", and {found.n_baseline} at the baseline"
        own = expected if found.compared == GAIN else ""
        predicted = "" if found.predicted_gain is None else f"; {amount(found.predicted_gain.value)} was predicted"
        gain = _span(found.gain, amount)
        lines.append(f"{runs}{each}: a gain over the baseline of {gain}, no model needed{predicted}{own}")
    if found.notices is not None:
        too_good = amount(found.notices, ".3g")
        lines.append(f"a prediction too good by {too_good} or more would be noticed in 8 of 10 cases")
    if found.look > 1 and found.level is not None:
        lines.append(f"look {found.look} at fresh runs: the level is {found.level:.2g}, so that all looks share 5 %")
    if found.n_awaited:
        lines.append(f"{awaited} awaited, and not counted yet")
    return lines


def _mean_words(found: Confirmation) -> str:
    return "a typical outcome (median) of" if EVERY_SCALE[found.scale].is_log else "a mean of"


def _number(value: float) -> str:
    return f"{value + 0.0:.4g}"


def _span(found: Estimated, say: Callable[[float], str]) -> str:
    value = say(found.value)
    if found.low is None or found.high is None:
        return value
    return f"{value}, 95 % between {say(found.low)} and {say(found.high)}"


def _chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
