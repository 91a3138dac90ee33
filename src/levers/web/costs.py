"""What a request will take, about, from its sizes alone: what takes too long is refused before it is begun.

Fitted to plans and first rounds on one core: for each factor and each different number of levels there is a tail of a
distribution to be found, and up to `_FEW` factors a limit that is computed exactly.
"""

from collections.abc import Sequence

from levers.errors import InvalidSettingError

_TAIL_SECONDS, _EXACT_SECONDS, _FEW = 4e-4, 3e-3, 60


def certificate_seconds(n_levels: Sequence[int]) -> float:
    """Seconds that the certificate of a space takes, about.

    >>> round(certificate_seconds([4] * 1000), 1), round(certificate_seconds(range(2, 1002)))
    (0.4, 400)
    """
    each = _TAIL_SECONDS + (_EXACT_SECONDS if len(n_levels) <= _FEW else 0.0)
    return each * len(n_levels) * len(set(n_levels))


def check_cost(n_levels: Sequence[int], most: float, n_plans: int = 1) -> None:
    """Refuse a space whose certificates take longer than the service gives to one request.

    >>> check_cost([2, 3, 4], 60.0)
    """
    seconds = n_plans * certificate_seconds(n_levels)
    if seconds > most:
        raise InvalidSettingError(
            f"{len(n_levels):,} levers of {len(set(n_levels)):,} different sizes take about {seconds:,.0f} s, "
            f"and the service gives a request {most:g} s; give more levers the same number, or use levers in Python",
            field="factors",
        )
