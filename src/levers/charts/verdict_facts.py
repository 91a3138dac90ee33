"""What a verdict says to people: on its page, and in the report of a study."""

from dataclasses import dataclass

from levers.algorithms.base import BlockRecord, Verdict
from levers.charts.view import StudyView
from levers.core.outcome_scale import LINEAR
from levers.core.space import Level
from levers.studies.analysis.confirmation import confirmation_words
from levers.studies.analysis.describe import BLOCK, TIED_BELOW_ZERO, enough_words, matter_words, why_below_zero
from levers.studies.analysis.views import EffectRow

MOST_LEVELS = 5_000
MOST_OTHERS = 200
"""The most factors that are listed though they were not shown to matter."""
CERTIFICATES = {
    "slippage": "slippage: equal gaps taken as the worst case",
    "proven": "proven for any gaps",
    "subgaussian": "any sub-Gaussian noise",
}


@dataclass(frozen=True, eq=False)
class VerdictFacts:
    """The verdict (None before the end), and what is said of it.

    `ledger` has what was ruled out: lever, level, after how many runs, and the loss estimated then. `confirmed` is what
    fresh runs say, a line each, the answer first; empty where nobody asked for any. `parts` are the levels of levers
    that are tied together, each lever by itself, and `parts_below_zero` says why one of them may lose less than 0.
    """

    verdict: Verdict | None
    sure: float | None
    certificate: str
    provisos: list[str]
    noise: str
    levels: list[EffectRow]
    n_levels: int
    parts: list[EffectRow]
    parts_below_zero: str | None
    why_below_zero: str | None
    matter: list[str]
    enough: str | None
    others: list[tuple[str, str]]
    ledger: list[tuple[str, Level, int, float]]
    stages: list[tuple[str, int]]
    blocks: tuple[BlockRecord, ...]
    confirmed: list[str]
    scale: str = LINEAR


def verdict_facts(view: StudyView) -> VerdictFacts:
    """What there is to say.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> verdict_facts(StudyView("oven", study.state)).verdict is None
    True
    """
    found, levels = view.verdict, view.effects
    nothing = found is None or found.tolerance is None
    certificate = "none" if found is None or nothing else found.certificate or "none"
    in_doubt = found is not None and bool(found.doubts)
    said = "in doubt" if in_doubt else CERTIFICATES.get(certificate, certificate)  # nothing is proven beside a doubt
    noise = "-" if found is None else found.noise or "-"
    if nothing and view.state.spec.noise_sd is None:
        noise = "not known"  # no run was left to estimate it from
    scale, factors = view.state.spec.outcome_scale, view.state.spec.inner.factors
    ruled_out = view.state.progress.eliminations[:MOST_LEVELS]
    guarantee = [] if found is None or nothing or in_doubt else [found.guarantee]
    return VerdictFacts(
        verdict=found,
        sure=None if found is None else 1 - found.failure_prob,
        certificate=said,
        # doubts have a place of their own
        provisos=[] if found is None else [*guarantee, *(proviso.text for proviso in found.provisos)],
        noise=noise,
        levels=levels[:MOST_LEVELS],
        n_levels=len(levels),
        parts=view.part_effects[:MOST_LEVELS],
        parts_below_zero=TIED_BELOW_ZERO if any((row.loss or 0.0) < 0 for row in view.part_effects) else None,
        why_below_zero=None if found is None else why_below_zero(found),
        matter=[] if found is None else list(found.shown_to_matter),
        enough=None if found is None else enough_words(found),
        others=[] if found is None else _others(found),
        # factors and levels as the algorithm sees them
        ledger=[
            (factors[e.factor].name, factors[e.factor].levels[e.level], e.n_runs, scale.loss(e.gap)) for e in ruled_out
        ],
        stages=[] if found is None else [(stage, n) for stage, n in found.runs_by_stage if stage != BLOCK],
        blocks=() if found is None else found.blocks,
        confirmed=[] if found is None or found.confirmation is None else confirmation_words(found.confirmation),
        scale=scale.name,
    )


def _others(found: Verdict) -> list[tuple[str, str]]:
    """The factors that were not shown to matter, and what is said of each: the smallest p-value comes first."""
    p_values = found.p_values_by_lever
    said = [(name, words) for name in found.assignment.space.names if (words := matter_words(found, name)) is not None]
    said.sort(key=lambda one: 1.0 if (p_value := p_values.get(one[0])) is None else p_value)
    return said[:MOST_OTHERS]
