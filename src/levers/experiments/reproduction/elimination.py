"""The comparison with successive elimination over whole assignments, which only small spaces allow."""

from levers.experiments.reproduction.sweep import CFS, ELIMINATION, MODL, ORACLE, PARENTS_FIRST, WATCHING, Point, Sweep

_EVERYBODY = (CFS, MODL, PARENTS_FIRST, ORACLE, WATCHING, ELIMINATION)
_PARENTS: dict[str, dict[int, tuple[int, ...]]] = {
    "smoke": {4: (1, 3)},
    "notebook": {4: (1, 2, 3, 4), 6: (1, 3, 6)},
    "paper": {4: (1, 2, 3, 4), 6: (1, 3, 6)},
}


def panel(n_factors: int) -> str:
    """A panel's name."""
    return f"K = {n_factors}"


SWEEP = Sweep(
    "elimination",
    "Whole assignments as arms: successive elimination",
    "parents of the outcome",
    {
        size: tuple(Point.at(panel(k), p, _EVERYBODY, n_factors=k, n_parents=p) for k, ps in by_k.items() for p in ps)
        for size, by_k in _PARENTS.items()
    },
    "Successive elimination here really eliminates; the released code's does not, and needs up to 13 times more.",
)
