"""`levers status`, `effects`, `verdict`, `plot`, `report`, `trials`, `export`, `verify`, `log`: what a study says."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levers.algorithms.base import PAST, Verdict
from levers.cli.options import FormatOption, Reached, doubt_lines, on_study, say_json, say_rows
from levers.cli.output import Format, as_table, console, print_verdict, table_width
from levers.core.merging import MAX_MERGED
from levers.core.model.checks.check import NONADDITIVITY
from levers.core.outcome_scale import EVERY_SCALE
from levers.core.validation import visible
from levers.errors import NotFinishedError
from levers.studies.analysis.confirmation import confirmation_words
from levers.studies.analysis.describe import (
    BLOCK,
    CONFIRMATIONS,
    and_fresh,
    enough_words,
    expected_words,
    gain_words,
    on_parents,
    promise,
    setting_words,
    several,
    when,
)
from levers.studies.analysis.views import AWAITS, Best, EffectRow, Status
from levers.studies.sheets.cells import left_alone_text, level_text
from levers.studies.spec import LEAVE_ALONE

if TYPE_CHECKING:
    import polars


NOT_AS_WRITTEN = 6
"""The exit code of a study that is not what its log says."""
IN_DOUBT = 4
"""The exit code of a verdict that outcomes contradict."""


@on_study()
def status(at: Reached, output: FormatOption = Format.table) -> None:
    """Where a study stands: runs made, runs to go, the leading setting, corrections.

    \b
    Example:
      levers status oven
    """
    study = at.study
    found, best = study.status(), study.best()
    if output is not Format.table:
        times = {"created_at": when(found.created_at), "updated_at": when(found.updated_at)}
        row: dict[str, Any] = {**dataclasses.asdict(found), **times}
        if output is Format.csv:
            say_rows([row], output, "")
            return
        own = None if best is None else {"params": dict(best.params), "free": list(best.params.free)}
        leading = None if best is None or own is None else {**dataclasses.asdict(best), **own}
        say_json({**row, "best": leading})
        return
    stage = "" if found.stage == BLOCK else f"{found.stage}, "
    scale = study.outcome_scale
    on = ", on a log scale" if scale.is_log else ""
    typer.echo(f"{found.name}: {found.state}, {stage}{found.goal} with {found.algorithm}{on}")
    out = several(found.n_running, "run", "runs")
    told = several(found.n_complete, "outcome", "outcomes") + and_fresh(found.n_fresh)
    typer.echo(f"  {told}, {out} out, {found.n_waiting:,} waiting in this round")
    if found.n_failed or found.n_stale:
        failed, stale = (several(n, "run", "runs") for n in (found.n_failed, found.n_stale))
        lost = [*([f"{failed} failed"] if found.n_failed else []), *([f"{stale} stale"] if found.n_stale else [])]
        typer.echo(f"  {', '.join(lost)}; asked for again")
    if found.n_past:
        typer.echo(f"  {several(found.n_past, 'imported run', 'imported runs')}")
    if found.n_excluded:
        typer.echo(f"  {several(found.n_excluded, 'outcome does', 'outcomes do')} not count")
    for line in doubt_lines(found.doubts):
        typer.echo(f"  {line}")
    if not found.doubts and (checked := _checked_words(found)) is not None:
        typer.echo(f"  {checked}")
    if found.confirmation is not None:
        typer.echo(f"  {CONFIRMATIONS[found.confirmation]}")
    finished = found.state != "running"
    typer.echo(f"  {found.to_go}" if found.state in AWAITS else "  no runs to go")
    if found.note is not None:
        typer.echo(f"  {found.note}")
    if best is not None:
        typer.echo(f"  {'chosen' if finished else 'leading'}: {setting_words(best.params)}")
        typer.echo(f"  {_promise(best, study.spec.failure_prob, finished, bool(found.doubts))}")
        if best.predicted is not None:
            expected = f"{best.predicted:.4g} ({best.low:.4g} to {best.high:.4g})"
            typer.echo(f"  {expected_words(scale)} there: {expected}")
        if best.gain is not None:
            typer.echo(f"  {gain_words(best.gain, finished, study.spec.baseline_outcome, scale)}")
    for correction in study.corrections()[-5:]:
        typer.echo(
            f"  corrected {when(correction.at)} by {visible(correction.who)}: trial {correction.trial} "
            f"{correction.before:g} -> {correction.value:g} ({visible(correction.reason)})"
        )
    for one in study.exclusions()[-5:]:
        said = f"trial {one.trial} {one.value:g} ({visible(one.reason)})"
        typer.echo(f"  excluded {when(one.at)} by {visible(one.who)}: {said}")


@on_study()
def effects(at: Reached, output: FormatOption = Format.table) -> None:
    """What each level loses against the leading one, with intervals that all hold at once.

    The ordinary 95 % interval of each level alone goes from usual_low to usual_high; p_value is of its lever's F test.
    Levers that forbidden combinations tie together come once more at the end, each by itself, with ordinary numbers.

    \b
    Example:
      levers effects oven --format csv
    """
    for line in doubt_lines(at.study.status().doubts):
        typer.echo(line, err=True)
    _say_effects(at, output)


@on_study()
def forecast(at: Reached, output: FormatOption = Format.table) -> None:
    """How many runs are still to go, and what is certified if the study stops now.

    \b
    Example:
      levers forecast oven
    """
    found, best, failure_prob = at.study.forecast(), at.study.best(), at.study.spec.failure_prob
    if output is Format.table:
        typer.echo(str(found))
        if best is not None:
            status = at.study.status()
            ended, in_doubt = status.state != "running", bool(status.doubts)
            typer.echo(_promise(best, failure_prob, ended, in_doubt))
        return
    now = {name: getattr(best, name, None) for name in ("within", "within_without_claims", "compared_with")}
    row = {**dataclasses.asdict(found), **now, "failure_prob": failure_prob, "in_doubt": bool(best and best.in_doubt)}
    if output is Format.json:
        say_json(row)
    else:
        say_rows([row], output, "")


@on_study()
def verdict(at: Reached, output: FormatOption = Format.table) -> None:
    """The answer and its guarantee. Exit code 3: not finished; 4: in doubt.

    What is in doubt comes first: which trial, lever, round or number contradicts what the guarantee rests on.

    \b
    Example:
      levers verdict oven --format json
    """
    say_verdict(at, output)


def say_verdict(at: Reached, output: Format) -> None:
    """Print the verdict; exit code 4 where it is in doubt."""
    study = at.study
    if study.status().state == "running":
        raise NotFinishedError(f"{at.name!r} is not finished: {study.forecast()}; {at.command('status')}")
    found, best, scale = study.verdict(), study.best(), study.outcome_scale
    params = best.params if best is not None else found.assignment
    if output is Format.csv:
        _say_effects(at, output)
    elif output is Format.table:
        for line in doubt_lines(found.doubts):
            typer.echo(line)
        print_verdict(console(), found, *(() if found.effects else (study.effects(), study.part_effects())))
        typer.echo(f"{'The setting, in doubt:' if found.doubts else 'Set'} {setting_words(params)}.")
        if (enough := enough_words(found)) is not None:
            typer.echo(f"{enough[0].upper()}{enough[1:]}.")
        if best is not None and best.predicted is not None:
            expected = f"{best.predicted:.4g} ({best.low:.4g} to {best.high:.4g})"
            typer.echo(f"{expected_words(scale).capitalize()} there: {expected}.")
        if best is not None and best.gain is not None:
            words = gain_words(best.gain, True, study.spec.baseline_outcome, scale)
            typer.echo(f"{words[0].upper()}{words[1:]}.")
        for line in () if found.confirmation is None else confirmation_words(found.confirmation):
            typer.echo(f"{line[0].upper()}{line[1:]}.")
        asked = study.spec.tolerance
        short = asked is not None and found.within > asked
        less = f" ({scale.said(asked, 'g')} was asked for)" if asked is not None and short else ""
        typer.echo(f"{found.promise[0].upper()}{found.promise[1:]}{less}:")
        for line in _grounds(found):
            typer.echo(f"  - {line}")
        stages = [f"{n} {stage}" for stage, n in found.runs_by_stage if stage not in (PAST, BLOCK)]
        past = dict(found.runs_by_stage).get(PAST, 0)
        of_which = f" ({', '.join(stages)})" if stages else ""
        made = f"{found.n_runs}{of_which}{f', and {past} of past data' if past else ''}"
        typer.echo(f"Runs: {made}{and_fresh(study.status().n_fresh)}.")
    else:
        own: dict[str, Any] = {"assignment": dict(params), "guarantee": found.statement}
        own |= {"free": list(params.free), "on_parents": on_parents(found)}
        own["runs_by_stage"] = dict(found.runs_by_stage)
        own["p_values"] = found.p_values_by_lever
        own |= {name: getattr(best, name, None) for name in ("predicted", "low", "high", "gain")}
        names = (
            "assignment tolerance tolerance_without_claims failure_prob guarantee certificate noise goal algorithm "
            "parents parents_together n_runs runs_by_stage provisos doubts predicted low high gain p_values free "
            "on_parents confirmation scale"
        )
        said = {name: own[name] if name in own else getattr(found, name) for name in names.split()}
        say_json({**said, "effects": study.effects(), "part_effects": study.part_effects()})
    if found.doubts:
        if study.is_held:
            typer.echo("The study is not finished on this. What next?", err=True)
            for hint in _answers(at, found):
                typer.echo(f"  {hint}", err=True)
        raise typer.Exit(IN_DOUBT)


def _answers(at: Reached, found: Verdict) -> list[str]:
    """Commands that answer a doubt, to be filled in."""
    trial = next((str(trial) for doubt in found.doubts for trial in doubt.trials), "TRIAL")
    why = ("--reason", "WHY")
    spec = at.study.spec
    changes = [at.command("restate", "--noise-sd", "unknown")] if spec.noise_sd is not None else []
    changes.append(at.command("continue"))
    return [
        at.command("correct", trial, "VALUE", *why),
        at.command("exclude", trial, *why),
        *(changes if spec.solver.finishes_early else []),
        *_merging(at, found),
        at.command("finish", *why),
    ]


def _merging(at: Reached, found: Verdict) -> list[str]:
    """Commands that go on with levers studied as one, where a doubt says that levers act together.

    A doubt about two levers names both. One about more does not say which belong together: they are to be filled in.
    """
    from levers.studies.analysis.diagnostics import n_merged

    spec = at.study.spec
    about = [doubt.levers for doubt in found.doubts if doubt.kind == "additivity" and doubt.levers]
    about += [()] if not about and any(doubt.kind == NONADDITIVITY for doubt in found.doubts) else []
    if not spec.solver.absorbs_runs:
        return []
    about = [names for names in about if len(names) != 2 or n_merged(spec, names) <= MAX_MERGED]
    members = {spec.inner.names[i]: group for i, group in enumerate(spec.merging.groups)}
    budget = ("--budget", "N") if "budget" in dict(spec.options) else ()
    hints = []
    for names in about:
        real = [[name] if name in spec.space.names else [spec.space.names[k] for k in members[name]] for name in names]
        levers = ",".join(name for group in real for name in group) if len(names) == 2 else "LEVERS"
        hints.append(at.command("merge", "NEW_NAME", levers, *budget))
    return hints


def _say_effects(at: Reached, output: Format) -> None:
    """Every level; of levers that are tied together by itself too: below the others, or in a table of their own."""
    rows, parts = at.study.effects(), at.study.part_effects()
    if output is not Format.table:
        _say_levels([*rows, *parts], output, "")
        return
    _say_levels(rows, output, "Loss against the leading level")
    if parts:
        only_joint = ("low", "high", "ruled_out_after")  # which are said of the combinations
        _say_levels(parts, output, "Levers that are tied together, each by itself: loss", only_joint)


def _say_levels(rows: list[EffectRow], output: Format, title: str, never: tuple[str, ...] = ()) -> None:
    if output is not Format.json:  # which has kinds of levels of its own
        rows = [dataclasses.replace(row, level=level_text(row.level)) for row in rows]
    drop = [name for name in ("ruled_out_after", "n_runs", "p_value", "standing") if name not in never]
    if output is Format.table and rows and EVERY_SCALE[rows[0].scale].is_log:
        title += ", in percent of its outcome"
        rows = [row.in_percent for row in rows]
    say_rows(rows, output, title, drop=drop, never=("scale", *never))


def _checked_words(found: Status) -> str | None:
    """At how many runs nothing was in doubt; outcomes told since were looked at for gross errors."""
    from levers.studies.analysis.doubts import MOST_SINCE  # which reads of all checks

    looked = found.n_complete * found.n_factors <= MOST_SINCE
    since = found.n_complete - found.n_checked if looked else 0
    if not found.n_checked:
        known = looked and found.within is not None
        return "looked at for gross errors, not yet checked otherwise: no doubt" if known else None
    at = several(found.n_checked, "run", "runs")
    return f"checked at {at}{f', and the {since} since for gross errors' if since > 0 else ''}: no doubt"


def _promise(best: Best, failure_prob: float, finished: bool, in_doubt: bool) -> str:
    within, unclaimed = best.said()
    return promise(within, f"{1 - failure_prob:.0%}", finished, in_doubt, best.compared_with, unclaimed)


def _grounds(found: Verdict) -> list[str]:
    """What the guarantee rests on; where nothing is certified there is none, and only why. Doubts were said before."""
    guarantee = [found.guarantee] if found.tolerance is not None and not found.doubts else []
    return [*guarantee, *(remark.text for remark in found.provisos)] or ["see what is in doubt"]


@on_study()
def plot(
    at: Reached,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="effects, history, elimination, forecast or residuals.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .png, .svg or .html file.")],
) -> None:
    """Draw a picture of a study.

    \b
    Examples:
      levers plot oven effects -o effects.png
      levers plot oven elimination -o elimination.html
    """
    from levers.charts.picture import save_plot

    save_plot(at.study, kind, output)
    typer.echo(f"wrote {output}")


@on_study()
def report(
    at: Reached,
    output: Annotated[Path, typer.Option("-o", "--output", help="An .html file.")],
) -> None:
    """Write a study's report: one page that needs no other file, to send, print and keep.

    It has the question, the setting, the guarantee and what it rests on, the gain over the baseline, effects,
    eliminations, checks, every outcome, what was changed by hand, and the log. It can be made at any time.

    \b
    Example:
      levers report oven -o oven.html
    """
    from levers.charts.report import save_report

    save_report(at.study, output)
    typer.echo(f"wrote {output}")


MOST_ROWS = 50


@on_study()
def trials(
    at: Reached,
    state: Annotated[str | None, typer.Option(help="Only those in this state, for example running.")] = None,
    output: FormatOption = Format.table,
) -> None:
    """List the trials.

    \b
    Example:
      levers trials oven --state running --format csv
    """
    from levers.studies.analysis.tables import frame_as_csv, trials_frame
    from levers.studies.analysis.trials import EVERY, TrialFilter, find_trials

    now, wanted = at.study.state, TrialFilter(state or EVERY)
    frame = trials_frame(now)[find_trials(now, wanted)]
    if output is Format.json:
        typer.echo(frame.write_json())
    elif output is Format.csv:
        typer.echo(frame_as_csv(frame).rstrip("\n"))
    else:
        _print(frame, at.study.space.names)


def _print(frame: "polars.DataFrame", factors: tuple[str, ...]) -> None:
    """A table of the first trials, with as many levers as the screen is wide enough for."""
    out, first = console(), frame.head(MOST_ROWS)
    columns = {name: [level_text(value) for value in first[name]] for name in ("trial", "block", "state")}
    outcome = ["-" if value is None else f"{value:.6g}" for value in first["outcome"]]
    shown: dict[str, list[str]] = {}
    for factor in factors:
        tried = {**shown, factor: _levels(first, factor)}
        if table_width({**columns, **tried, "outcome": outcome}) > out.width:
            break
        shown = tried
    title = several(frame.height, "trial", "trials")
    if frame.height > MOST_ROWS:
        title += f", the first {MOST_ROWS} shown"
    if len(shown) < len(factors):
        title += f", {len(factors) - len(shown)} of {len(factors)} levers left out"
    complete = frame.height <= MOST_ROWS and len(shown) == len(factors)
    typer.echo(title if complete else f"{title}; --format csv has all")
    out.print(as_table({**columns, **shown, "outcome": outcome}, {"state", *shown}))


def _levels(frame: "polars.DataFrame", factor: str) -> list[str]:
    """The levels of a factor, and what it took where it was left alone."""
    seen = f"observed:{factor}"
    taken = frame[seen].to_list() if seen in frame.columns else [None] * frame.height
    alone = [LEAVE_ALONE if level is None else left_alone_text(level_text(level)) for level in taken]
    return [other if level is None else level_text(level) for level, other in zip(frame[factor], alone, strict=True)]


@on_study()
def export(
    at: Reached, output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .xlsx, .parquet or .json file.")]
) -> None:
    """Write everything that was run to a file; .json is the whole verdict, for `levers.verify`.

    \b
    Examples:
      levers export oven -o trials.csv
      levers export oven -o verdict.json
    """
    at.study.export(output)
    typer.echo(f"wrote {output}")


@on_study()
def verify(
    at: Reached,
    head: Annotated[str | None, typer.Option(help="A digest that was noted before: must the log contain it?")] = None,
    seconds: Annotated[float, typer.Option(help="How long to recompute; the rest is checked as a chain.")] = 60.0,
    output: FormatOption = Format.table,
) -> None:
    """Recompute a study from its log alone, and say whether all of it is as it was written. Exit code 6: it is not.

    Checked are the chain of events, every design, decision and check, and the verdict. Note the head that is printed
    and keep it elsewhere: with --head it tells later whether somebody has rewritten the log.

    \b
    Examples:
      levers verify oven
      levers verify oven --head 4b1f...
    """
    found = at.study.verify(head, seconds=seconds)
    if output is Format.json:
        say_json(dataclasses.asdict(found))
    elif output is Format.csv:
        say_rows([*found.differences, *found.remarks], output, "", nothing="nothing is wrong")
    else:
        typer.echo(f"{at.name}: {found}")
        for one in found.differences:
            typer.echo(f"  WRONG: {one}")
        for one in found.remarks:
            typer.echo(f"  not recomputed: {one}")
        if found.verdict is not None and found.ok:
            typer.echo(f"  verdict: {found.verdict}")
        if found.contains_head:
            typer.echo(f"  the log contains {head}")
        typer.echo(f"  head: {found.head}")
    if not found.ok:
        raise typer.Exit(NOT_AS_WRITTEN)


@dataclasses.dataclass(frozen=True, slots=True)
class LogRow:
    """An event: its place in the log, when, who, and what."""

    seq: int
    time: str
    who: str
    what: str


@on_study()
def log(at: Reached, output: FormatOption = Format.table) -> None:
    """Every event of a study: who did what, and when. Nothing is ever removed from it.

    \b
    Example:
      levers log oven --format csv
    """
    rows = [LogRow(one.seq, when(one.at), one.who, one.what) for one in at.study.log()]
    say_rows(rows, output, f"Log of {at.name}")
