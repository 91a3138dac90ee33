"""What the charts say that check what a promise rests on: evidence for each factor, pairs of factors, residuals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from levers.charts.facts import TABLE_HAS_ALL, Facts, Row, doubt_note, listed, nothing_yet, number
from levers.charts.looks import Look
from levers.charts.svg import clipped, plain, short
from levers.charts.view import StudyView
from levers.core.model.checks.interactions import PairCheck
from levers.core.outcome_scale import AS_TOLD, OutcomeScale
from levers.studies.analysis.describe import chance, not_shown
from levers.studies.analysis.diagnostics import Additivity, Residuals
from levers.studies.analysis.doubts import checks
from levers.studies.analysis.views import FactorEvidence


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, a length (None when it is not known), its number as text, and words to show over it."""

    name: str
    value: float | None
    text: str
    words: str
    strong: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars below each other, with the looks of strong and weak ones, and a limit to pass (None for no such line).

    The axis goes to the longest bar, but to `least` at least and `most` at most.
    """

    bars: Sequence[Bar]
    strong: Look
    weak: Look
    legend: Sequence[Look]
    limit: float | None
    axis: str
    least: float
    most: float


MOST_FACTORS = 60
"""The most factors that are drawn."""


def evidence_facts(view: StudyView) -> Facts[Bars]:
    """A bar for each factor, strongest first: what its levels differ by over what it takes to be shown."""
    heading = "how strong the evidence is for each lever"
    found = sorted(view.evidence, key=_strength, reverse=True)
    n, proofs = len(found), bool([one for one in found if one.ratio is not None])
    if not proofs and not [one for one in found if one.t is not None]:
        why = "the outcomes so far do not tell levels apart. Ask for runs and tell their outcomes."
        return nothing_yet(heading, why, view)
    bars: list[Bar] = []
    rows: list[Row] = []
    scale = view.state.spec.outcome_scale
    for one in found:
        name, factor = plain(one.factor), short(one.factor)
        gain, needed = number(one.contrast, scale), number(one.radius, scale)
        pair = ("", "") if one.contrast is None else (plain(one.better), plain(one.worse))
        p_value = "not known" if one.p_value is None else f"{one.p_value:.3g}"
        numbers = (gain, needed, number(one.ratio), number(one.t), p_value)
        rows.append((name, *pair, *numbers, "yes" if one.shown else "no"))
        value = one.ratio if proofs else one.t
        if value is None or one.contrast is None:
            bars.append(Bar(name, None, "not known", f"{factor}: not known", one.shown))
            continue
        words = f"{factor}: {short(one.better)} gains {gain} over {short(one.worse)}"
        if scale.is_log:
            words = f"{factor}: {short(one.worse)} loses {gain} against {short(one.better)}"
        if one.radius is not None:
            words += f"; {needed} is needed, so it is {'shown' if one.shown else not_shown(one.p_value)}"
        elif one.p_value is not None:
            words += f"; {chance(one.p_value)} for itself"
        bars.append(Bar(name, value, "all" if math.isinf(value) else f"{value:.3g}", words, one.shown))
    shown = [short(one.factor) for one in found if one.shown]
    levers = f"{n} levers{', those tied together counted as one,' if n < view.state.spec.space.n_factors else ''}"
    if proofs:
        caption = f"{len(shown)} of {levers} are shown to matter, all statements together holding with probability "
        caption += f"{100 * (1 - view.state.spec.failure_prob):g} %. A lever is shown when its bar passes 1"
        # with max_parents a level that was dropped at an earlier look is proof enough
        caption += ", or did earlier." if [one for one in found if one.shown and (one.ratio or 0) < 1] else "."
    else:
        caption = f"The largest difference of each of {levers} in standard errors: it describes, and proves nothing."
    if n > MOST_FACTORS:
        caption += f" The strongest {MOST_FACTORS} of {n} levers are drawn."
    caption += doubt_note(view)
    strong = Look("shown to matter", "c-lead", "bar")
    weak = Look("not shown at this level" if proofs else "described, not shown", "c-play", "hatch")
    drawn = bars[:MOST_FACTORS]
    legend = [look for look in (strong, weak) if [bar for bar in drawn if bar.strong is (look is strong)]]
    if proofs:
        legend.append(Look("enough to be shown", "c-ink", "dashed"))
    axis = "gain over what it takes to be shown" if proofs else "gain in standard errors"
    strongest, matter = short(found[0].factor), [short(name) for name in view.shown_to_matter]
    alt = f"Bars of the evidence for {n} levers, strongest: {strongest}. Shown to matter: {listed(matter) or 'none'}."
    header: Row = ("lever", "better level", "worse level", "gain", "needed", "gain over needed", "standard errors")
    header += ("p, ordinary test", "shown")
    least, most = (1.4, 8.0) if proofs else (1.0, 40.0)
    data = Bars(drawn, strong, weak, legend, 1.0 if proofs else None, axis, least, most)
    in_table = TABLE_HAS_ALL if n > MOST_FACTORS else ""
    return Facts(view.title, heading, caption, alt, header, rows, data, in_table=in_table)


def _strength(one: FactorEvidence) -> tuple[float, float]:
    return (-1.0 if one.ratio is None else one.ratio, -1.0 if one.t is None else one.t)


MOST_PAIRS, MOST_PAIR_ROWS = 12, 500
"""The most pairs that are drawn and listed."""


def additivity_facts(view: StudyView) -> Facts[Bars]:
    """A bar for each of the most suspicious pairs: how many zeros its adjusted p-value has.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> "a single lever" in additivity_facts(StudyView("oven", study.state)).alt
    True
    """
    heading, found = "do levers act together?", view.additivity
    if not found.checks:
        return nothing_yet(heading, f"{plain(found.reason or found.summary)}. {_advice(view)}", view)
    n = len(found.checks)
    caption = clipped(found.summary, 900)
    caption = caption[:1].upper() + caption[1:] + "."
    in_table = ""
    if n > MOST_PAIRS:
        caption += f" The {MOST_PAIRS} most suspicious of {n:,} pairs are drawn."
        in_table = f"The table has {MOST_PAIR_ROWS}." if n > MOST_PAIR_ROWS else TABLE_HAS_ALL
    if [check for check in found.checks if check.adjusted < found.level and not _is_suspected(found, check)]:
        caption += " A pair beyond the line that is not suspected is an echo of one that is."
    first = sorted(found.checks, key=lambda check: not _is_suspected(found, check))[:MOST_PAIRS]
    alarm = -math.log10(found.level)  # at this look: the levels of all looks together add up to ALARM
    strong, weak = Look("suspected", "c-now", "bar"), Look("not suspected", "c-gone", "hatch")
    line = Look(f"alarm: p below {found.level:.2g}", "c-ink", "dashed")
    legend = [*([strong] if found.suspects else []), weak, line]
    bars = [_pair_bar(found, check) for check in first]
    alt = f"Bars of how suspicious {min(n, MOST_PAIRS)} pairs of levers are. {caption}"
    header = ("lever", "and lever", "degrees of freedom", "statistic", "p", "p, adjusted for all pairs", "suspected")
    rows = [_pair_cells(found, check) for check in found.checks[:MOST_PAIR_ROWS]]
    data = Bars(bars, strong, weak, legend, alarm, "zeros of the adjusted p-value", 1.2 * alarm, max(12.0, 1.2 * alarm))
    return Facts(view.title, heading, caption, alt, header, rows, data, in_table=in_table)


def _pair_bar(found: Additivity, check: PairCheck) -> Bar:
    names = f"{short(found.names[check.first], 40)} and {short(found.names[check.second], 40)}"
    words = f"{names}: p = {check.adjusted:.2g} adjusted for all pairs"
    value = -math.log10(max(check.adjusted, 1e-300))
    return Bar(names, value, f"p {check.adjusted:.1g}", words, _is_suspected(found, check))


def _is_suspected(found: Additivity, check: PairCheck) -> bool:
    """Whether a pair is among the suspects: of these all but the first were tested with others allowed for."""
    return (check.first, check.second) in {(pair.first, pair.second) for pair in found.suspects}


def _pair_cells(found: Additivity, check: PairCheck) -> Row:
    names = (plain(found.names[check.first]), plain(found.names[check.second]))
    numbers = (number(check.statistic), f"{check.p_value:.3g}", f"{check.adjusted:.3g}")
    return (*names, str(check.dof), *numbers, "yes" if _is_suspected(found, check) else "no")


def _advice(view: StudyView) -> str:
    if len(view.state.fitted) < 2:
        return "The certificate needs no such check here."
    if view.is_finished:
        return "The study has ended: a new one with more runs could tell."
    return "Ask for runs and tell their outcomes."


@dataclass(frozen=True, slots=True)
class Leftover:
    """Residuals, with a line for each point of the two drawings: against the fit, and against a normal distribution."""

    residuals: Residuals
    words: Sequence[str]
    quantile_words: Sequence[str]
    scale: OutcomeScale = AS_TOLD

    @property
    def axis(self) -> str:
        """What residuals are, in words."""
        return _residual_words(self.scale)


@dataclass(frozen=True, eq=False)
class InOrder:
    """Residuals by trial, a line of words for each, which of them stand out, and the first trials of all days but one.

    `noise_sd` is what the study reckons with, None where it does not know.
    """

    trials: Sequence[int]
    residual: Sequence[float]
    standardised: Sequence[float]
    words: Sequence[str]
    outliers: frozenset[int]
    days: Sequence[int]
    noise_sd: float | None
    axis: str


def _residual_words(scale: OutcomeScale) -> str:
    if scale.is_log:
        return "logarithm of outcome over expected (0.1 is about 10 %)"
    return "outcome less what was expected"


def _outliers(found: Residuals) -> list[int]:
    """The trials whose residuals are too large, the largest first; -1 is an imported run."""
    known = [(abs(size), trial) for size, trial in zip(found.standardised, found.trial.tolist(), strict=True)]
    largest = sorted([one for one in known if not math.isnan(one[0])], reverse=True)
    return [trial for _, trial in largest[: found.n_outliers]]


def _standing_out(found: Residuals) -> str:
    """The same in words."""
    if not found.n_outliers:
        return "None stands out."
    named = listed([_trial_words(trial) for trial in _outliers(found)])
    return f"{named} {'stands' if found.n_outliers == 1 else 'stand'} out: check what happened there."


def _trial_words(trial: int) -> str:
    return f"trial {trial}" if trial >= 0 else "imported run"


def _residual_lines(found: Residuals, scale: OutcomeScale) -> list[str]:
    """A line of words for each residual."""
    each = zip(found.trial.tolist(), found.residual, found.fitted, strict=True)
    return [f"{_trial_words(trial)}: {_away(residual, scale)} {expected:.4g}" for trial, residual, expected in each]


def in_order_facts(view: StudyView) -> Facts[InOrder]:
    """The same residuals in the order in which runs were handed out: drift, bad days, and what stands out.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> study.tell_many((trial, float(trial.number % 3)) for trial in study.ask(6))
    6
    >>> in_order_facts(StudyView("oven", study.state)).rows[0]
    ('0', '1', '-1', '-1.22474', 'no')
    """
    heading, found = "residuals in the order of runs", view.residuals
    own = [i for i, trial in enumerate(found.trial.tolist()) if trial >= 0]
    own.sort(key=lambda i: int(found.trial[i]))
    if not own:
        return nothing_yet(heading, "no outcome was told. Ask for runs and tell their outcomes.", view)
    scale, size = view.state.spec.outcome_scale, view.state.spec.block_size
    trials, outliers, lines = found.trial[own], frozenset(_outliers(found)), _residual_lines(found, scale)
    groups, by = view.state.block_numbers(trials), "round" if size is None else "day"
    caption = f"What each of {len(own):,} runs leaves over, by its trial"
    caption += "; dotted lines divide days." if size is not None else "."
    if len(found.residual) < found.n_runs:
        caption += " More were made; the largest are among those drawn."
    caption += f" {_standing_out(found)}" if found.sd is not None else ""
    caption += " Good: an even band, with no slope, no steps and no bow."
    rows = [
        (str(trial), str(group), number(found.residual[i]), _size(found.standardised[i]), _yes(trial in outliers))
        for i, trial, group in zip(own, trials.tolist(), groups.tolist(), strict=True)
    ]
    header = ("trial", by, "residual", "in standard deviations", "stands out")
    days = [] if size is None else list(range((int(trials[0]) // size + 1) * size, int(trials[-1]) + 1, size))
    data = InOrder(
        trials.tolist(),
        found.residual[own].tolist(),
        found.standardised[own].tolist(),
        [f"{lines[i]}, {by} {group}" for i, group in zip(own, groups.tolist(), strict=True)],
        outliers,
        days,
        found.noise_sd,
        _residual_words(scale),
    )
    return Facts(view.title, heading, caption, f"Residuals by trial. {caption}", header, rows, data)


def _size(standardised: float) -> str:
    return "not known" if math.isnan(standardised) else number(standardised)


def _yes(so: bool) -> str:
    return "yes" if so else "no"


def residuals_facts(view: StudyView) -> Facts[Leftover]:
    """What the fit that chose the setting leaves over."""
    heading, found = "what the fit leaves over", view.residuals
    n = found.n_runs
    if not n:
        return nothing_yet(heading, "no outcome was told. Ask for runs and tell their outcomes.", view)
    expects = (
        "all other runs, with pairs of levers, expect of it"
        if found.together
        else "the sum of its levels' effects expects"
    )
    scale = view.state.spec.outcome_scale
    caption = f"Each outcome of {n:,} runs less what {expects}."
    caption += " On a log scale: differences of logarithms, of which 0.1 is about 10 %." if scale.is_log else ""
    if found.sd is None:
        caption += " There are too few runs yet to tell the noise from them."
    else:
        caption += f" Their sd is {scale.said(found.sd, '.3g')}{_noise(found, scale)}."
        caption += f" {_standing_out(found)}"
    if len(found.residual) < n:
        caption += f" {len(found.residual)} are drawn, the largest among them."
    caption += " Good: an even band left, points along the line right or below."
    words = _residual_lines(found, scale)
    quantiles = [
        f"{observed:.3g} where {normal:.3g} is normal"
        for normal, observed in zip(found.normal, found.observed, strict=True)
    ]
    rows = [
        ("runs", f"{n}"),
        ("sd of the residuals", number(found.sd, scale)),
        ("noise sd stated" if found.noise_known else "noise sd reckoned with", number(found.noise_sd, scale)),
        ("skewness (normal: 0)", number(found.skewness)),
        ("share beyond 3 sd (normal: 0.0027)", number(found.share_beyond_3)),
        ("correlation of one run with the next (normal: 0)", number(found.autocorrelation)),
        ("outliers", str(found.n_outliers)),
    ]
    alt = f"Residuals against what the fit expects, and against a normal distribution. {caption}"
    return Facts(view.title, heading, caption, alt, ("what", "value"), rows, Leftover(found, words, quantiles, scale))


def _away(residual: float, scale: OutcomeScale) -> str:
    """How far an outcome is from what was expected of it.

    >>> _away(-0.5, OutcomeScale()), _away(math.log(0.8), OutcomeScale("log"))
    ('-0.5 away from', '20 % below')
    """
    if not scale.is_log:
        return f"{residual:.4g} away from"
    ratio = scale.told(residual)
    return f"{scale.said(abs(ratio - 1), '.3g')} {'below' if ratio < 1 else 'above'}"


def _noise(found: Residuals, scale: OutcomeScale) -> str:
    if found.noise_sd is None or not math.isfinite(found.noise_sd):
        return ""
    return f", where a noise of {scale.said(found.noise_sd, '.3g')} " + (
        "was stated" if found.noise_known else "is reckoned with"
    )


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check in the table: its name, how likely such outcomes are if nothing is wrong, and below what it alarms."""

    kind: str
    p_value: float
    level: float
    alarms: bool
    text: str


NAMES = {
    "noise": "stated noise",
    "outlier": "outcomes that do not belong",
    "spread": "spread alike everywhere",
    "drift": "no drift",
    "serial": "runs do not follow the ones before",
    "set-up": "setting a lever that is hard to change adds no error",
    "shape": "shape of the noise",
    "max_parents": "number of levers that matter",
    "min_effect": "least effect",
    "nonadditivity": "effects add up on this scale",
    "pairs": "no pair of levers acts together",
    "lack of fit": "effects add up, by settings run again",
}
"""What each check is about, for people."""


def check_rows(view: StudyView) -> list[CheckRow]:
    """Every check of the runs so far, alarms first."""
    found = [
        CheckRow(NAMES.get(one.check.kind, one.check.kind), one.check.p_value, one.level, one.alarms, one.remark.text)
        for one in checks(view.state)
    ]
    added = view.additivity
    pairs = min((pair.adjusted for pair in added.checks), default=None)
    for kind, p_value in (("pairs", pairs), ("lack of fit", None if added.lack is None else added.lack.p_value)):
        if p_value is not None:
            alarms = p_value < added.level and not added.together
            found.append(CheckRow(NAMES[kind], p_value, added.level, alarms, ""))
    return sorted(found, key=lambda row: not row.alarms)
