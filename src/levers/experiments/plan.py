"""How many runs a study will take, before the first one is made."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from levers.algorithms.base import Problem
from levers.algorithms.cfs.decisions import cheap_scale, error_shares, first_block
from levers.algorithms.cfs.settings import NOISES
from levers.algorithms.cfs.two_stage import TwoStage
from levers.algorithms.modl import Modl
from levers.core.certificates.certificate import CERTIFICATES, certified_levels, scale_needed
from levers.core.certificates.limits import necessary_runs, null_bound, worst_case_bound
from levers.core.designs.build import certified_design, largest_design
from levers.core.model.evidence import noise_upper_bound
from levers.core.space import Level, Space
from levers.core.validation import check_count, check_scale
from levers.errors import InvalidSettingError

_NOISE_SD = 1.0  # what plans are made with when nothing is said about the noise
_FEW = 3
_TYPICAL_INFLATION = 1.1  # of designs too large to be made just for planning
_MOST_PARAMETERS = 300
_MOST_DESIGNED = 100_000
_MOST_RUNS = 1e15
_MOST_LEVELS_FOR_LIMIT = 60  # factors up to which the exact fixed-size limit is computed


@dataclass(frozen=True)
class TradeOff:
    """A tolerance and the runs of a single design that certifies it."""

    tolerance: float
    runs: int


@dataclass(frozen=True)
class Plan:
    """Runs that a study needs, by several counts. All are for the same tolerance and failure probability.

    `one_shot_runs`: a single ideal design that certifies everything. `worst_case_runs`: the most that the adaptive
    solver can take. `runs_if_nothing_matters`, `runs_if_few_matter`: about what easy cases take. `modl_runs`: the
    paper's method when nothing can be eliminated. `one_at_a_time_runs`: the same precision, one factor moved at a time.
    `lower_bound`: mean runs that any method needs on its worst effects. `null_bound`: the same where no factor matters.
    `necessary_runs`: what the balanced rule needs at least (None where there are too many factors to compute it). Where
    the noise is not known (`noise_known`), `noise_sd` is what it is expected to turn out as, and the limits are those
    of methods that know it.
    """

    tolerance: float
    failure_prob: float
    noise_sd: float
    n_factors: int
    full_factorial: int
    one_shot_runs: int
    worst_case_runs: int
    runs_if_nothing_matters: int
    runs_if_few_matter: int
    modl_runs: int
    one_at_a_time_runs: int
    lower_bound: int
    null_bound: int
    necessary_runs: int | None
    over_lower_bound: float | None
    over_necessary: float | None
    trade_off: tuple[TradeOff, ...]
    noise_known: bool = True


def plan(
    space: Space | Mapping[str, Sequence[Level]] | Sequence[int],
    *,
    tolerance: float | None = None,
    failure_prob: float = 0.1,
    noise_sd: float | None = _NOISE_SD,
    expected_noise: float | None = None,
    max_parents: int | None = None,
    min_effect: float | None = None,
    budget: int | None = None,
    certificate: str = CERTIFICATES[0],
) -> Plan:
    """Plan a study: how many runs for a tolerance, or with `budget` the smallest tolerance for a number of runs.

    The space may also be given as a list of level counts. With `noise_sd=None`, or with `expected_noise`, the study
    has to learn the noise, and the plan is for one that turns out as expected, by default as large as the tolerance.

    >>> abs(plan([4] * 10, tolerance=0.5).one_shot_runs / 1114 - 1) < 0.03
    True
    >>> known, unknown = (plan([4] * 3, tolerance=0.5, noise_sd=sd).one_shot_runs for sd in (0.5, None))
    >>> unknown > known
    True
    """
    whole = Space.sized(list(space)) if isinstance(space, Sequence) else Space.of(space)
    n_levels = whole.n_levels
    if (tolerance is None) == (budget is None):
        raise InvalidSettingError("give either a tolerance or a budget of runs, and not both", field="budget")
    given = {"tolerance": tolerance, "noise_sd": noise_sd, "expected_noise": expected_noise, "min_effect": min_effect}
    for name, value in given.items():
        if value is not None:
            check_scale(name, value)
    if expected_noise is not None and noise_sd not in (None, _NOISE_SD):
        raise InvalidSettingError("give the noise or what to expect of it, and not both", field="expected_noise")
    if noise_sd is None or expected_noise is not None:
        expected = tolerance if expected_noise is None else expected_noise
        if expected is None:
            raise InvalidSettingError(
                "with a budget, the plan needs the noise, or what to expect of it; without it the study still works",
                field="noise_sd",
            )
        factor, share = _cost_of_unknown_noise(Problem(whole, tolerance, failure_prob, None), max_parents, budget)
        planned = plan(
            whole,
            tolerance=tolerance,
            failure_prob=failure_prob - share,
            noise_sd=factor * expected,
            max_parents=max_parents,
            min_effect=min_effect,
            budget=budget,
            certificate=certificate,
        )
        levels = certified_levels(n_levels, max_parents)
        limits = _limits(levels, planned.tolerance, failure_prob, expected, min_effect, planned.one_shot_runs)
        return replace(planned, failure_prob=failure_prob, noise_sd=expected, noise_known=False, **limits)
    if max_parents is not None:
        check_count("max_parents", max_parents, 1, whole.n_factors)
    levels = certified_levels(n_levels, max_parents)
    scale = scale_needed(levels, failure_prob, certificate)
    if tolerance is None:
        assert budget is not None  # one of the two is given
        check_count("budget", budget, first_block(n_levels, estimate_noise=False))
        tolerance = scale * noise_sd / math.sqrt(budget / _inflation(n_levels, budget))
    problem = Problem(whole, tolerance, failure_prob, noise_sd)
    unit = (noise_sd / tolerance) * (noise_sd / tolerance)
    if not scale**2 * unit < _MOST_RUNS:
        raise InvalidSettingError(
            f"a tolerance of {tolerance:g} with noise of {noise_sd:g} takes more than {_MOST_RUNS:.0e} runs; raise it",
            field="tolerance",
        )
    one_shot = max(math.ceil(scale**2 * unit), sum(m - 1 for m in n_levels) + 1)  # one run per parameter at least
    dismiss = min_effect is not None and budget is not None
    shares = error_shares(failure_prob, estimate_noise=False, one_shot=False, dismiss=dismiss)
    selection = math.ceil(scale_needed(levels, shares.selection, certificate) ** 2 * unit)
    subgaussian = certificate == CERTIFICATES[2]
    solver = TwoStage(  # of a study of this kind: it knows its first block and its look
        problem if budget is None else replace(problem, tolerance=None),
        certificate=CERTIFICATES[0] if subgaussian else certificate,
        noise=NOISES[1] if subgaussian else NOISES[0],
        max_parents=max_parents,
        min_effect=min_effect,
        budget=budget,
        most_cells=10**18,  # a plan may be of any length
    )
    first = solver.first_screening() or first_block(n_levels, estimate_noise=False)
    # each level as often as in the balanced design, with the other factors fixed, sharing one baseline
    one_at_a_time = sum(math.ceil(one_shot / m) * (m - 1) for m in n_levels) + math.ceil(one_shot / max(n_levels))
    quick = first + _with_design(n_levels, selection)
    found = min(_FEW, len(levels))
    fewer = certified_levels(sorted(n_levels)[: whole.n_factors - found] or [2], None if max_parents is None else 1)
    few = 2 * first + math.ceil(scale_needed(fewer, shares.selection, certificate) ** 2 * unit)
    worst = _worst_case(n_levels, levels, first, shares.selection, certificate, unit)
    look = solver.start().look
    if look is not None:
        quick = _with_design(n_levels, math.ceil(look.n_runs))
        few = math.ceil(quick + scale_needed((max(levels),), look.selection, certificate, look.reach) ** 2 * unit)
        worst = _worst_case(n_levels, levels, quick, look.selection, certificate, unit, look.reach)
    return Plan(
        tolerance=tolerance,
        failure_prob=failure_prob,
        noise_sd=noise_sd,
        n_factors=whole.n_factors,
        full_factorial=whole.n_assignments,
        one_shot_runs=one_shot,
        worst_case_runs=worst,
        runs_if_nothing_matters=quick,
        runs_if_few_matter=min(few, quick),
        modl_runs=Modl(problem, max_parents=max_parents).most_runs,
        one_at_a_time_runs=one_at_a_time,
        trade_off=tuple(TradeOff(tolerance * f, math.ceil(scale**2 * unit / f**2)) for f in (0.5, 0.7, 1.0, 1.4, 2.0)),
        **_limits(levels, tolerance, failure_prob, noise_sd, min_effect, one_shot),
    )


def _limits(
    levels: tuple[int, ...],
    tolerance: float,
    failure_prob: float,
    noise_sd: float,
    min_effect: float | None,
    one_shot: int,
) -> dict[str, Any]:
    """The fields of a plan about what is known to be necessary, for methods that are told the noise."""
    known = (levels, tolerance, failure_prob, noise_sd)
    no_effects = null_bound(*known, min_effect or 0.0)
    worst_case = max(worst_case_bound(*known, min_effect or 0.0), no_effects)
    necessary = necessary_runs(*known) if len(levels) <= _MOST_LEVELS_FOR_LIMIT else None
    return {
        "lower_bound": math.floor(worst_case),  # rounded down, because these two bound means
        "null_bound": math.floor(no_effects),
        "necessary_runs": necessary,
        "over_lower_bound": one_shot / worst_case if worst_case > 0 else None,
        "over_necessary": one_shot / necessary if necessary else None,
    }


def _cost_of_unknown_noise(problem: Problem, max_parents: int | None, budget: int | None) -> tuple[float, float]:
    """How many times larger than it is the noise is taken for, about, and the failure probability spent on bounding it.

    The first block gives an upper bound of the noise, and everything after is sized by that bound.
    """
    share = error_shares(problem.failure_prob, estimate_noise=True, one_shot=False).noise
    first = TwoStage(problem, max_parents=max_parents, budget=budget).first_screening()
    assert first is not None  # a noise that is not known is always screened for
    dof = first - sum(m - 1 for m in problem.space.n_levels) - 1
    return noise_upper_bound(float(dof), dof, share / 2), share


def _inflation(n_levels: Sequence[int], n_runs: int) -> float:
    """What a design of so many runs loses to an ideal one."""
    if sum(m - 1 for m in n_levels) > _MOST_PARAMETERS or n_runs > _MOST_DESIGNED:
        return _TYPICAL_INFLATION
    return largest_design(tuple(n_levels), n_runs, 0).inflation


def _worst_case(
    n_levels: Sequence[int],
    levels: tuple[int, ...],
    first: int,
    failure_prob: float,
    certificate: str,
    unit: float,
    reach: float = 0.0,
) -> int:
    """The longest screening that the solver allows itself, then a selection over all levels.

    Designs over fewer levels are smaller but can be less even, so the selection gets a margin.
    """
    screening = max(cheap_scale(levels, failure_prob, certificate) ** 2 * unit, first)
    selection = _with_design(n_levels, math.ceil(scale_needed(levels, failure_prob, certificate, reach) ** 2 * unit))
    return math.ceil(screening + 1.15 * selection + sum(n_levels))


def _with_design(n_levels: Sequence[int], runs_if_ideal: int) -> int:
    """Real runs that are worth so many ideal ones: the design is made where that is quick."""
    if sum(m - 1 for m in n_levels) > _MOST_PARAMETERS or runs_if_ideal > _MOST_DESIGNED:
        return math.ceil(_TYPICAL_INFLATION * runs_if_ideal)
    return certified_design(tuple(n_levels), float(runs_if_ideal), 0).n_runs
