"""What all runs of a pooled study certify, and how many more it takes   (docs/theory/pooled.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levers.algorithms.cfs import decisions, settings
from levers.algorithms.cfs.pooled.state import PooledState, Thinned
from levers.core.certificates.certificate import stakes_tolerance
from levers.core.certificates.sums import Stake, Tied, is_finite, separate, stakes_bound
from levers.core.certificates.thinning import LEAST_COVERED, LEAST_DONE, share_of_runs
from levers.core.model.choices import Choices
from levers.core.model.evidence import Evidence, level_mask, planned_radius
from levers.core.model.pairs import level_rows

Stakes = list[Stake | Tied]
"""What may still be lost: for each factor its levels in play, and the standard error of their pooled means."""
Elsewhere = tuple[Stake | Tied, ...]
"""Stakes of choices that are made on other runs, and count towards the same tolerance."""


_VERY_MANY = 1e12  # runs after which nothing is left to lose here


@dataclass(frozen=True)
class PooledCertificate:
    """The certificate of the leaders of all runs, of which `max_parents` factors can lose something.

    `elsewhere` is what other runs may lose, and `unequal` what standard errors are multiplied with because outcomes
    vary more at some levels than at others. `far_behind` is the probability that may be spent on leaving out levels far
    behind at the end; 0 leaves out none. It takes a larger distance where the noise is not `noise_known`. By
    the present `rules`, factors that forbidden combinations tie together are at stake by their parts and swaps of these
    (docs/theory/pooled.md, section 7), as long as any number of factors may matter.
    """

    choices: Choices
    max_parents: int | None
    elsewhere: Elsewhere = ()
    unequal: float = 1.0
    far_behind: float = 0.0
    noise_known: bool = True
    rules: int = settings.LATEST_RULES

    def stakes(self, state: PooledState, evidence: Evidence, more: float = 0.0, thins: bool = False) -> Stakes:
        """What may still be lost.

        The standard error is that of the least precise difference between two of them, over sqrt(2). `more` runs,
        divided equally among the levels in play, add their information. With `max_parents` only as many factors count
        as can matter: those found, and of the others the most levels with the largest standard errors. Where the round
        under way leaves levels out, or one of `more` runs that `thins`, standard errors are those of as many runs
        divided equally, times what leaving them out saves   (docs/theory/pooled.md, section 10).
        """
        assert state.noise_sd is not None  # known from the start, or estimated after the first block
        in_play = level_mask(state.active, max(self.choices.n_levels))
        least = evidence.least(in_play)
        open_parameters = self.choices.n_open_parameters(state.open_factors, state.active)
        lost = 1.0 + 0.5 * open_parameters / (state.n_runs + more + 1)
        wider = (
            self._wider(state) if self._n_designed(state) + more < settings.CLOSELY_COUPLED * open_parameters else 1.0
        )
        clocks = self._thinned_clocks(state, evidence)
        found: dict[int, Stake | Tied] = {}
        for k, m in zip(state.open_factors, state.open_sizes, strict=True):
            if self._splits(k) and (one := self._tied_stake(state, k, state.active[k], more / lost)) is not None:
                found[k] = one
                continue
            before, known = clocks.get(k, (float(least[k]) if thins else 0.0, float(least[k])))
            known += more / (2 * m * lost)
            saved = math.sqrt(share_of_runs(m, before / known)) if before > 0 else 1.0
            error = self.unequal * wider * saved * state.noise_sd / math.sqrt(2 * known) if known > 0 else math.inf
            found[k] = m, error
        return self._that_can_matter(found, state)

    def stakes_at_end(self, state: PooledState, evidence: Evidence) -> Stakes:
        """What may be lost by the leaders, when the end was fixed in advance and runs served the leaders alone.

        Rivals that looked bad have few runs. Those that are further behind than t standard errors are left out, with t
        the quantile of one comparison of all (Bonferroni). A factor's standard error is that of the least precise
        difference between its leader and a rival that is left, over sqrt(2): pairs of rivals can do no harm
        (docs/theory/pooled.md, section 6).
        """
        assert state.noise_sd is not None  # see stakes
        error = self.far_behind / self.choices.n_rivals
        # an estimated noise_sd is larger than the residuals' own already, so that Student's law errs on the safe side
        dof = math.inf if self.noise_known else max(state.fit.residual_dof, 1)
        radius = planned_radius(evidence.information, state.noise_sd, error, dof)
        known, ahead, most = (
            level_rows(pairs, evidence.sizes, state.leaders)
            for pairs in (evidence.information, evidence.estimates, radius)
        )
        open_parameters = self.choices.n_open_parameters(state.open_factors, state.active)
        wider = self._wider(state) if self._n_designed(state) < settings.CLOSELY_COUPLED * open_parameters else 1.0
        found: dict[int, Stake | Tied] = {}
        for k, (leader, m) in enumerate(zip(state.leaders, self.choices.n_levels, strict=True)):
            rivals = [j for j in range(m) if j != leader and ahead[k][j] < most[k][j]]
            near = [float(known[k][j]) for j in rivals]
            if near and self._splits(k):
                one = self._tied_stake(state, k, (leader, *rivals), 0.0, leader)
                if one is not None:
                    found[k] = one
                    continue
            if near:
                error = wider * state.noise_sd / math.sqrt(2 * min(near)) if min(near) > 0 else math.inf
                found[k] = len(near) + 1, error
        return self._that_can_matter(found, state)

    @property
    def takes_parts(self) -> bool:
        """Whether tied factors are at stake by their parts. With `max_parents` parts are not counted one by one."""
        parts = self.rules >= settings.PARTS_RULES and self.choices.is_tied
        return parts and self.max_parents is None

    def _splits(self, factor: int) -> bool:
        return self.takes_parts and bool(self.choices.parts[factor])

    def _tied_stake(
        self, state: PooledState, factor: int, levels: Sequence[int], more: float, leader: int | None = None
    ) -> Tied | None:
        """What a factor that is made of parts may lose; None where it is no less as a whole.

        `more` runs add information as the runs so far did. With a `leader` only differences from it count.
        """
        assert state.noise_sd is not None  # see stakes
        n_swaps = self.choices.n_swaps(factor, levels)
        pieces = self.choices.least_known(state.fit, factor, levels, leader)
        if sum(m - 1 for m, _ in pieces) + 1 >= len(levels):  # any differences between so few are possible
            return None
        if n_swaps is None or n_swaps + 1 > settings.MANY_SWAPS * len(levels):
            return None
        unit = self.unequal * self._wider_by_parts(state) * state.noise_sd / math.sqrt(2)
        places = self.choices.variances(state.fit, factor)
        apart = places[np.ix_(levels, levels)] if leader is None else places[leader][list(levels)]
        parts, now, then = [], 0.0, 0.0
        for m, known in pieces:
            if known <= 0:
                return None
            worth = min(2 * m * known / state.n_runs, 1.0)
            after = known + more * worth / (2 * m)
            parts.append((m, unit / math.sqrt(after)))
            now, then = now + 1 / known, then + 1 / after
        return Tied(tuple(parts), n_swaps, unit * math.sqrt(float(apart.max()) * then / now))

    def _that_can_matter(self, found: dict[int, Stake | Tied], state: PooledState) -> Stakes:
        """The stakes of parents found, and of as many others as can be parents: the most levels, the largest errors."""
        sure: Stakes = [stake for k, stake in found.items() if k in state.parents]
        others = [stake for k, stake in found.items() if k not in state.parents]
        if self.max_parents is None:
            return [*sure, *others, *self.elsewhere]
        whole = [stake for stake in others if not isinstance(stake, Tied)]  # all of them: see _splits
        spare = max(self.max_parents - len(state.parents), 0)
        most = sorted((m for m, _ in whole), reverse=True)[:spare]
        widest = sorted((error for _, error in whole), reverse=True)[:spare]
        return [*sure, *zip(most, widest, strict=True), *self.elsewhere]

    def _thinned_clocks(self, state: PooledState, evidence: Evidence) -> dict[int, tuple[float, float]]:
        """For factors of which levels were left out: what was known of differences before, and what would be known by
        now if the runs since had been divided equally among all levels in play.

        With u of m levels left, each of these has m / u times as many.
        """
        if not state.thinned:
            return {}
        in_play = tuple(
            tuple(level for level in levels if level in state.varied[k]) for k, levels in enumerate(state.active)
        )
        least, clocks = evidence.least(level_mask(in_play, max(self.choices.n_levels))), {}
        for one in state.thinned:
            u, m = len(in_play[one.factor]), len(state.active[one.factor])
            told_apart = u == m < one.n_levels  # the evidence ruled out the levels that were left out
            if not one.kept or u < 2 or told_apart:
                continue
            since = max(float(least[one.factor]) - one.known_kept, 0.0) * u / m
            if one.known >= LEAST_COVERED * (one.known + since):
                clocks[one.factor] = one.known, one.known + since
        return clocks

    def thinned(self, state: PooledState, evidence: Evidence, more: float) -> tuple[Thinned, ...]:
        """The factors of which a last round of so many runs leaves out levels far behind, as far as there are any.

        Two levels at least stay.
        """
        assert state.noise_sd is not None  # a study that may end knows it
        least = evidence.least(level_mask(state.active, max(self.choices.n_levels)))
        found = []
        for k, m in zip(state.open_factors, state.open_sizes, strict=True):
            known, levels = float(least[k]), state.active[k]
            if m < 3 or known < LEAST_DONE * (known + more / (2 * m)):
                continue
            behind = {level: evidence.estimate(k, state.leaders[k], level) for level in levels}
            far = settings.THIN_BEHIND * state.noise_sd / math.sqrt(2 * known)
            nearest = sorted(levels, key=lambda level: behind[level])[:2]
            kept = tuple(level for level in levels if behind[level] < far or level in nearest)
            between = [evidence.known(k, one, other) for one in kept for other in kept if one < other]
            found.append(Thinned(k, m, kept, known, min(between)))
        return tuple(found)

    def thins_still(self, state: PooledState, evidence: Evidence, more: float) -> bool:
        """Whether levels that were left out may stay so for so many more runs: it is covered up to a point only."""
        clocks = self._thinned_clocks(state, evidence)
        left_out = [one for one in state.thinned if one.kept and set(state.active[one.factor]) - set(one.kept)]
        return all(
            one.factor in clocks
            and one.known >= LEAST_COVERED * (clocks[one.factor][1] + more / (2 * len(state.active[one.factor])))
            for one in left_out
        )

    def _wider(self, state: PooledState) -> float:
        """What standard errors are multiplied with where so few runs couple factors closely   (docs/theory/pooled.md).

        1 + 0.1 (p - 1) for a coupling p above 3; below, factors are independent enough.
        """
        return self._price_of(self.choices.coupling(state.fit, state.open_factors), state)

    def _wider_by_parts(self, state: PooledState) -> float:
        """The same with parts in place of factors, where parts are at stake one by one: however many runs there are,
        because forbidden combinations couple parts for good."""
        return self._price_of(self.choices.coupling_of_parts(state.fit, state.open_factors), state)

    def _n_designed(self, state: PooledState) -> int:
        """Runs by which it is judged whether there are enough for factors to be hardly coupled.

        Imported ones are not among them, because nobody knows what they say: any number of runs at one setting say
        nothing about any level.
        """
        return state.n_runs - (state.n_past if self.rules >= settings.PARTS_RULES else 0)

    def _price_of(self, coupling: float, state: PooledState) -> float:
        """What standard errors are multiplied with; a little also below, where there are hardly more runs than
        parameters."""
        if coupling > settings.LOOSE_COUPLING:
            return 1.0 + settings.COUPLING_COST * (coupling - 1.0)
        parameters = self.choices.n_open_parameters(state.open_factors, state.active)
        hardly_more = self.rules >= settings.PARTS_RULES and self._n_designed(state) < settings.HARDLY_MORE * parameters
        return 1.0 + settings.LOOSE_COST * (coupling - 1.0) if hardly_more else 1.0

    def certified(self, state: PooledState, evidence: Evidence, risk: float) -> float | None:
        """The tolerance that all runs certify now: by the stakes, or by what the leaders can lose at most."""
        if state.noise_sd is None:
            return None
        spent = self.spent_at_end(state)
        stakes, risk = (self.stakes_at_end if spent else self.stakes)(state, evidence), risk - spent
        upper = math.inf if state.upper_loss is None else state.upper_loss + self.lost_elsewhere(risk)
        if is_finite(stakes):
            upper = min(upper, stakes_tolerance(stakes, risk))
        return upper if math.isfinite(upper) else None

    def spent_at_end(self, state: PooledState) -> float:
        """The probability spent on leaving out levels far behind: none at a moment that outcomes may have chosen."""
        return 0.0 if state.charged else self.far_behind

    def lost_elsewhere(self, risk: float) -> float:
        """What choices on other runs lose at most, by their own certificate."""
        if not is_finite(self.elsewhere):
            return math.inf
        return stakes_tolerance(self.elsewhere, risk)

    def runs_needed(
        self,
        state: PooledState,
        evidence: Evidence,
        tolerance: float,
        risk: float,
        following: float,
        thins: bool = False,
    ) -> float:
        """Runs still needed if nothing more is dropped: 0 when what is in play is certified now, infinite where what
        other runs may lose leaves no room. With `thins` they are made in one round that leaves out levels far behind.

        A rough count comes first, from the usual scale of a certificate; the certificate itself is computed only when
        that says that the end is near: within two rounds of `following` runs.
        """
        stakes = self.stakes(state, evidence)
        rough = self.rough_runs(state, stakes, tolerance, risk)
        far = rough > 2 * following and not self.elsewhere  # the usual scale knows nothing of other runs
        if not is_finite(stakes) or far:
            return max(rough, 2 * following)
        now = stakes_bound(stakes, tolerance)
        if now <= risk:
            return 0.0
        if self.elsewhere and stakes_bound(self.stakes(state, evidence, _VERY_MANY), tolerance) > risk:
            return math.inf
        return self._secant(state, evidence, max(rough, 0.02 * state.n_runs), now, tolerance, risk, thins)

    def _secant(
        self,
        state: PooledState,
        evidence: Evidence,
        guess: float,
        now: float,
        tolerance: float,
        risk: float,
        thins: bool,
    ) -> float:
        """The least number of runs whose certificate was computed and accepted, nearly; `now` is the bound of none."""

        def excess(more: float) -> float:
            return math.log(max(stakes_bound(self.stakes(state, evidence, more, thins), tolerance), 1e-300) / risk)

        low, low_excess = 0.0, math.log(max(now, 1e-300) / risk)
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
        one_by_one = separate(stakes)
        levels = tuple(sorted(m for m, _ in one_by_one))
        needed = (decisions.cheap_scale(levels, risk, "slippage") * state.noise_sd / tolerance) ** 2
        worth = sum(m * (state.noise_sd / error) ** 2 for m, error in one_by_one) / len(one_by_one)
        return needed - worth
