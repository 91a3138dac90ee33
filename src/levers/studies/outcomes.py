"""Outcomes and runs that users pass in: checks that are made before anything is stored, and what they find."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.outcome_scale import OutcomeScale
from levers.core.space import FREE, Assignment, Codes, Level, Space
from levers.errors import InvalidOutcomeError, InvalidSpaceError, NoSuchTrialError, ObservedLevelError, TrialError
from levers.studies.events import Numbers, Values
from levers.studies.spec import StudySpec
from levers.studies.state import Block, StudyState, TrialState

_TAKEN = (TrialState.RUNNING, TrialState.STALE, TrialState.FAIL)
_REPLACED = (TrialState.STALE, TrialState.FAIL, TrialState.ABANDONED)
MAX_OUTCOME = 1e100
"""The largest outcome that squares and sums can be computed of without overflow."""
_LIMITS = f"it must be finite, and at most {MAX_OUTCOME:g} in size"
Observed: TypeAlias = Mapping[int, Mapping[str, Level]]
"""The levels that levers took which runs left alone, by the trial's number: `{3: {"heat": "low"}}`."""
BY_FIT, BY_SPREAD = "fit", "spread"
"""What an outcome was compared with: the additive fit of the other runs, or how the other outcomes lie."""


def outcome_number(trial: int, value: object, scale: OutcomeScale | None = None) -> float:
    """An outcome as a number, on the scale of its study if that is given; NaN stands for a run without one.

    >>> outcome_number(3, "2.5")
    2.5
    >>> outcome_number(3, 0, OutcomeScale("log"))
    Traceback (most recent call last):
    levers.errors.InvalidOutcomeError: the outcome of trial 3 is 0; on a log scale every outcome is above 0
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidOutcomeError(f"the outcome of trial {trial} is {value!r}; it must be a number") from None
    if not math.isnan(number) and not abs(number) <= MAX_OUTCOME:
        raise InvalidOutcomeError(f"the outcome of trial {trial} is {number:g}; {_LIMITS}")
    if scale is not None and (why := scale.refusal(number)) is not None:
        raise InvalidOutcomeError(f"the outcome of trial {trial} is {number:g}; {why}")
    return number


@dataclass(frozen=True, slots=True)
class Surprise:
    """An outcome that is not between `low` and `high`, where the other runs lead one to expect it.

    `trial` is None for a past run, which `row` tells apart: its row in a sheet, or its place, from 1.

    >>> str(Surprise(17, 7250.0, 72.31, 65.2, 79.4, BY_FIT))
    'trial 17: 7250, expected about 72.3 (between 65.2 and 79.4)'
    """

    trial: int | None
    value: float
    expected: float
    low: float
    high: float
    how: str
    row: int | None = None

    def __str__(self) -> str:
        which = f"row {self.row}" if self.trial is None else f"trial {self.trial}"
        return f"{which}: {self.value:.10g}, {self.expectation}"

    @property
    def expectation(self) -> str:
        """What would have been no surprise, in words."""
        half = (self.high - self.low) / 2
        digits = 1 - math.floor(math.log10(half)) if 0 < half < math.inf else 4
        low, middle, high = (_rounded(x, digits) for x in (self.low, self.expected, self.high))
        return f"expected about {middle} (between {low} and {high})"


def _rounded(value: float, digits: int) -> str:
    """A number with so many digits behind the point as its uncertainty allows."""
    return f"{value + 0.0:.{max(digits, 0)}f}" if digits <= 6 and abs(value) < 1e9 else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Told outcomes, sorted: to be stored, wrong (place in the list, reason), and late (place, reason).

    A late outcome is of a row that another trial has answered: nobody is to blame, and it is not needed. An outcome
    that was told before with the same value is none of these: telling twice changes nothing. `flags` are those to be
    stored that are far from what the other runs lead one to expect.

    `observed` has the levels of all levers in the runs to be stored, where some were left alone; `unobserved` are the
    places among the problems at which it is missing, or wrong, what a lever took.
    """

    trials: Numbers
    values: Values
    problems: list[tuple[int, str]]
    late: list[tuple[int, str]]
    flags: tuple[Surprise, ...] = ()
    observed: Codes | None = None
    unobserved: tuple[int, ...] = ()


def new_outcomes(state: StudyState, trials: Numbers, values: Values, taken: Codes | None = None) -> Accepted:
    """Sort out told outcomes before anything is stored.

    `taken` has a row for each of them: the levels that levers had as far as they were told, FREE where not.
    """
    n = state.trials.n_trials
    known = (trials >= 0) & (trials < n)
    problems = [(int(i), f"there is no trial {trials[i]}; trials are 0 to {n - 1}") for i in np.flatnonzero(~known)]
    order = np.argsort(trials, kind="stable")
    twice = order[1:][np.diff(trials[order]) == 0]
    problems += [(int(i), f"trial {trials[i]} comes twice") for i in twice]
    wild = ~np.isnan(values) & ~(np.abs(values) <= MAX_OUTCOME)
    problems += [
        (int(i), f"the outcome of trial {trials[i]} is {values[i]:g}; {_LIMITS}") for i in np.flatnonzero(wild)
    ]
    off = off_scale(state.spec.outcome_scale, values)
    problems += [(i, f"the outcome of trial {trials[i]} is {values[i]:g}; {why}") for i, why in off]
    places = np.setdiff1d(np.flatnonzero(known), [i for i, _ in off])
    states = state.trials.state[trials[places]]
    block = state.awaited_block
    in_open = state.trials.block[trials[places]] == (len(state.blocks) - 1 if block is not None else -1)
    fresh = in_open & np.isin(states, _TAKEN)
    late: list[tuple[int, str]] = []
    if block is not None:
        rows = state.trials.row[trials[places]]
        fresh[fresh] = np.isnan(block.values[rows[fresh]])
        _, first = np.unique(rows[fresh], return_index=True)
        again = np.delete(np.flatnonzero(fresh), first)  # two trials of one row in one telling: the first counts
        late += [(int(places[i]), f"trial {trials[places[i]]} is a second run of a row told here too") for i in again]
        fresh[again] = False
        places = np.delete(places, again)
        fresh = np.delete(fresh, again)
    for i in places[~fresh]:
        reason = why_not(state, int(trials[i]), float(values[i]))
        if reason is None and taken is not None:
            reason = _took_another(state, int(trials[i]), taken[i])
        if reason is not None:
            done = TrialState(state.trials.state[trials[i]]) in _REPLACED
            (late if done else problems).append((int(i), reason))
    # a run without an outcome that was given up anyway is no news
    dropped = np.isnan(values[places]) & np.isin(state.trials.state[trials[places]], _REPLACED)
    keep = places[fresh & ~dropped]
    levels, wrong = _levels_of(state, block, trials[keep], values[keep], None if taken is None else taken[keep])
    problems += [(int(keep[i]), reason) for i, reason in wrong.items()]
    unobserved = tuple(int(keep[i]) for i in wrong)
    keep = np.delete(keep, list(wrong))
    levels = None if levels is None else np.delete(levels, list(wrong), axis=0)
    return Accepted(trials[keep], values[keep], sorted(problems), sorted(late), observed=levels, unobserved=unobserved)


def off_scale(scale: OutcomeScale, values: Values) -> list[tuple[int, str]]:
    """Places of outcomes that cannot be on a study's scale, each with the reason.

    >>> off_scale(OutcomeScale("log"), np.array([2.0, 0.0]))
    [(1, 'on a log scale every outcome is above 0')]
    """
    found = [(i, scale.refusal(value)) for i, value in enumerate(values.tolist())] if scale.is_log else []
    return [(i, why) for i, why in found if why is not None]


def forbidden_rows(spec: StudySpec, codes: Codes) -> list[tuple[int, str]]:
    """Places of runs that set what a study forbids, each with the combination.

    >>> space = Space.of({"heat": ["low", "high"], "speed": [1, 4]})
    >>> spec = StudySpec(space, tolerance=0.5, forbidden=((("heat", "high"), ("speed", 4)),))
    >>> forbidden_rows(spec, np.array([[0, 1], [1, 1]], dtype=np.int16))
    [(1, 'the study forbids heat=high, speed=4')]
    """
    found: dict[int, str] = {}
    for combination in spec.forbidden:
        places = [spec.space.position(name) for name, _ in combination]
        levels = [spec.space.factors[k].code(level) for k, (_, level) in zip(places, combination, strict=True)]
        parts = ", ".join(f"{name}={level}" for name, level in combination)
        for i in np.flatnonzero((codes[:, places] == levels).all(axis=1)).tolist():
            found.setdefault(i, f"the study forbids {parts}")
    return sorted(found.items())


def check_settings(state: StudyState, trials: Numbers, asked: Mapping[int, Assignment]) -> None:
    """Refuse outcomes of trials of the open block that set something else when they were handed out.

    That happens when the storage was rolled back meanwhile: the same number may then be another run.
    """
    block = state.awaited_block
    known = [int(trial) for trial in trials if int(trial) in asked]
    if block is None or not known:
        return
    now = state.spec.expand(block.batch.codes[state.trials.row[known]])
    for trial, codes in zip(known, now.tolist(), strict=True):
        if tuple(codes) != asked[trial].codes:
            raise TrialError(
                f"trial {trial} is another run than the one that was handed out: the storage was rolled back or "
                "replaced since; nothing was stored. Ask for runs again"
            )


def taken_levels(space: Space, trials: Sequence[int], observed: Observed | None) -> Codes | None:
    """What was told of levers that were left alone: a row of level positions for each trial, FREE where nothing was.

    >>> taken_levels(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), [3, 4], {4: {"heat": "high"}}).tolist()
    [[-1, -1], [1, -1]]
    """
    if not observed:
        return None
    rows = np.full((len(trials), space.n_factors), FREE, dtype=np.int16)
    places = {int(trial): i for i, trial in enumerate(trials)}
    for trial, levels in observed.items():
        if trial not in places:
            raise ObservedLevelError(f"levels came for trial {trial}, and no outcome; tell both at once")
        for name, level in levels.items():
            try:
                k = space.position(name)
                rows[places[trial], k] = space.factors[k].code(level)
            except InvalidSpaceError as error:
                raise ObservedLevelError(f"trial {trial}: {error}; nothing was stored") from None
    return rows


def _levels_of(
    state: StudyState, block: Block | None, trials: Numbers, values: Values, taken: Codes | None
) -> tuple[Codes | None, dict[int, str]]:
    """The levels of all levers in runs of the open block, None where it sets them all; and places that are wrong."""
    if block is None or (taken is None and block.observed is None) or not len(trials):
        return None, {}
    asked = state.spec.expand(block.batch.codes[state.trials.row[trials]])
    given = np.full_like(asked, FREE) if taken is None else taken
    wrong = {}
    missing, other = (asked == FREE) & (given < 0), (asked != FREE) & (given >= 0) & (given != asked)
    for i in np.flatnonzero((missing | other).any(axis=1) & ~np.isnan(values)):
        k = int(np.flatnonzero(missing[i] | other[i])[0])
        wrong[int(i)] = _why_wrong(state, int(trials[i]), k, int(asked[i, k]), int(given[i, k]))
    return None if block.observed is None else np.where(asked == FREE, given, asked), wrong


def _why_wrong(state: StudyState, trial: int, k: int, asked: int, given: int) -> str:
    factor = state.spec.space.factors[k]
    if asked == FREE:
        levels = ", ".join(repr(level) for level in factor.levels[:12])
        return f"trial {trial} left {factor.name!r} alone: say with its outcome which level it took, of {levels}"
    was, now = factor.levels[asked], factor.levels[given]
    return f"trial {trial} was to be run at {factor.name}={was}, and not at {now}; report it as failed if it was"


def _took_another(state: StudyState, trial: int, taken: NDArray[np.int16]) -> str | None:
    """Why levels that are told again cannot be right: they are others than before."""
    had = levels_of_run(state, trial)
    if TrialState(state.trials.state[trial]) is not TrialState.COMPLETE:
        return None
    for k in np.flatnonzero((taken >= 0) & (taken != had)):
        factor = state.spec.space.factors[k]
        was, now = factor.levels[had[k]], factor.levels[taken[k]]
        return f"trial {trial} was told with {factor.name}={was} already, not {now}; use `correct` if that was wrong"
    return None


def levels_of_run(state: StudyState, trial: int) -> NDArray[np.int16]:
    """The levels of all levers in a trial, set or taken by nature; FREE where it is not known what nature took."""
    block, row = state.blocks[state.trials.block[trial]], state.trials.row[trial]
    codes = block.batch.codes if block.observed is None else block.observed
    found: NDArray[np.int16] = state.spec.expand(codes[row : row + 1])[0]
    return found


def corrected_levels(state: StudyState, trial: int, taken: NDArray[np.int16] | None) -> tuple[int, ...] | None:
    """The levels of all levers in a trial of which something else is said now; None where it is nothing else."""
    if taken is None or not 0 <= trial < state.trials.n_trials:
        return None
    block, row = state.blocks[state.trials.block[trial]], state.trials.row[trial]
    asked, had = state.spec.expand(block.batch.codes[row : row + 1])[0], levels_of_run(state, trial)
    for k in np.flatnonzero((taken >= 0) & (asked != FREE) & (taken != asked)):
        raise ObservedLevelError(_why_wrong(state, trial, int(k), int(asked[k]), int(taken[k])))
    now = np.where(taken >= 0, taken, had)
    return None if (now == had).all() else tuple(int(code) for code in now)


def why_not(state: StudyState, trial: int, value: float) -> str | None:
    """Why an outcome cannot be taken; None when it is the one that is known already."""
    block = state.blocks[state.trials.block[trial]]
    row = int(state.trials.row[trial])
    match TrialState(state.trials.state[trial]):
        case TrialState.COMPLETE:
            before = float(block.values[row])
            if before == value:
                return None
            return f"trial {trial} was told {before:g} already, not {value:g}; use `correct` if that was wrong"
        case TrialState.WAITING:
            return f"trial {trial} was not asked for yet; `ask` hands it out"
        case TrialState.EXCLUDED:
            return f"trial {trial} was told and excluded; `correct` brings it back"
        case TrialState.ABANDONED | TrialState.STALE | TrialState.FAIL | TrialState.RUNNING:
            holder = int(block.holders[row])
            if holder != trial:
                return f"trial {trial} is not needed any more: trial {holder} did the same run and was told first"
            if math.isnan(value):
                return None
            return f"trial {trial} is not needed any more: its round was given up"


def check_running(state: StudyState, trials: Sequence[int]) -> None:
    """Refuse trials that cannot fail now."""
    for trial in trials:
        if not 0 <= trial < state.trials.n_trials:
            raise NoSuchTrialError(f"there is no trial {trial}; trials are 0 to {state.trials.n_trials - 1}")
        found = TrialState(state.trials.state[trial])
        if found is not TrialState.RUNNING:
            raise TrialError(f"trial {trial} is {found.name}; only a RUNNING trial can fail")


def still_running(state: StudyState, trials: Sequence[int]) -> Numbers:
    """Those of some trials that are with a worker, in order; a number that no trial has is refused."""
    which = np.unique(np.array(trials, dtype=np.int64))
    if which.size and not 0 <= which[0] <= which[-1] < state.trials.n_trials:
        wrong = which[0] if which[0] < 0 else which[-1]
        raise NoSuchTrialError(f"there is no trial {wrong}; trials are 0 to {state.trials.n_trials - 1}")
    held: Numbers = which[state.trials.state[which] == TrialState.RUNNING]
    return held


def check_told(state: StudyState, trial: int) -> float:
    """The outcome of a trial; refuses one that has none."""
    if not 0 <= trial < state.trials.n_trials:
        raise NoSuchTrialError(f"there is no trial {trial}; trials are 0 to {state.trials.n_trials - 1}")
    found = TrialState(state.trials.state[trial])
    if found is TrialState.EXCLUDED:
        raise TrialError(f"trial {trial} was excluded; its run was made again, or `correct` brings it back")
    if found is not TrialState.COMPLETE:
        raise TrialError(f"trial {trial} is {found.name}; only an outcome that was told can be changed")
    return float(state.blocks[state.trials.block[trial]].values[state.trials.row[trial]])


def is_correctable(state: StudyState, trial: int) -> bool:
    """Whether a trial has an outcome that can be corrected: told, or excluded and not made again since."""
    found, block = TrialState(state.trials.state[trial]), state.blocks[state.trials.block[trial]]
    empty = bool(np.isnan(block.values[state.trials.row[trial]]))
    return found is TrialState.COMPLETE or (found is TrialState.EXCLUDED and empty)


def check_correctable(state: StudyState, trial: int, value: float, *, same: bool = False) -> float:
    """The outcome that a correction replaces; refuses what cannot be corrected.

    The `same` outcome is refused too, unless something else about the run is corrected.
    """
    if math.isnan(value):
        raise TrialError(f"the outcome of trial {trial} can be corrected to a number, not to nan; see `exclude`")
    if (why := state.spec.outcome_scale.refusal(value)) is not None:
        raise TrialError(f"the outcome of trial {trial} cannot be corrected to {value:g}: {why}")
    excluded = {one.trial: one.value for one in state.exclusions}
    if trial in excluded and is_correctable(state, trial):
        return excluded[trial]
    before = check_told(state, trial)
    if before == value and not same:
        raise TrialError(f"the outcome of trial {trial} is {value:g} already")
    return before


def whole_numbers(trials: ArrayLike) -> Numbers:
    """Trial numbers as an array; anything but whole numbers is refused.

    >>> whole_numbers([0, 2]).tolist()
    [0, 2]
    """
    given: NDArray[np.generic] = np.atleast_1d(np.asarray(trials))
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TrialError(f"trials are given by their whole numbers, not as {given.dtype.name}")
    return given.astype(np.int64)


def past_runs(space: Space, codes: ArrayLike, values: ArrayLike) -> tuple[Codes, Values]:
    """Level positions and outcomes of runs that are to be imported.

    >>> past_runs(Space.sized([2, 3]), [[0, 2]], [1.5])[0].tolist()
    [[0, 2]]
    """
    rows, y = np.asarray(codes), np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != space.n_factors or not np.issubdtype(rows.dtype, np.integer):
        raise TrialError(f"runs are rows of {space.n_factors} level positions, not an array of shape {rows.shape}")
    if rows.size and ((rows < 0).any() or (rows >= np.asarray(space.n_levels)).any()):
        raise TrialError("a run has a level that its factor does not have")
    if y.shape != (len(rows),) or not len(y):
        raise TrialError(
            f"{len(rows)} runs and {y.size} outcomes came; give one outcome for each run, and at least one"
        )
    bad = np.flatnonzero(~(np.abs(y) <= MAX_OUTCOME))
    if bad.size:
        raise TrialError(f"outcome {bad[0] + 1} of {len(y)} is {y[bad[0]]}; every outcome must be a finite number")
    return rows.astype(np.int16), y
