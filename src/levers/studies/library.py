"""Studies by name: a storage from its address, and studies that are created, loaded, listed, copied and deleted in it.

Another package registers a kind of storage by an entry point of the group `levers.storages`: its name is how addresses
begin, its value a function from an address to a storage. In its pyproject.toml:

    [project.entry-points."levers.storages"]
    etcd = "my_package:EtcdStorage"
"""

import atexit
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from levers.algorithms.registry import DEFAULT_ALGORITHM, option_names
from levers.core.merging import Merging, forbidden_combinations, merged_groups
from levers.core.outcome_scale import LINEAR
from levers.core.space import Level, Space
from levers.core.validation import MAX_NAME, check_text
from levers.errors import LeversError, StorageError, StudyError, about
from levers.extensions import load, origin, registered
from levers.studies.events import Event, Record
from levers.studies.log import check_chain
from levers.studies.space_text import tolerance_amount
from levers.studies.spec import RESERVED, StudySpec, check_reserved, free_levers, hard_levers
from levers.studies.storage.base import Storage, check_name, encoded, new_log
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study, login_name
from levers.studies.transitions import finished_runs, first_events

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DEFAULT_STORAGE = "sqlite:///levers.db"
VARIABLE = "LEVERS_STORAGE"
GROUP = "levers.storages"
_CHAIN = "logs are chains of digests now, see docs/architecture, a new storage"
"""What to say of a storage that was written before."""


def default_storage() -> str:
    """LEVERS_STORAGE, or a file in the current folder."""
    return os.environ.get(VARIABLE) or DEFAULT_STORAGE


def open_storage(storage: "str | Storage | None") -> Storage:
    """A storage from its address; None is a new one in memory.

    >>> open_storage(None).url
    'memory'
    """
    if storage is None:
        return MemoryStorage()
    if not isinstance(storage, str):
        if not hasattr(storage, "header"):
            raise StorageError(f"{type(storage).__name__} is no storage for this version: it has no 'header'; {_CHAIN}")
        return storage
    key = (storage, os.getpid(), os.getcwd())
    if key not in _opened:
        kind = storage.partition(":")[0]
        point = None if kind.startswith(("sqlite", "postgresql")) else registered(GROUP).get(kind)
        if point is not None:
            _opened[key] = _made_elsewhere(point, storage)
        else:
            from levers.studies.storage.sql import SqlStorage, parse_url  # SQLAlchemy takes a while to import

            _opened[key] = SqlStorage(parse_url(storage))
    return _opened[key]


def _made_elsewhere(point: "EntryPoint", address: str) -> Storage:
    """A storage of another package; whatever goes wrong in making it is that package's."""
    make = load(point, StorageError)
    try:
        made: Storage = make(address)
    except LeversError:
        raise
    except Exception as error:
        raise StorageError(f"{origin(point)} cannot open {address!r}: {type(error).__name__}: {error}") from error
    missing = [name for name in vars(Storage) if name[0] != "_" and not hasattr(made, name)]
    if missing or not hasattr(made, "url"):
        lacks = (missing or ["url"])[0]
        why = f"; {_CHAIN}" if lacks == "header" else ""
        raise StorageError(f"{origin(point)} gave no storage for {address!r}: it has no {lacks!r}{why}")
    return made


# connections must not cross into a forked process, and a file may be named from the current folder: both are in the key
_opened: dict[tuple[str, int, str], Storage] = {}


@atexit.register
def close_storages() -> None:
    """Close what this process has opened by address."""
    for key in [key for key in _opened if key[1] == os.getpid()]:
        _opened.pop(key).close()


def create_study(
    name: str,
    space: Space | Mapping[str, Sequence[Level]],
    *,
    goal: str = "maximize",
    tolerance: float | str | None = None,
    failure_prob: float = 0.1,
    noise_sd: float | None = None,
    max_parents: int | None = None,
    min_effect: float | None = None,
    budget: int | None = None,
    max_runs: int | None = None,
    aim: str | None = None,
    noise: str | None = None,
    certificate: str | None = None,
    algorithm: str = DEFAULT_ALGORITHM,
    forbidden: Iterable[Mapping[str, Level]] = (),
    merged: Iterable[Sequence[str]] = (),
    free: Iterable[str] = (),
    hard_to_change: Iterable[str] = (),
    storage: str | Storage | None = None,
    seed: int | None = None,
    baseline: Mapping[str, Level] | None = None,
    baseline_outcome: float | None = None,
    block_size: int | None = None,
    scale: str = LINEAR,
    who: str | None = None,
    **options: Any,
) -> Study:
    """Begin a study: its first round of runs is designed and kept before this returns.

    Give a `tolerance`, or a `budget` of 2 runs or more. What the runs of a budget serve is the `aim`: "best", the
    default, is the setting recommended at the end; "certify" is the smallest tolerance that can be promised, and what
    a study with a tolerance does. With `max_runs` beside a tolerance a study that has not reached it by then ends with
    what it can promise. With `noise="subgaussian"` the promise holds for noise of any shape that is no wilder than
    normal noise of `noise_sd`, such as outcomes of yes or no with 0.5. `certificate="proven"` is a complete proof; the
    usual certificate is checked numerically in a part. Both take more runs.

    `storage` is None for memory, `sqlite:///levers.db` or `postgresql+psycopg://user@host/database`. `block_size` is
    how many runs are made together, on a day or a sheet, and how many `ask` on the command line hands out at a time:
    days are full, balanced as well as they can be, and compared inside only. `forbidden` lists combinations that cannot
    be run, as in `[{"heat": "high", "speed": 4}]`. `merged` lists levers that influence each other and are studied as
    one, as in `[["heat", "speed"]]`. `free` lists levers that may be left alone, as in `["heat"]`: some runs do not set
    them, and are told with the level that each took (docs/studies, "Leave it alone"). `hard_to_change` lists levers
    that are expensive to change, the hardest first: inside a day, runs with the same level of them stand together.
    Without a seed one is drawn and kept.

    `baseline` is the setting in place today, with a level of every lever: the verdict says what is gained over it, and
    to keep it where no gain is shown. A tolerance such as "5%" is of `baseline_outcome`, the outcome today.

    With `scale="log"` effects and noise are taken to act on the logarithm of the outcome, which has to be above 0: a
    lever saves 20 %, whatever the others do. A `tolerance` of 0.05, or "5%", is then of the best setting's outcome, so
    is `min_effect`, and a `noise_sd` of 0.1 is that of the logarithm, about 10 % (docs/studies, "On a log scale").

    >>> study = create_study("line 3", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> study.status().state
    'running'
    """
    check_name(name)
    levers = Space.of(space)
    check_reserved(levers, RESERVED)  # a study from before, gone on with under other terms, may have a factor `study`
    given = {"max_parents": max_parents, "min_effect": min_effect, "budget": budget, "max_runs": max_runs, "aim": aim}
    given |= {"noise": noise, "certificate": certificate} | options
    known = option_names(algorithm)
    chosen = {key: value for key, value in given.items() if value is not None or key in options}
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise StudyError(f"{algorithm} has no option {unknown[0]!r}; its options are {', '.join(known)}")
    spec = StudySpec(
        levers,
        goal=goal,
        tolerance=tolerance_amount(tolerance, baseline_outcome, scale),
        failure_prob=failure_prob,
        noise_sd=noise_sd,
        algorithm=algorithm,
        options=tuple(sorted(chosen.items())),
        seed=secrets.randbits(31) if seed is None else seed,
        block_size=block_size,
        forbidden=forbidden_combinations(levers, forbidden),
        merged=merged_groups(levers, merged),
        free=free_levers(levers, free),
        hard_to_change=hard_levers(levers, hard_to_change),
        baseline=baseline_codes(levers, baseline),
        baseline_outcome=baseline_outcome,
        scale=scale,
    )
    return _begin(name, spec, open_storage(storage), who)


def baseline_codes(space: Space, baseline: Mapping[str, Level] | None) -> tuple[int, ...] | None:
    """The setting in place today as level positions; one error names all levers that are missing or not known."""
    if baseline is None:
        return None
    with about("baseline"):
        return space.encode(baseline).codes


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
    """Copy a study with its whole log, to another name or another storage.

    The copy's digests follow from its own name, so a log that is not as it was written is refused, not made good.
    """
    check_name(new_name)
    source = open_storage(storage)
    study = source.find(name)
    records = source.read(study, 0)
    check_chain(source.header(study), records)
    target = source if to_storage is None else open_storage(to_storage)
    return Study(new_name, target, target.create(new_name, new_log(new_name, records)))


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
    model additive. The new study's first round is fresh; after it the old runs count, round by round. The old study
    stays as it is. A study with a budget needs a new one, for the runs from here on.
    """
    check_name(new_name)
    opened = open_storage(storage)
    state = Study(name, opened, opened.find(name)).state
    old = state.spec
    if not old.solver.absorbs_runs:
        raise StudyError(f"{old.algorithm} cannot use runs that it did not ask for, so it cannot go on with them")
    options = dict(old.options)
    if ("budget" in options) != (budget is not None):
        if budget is not None:
            raise StudyError("the study has a tolerance, not a budget; leave it out (budget, --budget)")
        raise StudyError("the study has a budget; give one for the runs from here on (budget=N, --budget N)")
    if budget is not None:
        options["budget"] = budget
    merged = old.merged + merged_groups(old.space, [factors])
    merging = Merging.of(old.space, old.forbidden, merged)
    inner = merging.inner
    if inner.names == old.inner.names and merging.parts(merged) == merging.parts(old.merged):
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
    by, now = check_text("who", who, MAX_NAME) if who is not None else login_name(), time.time()
    events = [*first_events(spec), *past]
    records = new_log(name, encoded([Record(i + 1, now, by, event) for i, event in enumerate(events)]))
    return Study(name, storage, storage.create(name, records), who=who)
