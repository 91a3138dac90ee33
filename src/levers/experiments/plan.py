"""How many runs a study will take, or what a number of runs will do, before the first one is made."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from levers.algorithms.base import Problem
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.decisions import cheap_scale, error_shares, first_block
from levers.algorithms.cfs.pooled.one_design import certified_by_design
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import CERTIFY, NOISES
from levers.algorithms.cfs.solver import Cfs
from levers.algorithms.modl import Modl
from levers.core.certificates.certificate import CERTIFICATES, certified_levels, scale_needed
from levers.core.certificates.limits import necessary_runs, null_bound, worst_case_bound
from levers.core.cost import check_cost, plan_cost
from levers.core.designs.build import certified_design, largest_design
from levers.core.merging import Merging, check_max_parents, forbidden_combinations, merged_groups
from levers.core.model.choices import Choices, Parts
from levers.core.model.evidence import noise_upper_bound
from levers.core.outcome_scale import LINEAR, SCALES, OutcomeScale
from levers.core.space import Level, Space
from levers.core.validation import check_choice, check_count, check_question, check_scale
from levers.errors import InvalidSettingError
from levers.experiments.typical_loss import MOST_WORK, Typical, typical_studies
from levers.studies.settings import GOALS, PROOFS
from levers.studies.space_text import tolerance_amount

NOISE_SD = 1.0
"""What plans for a budget are made with when nothing is said about the noise."""
LOG_NOISE_SD = 0.1
"""The same on a log scale: about 10 %."""
GUESSES = (0.5, 1.0, 2.0, 4.0)
"""Noise in tolerances, to plan with where nothing is known about it."""
_FEW = 3
_TYPICAL_INFLATION = 1.1  # of designs too large to be made just for planning
_MOST_PARAMETERS = 300
_MOST_DESIGNED = 100_000
_MOST_RUNS = 1e15
_MOST_LEVELS_FOR_LIMIT = 60  # factors up to which the exact fixed-size limit is computed
_MOST_CELLS = 10**18  # a plan may be of any length
_UNLUCKY = 2.3
"""Standard errors by which the estimate of an unknown noise is taken to be high, in the worst case."""
_TRADED = (0.5, 0.7, 1.0, 1.4, 2.0)  # tolerances of the trade-off, in that of the plan


@dataclass(frozen=True)
class TradeOff:
    """A tolerance and the runs of a single design that certifies it."""

    tolerance: float
    runs: int


@dataclass(frozen=True)
class Budget:
    """So many runs: the tolerance that they certify, and what the setting recommended typically loses.

    `tolerance` is what they certify if they aim for certainty and nothing can be ruled out; None where so few runs
    certify nothing. `loss` is the mean true loss over `n_worlds` simulated studies that aim for the best setting, as
    studies with a budget do, and `loss_error` its standard error; `typical_tolerance` is the median of what these
    certify. All three are None where simulating takes too long.
    """

    runs: int
    tolerance: float | None
    loss: float | None
    loss_error: float | None
    n_worlds: int
    typical_tolerance: float | None = None


@dataclass(frozen=True)
class Plan:
    """Runs that a study needs, by several counts. All are for the same tolerance and failure probability.

    `one_shot_runs`: a single ideal design that certifies everything. `worst_case_runs`: the most that the adaptive
    solver takes, about. `runs_if_nothing_matters`, `runs_if_few_matter`: about what easy cases take. `modl_runs`: the
    paper's method when nothing can be eliminated. `one_at_a_time_runs`: the same precision, one factor moved at a time.
    `lower_bound`: mean runs that any method needs on its worst effects. `null_bound`: the same where no factor matters.
    `necessary_runs`: what the balanced rule needs at least (None where there are too many factors to compute it). Where
    the noise is not known (`noise_known`), `noise_sd` is what it is expected to turn out as, and the limits are those
    of methods that know it.

    With a `budget` the study takes that many runs, whatever matters, and `budgets` says what they do, beside half and
    twice as many: what they certify, and what they typically lose where effects have the standard deviation
    `effect_sd`. `tolerance` is then what the budget certifies. It is None where nothing can be certified, which takes
    `least_certified` runs: one more than there are parameters, and another where the noise is not known. Then
    `modl_runs` and the limits are left out too. `block_size` is how many runs are made together, in a day for example;
    `days` counts by it. With the `scale` "log" tolerances and losses are shares of the outcome, and noise and
    `effect_sd` are those of its logarithm.
    """

    tolerance: float | None
    failure_prob: float
    noise_sd: float
    n_factors: int
    full_factorial: int
    one_shot_runs: int
    worst_case_runs: int
    runs_if_nothing_matters: int
    runs_if_few_matter: int
    modl_runs: int | None
    one_at_a_time_runs: int
    lower_bound: int | None
    null_bound: int | None
    necessary_runs: int | None
    over_lower_bound: float | None
    over_necessary: float | None
    trade_off: tuple[TradeOff, ...]
    noise_known: bool = True
    budget: int | None = None
    budgets: tuple[Budget, ...] = ()
    effect_sd: float | None = None
    least_certified: int | None = None
    block_size: int | None = None
    scale: str = LINEAR

    def _repr_html_(self) -> str:
        from levers.extensions import html_of

        return html_of(self)

    def days(self, n_runs: int) -> int | None:
        """Days that so many runs take, or sheets that they fill; None where nobody said how many are made together.

        >>> plan([3] * 4, tolerance=0.5, block_size=8).days(20)
        3
        """
        return None if self.block_size is None else -(-n_runs // self.block_size)


def plan(
    space: Space | Mapping[str, Sequence[Level]] | Sequence[int],
    *,
    tolerance: float | str | None = None,
    failure_prob: float = 0.1,
    noise_sd: float | None = None,
    expected_noise: float | None = None,
    max_parents: int | None = None,
    min_effect: float | None = None,
    budget: int | None = None,
    block_size: int | None = None,
    effect_sd: float | None = None,
    baseline_outcome: float | None = None,
    certificate: str | None = None,
    noise: str | None = None,
    forbidden: Iterable[Mapping[str, Level]] = (),
    merged: Iterable[Sequence[str]] = (),
    goal: str = GOALS[0],
    scale: str = LINEAR,
) -> Plan:
    """Plan a study: how many runs for a tolerance, or what a `budget` of runs certifies and typically achieves.

    The space may also be given as a list of level counts. Without `noise_sd` the study has to learn the noise, and the
    plan is for one that turns out as `expected_noise`: by default as large as the tolerance, or 1 with a budget, so
    that all is in units of the noise. What a budget achieves is simulated on worlds in which `max_parents` factors
    matter, or half of them, with effects of standard deviation `effect_sd`, by default that of the noise. `certificate`
    and `noise` are those of `create_study`: a complete proof, and noise of any shape, take more runs. With a
    `block_size`, how many runs are made in a day, the plan counts `days` too. `forbidden` and `merged` are those of
    `create_study`: combinations that cannot be run, and levers studied as one. With `scale="log"` tolerances, losses
    and `min_effect` are shares of the outcome, which depend a little on the `goal`; noise and `effect_sd` are those of
    the logarithm.

    >>> abs(plan([4] * 10, tolerance=0.5, noise_sd=1.0).one_shot_runs / 1114 - 1) < 0.03
    True
    >>> found = plan([3] * 4, budget=24)
    >>> [(row.runs, row.tolerance is not None, row.loss < 1.5) for row in found.budgets]
    [(12, True, True), (24, True, True), (48, True, True)]
    """
    whole = Space.sized(list(space)) if isinstance(space, Sequence) else Space.of(space)
    within = tolerance_amount(tolerance, baseline_outcome, scale)
    bound = _bound(noise or NOISES[0], certificate or PROOFS[0])
    given = (within, failure_prob, noise_sd, expected_noise, max_parents, min_effect, budget, effect_sd, bound)
    question = _Question(whole, *given, block_size, goal, scale)
    groups = merged_groups(whole, merged)
    together = Merging.of(whole, forbidden_combinations(whole, forbidden), groups)
    if not together.is_merged:
        return question.on_scale()
    more = {one.name: getattr(question, one.name) for one in fields(question) if one.name != "space"}
    return merged_plan(together.inner.n_levels, whole.n_levels, together.parts(groups), **more)


def _bound(noise: str, certificate: str) -> str:
    """Which certificate a study of such noise uses: for noise of any shape there is one, and it is proven.

    >>> _bound("gaussian", "proven"), _bound("subgaussian", "slippage")
    ('proven', 'subgaussian')
    """
    check_choice("noise", noise, NOISES)
    check_choice("certificate", certificate, PROOFS)
    return CERTIFICATES[2] if noise == NOISES[1] else certificate


def merged_plan(merged: Sequence[int], apart: Sequence[int], parts: Parts = (), **given: Any) -> Plan:
    """The plan of a space in which some factors are chosen together, from its level counts with and without that.

    `parts` says what the levels are made of of those that only forbidden combinations tie together. Where there are no
    others, the plan is that of the space without them, times what they cost a design. Otherwise fewer factors can lose
    less in all, but what has to be told apart never saves runs: of each count of a study's runs, and of what a budget
    certifies and loses, the larger one is taken.

    >>> merged_plan([15, 3], [4, 4, 3], tolerance=0.5).worst_case_runs >= plan([4, 4, 3], tolerance=0.5).worst_case_runs
    True
    """
    if given.get("max_parents") is not None:
        check_max_parents(given["max_parents"], len(apart), len(merged))
    choices, small = Choices(tuple(merged), parts).determined, sum(apart) - len(apart) <= _MOST_PARAMETERS
    only_forbidden = len(choices.sizes) == len(apart) and choices.sizes_allowed
    if small and only_forbidden and given.get("max_parents") is None:
        question = _Question(Space.sized(list(choices.sizes_allowed)), **given)
        if question.solver.pools:
            return _dearer(question.on_scale(), choices, question)
    spaces = (Space.sized(list(merged)), Space.sized(list(apart)))
    one, other = (_Question(space, **given).on_scale(MOST_WORK / 2) for space in spaces)
    counts = ("one_shot_runs", "worst_case_runs", "runs_if_nothing_matters", "runs_if_few_matter", "one_at_a_time_runs")
    larger: dict[str, Any] = {name: max(getattr(one, name), getattr(other, name)) for name in counts}
    pairs = zip(one.trade_off, other.trade_off, strict=True)
    larger["n_factors"] = len(apart)  # as people count them
    larger["trade_off"] = tuple(TradeOff(a.tolerance, max(a.runs, b.runs)) for a, b in pairs)
    if given.get("budget") is not None:
        larger["budgets"] = budgets = tuple(map(_larger_budget, one.budgets, other.budgets))
        larger["tolerance"] = budgets[-2].tolerance  # half, the budget, twice; a budget of 2 or 3 has no half
    return replace(one, **larger)


def _dearer(free: Plan, choices: Choices, question: "_Question") -> Plan:
    """A plan times what the forbidden combinations cost: as one design of as many runs certifies less with them."""
    tied = question.tied(choices)
    cost = tied.cost_of_ties

    def runs(n: int) -> int:
        return math.ceil(n * cost)

    counts = ("one_shot_runs", "worst_case_runs", "runs_if_nothing_matters", "runs_if_few_matter", "one_at_a_time_runs")
    dearer: dict[str, Any] = {"full_factorial": math.prod(choices.n_levels)}
    if free.budget is None:
        dearer |= {name: runs(getattr(free, name)) for name in counts}
        outlook = tied.outlook(tied.start(), 0)
        if outlook.likely is not None and outlook.worst_case is not None:  # what the study begins with
            first = tied.first_block
            dearer |= {
                "runs_if_nothing_matters": first + outlook.likely,
                "worst_case_runs": first + outlook.worst_case,
            }
        dearer["trade_off"] = tuple(TradeOff(one.tolerance, runs(one.runs)) for one in free.trade_off)
        for over in ("over_lower_bound", "over_necessary"):
            if (times := getattr(free, over)) is not None:
                dearer[over] = times * cost
    else:
        budgets = tuple(
            replace(
                one,
                tolerance=None if one.tolerance is None else one.tolerance * math.sqrt(cost),
                typical_tolerance=None if one.typical_tolerance is None else one.typical_tolerance * math.sqrt(cost),
            )
            for one in free.budgets
        )
        dearer |= {"budgets": budgets, "tolerance": next(one.tolerance for one in budgets if one.runs == free.budget)}
    return replace(free, **dearer)


def _larger_budget(one: Budget, other: Budget) -> Budget:
    certified = None if one.tolerance is None or other.tolerance is None else max(one.tolerance, other.tolerance)
    simulated = one if other.loss is None or (one.loss is not None and one.loss >= other.loss) else other
    return replace(simulated, tolerance=certified)


@dataclass(frozen=True)
class _Question:
    """What a plan is asked for."""

    space: Space
    tolerance: float | None = None
    failure_prob: float = 0.1
    noise_sd: float | None = None
    expected_noise: float | None = None
    max_parents: int | None = None
    min_effect: float | None = None
    budget: int | None = None
    effect_sd: float | None = None
    certificate: str = CERTIFICATES[0]
    block_size: int | None = None
    goal: str = GOALS[0]
    scale: str = LINEAR

    def on_scale(self, most_work: float = MOST_WORK) -> Plan:
        """The plan as people read it: worked out with what a solver would be told, and put on the outcome's scale."""
        check_choice("goal", self.goal, GOALS)
        check_choice("scale", self.scale, SCALES)
        scale = OutcomeScale(self.scale, 1.0 if self.goal == GOALS[0] else -1.0)
        if not scale.is_log:
            return self.plan(most_work)
        inner: dict[str, float] = {}
        for name in ("tolerance", "min_effect"):
            if (amount := getattr(self, name)) is not None:
                scale.check_amount(name, amount)
                inner[name] = scale.difference(amount)
        if (self.tolerance, self.noise_sd, self.expected_noise) == (None, None, None):
            inner["expected_noise"] = LOG_NOISE_SD
        found = replace(self, **inner).plan(most_work)  # type: ignore[arg-type]
        return replace(
            found,
            tolerance=scale.loss(found.tolerance),
            trade_off=tuple(replace(one, tolerance=scale.loss(one.tolerance)) for one in found.trade_off),
            budgets=tuple(
                replace(
                    one,
                    tolerance=scale.loss(one.tolerance),
                    loss=scale.loss(one.loss),
                    loss_error=scale.loss(one.loss_error),
                    typical_tolerance=scale.loss(one.typical_tolerance),
                )
                for one in found.budgets
            ),
            scale=scale.name,
        )

    def __post_init__(self) -> None:
        check_question(self.tolerance, self.budget)
        for name in ("tolerance", "noise_sd", "expected_noise", "min_effect", "effect_sd"):
            value = getattr(self, name)
            if value is not None:
                check_scale(name, value)
        if self.expected_noise is not None and self.noise_sd is not None:
            raise InvalidSettingError("give the noise or what to expect of it, and not both", field="expected_noise")
        if self.max_parents is not None:
            check_count("max_parents", self.max_parents, 1, self.space.n_factors)
        if self.block_size is not None:
            check_count("block_size", self.block_size)
        check_cost(self.n_levels, plan_cost(self.n_levels, proven=self.certificate == CERTIFICATES[1]))

    @property
    def noise_known(self) -> bool:
        """Whether a study of this kind is told the noise."""
        return self.noise_sd is not None

    @property
    def noise(self) -> float:
        """The noise, or what it is expected to turn out as."""
        return self.noise_sd or self.expected_noise or self.tolerance or NOISE_SD

    @property
    def n_levels(self) -> tuple[int, ...]:
        """How many levels each factor has."""
        return self.space.n_levels

    @property
    def n_parameters(self) -> int:
        """Contrasts to estimate."""
        return sum(m - 1 for m in self.n_levels)

    @property
    def levels(self) -> tuple[int, ...]:
        """The level counts of factors that can lose anything."""
        return certified_levels(self.n_levels, self.max_parents)

    @property
    def is_subgaussian(self) -> bool:
        """Whether the noise may have any shape."""
        return self.certificate == CERTIFICATES[2]

    @cached_property
    def solver(self) -> Cfs:
        """What would run the study."""
        return Cfs(
            Problem(self.space, self.tolerance, self.failure_prob, self.noise if self.noise_known else None),
            certificate=CERTIFICATES[0] if self.is_subgaussian else self.certificate,
            noise=NOISES[1] if self.is_subgaussian else NOISES[0],
            max_parents=self.max_parents,
            min_effect=self.min_effect,
            budget=self.budget,
            most_cells=_MOST_CELLS,
        )

    def tied(self, choices: Choices) -> Pooled:
        """The same with forbidden combinations."""
        scale = OutcomeScale(self.scale, 1.0 if self.goal == GOALS[0] else -1.0)
        tolerance = None if self.tolerance is None else scale.difference(self.tolerance)
        noise_sd = self.noise if self.noise_known else None
        problem = Problem(Space.sized(list(choices.n_levels)), tolerance, self.failure_prob, noise_sd)
        return Pooled(problem, budget=self.budget, most_cells=_MOST_CELLS, parts=choices.parts)

    @cached_property
    def reckoned(self) -> tuple[float, float]:
        """What lengths take the noise for, and the failure probability that is left for the answer.

        Pooled studies learn an unknown noise as they go, see `_noise_margin`. Studies in two stages bound it after the
        first block, and everything after is sized by that bound.
        """
        if self.noise_known or self.solver.pools or self.solver.is_sparse:
            return self.noise, self.failure_prob
        share = error_shares(self.failure_prob, estimate_noise=True, one_shot=False).noise
        first = self.solver.two_stage.first_screening()
        assert first is not None  # a noise that is not known is always screened for
        dof = first - self.n_parameters - 1
        return noise_upper_bound(float(dof), dof, share / 2) * self.noise, self.failure_prob - share

    def _noise_margin(self, n_runs: float) -> float:
        """How many times longer a pooled study is because its noise is estimated: exp(5 / dof), as in the solver."""
        if self.noise_known or not self.solver.pools:
            return 1.0
        return math.exp(settings.NOISE_MARGIN / max(n_runs - self.n_parameters - 1, 1))

    def limits(self, tolerance: float, n_runs: int) -> dict[str, Any]:
        """The fields of a plan about what is known to be necessary, for methods that are told the noise."""
        known = (self.levels, tolerance, self.failure_prob, self.noise)
        no_effects = null_bound(*known, self.min_effect or 0.0)
        worst_case = max(worst_case_bound(*known, self.min_effect or 0.0), no_effects)
        necessary = necessary_runs(*known) if len(self.levels) <= _MOST_LEVELS_FOR_LIMIT else None
        return {
            "lower_bound": math.floor(worst_case),  # rounded down, because these two bound means
            "null_bound": math.floor(no_effects),
            "necessary_runs": necessary,
            "over_lower_bound": n_runs / worst_case if worst_case > 0 else None,
            "over_necessary": n_runs / necessary if necessary else None,
        }

    def modl_runs(self, tolerance: float) -> int:
        """Runs of the paper's method when nothing can be eliminated."""
        problem = Problem(self.space, tolerance, self.failure_prob, self.noise)
        return Modl(problem, max_parents=self.max_parents).most_runs

    def one_at_a_time(self, n_runs: int) -> int:
        """Each level as often as in a balanced design, with the other factors fixed, sharing one baseline."""
        return sum(math.ceil(n_runs / m) * (m - 1) for m in self.n_levels) + math.ceil(n_runs / max(self.n_levels))

    # For a tolerance

    def plan(self, most_work: float = MOST_WORK) -> Plan:
        """The plan. Simulated studies take about `most_work` milliseconds, where there are any."""
        if self.budget is not None:
            return self._of_budget(self.budget, most_work)
        assert self.tolerance is not None  # one of the two is given
        noise_sd, failure_prob = self.reckoned
        scale = scale_needed(self.levels, failure_prob, self.certificate)
        unit = (noise_sd / self.tolerance) * (noise_sd / self.tolerance)
        if not scale**2 * unit < _MOST_RUNS:
            raise InvalidSettingError(
                f"a tolerance of {self.tolerance:g} with noise of {self.noise:g} takes more than "
                f"{_MOST_RUNS:.0e} runs; raise it",
                field="tolerance",
            )
        needed = scale**2 * unit
        one_shot = self._at_once(needed)
        if self.solver.is_sparse:
            lengths = self._sparse_lengths()
        else:
            lengths = self._pooled_lengths(unit) if self.solver.pools else self._two_stage_lengths(unit)
        margin = self._noise_margin(max(one_shot, lengths["runs_if_nothing_matters"]))
        one_shot = self._at_once(needed, margin)
        return Plan(
            tolerance=self.tolerance,
            failure_prob=self.failure_prob,
            noise_sd=self.noise,
            n_factors=self.space.n_factors,
            full_factorial=self.space.n_assignments,
            one_shot_runs=one_shot,
            **lengths,
            modl_runs=self.modl_runs(self.tolerance),
            one_at_a_time_runs=self.one_at_a_time(one_shot),
            trade_off=tuple(
                TradeOff(self.tolerance * f, self._at_once(scale**2 * unit / f**2, margin)) for f in _TRADED
            ),
            **self.limits(self.tolerance, one_shot),
            noise_known=self.noise_known,
            block_size=self.block_size,
        )

    def _at_once(self, needed: float, margin: float = 1.0) -> int:
        """Runs of one design that is to have so many: one a parameter at least, and more where the noise is learned."""
        return math.ceil(margin * max(math.ceil(needed), self.n_parameters + 1))

    def _fewer(self) -> tuple[int, ...]:
        """The level counts that can still lose anything when a few factors are found to matter and are settled."""
        found = min(_FEW, len(self.levels))
        rest = sorted(self.n_levels)[: self.space.n_factors - found]
        return certified_levels(rest or [2], None if self.max_parents is None else max(self.max_parents - found, 1))

    def _pooled_lengths(self, unit: float) -> dict[str, Any]:
        """About what a study takes that chooses by all its runs; checked on simulated studies.

        While nothing is dropped it is one design of everything, and about a run for each parameter is lost because
        blocks are not quite orthogonal. In the worst case twice that is lost, a twentieth of the length on top, and an
        unknown noise is estimated too high. Where the noise is known these are the numbers that a study begins with.
        """
        solver = self.solver.pooled
        first, risk = solver.first_block, solver.shares.selection

        def length(levels: tuple[int, ...], share: float, per_parameter: float) -> int:
            runs = max(share * scale_needed(levels, risk) ** 2 * unit + per_parameter * self.n_parameters, float(first))
            return math.ceil(runs * self._noise_margin(runs)) if runs > first else first

        outlook = solver.outlook(solver.start(), 0)
        if self.noise_known and outlook.likely is not None and outlook.worst_case is not None:
            nothing, worst = first + outlook.likely, first + outlook.worst_case
        else:
            nothing = length(self.levels, 1.0, settings.PARAMETER_COST)
            worst = length(self.levels, settings.WORST_SHARE, settings.WORST_PARAMETER_COST) + settings.LEAST_BLOCK
            worst = math.ceil(worst * (1 + _UNLUCKY * math.sqrt(2 / max(nothing - self.n_parameters - 1, 1))))
        return {
            "worst_case_runs": worst,
            "runs_if_nothing_matters": nothing,
            "runs_if_few_matter": min(length(self._fewer(), 1.0, settings.PARAMETER_COST), nothing),
        }

    def _sparse_lengths(self) -> dict[str, Any]:
        """The same of a study that looks for few parents among very many factors, in fewer runs than parameters."""
        solver = self.solver.sparse
        nothing, worst = solver.runs_of_all(self.noise)
        fewer = replace(solver, max_parents=max(solver.max_parents - _FEW, 1))
        few, _ = fewer.runs_of_all(self.noise)
        return {
            "worst_case_runs": worst,
            "runs_if_nothing_matters": nothing,
            "runs_if_few_matter": (few + nothing) // 2,  # they have to be found first, which disturbs the others
        }

    def _two_stage_lengths(self, unit: float) -> dict[str, Any]:
        """The same of a study that screens first, and selects on fresh runs."""
        noise_sd, failure_prob = self.reckoned
        n_levels, levels, certificate = self.n_levels, self.levels, self.certificate
        shares = error_shares(failure_prob, estimate_noise=False, one_shot=False)
        told = self.solver.two_stage
        problem = Problem(self.space, self.tolerance, failure_prob, noise_sd)
        solver = replace(told, problem=problem)  # it knows its first block and its look
        first = solver.first_screening() or first_block(n_levels, estimate_noise=False)
        quick = first + _with_design(
            n_levels, math.ceil(scale_needed(levels, shares.selection, certificate) ** 2 * unit)
        )
        few = 2 * first + math.ceil(scale_needed(self._fewer(), shares.selection, certificate) ** 2 * unit)
        worst = _worst_case(n_levels, levels, first, shares.selection, certificate, unit)
        look = solver.start().look
        if look is not None:
            quick = _with_design(n_levels, math.ceil(look.n_runs))
            few = math.ceil(quick + scale_needed((max(levels),), look.selection, certificate, look.reach) ** 2 * unit)
            worst = _worst_case(n_levels, levels, quick, look.selection, certificate, unit, look.reach)
        return {
            "worst_case_runs": worst,
            "runs_if_nothing_matters": quick,
            "runs_if_few_matter": min(few, quick),
        }

    # For a budget

    def _of_budget(self, budget: int, most_work: float) -> Plan:
        """What so many runs do, and half and twice as many."""
        effect_sd = self.noise if self.effect_sd is None else self.effect_sd
        pools = self.solver.pools  # refuses a budget that the study would refuse
        runs = [n for n in (budget // 2, budget, 2 * budget) if n > 1]
        typical: tuple[Typical | None, ...] = (None,) * len(runs)
        if pools:
            typical = typical_studies(
                self.n_levels,
                runs,
                noise_sd=self.noise,
                effect_sd=effect_sd,
                n_parents=self.max_parents or math.ceil(self.space.n_factors / 2),
                noise_known=self.noise_known,
                max_parents=self.max_parents,
                most_work=most_work,
            )
        certified = {n: self._pooled_tolerance(n) if pools else self._two_stage_tolerance(n) for n in runs}
        rows = tuple(
            Budget(n, certified[n], None, None, 0)
            if one is None
            else Budget(n, certified[n], one.loss, one.error, one.n_worlds, one.certified)
            for n, one in zip(runs, typical, strict=True)
        )
        tolerance = certified[budget]
        limits = dict.fromkeys(("lower_bound", "null_bound", "necessary_runs", "over_lower_bound", "over_necessary"))
        return Plan(
            tolerance=tolerance,
            failure_prob=self.failure_prob,
            noise_sd=self.noise,
            n_factors=self.space.n_factors,
            full_factorial=self.space.n_assignments,
            one_shot_runs=budget,
            worst_case_runs=budget,
            runs_if_nothing_matters=budget,
            runs_if_few_matter=budget,
            modl_runs=None if tolerance is None else self.modl_runs(tolerance),
            one_at_a_time_runs=self.one_at_a_time(budget),
            trade_off=(),
            **(limits if tolerance is None else self.limits(tolerance, budget)),
            noise_known=self.noise_known,
            budget=budget,
            budgets=rows,
            effect_sd=effect_sd,
            least_certified=self._least_certified(),
            block_size=self.block_size,
        )

    def _least_certified(self) -> int:
        """The fewest runs that certify anything: they determine every contrast, and an unknown noise."""
        if not self.solver.pools:
            return first_block(self.n_levels, estimate_noise=not self.noise_known)
        return self.n_parameters + (1 if self.noise_known else 2)

    def _pooled_tolerance(self, n_runs: int) -> float | None:
        """The tolerance that one design of so many runs certifies, by the solver's own stakes; None if it cannot."""
        if n_runs < self._least_certified():
            return None
        if self._is_large(n_runs):
            solver, noise_sd = self._pooled(n_runs)
            return (
                scale_needed(self.levels, solver.shares.selection) * noise_sd * math.sqrt(_TYPICAL_INFLATION / n_runs)
            )
        solver, noise_sd = self._pooled(n_runs)
        return certified_by_design(solver.certificate, solver.start(), solver.shares.selection, n_runs, noise_sd)

    def _pooled(self, n_runs: int) -> tuple[Pooled, float]:
        """The rules of a budget that certifies, and what they would take the noise for at its end."""
        problem = Problem(self.space, None, self.failure_prob, self.noise if self.noise_known else None)
        given: dict[str, Any] = {"most_cells": _MOST_CELLS, "aim": CERTIFY}
        return Pooled(problem, self.max_parents, n_runs, **given), self.noise * math.sqrt(self._noise_margin(n_runs))

    def _two_stage_tolerance(self, n_runs: int) -> float | None:
        """The same by the certificates that need fresh runs to select on."""
        if n_runs < self._least_certified():
            return None
        noise_sd, failure_prob = self.reckoned
        inflation = _TYPICAL_INFLATION
        if not self._is_large(n_runs):
            inflation = largest_design(self.n_levels, n_runs, 0).inflation
        return scale_needed(self.levels, failure_prob, self.certificate) * noise_sd * math.sqrt(inflation / n_runs)

    def _is_large(self, n_runs: int) -> bool:
        """Whether a design takes too long to be made just for planning."""
        return self.n_parameters > _MOST_PARAMETERS or n_runs > _MOST_DESIGNED


def _worst_case(
    n_levels: Sequence[int],
    levels: tuple[int, ...],
    first: int,
    failure_prob: float,
    certificate: str,
    unit: float,
    reach: float = 0.0,
) -> int:
    """The longest screening that the solver in two stages allows itself, then a selection over all levels.

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
