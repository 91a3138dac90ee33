"""`levers create`, `studies`, `copy`, `merge`, `delete`: the studies themselves."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levers.cli.options import (
    DEFAULT,
    FormatOption,
    Reached,
    StorageOption,
    StudiesHere,
    TokenOption,
    UrlOption,
    command_there,
    kept_in,
    missing_file,
    on_study,
    say_rows,
    service,
    studies_in,
    with_settings,
)
from levers.cli.output import Format
from levers.errors import InvalidSettingError, InvalidSpaceError
from levers.studies.analysis.describe import several, when
from levers.studies.analysis.views import Status
from levers.studies.library import copy_study, list_studies, load_study
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
from levers.studies.study import Study

if TYPE_CHECKING:
    from levers.client import RemoteStudy

_HELP = {setting.name: setting.help for setting in SETTINGS}
SpaceOption = Annotated[Path | None, typer.Option(help="A .toml or .json file with the levers.")]
FactorOption = Annotated[list[str] | None, typer.Option(help="A lever and its levels: heat=low,mid,high.")]
ForbidOption = Annotated[list[str] | None, typer.Option(help="Levels that cannot be together: heat=high,speed=4.")]
MergeOption = Annotated[list[str] | None, typer.Option(help="Levers that influence each other: heat,speed.")]
HardOption = Annotated[list[str] | None, typer.Option(help=_HELP["hard_to_change"])]


def typed_levers(space: Path | None, factor: list[str] | None, besides: str = "") -> Typed:
    """The levers that a command is given: in a file, or one by one; `besides` says in what other way it takes them."""
    if (space is None) == (not factor):
        raise InvalidSpaceError(f"give the levers once: {besides}--space FILE, or --factor NAME=LEVEL,LEVEL for each")
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
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the study.", metavar="NAME")],
    space: SpaceOption = None,
    factor: FactorOption = None,
    forbid: ForbidOption = None,
    merge: MergeOption = None,
    free: Annotated[list[str] | None, typer.Option(help=_HELP["free"])] = None,
    hard_to_change: HardOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
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
      levers create oven --space oven.toml --budget 200 --url http://lab:8080
      levers create oven --space oven.toml --baseline heat=low,speed=2,supplier=A --baseline-outcome 70 --tolerance 5%
    """
    given = typed_levers(space, factor)
    levers = given.space
    if settings["baseline"] is not None:
        settings["baseline"] = parse_setting(levers, settings["baseline"])
    settings |= levers_besides(given, forbid, merge, hard_to_change, free)
    study = studies_in(context).create_study(name, levers, **settings)
    counted = several(levers.n_factors, "lever", "levers")
    typer.echo(f"created {name!r} in {kept_in(study)}: {counted}, seed {study.spec.seed}")
    _say_next(context, study)


def _say_next(context: typer.Context, study: "Study | RemoteStudy") -> None:
    """What a study that was begun needs, and how to begin."""
    ask = ("ask", study.name, "-n", study.spec.block_size or 8, "--sheet", "runs.csv")
    typer.echo(f"{study.forecast()}\nnext: {command_there(context, *ask)}")


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


@on_study()
def copy(
    at: Reached,
    new_name: Annotated[str, typer.Argument(help="The copy's name.", metavar="NEW_NAME")],
    to: Annotated[str | None, typer.Option(help="Another storage to copy to.")] = None,
) -> None:
    """Copy a study with its whole log, under another name or to another storage.

    \b
    Example:
      levers copy oven oven-backup --to sqlite:///backup.db
    """
    if to is None:
        made: Study | RemoteStudy = at.studies.copy_study(at.name, new_name)
    elif isinstance(at.studies, StudiesHere):
        made = copy_study(at.name, new_name, at.studies.storage, to)
    else:
        raise InvalidSettingError("--to is another storage; a service copies a study to another name only")
    told = several(made.status().n_complete, "outcome", "outcomes")
    typer.echo(f"copied {at.name!r} to {new_name!r} in {kept_in(made)}: {told}")


@on_study()
def merge(
    at: Reached,
    new_name: Annotated[str, typer.Argument(help="The new study's name.", metavar="NEW_NAME")],
    factors: Annotated[str, typer.Argument(help="The levers to study as one: heat,speed.", metavar="LEVERS")],
    budget: Annotated[int | None, typer.Option(help="Runs from here on, if the study has a budget.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same design.")] = None,
) -> None:
    """Go on with levers that influence each other studied as one: a new study, with the runs so far as evidence.

    \b
    Example:
      levers merge oven oven-2 heat,speed
    """
    [levers] = parse_merged(at.study.space, factors)
    made = at.studies.merge_study(at.name, new_name, levers, budget=budget, seed=seed)
    lever = made.spec.inner.factors[made.spec.merging.column_of(levers[0])]
    runs = several(made.status().n_past, "run", "runs")
    typer.echo(
        f"created {new_name!r} in {kept_in(made)}: {lever.name} as one lever of {lever.n_levels} levels, "
        f"with {runs} of {at.name!r} as evidence"
    )
    _say_next(at.context, made)


@on_study()
def delete(
    at: Reached,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a study and everything that was told to it.

    \b
    Example:
      levers delete oven --yes
    """
    told = several(at.study.status().n_complete, "outcome", "outcomes")
    if not yes and not typer.confirm(f"delete {at.name!r} with {told}, for good?"):
        raise typer.Exit(1)
    at.studies.delete_study(at.name)
    typer.echo(f"deleted {at.name!r}")
