"""The sample-complexity theorem of MODL: its bound, the sum over phases that its proof bounds, and a bound that holds.

Gaps are Delta_k^i = max_j theta_k^j - theta_k^i, a row for each factor. How the paper is read where it contradicts
itself is in docs/decisions/0029.
"""

import math
from collections.abc import Sequence

from levers.core.certificates.sample_size import Schedule, make_schedule, phase_runs
from levers.core.validation import check_choice, check_count, check_number, check_positive, check_probability
from levers.errors import InvalidSettingError

Gaps = Sequence[Sequence[float]]
SURVIVALS = {"proof": 1.0, "noiseless": 2.0, "certain": 4.0}
"""A level takes part in phase l while its gap is below this many widths gamma(l); all take part in the first phase.

`proof` is the indicator Delta <= gamma(l) in the paper's proof. A level that is dropped at the end of phase l was run
in it, and gamma(l - 1) = 2 gamma(l): `noiseless` drops exactly where Delta >= gamma, which is where the means lie, and
`certain` where Delta >= 2 gamma, from where on every level is gone if the confidence intervals hold.
"""


def level_gaps(effects: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """How far each level of each factor is behind the factor's best:  Delta_k^i = max_j theta_k^j - theta_k^i.

    >>> level_gaps([(0.0, 2.0), (1.0, 1.0, 0.5)])
    ((2.0, 0.0), (0.0, 0.0, 0.5))
    """
    return tuple(tuple(max(row) - value for value in row) for row in effects)


def smallest_gap(gaps: Gaps) -> float:
    """Delta_min, the least gap of a level that is behind; infinite if none is.

    The paper takes the minimum over all levels of the parents, which is always 0: the best level's own gap. Non-parents
    have no gaps above 0, so that all factors may be given.

    >>> smallest_gap([(2.0, 0.0), (0.0, 0.0, 0.5), (0.0, 0.0)])
    0.5
    """
    return min((gap for row in gaps for gap in row if gap > 0), default=math.inf)


def resolution(schedule: str, n_factors: int, tolerance: float) -> float:
    """What the theorem compares gaps with: eps / K, and eps for the released code, which ends with widths of eps / 2.

    Section 4.2 gives both: O(sum (Delta v eps)^-2) in its text, (Delta v eps / K)^-2 in the theorem; the appendix has
    eps / K for parents and eps for non-parents.

    >>> resolution("proof", 10, 0.5), resolution("released-code", 10, 0.5)
    (0.05, 0.5)
    """
    return tolerance if schedule == "released-code" else tolerance / n_factors


def theorem_bound(
    gaps: Gaps,
    tolerance: float,
    failure_prob: float,
    noise_sd: float,
    outcome_bound: float,
    *,
    schedule: str = "proof",
    known_parents: bool = False,
    log_base: float = 2.0,
) -> float:
    """The bound on MODL's mean runs as the main text states it (Theorem on the sample complexity, Section 4.2).

    H = (16 sigma^2 / 3) log(log(B K / eps) / delta) sum_k sum_i 1 / (Delta_min v Delta_k^i v r)^2

    with r of `resolution`; Delta_min is 0 unless the number of parents is told. The inner logarithm stands for the
    number of phases, so its base is 2; `log_base=math.e` is the other reading, and gives less. The appendix writes
    minima for maxima; with these the bound is infinite, since the best level of each factor has gap 0.

    >>> round(theorem_bound([(0.0, 1.0), (0.0, 0.0)], 0.5, 0.1, 1.0, 5.0, schedule="released-code"))
    261
    >>> round(theorem_bound([(0.0, 1.0), (0.0, 0.0)], 0.5, 0.1, 1.0, 5.0, schedule="released-code", known_parents=True))
    80
    """
    n_factors = _checked(gaps, tolerance, failure_prob, noise_sd, outcome_bound)
    phases = max(math.log(outcome_bound * n_factors / tolerance, log_base), 1.0)
    make_schedule(schedule, n_factors, tolerance, outcome_bound)  # an unknown name is refused
    least = max(resolution(schedule, n_factors, tolerance), smallest_gap(gaps) if known_parents else 0.0)
    if math.isinf(least):
        raise InvalidSettingError("no level is behind another, so there are no parents whose number could be told")
    total = sum(1 / max(gap, least) ** 2 for row in gaps for gap in row)
    return 16 * noise_sd**2 / 3 * math.log(phases / failure_prob) * total


def phase_sum(
    gaps: Gaps,
    plan: Schedule,
    failure_prob: float,
    noise_sd: float,
    n_enough: int | None = None,
    survival: str = "certain",
) -> int:
    """The sum that the proof bounds:  sum_l n(l),  n(l) = ceil(4 sigma^2 sum_k |S_k(l)| log(L / delta) / gamma(l)^2).

    S_k(l) are the levels that take part in phase l by the rule `survival`. MODL stops when `n_enough` factors have one
    level left (all of them if None). With `certain` no run of MODL can be longer while its confidence intervals hold.

    >>> plan = make_schedule("released-code", 2, 0.5, 5.0)
    >>> [phase_sum([(0.0, 1.0), (0.0, 0.0)], plan, 0.1, 1.0, survival=rule) for rule in SURVIVALS]
    [1008, 1024, 1087]
    >>> phase_sum([(0.0, 1.0), (0.0, 0.0)], plan, 0.1, 1.0, n_enough=1)
    335
    """
    check_choice("survival", survival, tuple(SURVIVALS))
    check_count("n_enough", len(gaps) if n_enough is None else n_enough, 1, len(gaps))
    total = 0
    for phase, width in enumerate(plan.widths):
        rows = [[gap for gap in row if phase == 0 or gap < SURVIVALS[survival] * width] for row in gaps]
        if phase and sum(len(row) == 1 for row in rows) >= (len(gaps) if n_enough is None else n_enough):
            break
        total += phase_runs(sum(map(len, rows)), width, failure_prob, noise_sd, plan.n_phases)
    return total


def corrected_bound(
    gaps: Gaps, plan: Schedule, failure_prob: float, noise_sd: float, known_parents: bool = False
) -> float:
    """A closed form that bounds `phase_sum` with `certain`, for any schedule whose widths halve.

    (16 sigma^2 / 3) log(L / delta) sum_k sum_i 1 / (gamma_last v min(gamma_first, (Delta_min v Delta_k^i) / 4))^2
    + the number of phases, for rounding up

    A level with gap Delta takes part in the first phase, and in phase l only if Delta < 2 gamma(l - 1) = 4 gamma(l).
    The smallest such width g is at least both gamma_last and Delta / 4, and the phases up to it have
    sum 1 / gamma^2 <= 4 / (3 g^2). Told their number, MODL stops at the first phase with 2 gamma <= Delta_min, whose
    width is above Delta_min / 4. The theorem has Delta for Delta / 4, and eps / K for a last width that is eps / (2 K)
    in its proof: up to 16 and 4 times fewer runs. Intervals hold with probability 1 - delta, by the paper's count; a
    mean would add delta times the runs without any elimination.

    >>> plan = make_schedule("released-code", 2, 0.5, 5.0)
    >>> round(corrected_bound([(0.0, 1.0), (0.0, 0.0)], plan, 0.1, 1.0))
    1341
    """
    least = smallest_gap(gaps) if known_parents else 0.0
    first, last = plan.widths[0], plan.widths[-1]
    total = sum(1 / max(last, min(first, max(gap, least) / 4)) ** 2 for row in gaps for gap in row)
    return 16 * noise_sd**2 / 3 * math.log(plan.n_phases / failure_prob) * total + len(plan.widths)


def _checked(gaps: Gaps, tolerance: float, failure_prob: float, noise_sd: float, outcome_bound: float) -> int:
    """The number of factors, if all is well."""
    check_positive("tolerance", tolerance)
    check_probability("failure_prob", failure_prob)
    check_positive("noise_sd", noise_sd)
    check_positive("outcome_bound", outcome_bound)
    if not gaps or any(check_number("a gap", gap) < 0 for row in gaps for gap in row):
        raise InvalidSettingError("gaps are numbers from 0 up, a row for each factor, at least one; see level_gaps")
    return len(gaps)
