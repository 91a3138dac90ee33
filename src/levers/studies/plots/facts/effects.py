"""What each level loses against the leading one, in words and as a table."""

from levers.studies.plots.facts.common import Facts, leaders, nothing_yet, struck_rows
from levers.studies.plots.facts.seen import Seen
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain
from levers.studies.views import EffectRow

HEADER = ("factor", "level", "runs", "loss", "low", "high", "standing", "ruled out after")


def effects_facts(seen: Seen) -> Facts:
    """One row of the table for each level.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> effects_facts(Seen("oven", study.state)).nothing
    'There is nothing to show yet: no outcome was told. Ask for runs and tell their outcomes.'
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: what each level loses against the {seen.lead} one"
    rows = seen.effects
    if not any(row.loss is not None and row.standing != seen.lead for row in rows):
        why = "the outcomes so far do not tell levels apart" if seen.state.n_complete else "no outcome was told"
        return nothing_yet(title, f"{why}. Ask for runs and tell their outcomes.", seen)
    alt = (
        f"Dot plot of what {len(rows)} levels lose. {seen.lead.capitalize()}: {leaders(rows)}. "
        f"{sum(row.standing == 'ruled out' for row in rows)} levels are ruled out."
    )
    return Facts(title, _caption(seen), alt, HEADER, [_cells(row) for row in rows], struck_rows(rows))


def _caption(seen: Seen) -> str:
    spec = seen.state.spec
    if any(row.high is not None for row in seen.effects):
        caption = f"Bars hold all true losses at once with probability {100 * (1 - spec.failure_prob):g} %."
    elif spec.algorithm == "cfs":
        caption = "Estimates from the first runs; intervals come with the first complete block."
    else:
        caption = f"Estimates without intervals: {spec.algorithm} gives none."
    if spec.tolerance is not None:
        caption += " The tolerance is for the losses of all factors together."
    return caption


def _cells(row: EffectRow) -> tuple[str, ...]:
    after = "" if row.ruled_out_after is None else f"{row.ruled_out_after} runs"
    numbers = (number(row.loss), number(row.low), number(row.high))
    return (plain(row.factor), plain(row.level), str(row.n_runs), *numbers, row.standing, after)
