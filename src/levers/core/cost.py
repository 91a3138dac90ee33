"""What a study of so many levers and levels costs to begin and to decide, and the most that is begun.

The figures are estimates from level counts and settings alone, so that a study that nobody could wait for is refused
before anything is computed. Their constants were measured on one core of an ordinary server (docs/decisions/0038).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from levers.errors import InvalidSpaceError, raise_together

MAX_FACTORS = 10_000
"""The most levers of a study."""
MAX_FACTOR_LEVELS = 1_000
"""The most levels of one lever of a study."""
MAX_TOTAL_LEVELS = 3_000
"""The most levels of all levers together, where every level is estimated: matrices have the square of it."""
MAX_SPARSE_LEVELS = 50_000
"""The same where few levers matter and only these are estimated."""
MAX_SECONDS = 60.0
"""The longest that a first design and the decision after it may be estimated to take."""
MAX_BYTES = 1_000_000_000
"""The most memory that they may be estimated to take."""
MAX_STORED = 24_000_000
"""The most bytes that a decision may take in the log."""

_CUBE = 8e-10  # seconds for each number of levels cubed: pairs are counted and the information matrix is inverted
_PAIR = 4e-7  # seconds for each pair of levels of one lever: radii, comparisons, what is kept
_TABLE = 0.04  # seconds for the tail of one number of levels, which is made once
_PROVEN = 0.45  # the same of a complete proof, for each level beyond two
_PROVEN_SUM = 0.15  # seconds for each such level of each lever: the sum over levers is a programme of its own
_START = 0.5  # seconds to load what is needed
_LIMIT = 1e-7  # seconds for each pair of levers: what any method needs is a maximum over how many of them matter
_PLANNING = 3.0  # seconds for the sum over levers, and for the studies that a plan simulates
_START_BYTES = 90_000_000
_MATRICES, _PAIR_ARRAYS = 10, 8  # matrices over all levels, and arrays over pairs of levels, that are held at a time
_CELL = 3e-8  # seconds for each run and lever where few levers matter
_SPARSE_RUNS = 2_000  # runs of a long block of such a study


@dataclass(frozen=True)
class Cost:
    """Seconds and bytes that a first design and the decision after it take, about; the size of that decision in the
    log; the most levels that a study of this kind takes; and by what else it would take `MAX_SPARSE_LEVELS`, in words.
    """

    seconds: float
    n_bytes: int
    stored: int
    most_levels: int = MAX_TOTAL_LEVELS
    takes_more: str = ""


def study_cost(n_levels: Sequence[int], *, sparse: bool = False, pooled: bool = True, proven: bool = False) -> Cost:
    """What a study of levers with so many levels costs, about.

    Every level is estimated from a matrix over all d levels, so time grows with d^3 and memory with d^2, and with the
    squares of the level counts. A `sparse` study estimates few levers, and takes next to nothing. In the log a `pooled`
    study keeps half of its matrix, as about two bytes an entry, and others two numbers for each pair of levels. A
    complete proof (`proven`) is worked out for every different number of levels, level by level.

    >>> study_cost([3] * 4).seconds < 2, study_cost([1000] * 3).seconds > 20
    (True, True)
    >>> study_cost([500] + [2] * 30).stored < 1_000_000 < study_cost([500] + [2] * 30, pooled=False).stored
    True
    >>> study_cost([2] * 10_000, sparse=True).n_bytes < 500_000_000
    True
    """
    d, pairs = sum(n_levels), sum(m * m for m in n_levels)
    seconds = _START + _TABLE * len(set(n_levels))
    if sparse:
        cells = _SPARSE_RUNS * len(n_levels)
        stored = 4 * len(n_levels) + 8 * _SPARSE_RUNS
        return Cost(seconds + _CELL * cells, _START_BYTES + 8 * cells, stored, MAX_SPARSE_LEVELS)
    seconds += _CUBE * d**3 + _PAIR * pairs
    if proven:
        seconds += _proof_seconds(n_levels)
    n_bytes = _START_BYTES + 8 * (_MATRICES * d * d + _PAIR_ARRAYS * pairs)
    return Cost(seconds, n_bytes, (4 * d * d if pooled else 64 * pairs) // 3 + 40 * d)


def plan_cost(n_levels: Sequence[int], *, proven: bool = False) -> Cost:
    """What a plan for levers with so many levels costs, about: tables for its different level counts, but no design.

    >>> plan_cost([5] * 1000).seconds < 5 < plan_cost(range(2, 1002)).seconds
    True
    """
    seconds = _START + _PLANNING + _TABLE * len(set(n_levels)) + _LIMIT * len(n_levels) ** 2
    seconds += _proof_seconds(n_levels) if proven else 0.0
    return Cost(seconds, _START_BYTES, 0, MAX_SPARSE_LEVELS)


def _proof_seconds(n_levels: Sequence[int]) -> float:
    return _PROVEN * sum(m - 2 for m in set(n_levels)) + _PROVEN_SUM * sum(m - 2 for m in n_levels)


def check_cost(n_levels: Sequence[int], cost: Cost) -> None:
    """Refuse levers or levels that are too many for a study, in one line that says what to do.

    >>> check_cost([2000, 2], study_cost([2000, 2]))
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: a lever has 2,000 levels; a study takes at most 1,000 of one lever, so take \
fewer, further apart
    >>> check_cost([2] * 1600, study_cost([2] * 1600))
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: all levers together have 3,200 levels; a study takes at most 3,000
    >>> check_cost([200] * 3, study_cost([200] * 3, proven=True))
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: beginning this study would take about 179 seconds and 0.1 GB; at most 60 seconds \
and 1 GB are allowed, so take fewer levels, or leave out the complete proof
    >>> check_cost([1000] * 3, study_cost([1000] * 3, pooled=False))
    Traceback (most recent call last):
    levers.errors.InvalidSpaceError: every decision of this study would take 64 MB of its log; at most 24 MB are \
allowed, so take fewer levels, or leave out the least effect or the proof
    """
    total, most = sum(n_levels), max(n_levels)
    problems = []
    if len(n_levels) > MAX_FACTORS:
        problems.append(
            f"there are {len(n_levels):,} levers; a study takes at most {MAX_FACTORS:,}, so leave out those that "
            "matter least"
        )
    if most > MAX_FACTOR_LEVELS:
        problems.append(
            f"a lever has {most:,} levels; a study takes at most {MAX_FACTOR_LEVELS:,} of one lever, so take fewer, "
            "further apart"
        )
    elif total > cost.most_levels:
        more = f", or {MAX_SPARSE_LEVELS:,} {cost.takes_more}" if cost.takes_more else ""
        problems.append(f"all levers together have {total:,} levels; a study takes at most {cost.most_levels:,}{more}")
    raise_together(InvalidSpaceError, problems)
    if cost.stored > MAX_STORED:
        raise InvalidSpaceError(
            f"every decision of this study would take {cost.stored / 1e6:.0f} MB of its log; at most "
            f"{MAX_STORED / 1e6:.0f} MB are allowed, so take fewer levels, or leave out the least effect or the proof"
        )
    if cost.seconds > MAX_SECONDS or cost.n_bytes > MAX_BYTES:
        raise InvalidSpaceError(
            f"beginning this study would take about {cost.seconds:.0f} seconds and {cost.n_bytes / 1e9:.1f} GB; at "
            f"most {MAX_SECONDS:.0f} seconds and {MAX_BYTES / 1e9:.0f} GB are allowed, so take fewer levels, or leave "
            "out the complete proof"
        )
