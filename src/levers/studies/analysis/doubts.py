"""Where a study's outcomes contradict what its certificate rests on, in words that say what to do.

Everything here is a pure function of the state. The statistics are in `core/model/checks`, the argument is in
docs/theory/doubts.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from levers.algorithms.base import Remark
from levers.core.model.checks.battery import check_runs
from levers.core.model.checks.check import NOISE, OUTLIER, Check, Runs
from levers.studies.analysis.describe import several
from levers.studies.analysis.diagnostics import (
    GatheredRuns,
    additivity,
    block_constants,
    gathered_runs,
    level_now,
)
from levers.studies.state import StudyState

SHARES = {
    NOISE: 0.008,
    OUTLIER: 0.003,
}
"""In how many honest studies each kind of check may ever alarm; with the two of additivity at most 3 %."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a study: how likely such outcomes are if nothing is wrong, and below what it is a doubt."""

    check: Check
    level: float
    remark: Remark

    @property
    def alarms(self) -> bool:
        """Whether the outcomes contradict what the certificate rests on, by enough to matter."""
        return self.check.is_harmful and self.check.p_value < self.level


def doubts(state: StudyState, with_open: bool = False) -> tuple[Remark, ...]:
    """What speaks against the certificate, most telling first; nothing where no check alarms.

    Runs of complete blocks and imported ones are looked at, with `with_open` also those told of the block under way.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> doubts(study.state)
    ()
    """
    found = checks(state, with_open)
    outlying = {trial for result in found if result.alarms for trial in result.remark.trials}
    return (*(result.remark for result in found if result.alarms), *_interactions(state, outlying))


def checks(state: StudyState, with_open: bool = False) -> tuple[CheckResult, ...]:
    """Every check but those of interactions, which `additivity` has, with its level and what it says."""
    gathered = gathered_runs(state, with_open)
    found = check_runs(_runs(state, gathered), level_now(state, SHARES[OUTLIER]))
    return tuple(
        CheckResult(check, level_now(state, SHARES[check.kind]), _remark(state, gathered, check)) for check in found
    )


def _runs(state: StudyState, gathered: GatheredRuns) -> Runs:
    choices = state.choices
    return Runs(
        codes=choices.rows(gathered.codes),
        outcomes=gathered.values,
        n_levels=choices.sizes,
        constants=block_constants(state, gathered),
        ordered=gathered.block >= 0,
        noise_sd=state.spec.noise_sd,
    )


def _interactions(state: StudyState, outlying: set[int]) -> Iterator[Remark]:
    found = additivity(state, outlying)
    if found.in_doubt:
        names = {found.names[k] for pair in found.suspects for k in (pair.first, pair.second)}
        p_values = [pair.adjusted for pair in found.suspects] or [found.lack.p_value if found.lack else 1.0]
        levers = tuple(name for name in found.names if name in names)
        yield Remark("additivity", found.summary, levers, p_value=min(p_values))


def _remark(state: StudyState, gathered: GatheredRuns, check: Check) -> Remark:
    """A check in words: what was seen, what it means, what to do."""
    if check.kind == OUTLIER:
        return _outlier(state, gathered, check)
    stated = state.spec.noise_sd
    assert stated is not None  # what this check is about
    text = (
        f"residuals have an sd of {check.size:.3g} where a noise of {stated:g} was stated ({chance(check.p_value)}): "
        f"the certificate rests on the smaller one; restate the noise, or find what else makes outcomes differ"
    )
    return Remark(NOISE, text, p_value=check.p_value)


def _outlier(state: StudyState, gathered: GatheredRuns, check: Check) -> Remark:
    sizes = [float(gathered.values[run]) for run in check.runs]
    trials = tuple(int(gathered.trial[run]) for run in check.runs if gathered.trial[run] >= 0)
    blocks = {int(gathered.block[run]) for run in check.runs}
    block = blocks.pop() + 1 if len(blocks) == 1 and min(blocks) >= 0 else None
    who = (
        f"trial {', '.join(map(str, trials))}" if trials else several(len(check.runs), "imported run", "imported runs")
    )
    away = abs(check.size or 0.0)
    text = (
        f"the outcome of {who}, {', '.join(f'{value:g}' for value in sizes)}, is {away:.3g} away from what all "
        f"other runs say ({chance(check.p_value)}): one such outcome can decide everything; correct it if it was "
        f"mistyped, exclude it if the run went wrong"
    )
    return Remark(OUTLIER, text, trials=trials, block=block, p_value=check.p_value)


def chance(p_value: float) -> str:
    """A p-value as people read it.

    >>> chance(0.00123), chance(0.0)
    ('p = 0.001', 'p < 1e-9')
    """
    return f"p = {p_value:.1g}" if math.isfinite(p_value) and p_value >= 1e-9 else "p < 1e-9"
