"""`levers demo`: a whole study of a simulated factory line, from start to verdict."""

from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console

from levers.algorithms.base import Problem, Verdict
from levers.algorithms.modl import Modl
from levers.algorithms.registry import DEFAULT_ALGORITHM, make_algorithm
from levers.cli.dashboard import import_serving, serve_storage
from levers.cli.render import console, print_verdict
from levers.core.checks import check_count
from levers.experiments.demonstration import FAILURE_PROB, TOLERANCE, Line, new_demo, run_demo
from levers.experiments.worlds import run_on_world
from levers.progress import progress_bar
from levers.simulation.named import factory_line
from levers.simulation.scm import World
from levers.simulation.truth import best_assignment, gap, true_parents
from levers.studies.storage import open_storage
from levers.studies.study import Study

DEMO_STORAGE = "sqlite:///levers-demo.db"


def demo(
    algorithm: Annotated[str, typer.Option(help="Which algorithm runs the study.")] = DEFAULT_ALGORITHM,
    seed: Annotated[int, typer.Option(help="Same seed, same study.")] = 0,
    serve: Annotated[bool, typer.Option("--serve", help="Keep the study, and show it in a browser.")] = False,
    storage: Annotated[str, typer.Option(help="Where --serve keeps it.")] = DEMO_STORAGE,
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
    verdict = _run(study, seed)
    print_verdict(out, verdict)
    _report(out, world, verdict, problem, seed)
    if serve:
        out.print(f"\n[bold]The study[/bold] {study.name!r} is in {study.storage.url}", highlight=False)
        address = import_serving().Address(port=port)
        serve_storage(study.storage, address, page=f"/studies/{quote(study.name, safe='')}")


def _run(study: Study, seed: int) -> Verdict:
    with progress_bar("runs on the line", None) as advance:
        run_demo(study, Line(seed), advance)
    return study.verdict()


def _report(out: Console, world: World, verdict: Verdict, problem: Problem, seed: int) -> None:
    paper = verdict if verdict.algorithm == "modl" else run_on_world(Modl(problem), world, seed)
    every = world.space.n_assignments
    loss = gap(world, verdict.assignment.codes)
    found, true = set(verdict.parents or ()), set(true_parents(world))
    out.print(
        f"\n[bold]Certificate[/bold]  within {verdict.tolerance:.2g} of the best with probability at least "
        f"{1 - verdict.failure_prob:.0%}: {verdict.guarantee}."
    )
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
