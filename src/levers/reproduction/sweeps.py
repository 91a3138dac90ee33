"""The paper's experiments: points along an axis, and who is compared at each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from levers.core.certificates.sample_size import SCHEDULES
from levers.core.validation import check_choice
from levers.experiments.compare import Comparison

SIZES = ("smoke", "notebook", "paper")
"""Seconds; what the authors released, 20 worlds x 5; what the paper reports, 20 worlds x 50."""

WORLDS_AND_REPEATS = {"smoke": (3, 2), "notebook": (20, 5), "paper": (20, 50)}


FEWER = {"smoke": 1.0, "notebook": 0.5, "paper": 2.0}
"""Runs per world of what the paper's figures do not have, or has to be run row by row; 0.5 is every second world."""


@dataclass(frozen=True)
class Contender:
    """One line of a figure: an algorithm and how it is set up, and whether it makes do with fewer runs."""

    label: str
    algorithm: str
    schedule: str = SCHEDULES[0]
    fewer: bool = False

    def n_repeats(self, size: str, world: int) -> int:
        """How often it runs on a world.

        >>> [Contender("x", "cfs", fewer=True).n_repeats("notebook", world) for world in range(4)]
        [1, 0, 1, 0]
        """
        wanted = FEWER[size] if self.fewer else WORLDS_AND_REPEATS[size][1]
        return round(wanted) if wanted >= 1 else int(world % round(1 / wanted) == 0)


CFS = Contender("cfs", "cfs", fewer=True)
MODL = Contender("modl", "modl")
MODL_ALGORITHM_1 = Contender("modl, algorithm-1", "modl", schedule="algorithm-1", fewer=True)
MODL_PROOF = Contender("modl, proof", "modl", schedule="proof", fewer=True)
PARENTS_FIRST = Contender("parents-first", "parents-first")
ORACLE = Contender("oracle", "oracle")
WATCHING = Contender("observational-regression", "observational-regression", fewer=True)
ELIMINATION = Contender("successive-elimination", "successive-elimination", fewer=True)

USUAL = (CFS, MODL, PARENTS_FIRST, ORACLE, WATCHING)
ALL_SCHEDULES = (CFS, MODL, MODL_ALGORITHM_1, MODL_PROOF, PARENTS_FIRST, ORACLE, WATCHING)


@dataclass(frozen=True)
class Point:
    """One place on an axis: which panel, where, and what differs from the usual setting."""

    panel: str
    x: float
    settings: tuple[tuple[str, Any], ...]
    contenders: tuple[Contender, ...] = USUAL

    @classmethod
    def at(cls, panel: str, x: float, contenders: tuple[Contender, ...] = USUAL, **settings: Any) -> "Point":
        """A point from keyword settings of a comparison."""
        return cls(panel, x, tuple(settings.items()), contenders)

    def comparison(self, contender: Contender, seed: int) -> Comparison:
        """The comparison in which this contender runs here."""
        return Comparison(
            **dict(self.settings),
            algorithms=(contender.algorithm,),
            schedule=contender.schedule,
            seed=seed,
            make_worlds=False,
        )


@dataclass(frozen=True)
class Sweep:
    """An experiment: its axis, and its points for each size."""

    name: str
    title: str
    x_label: str
    points: Mapping[str, tuple[Point, ...]]
    caption: str

    def tasks(self, size: str) -> "list[Task]":
        """All pairs of point and world."""
        check_choice("size", size, SIZES)
        worlds = range(WORLDS_AND_REPEATS[size][0])
        return [Task(self.name, i, world, size) for i in range(len(self.points[size])) for world in worlds]


@dataclass(frozen=True)
class Task:
    """The smallest piece that is kept: everybody on one world of one point."""

    sweep: str
    point: int
    world: int
    size: str
    seed: int = 0

    @property
    def key(self) -> str:
        """Its name among the files that are kept."""
        return f"{self.sweep}-{self.point:03d}-{self.world:03d}"

    def seeded(self, seed: int) -> "Task":
        """The same with another seed."""
        return replace(self, seed=seed)


_PARENTS_PARENTS: dict[str, dict[int, tuple[int, ...]]] = {
    "smoke": {10: (1, 5, 10), 30: (10,)},
    "notebook": {10: (1, 3, 5, 8, 10), 30: (1, 10, 20, 30)},
    "paper": {10: (1, 2, 3, 5, 7, 8, 10), 30: (1, 5, 10, 15, 20, 25, 30)},
}


def parents_panel(n_factors: int, known: bool) -> str:
    """A panel's name."""
    return f"K = {n_factors}, number of parents {'known' if known else 'unknown'}"


def _points(size: str) -> tuple[Point, ...]:
    return tuple(
        Point.at(
            parents_panel(n_factors, known), p, ALL_SCHEDULES, n_factors=n_factors, n_parents=p, known_parents=known
        )
        for n_factors, parents in _PARENTS_PARENTS[size].items()
        for known in (False, True)
        for p in parents
    )


PARENTS_SWEEP = Sweep(
    "parents",
    "Runs and gap against the number of parents",
    "parents of the outcome",
    {size: _points(size) for size in _PARENTS_PARENTS},
    "Every run sets all levers. With a known number of parents, cfs, modl and parents-first are told it.",
)


_EVERYBODY = (CFS, MODL, PARENTS_FIRST, ORACLE, WATCHING, ELIMINATION)
_PARENTS_OF_ARMS: dict[str, dict[int, tuple[int, ...]]] = {
    "smoke": {4: (1, 3)},
    "notebook": {4: (1, 2, 3, 4), 6: (1, 3, 6)},
    "paper": {4: (1, 2, 3, 4), 6: (1, 3, 6)},
}


def elimination_panel(n_factors: int) -> str:
    """A panel's name."""
    return f"K = {n_factors}"


ELIMINATION_SWEEP = Sweep(
    "elimination",
    "Whole assignments as arms: successive elimination",
    "parents of the outcome",
    {
        size: tuple(
            Point.at(elimination_panel(k), p, _EVERYBODY, n_factors=k, n_parents=p)
            for k, ps in by_k.items()
            for p in ps
        )
        for size, by_k in _PARENTS_OF_ARMS.items()
    },
    "Successive elimination here really eliminates; the released code's does not, and needs up to 13 times more.",
)


_FEWEST = {"smoke": (2, 4), "notebook": (2, 4, 6), "paper": (2, 3, 4, 6)}
_PARENTS_OF_SUPPORT = {"smoke": (10,), "notebook": (10, 30), "paper": (10, 30)}


def support_panel(n_parents: int) -> str:
    """A panel's name."""
    return f"K = 30, {n_parents} parents"


SUPPORT_SWEEP = Sweep(
    "support",
    "Runs against the number of levels",
    "fewest levels of a factor (the most is 3 more)",
    {
        size: tuple(
            # tables of nature's choices grow as levels^parents, so the graph is capped where levels are many
            Point.at(support_panel(p), low, n_factors=30, n_parents=p, levels=(low, low + 3), max_in_degree=4)
            for p in _PARENTS_OF_SUPPORT[size]
            for low in lows
        )
        for size, lows in _FEWEST.items()
    },
    "More levels mean more effects to estimate, for every method.",
)


_DEGREES = {"smoke": (1, 5), "notebook": (1, 3, 5), "paper": (1, 2, 3, 5)}
DEGREE_PANEL = "K = 30, 10 parents"

DEGREE_SWEEP = Sweep(
    "degree",
    "Runs and gap against the degree of the graph",
    "expected degree of the graph",
    {
        size: tuple(Point.at(DEGREE_PANEL, d, n_factors=30, n_parents=10, degree=float(d)) for d in degrees)
        for size, degrees in _DEGREES.items()
    },
    "Only watching depends on the graph; whoever sets all levers cuts every arrow into them.",
)


_ALPHAS = {"smoke": (0.0, 1.0), "notebook": (0.0, 0.25, 0.5, 0.75, 1.0), "paper": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
N_FACTORS, N_PARENTS = 10, 5
MISSPECIFICATION_PANEL = f"K = {N_FACTORS}, {N_PARENTS} parents, at most 6 levels"

MISSPECIFICATION_SWEEP = Sweep(
    "misspecification",
    "Runs and gap when the outcome is not additive",
    "size of the interactions, alpha",
    {
        size: tuple(
            Point.at(MISSPECIFICATION_PANEL, alpha, n_factors=N_FACTORS, n_parents=N_PARENTS, interaction=alpha)
            for alpha in alphas
        )
        for size, alphas in _ALPHAS.items()
    },
    "The paper does not say how many factors and parents its figure has; these are ours.",
)


NAIVE = Contender("naive search", "naive-search")
NEEDLE_CFS = Contender("cfs", "cfs")
HARDNESS_PANEL = "2 levels, every factor a parent"
NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, NEEDLE_HEIGHT = 0.5, 0.1, 1.0
_NEEDLE_FACTORS = {"smoke": (2, 4), "notebook": (2, 4, 6, 8), "paper": (2, 3, 4, 5, 6, 7, 8, 9, 10)}

HARDNESS_SWEEP = Sweep(
    "hardness",
    "Without the additive assumption: a needle in a haystack",
    "parents of the outcome",
    {
        size: tuple(Point.at(HARDNESS_PANEL, k, (NAIVE, MODL, NEEDLE_CFS)) for k in ks)
        for size, ks in _NEEDLE_FACTORS.items()
    },
    "Naive search is the only one that applies here. The others assume an additive outcome, and their gaps show it.",
)


SWEEPS: dict[str, Sweep] = {
    sweep.name: sweep
    for sweep in (
        PARENTS_SWEEP,
        ELIMINATION_SWEEP,
        SUPPORT_SWEEP,
        DEGREE_SWEEP,
        MISSPECIFICATION_SWEEP,
        HARDNESS_SWEEP,
    )
}
