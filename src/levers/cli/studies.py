"""`levers create`, `studies`, `copy`, `merge`, `delete`: the studies themselves."""

import csv
from pathlib import Path
from typing import Annotated

import typer

from levers.cli.options import (
    DEFAULT,
    FormatOption,
    Name,
    StorageOption,
    StudyRow,
    check_exists,
    command,
    missing_file,
    open_study,
    say_rows,
)
from levers.cli.output import Format
from levers.core.space import Level, Space
from levers.errors import InvalidSettingError, InvalidSpaceError
from levers.studies.analysis.describe import several
from levers.studies.library import copy_study, create_study, delete_study, list_studies, merge_study
from levers.studies.space_text import SpaceFile, read_space


def create(
    name: Annotated[str, typer.Argument(help="A name for the study.", metavar="NAME")],
    space: Annotated[Path | None, typer.Option(help="A .toml or .json file with the factors.")] = None,
    factor: Annotated[list[str] | None, typer.Option(help="A lever and its levels: heat=low,mid,high.")] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="Levels that cannot be together: heat=high,speed=4.")] = None,
    merge: Annotated[list[str] | None, typer.Option(help="Levers that influence each other: heat,speed.")] = None,
    goal: Annotated[str, typer.Option(help="maximize or minimize.")] = "maximize",
    tolerance: Annotated[float | None, typer.Option(help="How far from the best is good enough.")] = None,
    failure_prob: Annotated[float, typer.Option(help="How often the answer may be worse than that.")] = 0.1,
    noise_sd: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise; estimated if unknown.")
    ] = None,
    max_parents: Annotated[int | None, typer.Option(help="At most so many factors matter.")] = None,
    min_effect: Annotated[float | None, typer.Option(help="A factor that matters moves the outcome so much.")] = None,
    budget: Annotated[int | None, typer.Option(help="Runs available, instead of a tolerance.")] = None,
    algorithm: Annotated[str, typer.Option(help="See `levers algorithms`.")] = "cfs",
    block_size: Annotated[int | None, typer.Option(help="Runs that are made together, on one sheet.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same design.")] = None,
    storage: StorageOption = DEFAULT,
) -> None:
    """Begin a study.

    \b
    Examples:
      levers create oven --space oven.toml --tolerance .5 --noise-sd 1
      levers create oven --factor heat=low,mid,high --factor speed=1,2,3 --tolerance .5
      levers create oven --space oven.toml --budget 200 --goal minimize --seed 3
    """
    if (space is None) == (not factor):
        raise InvalidSpaceError("give the factors once: --space FILE, or --factor NAME=LEVEL,LEVEL for each")
    found = read_space(space) if space is not None else SpaceFile(parse_factors(factor or []), [], [])
    levers = found.space
    study = create_study(
        name,
        levers,
        goal=goal,
        tolerance=tolerance,
        failure_prob=failure_prob,
        noise_sd=noise_sd,
        max_parents=max_parents,
        min_effect=min_effect,
        budget=budget,
        algorithm=algorithm,
        forbidden=[*found.forbidden, *(_combination(levers, text) for text in forbid or [])],
        merged=[*found.merged, *(_names(text) for text in merge or [])],
        storage=storage,
        seed=seed,
        block_size=block_size,
    )
    typer.echo(
        f"created {name!r} in {study.storage.url}: {levers.n_factors} factors, seed {study.spec.seed}\n"
        f"{study.forecast()}\n"
        f"next: {command('ask', name, '-n', block_size or 8, '--sheet', 'runs.csv')}"
    )


def studies(storage: StorageOption = DEFAULT, output: FormatOption = Format.table) -> None:
    """List the studies.

    \b
    Example:
      levers studies --format json
    """
    names = [] if missing_file(storage) else list_studies(storage)
    rows = [StudyRow.of(open_study(name, storage).status()) for name in names]
    say_rows(rows, output, "Studies", StudyRow.drop, "there are no studies here yet; `levers create` makes one")


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
    check_exists(name, storage)
    made = merge_study(name, new_name, _names(factors), storage, budget=budget, seed=seed)
    n_past = sum(len(past.values) for past in made.state.past)
    lever = made.spec.merging.inner.factors[made.spec.merging.column_of(_names(factors)[0])]
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


def parse_factors(texts: list[str]) -> Space:
    """Factors from `name=level,level` texts; levels that are all numbers become numbers.

    >>> parse_factors(["heat=low,high", "speed=1,2,3"]).factors[1].levels
    (1, 2, 3)
    """
    factors: dict[str, list[Level]] = {}
    for text in texts:
        name, sign, levels = text.partition("=")
        if not sign or not name.strip():
            raise InvalidSettingError(f"a factor looks like heat=low,mid,high, not {text!r}")
        if name.strip() in factors:
            raise InvalidSpaceError(f"factor {name.strip()!r} is given twice")
        factors[name.strip()] = _levels([level.strip() for level in levels.split(",")])
    return Space.of(factors)


def _levels(texts: list[str]) -> list[Level]:
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    return list(texts)


def _names(text: str) -> list[str]:
    """`heat,speed`, or `"a, b",c` for names with commas."""
    found = next(csv.reader([text], skipinitialspace=True), [])
    return [name.strip() for name in found if name.strip()]


def _combination(space: Space, text: str) -> dict[str, Level]:
    """`heat=high,speed=4`, with each level as the space has it."""
    found: dict[str, Level] = {}
    for part in text.split(","):
        name, sign, level = part.partition("=")
        if not sign:
            raise InvalidSettingError(f"a forbidden combination looks like heat=high,speed=4, not {text!r}")
        known = space.factors[space.position(name.strip())].levels
        same = [candidate for candidate in known if str(candidate) == level.strip()]
        found[name.strip()] = same[0] if same else level.strip()
    return found
