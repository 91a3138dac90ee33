"""Create, load, list, copy and delete studies."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from levers.algorithms.registry import DEFAULT_ALGORITHM, option_names
from levers.core.merging import Merging, forbidden_combinations, merged_groups
from levers.core.space import Level, Space
from levers.errors import StudyError
from levers.studies.events import Event, Record
from levers.studies.spec import StudySpec
from levers.studies.storage.base import Storage, check_name, encoded
from levers.studies.storage.registry import open_storage
from levers.studies.study import Study, login_name
from levers.studies.transitions import finished_runs, first_events


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
    merged: Iterable[Sequence[str]] = (),
    storage: str | Storage | None = None,
    seed: int | None = None,
    block_size: int | None = None,
    who: str | None = None,
    **options: Any,
) -> Study:
    """Begin a study: its first block of runs is designed and kept before this returns.

    `storage` is None for memory, `sqlite:///levers.db` or `postgresql+psycopg://user@host/database`. `block_size` is
    how many runs a sheet groups together and `ask` on the command line hands out at a time. `forbidden` lists
    combinations that cannot be run, as in `[{"heat": "high", "speed": 4}]`. `merged` lists levers that influence each
    other and are studied as one, as in `[["heat", "speed"]]`. Without a seed one is drawn and kept.

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
        merged=merged_groups(levers, merged),
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


def merge_study(
    name: str,
    new_name: str,
    factors: Sequence[str],
    storage: str | Storage,
    *,
    budget: int | None = None,
    seed: int | None = None,
    who: str | None = None,
) -> Study:
    """Begin a new study in which some levers of another are studied as one, with the runs made so far as evidence.

    For levers that turned out to influence each other: as one lever, whose levels are the combinations, they keep the
    model additive. The new study's first block is fresh; after it the old runs count, block by block. The old study
    stays as it is. A study with a budget needs a new one, for the runs from here on.
    """
    check_name(new_name)
    opened = open_storage(storage)
    state = Study(name, opened, opened.find(name)).state
    old = state.spec
    if old.algorithm != "cfs":
        raise StudyError(f"{old.algorithm} cannot use runs that it did not ask for; only cfs can go on with them")
    options = dict(old.options)
    if ("budget" in options) != (budget is not None):
        have = "the study has a tolerance, not a budget" if budget is not None else "the study has a budget"
        raise StudyError(f"{have}; {'leave it out' if budget is not None else 'give one for the runs from here on'}")
    if budget is not None:
        options["budget"] = budget
    merged = old.merged + merged_groups(old.space, [factors])
    inner = Merging.of(old.space, old.forbidden, merged).inner
    if inner.names == old.merging.inner.names:
        raise StudyError(f"{' and '.join(factors)} are one lever already")
    if options.get("max_parents") is not None:  # no more can matter than there are, and merging never makes it more
        options["max_parents"] = min(options["max_parents"], inner.n_factors)
    spec = replace(
        old,
        merged=merged,
        options=tuple(sorted(options.items())),
        seed=secrets.randbits(31) if seed is None else seed,
    )
    return _begin(new_name, spec, opened, who, finished_runs(state, name))


def _begin(name: str, spec: StudySpec, storage: Storage, who: str | None, past: Iterable[Event] = ()) -> Study:
    by, now = who if who is not None else login_name(), time.time()
    events = [*first_events(spec), *past]
    records = encoded([Record(i + 1, now, by, event) for i, event in enumerate(events)])
    return Study(name, storage, storage.create(name, records), who=who)
