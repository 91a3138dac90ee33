"""Whether a study's outcomes look like what its certificate assumes.

Everything here is read from the state, in the space as the algorithm sees it. Nothing here changes a decision.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc, ndtri, stdtrit

from levers.algorithms.base import PAST
from levers.core.merging import MAX_MERGED, Merging
from levers.core.model.checks.additivity import Additive, LackOfFit, even_sample, lack_of_fit
from levers.core.model.checks.battery import FAR_OUT
from levers.core.model.checks.interactions import CellMeans, PairCheck, PairScreen, cell_means, pair_screen
from levers.core.model.interaction_fit import InteractionFit, Runs
from levers.core.outcome_scale import OutcomeScale
from levers.core.space import Codes
from levers.errors import LeversError
from levers.studies.events import Numbers, Values
from levers.studies.spec import StudySpec
from levers.studies.state import APART, OPEN, StudyState

ALARM = 0.003
"""Share of additive studies in which a pair may ever be suspected, and in which the fit may ever be found lacking.

A false alarm costs trust and a larger study, so it should be far rarer than the failures that a study allows (10 %).
`doubts.SHARES` has the shares of all checks.
"""
AT_END, AT_LATER_ENDS = 0.7, 0.1
"""The parts of a check's share that are spent where a study ends, first and after it went on."""
_CONTRADICTED = 0.001  # two-sided p-value below which the stated noise is not used to judge interactions
_MOST_SUSPECTS = 3  # each is named with those before it allowed for; more would be guessing
_MOST_BLOCKS = 300  # constants of blocks; later ones share the last
_QQ_POINTS = 200


@dataclass(frozen=True, eq=False, slots=True)
class Residuals:
    """What the fit that chose the setting leaves over, in the outcome's own unit and sign.

    On a log scale residuals, `sd` and `noise_sd` are of its logarithm, and `fitted` is the typical outcome.

    The arrays have one entry a point, in the order of telling, imported runs (trial -1, block -1) first. `standardised`
    is e / (sd sqrt(1 - leverage)), nan where a run determines its own fit. The numbers are over all runs: `sd` allows
    for the fitted effects; `noise_sd` is what the study works with, stated when `noise_known` and else an upper bound;
    `autocorrelation` is that of one told run and the next; `n_outliers` are beyond what the largest of n normal
    residuals reaches in 19 of 20 studies. `normal` and `observed` are the axes of a QQ plot. Where levers work
    `together`, each residual is an outcome less what all other runs expect of it, by the fit that chose the setting.
    """

    fitted: Values
    residual: Values
    standardised: Values
    trial: Numbers
    block: Numbers
    stage: tuple[str, ...]
    n_runs: int
    sd: float | None
    noise_sd: float | None
    noise_known: bool
    skewness: float | None
    share_beyond_3: float | None
    autocorrelation: float | None
    n_outliers: int
    normal: Values
    observed: Values
    together: bool = False


@dataclass(frozen=True, slots=True)
class Additivity:
    """Whether levers seem to interact. `reason` says why nothing can be said (yet); `summary` is for people.

    `checks` are all pairs tested, smallest p first, by position in `names`. `suspects` are the pairs to blame: the
    worst, then the worst once that one is allowed for, and so on, because one interaction has echoes in other pairs.
    `cells` has mean residuals for the worst pairs. `noise_used` is None when residuals had to tell the noise. An alarm
    takes an adjusted p-value below `level`, which adds up to ALARM over all looks (`level_now`). Where levers are set
    `together` an interaction is no doubt: the setting was chosen with it.
    """

    names: tuple[str, ...]
    n_runs: int
    lack: LackOfFit | None
    checks: tuple[PairCheck, ...]
    suspects: tuple[PairCheck, ...]
    cells: tuple[CellMeans, ...]
    noise_used: float | None
    level: float
    summary: str
    reason: str | None = None
    together: bool = False

    @property
    def interacting(self) -> tuple[str, ...]:
        """The levers of the pairs to blame, in their order."""
        members = {k for pair in self.suspects for k in (pair.first, pair.second)}
        return tuple(name for k, name in enumerate(self.names) if k in members)

    @property
    def in_doubt(self) -> bool:
        """Whether the certificate's assumption is in doubt."""
        if self.together:
            return False
        return bool(self.suspects) or (self.lack is not None and self.lack.p_value < self.level)


@dataclass(frozen=True, eq=False, slots=True)
class GatheredRuns:
    """Runs of a study, imported ones first (trial and block -1), then in the order of telling.

    `block` is the round, `group` the part of it, such as a day, that the algorithm compares levels in.
    """

    codes: Codes
    values: Values
    trial: Numbers
    block: Numbers
    group: Numbers
    told_at: Values

    def at(self, which: Any) -> "GatheredRuns":
        """Some of the runs."""
        return GatheredRuns(*(getattr(self, name)[which] for name in GatheredRuns.__slots__))


def residuals(state: StudyState, most: int = 2000) -> Residuals:
    """Residuals of the fit to all runs: summaries, and at most `most` points to draw.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> study.tell_many((trial, float(trial.number % 3)) for trial in study.ask(6))
    6
    >>> found = residuals(study.state)
    >>> found.n_runs, len(found.residual), found.noise_known
    (6, 6, True)
    """
    runs = gathered_runs(state, with_open=True)
    n, assumed = len(runs.values), state.spec.noise_sd
    if n == 0:
        none, nobody = np.zeros(0), np.zeros(0, dtype=np.int64)
        return Residuals(
            none, none, none, nobody, nobody, (), 0, None, assumed, assumed is not None, None, None, None, 0, none, none
        )
    together = interactions_of(state, runs)
    left = _by_adding(state, runs) if together is None else _by_interactions(state, together, runs)
    e, sd, scaled = left.residual, left.sd, left.standardised
    seen = np.sort(scaled[~np.isnan(scaled)])
    at = _points(np.abs(e), most)
    ranks = np.unique(np.linspace(0, max(len(seen) - 1, 0), _QQ_POINTS).round().astype(np.int64))[: len(seen)]
    told = e[runs.block >= 0]
    stages, scale = [block.batch.stage for block in state.blocks], state.spec.outcome_scale
    return Residuals(
        fitted=np.array([scale.told(one) for one in (scale.additive(runs.values) - e)[at].tolist()]),
        residual=e[at],
        standardised=scaled[at],
        trial=runs.trial[at],
        block=runs.block[at],
        stage=tuple(PAST if b < 0 else stages[b] for b in runs.block[at].tolist()),
        n_runs=n,
        sd=sd,
        noise_sd=assumed if assumed is not None else state.progress.noise_sd,
        noise_known=assumed is not None,
        skewness=float((e**3).mean() / (e**2).mean() ** 1.5) if sd is not None else None,
        share_beyond_3=float((np.abs(seen) > 3).mean()) if len(seen) else None,
        autocorrelation=_autocorrelation(told) if sd is not None else None,
        n_outliers=_n_outliers(seen, left.dof, 1.0 if together is None else FAR_OUT),
        normal=ndtri((ranks + 0.625) / (len(seen) + 0.25)),
        observed=seen[ranks],
        together=together is not None,
    )


def additivity(state: StudyState, leave_out: Collection[int] = (), scale: OutcomeScale | None = None) -> Additivity:
    """Test the runs of complete rounds, and imported ones, for interactions between levers.

    Each block has a constant of its own if the algorithm compares levels inside blocks only: drift from one block to
    the next, or an import from another year, is then no interaction. Neither is an outlier, whose trial is to be in
    `leave_out`. On another `scale` than the study's the noise that was stated says nothing.

    >>> from levers.studies.library import create_study
    >>> study = create_study("line", {"heat": ["low", "high"], "speed": [1, 2]}, tolerance=0.5, noise_sd=1.0, seed=1)
    >>> additivity(study.state).reason
    'no round of runs is complete yet'
    """
    names, runs = tuple(factor.name for factor in state.fitted), gathered_runs(state, with_open=False)
    if leave_out:
        runs = runs.at(~np.isin(runs.trial, list(leave_out)))
    level = level_now(state, ALARM)
    if len(runs.values) == 0 or len(names) < 2:
        reason = "no round of runs is complete yet" if len(names) > 1 else "a single lever has nothing to interact with"
        return Additivity(names, len(runs.values), None, (), (), (), None, level, f"not tested: {reason}", reason)
    codes, sizes = state.choices.rows(runs.codes), list(state.choices.sizes)
    blocks = block_constants(state, runs)
    if blocks is not None:
        codes, sizes = np.column_stack([codes, blocks.astype(np.int16)]), [*sizes, int(blocks.max()) + 1]
    model = Additive.of(codes, (scale or state.spec.outcome_scale).additive(runs.values), sizes)
    stated = state.spec.noise_sd if scale is None else None
    noise_sd = _trusted_noise(model, stated)
    screen = pair_screen(model, len(names), noise_sd)
    lack = lack_of_fit(model, noise_sd)
    suspects = tuple(_suspects(model, screen, len(names), stated, level))
    worst = [*suspects, *(c for c in screen.checks[:_MOST_SUSPECTS] if c not in suspects)][:_MOST_SUSPECTS]
    cells = tuple(cell_means(model, check.first, check.second) for check in worst)
    lacking = lack if lack is not None and lack.p_value < level else None
    together = interactions_of(state, runs) is not None
    words = "; ".join(_words(state, model, screen, suspects, lacking, together))
    return Additivity(
        names, len(runs.values), lack, screen.checks, suspects, cells, noise_sd, level, words, screen.reason, together
    )


def gathered_runs(state: StudyState, with_open: bool) -> GatheredRuns:
    """The runs that count and set every lever, imported ones first, then in the order of telling."""
    parts: list[tuple[Any, ...]] = []
    n_groups = 0
    for b, block in enumerate(state.blocks):
        if block.role not in APART and (with_open or block.role != OPEN):
            done = block.set_order
            trial, where = block.holders[done], np.full(len(done), b)
            ends = np.cumsum(state.spec.solver.block_lengths(state.known[-1], block.n_runs))
            group = n_groups + np.searchsorted(ends, done, side="right")
            n_groups += len(ends)
            told_at = state.trials.told_at[trial]
            parts.append((block.batch.codes[done], block.values[done], trial, where, group, told_at))
    for i, past in enumerate(state.past):
        n = len(past.values)
        away = np.full(n, -1)
        codes = state.spec.contract(past.codes)
        parts.append((codes, past.values, away, away, np.full(n, n_groups + i), np.full(n, -np.inf)))
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        empty = np.zeros((0, state.spec.inner.n_factors), dtype=np.int16)
        return GatheredRuns(empty, np.zeros(0), none, none, none, np.zeros(0))
    runs = GatheredRuns(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.lexsort((runs.trial, runs.told_at))
    return runs.at(order)


def interactions_of(state: StudyState, runs: GatheredRuns) -> InteractionFit | None:
    """The fit with interactions by which the setting was chosen, of these runs; None where effects were added up.

    Outcomes are as the algorithm sees them, as in the fit that chose.
    """
    fitted = state.spec.solver.fitted(state.known[-1])
    if fitted is None or fitted.together is None:
        return None
    days = runs.group if state.spec.block_size else np.zeros_like(runs.group)
    constants = np.where(runs.block < 0, -1 - runs.group, days)
    rows, outcomes = state.choices.rows(runs.codes), state.spec.outcome_scale.inward(runs.values)
    return replace(fitted.together, runs=Runs.none(rows.shape[1]).add(rows, outcomes, constants))


def block_constants(state: StudyState, runs: GatheredRuns) -> Numbers | None:
    """The block of each run that has a constant of its own in the fit, from 0; None where all runs share one.

    Rounds have one even where the solver does without because they are short: levels that looked best are run again,
    and then look worse on average, which would be drift to any test between rounds.
    """
    if not state.spec.solver.compares_within_blocks or not len(runs.group):
        return None
    blocks = np.unique(np.minimum(runs.group, _MOST_BLOCKS - 1), return_inverse=True)[1].ravel()
    return blocks if blocks.max() > 0 else None


def level_now(state: StudyState, share: float) -> float:
    """The p-value below which a check alarms now. Over all looks and ends these levels add up to the share.

    Look b while runs are awaited has 0.2 / (b (b + 1)) of it, the first end 0.7, and end f, after a study went on,
    0.1 / (f (f - 1)): the check that a verdict rests on should see the most.
    """
    n_looks, n_ends = state.n_looks, state.n_ends
    if n_ends == 0:
        return (1 - AT_END - AT_LATER_ENDS) * share / (n_looks * (n_looks + 1))
    return AT_END * share if n_ends == 1 else AT_LATER_ENDS * share / (n_ends * (n_ends - 1))


def _points(sizes: Values, most: int) -> Numbers:
    """Which runs to draw: a tenth for the largest residuals, the rest spread evenly."""
    if len(sizes) <= most:
        return np.arange(len(sizes))
    largest = np.argsort(-sizes, kind="stable")[: max(1, most // 10)]
    others = np.setdiff1d(np.arange(len(sizes)), largest)
    return np.sort(np.concatenate([largest, others[even_sample(len(others), most - len(largest))]]))


class _Left(NamedTuple):
    """What a fit leaves of each outcome, the same in its standard deviations, the noise's, and degrees of freedom."""

    residual: Values
    standardised: Values
    sd: float | None
    dof: int


def _by_adding(state: StudyState, runs: GatheredRuns) -> _Left:
    choices, n = state.choices, len(runs.values)
    outcomes = state.spec.outcome_scale.additive(runs.values)
    model = Additive.of(choices.rows(runs.codes), outcomes, choices.sizes, most_runs=n)
    e, room, scaled = model.residuals, 1 - model.leverages(), np.full(n, np.nan)
    if model.dof < 1 or model.is_exact:
        return _Left(e, scaled, None, model.dof)
    sd, free = math.sqrt(model.square / model.dof), room > 1e-9
    scaled[free] = e[free] / (sd * np.sqrt(room[free]))
    return _Left(e, scaled, sd, model.dof)


def _by_interactions(state: StudyState, fit: InteractionFit, runs: GatheredRuns) -> _Left:
    (expected, scaled), sign = fit.left_out, state.spec.sign
    residual = state.spec.outcome_scale.additive(runs.values) - sign * expected
    return _Left(residual, sign * scaled, fit.noise_sd, len(runs.values) - fit.n_constants)


def _n_outliers(scaled: Values, dof: int, far_out: float) -> int:
    """How many residuals are beyond what the largest of so many reaches in 19 of 20 studies, each without itself.

    `far_out` makes that rarer.

    t = r sqrt((dof - 1) / (dof - r^2)) is the externally studentised residual, on dof - 1 degrees of freedom.
    """
    if not len(scaled) or dof < 2:
        return 0
    room = np.maximum(dof - scaled**2, 1e-12 * dof)
    t = np.abs(scaled) * np.sqrt((dof - 1) / room)
    return int((t > -float(stdtrit(dof - 1, 0.025 * far_out / len(scaled)))).sum())


def _autocorrelation(told: Values) -> float | None:
    away = told - told.mean() if len(told) else told
    square = float(away @ away)
    return float(away[1:] @ away[:-1]) / square if len(told) > 2 and square > 0 else None


def _trusted_noise(model: Additive, stated: float | None) -> float | None:
    """The stated noise unless the residuals contradict it: a wrong one would raise, or hide, every alarm at once."""
    if stated is None or model.dof < 1:
        return stated
    square = model.square / stated**2
    p_value = 2 * min(float(chdtr(model.dof, square)), float(chdtrc(model.dof, square)))
    return stated if p_value >= _CONTRADICTED else None


def _suspects(
    model: Additive, screen: PairScreen, n_factors: int, stated: float | None, level: float
) -> Iterator[PairCheck]:
    """The worst pair; then, with that pair as one more factor of all its combinations, the worst of the others."""
    for _ in range(_MOST_SUSPECTS):
        if not screen.checks or screen.checks[0].adjusted >= level:
            return
        worst = screen.checks[0]
        yield worst
        sizes = model.fit.moments.n_levels
        n_cells = sizes[worst.first] * sizes[worst.second]
        if n_cells > MAX_MERGED:
            return
        merged = model.codes[:, worst.first] * sizes[worst.second] + model.codes[:, worst.second]
        model = Additive.of(np.column_stack([model.codes, merged]), model.outcomes, [*sizes, n_cells])
        screen = pair_screen(model, n_factors, _trusted_noise(model, stated))


def can_merge(state: StudyState, pair: PairCheck) -> bool:
    """Whether a study can go on with two of its levers as one."""
    return state.spec.solver.absorbs_runs and _n_together(state, pair) <= MAX_MERGED


def _n_together(state: StudyState, pair: PairCheck) -> int:
    """The combinations of two levers as one."""
    return n_merged(state.spec, (state.fitted[pair.first].name, state.fitted[pair.second].name))


def n_merged(spec: StudySpec, names: Sequence[str]) -> int:
    """The combinations of levers as one, with those that are tied or merged to any; what cannot be set is none.

    So many that they are not made, as a number beyond what can be merged.
    """
    columns = dict(zip(spec.inner.names, spec.merging.groups, strict=True))
    levers = {spec.space.names[k] for name in names for k in columns.get(name, ())}
    levers |= {name for name in names if name not in columns}
    try:
        merging = Merging.of(spec.space, spec.forbidden, (*spec.merged, tuple(levers)))
    except LeversError:
        return MAX_MERGED + 1
    return merging.inner.n_levels[merging.column_of(min(levers))]


def _words(
    state: StudyState,
    model: Additive,
    screen: PairScreen,
    suspects: tuple[PairCheck, ...],
    lacking: LackOfFit | None,
    together: bool,
) -> Iterator[str]:
    factors = state.fitted
    for pair in suspects:
        first, second = factors[pair.first], factors[pair.second]
        if together:
            yield f"{first.name} and {second.name} interact ({_chance(pair.adjusted)}): they are set together"
            continue
        n_cells = _n_together(state, pair)
        remedy = f"study them as one lever of {n_cells} combinations"
        if can_merge(state, pair):
            remedy += ", with these runs as evidence (levers merge)"
        elif n_cells > MAX_MERGED:
            remedy = f"as one lever they would have more than {MAX_MERGED} combinations: leave out levels first"
        yield (
            f"{first.name} and {second.name} seem to interact ({_chance(pair.adjusted)}): the certificate assumes that "
            f"they do not; {remedy}"
        )
    if lacking is not None and not suspects and together:
        yield f"the sum of single effects does not fit the runs ({_chance(lacking.p_value)}): levers are set together"
    elif lacking is not None and not suspects:
        yield (
            f"the sum of single effects does not fit the runs ({_chance(lacking.p_value)}), though no pair stands "
            "out: three or more may act together, or conditions changed"
        )
    elif screen.reason is not None:
        yield f"not tested: {screen.reason}"
    elif not suspects:
        n = len(screen.checks)
        yield f"no sign of interaction in {n} pair{'s' if n > 1 else ''}"
    if screen.checks and screen.n_blind:
        yield f"{screen.n_blind} more cannot be told from these runs"
    if screen.checks and screen.n_left_out:
        yield f"{screen.n_left_out:,} more were left out, of levers with smaller effects or very many levels"
    stated = state.spec.noise_sd
    if stated is not None and not together and _trusted_noise(model, stated) is None:
        sd, scale = math.sqrt(model.square / model.dof), state.spec.outcome_scale
        more = "interactions or more noise, and either voids the certificate" if sd > stated else "runs could be saved"
        seen = f"residuals have an sd of {scale.said(sd, '.3g')}"
        yield f"{seen} where a noise of {scale.said(stated, 'g')} was stated: {more}"


def _chance(p_value: float) -> str:
    return f"p = {p_value:.1g}" if p_value >= 1e-9 else "p < 1e-9"
