"""What CFS makes of its evidence: what is ruled out, whether that is enough, and what comes next."""

from dataclasses import dataclass, replace

import numpy as np

from levers.algorithms.cfs_look import look_factors
from levers.algorithms.cfs_plan import Prospect, next_block
from levers.algorithms.cfs_settings import CfsSettings
from levers.algorithms.cfs_state import LOOK, SCREENING, SELECTION, CfsState
from levers.core.certificate import scale_needed
from levers.core.elimination import Elimination
from levers.core.screening import Standing, assess, level_mask


@dataclass(frozen=True)
class CfsDecisions(CfsSettings):
    """The decisions between blocks; each is a pure function of the settings and the state."""

    def standing(self, state: CfsState) -> Standing:
        """What the evidence says at this point, under what the user knows."""
        parents, closed = np.zeros((2, self.space.n_factors), dtype=bool)
        parents[list(state.parents)] = True
        closed[list(state.closed)] = True
        return assess(
            state.evidence.estimates,
            self.confidence(state).radii(state.evidence.information),
            level_mask(state.active, max(self.space.n_levels)),
            parents,
            closed,
            self.known(state),
        )

    def screen(self, state: CfsState) -> tuple[CfsState, Standing]:
        """Drop what the evidence rules out and write it into the ledger; and the standing, which is the same after."""
        now = self.standing(state)
        wrong = {k for k in state.closed if not now.active[k, state.leaders[k]]}
        if wrong:  # a closed factor whose level is ruled out matters after all: what is left of it is settled again
            state = replace(state, closed=tuple(k for k in state.closed if k not in wrong))
            now = self.standing(state)
        active = tuple(tuple(level for level, stays in enumerate(row) if stays) for row in now.active.tolist())
        dropped = tuple(
            Elimination(k, level, state.n_runs, float(state.evidence.estimates[k, now.leaders[k], level]))
            for k, levels in enumerate(state.active)
            for level in levels
            if level not in active[k]
        )
        screened = replace(
            state,
            active=active,
            leaders=tuple(
                # a closed factor keeps the level at which it was closed
                old if k in state.closed else int(new)
                for k, (old, new) in enumerate(zip(state.leaders, now.leaders, strict=True))
            ),
            parents=tuple(np.flatnonzero(now.parents).tolist()),
            closed=tuple(np.flatnonzero(~now.open).tolist()),
            upper_loss=now.upper_loss,
            eliminations=state.eliminations + dropped,
        )
        return screened, now

    def decide(self, state: CfsState, now: Standing) -> CfsState:
        """Stop, have the look, go on screening, or select; `now` is the state's standing."""
        assert state.upper_loss is not None  # screening has just set it
        assert state.noise_sd is not None  # see confidence
        enough = 0.0 if self.budget is not None else (1 - state.reach) * self.tolerance
        if state.upper_loss <= enough:
            return replace(state, finished=True, certified=self.screened(state))
        sizes = state.open_sizes
        if self.looks_in(state) and not state.looked and state.noise_sd > 0:
            at_stake = state.at_stake(self.max_parents)
            look = self.paying_look(look_factors(state, self.space.n_levels), at_stake, state.noise_sd)
            if look is not None:
                return replace(state, stage=LOOK, look=look, target=look.n_runs)
        following = next_block(sizes, state.n_runs)
        left = None if self.budget is None else self.budget - (state.n_runs - state.n_past)
        if left is not None and left < sum(m - 1 for m in sizes) + 2:
            return replace(state, finished=True, certified=state.upper_loss)
        prospect = self.prospect(state, now, following, left)
        if prospect.selection_pays(self.most_screening(state.noise_sd)):
            if left is not None:
                return replace(state, stage=SELECTION, target=float(left))
            risk, reach = self.selection_risk(state)
            scale = scale_needed(prospect.now.at_stake, risk, self.bound, reach)
            target = (scale * state.noise_sd / self.tolerance) ** 2
            # noise that turned out larger than any design can answer: the verdict then certifies what it reached
            target = min(target, self.most_cells / self.space.n_factors)
            return replace(state, stage=SELECTION, target=target)
        return replace(state, stage=SCREENING, target=float(following))

    def prospect(self, state: CfsState, now: Standing, following: int, left: int | None) -> Prospect:
        """What further screening could bring, the next block being of this size."""
        risk, reach = self.selection_risk(state)
        return Prospect(
            state.evidence,
            now,
            self.known(state),
            self.confidence(state),
            state.n_runs,
            following,
            risk,
            self.bound,
            self.problem.tolerance,
            left,
            reach,
        )

    def screened(self, state: CfsState) -> float:
        """The tolerance that the evidence certifies by itself: what the leaders may lose and what the look may have."""
        assert state.upper_loss is not None  # set by the first block
        return state.upper_loss + (state.reach * self.tolerance if state.reach else 0.0)

    def single(self, state: CfsState) -> bool:
        """Whether only one factor can lose anything, so that factors need not be independent of each other."""
        return self.max_parents is not None and len(state.at_stake(self.max_parents)) == 1
