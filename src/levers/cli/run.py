"""`levers run`: tune any command."""

import dataclasses
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from levers.cli.options import (
    DEFAULT,
    FormatOption,
    Name,
    Reached,
    StorageOption,
    TokenOption,
    UrlOption,
    missing_file,
    service,
    studies_in,
    was_typed,
    with_settings,
)
from levers.cli.output import Format
from levers.cli.results import say_verdict
from levers.cli.studies import HardOption, levers_besides, typed_levers
from levers.errors import (
    InvalidSettingError,
    InvalidSpaceError,
    LeversError,
    NoSuchStudyError,
    StudyError,
    StudyExistsError,
)
from levers.experiments.commands.command import Command
from levers.experiments.commands.reading import TIMES, Reading
from levers.experiments.commands.template import NONE, named_levels, variable
from levers.experiments.optimize import differences
from levers.progress import progress_bar
from levers.studies.analysis.describe import setting_words, several
from levers.studies.library import create_study, load_study
from levers.studies.run import OLD_WORKER, AnyStudy
from levers.studies.settings import CREATE, settings_of
from levers.studies.space_text import Typed, parse_setting
from levers.studies.spec import StudySpec
from levers.studies.state import Trial
from levers.studies.workers.loop import Limits, work
from levers.studies.workers.worker import PATIENCE, Worker

INTERRUPTED, NOT_FINISHED = 130, 3
MOST_FAILURES = 5
_OF_LEVERS = ("forbidden", "merged", "hard_to_change")
"""Settings that are given with the levers."""
_SAY_EVERY = 10.0
"""Seconds between lines of progress where there is no terminal."""


@with_settings(CREATE)
def run(
    context: typer.Context,
    name: Name,
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="A command with {lever} in its arguments.")],
    space: Annotated[Path | None, typer.Option(help="A .toml or .json file with the levers.")] = None,
    factor: Annotated[list[str] | None, typer.Option(help="A lever and its levels: opt=1,2,3.")] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="Levels that cannot be together: opt=3,debug=on.")] = None,
    merge: Annotated[list[str] | None, typer.Option(help="Levers that influence each other: opt,unroll.")] = None,
    hard_to_change: HardOption = None,
    metric: Annotated[
        str | None, typer.Option(help="A regular expression; its first group, where it matches last, is the outcome.")
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", help="Where the outcome is in the JSON printed: results.0.mean.")
    ] = None,
    time_of: Annotated[
        str | None, typer.Option("--time", help=f"The outcome is a time: {', '.join(TIMES)}; see --scale.")
    ] = None,
    setup: Annotated[str | None, typer.Option(help="A command before each run, which is not counted.")] = None,
    warmup: Annotated[int, typer.Option(min=0, help="So many runs before each that counts.")] = 0,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run is ended, and failed.")] = None,
    cooldown: Annotated[float, typer.Option(min=0, help="Seconds without anything after each run.")] = 0.0,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    max_failures: Annotated[
        int, typer.Option(min=1, help="So many failed runs in a row end it, with what is wrong.")
    ] = MOST_FAILURES,
    n_runs: Annotated[
        int | None, typer.Option(min=1, help="At most so many runs now; exit code 3 if not done.")
    ] = None,
    shell: Annotated[bool, typer.Option("--shell", help="Let a shell read the command; levels are quoted.")] = False,
    worker: Annotated[str | None, typer.Option(help="A name for this worker; login and machine if not given.")] = None,
    patience: Annotated[
        float, typer.Option(min=0.001, help="Seconds for which a storage or service may be away.")
    ] = PATIENCE,
    url: UrlOption = None,
    token: TokenOption = None,
    storage: StorageOption = DEFAULT,
    output: FormatOption = Format.table,
    **settings: Any,
) -> None:
    """Tune a command: run what the study asks for, tell it, and end with the verdict.

    The study is begun if it is new, and gone on with if not; on several machines with one storage this is a fleet.
    {lever} in an argument is its level, {lever?text} a text that is there when the lever is on, {{ a brace; levels are
    in the environment too, as LEVERS_ and the lever's name in capitals. The outcome is the last number that the command
    prints, if nothing else is said. Where levers save a part of a time, and not so many seconds, --scale log is right,
    and all is said in percent. docs/run.md has more.

    \b
    Examples:
      levers run flags --space flags.toml --goal minimize --budget 120 --time user -- ./bench -O{opt} {unroll}
      levers run sort --factor buffer=1M,64M --factor threads=1,2,4 --budget 40 --goal minimize --time wall
                      -- sort -S {buffer} --parallel={threads} big.txt
      levers run flags --space flags.toml --goal minimize --tolerance 5% --scale log --time user -- ./bench -O{opt}
      levers run flags -- ./bench -O{opt} {unroll}
    """
    given = None if space is None and not factor else _without_empty(typed_levers(space, factor))
    besides = {} if given is None else levers_besides(given, forbid, merge, hard_to_change)
    if besides.get("free"):
        raise InvalidSettingError("a command sets every lever, and none can be left alone", field="free")
    if given is None and (forbid or merge or hard_to_change):
        raise InvalidSpaceError("--forbid, --merge and --hard-to-change go with the levers: --space FILE, or --factor")
    found = _find(context, name, storage)
    if found is None and given is None:
        raise InvalidSpaceError(f"there is no study {name!r} yet; give its levers: --space FILE, or --factor for each")
    levers = found.space if found is not None else given.space if given is not None else None
    assert levers is not None
    reading = Reading(metric, json_path, time_of)
    before = None if setup is None else [setup] if shell else shlex.split(setup)
    measure = Command.of(
        words, levers, reading=reading, setup=before, shell=shell, warmup=warmup, timeout=timeout, cooldown=cooldown
    )
    for lever in measure.unused:
        typer.echo(f"note: no argument has {{{lever}}}; the command sees it only as {variable(lever)}", err=True)
    if settings["baseline"] is not None:
        typed_level = parse_setting(levers, settings["baseline"])
        settings["baseline"] = {lever: NONE if level == "" else level for lever, level in typed_level.items()}
    wanted = {**settings, **besides}
    if found is None:
        assert given is not None
        found = _begin(context, name, given, wanted, storage)
    else:
        _check_same(context, found, given, wanted)
    if found.spec.free:
        raise StudyError(f"{name!r} leaves levers alone, which a command cannot do; `levers ask` and `tell` are for it")
    limits = Limits(n_runs=n_runs, max_failures=max_failures)
    finished = _work(found, measure, limits, worker=worker, patience=patience, jobs=jobs)
    at = Reached(context, name)
    if not finished:
        typer.echo(f"{at.standing()}\nthe same command goes on", err=True)
        raise typer.Exit(NOT_FINISHED)
    say_verdict(at, output)


def _without_empty(given: Typed) -> Typed:
    """The levers with a name for the level that stands for nothing."""
    factors = [(lever, named_levels(levels)) for lever, levels in given.factors]
    forbidden: list[Mapping[str, Any]] = [
        {lever: NONE if level == "" else level for lever, level in one.items()} for one in given.forbidden
    ]
    return given._replace(factors=factors, forbidden=forbidden)


def _find(context: typer.Context, name: str, storage: str) -> AnyStudy | None:
    """The study, if there is one."""
    client = service(context)
    try:
        if client is not None:
            return client.load_study(name)
        return None if missing_file(storage) is not None else load_study(name, storage)
    except NoSuchStudyError:
        return None


def _begin(context: typer.Context, name: str, given: Typed, wanted: Mapping[str, Any], storage: str) -> AnyStudy:
    """A new study; or one that another machine of the fleet has begun meanwhile."""
    try:
        study: AnyStudy = studies_in(context).create_study(name, given.space, **wanted)
    except StudyExistsError:
        found = _find(context, name, storage)
        if found is None:
            raise
        _check_same(context, found, given, wanted)
        return found
    typer.echo(f"created {name!r} in {study.address}: {several(study.space.n_factors, 'lever', 'levers')}", err=True)
    return study


def _check_same(context: typer.Context, found: AnyStudy, given: Typed | None, wanted: Mapping[str, Any]) -> None:
    """Refuse settings that were typed and are others than those of the study."""
    typed = {setting.name for setting in settings_of(CREATE) if was_typed(context, setting.name)}
    if given is not None:
        typed |= {"space", *_OF_LEVERS}
    if not typed:
        return
    spec = found.spec
    asked = {key: value for key, value in wanted.items() if key in typed or key in _OF_LEVERS}
    if not {"tolerance", "budget"} & typed:
        asked |= {"tolerance": spec.tolerance, "budget": dict(spec.options).get("budget")}
    asked.setdefault("baseline_outcome", spec.baseline_outcome)
    space = given.space if given is not None else spec.space
    differ = differences(spec, _spec_of(found.name, space, asked, spec), typed)
    if differ:
        raise StudyError(
            f"the study {found.name!r} in {found.address} was begun with other settings: {', '.join(differ)}; take "
            "another name, or leave these out and go on with it as it is"
        )


def _spec_of(name: str, space: Any, asked: Mapping[str, Any], found: StudySpec) -> StudySpec:
    """What would be asked for by these settings; where they do not fit together, they are not the study's either."""
    given = {key: value for key, value in asked.items() if value is not None}
    made = create_study(name, space, **given).spec
    return made if "seed" in given else dataclasses.replace(made, seed=found.seed)


def _work(study: AnyStudy, measure: Command, limits: Limits, *, worker: str | None, patience: float, jobs: int) -> bool:
    """Make the runs; returns whether there is a verdict. Ctrl-C and SIGTERM end it with everything kept."""
    try:
        with (
            _stopping(measure),
            Worker.open(study, worker, patience=patience, adopts=[OLD_WORKER]) as hand,
            progress_bar(f"{study.name} runs", None, shown=None) as advance,
        ):
            line = _Line(study, advance)
            return work(hand, measure, limits, calls_at_once=jobs, advance=line.say)
    except KeyboardInterrupt:
        with suppress(LeversError):
            kept = several(study.status().n_complete, "run is", "runs are")
            typer.echo(f"stopped; {kept} kept in {study.address}. The same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None


class _Line:
    """The line of progress: the best setting now and how many runs are to go, whenever a round has been decided."""

    def __init__(self, study: AnyStudy, advance: Any) -> None:
        self._study, self._advance = study, advance
        self._block, self._text, self._n_runs = -1, "", 0
        self._said_at = -_SAY_EVERY

    def say(self, trial: Trial) -> None:
        self._n_runs += 1
        if trial.block != self._block:
            self._block = trial.block
            with suppress(LeversError):  # the study may be away; the next round says it
                best, to_go = self._study.best(), self._study.status().to_go
                leading = "no estimate yet" if best is None else f"best now: {setting_words(best.params)}"
                self._text = f"{leading}; {to_go}"
                self._print()
        self._advance(1, self._text)

    def _print(self) -> None:
        """Where nobody watches a bar, a line now and then."""
        if not sys.stderr.isatty() and time.monotonic() >= self._said_at + _SAY_EVERY:
            self._said_at = time.monotonic()
            typer.echo(f"run {self._n_runs}: {self._text}", err=True)


@contextmanager
def _stopping(measure: Command) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the processes under way, and then the work."""

    def stop(*_: object) -> None:
        measure.stop.set()
        raise KeyboardInterrupt

    before = {which: signal.signal(which, stop) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
