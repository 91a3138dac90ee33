"""What all runs of a pooled study certify, and how many more it takes   (docs/theory/pooled.md)."""

import math
from dataclasses import dataclass

from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.pooled.state import PooledState
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.certificates.sums import stakes_bound
from levers.core.model.choices import Choices
from levers.core.model.evidence import Evidence, level_mask

Stakes = list[tuple[int, float]]
"""What may still be lost: for each factor its levels in play, and the standard error of their pooled means."""
Elsewhere = tuple[tuple[int, float], ...]
"""Stakes of choices that are made on other runs, and count towards the same tolerance."""


_VERY_MANY = 1e12  # runs after which nothing is left to lose here


@dataclass(frozen=True)
class PooledCertificate:
    """The certificate of the leaders of all runs, of which `max_parents` factors can lose something.

    `elsewhere` is what other runs may lose, and `unequal` what standard errors are multiplied with because outcomes
    vary more at some levels than at others.
    """

    choices: Choices
    max_parents: int | None
    elsewhere: Elsewhere = ()
    unequal: float = 1.0

    def stakes(self, state: PooledState, evidence: Evidence, more: float = 0.0) -> Stakes:
        """What may still be lost.

        The standard error is that of the least precise difference between two of them, over sqrt(2). `more` runs,
        divided equally among the levels in play, add their information. With `max_parents` only as many factors count
        as can matter: those found, and of the others the most levels with the largest standard errors.
        """
        assert state.noise_sd is not None  # known from the start, or estimated after the first block
        in_play = level_mask(state.active, max(self.choices.n_levels))
        least = evidence.least(in_play)
        open_parameters = self.choices.n_open_parameters(state.open_factors, state.active)
        lost = 1.0 + 0.5 * open_parameters / (state.n_runs + more + 1)
        wider = self._wider(state) if state.n_runs + more < settings.CLOSELY_COUPLED * open_parameters else 1.0
        found: Stakes = []
        others: Stakes = []
        for k, m in zip(state.open_factors, state.open_sizes, strict=True):
            known = float(least[k]) + more / (2 * m * lost)
            error = self.unequal * wider * state.noise_sd / math.sqrt(2 * known) if known > 0 else math.inf
            (found if k in state.parents else others).append((m, error))
        if self.max_parents is None:
            return [*found, *others, *self.elsewhere]
        spare = max(self.max_parents - len(state.parents), 0)
        most = sorted((m for m, _ in others), reverse=True)[:spare]
        widest = sorted((error for _, error in others), reverse=True)[:spare]
        return [*found, *zip(most, widest, strict=True), *self.elsewhere]

    def _wider(self, state: PooledState) -> float:
        """What standard errors are multiplied with where so few runs couple factors closely   (docs/theory/pooled.md).

        1 + 0.1 (p - 1) for a coupling p above 3; below, factors are independent enough.
        """
        coupling = self.choices.coupling(state.fit, state.open_factors)
        return 1.0 if coupling <= settings.LOOSE_COUPLING else 1.0 + settings.COUPLING_COST * (coupling - 1.0)

    def certified(self, state: PooledState, evidence: Evidence, risk: float) -> float | None:
        """The tolerance that all runs certify now: by the stakes, or by what the leaders can lose at most."""
        if state.noise_sd is None:
            return None
        stakes = self.stakes(state, evidence)
        upper = math.inf if state.upper_loss is None else state.upper_loss + self.lost_elsewhere(risk)
        if all(math.isfinite(error) for _, error in stakes):
            upper = min(upper, stakes_tolerance(stakes, risk))
        return upper if math.isfinite(upper) else None

    def lost_elsewhere(self, risk: float) -> float:
        """What choices on other runs lose at most, by their own certificate."""
        if any(not math.isfinite(error) for _, error in self.elsewhere):
            return math.inf
        return stakes_tolerance(self.elsewhere, risk)

    def runs_needed(
        self, state: PooledState, evidence: Evidence, tolerance: float, risk: float, following: float
    ) -> float:
        """Runs still needed if nothing more is dropped: 0 when what is in play is certified now, infinite where what
        other runs may lose leaves no room.

        A rough count comes first, from the usual scale of a certificate; the certificate itself is computed only when
        that says that the end is near: within two rounds of `following` runs.
        """
        stakes = self.stakes(state, evidence)
        rough = self.rough_runs(state, stakes, tolerance, risk)
        far = rough > 2 * following and not self.elsewhere  # the usual scale knows nothing of other runs
        if not all(math.isfinite(error) for _, error in stakes) or far:
            return max(rough, 2 * following)
        if stakes_bound(stakes, tolerance) <= risk:
            return 0.0
        if self.elsewhere and stakes_bound(self.stakes(state, evidence, _VERY_MANY), tolerance) > risk:
            return math.inf
        return self._secant(state, evidence, max(rough, 0.02 * state.n_runs), tolerance, risk)

    def _secant(self, state: PooledState, evidence: Evidence, guess: float, tolerance: float, risk: float) -> float:
        """The least number of runs whose certificate was computed and accepted, nearly."""

        def excess(more: float) -> float:
            return math.log(max(stakes_bound(self.stakes(state, evidence, more), tolerance), 1e-300) / risk)

        low, low_excess = 0.0, excess(0.0)
        high, high_excess = guess, excess(guess)
        while high_excess > 0:
            slope = max((low_excess - high_excess) / (high - low), 1e-12)
            low, low_excess = high, high_excess
            high = min(max(high + 1.1 * high_excess / slope, 1.05 * high), 4 * high + settings.LEAST_BLOCK)
            high_excess = excess(high)
        for _ in range(6):
            if high_excess > -settings.CLOSE_ENOUGH or high - low <= 1:
                break
            middle = low + (high - low) * min(max(low_excess / (low_excess - high_excess), 0.1), 0.9)
            middle += 0.002 * (state.n_runs + middle)
            if middle >= high:
                break
            found = excess(middle)
            if found <= 0:
                high, high_excess = middle, found
            else:
                low, low_excess = middle, found
        return high

    def rough_runs(self, state: PooledState, stakes: Stakes, tolerance: float, risk: float) -> float:
        """The same roughly: runs of an ideal design by the usual scale, less what the stakes are worth on average."""
        assert state.noise_sd is not None  # see stakes
        levels = tuple(sorted(m for m, _ in stakes))
        needed = (decisions.cheap_scale(levels, risk, "slippage") * state.noise_sd / tolerance) ** 2
        worth = sum(m * (state.noise_sd / error) ** 2 for m, error in stakes) / len(stakes)
        return needed - worth
