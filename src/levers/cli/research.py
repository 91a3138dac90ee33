"""`levers plan`, `compare`, `reproduce`, `demo`: before the first run, and on simulated worlds."""

import os
import re
from collections.abc import Sequence
from dataclasses import astuple, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from levers.algorithms.base import Problem, Verdict
from levers.algorithms.modl import Modl
from levers.algorithms.registry import DEFAULT_ALGORITHM, described, make_algorithm
from levers.cli.options import say_json, say_rows, was_typed, with_settings
from levers.cli.output import Format, console, print_verdict
from levers.cli.service import import_serving, serve_storage
from levers.cli.studies import FactorOption, ForbidOption, MergeOption, SpaceOption, levers_besides, typed_levers
from levers.core.certificates.sample_size import SCHEDULES
from levers.core.outcome_scale import EVERY_SCALE
from levers.core.space import Space
from levers.core.validation import check_count
from levers.errors import InvalidSettingError
from levers.experiments.compare import (
    DEFAULT_ALGORITHMS,
    OF_RANDOM_WORLDS,
    Comparison,
    curve,
    run_curves,
    run_tasks,
    summarise,
)
from levers.experiments.demo import FAILURE_PROB, TOLERANCE, Line, new_demo, run_demo
from levers.experiments.plan import GUESSES, Plan
from levers.experiments.plan import plan as make_plan
from levers.experiments.runner import run_on_world
from levers.progress import progress_bar
from levers.reproduction.sweeps import SWEEPS
from levers.studies.analysis.describe import several
from levers.studies.library import open_storage
from levers.studies.settings import PLAN
from levers.worlds.named import factory_line
from levers.worlds.scm import World, best_assignment, gap, true_parents

if TYPE_CHECKING:
    from levers.reproduction.sweeps import Task

_ROWS = {
    "one_shot_runs": "one balanced design that settles everything",
    "worst_case_runs": "the adaptive solver, at most",
    "runs_if_nothing_matters": "about, if no lever matters",
    "runs_if_few_matter": "about, if a few levers matter",
    "modl_runs": "the paper's method (MODL), if nothing can be eliminated",
    "one_at_a_time_runs": "one lever at a time, with the same precision",
    "full_factorial": "every setting once",
    "necessary_runs": "limit of any balanced fixed-size design",
    "lower_bound": "limit of any method, on its worst effects",
    "null_bound": "limit of any method, if no lever matters",
}
_COMPARED = ("modl_runs", "one_at_a_time_runs", "necessary_runs", "lower_bound", "null_bound")
"""What the certificate of a budget is compared with."""


def level_counts(text: str) -> list[int]:
    """`4x10` is ten levers of four levels; parts are joined by commas.

    >>> level_counts("4x3,2,5x2")
    [4, 4, 4, 2, 5, 5]
    """
    sizes: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:x(\d+))?\s*", part)
        if not match:
            raise InvalidSettingError(f"levels must look like 4x10 or 3,4,5 or 4x3,2, not {text!r}")
        sizes += [int(match[1])] * int(match[2] or 1)
    return sizes


@with_settings(PLAN)
def plan(
    levels: Annotated[str | None, typer.Option(help="Levels of each lever: 4x10, or 3,4,5, or a mix.")] = None,
    space: SpaceOption = None,
    factor: FactorOption = None,
    forbid: ForbidOption = None,
    merge: MergeOption = None,
    output: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    **settings: Any,
) -> None:
    """Say what the runs that you can make will do, or how many it takes to be close enough to the best.

    Without --noise-sd the study has to learn the noise, and the plan says what it was made for.

    \b
    Examples:
      levers plan --levels 3,4,5,2 --budget 120 --per-day 8
      levers plan --levels 3,4,5,2 --budget 200 --expected-noise 2
      levers plan --levels 4x10 --tolerance .5 --noise-sd 1
      levers plan --levels 5x30 --tolerance .5 --max-parents 4 --format json
      levers plan --space oven.toml --forbid heat=high,speed=4 --tolerance .5 --noise-sd 1
    """
    if output not in ("table", "json"):
        raise InvalidSettingError(f"--format must be table or json, not {output!r}")
    sizes: Space | list[int]
    if levels is None:
        given = typed_levers(space, factor, besides="--levels 4x10, ")
        sizes, together = given.space, levers_besides(given, forbid, merge, None)
        settings |= {name: together[name] for name in ("forbidden", "merged")}
    elif space or factor or forbid or merge:
        raise InvalidSettingError(
            "give the levers once: --levels, or --space FILE or --factor with what goes with them"
        )
    else:
        sizes = level_counts(levels)
    found = make_plan(sizes, **settings)
    if output == "json":
        say_json(found)
        return
    out = console()
    if found.budget is not None:
        _print_budget(out, found, guessed=settings["expected_noise"] is not None)
    elif found.noise_known or settings["expected_noise"] is not None:
        _print_runs(out, found)
    else:
        guesses = [{**settings, "expected_noise": factor * found.noise_sd} for factor in GUESSES]
        _print_guesses(out, [make_plan(sizes, **guess) for guess in guesses])


def _said(found: Plan, amount: float | None, digits: str = ".3g") -> str:
    """An amount of a plan: a number in the outcome's unit, or percent."""
    return "-" if amount is None else EVERY_SCALE[found.scale].said(amount, digits)


def _noise_words(found: Plan) -> str:
    return f"noise sd {_said(found, found.noise_sd, 'g')}" + (
        "" if found.noise_known else " expected, and learned by the study"
    )


def _print_runs(out: Console, found: Plan) -> None:
    """A plan for a tolerance: how many runs."""
    out.print(f"{_wanted(found)}, {_noise_words(found)}\n")
    _print_counts(out, found, list(_ROWS))
    trade = _table("tolerance", "runs of one design")
    for row in found.trade_off:
        trade.add_row(_said(found, row.tolerance), f"{row.runs:,}")
    out.print(trade)
    if found.over_lower_bound is not None:
        ratio = "" if found.over_necessary is None else f"{found.over_necessary:.2f} times the balanced limit and "
        out.print(f"One design takes {ratio}{found.over_lower_bound:.1f} times the limit of any method.")


def _print_guesses(out: Console, found: Sequence[Plan]) -> None:
    """Plans for a tolerance where nothing is known about the noise: how many runs, by what it turns out to be."""
    out.print(f"{_wanted(found[0])}, noise not known\n")
    per_day = found[0].block_size is not None
    table = _table("noise sd", "likely", "at most", *(["days, likely", "days, at most"] if per_day else []))
    for row in found:
        runs = (row.runs_if_few_matter, row.worst_case_runs)
        days = [f"{day:,}" for n in runs if (day := row.days(n)) is not None]
        table.add_row(_said(row, row.noise_sd), *(f"{n:,}" for n in runs), *days)
    out.print(table)
    out.print(
        "Runs of the adaptive solver, by what the noise turns out to be: the study learns it. --expected-noise plans "
        "for one, --noise-sd for one that is known.",
        highlight=False,
    )


def _wanted(found: Plan) -> str:
    within = _said(found, found.tolerance)
    return (
        f"[bold]{several(found.n_factors, 'lever', 'levers')}[/bold], within {within} of the best with "
        f"probability {1 - found.failure_prob:.0%}"
    )


def _print_budget(out: Console, found: Plan, guessed: bool) -> None:
    """A plan for a budget: what so many runs do, and half and twice as many."""
    what = f"{several(found.n_factors, 'lever', 'levers')}, {found.budget:,} runs"
    noise = _noise_words(found) if found.noise_known or guessed else "noise not known"
    out.print(f"[bold]{what}[/bold], {noise}\n")
    days = [] if found.block_size is None else ["days"]
    n_worlds = found.budgets[0].n_worlds
    certified = ["certified, typically"] * bool(n_worlds) + ["certified (--aim certify)"]
    table = _table("runs", *days, *certified, "typical loss", "standard error")
    for row in found.budgets:
        promised = [row.typical_tolerance] * bool(n_worlds) + [row.tolerance]
        within = ["nothing" if one is None else f"within {_said(found, one)}" for one in promised]
        lost = ("-", "-")
        if row.loss is not None:
            lost = (_said(found, row.loss, ".2g"), _said(found, row.loss_error, ".1g"))
        lost = ("none seen", "-") if row.loss == 0 else lost
        table.add_row(f"{row.runs:,}", *(f"{found.days(row.runs):,}" for _ in days), *within, *lost)
    out.print(table)
    said = [f"Certified: how far from the best the setting can be, with probability {1 - found.failure_prob:.0%}."]
    if n_worlds:
        said[0] += (
            " Typically: the median of studies that aim for the best setting, as they do with a budget. With --aim "
            "certify: if nothing can be ruled out."
        )
        said.append(
            f"Typical loss: how far from the best the setting recommended is on average (--aim best). Both are of "
            f"{n_worlds} simulated studies with effects of sd {_said(found, found.effect_sd, 'g')} (--effect-sd)."
        )
    else:
        said.append("No typical loss: such studies take too long to be simulated here.")
    if any(row.tolerance is None for row in found.budgets):
        said.append(f"Fewer than {found.least_certified:,} runs certify nothing, and still recommend a setting.")
    if not found.noise_known:
        said.append(
            f"The noise is not known: everything is for one of sd {_said(found, found.noise_sd, 'g')}, and grows with "
            "it." + ("" if guessed else " --expected-noise plans for another, --noise-sd for one that is known.")
        )
    for line in said:
        out.print(line, highlight=False)
    if found.tolerance is not None:
        out.print(f"\nWithin {_said(found, found.tolerance)} takes, by other ways:", highlight=False)
        _print_counts(out, found, _COMPARED)


def _print_counts(out: Console, found: Plan, names: Sequence[str]) -> None:
    """Counts of runs with what they are for, and the days of those that people make."""
    days = [] if found.block_size is None else ["days"]
    table = _table("runs", *days)
    table.add_column("what for")
    for name in names:
        value: int | None = getattr(found, name)
        if value is not None:
            counts = [value, *([] if found.block_size is None else [-(-value // found.block_size)])]
            table.add_row(*(f"{n:,}" if n < 10**15 else f"10^{len(str(n)) - 1}" for n in counts), _ROWS[name])
    out.print(table)


def _table(first: str, *others: str) -> Table:
    """A table of numbers, the first column in bold."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in (first, *others):
        table.add_column(name, justify="right", style="bold" if name == first else "")
    return table


def parse_range(text: str) -> tuple[int, int]:
    """`3-6` or `4` as a pair of whole numbers.

    >>> parse_range("3-6"), parse_range("4")
    ((3, 6), (4, 4))
    """
    low, _, high = text.partition("-")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise InvalidSettingError(f"levels must look like 3-6 or 4, not {text!r}") from None


_SWEPT = {"factors": "n_factors", "parents": "n_parents", "worlds": "n_worlds", "repeats": "n_repeats"}
"""Options of compare whose settings have other names."""
_NOT_SWEPT = ("algorithms", "at", "world_file", "outcome", "make_worlds", "known_parents", "known_min_effect")


def parse_numbers(text: str, name: str, kind: type[int] | type[float] = int) -> tuple[Any, ...]:
    """Numbers separated by commas.

    >>> parse_numbers("20,40", "at"), parse_numbers("2,5", "table-beta", float), parse_numbers("", "at")
    ((20, 40), (2.0, 5.0), ())
    """
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InvalidSettingError(f"--{name} must be numbers separated by commas, not {text!r}") from None


def parse_sweep(text: str) -> tuple[str, list[tuple[str, Any]]]:
    """`parents=1,3,5` as the setting of a comparison, and each value as typed and as meant.

    >>> parse_sweep("parents=1,3")
    ('n_parents', [('1', 1), ('3', 3)])
    >>> parse_sweep("levels=3-6,4")
    ('levels', [('3-6', (3, 6)), ('4', (4, 4))])
    """
    option, _, values = text.partition("=")
    option = option.strip().lstrip("-").replace("-", "_")
    name = _SWEPT.get(option, option)
    kinds = {f.name: f.type for f in fields(Comparison) if f.name not in _NOT_SWEPT and "tuple" not in str(f.type)}
    if name != "levels" and name not in kinds:
        known = sorted({*kinds, "levels", *_SWEPT} - set(_SWEPT.values()))
        raise InvalidSettingError(f"--sweep must be one of {', '.join(known)} with values, as in parents=1,3,5")
    typed = [value.strip() for value in values.split(",") if value.strip()]
    if not typed:
        raise InvalidSettingError(f"--sweep needs values, as in {option}=1,3,5")
    if name == "levels":
        return name, [(value, parse_range(value)) for value in typed]
    kind = str if kinds[name] is str else int if "int" in str(kinds[name]) else float
    try:
        return name, [(value, kind(value)) for value in typed]
    except ValueError:
        raise InvalidSettingError(f"--sweep {option} takes numbers separated by commas, not {values!r}") from None


def compare(
    context: typer.Context,
    n_factors: Annotated[int, typer.Option("--factors", help="Number of levers (K).")] = 10,
    n_parents: Annotated[int, typer.Option("--parents", help="How many of them influence the outcome (P_Y).")] = 3,
    levels: Annotated[str, typer.Option(help="Levels per lever, a range like 3-6 or one number.")] = "3-6",
    tolerance: Annotated[float, typer.Option(help="How far from the best is good enough (eps).")] = 0.5,
    failure_prob: Annotated[float, typer.Option(help="How often the answer may be worse than that (delta).")] = 0.1,
    noise_sd: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 1.0,
    noise: Annotated[
        str, typer.Option(help="What the noise is like: gaussian, uniform, two-point or bernoulli.")
    ] = "gaussian",
    n_worlds: Annotated[int, typer.Option("--worlds", help="Number of random worlds.")] = 20,
    n_repeats: Annotated[int, typer.Option("--repeats", help="Runs of each algorithm on each world.")] = 5,
    algorithms: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(DEFAULT_ALGORITHMS),
    at: Annotated[
        str, typer.Option(help="Report the gap after these numbers of runs instead, for example 20,40,80,160.")
    ] = "",
    sweep: Annotated[str | None, typer.Option(help="Vary one of these settings, for example parents=1,3,5.")] = None,
    world: Annotated[
        Path | None, typer.Option(help="One world from a .toml or .bif file, instead of random ones.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Which node of the file is the outcome.")] = None,
    known_parents: Annotated[
        bool, typer.Option("--known-parents", help="Tell the algorithms the number of parents.")
    ] = False,
    told_parents: Annotated[
        int | None, typer.Option(help="Tell the algorithms that so many levers matter at most, true or not.")
    ] = None,
    known_min_effect: Annotated[
        bool, typer.Option("--known-min-effect", help="Tell the algorithms the least range of a parent's effects.")
    ] = False,
    schedule: Annotated[str, typer.Option(help=f"MODL's widths: {', '.join(SCHEDULES)}.")] = SCHEDULES[0],
    degree: Annotated[float, typer.Option(help="Expected degree of the causal graph.")] = 3.0,
    interaction: Annotated[float, typer.Option(help="Strength of interactions that break additivity (alpha).")] = 0.0,
    interactions: Annotated[
        str, typer.Option(help="Products of so many parents that break additivity, for example 2,3,3.")
    ] = "",
    magnitude: Annotated[float, typer.Option(help="The coefficient of each of these products.")] = 0.0,
    min_effect: Annotated[float, typer.Option(help="Least range of every parent's effects.")] = 0.0,
    max_in_degree: Annotated[int, typer.Option(help="Cap on the causes of a lever; -1 for none.")] = 6,
    child_prob: Annotated[float, typer.Option(help="How often a lever after the outcome is an effect of it.")] = 0.5,
    table_beta: Annotated[str, typer.Option(help="Parameters of the Beta law of conditional probabilities.")] = "2,5",
    root_dirichlet: Annotated[float, typer.Option(help="Parameter of the Dirichlet law of levers that read none.")] = (
        0.5
    ),
    workers: Annotated[int, typer.Option(help="Processes; 0 for one per core.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    output: Annotated[Format, typer.Option("--format", help="How to print the result.")] = Format.table,
) -> None:
    """Compare algorithms on the same random worlds of the paper, or on a world from a file.

    The gap is how far the answer is from the best of the world, and a failure is a gap above the tolerance.
    over_necessary is the runs over the fewest that any balanced design of a fixed size needs to keep the promise: an
    algorithm that looks at outcomes on its way can take fewer, and is then below 1.

    \b
    Examples:
      levers compare --factors 10 --parents 3
      levers compare --algorithms modl,successive-elimination --factors 4 --parents 2 --format csv
      levers compare --algorithms cfs,rage,lingape,xy-adaptive --factors 3 --parents 2 --levels 3
      levers compare --algorithms cfs,thompson,tpe,random --at 20,40,80,160
      levers compare --algorithms cfs,modl --sweep parents=1,3,5
      levers compare --world plant.toml --repeats 20
    """
    given = {name: value for name, value in locals().items() if name in {f.name for f in fields(Comparison)}}
    given["levels"] = parse_range(levels)
    given["algorithms"] = tuple(name.strip() for name in algorithms.split(",") if name.strip())
    given["max_in_degree"] = None if max_in_degree < 0 else max_in_degree
    given["at"] = parse_numbers(at, "at")
    given["interactions"] = parse_numbers(interactions, "interactions")
    given["table_beta"] = parse_numbers(table_beta, "table-beta", float)
    swept, values = (None, [("", None)]) if sweep is None else parse_sweep(sweep)
    if world is not None:
        _check_of_the_file(context, swept)
        given |= {"world_file": str(world), "n_worlds": 1}
    plans = {typed: Comparison(**given | ({} if swept is None else {swept: value})) for typed, value in values}
    rows = []
    n_studies = sum(len(one.tasks()) * len(one.algorithms) * (len(one.at) or 1) for one in plans.values())
    with progress_bar("studies", n_studies) as advance:
        for typed, one in plans.items():
            records: list[Any] = []
            for batch in (run_curves if one.at else run_tasks)(one, workers or os.cpu_count() or 1):
                records += batch
                advance(len(batch), f"world {batch[0].world + 1} of {one.n_worlds}")
            found: Sequence[Any] = curve(one, records) if one.at else summarise(one.algorithms, records)
            rows += [row if sweep is None else _with_value(row, sweep.partition("=")[0], typed) for row in found]
    counts = {
        "n_factors": several(n_factors, "lever", "levers"),
        "n_parents": f"{n_parents:,} that {'matters' if n_parents == 1 else 'matter'}",
        "n_worlds": several(n_worlds, "world", "worlds"),
    }
    where = ", ".join(what for name, what in counts.items() if name != swept)
    title = f"{where if world is None else world} x {n_repeats}"
    say_rows(rows, output, title, drop=("seconds", "over_necessary", "runs_sem"))
    if world is not None and (alone := best_assignment(next(iter(plans.values())).world(0)).free):
        are = several(len(alone), "lever is", "levers are")
        typer.echo(
            f"In this world {are} best left alone ({', '.join(alone)}): something hidden acts on what nature does and "
            "on the outcome.\n"
            "The algorithms set every lever and promise nothing about leaving any alone, but gaps and failures are "
            "against the best.\n"
            f"A study that is told of it compares both: levers.create_study(..., free={list(alone)!r})",
            err=output is not Format.table,
        )


def _check_of_the_file(context: typer.Context, swept: str | None) -> None:
    """Refuse options that say how random worlds are made beside a world from a file."""
    given = next((name for name in OF_RANDOM_WORLDS if was_typed(context, name)), None)
    option = f"--sweep {context.params['sweep']}" if swept in OF_RANDOM_WORLDS else None
    if given is not None:
        option = next(one.opts[0] for one in context.command.params if one.name == given)
    if option is not None:
        raise InvalidSettingError(f"{option} has no effect with --world: the file says what its world is; leave it out")


def _with_value(row: Any, option: str, typed: str) -> Any:
    """A row of results with the value of what was swept in front."""
    names = [option.strip().lstrip("-").replace("-", "_"), *(f.name for f in fields(row))]
    return make_dataclass("Swept", names)(typed, *astuple(row))


def reproduce(
    what: Annotated[
        str,
        typer.Argument(help=f"all, or one of {', '.join(SWEEPS)}.", metavar="WHAT"),
    ] = "all",
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for results.")] = Path("reproduction"),
    size: Annotated[
        str, typer.Option(help="smoke (seconds), notebook (20 worlds x 5) or paper (20 x 50).")
    ] = "notebook",
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="A dask scheduler, for example tcp://127.0.0.1:8786.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same tables, byte for byte.")] = 0,
    noise: Annotated[
        str, typer.Option(help="gaussian, uniform, two-point, or bernoulli: outcomes of 0 and 1.")
    ] = "gaussian",
) -> None:
    """Run the paper's experiments, draw its figures, and check what its text says.

    Stop it whenever you like; the same command goes on where it was. With noise of another shape than the paper's, it
    runs the experiments that have it, without the schedules that need millions of runs.

    \b
    Examples:
      levers reproduce all --size smoke -o results
      levers reproduce parents --size paper --workers 8 -o results
      levers reproduce parents --noise two-point -o two-point
      levers reproduce all --size paper --scheduler tcp://127.0.0.1:8786 -o results
    """
    from levers.reproduction.claims import check_claims  # brings polars, which no other command here needs
    from levers.reproduction.figures import check_can_draw
    from levers.reproduction.report import write_report
    from levers.reproduction.run import all_tasks
    from levers.reproduction.run import reproduce as run_experiments

    check_can_draw()  # before hours of work, and not after them
    _, tasks = all_tasks(what, size, seed, noise)
    with progress_bar("tasks", len(tasks)) as advance:
        shown = 0

        def on_task(task: "Task", done: int, of: int) -> None:
            nonlocal shown
            advance(done - shown, task.sweep)
            shown = done

        found = run_experiments(
            what, output, size=size, seed=seed, workers=workers, scheduler=scheduler, noise=noise, on_task=on_task
        )
    claims = check_claims(found)
    report = write_report(found, claims, output)
    out = console()
    for claim in claims:
        colour = {"holds": "green", "does not hold": "red"}.get(claim.verdict, "yellow")
        out.print(Text.assemble((f"{claim.verdict:22}", colour), f" {claim.name}: {claim.measured}"))
    out.print(Text(f"\n{found.runs.height:,} runs of studies in {found.seconds:.0f} s; report: {report}"))


def demo(
    algorithm: Annotated[str, typer.Option(help="Which algorithm runs the study.")] = DEFAULT_ALGORITHM,
    seed: Annotated[int, typer.Option(help="Same seed, same study.")] = 0,
    serve: Annotated[bool, typer.Option("--serve", help="Keep the study, and show it in a browser.")] = False,
    storage: Annotated[str, typer.Option(help="Where --serve keeps it.")] = "sqlite:///levers-demo.db",
    port: Annotated[int, typer.Option(help="Where --serve listens; 0 takes a free port.")] = 8080,
) -> None:
    """Study a simulated injection-moulding line with 12 levers, from start to verdict.

    \b
    Examples:
      levers demo --seed 3
      levers demo --serve
    """
    check_count("seed", seed, 0)
    world = factory_line()
    space = world.space
    problem = Problem(space, TOLERANCE, FAILURE_PROB, world.outcome.noise_sd)
    make_algorithm(algorithm, problem)  # refuses what it cannot do, before anything is printed
    out = console()
    out.print(
        f"[bold]An injection-moulding line with {space.n_factors} levers[/bold], "
        f"{space.n_assignments:,} possible settings.\n"
        f"Wanted: a setting whose share of good parts is within {TOLERANCE} points of the best possible one, "
        f"with probability {1 - FAILURE_PROB:.0%}.\nEvery run costs money, and its result is noisy (sd 1 point).\n"
    )
    study = new_demo(open_storage(storage if serve else None), seed=seed, algorithm=algorithm)
    with progress_bar("runs on the line", None) as advance:
        run_demo(study, Line(seed), advance)
    verdict = study.verdict()
    print_verdict(out, verdict)
    _report(out, world, verdict, problem, seed)
    if serve:
        out.print(f"\n[bold]The study[/bold] {study.name!r} is in {study.storage.url}", highlight=False)
        address = import_serving().Address(port=port)
        serve_storage(study.storage, address, page=f"/studies/{quote(study.name, safe='')}")


def _report(out: Console, world: World, verdict: Verdict, problem: Problem, seed: int) -> None:
    paper = verdict if verdict.algorithm == "modl" else run_on_world(Modl(problem), world, seed)
    every = world.space.n_assignments
    loss = gap(world, verdict.assignment.codes)
    found, true = set(verdict.parents or ()), set(true_parents(world))
    out.print(f"\n[bold]Certificate[/bold]  {verdict.promise}: {verdict.statement}.")
    out.print(f"[bold]Levers that matter[/bold]  {', '.join(verdict.parents or ())}")
    out.print(f"[bold]Runs used[/bold]  {verdict.n_runs:,}")
    if verdict is not paper:
        out.print(
            f"  the paper's method (MODL) on the same line: {paper.n_runs:,}, "
            f"{paper.n_runs / verdict.n_runs:.1f} times as many"
        )
    out.print(f"  every setting once: {every:,}, {every / verdict.n_runs:,.0f} times as many")
    best = best_assignment(world)
    out.print(
        f"\nBecause this line is simulated, the truth is known: the setting found is {loss:.2f} points below the best, "
        f"and the levers named are {'exactly' if found == true else 'not exactly'} those that matter "
        f"(best: {', '.join(f'{name} {best[name]}' for name in sorted(true))})."
    )


def algorithms() -> None:
    """List the algorithms by name."""
    for name, text in described():
        typer.echo(f"{name:26} {text}")
