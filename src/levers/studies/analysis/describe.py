"""What happened in a study, in words."""

from datetime import UTC, datetime

from levers.algorithms.base import Verdict, within_words
from levers.core.model.confirmation import CONFIRMED, IN_DOUBT, MEASURED, UNDECIDED
from levers.core.outcome_scale import AS_TOLD, OutcomeScale
from levers.core.space import Assignment, Level
from levers.studies import events
from levers.studies.analysis.estimates import Gain
from levers.studies.events import Event, Numbers
from levers.studies.sheets.cells import level_text
from levers.studies.spec import LEAVE_ALONE

BLOCK = "block"
"""The stage of algorithms that have only one. It tells people nothing, since all runs come in rounds."""
_SELECTION = "selection"
_MATTERS = 0.05
"""The p-value of a lever's ordinary test below which nobody should be told that it may be left alone."""


def words(event: Event) -> str:
    """What happened, in a few words.

    >>> words(events.Corrected(3, 1.5, 2.5, "typo"))
    'corrected trial 3: 1.5 -> 2.5 (typo)'
    """
    match event:
        case events.Created():
            spec = event.spec
            on = ", on a log scale" if spec.outcome_scale.is_log else ""
            levers = several(spec.space.n_factors, "lever", "levers")
            return f"created: {levers}, {spec.goal} with {spec.algorithm}{on}"
        case events.Decided():
            return "decided"
        case events.Opened():
            n_runs, stage = several(event.batch.n_runs, "run", "runs"), event.batch.stage
            return f"designed a round of {n_runs}" + ("" if stage == BLOCK else f" ({stage})")
        case events.Asked():
            until = "" if event.deadline is None else f" until {when(event.deadline)}"
            return f"asked {_trials(event.trials)} for {event.worker}{until}"
        case events.Renewed():
            return f"renewed {_trials(event.trials)} until {when(event.deadline)}"
        case events.Told():
            if len(event.trials) == 1:
                return f"told {_trials(event.trials)}: {event.values[0]:g}"
            return f"told {len(event.trials)} outcomes"
        case events.Failed():
            return f"{_trials(event.trials)} failed{_because(event.reason)}"
        case events.Expired():
            return f"the deadline of {_trials(event.trials)} passed"
        case events.Corrected():
            levels = "" if event.observed is None else ", and what a lever took that was left alone"
            return f"corrected trial {event.trial}: {event.before:g} -> {event.value:g}{levels}{_because(event.reason)}"
        case events.Revised():
            changes = "; ".join(event.changes) or "no decision changes"
            return f"decided again from round {event.first + 1} on: {changes}"
        case events.Excluded():
            return f"excluded trial {event.trial}: {event.before:g} does not count{_because(event.reason)}"
        case events.Checked():
            found = "; ".join(doubt.text for doubt in event.doubts)
            return f"in doubt: {found}" if found else f"checked {several(event.n_runs, 'run', 'runs')}: no doubt"
        case events.Finished():
            return f"finished{_because(event.reason)}"
        case events.Continued():
            return f"went on after the end{_because(event.reason)}"
        case events.Restated():
            return f"restated {'; '.join(event.changes)}{_because(event.reason)}"
        case events.ConfirmationOpened():
            n_runs = several(event.batch.n_runs, "fresh run", "fresh runs")
            return f"asked for {n_runs} to confirm the verdict{_because(event.reason)}"
        case events.ConfirmationClosed():
            return f"ended the confirmation{_because(event.reason)}"
        case events.Imported():
            return f"imported {several(len(event.values), 'run', 'runs')}{_because(event.note)}"


def setting_words(params: Assignment, between: str = ", ") -> str:
    """A setting as people read it, with what is left alone.

    >>> from levers.core.space import FREE, Space
    >>> setting_words(Space.of({"heat": ["low", "high"], "speed": [1, 2]}).assignment([0, FREE]))
    'heat=low, speed: leave alone'
    """
    parts = (
        f"{name}={level_text(params[name])}" if name in params else f"{name}: {LEAVE_ALONE}"
        for name in params.space.names
    )
    return between.join(parts)


def enough_words(verdict: Verdict) -> str | None:
    """The levers that it may be enough to set, where the verdict names some and not all; None else.

    The reduced intervention on the parents that were found (second half of the paper's parent theorem). It is said on
    the condition that no other lever matters, so not where an ordinary test of one of them says that it does, nor where
    something in the outcomes contradicts what the verdict rests on, or nothing is certified.

    >>> from levers.core.space import Space
    >>> setting = Space.of({"heat": ["low", "high"], "speed": [1, 2]}).assignment([0, 1])
    >>> enough_words(Verdict("cfs", setting, 10, 0.5, 0.1, "", parents=("heat",)))
    'if no lever matters but those shown to, it is enough to set heat=low'
    """
    reduced = on_parents(verdict)
    if not reduced or len(reduced) >= len(verdict.assignment) or verdict.tolerance is None or verdict.doubts:
        return None
    others = [p for name, p in verdict.p_values_by_lever.items() if name not in reduced]
    if any(p is not None and p < _MATTERS for p in others):
        return None
    listed = ", ".join(f"{name}={level_text(level)}" for name, level in reduced.items())
    return f"if no lever matters but those shown to, it is enough to set {listed}"


def on_parents(verdict: Verdict) -> dict[str, Level] | None:
    """The reduced intervention; None where nobody looked for the levers that matter."""
    return None if verdict.parents is None else verdict.on_parents


def stage_words(stage: str) -> str:
    """A stage as people read it; empty where there is only one, so that it would say nothing.

    >>> stage_words("selection"), stage_words("block")
    ('selection', '')
    """
    return "" if stage == BLOCK else stage


def _trials(trials: Numbers) -> str:
    return f"trial {trials[0]}" if len(trials) == 1 else f"{len(trials)} trials"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def why_below_zero(verdict: Verdict) -> str | None:
    """Why the estimated loss of a level that was not chosen may be below 0; None where it cannot be.

    It depends on which runs a choice was made by, and how.
    """
    if _SELECTION in dict(verdict.runs_by_stage):
        return "the choice was made on fresh runs of the selection, the losses are estimated from all runs"
    if verdict.eliminations:
        return "a level that was ruled out is not run again, and later runs may put the chosen one below it"
    return None


TIED_BELOW_ZERO = "a loss below 0 of a tied lever: better by itself, but not allowed with what the others are set to"
"""Why a level that was not chosen may look better where levers are chosen together."""


def matter_words(verdict: Verdict, name: str) -> str | None:
    """What is said of a lever that was not shown to matter; None of one that was.

    >>> from levers.core.space import Space
    >>> setting = Space.of({"heat": ["low", "high"], "speed": [1, 2], "belt": ["A", "B"]}).assignment([0, 1, 0])
    >>> made = Verdict("cfs", setting, 9, 0.5, 0.1, "", parents=("belt",), parents_together=(("heat", "speed"),))
    >>> [matter_words(made, name) for name in setting]
    ['shown together with speed, not by itself', 'shown together with heat, not by itself', None]
    """
    if name in (verdict.parents or ()):
        return None
    p_value = verdict.p_values_by_lever.get(name)
    for group in verdict.parents_together:
        if name in group:
            others = " and ".join(other for other in group if other != name)
            known = "" if p_value is None else f" ({chance(p_value)})"
            return f"shown together with {others}, not by itself{known}"
    return not_shown(p_value)


def not_shown(p_value: float | None) -> str:
    """What is said of a lever that was not shown to matter: with the p-value of its ordinary test, if there is one.

    That nothing was shown is no sign that there is nothing: the promise holds for all levers at once, whenever one
    looks, and an ordinary test asks for much less.

    >>> not_shown(0.0312), not_shown(None), not_shown(1e-12)
    ('not shown at this level (p = 0.031)', 'not shown at this level', 'not shown at this level (p < 1e-9)')
    """
    return "not shown at this level" if p_value is None else f"not shown at this level ({chance(p_value)})"


def chance(p_value: float) -> str:
    """A p-value in words.

    >>> chance(0.5), chance(1e-30)
    ('p = 0.5', 'p < 1e-9')
    """
    return f"p = {p_value:.2g}" if p_value >= 1e-9 else "p < 1e-9"


def expected_words(scale: OutcomeScale) -> str:
    """What is expected at a setting: of numbers that add up the mean, of those that multiply the typical one.

    >>> expected_words(OutcomeScale()), expected_words(OutcomeScale("log"))
    ('mean outcome', 'typical outcome (median)')
    """
    return "typical outcome (median)" if scale.is_log else "mean outcome"


def gain_words(gain: Gain, finished: bool, of: float | None = None, scale: OutcomeScale = AS_TOLD) -> str:
    """What a setting gains over the one in place, and what that means; in percent too `of` an outcome, if given.

    On a log scale it is in percent of the outcome at the baseline.

    >>> gain_words(Gain(3.0, 1.0, 5.0, 1.5, 4.5, shown=True, keep=False), finished=True, of=60.0)
    'gain over the baseline: 3 (5 %), 95 % between 1 and 5, though the setting was chosen; 1.5 to 4.5 had it been fixed'
    >>> gain_words(Gain(0.0, 0.0, 0.0, 0.0, 0.0), finished=True)
    'keep what you have: no setting looks better than the baseline'
    >>> gain_words(Gain(1.0, -1.0, 3.0, -0.5, 2.5), finished=True)
    'no gain over the baseline is shown (1 to expect, 95 % between -1 and 3): keep what you have, or confirm the \
setting by fresh runs before you change'
    >>> gain_words(Gain(1.0, -1.0, 3.0, -0.5, 2.5, keep=False, confirmed=True), finished=True)
    'fresh runs show a gain over the baseline; the runs of the study alone show none (1 to expect, 95 % between -1 and \
3)'
    >>> gain_words(Gain(), finished=False)
    'no gain over the baseline is shown yet'
    >>> gain = Gain(0.21, 0.1, 0.305, 0.15, 0.265, shown=True, keep=False)
    >>> gain_words(gain, finished=True, scale=OutcomeScale("log", -1.0))
    'gain over the baseline: 21 % less, 95 % between 10 % and 30.5 %, though the setting was chosen; 15 % to 26.5 % \
had it been fixed'
    """
    yet = "" if finished else " yet"
    advice = ": keep what you have, or confirm the setting by fresh runs before you change" if finished else ""
    if gain.estimate is None or gain.low is None or gain.high is None:
        return f"no gain over the baseline is shown{yet}{advice}"
    if gain.low == gain.high == 0:
        return f"{'keep what you have: ' if finished else ''}no setting looks better than the baseline{yet}"
    about, shares = scale.said(gain.estimate), of and not scale.is_log
    about += f" ({100 * gain.estimate / abs(of) + 0.0:.3g} %)" if of and shares else ""
    span = f"95 % between {scale.said(gain.low)} and {scale.said(gain.high)}"
    if gain.confirmed:
        alone = f"the runs of the study alone show none ({about} to expect, {span})"
        return f"fresh runs show a gain over the baseline; {alone}"
    if not gain.shown:
        return f"no gain over the baseline is shown{yet} ({about} to expect, {span}){advice}"
    if scale.is_log:
        about += " more" if scale.sign > 0 else " less"
    usual = f"{scale.said(gain.usual_low or 0.0)} to {scale.said(gain.usual_high or 0.0)} had it been fixed"
    return f"gain over the baseline: {about}, {span}, though the setting was chosen; {usual}"


def when(seconds: float) -> str:
    """A moment, in UTC; a year that no calendar has is said in seconds.

    >>> when(0.0)
    '1970-01-01 00:00:00Z'
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s after 1970"


def promise(
    within: str | None,
    sure: str,
    finished: bool,
    in_doubt: bool = False,
    compared_with: str = "the best",
    without_claims: str | None = None,
) -> str:
    """How far from the best the setting is, from texts of the number (None where nothing is certified) and probability.

    `without_claims` is the number without what was claimed of levers, where anything was.

    >>> promise("0.5", "90 %", finished=False)
    'if you stop now: within 0.5 of the best with probability 90 %'
    >>> promise(None, "90 %", finished=True)
    'nothing is certified'
    >>> promise("0.5", "90 %", finished=True, in_doubt=True)
    'in doubt (otherwise within 0.5 of the best with probability 90 %)'
    >>> promise("0.5", "90 %", finished=True, without_claims="1.3")
    'within 0.5 of the best with probability 90 %; within 1.3 without what was claimed of levers'
    """
    said = "nothing is certified"
    if within is not None:
        said = within_words(within, compared_with, f"with probability {sure}", without_claims)
    said = f"in doubt (otherwise {said})" if in_doubt else said
    return said if finished else f"if you stop now: {said}"


def and_fresh(n_fresh: int) -> str:
    """What is added to a number of runs where fresh runs came on top of them, to confirm a verdict.

    >>> "60 runs made" + and_fresh(12), "60 runs made" + and_fresh(0)
    ('60 runs made, and 12 fresh ones', '60 runs made')
    """
    return f", and {several(n_fresh, 'fresh one', 'fresh ones')}" if n_fresh else ""


CONFIRMATIONS = {
    CONFIRMED: "fresh runs confirm the verdict",
    IN_DOUBT: "fresh runs put the verdict in doubt",
    MEASURED: "fresh runs were measured, but nothing was predicted to compare them with",
    UNDECIDED: "the verdict is not confirmed yet",
}
"""What fresh runs say of a verdict, in a few words, by `Confirmation.answer`."""


def several(n: int, one: str, more: str) -> str:
    """A number with its words.

    >>> several(1, "run is", "runs are"), several(3000, "run is", "runs are")
    ('1 run is', '3,000 runs are')
    """
    return f"{n:,} {one if n == 1 else more}"
