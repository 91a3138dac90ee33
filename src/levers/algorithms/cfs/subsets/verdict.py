"""What a study says that may leave levers alone: which to set, to what, which to leave, and whether something hidden
drives a lever and the outcome."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from levers.algorithms.base import (
    LENGTH_CHOSEN,
    NOT_COMPARED,
    ONLY_WITH_CLAIMS,
    STOPPED_EARLY,
    Problem,
    Remark,
    Verdict,
    add_runs,
    only_with_claims,
)
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import COMPARING
from levers.algorithms.cfs.subsets.state import SubsetState, subset_rows, subsets_of
from levers.core.model.choices import Choices
from levers.core.model.hidden_cause import HiddenCause, Taken, hidden_cause
from levers.core.model.ordinary import Noise
from levers.core.space import Space

LEFT_ALONE = Remark(
    "left alone",
    "what leaving levers alone yields was measured at this setting of the others; it is taken to be as much at any "
    "other, or nothing hidden to drive both a free lever and the outcome",
)
"""What the comparison of settings with levers left alone rests on   (docs/theory/left_alone.md, section 2)."""
HIDDEN_CAUSE, NO_HIDDEN_CAUSE = "hidden cause", "no hidden cause"


def subset_verdict(
    problem: Problem,
    free: tuple[int, ...],
    choices: Choices,
    state: SubsetState,
    setting: Verdict,
    comparison: Pooled | None,
    alone: Pooled,
) -> Verdict:
    """The verdict on the best setting of all levers, and on leaving some of the `free` ones alone.

    `setting` is that of the study in which all were set, and `comparison` the rules by which the state compares what to
    leave alone, None where nothing was compared yet. `alone` are those of the first study.
    """
    setting = replace(
        setting,
        problem=problem,
        failure_prob=problem.failure_prob,
        rules=settings.SUBSET_RULES,
        options=(*setting.options, ("free", ",".join(problem.space.names[k] for k in free))),
    )
    compared = comparison.interim(state.subset) if comparison is not None and state.subset is not None else None
    if compared is None or comparison is None:
        return replace(setting, provisos=(*setting.provisos, NOT_COMPARED))
    codes = subset_rows(subsets_of(free), state.at)[state.leader]
    ends = (STOPPED_EARLY, LENGTH_CHOSEN, ONLY_WITH_CLAIMS)
    provisos = [remark for remark in setting.provisos if remark not in ends and remark.kind != "nothing certified"]
    provisos += [remark for remark in compared.provisos if remark not in provisos and remark.kind != "short days"]
    hidden = _hidden_remarks(problem, free, choices, state, comparison)
    tolerance = None if compared.tolerance is None else compared.tolerance + (state.at_most or 0.0)
    unclaimed = None if tolerance is None else _without_claims(state, alone, comparison, tolerance)
    provisos += only_with_claims(alone.claims, tolerance, unclaimed)
    return replace(
        setting,
        assignment=problem.space.assignment(codes),
        n_runs=setting.n_runs + compared.n_runs,
        tolerance=tolerance,
        tolerance_without_claims=unclaimed,
        provisos=(*provisos, *_left_remarks(problem.space, free, state, comparison), LEFT_ALONE, *hidden),
        runs_by_stage=add_runs(setting.runs_by_stage, COMPARING, compared.n_runs),
        blocks=(*setting.blocks, *(replace(block, stage=COMPARING) for block in compared.blocks)),
    )


def _without_claims(state: SubsetState, alone: Pooled, comparison: Pooled, tolerance: float) -> float | None:
    """The tolerance of both choices without what was claimed of levers: what the first study may then lose, and the
    comparison, in one programme."""
    subset = state.subset
    if not alone.claims or subset is None or subset.noise_sd is None or state.setting.noise_sd is None:
        return None
    own = replace(comparison, elsewhere=()).stakes(subset, comparison.evidence(subset))
    risk = comparison.risk(subset if subset.finished else replace(subset, charged=True))
    found = alone.unclaimed(state.setting).tolerance(risk, own)
    return None if found is None else max(found, tolerance)


def _left_remarks(space: Space, free: tuple[int, ...], state: SubsetState, comparison: Pooled) -> Iterator[Remark]:
    """What is gained by leaving levers alone."""
    names = tuple(space.names[k] for k in subsets_of(free)[state.leader])
    if names and state.subset is not None:
        evidence = comparison.evidence(state.subset)
        gain = evidence.estimate(0, state.leader, 0)
        said = f"leaving {' and '.join(names)} alone was better by {gain:.3g} than the best setting of all levers"
        yield Remark("gain of leaving alone", said, levers=names)


def _hidden_remarks(
    problem: Problem, free: tuple[int, ...], choices: Choices, state: SubsetState, comparison: Pooled
) -> Iterator[Remark]:
    """Whether something hidden drives both a free lever and the outcome; `choices` are those of the first study."""
    tested = hidden_causes(problem, free, choices, state, comparison)
    found = [(subset, one) for subset, one in tested if one is not None]
    if not found:
        return
    subset, one = min(found, key=lambda each: (each[1].p_value, len(each[0])))
    names = tuple(problem.space.names[k] for k in subset)
    share = f"{settings.HIDDEN_ERROR:.0%} of studies without a hidden cause"
    if one.p_value <= settings.HIDDEN_ERROR:
        yield Remark(
            HIDDEN_CAUSE,
            f"something hidden drives both {' and '.join(names)} and the outcome: leaving alone was better by "
            f"{one.excess:.3g} than the levels that nature took explain (p = {one.p_value:.2g}; said of at most "
            f"{share})",
            levers=names,
            p_value=one.p_value,
        )
    else:
        named = " or ".join(problem.space.names[k] for k in free)
        yield Remark(
            NO_HIDDEN_CAUSE,
            f"no sign that something hidden drives both {named} and the outcome (p = {one.p_value:.2g})",
            p_value=one.p_value,
        )


def hidden_causes(
    problem: Problem, free: tuple[int, ...], choices: Choices, state: SubsetState, comparison: Pooled
) -> Iterator[tuple[tuple[int, ...], HiddenCause | None]]:
    """The test of every subset that was left alone: does it yield more than the levels that nature took explain?"""
    if state.subset is None or state.tally is None or not state.subset.n_runs:
        return
    fit, own = state.setting.fit, Noise.of(state.setting.fit, problem.noise_sd)
    other = Noise.of(state.subset.fit, None)
    if own is None or other is None or other.dof is None:
        return
    evidence, places = comparison.evidence(state.subset), choices.places
    for a, subset in enumerate(subsets_of(free)):
        known = evidence.known(0, a, 0)
        if not subset or known <= 0:
            continue
        error = comparison.unequal * other.sd / float(np.sqrt(known))
        shares = state.tally.shares(a)
        taken = [
            Taken(places[k][:, 0], shares[f, : problem.space.n_levels[k]], state.at[k])
            for f, k in enumerate(free)
            if k in subset
        ]
        gain = evidence.estimate(0, a, 0)
        yield subset, hidden_cause(fit, own, gain, error, other.dof, taken, 2 ** len(free) - 1)
