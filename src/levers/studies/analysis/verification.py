"""A study recomputed from its log alone: the chain, designs, decisions and checks, event by event.

What happened (outcomes, failures, corrections, imports) is taken from the log. What follows from it (rounds, decisions,
revisions, checks) is computed again from the state before each event, and compared with what the log has. Each event is
compared on its own, so one that is wrong does not make all later ones look wrong.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from levers.algorithms.base import Verdict, within_words
from levers.core.codec import from_json, serialisable, to_json
from levers.core.model.checks.check import OUTLIER
from levers.core.model.pooled import OutcomeSteps
from levers.core.outcome_scale import EVERY_SCALE
from levers.errors import UnknownAlgorithmError
from levers.progress import Advance
from levers.studies import events
from levers.studies.analysis import confirmation, views
from levers.studies.analysis.doubts import doubts
from levers.studies.analysis.estimates import counted_runs
from levers.studies.events import EDITION, KEPT_EDITIONS, Event, Record
from levers.studies.log import freeze, thaw
from levers.studies.outcomes import check_correctable, check_told, new_outcomes
from levers.studies.spec import StudySpec
from levers.studies.state import StudyState
from levers.studies.storage.base import Header, Snapshot, Storage, Stored, decoded
from levers.studies.transitions import (
    confirming,
    continuation,
    decision,
    finishing,
    is_check_due,
    opening,
    restatement,
    revision,
)

CLOSE = 1e-6
"""Relative differences of numbers that are rounding: another processor adds up in another order."""
_OURS = __name__.partition(".")[0]
MOST_LISTED = 100
"""How many differences are listed; the first ones say most."""


@serialisable("Difference")
@dataclass(frozen=True, slots=True)
class Difference:
    """Where a log is not what it should be: the event's number (0: the log as a whole), its kind, and what is wrong."""

    seq: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"event {self.seq} ({self.kind}): {self.text}" if self.seq else self.text


@serialisable("StudyVerification")
@dataclass(frozen=True, slots=True)
class StudyVerification:
    """What came of recomputing a study.

    `ok` says that nothing was found wrong. `remarks` are events that could not be recomputed, and why; they accuse
    nobody. `head` is the digest of the last event: kept elsewhere, it tells later whether the log still contains
    everything up to here. `contains_head` answers that for a digest that was given, None without one. `verdict` is what
    the log comes to, None while runs are awaited or where it cannot be folded.
    """

    ok: bool
    n_events: int
    head: str
    n_recomputed: int
    differences: tuple[Difference, ...] = ()
    remarks: tuple[Difference, ...] = ()
    verdict: str | None = None
    contains_head: bool | None = None

    def __str__(self) -> str:
        counts = f"{self.n_events} events, of which {self.n_recomputed} follow from others and were computed again"
        if self.ok:
            return f"{counts}: all is as it should be"
        n = len(self.differences)
        return f"{counts}: {n} thing{'s' if n > 1 else ''} {'are' if n > 1 else 'is'} not as it should be"


def read_log(storage: Storage, study: int) -> tuple[Header, list[Stored]]:
    """A log and what its storage says of it, as of one moment, while others may write."""
    header, stored = storage.header(study), storage.read(study, 0)
    if stored and stored[-1].seq > header.n_events and storage.header(study).n_events >= stored[-1].seq:
        stored = [one for one in stored if one.seq <= header.n_events]  # the others were written in between
    return header, stored


def verify_log(
    header: Header,
    stored: Sequence[Stored],
    snapshot: Snapshot | None = None,
    *,
    head: str | None = None,
    seconds: float = math.inf,
    advance: Advance = lambda done, now: None,
) -> StudyVerification:
    """Recompute a study from its log. With `head`, a digest that was noted before, the log must still contain it.

    After so many `seconds` nothing more is recomputed; the rest is still checked as a chain and folded.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> found = verify_log(*read_log(study.storage, study.id))
    >>> found.ok, found.n_events, found.n_recomputed
    (True, 3, 2)
    """
    wrong = list(_broken_links(header, stored))
    contains = None if head is None else head == header.origin or any(one.digest == head for one in stored)
    if contains is False:
        text = f"the log does not contain {head}: it was rolled back, replaced or written anew since that was noted"
        wrong.append(Difference(0, "", text))
    again = _Recomputation(seconds, snapshot)
    again.run(stored, advance)
    verdict = again.verdict()
    named = {one.seq for one in wrong if one.seq}
    wrong += [one for one in again.differences if one.seq not in named]
    return StudyVerification(
        ok=not wrong,
        n_events=len(stored),
        head=stored[-1].digest if stored else header.origin,
        n_recomputed=again.n_recomputed,
        differences=tuple(wrong[:MOST_LISTED]),
        remarks=tuple(again.remarks[:MOST_LISTED]),
        verdict=verdict,
        contains_head=contains,
    )


def _broken_links(header: Header, stored: Sequence[Stored]) -> Iterator[Difference]:
    """Where the chain does not hold, each place once."""
    seq, head = 0, header.origin
    for one in stored:
        if one.seq != seq + 1:
            gone = f"event {seq + 1} is" if one.seq == seq + 2 else f"events {seq + 1} to {one.seq - 1} are"
            yield Difference(one.seq, one.kind, f"{gone} missing before it")
        elif one.digest != one.digest_after(head):
            first = "; or the study's name or the time of its creation was changed" if one.seq == 1 else ""
            yield Difference(one.seq, one.kind, f"it, or its digest, is not as it was written{first}")
        seq, head = one.seq, one.digest
    if seq < header.n_events:
        yield Difference(0, "", f"the log ends at event {seq}, and {header.n_events} were written")
    elif seq > header.n_events or header.head != head:
        yield Difference(0, "", f"the storage says that the log ends at event {header.n_events} with {header.head}")


_BEFORE_DECISION = (
    events.Decided,
    events.Corrected,
    events.Excluded,
    events.Revised,
    events.Imported,
    events.ConfirmationClosed,
)
"""What may follow when a round is complete."""


class _Recomputation:
    """Folds a log, and compares what follows from the state with what the log has next."""

    def __init__(self, seconds: float, snapshot: Snapshot | None) -> None:
        self.differences: list[Difference] = []
        self.remarks: list[Difference] = []
        self.n_recomputed = 0
        self._seconds = seconds
        self._ends = time.monotonic() + seconds
        self._snapshot = snapshot
        self._state = StudyState()
        self._at: Stored | None = None  # the event that is looked at
        self._folds = True
        self._changed: list[int] = []  # trials whose outcomes were changed since anything was decided on them
        self._opening_due = False
        self._check_due: str = ""  # "due" where the outcomes are many more, "again" where decisions were taken again

    def run(self, stored: Sequence[Stored], advance: Advance) -> None:
        """All events, as far as they can be folded."""
        self._look_at_snapshot(stored)
        for place, one in enumerate(stored):
            before, self._at = self._at, one
            try:
                event = decoded([one])[0].event
                if self._is_in_time():
                    self._recompute(event, before, stored[place + 1 : place + 2])
                self._state.apply(Record(one.seq, one.at, one.who, event))
            except Exception as error:  # whatever a forged event does to arrays
                self._stop(f"it cannot be taken in: {error}", self.differences)
            if not self._folds:
                return
            self._state.head = one.digest
            self._compare_snapshot()
            advance(1, one.kind)
        if self._is_in_time():
            self._recompute(None, self._at, ())

    def verdict(self) -> str | None:
        """What the log comes to."""
        if not self._folds or self._state.spec_ is None or self._state.open_block is not None or not self._state.known:
            return None
        try:
            found = views.verdict(self._state)
        except Exception as error:  # of a log that ends where no honest one can
            self.differences.append(Difference(0, "", f"the log comes to no verdict: {error or type(error).__name__}"))
            return None
        return None if found is None else _in_short(found)

    def _recompute(self, event: Event | None, before: Stored | None, after: Sequence[Stored]) -> None:
        """Compare an event, and what should have come before it; None is the end of the log."""
        try:
            self._settle(event, before)
            if event is not None:
                self._compare(event, after)
        except UnknownAlgorithmError as error:
            self._stop(f"{error}; without it nothing can be recomputed", self.remarks)
        except Exception as error:  # whatever a forged event does to solvers
            self._wrong(f"it cannot be computed again: {error}")

    def _stop(self, text: str, where: list[Difference]) -> None:
        assert self._at is not None
        where.append(Difference(self._at.seq, self._at.kind, f"{text}; nothing after it was recomputed"))
        self._folds = False

    def _is_in_time(self) -> bool:
        if time.monotonic() < self._ends:
            return True
        if self._ends and self._at is not None:
            text = f"nothing from here on was recomputed: it took more than {self._seconds:g} s"
            self.remarks.append(Difference(self._at.seq, self._at.kind, text))
            self._ends = 0.0
        return False

    def _wrong(self, text: str, at: Stored | None = None) -> None:
        """Note a difference; as a remark where the rules it was written by may be others."""
        one = at or self._at
        assert one is not None
        package = _package_of(self._state.spec_)
        if one.rules in KEPT_EDITIONS and package == _OURS:
            self.differences.append(Difference(one.seq, one.kind, text))
            return
        why = f"it was written by rules of edition {one.rules}, and this version has {EDITION}"
        if one.rules in KEPT_EDITIONS:
            why = f"its algorithm is of the package {package}, which may have changed since"
        self.remarks.append(Difference(one.seq, one.kind, f"{why}; today it would be another: {text}"))

    def _settle(self, event: Event | None, before: Stored | None) -> None:
        """Note what should have come before this event, or before the end of the log, and did not."""
        state = self._state
        if before is None or not state.known:
            return
        block = state.awaited_block
        # a process may end before it has decided, and whoever asks next decides; imports may come in between
        decides = event is None or isinstance(event, _BEFORE_DECISION)
        if block is not None and not block.n_missing and not decides:
            self._wrong("the round is complete after it, and no decision follows", before)
        if self._opening_due and not isinstance(event, events.Opened):
            self._opening_due = False
            if state.open_block is None and state.ended is None and opening(state):
                self._wrong("another round should follow it, and none was opened", before)
        goes_on = isinstance(event, events.Decided | events.Opened | events.Revised | events.Checked)
        if self._check_due and not goes_on:
            due = is_check_due(state) or (self._check_due == "again" and state.doubts is not None)
            self._check_due = ""
            if due and before.rules in KEPT_EDITIONS:  # earlier versions had fewer checks, or none
                self._wrong("the outcomes should have been checked after it, and were not", before)

    def _compare(self, event: Event, after: Sequence[Stored]) -> None:
        """Compute an event again that follows from the state, and check one that does not against it."""
        state = self._state
        match event:
            case events.Created():
                if state.spec_ is not None:
                    self._wrong("the study had been created already")
            case events.Told():
                self._compare_told(event)
            case events.Corrected():
                self._compare_before(event.before, check_correctable(state, event.trial, event.value, same=True))
                self._changed.append(event.trial)
            case events.Excluded():
                self._compare_before(event.before, check_told(state, event.trial))
                self._changed.append(event.trial)
            case events.Decided():
                again = decision(state) if state.known else events.Decided(state.spec.solver.start_like(event.state))
                self._expect(event, again, "no decision was due")
                self._opening_due, self._check_due = True, "again" if self._check_due == "again" else "due"
            case events.Opened():
                rounds = opening(state) if state.awaited_block is None else []
                if not (rounds and self._is_divided_otherwise(event, rounds[0])):
                    self._expect(event, rounds[0] if rounds else None, "no round was due")
                self._opening_due = False
            case events.Revised():
                self._expect(event, revision(state, self._changed) if self._changed else None, "nothing was changed")
                self._opening_due, self._check_due = True, "again"
            case events.Checked():
                self._compare_checked(event)
                self._check_due = ""
            case events.Finished():
                self._expect(event, finishing(state, event.reason), "")
                self._check_due = "due"
            case events.Continued():
                self._expect(event, self._continuation(event, after), "")
                self._opening_due = True
            case events.Restated():
                self._expect(event, restatement(state, event.spec, event.changes, event.reason), "")
                self._opening_due, self._check_due = True, "again"
            case events.ConfirmationOpened():
                due = confirming(state, event.n_runs, event.reason) if state.awaited_block is None else None
                self._expect(event, due, "no fresh runs could be asked for")
            case events.ConfirmationClosed():
                if state.confirming_block is None:
                    self._wrong("no fresh runs were awaited")
                self._check_due = "due"
        if not isinstance(event, events.Corrected | events.Excluded):
            self._changed.clear()

    def _is_divided_otherwise(self, event: events.Opened, again: Event) -> bool:
        """Note a round with the rows of its design in another order, where processors divided rounds differently."""
        assert self._at is not None
        assert isinstance(again, events.Opened)
        rows, made = event.batch.codes, again.batch.codes
        if self._at.rules >= 3 or rows.shape != made.shape or np.array_equal(rows, made):
            return False
        if not np.array_equal(rows[np.lexsort(rows.T)], made[np.lexsort(made.T)]):
            return False
        self.n_recomputed += 1
        text = "its rows are those of the design in another order: before edition 3 that depended on the processor"
        self.remarks.append(Difference(self._at.seq, self._at.kind, text))
        return True

    def _expect(self, event: Event, again: Event | None, why_not: str) -> None:
        self.n_recomputed += 1
        if again is None:
            self._wrong(f"it does not follow from what came before: {why_not}")
            return
        again = from_json(to_json(again), type(event))  # as it would be read from a log
        if isinstance(event, events.Revised) and isinstance(again, events.Revised):
            again = replace(again, changes=event.changes)  # words, which versions put differently
        found = _first_difference(event, again, "", self._rounding())
        if found is not None:
            self._wrong(f"it does not follow from what came before: {found}")

    def _continuation(self, event: events.Continued, after: Sequence[Stored]) -> Event:
        """The same going on. Earlier versions did not keep how many runs were asked for, but opened that many next."""
        found = continuation(self._state, event.n_runs, event.reason)
        if self._at is None or self._at.rules or _first_difference(event, found, "", self._rounding()) is None:
            return found
        opened = [one.event for one in decoded(after) if isinstance(one.event, events.Opened)]
        return (
            replace(continuation(self._state, opened[0].batch.n_runs, event.reason), n_runs=None) if opened else found
        )

    def _compare_told(self, event: events.Told) -> None:
        found = new_outcomes(self._state, event.trials, event.values, event.observed)
        problems = found.problems + found.late
        if problems or len(found.trials) != len(event.trials):
            self._wrong(problems[0][1] if problems else "its outcomes had been told before")

    def _compare_before(self, kept: float, found: float) -> None:
        if kept != found:
            self._wrong(f"the outcome before was {found:g}, and not {kept:g}")

    def _compare_checked(self, event: events.Checked) -> None:
        self.n_recomputed += 1
        found = doubts(self._state)
        was, now = ([(one.kind, one.levers, one.trials, one.block) for one in many] for many in (event.doubts, found))
        if was != now and event.n_runs == self._state.n_closed and self._is_looked_at_otherwise(was, now):
            return
        if was != now or event.n_runs != self._state.n_closed:
            kinds = [", ".join(one.kind for one in many) or "none" for many in (event.doubts, found)]
            runs = (
                f" on {event.n_runs} runs, and not {self._state.n_closed},"
                if event.n_runs != self._state.n_closed
                else ""
            )
            self._wrong(f"the checks{runs} found the doubts: {kinds[0]}; they are: {kinds[1]}")

    def _is_looked_at_otherwise(self, was: Sequence[tuple[Any, ...]], now: Sequence[tuple[Any, ...]]) -> bool:
        """Note doubts that come or go because of what changed with edition 4; False where something else did.

        A round without an outcome was a look at fresh runs, and rounded outcomes were called far out where the others
        fitted exactly. Who is far out is left out of the other checks, so that these may differ as well then.
        """
        assert self._at is not None
        if self._at.rules >= 4:
            return False

        kept, made = ([one for one in many if one[0] != confirmation.KIND] for many in (was, now))
        if kept == made and confirmation.has_empty_rounds(self._state):
            text = "fresh runs were compared at another level: before edition 4 a round without an outcome was a look"
        else:
            before, after = ([one for one in many if one[0] == OUTLIER] for many in (was, now))
            values = self._state.spec.outcome_scale.additive(counted_runs(self._state)[1])
            if before == after or not OutcomeSteps().add(values).resolution:
                return False
            text = "outcomes were far out by another rule: before edition 4 nothing was allowed for rounding"
        self.remarks.append(Difference(self._at.seq, self._at.kind, text))
        return True

    def _rounding(self) -> float:
        """How far a number may be off that is a small difference of large ones: in proportion to squared outcomes."""
        largest = max((float(np.nanmax(np.abs(b.values), initial=0.0)) for b in self._state.blocks), default=0.0)
        return 1e-9 + 1e-13 * largest**2 * max(self._state.n_complete, 1)

    def _look_at_snapshot(self, stored: Sequence[Stored]) -> None:
        """Note a snapshot that is not used, because it is damaged or of another log."""
        kept = self._snapshot
        if kept is None:
            return
        if not kept.is_whole:
            self.differences.append(Difference(0, "", "the snapshot is not as it was made; it is not used"))
        elif not any((one.seq, one.digest) == (kept.seq, kept.head) for one in stored):
            text = f"the snapshot stands at another event {kept.seq} than the log has; it is not used"
            self.differences.append(Difference(0, "", text))
        else:
            return
        self._snapshot = None

    def _compare_snapshot(self) -> None:
        """Whether the snapshot is the state that its event gives."""
        kept = self._snapshot
        if kept is None or kept.seq != self._state.seq:
            return
        try:
            state = thaw(kept.data)
        except Exception:  # whatever damaged bytes do to zlib, zip, JSON and arrays: it is not used
            state = None
        if state is not None and freeze(state) != freeze(self._state):
            text = f"the snapshot at event {kept.seq} is not the state that the log gives"
            self.differences.append(Difference(0, "", text))


def _in_short(found: Verdict) -> str:
    """A verdict in a line."""
    setting = ", ".join(f"{name}={level}" for name, level in found.assignment.items())
    alone = "".join(f", {name} left alone" for name in found.assignment.free)
    promised = "nothing is certified"
    if found.tolerance is not None:
        words = EVERY_SCALE[found.scale].certified
        unclaimed = None if found.tolerance_without_claims is None else words(found.tolerance_without_claims)
        sure = f"with probability {1 - found.failure_prob:g}"
        promised = within_words(words(found.tolerance), "the best", sure, unclaimed)
    return f"{setting}{alone}: {promised}{', but in doubt' if found.doubts else ''}"


def _package_of(spec: StudySpec | None) -> str:
    """The package that a study's algorithm is of."""
    return _OURS if spec is None else type(spec.solver).__module__.partition(".")[0]


def _first_difference(kept: Any, again: Any, where: str, rounding: float) -> str | None:
    """The first place where two values differ by more than rounding, in words; None where they are the same.

    >>> _first_difference((1.0, "a"), (1.0 + 1e-12, "b"), "state", 0.0)
    'state.1 is a, recomputed b'
    """
    if type(kept) is not type(again) and not _are_numbers(kept, again):
        return f"{where or 'it'} is {_shown(kept)}, recomputed {_shown(again)}"
    if is_dataclass(kept) and not isinstance(kept, type):
        parts = [(f.name, getattr(kept, f.name), getattr(again, f.name)) for f in fields(kept) if f.init]
    elif isinstance(kept, tuple):
        if len(kept) != len(again):
            return f"{where} has {len(kept)} entries, recomputed {len(again)}"
        parts = [(str(i), one, other) for i, (one, other) in enumerate(zip(kept, again, strict=True))]
    else:
        return None if _same(kept, again, rounding) else _named(kept, again, where)
    for name, one, other in parts:
        found = _first_difference(one, other, f"{where}.{name}" if where else name, rounding)
        if found is not None:
            return found
    return None


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _same(kept: Any, again: Any, rounding: float) -> bool:
    if isinstance(kept, np.ndarray):
        if kept.shape != again.shape:
            return False
        if kept.dtype.kind != "f":
            return bool(np.array_equal(kept, again))
        size = float(np.nanmax(np.abs(again), initial=0.0)) if again.size else 0.0
        close = CLOSE * size + rounding if np.isfinite(size) else rounding
        return bool(np.allclose(kept, again, rtol=CLOSE, atol=close, equal_nan=True))
    if isinstance(kept, float) or isinstance(again, float):
        return bool(np.isclose(kept, again, rtol=CLOSE, atol=rounding, equal_nan=True))
    return bool(kept == again)


def _named(kept: Any, again: Any, where: str) -> str:
    if isinstance(kept, np.ndarray) and kept.shape == again.shape:
        place = tuple(int(i) for i in np.argwhere(~((kept == again) | ((kept != kept) & (again != again))))[0])
        return f"{where}{list(place)} is {kept[place]}, recomputed {again[place]}"
    if isinstance(kept, np.ndarray):
        return f"{where} has shape {kept.shape}, recomputed {again.shape}"
    return f"{where} is {_shown(kept)}, recomputed {_shown(again)}"


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
