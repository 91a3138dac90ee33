"""The paper's experiments: points along an axis, and which methods are compared at each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from levers.core.certificates.sample_size import SCHEDULES
from levers.core.validation import check_choice
from levers.experiments.compare import Comparison

SIZES = ("smoke", "notebook", "paper")
"""A few seconds; what the authors released, 20 worlds x 5; what the paper reports, 20 worlds x 50."""
WORLDS_AND_REPEATS = {"smoke": (3, 2), "notebook": (20, 5), "paper": (20, 50)}
"""Worlds of each point, and runs of each method on each of them."""
FEWER = {"smoke": 1.0, "notebook": 0.5, "paper": 2.0}
"""Runs on each world of methods that the paper's figures do not have, or that are slow; 0.5 is every second world."""
PARENTS_BY_FACTORS: dict[str, dict[int, tuple[int, ...]]] = {
    "smoke": {10: (1, 5, 10), 30: (10,)},
    "notebook": {10: (1, 3, 5, 8, 10), 30: (1, 10, 20, 30)},
    "paper": {10: (1, 2, 3, 5, 7, 8, 10), 30: (1, 5, 10, 15, 20, 25, 30)},
}
"""Numbers of parents in the experiment of that name, for each number of factors."""
ELIMINATION_PARENTS: dict[str, dict[int, tuple[int, ...]]] = {
    "smoke": {4: (1, 3)},
    "notebook": {4: (1, 2, 3, 4), 6: (1, 3, 6)},
    "paper": {4: (1, 2, 3, 4), 6: (1, 3, 6)},
}
"""The same for successive elimination, which lists all assignments and so needs few factors."""
FEWEST_LEVELS = {"smoke": (2, 4), "notebook": (2, 4, 6), "paper": (2, 3, 4, 6)}
"""The fewest levels of a factor in the experiment about levels; the most is 3 more."""
SUPPORT_PARENTS = {"smoke": (10,), "notebook": (10, 30), "paper": (10, 30)}
"""Numbers of parents there, of 30 factors."""
DEGREES = {"smoke": (1, 5), "notebook": (1, 3, 5), "paper": (1, 2, 3, 5)}
"""Expected degrees of the graph."""
ALPHAS = {"smoke": (0.0, 1.0), "notebook": (0.0, 0.25, 0.5, 0.75, 1.0), "paper": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
"""Sizes of the interactions that the additive model leaves out."""
N_FACTORS, N_PARENTS = 10, 5
"""Factors and parents in that experiment; the paper does not say how many its figure has."""
NEEDLE_FACTORS = {"smoke": (2, 4), "notebook": (2, 4, 6, 8), "paper": (2, 3, 4, 5, 6, 7, 8, 9, 10)}
"""Factors of the needle worlds, each with two levels."""
NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, NEEDLE_HEIGHT = 0.5, 0.1, 1.0
"""What is asked of the methods there, and how far the needle is above all other assignments."""
DEGREE_PANEL = "K = 30, 10 parents"
MISSPECIFICATION_PANEL = f"K = {N_FACTORS}, {N_PARENTS} parents, at most 6 levels"
HARDNESS_PANEL = "2 levels, every factor a parent"


def parents_panel(n_factors: int, known: bool) -> str:
    """The name of a panel in the experiment about parents."""
    return f"K = {n_factors}, number of parents {'known' if known else 'unknown'}"


def support_panel(n_parents: int) -> str:
    """The name of a panel in the experiment about levels."""
    return f"K = 30, {n_parents} parents"


@dataclass(frozen=True)
class Contender:
    """One line of a figure: an algorithm, how it is set up, and whether it runs on fewer worlds than the others."""

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
OBSERVING = Contender("observational-regression", "observational-regression", fewer=True)
ELIMINATION = Contender("successive-elimination", "successive-elimination", fewer=True)
NAIVE = Contender("naive search", "naive-search")
NEEDLE_CFS = Contender("cfs", "cfs")
USUAL = (CFS, MODL, PARENTS_FIRST, ORACLE, OBSERVING)
ALL_SCHEDULES = (CFS, MODL, MODL_ALGORITHM_1, MODL_PROOF, PARENTS_FIRST, ORACLE, OBSERVING)
NEEDLE_CONTENDERS = (NAIVE, MODL, NEEDLE_CFS)


@dataclass(frozen=True)
class Point:
    """One point of a figure: its panel, its place on the axis, and the settings of the comparison that differ there."""

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
        own: dict[str, Any] = {"algorithms": (contender.algorithm,), "schedule": contender.schedule}
        return Comparison(**dict(self.settings), **own, seed=seed, make_worlds=False)


@dataclass(frozen=True)
class Sweep:
    """An experiment: its axis, and its points for each size."""

    name: str
    title: str
    x_label: str
    points: Mapping[str, tuple[Point, ...]]
    caption: str

    @classmethod
    def of(cls, name: str, title: str, x_label: str, points: Callable[[str], Iterable[Point]], caption: str) -> "Sweep":
        """A sweep from a function that gives the points of a size."""
        return cls(name, title, x_label, {size: tuple(points(size)) for size in SIZES}, caption)

    def tasks(self, size: str, seed: int = 0) -> "list[Task]":
        """All pairs of point and world."""
        check_choice("size", size, SIZES)
        worlds = range(WORLDS_AND_REPEATS[size][0])
        return [Task(self.name, i, world, size, seed) for i in range(len(self.points[size])) for world in worlds]


@dataclass(frozen=True)
class Task:
    """The smallest unit of work: every method on one world of one point."""

    sweep: str
    point: int
    world: int
    size: str
    seed: int = 0

    @property
    def key(self) -> str:
        """The name of the file that its results are kept in."""
        return f"{self.sweep}-{self.point:03d}-{self.world:03d}"


def _parents_points(size: str) -> Iterable[Point]:
    for n_factors, numbers in PARENTS_BY_FACTORS[size].items():
        for known in (False, True):
            for p in numbers:
                panel = parents_panel(n_factors, known)
                yield Point.at(panel, p, ALL_SCHEDULES, n_factors=n_factors, n_parents=p, known_parents=known)


def _elimination_points(size: str) -> Iterable[Point]:
    for k, numbers in ELIMINATION_PARENTS[size].items():
        for p in numbers:
            yield Point.at(f"K = {k}", p, (*USUAL, ELIMINATION), n_factors=k, n_parents=p)


def _support_points(size: str) -> Iterable[Point]:
    for p in SUPPORT_PARENTS[size]:
        for low in FEWEST_LEVELS[size]:
            # tables of nature's choices grow as levels^parents, so the graph is capped where levels are many
            levels = (low, low + 3)
            yield Point.at(support_panel(p), low, n_factors=30, n_parents=p, levels=levels, max_in_degree=4)


def _degree_points(size: str) -> Iterable[Point]:
    for degree in DEGREES[size]:
        yield Point.at(DEGREE_PANEL, degree, n_factors=30, n_parents=10, degree=float(degree))


def _misspecification_points(size: str) -> Iterable[Point]:
    for alpha in ALPHAS[size]:
        yield Point.at(MISSPECIFICATION_PANEL, alpha, n_factors=N_FACTORS, n_parents=N_PARENTS, interaction=alpha)


def _hardness_points(size: str) -> Iterable[Point]:
    return (Point.at(HARDNESS_PANEL, k, NEEDLE_CONTENDERS) for k in NEEDLE_FACTORS[size])


SWEEPS: dict[str, Sweep] = {
    sweep.name: sweep
    for sweep in (
        Sweep.of(
            "parents",
            "Runs and gap against the number of parents",
            "parents of the outcome",
            _parents_points,
            "Every run sets all levers. With a known number of parents, cfs, modl and parents-first are told it.",
        ),
        Sweep.of(
            "elimination",
            "Whole assignments as arms: successive elimination",
            "parents of the outcome",
            _elimination_points,
            "Successive elimination here really eliminates; the released code's does not, and needs up to 13 times "
            "more.",
        ),
        Sweep.of(
            "support",
            "Runs against the number of levels",
            "fewest levels of a factor (the most is 3 more)",
            _support_points,
            "More levels mean more effects to estimate, for every method.",
        ),
        Sweep.of(
            "degree",
            "Runs and gap against the degree of the graph",
            "expected degree of the graph",
            _degree_points,
            "Only watching depends on the graph; whoever sets all levers cuts every arrow into them.",
        ),
        Sweep.of(
            "misspecification",
            "Runs and gap when the outcome is not additive",
            "size of the interactions, alpha",
            _misspecification_points,
            "The paper does not say how many factors and parents its figure has; these are ours.",
        ),
        Sweep.of(
            "hardness",
            "Without the additive assumption: a needle in a haystack",
            "parents of the outcome",
            _hardness_points,
            "Naive search is the only one that applies here. The others assume an additive outcome, and their gaps "
            "show it.",
        ),
    )
}
"""All experiments, in the order of the report."""
