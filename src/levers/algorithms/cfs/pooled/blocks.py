"""The rows of a pooled study's blocks where they are more than a design over the levels in play."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from levers.algorithms.cfs.allocation import allocated_rows, allocated_shares, complementary_rows, local_shares
from levers.algorithms.cfs.interactions import sampled_rows
from levers.algorithms.cfs.pooled.promise import mixed_shares, never_far_by_chance, promised_shares, share_for_promise
from levers.algorithms.cfs.pooled.state import PooledState
from levers.algorithms.cfs.settings import PROMISE_RULES, TOGETHER_RULES
from levers.core.designs.allowed import Combinations, allowed_rows
from levers.core.designs.build import extending_design, largest_design
from levers.core.designs.changes import HardLevers, few_changes, hard_levels
from levers.core.designs.days import divided_rows
from levers.core.designs.design import Design
from levers.core.designs.exchange import exchanged_rows
from levers.core.model.choices import Choices
from levers.core.model.level_index import ActiveLevels, offsets
from levers.core.model.posterior import posterior
from levers.core.space import Codes


@lru_cache(maxsize=4)
def allocated_block(
    choices: Choices,
    state: PooledState,
    noise_sd: float | None,
    n_runs: int,
    n_left: int,
    seed: int,
    far_behind: float = 0.0,
) -> Design:
    """The next block of a study that aims for the best setting. Remembered, from asking to telling."""
    rng = np.random.default_rng(seed)
    fit = state.interaction_fit
    # what the share of interactions leaves over of a whole run is drawn, so that a small one gets its runs too
    n_sampled = 0 if fit is None else int(fit.weights.probability * n_runs + rng.random())
    rows: Codes = np.zeros((0, len(choices.n_levels)), dtype=np.int16)
    if n_sampled < n_runs:
        if noise_sd is None and state.rules >= PROMISE_RULES and state.trusted_sums.square == 0:
            noise_sd = 1.0  # outcomes that are all the same say nothing of it, and shares do not depend on its size
        found = posterior(state.trusted_sums, noise_sd, state.pooled.least_noise)
        draws = np.random.default_rng([seed, 6]) if state.rules >= PROMISE_RULES else None
        shares = allocated_shares(choices, found, n_left, draws)
        if state.rules >= TOGETHER_RULES:
            shares = local_shares(choices, found, shares)
        part = share_for_promise(state.n_runs / choices.n_parameters) if far_behind else 0.0
        if part:
            distance = -float(ndtri(far_behind / choices.n_rivals))
            growth = (state.n_runs + n_left) / choices.n_parameters
            apart = never_far_by_chance(choices.n_pairs, far_behind, growth)
            shares = mixed_shares(shares, promised_shares(choices, found, n_left, distance, apart), part)
        rows = allocated_rows(shares, n_runs - n_sampled, rng)
        rows = complementary_rows(rows, choices, state.pooled.information)
    if fit is not None and n_sampled:
        rows = rng.permutation(np.concatenate([rows, sampled_rows(fit, n_sampled, rng)]))
    rows.flags.writeable = False
    return Design(rows, choices.n_levels, "allocated")


@lru_cache(maxsize=4)
def tied_block(choices: Choices, state: PooledState, n_runs: int, seed: int, exchanges: bool) -> Design:
    """A block over the parts of tied factors: each part's levels in play are balanced, then made allowed.

    With `exchanges` it is improved among what is allowed.
    """
    groups = _combinations(choices, state.varied)
    in_play = [np.unique(column) for group in groups for column in group.table.T]
    varied = tuple(i for i, levels in enumerate(in_play) if len(levels) > 1)
    sizes, parts = tuple(len(in_play[i]) for i in varied), choices.sizes
    if state.blocks:
        design = extending_design(sizes, n_runs, seed, parts, varied)
    else:
        design = largest_design(sizes, n_runs, seed, "thorough")
    rows = np.stack([np.full(design.n_runs, levels[0]) for levels in in_play], axis=1).astype(np.int16)
    for column, i in enumerate(varied):
        rows[:, i] = in_play[i][design.rows[:, column]]
    codes = allowed_rows(rows, groups, np.random.default_rng([seed, 1]))
    if exchanges:
        tied = [group for group in groups if len(group.columns) > 1 and len(group.table) > 1]
        more = np.random.default_rng([seed, 5])
        rows = exchanged_rows(choices.rows(codes), choices.sizes, tied, state.pooled.information, more)
        codes = choices.codes(rows)
    codes.flags.writeable = False
    return Design(codes, choices.n_levels, design.kind)


@lru_cache(maxsize=4)
def divided_block(design: Design, choices: Choices, lengths: tuple[int, ...], seed: int, steady: bool = True) -> Design:
    """The same rows in the order of days of these lengths, each balanced as well as it can be."""
    rows, sizes = design.rows, design.sizes
    if sizes == choices.n_levels:
        rows, sizes = choices.rows(rows), choices.sizes
    ordered = design.rows[divided_rows(rows, sizes, lengths, np.random.default_rng([seed, 2]), steady)]
    ordered.flags.writeable = False
    return Design(ordered, design.sizes, design.kind)


def placed_rows(design: Design, n_levels: tuple[int, ...], state: PooledState, begin: int, end: int) -> Codes:
    """A design's rows from one to another as level positions of all factors; settled ones stay at their leaders."""
    due = design.rows[begin:end]
    if design.sizes == n_levels:  # no level is out of play, or the rows are of all factors already
        return due
    in_play = np.array([level for k in state.open_factors for level in state.varied[k]], dtype=np.int16)
    codes: Codes = np.tile(np.asarray(state.leaders, dtype=np.int16), (len(due), 1))
    codes[:, state.open_factors] = in_play.take(due + offsets(design.sizes)[:-1])
    return codes


def baseline_counts(lengths: Sequence[int], n_before: int, every: int) -> tuple[int, ...]:
    """How many runs of each part of a round are made at the setting in place today: one in so many, and one at first.

    >>> baseline_counts((8, 8, 8), 0, 8), baseline_counts((8, 8), 24, 16), baseline_counts((4,), 0, 16)
    ((1, 1, 1), (1, 0), (1,))
    """
    ends = n_before + np.cumsum([0, *lengths])
    counts = np.diff(ends // every)
    if n_before == 0 and not counts.any():
        counts[int(np.argmax(lengths))] = 1
    return tuple(counts.tolist())


@lru_cache(maxsize=4)
def with_baseline(
    design: Design,
    n_levels: tuple[int, ...],
    state: PooledState,
    baseline: tuple[int, ...],
    parts: tuple[tuple[int, int], ...],
    seed: int,
) -> Design:
    """A round with runs at the setting in place today: in each part so many among so many other rows."""
    codes = placed_rows(design, n_levels, state, 0, design.n_runs)
    rng, found, begin = np.random.default_rng([seed, 3]), [], 0
    for n_others, n in parts:
        others = codes[begin : begin + n_others]
        begin += n_others
        found.append(
            np.insert(others, rng.integers(n_others + 1, size=n), np.asarray(baseline, dtype=np.int16), axis=0)
        )
    rows = np.concatenate(found)
    rows.flags.writeable = False
    return Design(rows, n_levels, design.kind)


@lru_cache(maxsize=4)
def ordered_block(
    design: Design,
    n_levels: tuple[int, ...],
    state: PooledState,
    hard: HardLevers,
    lengths: tuple[int, ...],
    seed: int,
) -> Design:
    """The same rows in each part, in an order in which levers that are hard to change are changed seldom.

    Runs at the setting in place today are among them: anywhere else they would cost two changes each.
    """
    codes = placed_rows(design, n_levels, state, 0, design.n_runs)
    before = None if state.in_place is None else hard_levels([state.in_place], hard)[0].tolist()
    rows = codes[few_changes(hard_levels(codes, hard), lengths, np.random.default_rng([seed, 4]), before)]
    rows.flags.writeable = False
    return Design(rows, n_levels, design.kind)


def _combinations(choices: Choices, active: ActiveLevels) -> list[Combinations]:
    """What can be set: for each factor its parts' columns, and the levels of these in every level in play."""
    groups, first = [], 0
    for levels, table in zip(active, choices.tables, strict=True):
        columns = tuple(range(first, first + table.shape[1]))
        groups.append(Combinations(columns, table[list(levels)], np.array(levels)))
        first += table.shape[1]
    return groups
