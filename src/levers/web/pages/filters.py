"""Numbers, moments and levels as people read them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from markupsafe import Markup

from levers.core.outcome_scale import EVERY_SCALE, LINEAR
from levers.studies.sheets.cells import level_text, typed_number, typed_whole

_HUGE = 10**15
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")


def count(n: int | None) -> str:
    """A number of runs.

    >>> count(12345), count(None), count(10**40)
    ('12,345', 'not known', '10^40')
    """
    if n is None:
        return "not known"
    return f"{n:,}" if n < _HUGE else f"10^{len(str(n)) - 1}"


def number(value: float | None) -> str:
    """A measured number: four digits are enough to read.

    >>> number(1 / 3), number(1234567.0), number(None), number(-0.0)
    ('0.3333', '1.235e+06', '-', '0')
    """
    return "-" if value is None else f"{value + 0.0:.4g}"


def amount(value: float | None, scale: str = LINEAR, digits: str = ".4g") -> str:
    """A loss, gain, tolerance or noise: in the outcome's unit, or in percent on a log scale.

    >>> amount(0.1234), amount(0.1234, "log"), amount(None)
    ('0.1234', '12.34 %', '-')
    """
    return "-" if value is None else EVERY_SCALE[scale].said(value, digits)


def certified(value: float | None, scale: str = LINEAR) -> str:
    """What is certified, rounded up, so that no more is said than that.

    >>> certified(0.12341), certified(0.12341, "log"), certified(None)
    ('0.124', '12.4 %', '-')
    """
    return "-" if value is None else EVERY_SCALE[scale].certified(value)


def exact(value: float) -> str:
    """An outcome with all its digits.

    >>> exact(3.0), exact(0.1)
    ('3', '0.1')
    """
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text


def percent(share: float) -> str:
    """A probability.

    >>> percent(0.9), percent(0.995)
    ('90 %', '99.5 %')
    """
    return f"{100 * share:.6g} %"


def moment(seconds: float | None) -> Markup:
    """A moment in UTC; a script of the page shows it in the reader's own time.

    >>> moment(0.0)
    Markup('<time datetime="1970-01-01T00:00:00Z">1970-01-01 00:00 UTC</time>')
    """
    if seconds is None:
        return Markup("-")
    at = datetime.fromtimestamp(seconds, UTC)
    return Markup('<time datetime="{}">{}</time>').format(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%Y-%m-%d %H:%M} UTC")


def named(value: object, most: int = 120) -> Markup:
    """A name that somebody chose: kept from turning the text around it, and clipped where it is very long.

    >>> named("<b>")
    Markup('<bdi>&lt;b&gt;</bdi>')
    """
    text = level_text(value)
    if len(text) <= most:
        return Markup("<bdi>{}</bdi>").format(text)
    return Markup('<bdi title="{}">{}…</bdi>').format(text[:1000], text[: most - 1])


def decimal(text: str, what: str = "the outcome", *, comma: bool = False) -> float:
    """A number as people type it: 1.5, 1,5, -2e3. What could be read in two ways, as 1,234, is refused.

    With `comma` it is known that a comma divides off decimals: see `has_comma`.

    >>> decimal(" 1,5 "), decimal("\\u22122e3"), decimal("1,234", comma=True)
    (1.5, -2000.0, 1.234)
    >>> decimal("x")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: the outcome must be a number, not 'x'
    """
    return typed_number(text, what, decimal_comma=comma)


def has_comma(texts: Iterable[str]) -> bool:
    """Whether one of several numbers that somebody typed has a comma that can only be a decimal one.

    >>> has_comma(["1,234", "0,5"]), has_comma(["1,234"])
    (True, False)
    """
    return any(re.fullmatch(r"[+-]?(?:0*|[0-9]+),[0-9]+", t) and not _GROUPED.fullmatch(t) for t in texts)


def whole(text: str, what: str) -> int:
    """A whole number as people type it.

    >>> whole("24", "the number of runs")
    24
    """
    return typed_whole(text, what)
