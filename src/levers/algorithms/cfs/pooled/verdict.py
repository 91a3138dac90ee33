"""What the state of a pooled study says: the verdict, with what it rests on."""

import math
from collections.abc import Sequence

from levers.algorithms.base import (
    LENGTH_CHOSEN,
    PLANNED_END,
    STOPPED_EARLY,
    Problem,
    Remark,
    Verdict,
    add_runs,
    only_with_claims,
)
from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.pooled.state import PooledState
from levers.core.designs.days import LEAST_DAY
from levers.core.model.evidence import Evidence, noise_upper_bound

NEARLY_INDEPENDENT = Remark(
    "nearly independent",
    "levers are counted as independent, each with the precision that was measured for it (checked numerically)",
)
"""What a certificate on designs that are not exactly orthogonal rests on besides what is proven."""
CHOSEN_ROWS = Remark(
    "chosen rows", "later runs were chosen by earlier outcomes, which the certificate leaves out (checked numerically)"
)
"""What a certificate rests on when runs served the recommendation, and not the certificate."""
LEFT_OUT = Remark(
    "levels left out",
    "the last round left out levels far behind; how seldom that errs is known from simulation (checked numerically)",
)
"""What a certificate rests on where the last runs were divided among the levels that might be best."""
SWAPPED = Remark(
    "tied levers",
    "levers that forbidden combinations tie together are counted one by one, or by what can be mistaken across what is "
    "forbidden, whichever loses more (checked numerically)",
)
"""What a certificate rests on where tied levers are at stake by their parts."""
WORK_TOGETHER = Remark(
    "work together",
    "levers work together, so that their effects do not add up: the setting is the best by a fit with pairs of levers, "
    "each level's loss is what changing that lever alone would lose, and nothing is certified",
)
"""Said in place of a certificate where the setting was chosen by what levers do together."""
NO_NOISE_SEEN = Remark(
    "nothing certified", "every outcome was the same, so that nothing tells the noise, and nothing can be certified"
)
"""Said in place of a certificate where one outcome came again and again, and the noise is not known."""
SHORT_DAYS = Remark(
    "short days",
    f"days of fewer than {LEAST_DAY} runs are not compared inside: what happens to a whole day counts as noise",
)
"""What a verdict rests on where days have no constants of their own."""
DRAWN_IN = "drawn in"
"""The kind of remark that says of how many outcomes the choice of the setting made less than was told."""
Options = tuple[tuple[str, str | float | int | None], ...]


def pooled_verdict(
    problem: Problem,
    state: PooledState,
    evidence: Evidence,
    max_parents: int | None,
    noise_share: float,
    chosen_rows: bool,
    block_size: int | None,
    options: Options,
    planned_end: bool = False,
    without_claims: float | None = None,
) -> Verdict:
    """The verdict on a state. `noise_share` of the failure probability bounds the noise, `chosen_rows` says that rows
    served the recommendation, `block_size` runs were made together, `options` let it be recomputed, `planned_end` says
    that no outcome had a part in when it ended, and `without_claims` is the tolerance without what was claimed of
    levers."""
    space = problem.space
    at_end = _noise_at_end(problem, state) if planned_end else None
    if at_end is not None:
        noise_bound, dof = at_end
        chosen = chosen_rows and state.rules >= settings.PROMISE_RULES
        error = problem.failure_prob / (settings.CHOSEN_END if chosen else settings.PLANNED_END)
        estimates, intervals = decisions.loss_intervals(
            evidence, state.leaders, space.n_levels, noise_bound, error, None, dof
        )
    else:
        noise_bound = _noise_now(problem, state, noise_share)
        estimates, intervals = decisions.loss_intervals(
            evidence, state.leaders, space.n_levels, noise_bound, problem.failure_prob - noise_share, state.rho
        )
    if not math.isfinite(noise_bound):
        intervals = tuple((None,) * m for m in space.n_levels)
    sure = {k for k, row in enumerate(intervals) if any(pair and (pair[0] > 0 or pair[1] < 0) for pair in row)}
    # a dropped level is sure to be worse only where all pairs were charged for: where max_parents says something
    says_something = max_parents is not None and max_parents < space.n_factors
    named = set(state.parents) if says_something else set()
    stages: tuple[tuple[str, int], ...] = ()
    for block in state.blocks:
        stages = add_runs(stages, block.stage, block.n_runs)
    known = problem.noise_sd is not None
    return Verdict(
        algorithm="cfs",
        assignment=space.assignment(state.leaders),
        n_runs=sum(block.n_runs for block in state.blocks) - state.n_past,
        tolerance=state.certified,
        failure_prob=problem.failure_prob,
        guarantee=decisions.pooled_guarantee(known, max_parents),
        provisos=(
            *_provisos(state, space.n_levels, known, chosen_rows, block_size),
            *([PLANNED_END] if at_end is not None else []),
            *only_with_claims(says_something, state.certified, without_claims),
        ),
        parents=tuple(space.names[k] for k in sorted(sure | named)),
        effects=estimates,
        eliminations=state.eliminations,
        runs_by_stage=stages,
        intervals=intervals,
        certificate="slippage",
        noise=f"known, sd {state.noise_sd:g}" if known else _estimated(state.noise_sd),
        problem=problem,
        options=options,
        blocks=state.blocks,
        rules=state.rules,
        tolerance_without_claims=without_claims,
    )


def _noise_at_end(problem: Problem, state: PooledState) -> tuple[float, float] | None:
    """The noise and its degrees of freedom; None where the residuals do not tell it."""
    if problem.noise_sd is not None:
        return problem.noise_sd, math.inf
    if state.noise_sd is None or state.fit.residual_dof < 1:
        return None
    square = max(state.fit.residual_square, state.pooled.rounding)
    return max(math.sqrt(square / state.fit.residual_dof), state.pooled.least_noise), float(state.fit.residual_dof)


def _noise_now(problem: Problem, state: PooledState, noise_share: float) -> float:
    """What the noise is at most, for intervals that are read now   (theory/pooled.md, section 4).

    A bound that holds at any time needs many degrees of freedom; one for this moment has a third of the share, as
    certificates that are read whenever one likes do.
    """
    bound = math.inf if state.noise_bound is None else state.noise_bound
    if problem.noise_sd is not None or not state.blocks or state.pooled.steps.resolution is None:
        return bound
    if state.rules == settings.POOLED_RULES:  # a study keeps to what it was begun under
        return bound
    fit = state.fit
    if fit.residual_dof < 1:
        return bound
    share = (noise_share or settings.POOLED_NOISE_SHARE * problem.failure_prob) / 2 / settings.EVERY_LOOK
    square = max(fit.residual_square, state.pooled.rounding)
    return max(min(bound, noise_upper_bound(square, fit.residual_dof, share)), state.pooled.least_noise)


def _provisos(
    state: PooledState, n_levels: Sequence[int], noise_known: bool, chosen_rows: bool, block_size: int | None
) -> tuple[Remark, ...]:
    if state.certified is not None:
        provisos = [*decisions.equal_gaps(n_levels), NEARLY_INDEPENDENT]
    else:
        unseen = not noise_known and state.pooled.steps.resolution is None
        provisos = [NO_NOISE_SEEN if unseen else decisions.NOTHING_CERTIFIED]
        if state.prevailing is not None:
            provisos = [WORK_TOGETHER]
    if chosen_rows and state.certified is not None and len(state.blocks) > 1:
        provisos.append(CHOSEN_ROWS)
    if state.thinned and state.certified is not None:
        provisos.append(LEFT_OUT)
    if state.n_drawn_in:
        outcomes = "one outcome" if state.n_drawn_in == 1 else f"{state.n_drawn_in} outcomes"
        text = f"the setting was chosen with {outcomes} drawn in, far from what all other runs lead one to expect"
        provisos.append(Remark(DRAWN_IN, text))
    if block_size is not None and 1 < block_size < LEAST_DAY:
        provisos.append(SHORT_DAYS)
    if state.stopped:
        provisos.append(STOPPED_EARLY)
    elif state.charged and state.certified is not None:
        provisos.append(LENGTH_CHOSEN)
    return tuple(provisos)


def _estimated(noise_sd: float | None) -> str:
    return "unknown" if noise_sd is None else f"estimated, sd about {noise_sd:.4g}"
