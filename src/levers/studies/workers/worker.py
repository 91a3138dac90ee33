"""A worker of a study: runs come to it, outcomes leave it, and nothing that it measured is lost on the way.

Every outcome is written to the worker's journal before the study is told. A storage or a service that is away is tried
again, with pauses that grow, for as long as the worker has patience; meanwhile outcomes gather in the journal, and runs
that are in hand go on. Leases are renewed while a run takes longer.
"""

import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from levers.core.outcome_scale import OutcomeScale
from levers.core.space import Level, Space
from levers.core.validation import check_positive
from levers.errors import (
    BusyWorkerError,
    InvalidOutcomeError,
    JournalError,
    LateOutcomeError,
    LeversError,
    ObservedLevelError,
    StudyError,
    TrialError,
    UnreachableError,
)
from levers.studies.state import Trial, TrialState
from levers.studies.workers.heartbeat import Heartbeat
from levers.studies.workers.journal import Journal, Outcome, Owner, journals
from levers.studies.workers.names import worker_name

LEASE = 60.0
"""Seconds after which the runs of a worker that was killed go to others, where a study is shared."""
PATIENCE = 600.0
"""Seconds for which a storage or a service may be away before a worker gives up."""
MOST_WORKERS = 1_000
"""Workers of one study and one user on one machine."""
MOST_REASON = 2_000
"""Characters of the reason why a run failed that the log has."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
log = logging.getLogger("levers")
T = TypeVar("T")


class WorkedStudy(Protocol):
    """What a worker needs of a study, here or on a service."""

    name: str

    @property
    def address(self) -> str | None:
        """Where it is kept; None in memory."""

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict."""

    def status(self) -> Any:
        """Where it stands."""

    def ask(self, n: int = 1, *, worker: str | None = None, lease: float | None = None) -> list[Trial]:
        """Up to n runs to make."""

    def renew(self, trials: Iterable[Trial | int], *, lease: float) -> list[int]:
        """Keep runs for longer."""

    @property
    def space(self) -> Space:
        """Its levers."""

    @property
    def outcome_scale(self) -> OutcomeScale:
        """How its outcomes add up."""

    def tell_many(
        self,
        outcomes: Iterable[tuple[Trial | int, float]],
        *,
        observed: Mapping[int, Mapping[str, Level]] | None = None,
        insist: bool = True,
    ) -> int:
        """Outcomes of runs."""

    def fail(self, trial: Trial | int, reason: str = "") -> None:
        """A run that gave none."""

    def running(self, worker: str | None = None) -> list[Trial]:
        """The runs that are out."""


class Worker:
    """Asks for runs, keeps their outcomes until the study has them, and waits for a study that is away.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> with Worker.open(study, "ann") as worker:
    ...     trial = worker.ask(1)[0]
    ...     worker.measured(trial, 3.5)
    >>> study.status().n_complete
    1
    """

    def __init__(
        self, study: WorkedStudy, name: str | None, journal: Journal, *, lease: float | None, patience: float
    ) -> None:
        self.study = study
        self.name = name
        self.journal = journal
        self.lease = lease
        self.patience = check_positive("patience", patience)
        self.in_hand: set[int] = set()
        """Trials that were handed out to it and are not told."""
        self.left: list[Trial] = []
        """Those of them that wait to be begun."""
        self._heart = None if lease is None else Heartbeat(lambda trials: study.renew(trials, lease=lease), lease)
        self._away_since: float | None = None
        self._next_try, self._pause = 0.0, _SHORTEST_PAUSE
        self._may_have_more = False
        self._made: set[int] = set()
        self._has_warned = False

    @classmethod
    def open(
        cls,
        study: WorkedStudy,
        name: str | None = None,
        *,
        lease: float | None = None,
        patience: float | None = None,
        adopts: Sequence[str] = (),
    ) -> "Worker":
        """A worker of that name, or of one made of who works here and the machine.

        What was measured and not told by workers of this study on this machine is told first, and runs that the name
        has are gone on with. So are those of `adopts`, names under which older versions had runs without a lease.
        """
        if lease is not None:
            check_positive("lease", lease)
        wait = PATIENCE if patience is None else patience
        if study.address is None:  # it ends with this process, and nobody else has it
            made = cls(study, name, Journal(), lease=lease, patience=wait)
        else:
            owner = Owner(study.address, study.name, float(study.status().created_at), name or worker_name())
            chosen, journal = _journal_of(owner, strict=name is not None)
            made = cls(study, chosen, journal, lease=LEASE if lease is None else lease, patience=wait)
        try:
            made._begin(adopts)
        except BaseException:
            made.close()
            raise
        return made

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self.is_away:
            try:
                self.send()
            except Exception as failure:  # what it is about is in the journal
                log.warning("%s", failure)
        left = self.unsent_words()
        if left is not None and error is not None:
            error.add_note(f"levers: {left}")
        if left is not None:
            log.warning("%s: %s", self.study.name, left)
        self.close()

    def close(self) -> None:
        """End the heartbeat and let go of the journal; `with` does this."""
        if self._heart is not None:
            self._heart.stop()
        self.journal.close()

    def ask(self, n: int) -> list[Trial]:
        """Up to n runs: those that it has already, then new ones. None while the study is away."""
        if not self.left:
            self.left = self.attempt(lambda: self._new(n)) or []
        asked, self.left = self.left[:n], self.left[n:]
        return asked

    def measured(self, trial: Trial, value: float, observed: Mapping[str, Level] | None = None) -> None:
        """The outcome of a run: kept, and told if the study can be reached.

        Raises ObservedLevelError if it was not said what levers took that were left alone; other refusals are logged.
        """
        made = Outcome(trial.number, value, observed, at=time.time(), codes=trial.params.codes)
        refused = self._keep(made).get(trial.number)
        if isinstance(refused, ObservedLevelError):
            raise refused

    def failed(self, trial: Trial, reason: str) -> None:
        """A run that gave no outcome. Whatever an exception says becomes a line that a log can hold."""
        self._keep(Outcome(trial.number, failed=log_line(reason), at=time.time()))

    def send(self) -> dict[int, LeversError]:
        """Tell what is kept, if the study can be reached now; returns what it refused, by trial."""
        return (self.attempt(self._send) or {}) if self.journal.unsent else {}

    @property
    def is_away(self) -> bool:
        """Whether the study could not be reached the last time."""
        return self._away_since is not None

    def attempt(self, act: Callable[[], T]) -> T | None:
        """Do something with the study; None while it is away and should not be tried again yet.

        Raises UnreachableError when it has been away for longer than the patience.
        """
        if self._away_since is not None and time.monotonic() < self._next_try:
            return None
        try:
            found = act()
        except UnreachableError as error:
            self._note_away(error)
            return None
        self._note_back()
        return found

    def patiently(self, act: Callable[[], T]) -> T:
        """Do something with the study, and wait for it as long as there is patience."""
        while True:
            try:
                found = act()
            except UnreachableError as error:
                self._note_away(error)
                self.pause()
            else:
                self._note_back()
                return found

    def pause(self) -> None:
        """Sleep until a study that is away should be tried again."""
        time.sleep(max(0.0, self._next_try - time.monotonic()))

    @property
    def until_next_try(self) -> float | None:
        """Seconds until a study that is away should be tried again; None when it is not away."""
        return None if self._away_since is None else max(0.01, self._next_try - time.monotonic())

    def unsent_words(self) -> str | None:
        """What is not told, where it is and what to do; None when everything is told."""
        n, where = len(self.journal.unsent), self.journal.path
        if not n:
            return None
        what = "1 outcome is" if n == 1 else f"{n:,} outcomes are"
        if where is None:
            return f"{what} not told, and lost when this process ends: trials {_listed(self.journal.unsent)}"
        return (
            f"{what} not told yet (trials {_listed(self.journal.unsent)}), and kept in {where}. Start again, and they "
            "are told first; or `levers journal send`"
        )

    def _begin(self, adopts: Sequence[str]) -> None:
        """Tell what earlier workers have left, and go on with the runs that this one had."""
        if self.journal.owner is not None:
            self._take_over(self.journal.owner)
        if self.journal.unsent:
            self.patiently(self._send)
        if self.name is None:
            return
        mine = self.patiently(partial(self.study.running, self.name))
        for other in adopts:
            theirs = self.patiently(partial(self.study.running, other))
            mine += [trial for trial in theirs if trial.deadline is None]
        if mine and self.lease is not None:
            kept = set(self.patiently(partial(self.study.renew, mine, lease=self.lease)))
            mine = [trial for trial in mine if trial.number in kept]
        self._hold(mine)
        self.left = mine

    def _take_over(self, owner: Owner) -> None:
        """Tell what workers of other names, that are no more, have left about this study."""
        for found in journals(self.journal.path and self.journal.path.parent):
            other = found.owner
            if other is None or not found.unsent or (other.address, other.study) != (owner.address, owner.study):
                continue
            if other.created_at != owner.created_at or other.worker == owner.worker:
                continue
            try:
                with Journal.open(other, self.journal.path and self.journal.path.parent) as journal:
                    if journal.unsent:
                        self.patiently(partial(send, self.study, journal))
            except (BusyWorkerError, JournalError):
                continue

    def _new(self, n: int) -> list[Trial]:
        """New runs; first those of an ask whose answer was lost on the way."""
        if self._may_have_more and self.name is not None:
            lost = [trial for trial in self.study.running(self.name) if trial.number not in self.in_hand]
            self._may_have_more = False
            if lost:
                self._hold(lost)
                return lost
        self._may_have_more = True
        asked = self.study.ask(n, worker=self.name, lease=self.lease)
        self._may_have_more = False
        self._hold(asked)
        return asked

    def _hold(self, trials: Sequence[Trial]) -> None:
        self.in_hand |= {trial.number for trial in trials}
        if self._heart is not None:
            self._heart.hold(trial.number for trial in trials)

    def _keep(self, outcome: Outcome) -> dict[int, LeversError]:
        if self._heart is not None:
            self._heart.release(outcome.trial)
        self._made.add(outcome.trial)
        try:
            self.journal.keep(outcome)
        except JournalError as error:  # it is in memory, and the disk may have room again for the next
            if not self._has_warned:
                log.warning("%s; outcomes that cannot be told are kept in memory only", error)
            self._has_warned = True
        return self.send()

    def _send(self) -> dict[int, LeversError]:
        refused = send(self.study, self.journal)
        self.in_hand -= self._made
        self._made.clear()
        return refused

    def _note_back(self) -> None:
        if self._away_since is not None:
            log.warning("%s answers again after %.0f s", self.study.name, time.monotonic() - self._away_since)
            self._away_since, self._pause = None, _SHORTEST_PAUSE

    def _note_away(self, error: UnreachableError) -> None:
        now = time.monotonic()
        if self._away_since is None:
            self._away_since, self._pause = now, _SHORTEST_PAUSE
            kept = "in memory" if self.journal.path is None else f"in {self.journal.path}"
            log.warning("%s; outcomes are kept %s, trying again for %g s", error, kept, self.patience)
        if now - self._away_since >= self.patience:
            raise error
        pause = self._pause * random.uniform(0.5, 1.0)  # so that a fleet does not come back all at once
        self._next_try = min(now + pause, self._away_since + self.patience)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def send(study: WorkedStudy, journal: Journal) -> dict[int, LeversError]:
    """Tell a study what a journal has, and return what it refused, which the journal keeps as refused.

    What the study has already, or does not need any more, is as good as told.
    """
    refused: dict[int, LeversError] = {}
    told = {one.trial: (_as_asked(study, one), one.value) for one in journal.unsent.values() if one.value is not None}
    if len(told) > 1:
        try:
            study.tell_many(list(told.values()), observed=_taken(journal.unsent.values()))
        except (TrialError, InvalidOutcomeError):  # some of them: one by one says which
            pass
        else:
            _mark(journal, list(told))
    for one in list(journal.unsent.values()):
        try:
            if one.value is None:
                study.fail(one.trial, one.failed or "")
            else:
                study.tell_many([told[one.trial]], observed=_taken([one]))
        except LateOutcomeError as error:
            log.info("%s: %s", study.name, error)
        except (TrialError, InvalidOutcomeError) as error:
            if one.value is not None:
                refused[one.trial] = error
                _reject(journal, one, str(error))
                where = "" if journal.path is None else f"; it is kept in {journal.path}, see `levers journal`"
                log.warning("%s: trial %d: %g was not taken: %s%s", study.name, one.trial, one.value, error, where)
                continue
            log.info("%s: %s", study.name, error)  # told, expired or given up meanwhile: there is nothing to fail
        _mark(journal, [one.trial])
    return refused


def _as_asked(study: WorkedStudy, one: Outcome) -> Trial | int:
    """The run with what it set, so that a study whose number this is no more refuses it."""
    if one.codes is None:  # written by an earlier version
        return one.trial
    return Trial(one.trial, study.space.assignment(one.codes), 0, "", TrialState.RUNNING)


def _taken(outcomes: Iterable[Outcome]) -> dict[int, Mapping[str, Level]] | None:
    return {one.trial: one.observed for one in outcomes if one.observed is not None} or None


def _mark(journal: Journal, trials: Sequence[int]) -> None:
    for trial in trials:
        try:
            journal.told(trial)
        except JournalError as error:  # it is told; being told once more changes nothing
            log.info("%s", error)


def _reject(journal: Journal, one: Outcome, reason: str) -> None:
    try:
        journal.reject(one.trial, reason)
    except JournalError as error:
        log.warning("%s", error)


def _journal_of(owner: Owner, *, strict: bool) -> tuple[str, Journal]:
    """A worker's name and journal. Where the name was not chosen by anybody, the first that is not at work."""
    for i in range(1, MOST_WORKERS + 1):
        name = owner.worker if i == 1 else f"{owner.worker}-{i}"
        try:
            return name, Journal.open(replace(owner, worker=name))
        except BusyWorkerError:
            if strict:
                raise
        except JournalError as error:
            log.warning(
                "%s; the work goes on, and outcomes that cannot be told are kept in memory only. "
                "LEVERS_JOURNAL names another folder",
                error,
            )
            return (name if strict else f"{owner.worker}-{os.getpid()}"), Journal()
    raise StudyError(f"{MOST_WORKERS:,} workers are at work on {owner.study!r} here already")


def log_line(text: str) -> str:
    """A text as one printable line, not too long.

    >>> log_line("ValueError: a\\n\\x1b[2J  b")
    'ValueError: a ?[2J b'
    """
    plain = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in plain)[:MOST_REASON]


def _listed(trials: Iterable[int]) -> str:
    numbers = list(trials)
    more = f" and {len(numbers) - 10:,} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + more
