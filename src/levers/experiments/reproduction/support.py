"""Against the number of levels: the x axis is the fewest levels of a factor, the most is three more."""

from levers.experiments.reproduction.sweep import Point, Sweep

_FEWEST = {"smoke": (2, 4), "notebook": (2, 4, 6), "paper": (2, 3, 4, 6)}
_PARENTS = {"smoke": (10,), "notebook": (10, 30), "paper": (10, 30)}


def panel(n_parents: int) -> str:
    """A panel's name."""
    return f"K = 30, {n_parents} parents"


SWEEP = Sweep(
    "support",
    "Runs against the number of levels",
    "fewest levels of a factor (the most is 3 more)",
    {
        size: tuple(
            # tables of nature's choices grow as levels^parents, so the graph is capped where levels are many
            Point.at(panel(p), low, n_factors=30, n_parents=p, levels=(low, low + 3), max_in_degree=4)
            for p in _PARENTS[size]
            for low in lows
        )
        for size, lows in _FEWEST.items()
    },
    "More levels mean more effects to estimate, for every method.",
)
