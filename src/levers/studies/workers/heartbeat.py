"""Renewing the leases of runs that are still being made, so that only a worker that stopped loses them."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from levers.errors import LeversError, UnreachableError

log = logging.getLogger("levers")
RENEW_AFTER = 0.5
"""The share of a lease after which it is renewed: early enough to try again, late enough to write few events."""
_TRY_AGAIN = 0.1
"""The share of a lease between two tries while the storage is away."""


class Heartbeat:
    """A thread that renews what is held, and sleeps while nothing is.

    `renew` gets trial numbers and returns those that are still held. The clock is an argument, so that tests decide
    what time it is; they call `beat` themselves.

    >>> renewed = []
    >>> heart = Heartbeat(lambda trials: renewed.append(trials) or trials, lease=60.0, clock=iter([0.0, 20.0, 31.0,
    ...                                                                                            31.0]).__next__)
    >>> heart.held |= {7: heart.clock()}
    >>> heart.beat()
    >>> heart.beat()
    >>> renewed
    [[7]]
    """

    def __init__(
        self, renew: Callable[[list[int]], Sequence[int]], lease: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.lease = lease
        self.clock = clock
        self.held: dict[int, float] = {}
        """The trials, and when each was handed out or renewed."""
        self._renew = renew
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def hold(self, trials: Iterable[int]) -> None:
        """Trials that were just handed out."""
        with self._changed:
            now = self.clock()
            self.held |= dict.fromkeys(trials, now)
            if self._thread is None and self.held:
                self._thread = threading.Thread(target=self._run, name="levers heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify()

    def release(self, trial: int) -> None:
        """A trial that was made."""
        with self._changed:
            self.held.pop(trial, None)

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:  # which may be waiting for a service that is away, and ends with the process
            self._thread.join(timeout=1.0)

    def beat(self) -> None:
        """Renew everything that is held, in one event, if the lease of anything is half over."""
        with self._changed:
            trials, began = list(self.held), self.clock()
            if not trials or began < min(self.held.values()) + RENEW_AFTER * self.lease:
                return
        kept = set(self._renew(trials))
        with self._changed:
            for trial in trials:
                if trial in self.held and trial in kept:
                    self.held[trial] = began
                else:  # told meanwhile, or with somebody else: there is nothing to renew
                    self.held.pop(trial, None)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                if not self._stopped:
                    self._changed.wait(pause if self.held else None)
                if self._stopped:
                    return
            try:
                self.beat()
                pause = self._until_due()
            except UnreachableError:
                pause = _TRY_AGAIN * self.lease
            except LeversError as error:  # the study is gone, or the token was revoked: whoever tells hears of it
                log.warning("leases are not renewed any more: %s", error)
                return

    def _until_due(self) -> float:
        with self._changed:
            due = min(self.held.values(), default=self.clock()) + RENEW_AFTER * self.lease
            return max(due - self.clock(), 0.01 * self.lease)
