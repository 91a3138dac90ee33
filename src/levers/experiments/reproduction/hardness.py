"""The exponential-hardness instance: one setting of the parents is better, and nothing points to it."""

from levers.experiments.reproduction.sweep import Contender, Point, Sweep

NAIVE = Contender("naive search", "naive-search")
MODL = Contender("modl", "modl")
CFS = Contender("cfs", "cfs")
PANEL = "2 levels, every factor a parent"
TOLERANCE, FAILURE_PROB, HEIGHT = 0.5, 0.1, 1.0
_FACTORS = {"smoke": (2, 4), "notebook": (2, 4, 6, 8), "paper": (2, 3, 4, 5, 6, 7, 8, 9, 10)}

SWEEP = Sweep(
    "hardness",
    "Without the additive assumption: a needle in a haystack",
    "parents of the outcome",
    {size: tuple(Point.at(PANEL, k, (NAIVE, MODL, CFS)) for k in ks) for size, ks in _FACTORS.items()},
    "Naive search is the only one that applies here. The others assume an additive outcome, and their gaps show it.",
)
