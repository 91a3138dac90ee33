"""Wrong tokens, counted by where they come from."""

import hashlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from levers.web.access.network import neighbourhood

MOST_FAILURES, WINDOW_SECONDS = 10, 300.0
"""So many wrong tokens in so many seconds, from one address, before it has to wait."""
MOST_ADDRESSES, MOST_TOKENS = 10_000, 10_000
"""How many addresses, and how many tokens that worked, are remembered; the oldest are forgotten first."""


class Attempts:
    """How often an address came with a wrong token lately, and which tokens worked.

    An address that failed too often may go on with tokens that have worked: whoever shares the address with somebody
    who guesses is not locked out. Any other token is not even looked up.

    >>> attempts = Attempts(most=2, clock=lambda: 100.0)
    >>> [attempts.failed("6.6.6.6"), attempts.failed("6.6.6.6")]
    [1, 2]
    >>> attempts.wait("6.6.6.6", "levers_ab_cd"), attempts.wait("6.6.6.7", "levers_ab_cd")
    (300.0, 0.0)
    >>> attempts.worked("levers_ab_cd")
    >>> attempts.wait("6.6.6.6", "levers_ab_cd")
    0.0
    """

    def __init__(
        self,
        most: int = MOST_FAILURES,
        seconds: float = WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str, text: str) -> float:
        """Seconds until this text is looked up for that address; 0 for at once."""
        with self._lock:
            times = self._failures.get(neighbourhood(address))
            if times is None or len(times) < self._most or _digest(text) in self._good:
                return 0.0
            return max(times[0] + self._seconds - self._clock(), 0.0)

    def failed(self, address: str) -> int:
        """Count a wrong token; returns how many came lately, up to the most that are counted."""
        with self._lock:
            key, now = neighbourhood(address), self._clock()
            times = self._failures.setdefault(key, deque(maxlen=self._most))
            self._failures.move_to_end(key)
            times.append(now)
            while times[0] <= now - self._seconds:
                times.popleft()
            while len(self._failures) > MOST_ADDRESSES:
                self._failures.popitem(last=False)
            return len(times)

    def worked(self, text: str) -> None:
        """Remember a token that opened something."""
        with self._lock:
            key = _digest(text)
            self._good[key] = None
            self._good.move_to_end(key)
            while len(self._good) > MOST_TOKENS:
                self._good.popitem(last=False)

    def __len__(self) -> int:
        return len(self._failures)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
