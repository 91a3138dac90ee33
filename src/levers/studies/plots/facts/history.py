"""Every outcome in the order of telling, in words and as a table."""

from levers.studies.plots.facts.common import Facts, nothing_yet
from levers.studies.plots.facts.seen import Seen
from levers.studies.plots.text import MAX_TITLE, clipped, number, plain

MANY = 2000
"""From so many outcomes on, tables list blocks instead of outcomes."""


def history_facts(seen: Seen) -> Facts:
    """One row of the table for each outcome, or for each block when there are very many.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> study.tell(study.ask()[0], 3.5)
    >>> facts = history_facts(Seen("oven", study.state))
    >>> facts.caption, facts.rows
    ('1 outcomes in 1 blocks; dotted lines divide blocks.', [('1', '0', '0', 'screening', '3.5')])
    """
    title = f"{clipped(seen.name, MAX_TITLE)}: outcomes in the order of telling"
    values = seen.outcomes.values
    if not len(values):
        return nothing_yet(title, "no outcome was told. Ask for runs and tell their outcomes.", seen)
    caption = _caption(seen)
    alt = f"Scatter plot of {len(values)} outcomes from {values.min():.4g} to {values.max():.4g}. {caption}"
    return Facts(title, caption, alt, *_table(seen))


def _caption(seen: Seen) -> str:
    n, leader = seen.outcomes.n_outcomes, seen.best
    caption = f"{n:,} outcomes in {len(seen.state.blocks)} blocks; dotted lines divide blocks."
    if leader is not None and leader.predicted is not None:
        caption += f" At the best setting {leader.predicted:.4g} is predicted, {leader.low:.4g} to {leader.high:.4g}."
    past = sum(len(p.values) for p in seen.state.past)
    return caption + (f" {past:,} imported runs are not shown." if past else "")


def _table(seen: Seen) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    found = seen.outcomes
    stages = [plain(block.batch.stage) for block in seen.state.blocks]
    rows: list[tuple[str, ...]] = []
    if found.n_outcomes <= MANY:
        each = zip(found.trials.tolist(), found.blocks.tolist(), found.values.tolist(), strict=True)
        rows += [(str(i), str(t), str(b), stages[b], number(value)) for i, (t, b, value) in enumerate(each, 1)]
        return ("run", "trial", "block", "stage", "outcome"), rows
    for (begin, end), mean in zip(found.spans, found.means, strict=True):
        here, block = found.values[begin:end], int(found.blocks[begin])
        ends = (number(float(here.min())), number(float(here.max())))
        rows.append((str(block), stages[block], f"{begin + 1} to {end}", number(mean), *ends))
    return ("block", "stage", "runs", "mean", "smallest", "largest"), rows
