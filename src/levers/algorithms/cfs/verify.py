"""Recompute a verdict from the raw outcomes."""

import math
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from levers.algorithms.base import BlockRecord, Verdict
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import LATEST_RULES, RULES, SPARSE_RULES, SUBSET_RULES
from levers.algorithms.cfs.sparse.solver import Sparse
from levers.algorithms.cfs.two_stage import TwoStage
from levers.core.model.elimination import Elimination
from levers.core.outcome_scale import OutcomeScale
from levers.core.validation import check_outcomes
from levers.errors import InvalidSettingError

_ANOTHER_VERSION = (
    "this verdict was made by another version of levers, whose designs had other rows; verify it with that one"
)
_BY_STUDIES = ("guarantee", "provisos", "doubts", "usual_intervals", "p_values")
"""Words, which versions and studies put differently, and what studies add that the verdict does not rest on."""


@dataclass(frozen=True)
class Verification:
    """Whether a verdict follows from its outcomes, the verdict that does, and the fields in which they differ."""

    ok: bool
    recomputed: Verdict
    differences: tuple[str, ...]


def verify(verdict: Verdict, outcomes: ArrayLike) -> Verification:
    """Make every design again from its seed, feed it the raw outcomes in order, and compare what comes out.

    Only verdicts of `cfs` carry what this needs. The outcomes are those of the runs that the verdict counts: for an
    interim one, of its complete blocks.

    >>> import numpy as np
    >>> from levers import Problem, Space, run_to_verdict
    >>> noise, kept = np.random.default_rng(0), []
    >>> def outcomes_of(batch):
    ...     kept.extend(batch.codes[:, 0] + noise.normal(size=batch.n_runs))
    ...     return batch, kept[-batch.n_runs:]
    >>> cfs = TwoStage(Problem(Space.sized([2, 3]), 0.5, 0.1, 1.0))
    >>> verdict = run_to_verdict(cfs, outcomes_of, np.random.default_rng(1))
    >>> verify(verdict, kept).ok, verify(verdict, np.array(kept) + np.arange(len(kept))).ok
    (True, False)
    """
    if verdict.problem is None or verdict.algorithm != "cfs":
        raise InvalidSettingError(f"a verdict of {verdict.algorithm} does not carry what is needed to recompute it")
    if verdict.rules == SUBSET_RULES:
        raise InvalidSettingError("verdicts of studies that may leave levers alone cannot be recomputed from outcomes")
    if not RULES <= verdict.rules <= LATEST_RULES:
        raise InvalidSettingError(_ANOTHER_VERSION)
    if any(block.design in ("as run", "as stored") for block in verdict.blocks):
        raise InvalidSettingError(
            "this verdict rests on imported, corrected or interrupted runs, whose designs do not follow from seeds"
        )
    scale = OutcomeScale(verdict.scale, 1.0 if verdict.goal == "maximize" else -1.0)
    told = check_outcomes(outcomes, verdict.n_runs)
    if scale.is_log and (told <= 0).any():
        return Verification(False, verdict, ("scale",))
    y = scale.inward(told)
    rules: dict[int, Any] = {RULES: TwoStage, SPARSE_RULES: Sparse}
    pooled = partial(Pooled, rules=verdict.rules)
    cfs = rules.get(verdict.rules, pooled)(verdict.problem, **dict(verdict.options))
    state, done = cfs.start(), 0
    for block in verdict.blocks:
        remaining = block.n_runs
        if not done and not isinstance(cfs, Sparse):  # later designs may differ because outcomes do
            design = cfs.design(state, block.seed)
            like = (design.n_runs, design.kind) == (block.n_runs, block.design)
            if like and design.digest != block.digest:  # the same kind and length, but other rows
                raise InvalidSettingError(_ANOTHER_VERSION)
        while remaining > 0 and not state.finished:
            batch = cfs.batch(state, block.seed)
            if batch.n_runs > remaining:
                return Verification(False, verdict, ("blocks",))
            state = cfs.tell(state, batch, y[done : done + batch.n_runs])
            done, remaining = done + batch.n_runs, remaining - batch.n_runs
    recomputed = cfs.verdict(state) if state.finished else cfs.interim(state)
    if recomputed is None:
        return Verification(False, verdict, ("blocks",))
    recomputed = replace(recomputed, goal=verdict.goal).on_scale(scale)
    differences = tuple(
        f.name
        for f in fields(Verdict)
        if f.name not in _BY_STUDIES and not _same(getattr(recomputed, f.name), getattr(verdict, f.name))
    )
    return Verification(not differences, recomputed, differences)


def _same(one: Any, other: Any) -> bool:
    """Equal up to rounding: sums depend in their last digits on the pieces in which the outcomes came, and a design's
    inflation on the processor."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Elimination | BlockRecord) and type(one) is type(other):
        return _same(astuple(one), astuple(other))
    return bool(one == other)
