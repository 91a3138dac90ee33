"""Create, load, list, copy and delete studies."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from levers.algorithms.registry import DEFAULT_ALGORITHM, option_names
from levers.core.merging import forbidden_combinations
from levers.core.space import Level, Space
from levers.errors import StudyError
from levers.studies.deciding import first_events
from levers.studies.events import Record
from levers.studies.reading import login_name
from levers.studies.spec import StudySpec
from levers.studies.storage import Storage, open_storage
from levers.studies.storage.base import Stored
from levers.studies.storage.naming import check_name
from levers.studies.study import Study


def create_study(
    name: str,
    space: Space | Mapping[str, Sequence[Level]],
    *,
    goal: str = "maximize",
    tolerance: float | None = None,
    failure_prob: float = 0.1,
    noise_sd: float | None = None,
    max_parents: int | None = None,
    min_effect: float | None = None,
    budget: int | None = None,
    algorithm: str = DEFAULT_ALGORITHM,
    forbidden: Iterable[Mapping[str, Level]] = (),
    storage: str | Storage | None = None,
    seed: int | None = None,
    block_size: int | None = None,
    who: str | None = None,
    **options: Any,
) -> Study:
    """Begin a study: its first block of runs is designed and kept before this returns.

    `storage` is None for memory, `sqlite:///levers.db` or `postgresql+psycopg://user@host/database`. `block_size` is
    how many runs a sheet groups together and `ask` on the command line hands out at a time. `forbidden` lists
    combinations that cannot be run, as in `[{"heat": "high", "speed": 4}]`. Without a seed one is drawn and kept.

    >>> study = create_study("line 3", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> study.status().state
    'running'
    """
    check_name(name)
    levers = Space.of(space)
    given = {"max_parents": max_parents, "min_effect": min_effect, "budget": budget, **options}
    known = option_names(algorithm)
    chosen = {key: value for key, value in given.items() if value is not None or key in options}
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise StudyError(f"{algorithm} has no option {unknown[0]!r}; its options are {', '.join(known)}")
    spec = StudySpec(
        levers,
        goal=goal,
        tolerance=tolerance,
        failure_prob=failure_prob,
        noise_sd=noise_sd,
        algorithm=algorithm,
        options=tuple(sorted(chosen.items())),
        seed=secrets.randbits(31) if seed is None else seed,
        block_size=block_size,
        forbidden=forbidden_combinations(levers, forbidden),
    )
    return _begin(name, spec, open_storage(storage), who)


def load_study(name: str, storage: str | Storage, *, who: str | None = None) -> Study:
    """A study that exists."""
    opened = open_storage(storage)
    return Study(name, opened, opened.find(name), who=who)


def list_studies(storage: str | Storage) -> list[str]:
    """The names of all studies, oldest first."""
    return [name for _, name in open_storage(storage).names()]


def delete_study(name: str, storage: str | Storage) -> None:
    """Remove a study and everything that was told to it. There is no way back."""
    opened = open_storage(storage)
    opened.delete(opened.find(name))


def copy_study(name: str, new_name: str, storage: str | Storage, to_storage: str | Storage | None = None) -> Study:
    """Copy a study with its whole log, to another name or another storage."""
    check_name(new_name)
    source = open_storage(storage)
    records = source.read(source.find(name), 0)
    target = source if to_storage is None else open_storage(to_storage)
    return Study(new_name, target, target.create(new_name, records))


def _begin(name: str, spec: StudySpec, storage: Storage, who: str | None) -> Study:
    by, now = who if who is not None else login_name(), time.time()
    records = [Stored.of(Record(i + 1, now, by, event)) for i, event in enumerate(first_events(spec))]
    return Study(name, storage, storage.create(name, records), who=who)
