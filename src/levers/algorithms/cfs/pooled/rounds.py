"""Rounds of a pooled study: their rows, in what order, and to which constants these belong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.algorithms.base import BlockRecord
from levers.algorithms.cfs import settings
from levers.algorithms.cfs.pooled.blocks import (
    allocated_block,
    baseline_counts,
    divided_block,
    ordered_block,
    placed_rows,
    tied_block,
    with_baseline,
)
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.settings import BEST, CERTIFY, PARTS_RULES, POOLED_RULES, STEADY_RULES
from levers.algorithms.cfs.state import rows_digest
from levers.core.designs.build import extending_design, largest_design
from levers.core.designs.changes import HardLevers
from levers.core.designs.days import LEAST_DAY, day_lengths, part_lengths
from levers.core.designs.design import Design
from levers.core.model.choices import Choices
from levers.core.model.moments import Moments
from levers.core.space import Codes


@dataclass(frozen=True)
class Rounds:
    """What rounds follow from: the settings of a study, of `most_runs` in all where that is known, and the probability
    of mistaking a level for one `far_behind` at the end; where that is 0, no runs serve the promise alone."""

    choices: Choices
    noise_sd: float | None
    aim: str
    block_size: int | None
    baseline: tuple[int, ...] | None
    rules: int
    most_runs: int | None
    hard: HardLevers = ()
    far_behind: float = 0.0

    def lengths(self, n_runs: int) -> tuple[int, ...]:
        """How long the parts of a round are that have constants of their own, in the order of its rows.

        They are days, or parts of a long round whose constants cost next to nothing, so that drift does little harm.
        """
        if self.block_size is not None:
            return day_lengths(n_runs, self.block_size)
        if self.rules == POOLED_RULES or self.aim == BEST:
            return (n_runs,)
        return part_lengths(n_runs, max(settings.LEAST_PART, math.ceil(settings.PART * self.choices.n_parameters)))

    @property
    def has_constants(self) -> bool:
        """Whether blocks have constants of their own.

        The rounds of a study that aims for the best setting are too short for it, but days are compared inside only.
        """
        return self.aim == CERTIFY or (self.block_size or 0) >= LEAST_DAY

    def design(self, state: PooledState, n_left: int, seed: int) -> Design:
        """The design of the current round, from its seed: always the same one. Rows are in the order of days; inside a
        day levers that are hard to change are changed seldom."""
        parts = self._parts(state)
        design = self._undivided(state, sum(n for n, _ in parts), n_left, seed)
        if sum(n for n, _ in parts) != design.n_runs:  # whole copies of an array
            parts = tuple((n, 0) for n in self.lengths(design.n_runs))
        if len(parts) > 1:
            steady = self.rules >= STEADY_RULES
            design = divided_block(design, self.choices, tuple(n for n, _ in parts), seed, steady)
        if self.baseline is not None and any(n for _, n in parts):
            design = with_baseline(design, self.choices.n_levels, state, self.baseline, parts, seed)
        if not self.hard:
            return design
        return ordered_block(design, self.choices.n_levels, state, self.hard, self.lengths(design.n_runs), seed)

    def _parts(self, state: PooledState) -> tuple[tuple[int, int], ...]:
        """For each part of the round under way, how many rows of a design it has, and how many at the baseline."""
        lengths = self.lengths(state.target)
        none = tuple((n, 0) for n in lengths)
        if self.baseline is None:
            return none
        most, every = self.most_runs, self.baseline_every
        if most is not None and most * (1 - 1 / every) < settings.RUNS_BEFORE_BASELINE * self.choices.n_parameters + 2:
            return none  # every run is needed to tell levels apart
        counts = baseline_counts(lengths, state.n_runs - state.n_past, every)
        return tuple((length - n, n) for length, n in zip(lengths, counts, strict=True))

    @property
    def baseline_every(self) -> int:
        """The setting in place today is one run in so many: one a day, unless days are very short."""
        size = self.block_size
        if size is None:
            return settings.BASELINE_EVERY
        return size * math.ceil(settings.SHORT_DAY / size)

    def _undivided(self, state: PooledState, n_runs: int, n_left: int, seed: int) -> Design:
        if self.aim == BEST and state.rho is not None:
            left = max(n_left, state.target)
            return allocated_block(self.choices, state, self.noise_sd, n_runs, left, seed, self.far_behind)
        if self.choices.is_tied:
            # a setting is found as well without, and with fewer runs than parameters better (decision 0055)
            exchanges = self.rules >= PARTS_RULES and self.aim == CERTIFY
            return tied_block(self.choices, state, n_runs, seed, exchanges)
        if state.blocks:
            return extending_design(state.varied_sizes, n_runs, seed, self.choices.n_levels, state.open_factors)
        return largest_design(state.varied_sizes, n_runs, seed, "thorough")

    def rows(self, state: PooledState, design: Design, most: int) -> Codes:
        """The design's next rows as level positions of all factors; settled factors stay at their leading level."""
        return placed_rows(design, self.choices.n_levels, state, state.n_done, state.n_done + most)

    def added(
        self,
        state: PooledState,
        rows: Codes,
        y: NDArray[np.float64],
        lengths: Sequence[int],
        order: ArrayLike | None = None,
    ) -> PooledState:
        """The state with runs of the round under way added, each to its day; `order` says where in the round they are.

        A day that is complete is added to `days`, and the one that is not is `block`.
        """
        steps, parts = state.steps.add(y), self.choices.rows(rows)
        place = state.n_done + np.arange(len(y)) if order is None else np.asarray(order)
        ends = np.cumsum(lengths)
        day = np.searchsorted(ends, place, side="right")
        days, block, own = state.days, state.block, self.has_constants
        runs = state.runs
        if runs is not None:
            constants = state.pooled.n_blocks + day if own else np.full(len(y), max(state.pooled.n_blocks - 1, 0))
            runs = runs.add(rows, y, constants)
        if own and order is None and not state.n_done and len(y) == ends[-1]:  # a whole round at once
            return replace(state, steps=steps, days=state.pooled.add_blocks(parts, y, lengths, steps), runs=runs)
        for d in np.unique(day).tolist():
            block = block.add(parts[day == d], y[day == d])
            if d < len(ends) and (order is not None or place[day == d][-1] + 1 == ends[d]):
                days = (days or state.pooled).add(block, steps, own)
                block = Moments.empty(self.choices.sizes)
        return replace(state, steps=steps, days=days, block=block, runs=runs)

    def with_part(
        self, state: PooledState, rows: Codes, y: NDArray[np.float64], stage: str, order: ArrayLike | None
    ) -> PooledState:
        """The state with some runs of the round under way added to all others, and no round under way."""
        before = state.n_done
        places = before + np.arange(len(y)) if order is None else np.asarray(order)
        n_runs = max(state.target, int(places.max(initial=0)) + 1)
        state = self.added(state, rows, y, self.lengths(n_runs), places)
        pooled = state.days or state.pooled
        if state.block.n_runs:  # of a day under way
            pooled = pooled.add(state.block, state.steps, self.has_constants)
        blocks = state.blocks
        if before + len(y):
            blocks = (*blocks, BlockRecord(stage, before + len(y), 0, "as run", 0.0, rows_digest(rows)))
        none = Moments.empty(self.choices.sizes)
        state = replace(state, pooled=pooled, days=None, block=none, blocks=blocks, seed=None, digest=None)
        return self.left_in_place(state, rows[[int(np.argmax(places))]] if len(places) else rows)

    def left_in_place(self, state: PooledState, rows: Codes) -> PooledState:
        """The state with the setting of a round's last run, where the next one begins if levers are hard to change."""
        if not self.hard or not len(rows):
            return state
        return replace(state, in_place=tuple(rows[-1].tolist()))
