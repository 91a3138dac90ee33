"""The demo: a study of a simulated injection-moulding line, kept in a storage like any other."""

from collections.abc import Callable, Sequence

import numpy as np

from levers.algorithms.registry import DEFAULT_ALGORITHM
from levers.errors import StudyExistsError
from levers.studies.library import create_study
from levers.studies.state import Trial
from levers.studies.storage.base import Storage
from levers.studies.study import Study
from levers.worlds.named import factory_line
from levers.worlds.scm import World

TOLERANCE, FAILURE_PROB = 0.5, 0.1
NAME = "demo: factory line"


def new_demo(
    storage: Storage | None, *, who: str | None = None, seed: int | None = None, algorithm: str = DEFAULT_ALGORITHM
) -> Study:
    """A study of the line, under the first name that is free.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> new_demo(storage).name, new_demo(storage).name
    ('demo: factory line', 'demo: factory line 2')
    """
    world, n = factory_line(), 1
    while True:
        try:
            return create_study(
                NAME if n == 1 else f"{NAME} {n}",
                world.space,
                tolerance=TOLERANCE,
                failure_prob=FAILURE_PROB,
                noise_sd=world.outcome.noise_sd,
                algorithm=algorithm,
                storage=storage,
                who=who,
                seed=seed,
            )
        except StudyExistsError:
            n += 1


class Line:
    """The simulated line itself: it makes the runs that it is given. Same seed and same runs, same outcomes.

    >>> study = new_demo(None, seed=1)
    >>> trials = study.ask(2)
    >>> study.tell_many(zip(trials, Line(1).run(trials)))
    2
    """

    def __init__(self, seed: int, world: World | None = None) -> None:
        self.world = world or factory_line()
        self._rng = np.random.default_rng([seed, 1])

    def run(self, trials: Sequence[Trial]) -> list[float]:
        """The outcomes of some runs."""
        codes = np.array([trial.params.codes for trial in trials], dtype=np.int16)
        return [float(y) for y in self.world.sample(codes, self._rng).outcomes]


def run_demo(study: Study, line: Line, advance: Callable[[int, str], None]) -> None:
    """Take a demo study to its verdict."""
    while trials := study.ask(1000):
        study.tell_many(zip(trials, line.run(trials), strict=True))
        advance(len(trials), trials[0].stage)
