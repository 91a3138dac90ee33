"""What runs say of a further one: where its outcome is to be expected, and how far from that would be a surprise.

An outcome is compared with the additive fit of the other runs where that determines it, and with the middle and the
spread of the other outcomes before. Runs that do not agree with the rest are set aside first, so that several wrong
outcomes do not hide each other. Nothing here decides about a study: it is for asking whoever types.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from levers.core.model.checks.additivity import LEAST_DOF, Additive, even_sample
from levers.core.model.level_index import Numbers
from levers.core.space import Codes

ALARM = 0.001
"""How often one of all outcomes looked at may be a surprise though the model holds."""
LEAST_OTHERS = 5
"""The fewest other outcomes with whose spread one is compared."""
FAR = 8.0
"""Spreads from the middle that are a surprise while there is no fit: ten times too large is, a good level is not."""
MOST_RUNS = 4_000
"""Runs that are fitted; of more, an even sample."""
MOST_PARAMETERS = 500
"""A larger fit takes too long for a question."""
_SHARE = 0.75  # of outcomes, whose distance from the middle is the spread: a quarter may be wrong, or of a poor level
_NORMAL = float(ndtri((1 + _SHARE) / 2))  # that distance over the standard deviation, of normal outcomes
_FEW = 12.0  # with few outcomes their spread is a guess: allow for FAR (1 + _FEW / n) times
_MOST_ROUNDS = 6
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Limits:
    """For each run the outcome to expect, how far from it is still none of a surprise, and whether a fit says so.

    `half` is infinite where nothing can be said.
    """

    centre: Numbers
    half: Numbers
    by_fit: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Expectation:
    """What some runs say of others. `source` tells runs apart that may differ by a constant: the study, each import.

    >>> rows = np.array([[0], [1]] * 6)
    >>> seen = Expectation.of(rows, np.array([70.0, 72, 71, 73, 70, 72, 71, 73, 70, 72, 71, 73]), [2])
    >>> at = seen.limits(np.array([[0], [1]]), n_looks=14)
    >>> at.centre.tolist(), at.half.round(1).tolist(), at.by_fit.tolist()
    ([70.5, 72.5], [3.8, 3.8], [True, True])
    """

    codes: Codes
    outcomes: Numbers
    source: NDArray[np.int64]
    n_sources: int
    n_levels: tuple[int, ...]
    noise_sd: float | None
    sample: NDArray[np.int64]
    """Which of the runs are looked at."""
    agreeing: NDArray[np.bool_]
    """Which of these the fit is of."""
    model: Additive | None

    @classmethod
    def of(
        cls,
        codes: Codes,
        outcomes: Numbers,
        n_levels: Sequence[int],
        noise_sd: float | None = None,
        source: NDArray[np.int64] | None = None,
    ) -> Self:
        """Fit the runs that agree with each other, or an even sample of them."""
        where = np.zeros(len(codes), dtype=np.int64) if source is None else source
        n_sources = int(where.max(initial=0)) + 1
        sizes = (*n_levels, n_sources) if n_sources > 1 else tuple(n_levels)
        rows = _with_source(codes, where, n_sources)
        sample = even_sample(len(rows), MOST_RUNS)
        agreeing = np.ones(len(sample), dtype=np.bool_)
        empty = cls(rows, outcomes, where, n_sources, sizes, noise_sd, sample, agreeing, None)
        if len(sample) < 2 or sum(sizes) - len(sizes) > min(len(sample) - 1, MOST_PARAMETERS):
            return empty
        return empty._fitted()

    def _fitted(self) -> Self:
        """Set aside what is far from the others, fit the rest, look again: until the same runs agree."""
        rows, y = self.codes[self.sample], self.outcomes[self.sample]
        centre, half = self.spreads(self.source[self.sample])
        inside = ~(np.abs(y - centre) > half)
        for k in range(rows.shape[1]):  # what is known of a level by such runs alone is kept: it may be that poor
            used = np.bincount(rows[inside, k], minlength=self.n_levels[k]) > 0
            inside |= ~used[rows[:, k]]
        found = self
        for _ in range(_MOST_ROUNDS):
            model = Additive.of(rows[inside], y[inside], self.n_levels, most_runs=len(rows))
            found = replace(self, agreeing=inside, model=model)
            if not model.fit.determined:
                break
            limits = found._by_fit(rows, y, inside, len(self.codes), found._robust_sd)
            agreeing = np.where(limits.by_fit, np.abs(y - limits.centre) <= limits.half, inside)
            if (agreeing == inside).all():
                break
            inside = agreeing
        return found

    @cached_property
    def _robust_sd(self) -> float:
        """The noise as the median of the residuals has it: half of them may be of wrong outcomes."""
        assert self.model is not None  # of a fit
        room = 1 - self.model.leverages()
        free = room > _ROUNDING
        if not free.any():
            return 0.0
        return float(np.median(np.abs(self.model.residuals[free]) / np.sqrt(room[free]))) / float(ndtri(0.75))

    @cached_property
    def _middles(self) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
        """The median of each source's outcomes, their spread about it, and how many there are."""
        n_sources = self.n_sources
        middle, spread, counts = np.zeros(n_sources), np.zeros(n_sources), np.zeros(n_sources, dtype=np.int64)
        y, source = self.outcomes[self.sample], self.source[self.sample]
        for i in np.unique(source):
            values = y[source == i]
            middle[i] = np.median(values)
            away = np.sort(np.abs(values - middle[i]))
            counts[i] = len(values)
            spread[i] = away[math.ceil(_SHARE * len(values)) - 1] / _NORMAL
        return middle, spread, counts

    def spreads(self, source: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
        """Where outcomes of these sources lie by the others' median and spread: FAR (1 + c / n) spreads about it.

        The spread is the distance that three quarters of the outcomes keep, over what it is for a standard normal.
        Nothing can be said by fewer than five others, nor where most are one and the same number.
        """
        middle, spread, counts = self._middles
        n = counts[source]
        scale = spread[source] if self.noise_sd is None else np.maximum(spread[source], self.noise_sd)
        half = FAR * (1 + _FEW / np.maximum(n, 1)) * scale
        return middle[source], np.where((n >= LEAST_OTHERS) & (scale > 0), half, np.inf)

    def limits(
        self, codes: Codes, n_looks: int, source: int = 0, outcomes: Numbers | None = None, first: int | None = None
    ) -> Limits:
        """What to expect of runs of one source, among `n_looks` that are looked at in all.

        Runs that are among those fitted come with their outcomes and the place of the first of them: they are judged by
        the others alone.
        """
        where = np.full(len(codes), source, dtype=np.int64)
        centre, half = self.spreads(where)
        if first is not None and self._middles[2][source] <= LEAST_OTHERS:  # itself is no other
            half = np.full(len(where), np.inf)
        if self.model is None or not self.model.fit.determined:
            return Limits(centre, half, np.zeros(len(where), dtype=np.bool_))
        rows = _with_source(codes, where, self.n_sources)
        inside = np.zeros(len(rows), dtype=np.bool_)
        if first is not None:
            member = np.zeros(len(self.codes), dtype=np.bool_)
            member[self.sample[self.agreeing]] = True
            inside = member[first : first + len(rows)]
        fitted = self._by_fit(rows, outcomes, inside, n_looks)
        known = np.isfinite(fitted.half)
        return Limits(np.where(known, fitted.centre, centre), np.where(known, fitted.half, half), known)

    def _by_fit(
        self, rows: Codes, outcomes: Numbers | None, inside: NDArray[np.bool_], n_looks: int, most_sd: float = math.inf
    ) -> Limits:
        """What the fit of the other runs expects of a run.

        A further run at x: yhat +- q s sqrt(1 + h), h = 1/n + w^T V^+ w. A run of the fit is left out of it: yhat =
        y - e / (1 - h), s^2 = (RSS - e^2 / (1 - h)) / (dof - 1), and sqrt(1 / (1 - h)) in place of sqrt(1 + h). The
        quantile q is that of t, or of the normal with the noise that was stated, at ALARM / n_looks, whichever allows
        more: a noise that was stated too small should not make every outcome a surprise.
        """
        model = self.model
        assert model is not None  # callers have seen that there is one
        fit, counts = model.fit, model.fit.moments.level_counts
        y = np.zeros(len(rows)) if outcomes is None else outcomes
        here = Additive(rows, y, fit)
        centre, away = here.fitted.copy(), here.residuals
        seen = (counts[rows + fit.moments.offsets[:-1]] > 0).all(axis=1)
        tail = ALARM / (2 * max(n_looks, 1))
        spread = 0.0 if self.noise_sd is None else -float(ndtri(tail)) * self.noise_sd
        exact = model.is_exact
        usual = 0.0
        if model.dof >= LEAST_DOF and not exact:
            usual = _quantile(model.dof, tail) * min(math.sqrt(model.square / model.dof), most_sd)
        half = np.where(seen & (max(spread, usual) > 0), max(spread, usual), np.inf)
        # the leverage matters for those alone that are far away, or judged by the others; for all, before outcomes
        far = np.flatnonzero(np.isfinite(half) & (inside | (np.abs(away) > half) | (outcomes is None)))
        if not far.size:
            return Limits(centre, half, np.isfinite(half))
        pull = Additive(rows[far], y[far], fit).leverages()
        half[far] *= np.sqrt(1 + pull)
        own = inside[far]
        at, room = far[own], 1 - pull[own]
        alone = room < _ROUNDING  # the run determines its own fit
        room = np.where(alone, 1.0, room)
        centre[at] = y[at] - away[at] / room
        without = np.full(len(at), spread)
        if model.dof - 1 >= LEAST_DOF and not exact:
            square = np.maximum(model.square - away[at] ** 2 / room, _ROUNDING * model.square)
            sd = np.minimum(np.sqrt(square / (model.dof - 1)), most_sd)
            without = np.maximum(without, _quantile(model.dof - 1, tail) * sd)
        half[at] = np.where(alone | (without <= 0), np.inf, without / np.sqrt(room))
        return Limits(centre, half, np.isfinite(half))


def _with_source(codes: Codes, source: NDArray[np.int64], n_sources: int) -> Codes:
    """The runs with a constant for each source, as one more factor."""
    return np.column_stack([codes, source.astype(np.int16)]) if n_sources > 1 else codes


def _quantile(dof: int, tail: float) -> float:
    """How far out a t variable is with this probability."""
    return -float(stdtrit(dof, tail))
