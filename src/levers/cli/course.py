"""`levers finish`, `continue`, `confirm`, `restate`: the end of a study, what follows it, and other terms under way."""

from typing import Annotated, Any

import typer

from levers.cli.options import Reached, on_study
from levers.errors import InvalidSettingError

ReasonOption = Annotated[str, typer.Option(help="Why; it is kept in the log.")]
UNKNOWN = "unknown"


@on_study(by=True)
def finish(at: Reached, reason: ReasonOption = "") -> None:
    """End a study now: the verdict, with what is certified by the runs made so far.

    Runs that are out are given up. A study that is in doubt is finished with its doubts. `levers continue` takes it
    back.

    \b
    Example:
      levers finish oven --reason "the season is over"
    """
    at.study.finish(reason)
    typer.echo(at.standing())


@on_study(by=True)
def go_on(
    at: Reached,
    n: Annotated[int | None, typer.Option("-n", help="How many runs; the solver chooses if not given.")] = None,
    reason: ReasonOption = "",
) -> None:
    """Go on with a study that has come to its end: one more round of runs.

    \b
    Example:
      levers continue oven -n 24
    """
    at.study.go_on(n, reason)
    typer.echo("what is certified from here on allows for going on after outcomes were seen, and is a little wider")
    typer.echo(at.standing())


@on_study(by=True)
def confirm(
    at: Reached,
    n: Annotated[int, typer.Option("-n", help="Fresh runs at the setting, and as many at the baseline.")] = 12,
    reason: ReasonOption = "",
) -> None:
    """Confirm a verdict by fresh runs at its setting, and at the baseline if the study has one.

    `levers ask` hands them out, in random order. When they are told, `levers verdict` compares them with what was
    predicted, and says "confirmed" or "in doubt". `levers finish` does with those that have come in. What is certified
    does not rest on them.

    \b
    Example:
      levers confirm oven -n 12
    """
    at.study.confirm(n, reason)
    typer.echo(at.standing())


@on_study(by=True)
def restate(
    at: Reached,
    tolerance: Annotated[str | None, typer.Option(help="A tolerance, in place of a budget or another one.")] = None,
    budget: Annotated[int | None, typer.Option(help="Runs in all, in place of a tolerance or another budget.")] = None,
    max_runs: Annotated[int | None, typer.Option(help="At most so many runs, beside a tolerance.")] = None,
    aim: Annotated[str | None, typer.Option(help="What the runs of a budget serve: certify or best.")] = None,
    noise_sd: Annotated[str | None, typer.Option(help="Another noise, or `unknown`.")] = None,
    max_parents: Annotated[str | None, typer.Option(help="Another number of levers that matter, or `unknown`.")] = None,
    min_effect: Annotated[str | None, typer.Option(help="Another least effect, or `unknown`.")] = None,
    reason: ReasonOption = "",
) -> None:
    """Change what is asked for, or known, under way; all runs so far count under the new terms.

    \b
    Examples:
      levers restate oven --budget 120 --reason "two more days are all we have"
      levers restate oven --noise-sd unknown
    """
    terms: dict[str, Any] = {"tolerance": tolerance, "budget": budget, "max_runs": max_runs, "aim": aim}
    terms = {name: value for name, value in terms.items() if value is not None}
    for name, text, kind in (
        ("noise_sd", noise_sd, float),
        ("max_parents", max_parents, int),
        ("min_effect", min_effect, float),
    ):
        if text is not None:
            terms[name] = _known(name, text, kind)
    if not terms:
        raise InvalidSettingError(f"say what changes, as in: {at.command('restate', '--noise-sd', UNKNOWN)}")
    for change in at.study.restate(reason=reason, **terms):
        typer.echo(change)
    typer.echo(at.standing())


def _known(name: str, text: str, kind: type) -> Any:
    """A number, or None for one that is not known.

    >>> _known("noise_sd", "1.5", float), _known("noise_sd", "unknown", float)
    (1.5, None)
    """
    if text.strip().lower() == UNKNOWN:
        return None
    try:
        return kind(text)
    except ValueError:
        raise InvalidSettingError(f"{name} is a number, or {UNKNOWN!r}, not {text!r}", field=name) from None
