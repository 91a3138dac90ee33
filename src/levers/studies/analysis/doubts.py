"""Where a study's outcomes contradict what its certificate rests on, in words that say what to do.

Everything here is a pure function of the state. The statistics are in `core/model/checks`, the argument is in
docs/theory/doubts.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from levers.algorithms.base import Remark
from levers.core.designs.changes import hard_levels
from levers.core.model.checks.battery import Claims, check_runs, check_together
from levers.core.model.checks.check import (
    DRIFT,
    EFFECT,
    NOISE,
    NONADDITIVITY,
    OUTLIER,
    PARENTS,
    SERIAL,
    SETUP,
    SHAPE,
    SPREAD,
    Check,
    Runs,
)
from levers.core.model.pooled import OutcomeSteps
from levers.core.outcome_scale import LOG, OutcomeScale
from levers.studies.analysis.confirmation import confirmation_doubt
from levers.studies.analysis.describe import several
from levers.studies.analysis.diagnostics import (
    ALARM,
    GatheredRuns,
    additivity,
    block_constants,
    gathered_runs,
    interactions_of,
    level_now,
)
from levers.studies.events import Numbers
from levers.studies.state import StudyState

PAIRS, LACK = "pairs", "lack of fit"
SHARES = {
    NOISE: 0.008,
    OUTLIER: 0.001,
    SPREAD: 0.002,
    DRIFT: 0.002,
    SERIAL: 0.002,
    SETUP: 0.002,
    SHAPE: 0.001,
    NONADDITIVITY: 0.002,
    PARENTS: 0.002,
    EFFECT: 0.002,
    PAIRS: ALARM,
    LACK: ALARM,
}
"""In how many honest studies each kind of check may ever alarm, however often one looks: 3 % for all together.

What a study has no use for goes to the noise: a noise stated a little too small does harm long before it shows. Where
no noise was stated, its share goes to levers that are hard to change.
"""
BEYOND_QUESTION = 1e-7
"""The p-value below which outcomes told since the last check contradict what a study could say if it stopped now.

It is compared after every outcome, so it is far below any share above: a thousand outcomes and a dozen kinds of check
alarm in one honest study of a thousand, at most."""
GROSS = 5.0
"""How many times the noise stated, or the steps in which outcomes are told, an outcome is away that is such an error:
with hardly more runs than parameters rounded outcomes can fit so exactly that any other one stands out."""
MOST_SINCE = 300_000
"""Runs times levers up to which that is looked at, because somebody waits for a page: about a tenth of a second."""
SCALED = frozenset((SHAPE, SPREAD, NONADDITIVITY))
"""Checks that alarm where effects multiply and noise is in percent, but outcomes are taken as they are."""


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

    Runs of complete rounds and imported ones are looked at, with `with_open` also those told of the round under way.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> doubts(study.state)
    ()
    """
    found = checks(state, with_open)
    outlying = {trial for result in found if result.alarms for trial in result.remark.trials}
    not_borne_out = confirmation_doubt(state)
    return (
        *(() if not_borne_out is None else (not_borne_out,)),
        *(result.remark for result in found if result.alarms),
        *_interactions(state, outlying),
    )


def doubts_since(state: StudyState) -> tuple[Remark, ...]:
    """Gross errors among outcomes told since the last check, in a round that is under way: one far out, or all of them
    further apart than the noise stated.

    What can be said if a study stops now rests on them, and the next check may be many runs away.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> study.tell_many((trial, 7250.0 if trial.number == 3 else 0.1 * trial.number) for trial in study.ask(6))
    6
    >>> [one.kind for one in doubts_since(study.state)]
    ['outlier']
    """
    n_runs = state.n_complete
    if state.open_block is None or n_runs <= max(state.checked_runs, default=0):
        return ()
    if n_runs * state.spec.space.n_factors > MOST_SINCE:
        return ()
    values = state.spec.outcome_scale.additive(gathered_runs(state, with_open=True).values)
    least = GROSS * max(state.spec.noise_sd or 0.0, OutcomeSteps().add(values).resolution or 0.0)

    def is_gross(check: Check) -> bool:
        return check.kind == NOISE or (check.kind == OUTLIER and abs(check.size or 0.0) > least)

    found = checks(state, with_open=True, below=BEYOND_QUESTION)
    return tuple(one.remark for one in found if one.alarms and is_gross(one.check))


def checks(state: StudyState, with_open: bool = False, below: float | None = None) -> tuple[CheckResult, ...]:
    """Every check but those of interactions, which `additivity` has, with its level and what it says.

    The level is that of the moment (`level_now`), or the same for all: `below`.
    """
    gathered = gathered_runs(state, with_open)
    runs, choices, options = _runs(state, gathered), state.choices, dict(state.spec.options)
    owners = tuple(k for k, table in enumerate(choices.tables) for _ in range(table.shape[1]))
    claimed = Claims(options.get("max_parents"), state.spec.inner_min_effect, owners)

    def level(share_of_kind: float) -> float:
        return level_now(state, share_of_kind) if below is None else below

    outlier_level, found = level(SHARES[OUTLIER]), tuple[Check, ...]()
    if runs.n_runs > choices.n_parameters + 1:
        found = check_runs(runs, outlier_level, state.spec.failure_prob, claimed)
    elif (few := _with_parents_only(state, runs)) is not None:
        found = tuple(check for check in check_runs(few, outlier_level) if check.kind == OUTLIER)
    if (together := interactions_of(state, gathered)) is not None:
        named = [
            run for check in found if check.kind == OUTLIER and check.p_value < outlier_level for run in check.runs
        ]
        by_it = check_together(together, named, outlier_level, state.spec.noise_sd)
        found = found if by_it is None else by_it
    results = tuple(
        CheckResult(check, level(share(state, check.kind)), _remark(state, gathered, runs, check)) for check in found
    )
    return results if below is not None else _with_scale(state, gathered, runs, results)


def _with_scale(
    state: StudyState, gathered: GatheredRuns, runs: Runs, results: tuple[CheckResult, ...]
) -> tuple[CheckResult, ...]:
    """The same, with the log scale named where doubts of shape, spread or adding up would go away on it."""
    if not _may_be_log(state, gathered) or not any(one.alarms and one.check.kind in SCALED for one in results):
        return results
    in_logs = replace(runs, outcomes=np.log(gathered.values), noise_sd=None)
    again = check_runs(in_logs, level_now(state, SHARES[OUTLIER]), state.spec.failure_prob)
    left = {check.kind for check in again if check.is_harmful and check.p_value < level_now(state, SHARES[check.kind])}
    return tuple(
        replace(one, remark=_mended(one.remark)) if one.alarms and one.check.kind in SCALED - left else one
        for one in results
    )


def _may_be_log(state: StudyState, gathered: GatheredRuns) -> bool:
    return not state.spec.outcome_scale.is_log and len(gathered.values) > 0 and bool((gathered.values > 0).all())


def _mended(remark: Remark) -> Remark:
    """A doubt that these outcomes do not raise on a log scale."""
    text = (
        f"{remark.text}; on a log scale these outcomes raise no such doubt: begin a study with the scale log, with "
        "these runs as past data"
    )
    return replace(remark, text=text, scale=LOG)


def share(state: StudyState, kind: str) -> float:
    """In how many honest studies like this one a kind of check may ever alarm."""
    if kind == SETUP and state.spec.noise_sd is None:
        return SHARES[SETUP] + share(state, NOISE)
    if kind != NOISE:
        return SHARES[kind]
    options, alone = dict(state.spec.options), len(state.choices.sizes) < 2
    unused = [kind for kind in (PARENTS, EFFECT) if options.get(kind) is None]
    unused += [PAIRS, LACK, NONADDITIVITY] if alone else []
    unused += [] if state.spec.hard_to_change else [SETUP]
    return SHARES[NOISE] + sum(SHARES[kind] for kind in unused)


def _runs(state: StudyState, gathered: GatheredRuns) -> Runs:
    choices, size = state.choices, state.spec.block_size
    return Runs(
        codes=choices.rows(gathered.codes),
        outcomes=state.spec.outcome_scale.additive(gathered.values),
        n_levels=choices.sizes,
        constants=block_constants(state, gathered),
        days=np.where(gathered.block >= 0, gathered.trial // size, -1 - gathered.group) if size else None,
        ordered=gathered.block >= 0,
        noise_sd=state.spec.noise_sd,
        hard=hard_levels(gathered.codes, state.spec.inner_hard) if state.spec.hard_to_change else None,
    )


def _with_parents_only(state: StudyState, runs: Runs) -> Runs | None:
    """Runs fewer than parameters with the factors only that were found to matter; None where nobody looked for them.

    What small effects of others leave makes a noise look larger, so that only outliers can be told from it.
    """
    known = state.spec.solver.interim(state.known[-1]) if runs.n_runs else None
    if known is None or known.parents is None:
        return None
    names = [factor.name for factor in state.fitted]
    at = [names.index(name) for name in known.parents if name in names] or [0]
    sizes = tuple(runs.n_levels[k] for k in at)
    return replace(runs, codes=runs.codes[:, at], n_levels=sizes)


def _interactions(state: StudyState, outlying: set[int]) -> Iterator[Remark]:
    """Levers that interact, where the setting was chosen as if they did not."""
    found = additivity(state, outlying)
    if found.in_doubt:
        p_values = [pair.adjusted for pair in found.suspects] or [found.lack.p_value if found.lack else 1.0]
        remark = Remark("additivity", found.summary, found.interacting, p_value=min(p_values))
        in_logs = _may_be_log(state, gathered_runs(state, with_open=False))
        if in_logs and not additivity(state, outlying, OutcomeScale(LOG)).in_doubt:
            remark = _mended(remark)
        yield remark


def _remark(state: StudyState, gathered: GatheredRuns, runs: Runs, check: Check) -> Remark:
    """A check in words: what was seen, what it means, what to do."""
    p_value, size, seen = check.p_value, check.size or 0.0, chance(check.p_value)
    options, scale = dict(state.spec.options), state.spec.outcome_scale
    match check.kind:
        case "outlier":
            return _outlier(state, gathered, check)
        case "noise":
            text = (
                f"residuals have an sd of {scale.said(size, '.3g')} where a noise of "
                f"{scale.said(state.spec.noise_sd or 0.0, 'g')} was stated ({seen}): the certificate rests on "
                "the smaller one; restate the noise, or find what else makes outcomes differ"
            )
            return Remark(NOISE, text, p_value=p_value)
        case "spread":
            return _spread(state, gathered, runs, check)
        case "drift":
            text = (
                f"outcomes change with time inside rounds, which explains {max(size, 0.0):.0%} of what effects leave "
                f"({seen}): some levels may look better for having been run later; go on in shorter rounds, or restate "
                "the noise so that it covers the change"
            )
            return Remark(DRIFT, text, p_value=p_value)
        case "serial":
            text = (
                f"runs made one after the other are alike (correlation {size:.2g}, {seen}): days, lots or a slow "
                "change make the noise of a comparison other than assumed; give the block size of a day, go on, or "
                "restate the noise"
            )
            return Remark(SERIAL, text, p_value=p_value)
        case "set-up":
            assert check.factor is not None  # the lever
            name = state.spec.hard_to_change[check.factor]
            text = (
                f"runs between two changes of {name} are alike ({seen}), as if setting it had an error of its own, an "
                f"sd of about {size:.3g}, or outcomes drifted inside blocks: the certificate counts these runs as "
                f"independent, so that {name} is compared less surely than it says; set it more exactly and go on, or "
                "begin a study that changes it like any other lever"
            )
            return Remark(SETUP, text, (name,), p_value=p_value)
        case "shape":
            text = (
                f"the noise is far from normal ({seen}), which may raise the failures of a certificate by about "
                f"{min(size, 9.99):.0%} at this many runs; go on, or {_another_scale(state)}"
            )
            return Remark(SHAPE, text, p_value=p_value)
        case "nonadditivity":
            together = "better" if (size > 0) == (state.spec.sign > 0) else "worse"
            text = (
                f"levels that are good each by itself are {together} together than their effects add up to ({seen}): "
                f"the certificate assumes that effects add up; {_another_scale(state)}, or study levers that belong "
                "together as one (levers merge)"
            )
            return Remark(NONADDITIVITY, text, p_value=p_value)
        case "max_parents":
            text = (
                f"at least {size:.0f} levers matter where at most {options['max_parents']} were said to ({seen}): the "
                "certificate counts too few; begin a study without that bound, with these runs as past data"
            )
            return Remark(PARENTS, text, p_value=p_value)
    assert check.factor is not None  # what is left is about one lever
    name = state.spec.inner.factors[check.factor].name
    text = (
        f"levers matter by less than {scale.said(options['min_effect'], 'g')}, which was said to be the least effect; "
        f"the clearest is {name}, by about {scale.said(scale.loss(size), '.3g')} ({seen}): effects that were taken for "
        "none may be lost; begin a study with a smaller least effect, or none, with these runs as past data"
    )
    return Remark(EFFECT, text, (name,), p_value=p_value)


def _another_scale(state: StudyState) -> str:
    such_as = "the outcome itself" if state.spec.outcome_scale.is_log else "its logarithm"
    return f"take another scale of the outcome, such as {such_as}"


def _outlier(state: StudyState, gathered: GatheredRuns, check: Check) -> Remark:
    values = ", ".join(f"{gathered.values[run]:g}" for run in check.runs)
    trials = tuple(int(gathered.trial[run]) for run in check.runs if gathered.trial[run] >= 0)
    block = _block(state, np.array(trials, dtype=np.int64))
    who = (
        f"trial {', '.join(map(str, trials))}" if trials else several(len(check.runs), "imported run", "imported runs")
    )
    scale, size = state.spec.outcome_scale, abs(check.size or 0.0)
    away = f"a factor of {scale.told(size):.3g}" if scale.is_log else f"{size:.3g}"
    text = (
        f"the outcome of {who}, {values}, is {away} away from what all other runs say "
        f"({chance(check.p_value)}): one such outcome can decide everything; correct it if it was mistyped, exclude it "
        "if the run went wrong"
    )
    return Remark(OUTLIER, text, trials=trials, block=block, p_value=check.p_value)


def _block(state: StudyState, trials: Numbers) -> int | None:
    """The block of all these trials as people count it; None where they are of several, or none."""
    found = np.unique(state.block_numbers(trials))
    return int(found[0]) if len(found) == 1 else None


def _spread(state: StudyState, gathered: GatheredRuns, runs: Runs, check: Check) -> Remark:
    names, block = tuple[str, ...](), None
    if check.factor is not None and check.level is not None:
        factor = state.fitted[check.factor]
        names, where = (factor.name,), f"at {factor.name}={factor.levels[check.level]}"
    else:
        assert runs.constants is not None  # groups are levels or blocks
        trials = gathered.trial[runs.constants == check.block]
        block = _block(state, trials[trials >= 0])
        where = f"in trials {trials.min()} to {trials.max()}" if trials.min() >= 0 else "of imported runs"
    size = state.spec.outcome_scale.said(check.size or 0.0, ".3g")
    text = (
        f"outcomes {where} spread more than others, with an sd of {size} ({chance(check.p_value)}): "
        "comparisons with them are less sure than the certificate counts; restate the noise by the larger one, or find "
        "what makes them differ"
    )
    return Remark(SPREAD, text, names, block=block, p_value=check.p_value)


def chance(p_value: float) -> str:
    """A p-value as people read it.

    >>> chance(0.00123), chance(0.0)
    ('p = 0.001', 'p < 1e-9')
    """
    return f"p = {p_value:.1g}" if math.isfinite(p_value) and p_value >= 1e-9 else "p < 1e-9"
