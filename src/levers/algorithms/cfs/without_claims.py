"""What a study in two stages certifies if its claims may be false   (docs/theory, section 6, "Without the claim")."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from levers.algorithms.base import BlockRecord
from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.decisions import Shares
from levers.algorithms.cfs.settings import LOOK, SELECTION
from levers.algorithms.cfs.state import CfsState
from levers.core.certificates.certificate import chernoff_scale, scale_needed, subgaussian_scale
from levers.core.certificates.look import Look
from levers.core.model.evidence import anytime_radius
from levers.core.model.level_index import all_levels


@dataclass(frozen=True)
class UnclaimedRisks:
    """The failure probability of a promise that needs no claim, in parts: for the evidence on every pair of levels, for
    the leaders of a look, and for the selection. What levels are dropped by, and a bound on the noise, keep theirs.

    >>> UnclaimedRisks.of(0.1, Shares(0.003, 0.0, 0.0, 0.097), looked=True).evidence
    0.0194
    """

    evidence: float
    look: float
    selection: float

    @classmethod
    def of(cls, failure_prob: float, shares: Shares, looked: bool) -> "UnclaimedRisks":
        """The parts, by what a study shares out before its first outcome."""
        rest = failure_prob - shares.screening - shares.noise
        stages = (1 - settings.UNCLAIMED_EVIDENCE) * rest
        look = settings.UNCLAIMED_LOOK * stages if looked else 0.0
        return cls(settings.UNCLAIMED_EVIDENCE * rest, look, stages - look)


def look_tolerance(look: Look, n_levels: Sequence[int], noise_sd: float, risk: float) -> float:
    """What the leaders of a look lose in all, at most, except with probability `risk`, whatever matters.

    With the coupling p of its design, P(L > t) <= exp(-lambda t) prod_k E[exp(p lambda L_k)]^(1/p), which is at most
    the risk a where the Chernoff bound of independent factors is at most a^p: t = u(a^p) sigma / sqrt(n). It holds for
    any gaps, and for the leader of any levels that hold the best one.

    >>> look = Look(400.0, 3.0, (), 0.04, 0.7, 1.0)
    >>> round(look_tolerance(look, (2,) * 10, 1.0, 0.1), 2), round(chernoff_scale((2,) * 10, 0.1) / 20, 2)
    (0.46, 0.46)
    """
    scale = chernoff_scale(tuple(sorted(n_levels)), risk**look.coupling, proven=True)
    return scale * noise_sd / math.sqrt(look.n_runs)


def selection_tolerance(
    sizes: Sequence[int], block: BlockRecord, noise_sd: float, risk: float, bound: str, single: bool
) -> float:
    """What the selection's leaders lose in all against the best of the levels selected among, whatever matters.

    Where it was made for `single` factors, these depend on each other, and each is certified with its part of the risk.
    """
    levels = tuple(sorted(sizes))
    scale = sum(scale_needed((m,), risk / len(levels), bound) for m in levels) if single else 0.0
    return (scale or scale_needed(levels, risk, bound)) * noise_sd * math.sqrt(block.inflation / block.n_runs)


@dataclass(frozen=True)
class UnclaimedStages:
    """The settings of a study in two stages that say what holds without its claims.

    `noise_known` says that the noise was stated, `closes` that factors may have been closed because enough others were
    found to matter, and `bound` names the certificate of a selection, made for `single` factors or not.
    """

    n_levels: tuple[int, ...]
    failure_prob: float
    shares: Shares
    bound: str
    noise_known: bool
    closes: bool
    single: bool

    def tolerance(self, state: CfsState) -> float | None:
        """The least of what the evidence says of all leaders, and what each stage may lose; None if neither is known.

        Whoever was dismissed by a look is at its leader there, and the best of the levels that it left is no worse than
        that leader: so the look, dismissals and drops together, lost no more than its leaders would lose in all. The
        selection adds what it loses against the best of the levels that are left, on fresh runs.
        """
        if state.noise_sd is None or state.rho is None:
            return None
        risks = UnclaimedRisks.of(self.failure_prob, self.shares, state.looked)
        error = risks.evidence / sum(m * (m - 1) for m in self.n_levels)
        radius = anytime_radius(state.evidence.information, state.noise_sd, error, state.rho)
        most = decisions.most_lost(state.evidence, state.leaders, radius, all_levels(self.n_levels))
        found = min(sum(most), self._by_stages(state, risks, most))
        return found if math.isfinite(found) else None

    def _by_stages(self, state: CfsState, risks: UnclaimedRisks, most: Sequence[float]) -> float:
        """The sum of what the look, closed factors and the selection may lose; infinite where one is not known."""
        assert state.noise_sd is not None  # see tolerance
        if state.kept is not None:  # what its selection was among is not known any more
            return math.inf
        lost = 0.0
        if state.looked:
            lost = self._look_lost(state, risks.look)
        closed = [k for k in state.closed if len(state.active[k]) > 1]
        if self.closes or not state.looked:
            lost += sum(most[k] for k in closed)
        block = _last_of(state, SELECTION)
        if not state.selected or block is None:
            return lost + sum(most[k] for k in state.open_factors)
        sizes, noise_sd = state.open_sizes, state.noise_sd
        return lost + selection_tolerance(sizes, block, noise_sd, risks.selection, self.bound, self.single)

    def _look_lost(self, state: CfsState, risk: float) -> float:
        block = _last_of(state, LOOK)
        if not self.noise_known or state.look is None or block is None:  # what the noise was taken for then is not kept
            return math.inf
        assert state.noise_sd is not None  # it is known
        if self.bound == "subgaussian":
            return subgaussian_scale(self.n_levels, risk) * state.noise_sd * math.sqrt(block.inflation / block.n_runs)
        return look_tolerance(state.look, self.n_levels, state.noise_sd, risk)


def _last_of(state: CfsState, stage: str) -> BlockRecord | None:
    """The last block of a stage that was run as designed."""
    found = [block for block in state.blocks if block.stage == stage and block.inflation > 0]
    return found[-1] if found else None
