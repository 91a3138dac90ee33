"""Sample complexity and average gap against the number of parents: the paper's main figure, four panels."""

from levers.experiments.reproduction.sweep import ALL_SCHEDULES, Point, Sweep

_PARENTS: dict[str, dict[int, tuple[int, ...]]] = {
    "smoke": {10: (1, 5, 10), 30: (10,)},
    "notebook": {10: (1, 3, 5, 8, 10), 30: (1, 10, 20, 30)},
    "paper": {10: (1, 2, 3, 5, 7, 8, 10), 30: (1, 5, 10, 15, 20, 25, 30)},
}


def panel(n_factors: int, known: bool) -> str:
    """A panel's name."""
    return f"K = {n_factors}, number of parents {'known' if known else 'unknown'}"


def _points(size: str) -> tuple[Point, ...]:
    return tuple(
        Point.at(panel(n_factors, known), p, ALL_SCHEDULES, n_factors=n_factors, n_parents=p, known_parents=known)
        for n_factors, parents in _PARENTS[size].items()
        for known in (False, True)
        for p in parents
    )


SWEEP = Sweep(
    "parents",
    "Runs and gap against the number of parents",
    "parents of the outcome",
    {size: _points(size) for size in _PARENTS},
    "Every run sets all levers. With a known number of parents, cfs, modl and parents-first are told it.",
)
