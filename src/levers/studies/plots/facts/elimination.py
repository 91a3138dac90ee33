"""Which level was ruled out after how many runs, in words and as a table."""

from levers.studies.plots.facts.common import Facts, leaders, nothing_yet, struck_rows
from levers.studies.plots.facts.seen import Seen
from levers.studies.plots.text import MAX_TITLE, clipped, plain

HEADER = ("factor", "level", "in play until run", "runs of this level", "standing")


def elimination_facts(seen: Seen) -> Facts:
    """One row of the table for each level.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> elimination_facts(Seen("oven", study.state)).title
    'oven: levels in play'
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: levels in play"
    if len(seen.state.known) < 2:
        why = "levels are ruled out when a block of runs is complete. Ask for runs and tell their outcomes;"
        return nothing_yet(title, f"{why} {seen.forecast.now} are to go in this block.", seen)
    rows, now = seen.effects, seen.n_runs
    n_gone = sum(row.standing == "ruled out" for row in rows)
    caption = f"{n_gone} of {len(rows)} levels ruled out in {now:,} runs; a decision falls when a block is complete."
    alt = f"Bars of how long each of {len(rows)} levels was in play; {n_gone} were ruled out. Ahead: {leaders(rows)}."
    cells: list[tuple[str, ...]] = [
        (plain(row.factor), plain(row.level), str(row.ruled_out_after or now), str(row.n_runs), row.standing)
        for row in rows
    ]
    return Facts(title, caption, alt, HEADER, cells, struck_rows(rows))
