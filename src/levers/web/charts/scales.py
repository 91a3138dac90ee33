"""From numbers to places on a drawing, with round numbers to mark."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from levers.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers from `low` to `high` on the way from `begin` to `end`. What is outside is put at the edge.

    >>> scale = Scale(0.0, 10.0, 100.0, 200.0)
    >>> scale(2.5), scale(99), [text for _, text in scale.ticks(3)]
    (125.0, 200.0, ['0', '5', '10'])
    >>> [text for _, text in Scale(1.0, 1000.0, 0.0, 90.0, log=True).ticks(4)]
    ['1', '10', '100', '1,000']
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise InvalidSettingError(f"a scale from {self.low} to {self.high} shows nothing")

    def __call__(self, value: float) -> float:
        """Where a number is."""
        at = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(at / self.low) / math.log(self.high / self.low)
        else:  # halves, because the difference of two very large numbers has no floating-point number
            share = (at / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """About so many round numbers, and their texts."""
        if self.log:
            return self._log_ticks(most)
        step = nice_step((self.high / 2 - self.low / 2) / max(most, 1) * 2)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(i * step, tick_text(i * step, step)) for i in range(first, last + 1)]

    def _log_ticks(self, most: int) -> list[tuple[float, str]]:
        """As many of 1, 2, 5, 10, 20, ... as there is room for; else powers of ten, else every second, and so on."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for digits, every in [((1.0, 2.0, 5.0), 1), *(((1.0,), every) for every in range(1, len(powers) + 1))]:
            found = [d * 10.0**power for power in powers if power % every == 0 for d in digits]
            found = [v for v in found if self.low <= v <= self.high]
            if len(found) <= max(most, 2):
                break
        return [(v, tick_text(v, v)) for v in found]


def nice_step(least: float) -> float:
    """The next of 1, 2, 5 times a power of ten.

    >>> nice_step(0.03), nice_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next((digit * power for digit in (1, 2, 5) if digit * power >= least * (1 - 1e-9)), 10 * power)


def tick_text(value: float, step: float) -> str:
    """A number beside an axis whose marks are `step` apart, with no more digits than that takes.

    >>> tick_text(0.30000000000000004, 0.1), tick_text(1200, 100), tick_text(3e9, 1e9), tick_text(1e-7, 1e-7)
    ('0.3', '1,200', '3e+09', '1e-07')
    """
    digits = max(0, -math.floor(math.log10(abs(step)) + 1e-9))
    if abs(value) < 1e7 and digits <= 5:
        return f"{value + 0.0:,.{digits}f}"
    if abs(value) < abs(step) / 2:
        return "0"
    figures = math.floor(math.log10(abs(value)) + 1e-9) - math.floor(math.log10(abs(step)) + 1e-9) + 1
    return f"{value:.{min(max(figures, 1), 15)}g}"


def spanned(values: Iterable[float], begin: float, end: float, *, zero: bool = False, pad: float = 0.04) -> Scale:
    """A scale on which all the numbers are, with a little room; `zero` makes it begin at zero.

    >>> spanned([1, 2], 0, 100, pad=0.5)
    Scale(low=0.5, high=2.5, begin=0, end=100, log=False)
    >>> spanned([3, 3], 0, 100).low < 3 < spanned([3, 3], 0, 100).high
    True
    """
    found = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = (min(0.0, *found), max(0.0, *found)) if zero else (min(found), max(found))
    if high / 2 - low / 2 <= 1e-9 * max(abs(low), abs(high)):
        room = 0.5 * max(abs(low), abs(high)) or 1.0
        return Scale(0.0 if zero and low == 0 else low - room, high + room, begin, end)
    limit, room = 1.7e308, 2 * pad * (high / 2 - low / 2)
    return Scale(low if zero and low == 0 else max(low - room, -limit), min(high + room, limit), begin, end)


def log_spanned(values: Iterable[float], begin: float, end: float) -> Scale:
    """A logarithmic scale on which all the positive numbers are, with a little room.

    >>> log_spanned([1, 100], 0, 100).log
    True
    """
    found = [v for v in values if math.isfinite(v) and v > 0] or [1.0, 10.0]
    room = max((max(found) / min(found)) ** 0.05, 1.15)
    return Scale(min(found) / room, max(found) * room, begin, end, log=True)
