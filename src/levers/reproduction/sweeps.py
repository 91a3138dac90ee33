"""The paper's experiments: points along an axis, and which methods are compared at each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from levers.core.certificates.sample_size import SCHEDULES
from levers.core.validation import check_choice
from levers.experiments.compare import Comparison
from levers.worlds.outcome import BERNOULLI, NOISES

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
DEGREES = {"smoke": (1, 5), "notebook": (1, 3, 8), "paper": (1, 2, 3, 5, 8)}
"""Expected degrees of the graph."""
ALPHAS = {"smoke": (0.0, 1.0), "notebook": (0.0, 0.25, 0.5, 0.75, 1.0), "paper": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
"""Sizes of the interactions that the additive model leaves out, by the appendix's formula."""
N_FACTORS, N_PARENTS = 10, 5
"""Factors and parents in that experiment; the paper does not say how many its figure has."""
MAGNITUDES = {"smoke": (0.001, 0.1), "notebook": (0.001, 0.045, 0.1), "paper": (0.001, 0.023, 0.045, 0.067, 0.1)}
"""Sizes of the interactions in the authors' notebook, which has ten steps from .001 to .1."""
RELEASED: dict[str, Any] = {"n_factors": 30, "n_parents": 10, "outcome_bound": 1.0, "interactions": (2, 3, 3)}
"""The other settings of that notebook: effects of at most 1, a product of two parents and two of three."""
NEEDLE_FACTORS = {"smoke": (2, 4), "notebook": (2, 4, 6, 8), "paper": (2, 3, 4, 5, 6, 7, 8, 9, 10)}
"""Factors of the needle worlds, each with two levels."""
NEEDLE_TOLERANCE, NEEDLE_FAILURE_PROB, NEEDLE_HEIGHT = 0.5, 0.1, 1.0
"""What is asked of the methods there, and how far the needle is above all other assignments."""
EQUAL_GAPS = {
    "smoke": (0.6, 2.4),
    "notebook": (0.6, 1.2, 2.4, 4.8),
    "paper": (0.6, 0.85, 1.2, 1.7, 2.4, 3.4, 4.8),
}
"""Gaps of the worlds in which all levels but the best of each factor are equally far behind."""
EQUAL_GAP_LEVELS = (3,) * 10
"""The numbers of levels there."""
LEAST_EFFECTS = {"smoke": (0.5, 2.0), "notebook": (0.5, 1.0, 2.0), "paper": (0.5, 0.75, 1.0, 1.5, 2.0)}
"""Least ranges of a parent's effects where the parents are to be recovered: the tolerance, and more."""
KNOWN = {"smoke": (False,), "notebook": (False, True), "paper": (False, True)}
"""Whether methods are told the number of parents, in the experiments of the appendix."""
MOST_REPEATS = {"smoke": 2, "notebook": 2, "paper": 10}
"""Runs on each world where they are told it, in these: worlds differ more than runs do."""
HARDNESS_PANEL = "2 levels, every factor a parent"
GAPS_PANEL = "K = 10, 3 levels, every factor a parent"


def _told(known: bool) -> str:
    return f"number of parents {'known' if known else 'unknown'}"


def parents_panel(n_factors: int, known: bool) -> str:
    """The name of a panel in the experiment about parents."""
    return f"K = {n_factors}, {_told(known)}"


def support_panel(n_parents: int, known: bool) -> str:
    """The name of a panel in the experiment about levels."""
    return f"K = 30, {n_parents} parents, {_told(known)}"


def degree_panel(known: bool) -> str:
    """The name of a panel in the experiment about the graph."""
    return f"K = 30, 10 parents, {_told(known)}"


def misspecification_panel(known: bool) -> str:
    """The name of a panel with the appendix's interactions."""
    return f"K = {N_FACTORS}, {N_PARENTS} parents, at most 6 levels, {_told(known)}"


def interactions_panel(known: bool) -> str:
    """The name of a panel with the released code's interactions."""
    return f"K = 30, 10 parents, effects up to 1, {_told(known)}"


def recovery_panel(known: bool) -> str:
    """The name of a panel in the experiment about recovering the parents."""
    return f"K = {N_FACTORS}, {N_PARENTS} parents, {_told(known)}"


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
FOUR = (CFS, MODL, PARENTS_FIRST, ORACLE)
USUAL = (*FOUR, OBSERVING)
ALL_SCHEDULES = (CFS, MODL, MODL_ALGORITHM_1, MODL_PROOF, PARENTS_FIRST, ORACLE, OBSERVING)
FINDERS = (CFS, MODL, MODL_ALGORITHM_1, MODL_PROOF, PARENTS_FIRST)
NEEDLE_CONTENDERS = (NAIVE, MODL, NEEDLE_CFS)
OTHERS = ("modl, algorithm-1", "modl, proof", "observational-regression")
"""Lines that the paper's figures do not have, drawn in a second figure beside modl."""
MANY_RUNS = (MODL_ALGORITHM_1, MODL_PROOF)
"""Contenders of millions of runs: Gaussian sums of a phase are drawn at once, any other noise run by run."""
GAUSSIAN = NOISES[0]
"""The paper's noise."""
ADDED = ("parents", "elimination", "support", "degree", "misspecification", "interactions", "recovery", "gaps")
"""Experiments whose noise is added to a mean, so that it can be of any shape."""
PROBABILITIES = ("parents", "elimination", "support", "degree")
"""Experiments whose means can be shifted and scaled into probabilities of an outcome of 0 or 1."""


def experiments(noise: str) -> tuple[str, ...]:
    """The experiments that can be run with a noise.

    >>> experiments("bernoulli")
    ('parents', 'elimination', 'support', 'degree')
    """
    check_choice("noise", noise, (*NOISES, BERNOULLI))
    if noise == GAUSSIAN:
        return tuple(SWEEPS)
    return PROBABILITIES if noise == BERNOULLI else ADDED


@dataclass(frozen=True)
class Point:
    """One point of a figure: its panel, its place on the axis, and the settings of the comparison that differ there.

    Points have the same worlds by number, apart from what their settings change, unless `first_world` differs.
    """

    panel: str
    x: float
    settings: tuple[tuple[str, Any], ...]
    contenders: tuple[Contender, ...] = USUAL
    most_repeats: int | None = None
    first_world: int = 0

    @classmethod
    def at(
        cls,
        panel: str,
        x: float,
        contenders: tuple[Contender, ...] = USUAL,
        most_repeats: int | None = None,
        first_world: int = 0,
        **settings: Any,
    ) -> "Point":
        """A point from keyword settings of a comparison."""
        return cls(panel, x, tuple(settings.items()), contenders, most_repeats, first_world)

    def comparison(self, contender: Contender, seed: int, noise: str = GAUSSIAN) -> Comparison:
        """The comparison in which this contender runs here."""
        own: dict[str, Any] = {"algorithms": (contender.algorithm,), "schedule": contender.schedule, "noise": noise}
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

    def tasks(self, size: str, seed: int = 0, noise: str = GAUSSIAN) -> "list[Task]":
        """All pairs of point and world."""
        check_choice("size", size, SIZES)
        worlds = range(WORLDS_AND_REPEATS[size][0])
        return [Task(self.name, i, world, size, seed, noise) for i in range(len(self.points[size])) for world in worlds]


@dataclass(frozen=True)
class Task:
    """The smallest unit of work: every method on one world of one point."""

    sweep: str
    point: int
    world: int
    size: str
    seed: int = 0
    noise: str = GAUSSIAN

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


def _appendix(size: str, known: bool) -> dict[str, Any]:
    """What points of the appendix's experiments have in common."""
    who = (*FOUR,) if known else USUAL
    return {"contenders": who, "most_repeats": MOST_REPEATS[size] if known else None, "known_parents": known}


def _support_points(size: str) -> Iterable[Point]:
    for known in KNOWN[size]:
        for p in SUPPORT_PARENTS[size]:
            for low in FEWEST_LEVELS[size]:
                # tables of nature's choices grow as levels^parents, so the graph is capped where levels are many
                kind: dict[str, Any] = {"n_factors": 30, "n_parents": p, "levels": (low, low + 3), "max_in_degree": 4}
                yield Point.at(support_panel(p, known), low, **_appendix(size, known), **kind)


def _degree_points(size: str) -> Iterable[Point]:
    for known in KNOWN[size]:
        for place, degree in enumerate(DEGREES[size]):
            # worlds of their own for each degree: with shared ones, equal runs at all degrees would say nothing
            kind: dict[str, Any] = {"n_factors": 30, "n_parents": 10, "degree": float(degree), "max_in_degree": 5}
            yield Point.at(degree_panel(known), degree, first_world=1000 * place, **_appendix(size, known), **kind)


def _misspecification_points(size: str) -> Iterable[Point]:
    for known in KNOWN[size]:
        for alpha in ALPHAS[size]:
            kind: dict[str, Any] = {"n_factors": N_FACTORS, "n_parents": N_PARENTS, "interaction": alpha}
            yield Point.at(misspecification_panel(known), alpha, **_appendix(size, known), **kind)


def _interactions_points(size: str) -> Iterable[Point]:
    for known in KNOWN[size]:
        for magnitude in MAGNITUDES[size]:
            kind = {**_appendix(size, known), "contenders": FOUR, "max_in_degree": 4}
            yield Point.at(interactions_panel(known), magnitude, **kind, **RELEASED, magnitude=magnitude)


def _recovery_points(size: str) -> Iterable[Point]:
    for known in KNOWN[size]:
        for least in LEAST_EFFECTS[size]:
            kind: dict[str, Any] = {"n_factors": N_FACTORS, "n_parents": N_PARENTS, "min_effect": least}
            yield Point.at(recovery_panel(known), least, **{**_appendix(size, known), "contenders": FINDERS}, **kind)


def _gaps_points(size: str) -> Iterable[Point]:
    return (Point.at(GAPS_PANEL, gap, FINDERS, MOST_REPEATS[size]) for gap in EQUAL_GAPS[size])


def _hardness_points(size: str) -> Iterable[Point]:
    return (Point.at(HARDNESS_PANEL, k, NEEDLE_CONTENDERS, most_repeats=5) for k in NEEDLE_FACTORS[size])


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
            "Successive elimination here really eliminates; the released code's does not, and was measured to need up "
            "to 13 times more (K = 4, 1 to 3 parents, 20 worlds x 5).",
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
            "Other worlds at each degree. Whoever sets all levers cuts every arrow into them and never reads the "
            "graph; what is left to see is that worlds differ. Only watching depends on the graph. A factor has at "
            "most 5 causes.",
        ),
        Sweep.of(
            "misspecification",
            "Runs and gap when the outcome is not additive",
            "size of the interactions, alpha",
            _misspecification_points,
            "The appendix's formula. The paper does not say how many factors and parents its figure has; these are "
            "ours.",
        ),
        Sweep.of(
            "interactions",
            "Runs and gap with the interactions of the released code",
            "magnitude of the interactions",
            _interactions_points,
            "The setting of the authors' notebook: effects of at most 1, and a product of two parents and two of "
            "three, levels counted from 0, times the magnitude. A setting gains up to 275 magnitudes from them.",
        ),
        Sweep.of(
            "recovery",
            "Recovering the parents",
            "least range of a parent's effects",
            _recovery_points,
            "Worlds that meet the condition of the theorem: every parent has two levels that differ by the tolerance.",
        ),
        Sweep.of(
            "gaps",
            "Runs against the gaps between levels",
            "gap of all levels but the best",
            _gaps_points,
            "All levels of a factor but one are equally far behind it, in all factors.",
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
