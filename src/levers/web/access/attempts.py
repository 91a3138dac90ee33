"""Wrong tokens, counted by where they come from."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from levers.web.access.network import neighbourhood

MOST_FAILURES, WINDOW_SECONDS = 10, 300.0
"""So many wrong tokens in so many seconds, from one address; whoever sends more is told to wait."""
MOST_ADDRESSES = 10_000
"""How many addresses are remembered; those that were not heard of for longest are forgotten first."""


class Attempts:
    """How often an address came with a wrong token lately.

    A token that is right works from any address, at any time: many people share an address, and a secret of 256 bits
    is not guessed however often somebody tries. What is limited is how much a wrong one can make the service say.

    >>> attempts = Attempts(most=2, clock=lambda: 100.0)
    >>> [attempts.failed("6.6.6.6"), attempts.failed("6.6.6.6")]
    [1, 2]
    >>> attempts.wait("6.6.6.6"), attempts.wait("6.6.6.7")
    (300.0, 0.0)
    """

    def __init__(
        self,
        most: int = MOST_FAILURES,
        seconds: float = WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str) -> float:
        """Seconds until a wrong token from that address is answered as one again; 0 for at once."""
        with self._lock:
            times = self._failures.get(neighbourhood(address))
            if times is None or len(times) < self._most:
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

    def __len__(self) -> int:
        return len(self._failures)
