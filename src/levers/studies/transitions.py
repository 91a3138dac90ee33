"""What a study does next: pure functions from its state to the events that follow."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from levers.algorithms.base import PAST, Batch, Verdict
from levers.core.space import Codes
from levers.studies.events import (
    ConfirmationClosed,
    ConfirmationOpened,
    Continued,
    Created,
    Decided,
    Event,
    Finished,
    Imported,
    Numbers,
    Opened,
    Restated,
    Revised,
    Values,
)
from levers.studies.spec import StudySpec
from levers.studies.state import (
    APART,
    AS_DESIGNED,
    AS_RUN,
    CONFIRMATION,
    CONFIRMING,
    OPEN,
    SET_ASIDE,
    Block,
    StudyState,
    TrialState,
)

CHECK_GROWTH = 1.35
"""While a study runs it is checked again when it has this many times the runs of the check before: a check that is made
often has to be the more forgiving, and sees less."""


FRESH = "confirmation"
"""The stage of fresh runs that a verdict is compared with."""
KEPT = "kept after a correction"
"""The stage of runs that were asked for on a decision that has since been taken again."""


def first_events(spec: StudySpec) -> list[Event]:
    """A study begins with its first block designed."""
    start = spec.solver.start()
    return [Created(spec), Decided(start), *_opening(spec, start, 0)]


def following_events(state: StudyState) -> list[Event]:
    """When the awaited block is complete: what the algorithm makes of it, and the next block unless that is the end.

    Fresh runs of a confirmation are over then, and the algorithm does not see them.
    """
    fresh = state.confirming_block
    if fresh is not None:
        return [] if fresh.n_missing else [ConfirmationClosed()]
    decided = decision(state)
    return [] if decided is None else [decided, *_opening(state.spec, decided.state, len(state.blocks))]


def decision(state: StudyState) -> Decided | None:
    """What the algorithm makes of the open block and of imports; None while outcomes are missing."""
    block = state.open_block
    if block is None or block.n_missing:
        return None
    known = _told(state.spec, state.known[-1], block)
    return Decided(_with_past(state, known, state.n_past_used), len(state.past))


def opening(state: StudyState) -> list[Event]:
    """The block that follows from what is known; none at the end."""
    return _opening(state.spec, state.known[-1], len(state.blocks))


def ending(state: StudyState) -> Verdict:
    """What the algorithm answers at the end of a study."""
    step = state.spec.solver.ask(state.known[-1], state.spec.generator(state.n_designed))
    assert isinstance(step, Verdict)  # a study without an open block has nothing left to ask
    return step


def confirming(state: StudyState, n_runs: int, reason: str) -> ConfirmationOpened:
    """Fresh runs at the verdict's setting, `n_runs` of them, and as many at the baseline where there is one.

    Each run of the setting stands beside one of the baseline, which of them first is drawn from the study's seed: what
    drifts slowly does the same to both, and does not look like a gain.
    """
    spec, setting = state.spec, ending(state).assignment.codes
    baseline = spec.inner_baseline
    pair = [setting] if baseline is None or tuple(baseline) == tuple(setting) else [setting, baseline]
    rng = spec.generator(len(state.blocks))
    rows = [pair[i] for _ in range(n_runs) for i in rng.permutation(len(pair))]
    return ConfirmationOpened(Batch(np.array(rows, dtype=np.int16), FRESH), n_runs, reason)


def _told(spec: StudySpec, known: Any, block: Block) -> Any:
    """What is known after a complete block. The rows in the log are its design."""
    return spec.solver.tell_block(known, block.as_run, spec.outcome_scale.inward(block.values))


def _with_past(state: StudyState, known: Any, begin: int, end: int | None = None) -> Any:
    """What is known with some of the imports added."""
    for past in state.past[begin:end]:
        known = _absorbed(state.spec, known, state.spec.contract(past.codes), past.values, PAST)
    return known


def _opening(spec: StudySpec, known: Any, block: int) -> list[Event]:
    step = spec.solver.ask(known, spec.generator(block))
    return [Opened(step)] if isinstance(step, Batch) else []


def _absorbed(
    spec: StudySpec, known: Any, codes: Codes, values: Values, stage: str, order: Numbers | None = None
) -> Any:
    """What is known with runs added that were made, but are not due; `order` is which rows of their round they are."""
    if not len(values):
        return known
    return spec.solver.absorb(known, codes, spec.outcome_scale.inward(values), stage, order)


def finished_runs(state: StudyState, name: str) -> list[Event]:
    """All runs of a study as imports of another, block by block: each block's rows were chosen before its outcomes.

    Past runs have to be set, so those that left a lever alone are not among them.
    """
    found: list[Event] = list(state.past)
    for i, block in enumerate(state.blocks):
        codes, values = block.set_rows()
        if block.role not in APART and len(values):
            found.append(Imported(state.spec.expand(codes), values, f"round {i + 1} of {name}"))
    return found


def is_check_due(state: StudyState) -> bool:
    """Whether the checks are to be made: at the end, and when there are many more runs than at the last look."""
    if not state.n_closed:
        return False
    return state.open_block is None or state.n_closed >= CHECK_GROWTH * max(state.checked_runs, default=0)


def finishing(state: StudyState, reason: str) -> Finished:
    """The end that somebody chose: what the block under way has of outcomes counts, and nothing is asked any more."""
    block = state.open_block
    if block is None:
        return Finished(None, reason)
    known = _with_past(state, state.known[-1], state.n_past_used)
    codes, values = block.told_rows()
    outcomes = state.spec.outcome_scale.inward(values)
    return Finished(state.spec.solver.finish(known, codes, outcomes, block.told_order), reason)


def continuing(state: StudyState, n_runs: int | None, reason: str) -> list[Event]:
    """One more block after the end."""
    went_on = continuation(state, n_runs, reason)
    return [went_on, *_opening(state.spec, went_on.state, len(state.blocks))]


def continuation(state: StudyState, n_runs: int | None, reason: str) -> Continued:
    """What the algorithm goes on from after the end."""
    return Continued(state.spec.solver.extend(state.known[-1], n_runs), reason, n_runs)


def restating(state: StudyState, spec: StudySpec, changes: tuple[str, ...], reason: str) -> list[Event]:
    """All runs so far under other terms, and the next block unless that is the end."""
    restated = restatement(state, spec, changes, reason)
    return [restated, *_opening(spec, restated.state, len(state.blocks))]


def restatement(state: StudyState, spec: StudySpec, changes: tuple[str, ...], reason: str) -> Restated:
    """All runs so far under other terms."""
    return Restated(spec, _afresh(state, spec, len(state.blocks), len(state.past)), changes, reason)


def _afresh(state: StudyState, spec: StudySpec, n_blocks: int, n_past: int) -> Any:
    """What the outcomes of the first blocks and imports say to an algorithm that begins with them.

    Each block's rows were chosen before its outcomes, so it counts as evidence whatever it was designed for.
    """
    known = spec.solver.start_like(state.known[0])
    for past in state.past[:n_past]:
        known = _absorbed(spec, known, spec.contract(past.codes), past.values, PAST)
    for block in state.blocks[:n_blocks]:
        if block.role not in APART:
            known = _absorbed(spec, known, *block.told_rows(), block.batch.stage, block.told_order)
    return spec.solver.resume(known)


def next_trials(state: StudyState, n: int) -> Numbers:
    """Up to n trials that wait: rows asked again first, then new ones."""
    block = state.awaited_block
    if block is None:
        return np.zeros(0, dtype=np.int64)
    again = list(islice((t for t in state.again if state.trials.state[t] == TrialState.WAITING), n))
    last = min(state.fresh + n - len(again), block.first + block.n_runs)
    return np.concatenate([np.array(again, dtype=np.int64), np.arange(state.fresh, last)])


def expired_trials(state: StudyState, now: float) -> Numbers:
    """The trials whose deadline has passed."""
    heap, places, late = state.expiring, [0], []
    while places:  # down the heap as far as deadlines have passed, so that leases that live on cost nothing
        i = places.pop()
        if i < len(heap) and heap[i][0] <= now:
            _, lease, trials = heap[i]
            late += [t for t in trials if (state.trials.state[t], state.trials.lease[t]) == (TrialState.RUNNING, lease)]
            places += [2 * i + 1, 2 * i + 2]
    return np.array(sorted(late), dtype=np.int64)


def revision(state: StudyState, corrected: Sequence[int]) -> Revised | None:
    """The decisions since the corrected trials' first block, taken again; None when nothing was decided on it yet.

    Blocks that would be designed the same again keep their part. Others stay as evidence: their rows were chosen before
    their outcomes, so the anytime radii hold for them too (docs/decisions/0012).
    """
    spec = state.spec
    touched = {int(state.trials.block[trial]) for trial in corrected}
    first = min((i for i in touched if state.blocks[i].role not in (CONFIRMING, CONFIRMATION)), default=None)
    if first is None or state.blocks[first].role == OPEN:
        return None
    roles: list[str] = []
    states: list[Any] = []
    if first < state.restated:  # what came before other terms were set is taken in once more, under these
        first = state.restated - 1
        known = _afresh(state, spec, state.restated, state.past_used[state.restated])
        roles.append(state.blocks[first].role)
        states.append(known)
    else:
        known = state.known[first]
    for i in range(first + len(states), len(state.blocks)):
        block = state.blocks[i]
        if block.role == CONFIRMING and state.ended is not None and not spec.solver.progress(known).finished:
            known = states[-1] = _ended(state, known)
        role = _role_again(state, known, i)
        if role in (OPEN, CONFIRMING):
            roles.append(role)
            break
        if role == AS_DESIGNED:
            known = _told(spec, known, block)
        elif role == AS_RUN:
            known = _absorbed(spec, known, *block.told_rows(), KEPT, block.told_order)
        known = _with_past(
            state, known, state.past_used[i], state.past_used[i + 1] if i + 1 < len(state.past_used) else None
        )
        roles.append(role)
        states.append(known)
    if state.ended is not None and not spec.solver.progress(known).finished:
        known = states[-1] = _ended(state, known)
    changes = _changes(spec, state.known[-1], known)
    aside = [block for block, role in zip(state.blocks[first:], roles, strict=False) if role == SET_ASIDE != block.role]
    n_aside = sum(block.n_runs - block.n_missing for block in aside)
    if n_aside:
        changes = (
            *changes,
            f"{n_aside} outcomes are set aside: {spec.algorithm} cannot use runs that it would not ask for",
        )
    return Revised(first, tuple(roles), tuple(states), changes)


def _ended(state: StudyState, known: Any) -> Any:
    """What is known at the end that somebody chose: whoever ended the study has not changed that."""
    return state.spec.solver.finish(known, state.blocks[-1].batch.codes[:0], np.zeros(0))


def with_excluded(state: StudyState) -> tuple[StudyState, Any] | None:
    """The study as if nothing had been excluded, and what the algorithm would know then; None where nothing changes."""
    twin = state.copy()
    for one in twin.exclusions:
        block, row = twin.blocks[twin.trials.block[one.trial]], twin.trials.row[one.trial]
        if np.isnan(block.values[row]):  # else its run was made again
            block.values[row] = one.value
            block.n_missing -= 1
    found = revision(twin, [one.trial for one in twin.exclusions])
    return (twin, found.states[-1]) if found is not None and found.states else None


def after_revision(state: StudyState) -> list[Event]:
    """The next block, if the revision closed the open one or brought a study back that had ended by itself."""
    if state.ended is not None:
        return []
    return [] if state.open_block is not None else opening(state)


def _role_again(state: StudyState, known: Any, i: int) -> str:
    """How a block is used when `known` comes before it."""
    spec, block = state.spec, state.blocks[i]
    if block.role == CONFIRMATION:
        return CONFIRMATION
    if block.role == CONFIRMING:  # it goes on if it is still this setting that is to be confirmed
        step = spec.solver.ask(known, spec.generator(state.n_designed))
        same = isinstance(step, Verdict) and (block.batch.codes == step.assignment.codes).all(axis=1).any()
        return CONFIRMING if same else CONFIRMATION
    closed = block.role if block.role != OPEN else None
    absorbed = AS_RUN if spec.solver.absorbs_runs else SET_ASIDE
    if closed is not None and block.n_missing:  # given up half way, or without an outcome that was excluded
        return SET_ASIDE if closed == SET_ASIDE else absorbed
    step = spec.solver.ask(known, spec.generator(i))
    if isinstance(step, Batch):
        asked, made = step, block.batch
        if asked.stage == made.stage and asked.focus == made.focus and np.array_equal(asked.codes, made.codes):
            return OPEN if closed is None else AS_DESIGNED
    return absorbed


def _changes(spec: StudySpec, before: Any, after: Any) -> tuple[str, ...]:
    """What is different now, in words."""
    factors = spec.inner.factors
    lines = []
    was, now = spec.solver.progress(before), spec.solver.progress(after)
    gone = [{(e.factor, e.level) for e in at.eliminations} for at in (was, now)]
    for k, level in sorted(gone[0] - gone[1]):
        lines.append(f"{factors[k].name}={factors[k].levels[level]} was ruled out and is back in play")
    for k, level in sorted(gone[1] - gone[0]):
        lines.append(f"{factors[k].name}={factors[k].levels[level]} is now ruled out")
    # a state in which nothing leads yet has no leaders
    for k, (old, new) in enumerate(zip(was.leaders, now.leaders, strict=False)):
        if old != new:
            lines.append(
                f"the leading level of {factors[k].name} is {factors[k].levels[new]}, not {factors[k].levels[old]}"
            )
    if was.finished != now.finished:
        lines.append(
            "the study has come to its end" if now.finished else "the study is not at its end any more: runs are needed"
        )
    return tuple(lines)
