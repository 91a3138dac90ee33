"""Levers that forbidden combinations tie together: effects that lose most, against what the certificate allows for."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import Batch, Problem, run_to_verdict
from levers.algorithms.cfs.pooled.solver import Pooled
from levers.algorithms.cfs.settings import CERTIFY
from levers.core.certificates.sums import Tied
from levers.core.certificates.tails import slippage_tail
from levers.core.model.level_index import offsets
from levers.core.space import Space

Pair = tuple[tuple[int, int], ...]
"""Levels that cannot be run together, by lever and level."""
Numbers = NDArray[np.float64]
GRID = np.linspace(0.0, 30.0, 401)


@dataclass(frozen=True)
class Group:
    """Levers of so many levels of which some combinations are forbidden, and others beside them that nothing ties, in a
    design of so many runs a parameter."""

    sizes: tuple[int, ...]
    forbidden: tuple[Pair, ...]
    per_parameter: int = 6
    others: tuple[int, ...] = (3, 3)

    @cached_property
    def combinations(self) -> NDArray[np.int64]:
        """What can be run."""
        every = itertools.product(*map(range, self.sizes))
        return np.array([c for c in every if not any(all(c[k] == j for k, j in pair) for pair in self.forbidden)])

    @property
    def parts(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The group and the other levers, as the solver is told."""
        return (tuple(tuple(int(j) for j in row) for row in self.combinations), *((),) * len(self.others))

    @property
    def space(self) -> Space:
        """The group as one lever, and the others."""
        return Space.sized([len(self.combinations), *self.others])

    @cached_property
    def measured(self) -> tuple[Tied | None, Numbers]:
        """What a real design puts at stake, None where the group counts as one lever, and a root of the covariance of
        the errors of its levels; errors are those of one run."""
        n_parameters = sum(m - 1 for m in (*self.sizes, *self.others))
        problem = Problem(self.space, None, 0.1, 1.0)
        pooled = Pooled(problem, budget=self.per_parameter * n_parameters, aim=CERTIFY, parts=self.parts)
        state, rng = pooled.start(), np.random.default_rng(0)
        while isinstance(step := pooled.ask(state, rng), Batch):
            state = pooled.tell(state, step, np.zeros(step.n_runs))
        state = replace(state, active=tuple(tuple(range(m)) for m in pooled.n_levels), closed=(), parents=())
        found = [one for one in pooled.stakes(state, pooled.evidence(state)) if isinstance(one, Tied)]
        n, d = state.n_runs, sum(self.sizes)
        values, vectors = np.linalg.eigh(state.fit.inverse[:d, :d] * n)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        if not found:
            return None, root
        [one] = found
        parts = tuple((m, error * math.sqrt(n)) for m, error in one.parts)
        return Tied(parts, one.n_swaps, one.error * math.sqrt(n)), root

    def lost(self, effects: Numbers, errors: Numbers) -> Numbers:
        """What the combination that looks best loses, for every row of errors."""
        at = self.combinations + offsets(self.sizes)[:-1]
        true, seen = effects[at].sum(axis=1), (effects + errors)[:, at].sum(axis=2)
        return np.asarray(true.max() - true[seen.argmax(axis=1)])


def allowed_for(tied: Tied, growth: Callable[[Numbers], Numbers]) -> float:
    """What E[growth(loss) - growth(0)] may be, before the certificate's margin: the worse of parts and swaps."""
    after = np.asarray(growth(GRID), dtype=np.float64)

    def step(value: Numbers, n_rivals: int, error: float) -> Numbers:
        tail = slippage_tail(n_rivals, GRID / error)
        rows = [(np.append(value[i:], np.full(i, value[-1])) - value[i]) * tail for i in range(len(GRID))]
        return np.asarray(value + np.array([row.max() for row in rows]))

    value: Numbers = after
    for m, error in tied.parts:
        value = step(value, m - 1, error)
    swaps = step(after, tied.n_swaps, tied.error) if tied.n_swaps else after
    return float(max(value[0], swaps[0]) - after[0])


def worst_share(group: Group, n_studies: int, n_steps: int, seed: int = 0) -> float:
    """The most that effects were found to lose, over what the certificate allows for: by losses above a threshold, and
    growing exponentially up to it. They are looked for on some errors, and counted on others."""
    tied, root = group.measured
    if tied is None:
        return math.nan
    rng, d = np.random.default_rng(seed), sum(group.sizes)
    errors, fresh = (rng.normal(size=(n, d)) @ root.T for n in (n_studies, 6 * n_studies))
    worst = 0.0
    for threshold in np.array([1.6, 2.2, 2.8]) * math.sqrt(d):
        for rate in (math.inf, 0.8, 0.4):

            def growth(loss: Numbers, threshold: float = threshold, rate: float = rate) -> Numbers:
                above = loss >= threshold - 1e-9
                return np.where(
                    above, 1.0, 0.0 if math.isinf(rate) else np.exp(np.minimum(rate * (loss - threshold), 0))
                )

            def counted(effects: Numbers, of: Numbers, g: Callable[[Numbers], Numbers] = growth) -> float:
                return float(g(group.lost(effects, of)).mean() - g(np.zeros(1))[0])

            tried = sorted(
                _hard_effects(group, threshold, rng), key=lambda one: counted(one, errors[:2000]), reverse=True
            )
            found = max(
                (_climbed(one, lambda x: counted(x, errors), n_steps, rng) for one in tried[:3]), key=lambda x: x[0]
            )
            worst = max(worst, counted(found[1], fresh) / max(allowed_for(tied, growth), 1e-12))
    return worst


def _climbed(
    effects: Numbers, counted: Callable[[Numbers], float], n_steps: int, rng: np.random.Generator
) -> tuple[float, Numbers]:
    """Effects that lose more, by small random changes."""
    most, width = counted(effects), 1.0
    for i in range(n_steps):
        changed = effects + rng.normal(size=len(effects)) * width * (rng.random(len(effects)) < 0.4)
        found = counted(changed)
        if found > most:
            effects, most = changed, found
        elif i % 20 == 19:
            width *= 0.6
    return most, effects


def _hard_effects(group: Group, threshold: float, rng: np.random.Generator) -> list[Numbers]:
    """Random effects; a best combination a share of the threshold ahead in every lever; and best levels that cannot be
    run together."""
    sizes, starts = group.sizes, offsets(group.sizes)
    found = [
        np.concatenate([rng.choice([0, 1, 3]) * rng.exponential(size=m) * (rng.random(m) < 0.6) for m in sizes])
        * rng.choice([1, 2, 4])
        for _ in range(60)
    ]
    for share in (1.0, 0.5, 1 / 3):
        for best in group.combinations[rng.permutation(len(group.combinations))[:12]]:
            effects = np.zeros(starts[-1])
            effects[starts[:-1] + best] = share * threshold
            found.append(effects)
        for pair in group.forbidden:
            for (k, level), (other, rival) in itertools.permutations(pair, 2):
                for ahead in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0):
                    effects = np.zeros(starts[-1])
                    effects[starts[k] + level] = share * threshold + ahead
                    alone = effects.copy()
                    effects[starts[other] + rival] = ahead
                    alone[starts[other] : starts[other + 1]] = -9 * threshold
                    alone[starts[other]], alone[starts[other] + rival] = (0.0, ahead) if rival else (ahead, ahead)
                    found += [effects, alone]
    return found


def mean_runs(group: Group, rules: int, n_studies: int) -> float:
    """Mean runs to a tolerance of half a standard deviation of the noise where nothing matters."""
    space = group.space if group.forbidden else Space.sized([*group.sizes, *group.others])
    pooled, runs = Pooled(Problem(space, 0.5, 0.1, 1.0), parts=group.parts if group.forbidden else (), rules=rules), []
    for seed in range(n_studies):
        noise = np.random.default_rng([seed, 1])

        def outcomes_of(batch: Batch, noise: np.random.Generator = noise) -> tuple[Batch, Numbers]:
            return batch, noise.normal(size=batch.n_runs)

        runs.append(run_to_verdict(pooled, outcomes_of, np.random.default_rng(seed)).n_runs)
    return float(np.mean(runs))


def two(k: int, level: int, other: int, rival: int) -> Pair:
    """A forbidden pair."""
    return ((k, level), (other, rival))


CHAIN_OF_TWO = (two(0, 1, 1, 1), two(1, 1, 2, 1))
GROUPS = [
    Group((3, 2), (two(0, 2, 1, 1),)),
    Group((4, 2), (two(0, 3, 1, 1),)),
    Group((3, 3), (two(0, 2, 1, 2),)),
    Group((4, 3), (two(0, 3, 1, 2),)),
    Group((4, 4), (two(0, 3, 1, 3),)),
    Group((6, 2), (two(0, 5, 1, 1),)),
    Group((3, 3), (two(0, 2, 1, 2), two(0, 2, 1, 1))),
    Group((4, 3), (two(0, 3, 1, 2), two(0, 2, 1, 1))),
    Group((4, 4), tuple(two(0, j, 1, j) for j in range(4))),
    Group((2, 2, 2), CHAIN_OF_TWO),
    Group((2, 2, 2), (((0, 1), (1, 1), (2, 1)),)),
    Group((4, 3, 2), (two(0, 3, 1, 2), two(1, 2, 2, 1))),
    Group((3, 3, 3), (two(0, 2, 1, 2), two(0, 1, 2, 2), two(1, 1, 2, 1))),
    Group((2, 2, 2, 2), (*CHAIN_OF_TWO, two(2, 1, 3, 1))),
]
