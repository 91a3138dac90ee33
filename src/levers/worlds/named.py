"""Worlds with a name: those that a usual analysis gets wrong, the exponentially hard one, hidden causes, the demo."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes, Space
from levers.core.validation import check_count, check_positive
from levers.errors import InvalidSettingError
from levers.worlds.mechanisms import Computed, Mechanism, Table
from levers.worlds.outcome import AdditiveOutcome, NeedleOutcome, Noise, TableOutcome
from levers.worlds.scm import Hidden, World

_STEPS = (0.0, 1.0, 2.0)  # effects of the small worlds' parents
_LINE: dict[str, tuple[tuple[str | float, ...], tuple[float, ...] | None]] = {
    "melt temperature": ((205.0, 215.0, 225.0, 235.0), (0.0, 1.6, 2.4, 0.7)),
    "mould temperature": ((40.0, 50.0, 60.0), None),
    "injection speed": (("slow", "medium", "fast", "pulsed"), (0.0, 0.9, -0.8, 1.9)),
    "holding pressure": ((50.0, 60.0, 70.0, 80.0), (-1.1, 0.3, 1.2, 0.1)),
    "holding time": ((4.0, 6.0, 8.0), None),
    "cooling time": ((10.0, 14.0, 18.0), (0.0, 1.3, 1.5)),
    "screw speed": ((60.0, 90.0, 120.0), None),
    "back pressure": ((5.0, 8.0, 11.0), None),
    "drying hours": ((2.0, 4.0, 6.0), (-1.4, 0.0, 0.2)),
    "regrind share": (("0 %", "10 %", "20 %", "30 %"), None),
    "supplier": (("A", "B", "C"), None),
    "inspection": (("standard", "tightened"), None),
}
"""The factory line: levels of each lever, and their effects where it has any."""


def even_table(n_levels: int) -> Table:
    """A root factor whose levels are equally likely.

    >>> even_table(4).cells.tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    return Table(np.full((1, n_levels), 1.0 / n_levels))


def collider_world() -> World:
    """Two parents with effects 0, 1, 2 and a common effect C = round(Y + 2 X0) of the outcome and X0.

    A regression that includes C finds that X0 hurts: given C, a larger X0 means a smaller Y. Setting all factors cuts
    the arrows into C, and then the estimates are right.

    >>> collider_world().space.n_levels
    (3, 3, 15)
    """
    low, high = -3, 11

    def rule(rows: Codes, outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(np.rint(outcomes + 2.0 * rows[:, 0]), low, high) - low

    space = Space.of({"X0": (0, 1, 2), "X1": (0, 1, 2), "C": range(low, high + 1)})
    child = Computed(high - low + 1, rule, parents=(0,), reads_outcome=True)
    return World(space, [even_table(3), even_table(3), child], AdditiveOutcome({0: _STEPS, 1: _STEPS}))


def rare_level_world(rare: float = 1e-4) -> World:
    """Two parents with effects 0, 1, 2; nature almost never shows the best level of X0.

    >>> rare_level_world().space.names
    ('X0', 'X1')
    """
    rarely_best = Table(np.array([[(1.0 - rare) / 2, (1.0 - rare) / 2, rare]]))
    space = Space.of({"X0": (0, 1, 2), "X1": (0, 1, 2)})
    return World(space, [rarely_best, even_table(3)], AdditiveOutcome({0: _STEPS, 1: _STEPS}))


def needle_world(n_levels: Sequence[int], n_parents: int, height: float, rng: np.random.Generator) -> World:
    """The exponentially hard instance (Section 2.2): flat, but for one unknown setting of the parents.

    Left to nature, no parent ever takes its level of the needle, so observing teaches nothing.

    >>> len(needle_world([2, 2, 2], 2, 0.5, np.random.default_rng(0)).outcome.parents)
    2
    """
    space = Space.sized(n_levels)
    if not 1 <= n_parents <= space.n_factors:
        raise InvalidSettingError(f"n_parents must be from 1 to {space.n_factors}, not {n_parents}")
    parents = sorted(rng.choice(space.n_factors, size=n_parents, replace=False).tolist())
    needle = {k: int(rng.integers(space.n_levels[k])) for k in parents}
    mechanisms: list[Mechanism] = []
    for k, m in enumerate(space.n_levels):
        weights = np.ones((1, m))
        if k in needle:
            weights[0, needle[k]] = 0.0
        mechanisms.append(Table(weights / weights.sum()))
    return World(space, mechanisms, NeedleOutcome(needle, height, Noise()))


def factory_line() -> World:
    """The demo: an injection-moulding line with 12 levers, 5 of which move the share of good parts (in points).

    Mould temperature follows melt temperature, and inspection is tightened when the share is low: an effect of the
    outcome that looks like a cause in the plant's records.

    >>> factory_line().space.n_assignments
    1119744
    """
    names = list(_LINE)
    space = Space.of({name: levels for name, (levels, _) in _LINE.items()})
    effects = {names.index(name): effect for name, (_, effect) in _LINE.items() if effect is not None}
    mechanisms: list[Mechanism] = [even_table(m) for m in space.n_levels]
    follows = np.array([[0.8, 0.15, 0.05], [0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.05, 0.25, 0.7]])
    mechanisms[names.index("mould temperature")] = Table(follows, (names.index("melt temperature"),), sizes=(4,))

    def tightened(rows: Codes, outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
        return (outcomes < 3.0).astype(np.float64)

    mechanisms[names.index("inspection")] = Computed(2, tightened, reads_outcome=True)
    return World(space, mechanisms, AdditiveOutcome(effects, Noise(1.0)))


def coin_world(n_others: int = 3, scale: float = 1.0, noise_sd: float = 1.0) -> World:
    """A hidden fair coin, a factor X that follows it by nature, and an outcome that gains `scale` when they agree.

    Watched, they always agree; set, X agrees with the coin half of the time, whatever its level: leaving X alone is
    better than any setting by scale / 2. The other factors, X1 and so on, have effects 0, scale / 2 and scale.

    >>> from levers.worlds.scm import best_mean, mean_under
    >>> best_mean(coin_world()), mean_under(coin_world(), {"X": "heads", "X1": 3, "X2": 3, "X3": 3})
    (4.0, 3.5)
    """
    check_count("n_others", n_others, 0)
    check_positive("scale", scale)
    space = Space.of({"X": ("heads", "tails"), **{f"X{k + 1}": (1, 2, 3) for k in range(n_others)}})
    coin = n_others + 1  # hidden variables stand after the factors
    follows = Table(np.eye(2), parents=(coin,), sizes=(2,))
    tables: dict[tuple[int, ...], NDArray[np.float64]] = {(0, coin): scale * np.eye(2)}
    tables |= {(k,): scale * np.array([0.0, 0.5, 1.0]) for k in range(1, n_others + 1)}
    mechanisms = [follows, *(even_table(3) for _ in range(n_others))]
    return World(space, mechanisms, TableOutcome(tables, Noise(noise_sd)), [Hidden("coin", 2, even_table(2))])


def shared_cause_world(noise_sd: float = 1.0) -> World:
    """A hidden season drives heat and moisture, both with additive effects: confounding that does no harm.

    No hidden cause is shared with the outcome, so setting every factor is never worse than leaving some alone
    (Fact 1), though watching shows heat and moisture together only.

    >>> from levers.worlds.scm import best_assignment
    >>> dict(best_assignment(shared_cause_world()))
    {'heat': 'high', 'moisture': 'dry', 'shift': 'day'}
    """
    space = Space.of({"heat": ("low", "high"), "moisture": ("dry", "wet"), "shift": ("day", "night")})
    follows = Table(np.array([[0.9, 0.1], [0.2, 0.8]]), parents=(3,), sizes=(2,))
    outcome = AdditiveOutcome({0: (0.0, 1.0), 1: (0.8, 0.0)}, Noise(noise_sd))
    return World(space, [follows, follows, even_table(2)], outcome, [Hidden("season", 2, even_table(2))])
