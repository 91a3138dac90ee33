"""Which factors share hidden causes with the outcome: what decides whether leaving one alone can be best."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrows:
    """A causal graph by positions: factors 0 to n_factors - 1, hidden variables after them, and the outcome.

    `parents` has the positions that each variable reads, `outcome` those that the outcome reads.
    """

    n_factors: int
    parents: tuple[tuple[int, ...], ...]
    outcome: tuple[int, ...]

    def hidden_causes(self, read: Sequence[int]) -> set[int]:
        """Hidden variables from which a path of hidden variables leads to a reader of these positions."""
        found, todo = set[int](), [k for k in read if k >= self.n_factors]
        while todo:
            k = todo.pop()
            if k not in found:
                found.add(k)
                todo += [h for h in self.parents[k] if h >= self.n_factors]
        return found

    def observed_causes(self, read: Sequence[int]) -> set[int]:
        """Factors that a reader of these positions reads, itself or through hidden variables only.

        >>> Arrows(2, ((), (), (0,)), outcome=(1, 2)).observed_causes((1, 2))
        {0, 1}
        """
        positions = {*read, *(k for h in self.hidden_causes(read) for k in self.parents[h])}
        return {k for k in positions if k < self.n_factors}

    def territory(self, left: Collection[int]) -> tuple[int, ...]:
        """The minimal unobserved confounders' territory of the outcome, when all factors but those in `left` are set.

        It grows from the outcome: with each variable also those that share a hidden cause with it, and their effects,
        as far as they are causes of the outcome (Lee and Bareinboim 2018, Structural causal bandits: where to
        intervene?). Setting a factor outside it to its best level is never worse than leaving it alone; where the
        territory is empty that is Fact 1.

        A hidden variable 2 that moves factor 0 and the outcome; with a hidden variable 3 that moves both factors, the
        other one belongs to it too, though it shares no hidden cause with the outcome itself:

        >>> Arrows(2, ((2,), (), ()), outcome=(0, 1, 2)).territory([0, 1])
        (0,)
        >>> Arrows(2, ((2, 3), (3,), (), ()), outcome=(0, 1, 2)).territory([0, 1])
        (0, 1)
        """
        y = -1  # the outcome's number here
        read = {y: self.outcome, **{k: self.parents[k] for k in left}}
        unseen = {node: self.hidden_causes(positions) for node, positions in read.items()}
        direct = {node: self.observed_causes(positions) for node, positions in read.items()}
        causes, todo = {y}, [y]
        while todo:
            for k in direct[todo.pop()].intersection(left).difference(causes):
                causes.add(k)
                todo.append(k)
        inside = {y}
        while True:
            grown = inside | {k for k in causes if any(unseen[k] & unseen[j] for j in inside)}
            grown |= {k for k in causes - {y} if direct[k] & grown}
            if grown == inside:
                return tuple(sorted(inside - {y}))
            inside = grown
