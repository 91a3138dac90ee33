"""A study's state as people ask for it: trials, status, effects, best setting, forecast, verdict."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levers.algorithms.base import Remark, Verdict
from levers.core.model.ordinary import FactorTest
from levers.core.outcome_scale import EVERY_SCALE, LINEAR
from levers.core.space import FREE, Assignment
from levers.errors import NoSuchTrialError
from levers.studies.analysis.confirmation import confirmation
from levers.studies.analysis.describe import setting_words, several
from levers.studies.analysis.estimates import Estimates, Gain, at_last_look, counted_runs
from levers.studies.events import Numbers
from levers.studies.outcomes import is_correctable, levels_of_run
from levers.studies.spec import StudySpec
from levers.studies.state import OPEN, StudyState, Trial, TrialState
from levers.studies.transitions import ending, with_excluded

AWAITS = ("running", "confirming")
"""How a study stands while runs are awaited."""
MANY_RUNS = 50_000
"""More runs to go than most people mean."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Runs still to go: in the round under way, likely, and in the worst case (None when there is no telling yet)."""

    now: int
    likely: int | None
    worst_case: int | None

    def __str__(self) -> str:
        if self.likely is None or self.worst_case is None:
            return f"{several(self.now, 'run', 'runs')} to go in this round, then perhaps more"
        if not self.worst_case:
            return "no runs to go"
        likely = several(self.likely, "run", "runs")
        if self.likely >= self.worst_case:
            return f"{likely} to go; {self.now:,} in this round"
        return f"about {likely} to go, {self.worst_case:,} in the worst case; {self.now:,} in this round"

    @property
    def is_last(self) -> bool:
        """Whether no runs can follow those of the round under way."""
        return self.worst_case is not None and self.worst_case <= self.now

    @property
    def what_follows(self) -> str:
        """What comes after the round under way, for somebody who asked for more runs than it has.

        >>> Forecast(3, 3, 3).what_follows, Forecast(1, 1, 1).what_follows, Forecast(3, None, None).what_follows
        ('these are the last', 'this is the last', 'what comes next depends on the outcomes of this round')
        """
        if self.is_last:
            return "this is the last" if self.now == 1 else "these are the last"
        return "what comes next depends on the outcomes of this round"


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One level: its runs, what it loses against the leading level, with intervals, and where it stands.

    The loss is the one that the choice was made by. `low` to `high` holds it for all levels at once and whenever one
    looks, with the study's probability; `usual_low` to `usual_high` is the ordinary 95 % interval of this level alone.
    `p_value` is that of the ordinary test of its factor. With the `scale` "log" losses and intervals are shares of the
    leading level's outcome: 0.12 is 12 % more where less is better, and 12 % less where more is.
    """

    factor: str
    level: Any
    n_runs: int
    loss: float | None
    low: float | None
    high: float | None
    standing: str
    ruled_out_after: int | None
    usual_low: float | None = None
    usual_high: float | None = None
    p_value: float | None = None
    scale: str = LINEAR

    @property
    def in_percent(self) -> "EffectRow":
        """The same with losses in percent, to be drawn and listed."""

        def percent(share: float | None) -> float | None:
            return None if share is None else 100 * share

        return replace(
            self,
            loss=percent(self.loss),
            low=percent(self.low),
            high=percent(self.high),
            usual_low=percent(self.usual_low),
            usual_high=percent(self.usual_high),
        )


class Effects(list[EffectRow]):
    """Every level of every lever, as a list."""

    def _repr_html_(self) -> str:
        from levers.extensions import html_of

        return html_of(self)


@dataclass(frozen=True, slots=True)
class Best:
    """The setting that the estimates favour.

    If the study stops now it is within `within` of the best one with the study's probability, whenever one looks (None
    where nothing is certified). `predicted` is the mean outcome to expect there, from all runs, and `low` to `high` its
    95 % interval: both allow for the setting having been chosen because it looks best. Where the setting leaves levers
    alone (`params.free`) neither is known by the additive fit. `gain` is what it gains over the study's baseline, if it
    has one. `in_doubt` says that outcomes contradict what all of it rests on; `Status.doubts` says which.
    `compared_with` is what `within` is about, in words.
    `within_without_claims` is the same as `within` without what was claimed of levers, None where nothing was. With the
    `scale` "log" `predicted` is the typical outcome, the median; `within` and `gain` are shares.
    """

    params: Assignment
    within: float | None
    predicted: float | None
    low: float | None
    high: float | None
    gain: Gain | None = None
    in_doubt: bool = False
    compared_with: str = "the best"
    scale: str = LINEAR
    within_without_claims: float | None = None

    def said(self) -> tuple[str | None, str | None]:
        """How far from the best it is, and how far without what was claimed of levers, as texts of the numbers."""
        words = EVERY_SCALE[self.scale].certified
        within, unclaimed = (None if one is None else words(one) for one in (self.within, self.within_without_claims))
        return within, unclaimed


@dataclass(frozen=True, slots=True)
class Status:
    """Where a study stands. If it stops now, its setting is within `within` of the best; None: nothing is certified.

    `within_without_claims` is the same without what was claimed of levers, None where nothing was. `n_fresh` outcomes
    of fresh runs come on top of the `n_complete`; `confirmation` is what they say of the verdict, as
    `core.model.confirmation.Confirmation.answer` puts it, None where nobody asked for any.
    """

    name: str
    state: str
    algorithm: str
    goal: str
    n_factors: int
    stage: str
    n_complete: int
    n_running: int
    n_waiting: int
    n_failed: int
    n_stale: int
    n_past: int
    n_corrections: int
    tolerance: float | None
    within: float | None
    to_go: Forecast
    created_at: float
    updated_at: float
    note: str | None = None
    n_excluded: int = 0
    n_checked: int = 0
    doubts: tuple[Remark, ...] = ()
    scale: str = LINEAR
    within_without_claims: float | None = None
    n_fresh: int = 0
    confirmation: str | None = None


def trials(state: StudyState, which: ArrayLike) -> Iterator[Trial]:
    """Trials by their numbers."""
    for number in np.asarray(which, dtype=np.int64).tolist():
        yield trial(state, number)


def trial(state: StudyState, number: int) -> Trial:
    """One trial by its number."""
    table = state.trials
    if not 0 <= number < table.n_trials:
        raise NoSuchTrialError(f"there is no trial {number}; trials are 0 to {table.n_trials - 1}")
    block, row = int(table.block[number]), int(table.row[number])
    found = state.blocks[block]
    now = TrialState(table.state[number])
    lease = state.leases[table.lease[number]] if table.lease[number] >= 0 else None
    complete = now is TrialState.COMPLETE
    left_out = {one.trial: one.value for one in state.exclusions} if now is TrialState.EXCLUDED else {}
    return Trial(
        number,
        state.spec.assignment(found.batch.codes[row]),
        int(state.block_numbers(np.array([number]))[0]) - 1,
        found.batch.stage,
        now,
        value=float(found.values[row]) if complete else left_out.get(number),
        worker=lease and lease.worker,
        asked_at=lease and lease.at,
        deadline=lease and lease.deadline,
        told_at=float(table.told_at[number]) if complete else None,
        observed=_observed(state, number) if found.observed is not None and now in _HAS_LEVELS else None,
    )


_HAS_LEVELS = (TrialState.COMPLETE, TrialState.EXCLUDED)


def _observed(state: StudyState, number: int) -> Assignment | None:
    """What levers took that a trial left alone, by their names; None where it left none, or its run was made again."""
    space, block = state.spec.space, state.blocks[state.trials.block[number]]
    free = state.spec.assignment(block.batch.codes[state.trials.row[number]]).free
    if not free or not is_correctable(state, number):
        return None
    places = [space.position(name) for name in free]
    return space.subspace(places).assignment(levels_of_run(state, number)[places])


def running(state: StudyState) -> Numbers:
    """The trials that are with a worker."""
    return np.flatnonzero(state.trials.state[: state.trials.n_trials] == TrialState.RUNNING)


def status(name: str, state: StudyState) -> Status:
    """Where the study stands."""
    counts = np.bincount(state.trials.state[: state.trials.n_trials], minlength=len(TrialState))
    block, found, to_go = state.open_block, certified(state), forecast(state)
    return Status(
        name=name,
        state=standing(state),
        algorithm=state.spec.algorithm,
        goal=state.spec.goal,
        n_factors=state.spec.space.n_factors,
        stage="verdict" if block is None else block.batch.stage,
        n_complete=state.n_complete,
        n_running=int(counts[TrialState.RUNNING]),
        n_waiting=int(counts[TrialState.WAITING]),
        n_failed=int(counts[TrialState.FAIL]),
        n_stale=int(counts[TrialState.STALE]),
        n_past=sum(len(past.values) for past in state.past),
        n_corrections=len(state.corrections),
        tolerance=state.spec.tolerance,
        within=_within(state, found),
        to_go=to_go,
        created_at=state.created_at,
        updated_at=state.updated_at,
        note=None if state.doubts else _advice(state, to_go.likely),
        n_excluded=len(state.exclusions),
        n_checked=_n_checked(state),
        doubts=doubts(state),
        scale=state.spec.scale,
        within_without_claims=_without_claims(state, found),
        n_fresh=state.n_fresh,
        confirmation=None if (fresh := confirmation(state)) is None else fresh.answer,
    )


def _n_checked(state: StudyState) -> int:
    """Runs that were checked at the last look: those that left a lever alone are none of them."""
    if not state.checked_runs:
        return 0
    return state.checked_runs[-1] - sum(len(b.told_order) - len(b.set_order) for b in state.counted if b.role != OPEN)


def standing(state: StudyState) -> str:
    """In a word or two: running, confirming (the end, and fresh runs are awaited), finished, or in doubt.

    In doubt is the end on outcomes that contradict it, while nobody has answered.

    >>> standing(StudyState(doubts=(Remark("noise", "larger than stated"),)))
    'in doubt'
    """
    if state.open_block is not None:
        return "running"
    return "confirming" if state.confirming_block is not None else "in doubt" if state.is_held else "finished"


def _advice(state: StudyState, likely: int | None) -> str | None:
    """A word where something looks wrong that only the user can mend."""
    noise_sd, tolerance = state.progress.noise_sd, state.spec.tolerance
    if likely is None or likely <= MANY_RUNS or noise_sd is None or tolerance is None:
        return None
    scale = state.spec.outcome_scale
    unit = "a share, such as 0.05" if scale.is_log else "in the outcome's unit"
    return (
        f"{likely:,} runs is a lot: the noise (sd about {scale.said(noise_sd, '.3g')}) is large against the tolerance "
        f"{scale.said(tolerance, 'g')}; if the tolerance is not {unit}, begin a new study"
    )


def certified(state: StudyState) -> Verdict | None:
    """What can be certified now, as the algorithm sees it: the verdict, or what it could say if it ended here."""
    if state.open_block is None:
        return _final(state)
    found = state.spec.solver.interim(at_last_look(state))
    return None if found is None else replace(found, goal=state.spec.goal)


def _final(state: StudyState) -> Verdict:
    return replace(ending(state), goal=state.spec.goal)


def _within(state: StudyState, found: Verdict | None) -> float | None:
    """How far from the best, with the study's probability; an algorithm that promises less than that says nothing."""
    if found is None or found.failure_prob > state.spec.failure_prob:
        return None
    return state.spec.outcome_scale.loss(found.tolerance)


def _without_claims(state: StudyState, found: Verdict | None) -> float | None:
    """The same without what was claimed of levers."""
    known = found is not None and _within(state, found) is not None
    return state.spec.outcome_scale.loss(found.tolerance_without_claims) if known and found is not None else None


def verdict(state: StudyState) -> Verdict | None:
    """The verdict, with what the study adds to its guarantee; None before the end."""
    if state.open_block is not None:
        return None
    found = _final(state)
    estimates = Estimates.of(state)
    found = replace(found, provisos=(*found.provisos, *_provisos(state)), doubts=doubts(state))
    found = replace(found, confirmation=confirmation(state, estimates))
    if state.spec.is_merged:
        p_values = _by_lever(state, estimates.part_tests())
        return replace(_in_outer_space(found, state.spec), p_values=p_values).on_scale(state.spec.outcome_scale)
    chosen = enumerate(found.assignment.codes)
    against = [(k, _compared_with(found, estimates, k) if j == FREE else j) for k, j in chosen]
    spans = [tuple(estimates.usual(k, j, _losses(found, estimates, k, j))) for k, j in against]
    p_values = tuple(test and test.p_value for test in estimates.part_tests())
    found = replace(found, p_values=p_values, usual_intervals=tuple(spans))
    return found.on_scale(state.spec.outcome_scale)


def _by_lever(state: StudyState, tests: Iterable[FactorTest | None]) -> tuple[float | None, ...]:
    """p-values of all levers from the tests of the fit's factors: levers that are one factor of it share one."""
    spec, left = state.spec, iter(tests)
    found: dict[int, float | None] = {}
    for group, places in zip(spec.merging.groups, state.choices.places, strict=True):
        own = [next(left) for _ in range(places.shape[1])]
        for k, test in zip(group, own if len(own) > 1 else own * len(group), strict=True):
            found[k] = test and test.p_value
    return tuple(found[k] for k in range(spec.space.n_factors))


def _in_outer_space(found: Verdict, spec: StudySpec) -> Verdict:
    """A verdict on merged factors in terms of the real ones. What each merged level loses is in `effects`."""
    merging = spec.merging
    names, inner = merging.outer.names, merging.inner.names
    shown = {i: _shown(found, spec, i) for i, name in enumerate(inner) if name in (found.parents or ())}
    together = tuple(tuple(names[k] for k in merging.groups[i]) for i, some in shown.items() if not some)
    parents = None if found.parents is None else tuple(names[k] for k in sorted(itertools.chain(*shown.values())))
    found = replace(found, assignment=spec.assignment(found.assignment.codes), parents=parents)
    return replace(found, parents_together=together, effects=(), intervals=(), eliminations=(), problem=None)


def _shown(found: Verdict, spec: StudySpec, column: int) -> list[int]:
    """Which levers of a merged factor that matters are shown to: one that alone makes a combination worse than the
    chosen one, by intervals that hold all at once. None where only combinations that differ in several are worse; all
    of them where the algorithm has no such intervals."""
    group, table = spec.merging.groups[column], spec.merging.tables[column]
    if len(group) == 1 or not found.intervals:
        return list(group)
    differs = table != table[found.assignment.codes[column]]
    worse = np.array([span is not None and span[0] > 0 for span in found.intervals[column]])
    return [k for place, k in enumerate(group) if (worse & differs[:, place] & (differs.sum(axis=1) == 1)).any()]


def shown_to_matter(state: StudyState) -> tuple[str, ...]:
    """The levers that are shown to matter by now, as the verdict at the end names them."""
    found = certified(state)
    if found is None:
        return ()
    return (_in_outer_space(found, state.spec) if state.spec.is_merged else found).shown_to_matter


def _provisos(state: StudyState) -> Iterator[Remark]:
    if state.spec.outcome_scale.is_log:
        yield Remark("log scale", _log_words(state.spec))
    from levers.studies.analysis.diagnostics import additivity, gathered_runs, interactions_of  # likewise

    together = interactions_of(state, gathered_runs(state, with_open=False)) is not None
    if together and (found := additivity(state)).suspects:
        yield Remark("interaction", found.summary, found.interacting)
    if state.checked_runs and not state.doubts:
        n_runs = _n_checked(state) + sum(len(past.values) for past in state.past[: state.n_past_used])
        runs = several(n_runs, "run was", "runs were")
        text = f"{runs} checked for outliers, noise, spread, drift, shape and interactions: no doubt"
        if together:
            text = f"{runs} checked for outliers, by the fit with pairs of levers: no doubt"
        elif n_runs <= state.choices.n_parameters + 1:
            text = f"{several(n_runs, 'run is', 'runs are')} too few to check anything but outliers"
        yield Remark("checked", text)
    if hard := state.spec.hard_to_change:
        text = (
            f"rests on setting {' and '.join(hard)} adding no error of its own: runs between two changes count as "
            "independent"
        )
        yield Remark("hard to change", text, hard)
    if state.spec.is_merged:
        merging = state.spec.merging
        chosen = {merging.column_of(names[0]) for names in state.spec.merged}
        for i, group in enumerate(merging.groups):
            names = tuple(merging.outer.names[k] for k in group)
            if len(group) > 1 and state.progress.by_parts and state.spec.parts[i]:
                text = (
                    f"{' and '.join(names)} are chosen together, among the combinations allowed; their effects add up"
                )
                yield Remark("tied", text, names)
            elif len(group) > 1:
                reason = "what they do to each other" if i in chosen else "forbidden combinations"
                yield Remark("merged", f"{merging.inner.names[i]} studied as one lever, because of {reason}", names)
        covered = "the certificate is about these" if state.progress.by_parts else "the theorem covers it"
        yield Remark("allowed", f"the answer is the best of all allowed settings, and {covered}")
    if state.n_past_used:
        n = sum(len(past.values) for past in state.past[: state.n_past_used])
        runs = several(n, "imported run", "imported runs")
        theirs = "its outcome" if n == 1 else "their outcomes"
        text = f"rests on {runs} having been set, with the same noise, and not chosen for {theirs}"
        yield Remark("imported", text)
        if state.spec.merged:
            text = "that levers may have been merged because of these very runs is not accounted for"
            yield Remark("merged after", text)
    if state.spec.noise_sd is None and len(np.unique(counted_runs(state)[1])) == 1:
        text = "every outcome was the same, so no noise could be seen: make sure that they were measured"
        yield Remark("no noise seen", text)
    for note in state.restatements:
        yield Remark("restated", f"restated after {several(note.n_runs, 'run', 'runs')}: {note.text}")
    if state.exclusions:
        yield _without(state)
    if state.corrections:
        made = several(len(state.corrections), "correction", "corrections")
        yield Remark("corrected", f"rests on {made} not having been made to get another answer")


def _log_words(spec: StudySpec) -> str:
    """What a verdict on a log scale rests on. Texts of an algorithm have its own numbers, so these are named."""
    text = "effects and noise are taken to act on the logarithm of the outcome: effects multiply, noise is in percent"
    if spec.inner_min_effect is not None:
        least = spec.outcome_scale.said(dict(spec.options)["min_effect"], "g")
        text += f"; the least effect of {least} is {spec.inner_min_effect:g} of the logarithm"
    if spec.free:
        text += "; what is said to be better by leaving levers alone is of the logarithm, 0.1 being about 10 %"
    return text


def _without(state: StudyState) -> Remark:
    """Which outcomes do not count, and how the answer would read if they did."""
    which = tuple(one.trial for one in state.exclusions)
    listed = ", ".join(f"trial {one.trial} ({one.value:g}: {one.reason})" for one in state.exclusions[:_MOST_LISTED])
    more = len(which) - _MOST_LISTED
    listed += f" and {more} more" if more > 0 else ""
    from levers.studies.analysis import doubts as checks  # which itself looks at what is certified

    counted = with_excluded(state)
    found = None if counted is None else state.spec.solver.interim(counted[1])
    text = f"leaves out {listed}"
    if counted is not None and found is not None:
        said = found.on_scale(state.spec.outcome_scale).promise
        promise = "in doubt" if checks.doubts(counted[0]) else said
        same = found.assignment.codes == _final(state).assignment.codes
        other = "the same setting" if same else setting_words(state.spec.assignment(found.assignment.codes))
        text += f"; if {'it' if len(which) == 1 else 'they'} counted it would be {other}, {promise}"
    return Remark("excluded", text, trials=which)


_MOST_LISTED = 5


def doubts(state: StudyState) -> tuple[Remark, ...]:
    """What the last checks found, and what outcomes told since contradict beyond question.

    Of a study that an older version ended without checks, what these find now.
    """
    from levers.studies.analysis import doubts as checks  # which itself looks at what is certified

    if state.doubts is None and state.open_block is None:
        return checks.doubts(state)
    known = state.doubts or ()
    about = {(one.kind, one.trials, one.levers) for one in known}
    return (*known, *(one for one in checks.doubts_since(state) if (one.kind, one.trials, one.levers) not in about))


def effects(state: StudyState, estimates: Estimates | None = None) -> Effects:
    """Every level, in the space as the algorithm sees it. `estimates` are those of the state, if they are at hand."""
    estimates, found = estimates or Estimates.of(state), certified(state)
    gone = {(e.factor, e.level): e.n_runs for e in state.progress.eliminations}
    leaders = estimates.leaders if found is None else found.assignment.codes
    lead, rest = ("leading", "in play") if state.open_block is not None else ("chosen", "not chosen")
    rows, scale = Effects(), state.spec.outcome_scale
    for k, factor in enumerate(state.spec.inner.factors):
        leader = leaders[k] if leaders else 0
        alone = leader == FREE  # then levels are compared with the best of them, and none of them is chosen
        leader = _compared_with(found, estimates, k) if alone else leader
        losses = _losses(found, estimates, k, leader) or [None] * factor.n_levels
        counts = estimates.counts(k) or [0] * factor.n_levels
        spans = found.intervals[k] if found is not None and found.intervals else (None,) * factor.n_levels
        usual, test = estimates.usual(k, leader, losses), estimates.test(k)
        for j, level in enumerate(factor.levels):
            leads = j == leader and bool(leaders) and not alone  # before the first outcome none does
            standing = "ruled out" if (k, j) in gone else lead if leads else rest
            loss, low, high, usual_low, usual_high = scale.losses(
                losses[j], *(spans[j] or (None, None)), *(usual[j] or (None, None))
            )
            more = (usual_low, usual_high, test and test.p_value, scale.name)
            rows.append(EffectRow(factor.name, level, counts[j], loss, low, high, standing, gone.get((k, j)), *more))
    return rows


def part_effects(state: StudyState, estimates: Estimates | None = None) -> Effects:
    """Every level of the levers that forbidden combinations tie together, each lever by itself; else nothing.

    They are chosen among their combinations, which `effects` has; where their effects add up (`Progress.by_parts`) each
    has its own. A loss is against the level in the leading combination, with the ordinary interval only: what holds for
    all levels at once is said of the combinations. `estimates` are those of the state, if they are at hand.

    >>> from levers.studies.library import create_study
    >>> levels = {"heat": [1, 2], "speed": [1, 2], "belt": ["A", "B"]}
    >>> study = create_study("line", levels, budget=20, seed=1, forbidden=[{"heat": 2, "speed": 2}])
    >>> _ = study.optimize(lambda params: 1.0 * params["heat"] + 0.1 * (params["belt"] == "A"))
    >>> [(row.factor, row.level, row.standing) for row in part_effects(study.state)]
    [('heat', 1, 'not chosen'), ('heat', 2, 'chosen'), ('speed', 1, 'chosen'), ('speed', 2, 'not chosen')]
    """
    estimates, found, rows = estimates or Estimates.of(state), certified(state), Effects()
    fitted, choices = estimates.fitted, estimates.choices
    if fitted is None or fitted.together is not None:
        return rows
    leaders = estimates.leaders if found is None else found.assignment.codes
    lead, rest = ("leading", "in play") if state.open_block is not None else ("chosen", "not chosen")
    parts, scale = estimates.of_parts, state.spec.outcome_scale
    for k, table in enumerate(choices.tables):
        for column, part in enumerate(choices.parts_of(k) if table.shape[1] > 1 else ()):
            factor, leader = state.fitted[part], int(table[leaders[k], column])
            losses, counts, test = parts.losses(part, leader), parts.counts(part), parts.test(part)
            usual = parts.usual(part, leader, losses)
            for j, level in enumerate(factor.levels):
                loss, low, high = scale.losses(losses[j], *(usual[j] or (None, None)))
                standing, own = lead if j == leader else rest, (low, high, test and test.p_value, scale.name)
                rows.append(EffectRow(factor.name, level, counts[j], loss, None, None, standing, None, *own))
    return rows


def _compared_with(found: Verdict | None, estimates: Estimates, k: int) -> int:
    """The level that those of a lever which is left alone are compared with: the one that is best among them."""
    losses = found.effects[k] if found is not None and found.effects else ()
    best = estimates.leaders[k] if estimates.leaders else 0
    return next((j for j, loss in enumerate(losses) if loss == 0), best)


def _losses(found: Verdict | None, estimates: Estimates, k: int, leader: int) -> list[float | None]:
    """What the levels of a factor lose against the leading one: as the algorithm says, else as the runs do."""
    losses = estimates.losses(k, leader)
    if found is None or not found.effects:
        return losses
    if not losses:  # no outcome is left to fit
        return list(found.effects[k])
    return [a if a is not None else b for a, b in zip(found.effects[k], losses, strict=True)]


def best(state: StudyState, estimates: Estimates | None = None) -> Best | None:
    """The setting that the estimates favour. `estimates` are those of the state, if they are at hand."""
    found, estimates = certified(state), estimates or Estimates.of(state)
    if found is None and (estimates.fitted is None or len(state.blocks) < 2):
        return None
    levels = estimates.leaders if found is None else found.assignment.codes
    predicted, low, high = estimates.prediction(levels) or (None, None, None)
    baseline = state.spec.inner_baseline
    gain = None if baseline is None or FREE in levels else estimates.gain(tuple(levels), baseline)
    fresh = None if gain is None or gain.shown or found is None else confirmation(state, estimates)
    if gain is not None and fresh is not None and fresh.gain is not None and (fresh.gain.low or 0.0) > 0:
        gain = replace(gain, confirmed=True, keep=False)
    chosen = state.spec.assignment(levels)
    compared_with = "the best" if found is None else found.compared_with
    within, scale = _within(state, found), state.spec.scale
    said = bool(doubts(state)), compared_with, scale, _without_claims(state, found)
    return Best(chosen, within, predicted, low, high, gain, *said)


def forecast(state: StudyState) -> Forecast:
    """How many runs are still to go."""
    block = state.open_block
    if block is None:
        fresh = 0 if state.confirming_block is None else state.confirming_block.n_missing
        return Forecast(fresh, fresh, fresh)
    now, then = block.n_missing, state.spec.solver.outlook(state.known[-1], block.n_runs)
    likely = None if then.likely is None else now + then.likely
    return Forecast(now, likely, None if then.worst_case is None else now + then.worst_case)


@dataclass(frozen=True, slots=True)
class FactorEvidence:
    """How strong the evidence is that a factor matters.

    `contrast` is what the better of two levels gains over the worse one; `radius` is what it must exceed to be shown,
    all factors together and whenever one looks; `ratio` is contrast / radius. `shown` says whether the verdict (so far)
    names the factor. Where there is no such radius, `t` describes the contrast in standard errors: it proves nothing.
    `p_value` is that of the ordinary test of the factor, for itself and at one look. On a log scale contrast and radius
    are what the worse level loses, as a share of the better one's outcome.
    """

    factor: str
    better: Any
    worse: Any
    contrast: float | None
    radius: float | None
    ratio: float | None
    t: float | None
    shown: bool
    p_value: float | None = None


def evidence(state: StudyState, estimates: Estimates | None = None) -> list[FactorEvidence]:
    """How strong the evidence is for each factor, in the space as the algorithm sees it.

    Where a verdict has intervals the contrasts are those with the leading level, and the radius is theirs: all
    sum_k M_k (M_k - 1) ordered pairs hold at once with the study's probability, at all times (docs/theory, section 5)
    or at the end of a budget (theory/pooled.md, section 6). A factor can be shown with a ratio below 1 if
    `max_parents` was given and a level was dropped at an earlier look.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=0.1, seed=1)
    >>> study.tell_many((trial, 2.0 * (trial.params["heat"] == "high")) for trial in study.ask(1000))
    7
    >>> [found] = evidence(study.state)
    >>> found.better, found.worse, found.ratio > 1, found.shown
    ('high', 'low', True, True)
    """
    found, spec = certified(state), state.spec
    proven = found is not None and bool(found.intervals)
    estimates = estimates or Estimates.of(state)
    shown = () if found is None or found.parents is None else found.parents
    rows = []
    for k, factor in enumerate(spec.inner.factors):
        leader = found.assignment.codes[k] if found is not None else FREE
        leader = _compared_with(found, estimates, k) if leader == FREE else leader
        best = (
            _proof(leader, found.effects[k], found.intervals[k])
            if found is not None and proven
            else _description(estimates, k)
        )
        test = estimates.test(k)
        last = (factor.name in shown, test and test.p_value)
        if best is None:
            rows.append(FactorEvidence(factor.name, None, None, None, None, None, None, *last))
            continue
        better, worse, contrast, radius, ratio, t = best
        levels = factor.levels[better], factor.levels[worse]
        sizes = (spec.outcome_scale.loss(contrast), spec.outcome_scale.loss(radius))
        rows.append(FactorEvidence(factor.name, *levels, *sizes, ratio, t, *last))
    return rows


_Found = tuple[int, int, float, float | None, float | None, float | None]  # better, worse, contrast, radius, ratio, t
_Span = tuple[float, float] | None


def _proof(leader: int, losses: tuple[float | None, ...], spans: tuple[_Span, ...]) -> _Found | None:
    """The comparison with the leading level that is closest to a proof, or furthest beyond it."""
    found: list[tuple[float, _Found]] = []
    for j, (loss, span) in enumerate(zip(losses, spans, strict=True)):
        if j != leader and loss is not None and span is not None:
            # where the loss is shrunken the interval is not: what is needed is put to the scale of the loss
            middle, radius = abs(span[0] + span[1]) / 2, (span[1] - span[0]) / 2
            ratio = middle / radius if radius > 0 else math.inf if loss else 0.0
            radius = abs(loss) / ratio if loss and 0 < ratio < math.inf else radius
            better, worse = (leader, j) if loss >= 0 else (j, leader)
            found.append((ratio, (better, worse, abs(loss), radius, ratio, None)))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _description(estimates: Estimates, k: int) -> _Found | None:
    """The contrast of the most standard errors."""
    found = estimates.standard_errors(k)
    if found is None:
        return None
    gains, errors = found
    known = np.isfinite(errors) & (errors > 0)
    if not known.any():
        return None
    t = np.divide(gains, errors, out=np.full_like(gains, -np.inf), where=known)
    i, j = divmod(int(t.argmax()), len(t))
    return i, j, float(gains[i, j]), None, None, float(t[i, j])
