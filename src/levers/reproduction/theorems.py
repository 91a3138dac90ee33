"""Checks of the paper's theorems: the bound on MODL's runs, parent recovery, and the hardness without additivity."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from levers.core.certificates.sample_size import make_schedule
from levers.experiments.compare import Comparison
from levers.reproduction.evidence import (
    DOES_NOT,
    Claim,
    Estimate,
    Judgement,
    Lines,
    all_above_zero,
    claim,
    share_at_most,
    slope,
    span,
)
from levers.reproduction.main_text import FAILURE_PROB, TOLERANCE
from levers.reproduction.sweeps import (
    EQUAL_GAP_LEVELS,
    GAPS_PANEL,
    HARDNESS_PANEL,
    MODL,
    MODL_ALGORITHM_1,
    MODL_PROOF,
    parents_panel,
    recovery_panel,
)

SCHEDULED = (MODL, MODL_ALGORITHM_1, MODL_PROOF)
"""MODL with each of the paper's three schedules."""
SLOPE = (-2.3, -1.7)
"""Where the slope of log runs against log gap must lie to be called -2."""


def theorem_claims(lines: Lines) -> Iterator[Claim]:
    """The sample-complexity theorem, schedule by schedule; `bound` is the theorem as stated, with eps/K."""
    for known in (False, True):
        panels = [parents_panel(k, known) for k in (10, 30)]
        for contender in SCHEDULED:
            points = lines.points(panels, contender.label)
            over, sums = (
                [lines.mean(p, contender.label, x, column) for p, x in points] for column in ("over_bound", "over_sum")
            )
            largest = max(
                (r for p, x in points for r in lines.worlds(p, contender.label, x, "over_bound").values()), default=0
            )
            yield claim(
                lines,
                f"within the theorem's bound ({contender.schedule}, {'known' if known else 'unknown'} number)",
                "Mean runs of MODL are at most the bound of the sample-complexity theorem.",
                f"runs / bound: means {span([e.value for e in over])}, largest in a world {largest:.2g}; runs / sum "
                f"over phases without noise: {span([e.value for e in sums])}",
                _below_one(over, lines.single_worlds(points, contender.label, "over_bound")),
                "the proof ends with widths of eps/2K where the theorem has eps/K, and does not count the phase in "
                "which a level is dropped: up to four times each",
            )


def _below_one(means: Sequence[Estimate], worlds: Sequence[Estimate]) -> Judgement:
    """Whether a ratio is below 1 on average at all points, and surely above 1 in no single world.

    The theorem is about each world, so that one world is enough against it; for it, the worlds drawn have to do.
    """
    if worlds and all_above_zero([e.times(-1.0).plus(1.0) for e in worlds], equal=True).verdict == DOES_NOT:
        return Judgement(DOES_NOT)
    return all_above_zero([e.times(-1.0).plus(1.0) for e in means])


def recovery_claims(lines: Lines) -> Iterator[Claim]:
    """The theorem on recovering the parents, and the lemma on the tests of parents-first."""
    panels = [recovery_panel(known) for known in (False, True)]
    who = {f"MODL, {contender.schedule}": contender.label for contender in SCHEDULED} | {
        "parents-first": "parents-first"
    }
    for name, label in who.items():
        points = lines.points(panels, label)
        wrong = _together([(n - k, n) for k, n in lines.counts(points, label, "parents_exact")])
        worlds = [(n - k, n) for k, n in lines.world_counts(points, label, "parents_exact")]
        yield claim(
            lines,
            f"the parents are recovered ({name})",
            "If two levels of every parent differ by the tolerance, the parents found are exactly the true ones with "
            "probability 0.9.",
            f"exact in {sum(n - k for k, n in wrong):,} of {sum(n for _, n in wrong):,} runs",
            share_at_most(wrong, FAILURE_PROB, groups=worlds),
            "they are wrong more often",
        )
    runs = lines.runs.filter(contender="modl").drop_nulls("parents_exact")
    bad = runs.with_columns(bad=~runs["parents_exact"] | runs["failed"]).group_by("panel", "x", maintain_order=True)
    counts = [(int(sum(flags)), len(flags)) for *_, flags in bad.agg("bad").iter_rows()]
    yield claim(
        lines,
        "setting only the parents found is enough",
        "The answer restricted to the parents found is within the tolerance with probability 0.9 (here: parents exact "
        "and gap within the tolerance, which implies it).",
        f"not so in {sum(k for k, _ in counts):,} of {sum(n for _, n in counts):,} runs",
        share_at_most(_together(counts), FAILURE_PROB),
        "it is not so more often",
    )


def _together(counts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """All points as one: methods with few runs at each would never be decided, and each meets the condition."""
    return [(sum(k for k, _ in counts), sum(n for _, n in counts))] if counts else []


def gaps_claims(lines: Lines) -> Iterator[Claim]:
    """One over the square of the gaps."""
    for contender in SCHEDULED:
        # a larger gap than the first width ends in the first phase, whatever it is
        first = make_schedule(contender.schedule, len(EQUAL_GAP_LEVELS), TOLERANCE, Comparison.outcome_bound).widths[0]
        xs = [x for x in lines.xs(GAPS_PANEL, contender.label) if x <= first]
        slopes: list[float] = []
        if len(xs) > 1:
            by_world = [lines.worlds(GAPS_PANEL, contender.label, x) for x in xs]
            shared = sorted(set.intersection(*(set(values) for values in by_world)))
            logs = [np.log([values[world] for world in shared]) for values in by_world]
            slopes = slope([math.log(x) for x in xs], logs)
        found = [Estimate.of(slopes)] if slopes else []
        yield claim(
            lines,
            f"runs go with one over the squared gap ({contender.schedule})",
            "Runs of MODL go with the sum of 1 / gap^2 over levels (here: slope -2 ± 0.3 of log runs on log gap, up to "
            "the first width).",
            f"slope {found[0].value:.2f} for gaps {span(xs)}" if found else "",
            all_above_zero([e.plus(-SLOPE[0]) for e in found] + [e.times(-1.0).plus(SLOPE[1]) for e in found]),
            "the slope is another one",
        )


def hardness_claims(lines: Lines) -> Iterator[Claim]:
    """The needle. Worlds at each number of parents are drawn by themselves."""
    naive = {x: lines.mean(HARDNESS_PANEL, "naive search", x) for x in lines.xs(HARDNESS_PANEL, "naive search")}
    xs = sorted(naive)
    logs = [Estimate(math.log(naive[x].value), naive[x].se / naive[x].value, naive[x].n) for x in xs]
    rate = [logs[-1].minus(logs[0]).times(1 / (xs[-1] - xs[0]))] if len(xs) > 1 else []
    yield claim(
        lines,
        "exponential in the parents",
        "Without the additive assumption, runs grow exponentially with the number of parents (here: naive search needs "
        "at least 1.7 times the runs for each parent of two levels).",
        f"times {math.exp(rate[0].value):.2f} for each parent" if rate else "",
        all_above_zero([e.plus(-math.log(1.7)) for e in rate]),
        "they grow more slowly",
    )
    limits = {x: lines.mean(HARDNESS_PANEL, "naive search", x, "limit").value for x in xs}
    yield claim(
        lines,
        "nobody is below the lower bound",
        "Any method that keeps its promise needs at least the lower bound (here: that of methods that know the height "
        "of the needle, as naive search does).",
        f"naive search / bound: {span([naive[x].value / limits[x] for x in xs])}",
        all_above_zero([naive[x].plus(-limits[x]) for x in xs]),
        "naive search needs less, so that the bound is wrong",
    )
    order = {x: x * math.log(2) + math.log(1 / FAILURE_PROB) for x in xs if x >= 4}
    scaled = [
        logs[xs.index(x)].plus(-math.log(order[x] * lines.mean(HARDNESS_PANEL, "naive search", x, "bound").value))
        for x in order
    ]
    apart = [b.minus(a) for a in scaled for b in scaled if a is not b]
    yield claim(
        lines,
        "naive search matches the lower bound",
        "The naive algorithm matches the lower bound N log(1/delta) / eps^2, up to the logarithm of N that its tests "
        "pay (here: within a factor of 2 from 4 parents on).",
        f"naive search / (bound x (log N + log 1/delta)): {span([math.exp(e.value) for e in scaled])}",
        all_above_zero([e.plus(math.log(2)) for e in apart]),
        "it grows faster",
    )
    # with few parents the needle moves the level means enough for an additive fit to find it
    many = [(HARDNESS_PANEL, x) for x in xs[-1:] if x >= 8]
    fooled = [(n - k, n) for k, n in lines.counts(many, "modl", "failed")]
    found = share_at_most(fooled, 0.5)
    yield claim(
        lines,
        "additive methods do not apply",
        "A method that assumes additive effects fails there (here: in more than half of the runs with 8 parents up).",
        f"MODL misses the needle in {fooled[0][1] - fooled[0][0]} of {fooled[0][1]} runs with {xs[-1]:.0f} parents"
        if fooled
        else "",
        found,
        "it does not fail that often",
    )
