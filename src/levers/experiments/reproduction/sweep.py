"""What an experiment of the paper is made of: points along an axis, and who is compared at each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from levers.core.checks import check_choice
from levers.core.schedules import SCHEDULES
from levers.experiments.comparison import Comparison

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
