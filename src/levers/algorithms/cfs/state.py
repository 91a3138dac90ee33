"""Where a study by CFS stands, and what follows from that alone."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.algorithms.base import BlockRecord
from levers.algorithms.cfs.ledger import Ledger
from levers.algorithms.cfs.settings import LOOK
from levers.core.certificates.look import Look
from levers.core.codec import serialisable
from levers.core.designs.design import BlockEstimate, Design
from levers.core.model.elimination import Elimination
from levers.core.model.evidence import Evidence, PaddedEvidence
from levers.core.model.level_index import ActiveLevels, level_pairs, offsets
from levers.core.model.moments import LevelSums
from levers.core.space import Codes
from levers.errors import OutcomeMismatchError


@serialisable("CfsState")
@dataclass(frozen=True, eq=False)
class CfsState(Ledger):
    """Where a study stands. `target` is the size of the block under way, in ideal runs for a look or a selection.

    `stopped` says that somebody ended the study before its rules did, `last` that it ends after the block under way,
    and `kept` are the levels that a selection chose before the study went on, with the tolerance that it certified.
    """

    stage: str
    target: float
    active: ActiveLevels
    leaders: tuple[int, ...]
    evidence: Evidence
    sums: LevelSums
    seed: int | None = None
    digest: str | None = None
    rho: float | None = None
    parents: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    upper_loss: float | None = None
    noise_sd: float | None = None
    residual_square: float = 0.0
    residual_dof: int = 0
    n_runs: int = 0
    eliminations: tuple[Elimination, ...] = ()
    blocks: tuple[BlockRecord, ...] = ()
    certified: float | None = None
    finished: bool = False
    selected: bool = False
    look: Look | None = None
    rules: int = 1
    stopped: bool = False
    last: bool = False
    kept: tuple[tuple[int, ...], float] | None = None

    @staticmethod
    def upgraded(saved: dict[str, Any]) -> dict[str, Any]:
        """The fields of a saved state. Evidence was padded to the factor with most levels before."""
        evidence = saved.get("evidence")
        if not isinstance(evidence, PaddedEvidence):
            return saved
        return {**saved, "evidence": evidence.of(saved["sums"].n_levels)}

    @property
    def looked(self) -> bool:
        """Whether the look has been had."""
        return any(block.stage == LOOK for block in self.blocks)

    @property
    def reach(self) -> float:
        """The share of the tolerance that the look may have lost already."""
        return self.look.reach if self.look is not None and self.looked else 0.0

    def at_stake(self, max_parents: int | None) -> tuple[int, ...]:
        """The level counts that a selection certifies: of parents found, and of as many others as there can be."""
        if max_parents is None:
            return tuple(sorted(self.open_sizes))
        sizes = dict(zip(self.open_factors, self.open_sizes, strict=True))
        spare = max(max_parents - len(self.parents), 0)
        others = sorted((m for k, m in sizes.items() if k not in self.parents), reverse=True)
        return tuple(sorted([m for k, m in sizes.items() if k in self.parents] + others[:spare]))

    def rows(self, design: Design, most: int) -> Codes:
        """The design's next rows as level positions of all factors; settled factors stay at their leading level."""
        done = self.sums.n_runs
        return _placed(design, done, min(done + most, design.n_runs), self.active, self.open_factors, self.leaders)

    def design_of(self, codes: Codes) -> Design:
        """The design that a block's rows are: settled factors at their leaders, the others among levels in play."""
        columns = []
        for k, levels in enumerate(self.active):
            allowed = levels if k in self.open_factors else (self.leaders[k],)
            place = np.searchsorted(np.asarray(levels), codes[:, k]).astype(np.int16)
            if not np.isin(codes[:, k], allowed).all():
                raise OutcomeMismatchError("these rows are not of the block that is due: they set levels not in play")
            if k in self.open_factors:
                columns.append(place)
        rows = np.stack(columns, axis=1)
        rows.flags.writeable = False
        return Design(rows, self.open_sizes, "as stored")

    def block_sums(self, design: Design) -> LevelSums:
        """The block's sums over the levels in play, in the design's own numbering."""
        sums = self.sums
        starts = offsets(sums.n_levels).tolist()
        at = [starts[k] + level for k in self.open_factors for level in self.active[k]]
        return LevelSums(design.sizes, sums.n_runs, sums.mean, sums.square, sums.sums[at], sums.counts[at])

    def pairs(self, estimate: BlockEstimate) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A block's differences and their variances, placed among the pairs of levels of all factors."""
        differences = np.zeros_like(self.evidence.weighted)
        variances = np.full_like(differences, np.inf)
        at = _pairs_in_play(self.evidence.sizes, self.open_factors, tuple(self.active[k] for k in self.open_factors))
        differences[at] = estimate.differences
        variances[at] = estimate.spreads
        return differences, variances


@lru_cache(maxsize=1)
def _placed(
    design: Design, begin: int, end: int, active: ActiveLevels, open_factors: tuple[int, ...], leaders: tuple[int, ...]
) -> Codes:
    """A design's rows from one to another as level positions of all factors. Remembered, from asking to telling."""
    due = design.rows[begin:end]
    in_play = np.array([level for k in open_factors for level in active[k]], dtype=np.int16)
    codes = in_play.take(due + offsets(design.sizes)[:-1])
    if len(open_factors) < len(active):
        levels, codes = codes, np.tile(np.asarray(leaders, dtype=np.int16), (len(due), 1))
        codes[:, open_factors] = levels
    codes.flags.writeable = False
    return codes


@lru_cache(maxsize=16)
def _pairs_in_play(sizes: tuple[int, ...], factors: tuple[int, ...], active: ActiveLevels) -> NDArray[np.int64]:
    """Where the pairs of levels in play of some factors are among those of all factors, in the order of these."""
    begins = np.cumsum(np.square(sizes)) - np.square(sizes)
    size, begin = np.asarray(sizes)[list(factors)], begins[list(factors)]
    counts = [len(levels) for levels in active]
    level, owner = np.concatenate([np.asarray(levels) for levels in active]), np.repeat(np.arange(len(factors)), counts)
    these, those = level_pairs(tuple(counts))
    at: NDArray[np.int64] = begin[owner[these]] + level[these] * size[owner[these]] + level[those]
    at.flags.writeable = False
    return at


def rows_digest(rows: NDArray[np.integer[Any]]) -> str:
    """A short text that tells rows apart."""
    return sha256(np.ascontiguousarray(rows, dtype="<i2").tobytes()).hexdigest()[:16]
