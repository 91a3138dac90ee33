"""The scale on which effects and noise add up: that of the outcome, or that of its logarithm.

People tell and read outcomes as they are measured. A solver gets numbers that add up, and of which larger ones are
better. `OutcomeScale` is the way between the two, and the only place that knows it.
"""

import math
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.validation import check_positive
from levers.errors import InvalidSettingError

LINEAR, LOG = "linear", "log"
SCALES = (LINEAR, LOG)
"""Effects add up in the outcome's unit, or in its logarithm: then they multiply, and are said in percent."""
_LARGEST_EXPONENT = 700.0
_CERTIFIED_DIGITS = 3
_ROUNDING = 1e-9
_LEAST = 1e-300
"""Numbers below are said as they are: the last of their digits would be 0."""


@dataclass(frozen=True, slots=True)
class OutcomeScale:
    """Numbers that add up and of which larger ones are better, from outcomes y as told, and back.

    Linear: u = s y, with the sign s = -1 where smaller outcomes are better. Log: u = s log y. On the log scale the
    difference of two settings is said as the relative change of the typical outcome against a reference:

        gain(d) = s (exp(s d) - 1) of what somebody has,   loss(d) = -gain(-d) of the better one

    So within 5 % of the best means at least 95 % of it where larger is better, and at most 105 % where smaller is.

    >>> time = OutcomeScale("log", -1.0)
    >>> round(time.loss(math.log(1.12)), 4), round(time.gain(math.log(1.25)), 4)
    (0.12, 0.2)
    >>> amount = OutcomeScale("log", 1.0)
    >>> round(amount.loss(-math.log(0.95)), 4), round(amount.difference(0.05), 6) == round(-math.log(0.95), 6)
    (0.05, True)
    """

    name: str = LINEAR
    sign: float = 1.0

    @property
    def is_log(self) -> bool:
        """Whether effects multiply."""
        return self.name == LOG

    def additive(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """Outcomes as they add up, in their own direction.

        >>> OutcomeScale("log").additive([1.0, math.e]).tolist()
        [0.0, 1.0]
        """
        y = np.asarray(outcomes, dtype=np.float64)
        return np.log(y) if self.is_log else y

    def inward(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """Outcomes as a solver sees them: they add up, and larger is better."""
        return self.sign * self.additive(outcomes)

    def told(self, additive: float) -> float:
        """The outcome that an additive number stands for; of a mean of logarithms, the typical one (the median)."""
        if not self.is_log:
            return additive
        return math.inf if additive > _LARGEST_EXPONENT else math.exp(additive)

    def outward(self, number: float) -> float:
        """The outcome that a solver's number stands for."""
        return self.told(self.sign * number)

    @overload
    def gain(self, difference: float) -> float: ...
    @overload
    def gain(self, difference: float | None) -> float | None: ...
    def gain(self, difference: float | None) -> float | None:
        """What a setting gains that a solver puts so far above another: in the outcome's unit, or a share of it."""
        if difference is None or not self.is_log:
            return difference
        exponent = self.sign * difference
        return self.sign * (math.inf if exponent > _LARGEST_EXPONENT else math.expm1(exponent))

    @overload
    def loss(self, difference: float) -> float: ...
    @overload
    def loss(self, difference: float | None) -> float | None: ...
    def loss(self, difference: float | None) -> float | None:
        """What a setting loses that a solver puts so far below another: in the outcome's unit, or a share of that."""
        return difference if difference is None or not self.is_log else -self.gain(-difference)

    def losses(self, *differences: float | None) -> tuple[float | None, ...]:
        """`loss` of each.

        >>> OutcomeScale().losses(0.5, None)
        (0.5, None)
        """
        return tuple(map(self.loss, differences)) if self.is_log else differences

    def difference(self, loss: float) -> float:
        """How far apart a solver puts two settings of which one loses so much: the inverse of `loss`."""
        return -self.sign * math.log1p(-self.sign * loss) if self.is_log else loss

    def check_amount(self, name: str, amount: float) -> None:
        """Refuse a tolerance or a least effect that nothing can lose.

        >>> OutcomeScale("log").check_amount("tolerance", 5)
        Traceback (most recent call last):
        levers.errors.InvalidSettingError: tolerance is a share on a log scale, and below 1 where larger is better: \
0.05 is 5 %, not 5
        """
        if self.is_log and check_positive(name, amount) >= 1 and self.sign > 0:
            raise InvalidSettingError(
                f"{name} is a share on a log scale, and below 1 where larger is better: 0.05 is 5 %, not {amount:g}",
                field=name,
            )

    def refusal(self, value: float) -> str | None:
        """Why an outcome cannot be on this scale, to be said after the outcome; None where it can.

        >>> OutcomeScale("log").refusal(0.0), OutcomeScale("log").refusal(0.1), OutcomeScale().refusal(0.0)
        ('on a log scale every outcome is above 0', None, None)
        """
        return "on a log scale every outcome is above 0" if self.is_log and value <= 0 else None

    def said(self, amount: float, digits: str = ".4g") -> str:
        """A loss, gain, tolerance or noise in words: a number in the outcome's unit, or percent.

        >>> OutcomeScale().said(0.1234), OutcomeScale("log").said(0.1234), OutcomeScale("log").said(-0.0)
        ('0.1234', '12.34 %', '0 %')
        """
        return f"{100 * amount + 0.0:{digits}} %" if self.is_log else f"{amount + 0.0:{digits}}"

    def certified(self, amount: float) -> str:
        """What is certified, in words: three digits, rounded up, because no more may be said than was certified.

        >>> [OutcomeScale().certified(amount) for amount in (1.494518, 0.5, 0.0, 1234.0, math.inf)]
        ['1.5', '0.5', '0', '1240', 'inf']
        >>> OutcomeScale("log").certified(0.12341)
        '12.4 %'
        """
        found = 100 * amount if self.is_log else amount
        if _LEAST < found < math.inf:
            step = 10.0 ** (math.floor(math.log10(found)) - _CERTIFIED_DIGITS + 1)
            found = math.ceil(found / step - _ROUNDING) * step
        text = f"{found + 0.0:.{_CERTIFIED_DIGITS}g}" if found < 10**_CERTIFIED_DIGITS else f"{found:.6g}"
        return f"{text} %" if self.is_log else text


EVERY_SCALE = {name: OutcomeScale(name) for name in SCALES}
"""Each scale where larger outcomes are better: enough to say amounts."""
AS_TOLD = EVERY_SCALE[LINEAR]
"""Outcomes as they are, larger being better."""
