"""`levers create`, `studies`, `copy`, `merge`, `delete`: the studies themselves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from levers.cli.options import (
    DEFAULT,
    FormatOption,
    Name,
    StorageOption,
    TokenOption,
    UrlOption,
    check_exists,
    command,
    missing_file,
    open_study,
    say_rows,
    service,
    with_settings,
)
from levers.cli.output import Format
from levers.errors import InvalidSpaceError
from levers.studies.analysis.describe import several, when
from levers.studies.analysis.views import Status
from levers.studies.library import copy_study, create_study, delete_study, list_studies, load_study, merge_study
from levers.studies.settings import CREATE, SETTINGS
from levers.studies.space_text import (
    Typed,
    parse_factor,
    parse_forbidden,
    parse_merged,
    parse_names,
    parse_setting,
    read_space,
)

_HELP = {setting.name: setting.help for setting in SETTINGS}
SpaceOption = Annotated[Path | None, typer.Option(help="A .toml or .json file with the factors.")]
FactorOption = Annotated[list[str] | None, typer.Option(help="A lever and its levels: heat=low,mid,high.")]
ForbidOption = Annotated[list[str] | None, typer.Option(help="Levels that cannot be together: heat=high,speed=4.")]
MergeOption = Annotated[list[str] | None, typer.Option(help="Levers that influence each other: heat,speed.")]
HardOption = Annotated[list[str] | None, typer.Option(help=_HELP["hard_to_change"])]


def typed_levers(space: Path | None, factor: list[str] | None, besides: str = "") -> Typed:
    """The levers that a command is given: in a file, or one by one; `besides` says in what other way it takes them."""
    if (space is None) == (not factor):
        raise InvalidSpaceError(f"give the factors once: {besides}--space FILE, or --factor NAME=LEVEL,LEVEL for each")
    return read_space(space) if space is not None else Typed([parse_factor(text) for text in factor or []], [], [])


def levers_besides(
    given: Typed,
    forbid: list[str] | None,
    merge: list[str] | None,
    hard_to_change: list[str] | None,
    free: list[str] | None = None,
) -> dict[str, Any]:
    """What is said of levers besides their levels, in the file and by options, as `create_study` takes it."""
    levers = given.space
    forbidden = [*given.forbidden, *(one for text in forbid or [] for one in parse_forbidden(levers, text))]
    merged = [*given.merged, *(one for text in merge or [] for one in parse_merged(levers, text))]
    left = [*given.free, *(one for text in free or [] for one in parse_names(levers, text))]
    hard = [*given.hard_to_change, *(one for text in hard_to_change or [] for one in parse_names(levers, text))]
    alone = {"free": list(dict.fromkeys(left)), "hard_to_change": list(dict.fromkeys(hard))}
    return {"forbidden": forbidden, "merged": merged, **alone}


@with_settings(CREATE)
def create(
    name: Annotated[str, typer.Argument(help="A name for the study.", metavar="NAME")],
    space: SpaceOption = None,
    factor: FactorOption = None,
    forbid: ForbidOption = None,
    merge: MergeOption = None,
    free: Annotated[list[str] | None, typer.Option(help=_HELP["free"])] = None,
    hard_to_change: HardOption = None,
    storage: StorageOption = DEFAULT,
    **settings: Any,
) -> None:
    """Begin a study.

    \b
    Examples:
      levers create oven --space oven.toml --tolerance .5 --noise-sd 1
      levers create oven --factor heat=low,mid,high --factor speed=1,2,3 --tolerance .5
      levers create oven --space oven.toml --budget 200 --goal minimize --seed 3
      levers create oven --space oven.toml --budget 200 --free heat
      levers create line --space line.toml --budget 120 --per-day 8 --hard-to-change mould
      levers create oven --space oven.toml --baseline heat=low,speed=2,supplier=A --baseline-outcome 70 --tolerance 5%
    """
    given = typed_levers(space, factor)
    levers = given.space
    if settings["baseline"] is not None:
        settings["baseline"] = parse_setting(levers, settings["baseline"])
    settings |= levers_besides(given, forbid, merge, hard_to_change, free)
    study = create_study(name, levers, storage=storage, **settings)
    typer.echo(
        f"created {name!r} in {study.storage.url}: {levers.n_factors} factors, seed {study.spec.seed}\n"
        f"{study.forecast()}\n"
        f"next: {command('ask', name, '-n', study.spec.block_size or 8, '--sheet', 'runs.csv')}"
    )


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in a list."""

    name: str
    state: str
    algorithm: str
    goal: str
    n_factors: int
    n_complete: int
    n_fresh: int
    to_go: int | None
    updated: str

    @classmethod
    def of(cls, found: Status) -> "StudyRow":
        """From its status."""
        state = "finished in doubt" if found.state == "finished" and found.doubts else found.state
        same = (found.name, state, found.algorithm, found.goal, found.n_factors, found.n_complete, found.n_fresh)
        return cls(*same, found.to_go.likely, when(found.updated_at))


def studies(
    context: typer.Context,
    storage: StorageOption = DEFAULT,
    url: UrlOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List the studies.

    \b
    Examples:
      levers studies --format json
      levers studies --url http://lab:8080
    """
    client = service(context)
    if client is not None:
        found = client.studies()
    else:
        names = [] if missing_file(storage) else list_studies(storage)
        found = [load_study(name, storage).status() for name in names]
    drop = ("updated", "goal", "algorithm", "n_factors", "to_go", "n_complete", "state")  # the least important first
    nothing = "there are no studies here yet; `levers create` makes one"
    never = () if any(one.n_fresh for one in found) else ("n_fresh",)
    say_rows([StudyRow.of(one) for one in found], output, "Studies", drop, nothing, never)


def copy(
    name: Name,
    new_name: Annotated[str, typer.Argument(help="The copy's name.", metavar="NEW_NAME")],
    to: Annotated[str | None, typer.Option(help="Another storage to copy to.")] = None,
    storage: StorageOption = DEFAULT,
) -> None:
    """Copy a study with its whole log, under another name or to another storage.

    \b
    Example:
      levers copy oven oven-backup --to sqlite:///backup.db
    """
    check_exists(name, storage)
    made = copy_study(name, new_name, storage, to)
    typer.echo(f"copied {name!r} to {new_name!r} in {made.storage.url}: {made.status().n_complete} outcomes")


def merge(
    name: Name,
    new_name: Annotated[str, typer.Argument(help="The new study's name.", metavar="NEW_NAME")],
    factors: Annotated[str, typer.Argument(help="The levers to study as one: heat,speed.", metavar="LEVERS")],
    budget: Annotated[int | None, typer.Option(help="Runs from here on, if the study has a budget.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same design.")] = None,
    storage: StorageOption = DEFAULT,
) -> None:
    """Go on with levers that influence each other studied as one: a new study, with the runs so far as evidence.

    \b
    Example:
      levers merge oven oven-2 heat,speed
    """
    [levers] = parse_merged(open_study(name, storage).space, factors)
    made = merge_study(name, new_name, levers, storage, budget=budget, seed=seed)
    n_past = sum(len(past.values) for past in made.state.past)
    lever = made.spec.inner.factors[made.spec.merging.column_of(levers[0])]
    typer.echo(
        f"created {new_name!r} in {made.storage.url}: {lever.name} as one lever of {lever.n_levels} levels, "
        f"with {several(n_past, 'run', 'runs')} of {name!r} as evidence\n"
        f"{made.forecast()}\n"
        f"next: {command('ask', new_name, '-n', made.spec.block_size or 8, '--sheet', 'runs.csv')}"
    )


def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    storage: StorageOption = DEFAULT,
) -> None:
    """Remove a study and everything that was told to it.

    \b
    Example:
      levers delete oven --yes
    """
    n = open_study(name, storage).status().n_complete
    if not yes and not typer.confirm(f"delete {name!r} with {n} outcomes, for good?"):
        raise typer.Exit(1)
    delete_study(name, storage)
    typer.echo(f"deleted {name!r}")
