"""What the runs of a pooled study certify without the claim that few levers matter   (theory/pooled.md, section 11)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.pooled.certificate import PooledCertificate, Stakes
from levers.algorithms.cfs.pooled.state import PooledState
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.certificates.sums import Stake, Tied, is_finite
from levers.core.model.evidence import Evidence
from levers.core.model.pairs import Pairs


@dataclass(frozen=True)
class Unclaimed:
    """What the leaders may lose where any number of levers may matter.

    `stakes` are those of all factors with more than one level in play, also of those that the claim had closed.
    `settled` bounds what levels of the setting in place today lose that were chosen only because the claim says that
    their factors do not matter: they need not lead. `upper` bounds what all leaders lose, by evidence that holds at
    any time. Both are infinite where nothing was spent on such evidence.
    """

    stakes: Stakes
    settled: float
    upper: float

    def tolerance(self, risk: float, elsewhere: Sequence[Stake | Tied] = ()) -> float | None:
        """The tolerance certified: min(U + t(elsewhere), U_settled + t(stakes and elsewhere)); None where that is none.

        t(stakes) is the least tolerance with V_1(0) <= risk, and `elsewhere` are stakes of choices on other runs.

        >>> few, many = Unclaimed([(2, 0.1)], 0.0, math.inf), Unclaimed([(2, 0.1)] * 4, 0.0, math.inf)
        >>> many.tolerance(0.09) > few.tolerance(0.09, [(2, 0.1)]) > few.tolerance(0.09)
        True
        >>> Unclaimed([], math.inf, 0.75).tolerance(0.09), Unclaimed([], math.inf, math.inf).tolerance(0.09)
        (0.75, None)
        """
        if not is_finite(elsewhere):
            return None
        found = self.upper + (stakes_tolerance(elsewhere, risk) if math.isfinite(self.upper) else 0.0)
        if math.isfinite(self.settled) and is_finite(self.stakes):
            found = min(found, self.settled + stakes_tolerance([*self.stakes, *elsewhere], risk))
        return found if math.isfinite(found) else None


def unclaimed(
    certificate: PooledCertificate,
    state: PooledState,
    evidence: Evidence,
    radius: Pairs | None,
    baseline: tuple[int, ...] | None,
) -> Unclaimed:
    """What may be lost at a state if the claim says nothing.

    Levels are dropped by radii of which every pair is charged for, whatever is claimed, so these drops stand. A factor
    that was closed because `max_parents` others had been found is at stake again, with what the runs until then, and
    since, say of it: when it was closed depends on the drops of others, and not on its own leader. `radius` is that
    of each pair, None where all runs are one design; `baseline` is the setting that wins where nothing matters.
    """
    again = replace(state, closed=(), parents=())
    everyone = replace(certificate, max_parents=None, elsewhere=())
    most = None if radius is None else decisions.most_lost(evidence, state.leaders, radius, state.active)
    upper = math.inf if most is None else sum(most)
    settled = [k for k in again.open_factors if baseline is not None and _is_behind(state, evidence, k)]
    lost = 0.0
    if settled:
        lost = math.inf if most is None else sum(most[k] for k in settled)
    if certificate.spent_at_end(state):
        return Unclaimed(everyone.stakes_at_end(again, evidence), lost, upper)
    stakes = list(zip(again.open_factors, everyone.stakes(again, evidence), strict=True))
    return Unclaimed([stake for k, stake in stakes if k not in settled], lost, upper)


def _is_behind(state: PooledState, evidence: Evidence, factor: int) -> bool:
    """Whether another level in play is ahead of the one chosen, by more than rounding."""
    chosen = state.leaders[factor]
    for level in state.active[factor]:
        ahead, known = evidence.estimate(factor, level, chosen), evidence.known(factor, level, chosen)
        if level != chosen and ahead * math.sqrt(known) > settings.TIED * (state.noise_sd or 0.0):
            return True
    return False
