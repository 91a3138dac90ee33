"""The contract of every algorithm: a problem, batches to run, a verdict at the end; and the loop that drives one."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.core.codec import serialisable
from levers.core.cost import Cost, study_cost
from levers.core.model.confirmation import Confirmation
from levers.core.model.elimination import Elimination
from levers.core.model.ordinary import Fitted
from levers.core.outcome_scale import EVERY_SCALE, LINEAR, OutcomeScale
from levers.core.space import FREE, Assignment, Codes, Level, Space, with_taken
from levers.core.validation import check_count, check_outcomes, check_probability, check_scale
from levers.errors import InvalidSettingError, OutcomeMismatchError

CHUNK = 16_384
"""The most runs in one batch: memory stays the same however long a phase is."""
PAST = "past data"
"""The stage of runs that were made before or beside the study."""


@serialisable("Problem")
@dataclass(frozen=True, slots=True)
class Problem:
    """What is asked for: an assignment within `tolerance` of the best, except with probability `failure_prob`.

    `noise_sd` is the standard deviation of the noise, None when it is not known. A tolerance of None asks for the
    smallest that a budget of runs can certify. Not every algorithm can do without them.

    >>> Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0).space.n_factors
    2
    """

    space: Space
    tolerance: float | None
    failure_prob: float
    noise_sd: float | None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            check_scale("tolerance", self.tolerance)
        check_probability("failure_prob", self.failure_prob)
        if self.noise_sd is not None:
            check_scale("noise_sd", self.noise_sd)


@serialisable("Batch")
@dataclass(frozen=True, eq=False)
class Batch:
    """Runs to make: one row of level positions each. A cell that is FREE is left to nature.

    `asked` is None while it is so. Once the levels that nature chose are filled in, it is what was asked for.

    >>> batch = Batch(np.array([[0, 1], [1, FREE]], dtype=np.int16), stage="test")
    >>> batch.n_runs, batch.is_global
    (2, False)
    >>> seen = batch.observed([[0, 1], [1, 2]])
    >>> seen.is_global, seen.as_made.tolist()
    (True, [[0, 1], [1, -4]])
    """

    codes: Codes
    stage: str
    focus: int | None = None
    asked: Codes | None = None

    @property
    def n_runs(self) -> int:
        """How many runs."""
        return len(self.codes)

    @property
    def is_global(self) -> bool:
        """Whether every factor is set in every run."""
        return bool((self.codes != FREE).all())

    def observed(self, codes: ArrayLike) -> "Batch":
        """The same batch with the levels that nature chose filled in."""
        seen = np.asarray(codes, dtype=np.int16)
        if seen.shape != self.codes.shape:
            raise OutcomeMismatchError(f"the batch has shape {self.codes.shape}, the observed levels {seen.shape}")
        if ((self.codes != FREE) & (self.codes != seen)).any():
            raise OutcomeMismatchError("the observed levels differ from levels that the batch had set")
        return replace(self, codes=seen, asked=self.codes)

    @property
    def as_made(self) -> Codes:
        """The rows with both what was left to nature and what it took   (core.space.with_taken)."""
        return self.codes if self.asked is None else with_taken(self.asked, self.codes)


@serialisable("BlockRecord")
@dataclass(frozen=True, slots=True)
class BlockRecord:
    """One block of runs that was designed and completed: enough to make its design again."""

    stage: str
    n_runs: int
    seed: int
    design: str
    inflation: float
    digest: str


@serialisable("Remark")
@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a verdict rests on (a proviso), or that speaks against it (a doubt).

    `kind` is what programs go by, and `text` says it to people. `levers`, `trials` and `block` (from 1) are what it is
    about, and `p_value` how surely outcomes of the model look like this. `scale` is that on which the same outcomes
    would raise no such doubt, if there is one.
    """

    kind: str
    text: str
    levers: tuple[str, ...] = ()
    trials: tuple[int, ...] = ()
    block: int | None = None
    p_value: float | None = None
    scale: str | None = None


STOPPED_EARLY = Remark(
    "stopped early", "the study was stopped before its end; what is certified holds whenever one stops"
)
"""What a verdict rests on when somebody ended the study."""
PLANNED_END = Remark(
    "planned end",
    "intervals, and what is shown to matter, are for this end, which was fixed in advance (checked numerically)",
)
"""What a verdict rests on at the end of a budget: what holds at any time would say much less."""
NOT_COMPARED = Remark("not compared", "no lever was left alone yet: what is promised is about settings of all levers")
"""The same where levers may be left alone, and it was not tried what that yields."""
LENGTH_CHOSEN = Remark(
    "length chosen",
    "the study went on or was restated after its outcomes were seen; what is certified allows for that",
)
"""The same when somebody decided that it goes on, or for what."""


ONLY_WITH_CLAIMS = Remark("only with claims", "without what was claimed of levers, nothing is certified")
"""The same where a certificate rests on what was claimed, and no smaller one could be computed that does not."""


def only_with_claims(claimed: bool, tolerance: float | None, without_claims: float | None) -> tuple[Remark, ...]:
    """That remark, where something was claimed and certified, and there is no tolerance without the claim.

    >>> [remark.kind for remark in only_with_claims(True, 0.5, None)], only_with_claims(True, 0.5, 1.3)
    (['only with claims'], ())
    """
    return (ONLY_WITH_CLAIMS,) if claimed and tolerance is not None and without_claims is None else ()


def within_words(within: str, compared_with: str, sure: str, without_claims: str | None) -> str:
    """How far from the best a setting is, and how surely; and how far without what was claimed of levers, if anything.

    >>> within_words("0.5", "the best", "with probability 90 %", "1.3")
    'within 0.5 of the best with probability 90 %; within 1.3 without what was claimed of levers'
    """
    said = f"within {within} of {compared_with} {sure}"
    return said if without_claims is None else f"{said}; within {without_claims} without what was claimed of levers"


_Span = tuple[float, float] | None


@serialisable("Verdict")
@dataclass(frozen=True)
class Verdict:
    """The answer, and what may be said about it.

    `tolerance` is how far from the best the assignment can be, None where nothing can be certified (a proviso says
    why). `parents` are the factors found to have an effect (None when the algorithm does not look for them);
    `effects[k][i]` estimates how much level i of factor k loses against the chosen level (None when not known), and
    `intervals[k][i]` holds the true loss, all of them at once, with probability 1 - failure_prob. A study adds what any
    regression program says: `usual_intervals` hold one by one with 95 %, and `p_values` are those of the F test of each
    lever. `parents_together` are levers studied as one of which some have an effect, though it is not shown which: a
    group for each, none of which is among the `parents`. `certificate` and `noise` say what the guarantee rests on.
    `problem`, `options` and `blocks` let the verdict be recomputed from the raw outcomes, by the version of levers that
    keeps to the same `rules`. `guarantee` says what is promised, `provisos` on what conditions, and `doubts` what in
    the outcomes contradicts them; `statement` says all of it. `confirmation` is what fresh runs at the setting say,
    where somebody asked for them.

    `tolerance_without_claims` is what the same runs certify, with the same probability, if `max_parents` and
    `min_effect` may be false: None where neither was relied on, and where there is no such number (a proviso says so).

    With the `scale` "log", tolerance, effects and intervals of a study's verdict are shares of the better outcome: 0.05
    is 5 %. A solver knows of no scale.
    """

    algorithm: str
    assignment: Assignment
    n_runs: int
    tolerance: float | None
    failure_prob: float
    guarantee: str
    parents: tuple[str, ...] | None = None
    effects: tuple[tuple[float | None, ...], ...] = ()
    eliminations: tuple[Elimination, ...] = ()
    runs_by_stage: tuple[tuple[str, int], ...] = ()
    intervals: tuple[tuple[tuple[float, float] | None, ...], ...] = ()
    certificate: str | None = None
    noise: str | None = None
    goal: str = "maximize"
    problem: Problem | None = None
    options: tuple[tuple[str, str | float | int | None], ...] = ()
    blocks: tuple[BlockRecord, ...] = ()
    rules: int = 1
    provisos: tuple[Remark, ...] = ()
    doubts: tuple[Remark, ...] = ()
    usual_intervals: tuple[tuple[tuple[float, float] | None, ...], ...] = ()
    p_values: tuple[float | None, ...] = ()
    confirmation: Confirmation | None = None
    scale: str = LINEAR
    tolerance_without_claims: float | None = None
    parents_together: tuple[tuple[str, ...], ...] = ()

    def on_scale(self, scale: OutcomeScale) -> "Verdict":
        """The same as people read it, from what a solver says: tolerance, losses and intervals on the outcome's scale.

        `problem` stays as the solver had it.
        """
        if not scale.is_log:
            return self

        def lost(spans: tuple[tuple[_Span, ...], ...]) -> tuple[tuple[_Span, ...], ...]:
            return tuple(tuple(s and (scale.loss(s[0]), scale.loss(s[1])) for s in row) for row in spans)

        return replace(
            self,
            scale=scale.name,
            tolerance=scale.loss(self.tolerance),
            tolerance_without_claims=scale.loss(self.tolerance_without_claims),
            effects=tuple(tuple(scale.loss(loss) for loss in row) for row in self.effects),
            eliminations=tuple(replace(one, gap=scale.loss(one.gap)) for one in self.eliminations),
            intervals=lost(self.intervals),
            usual_intervals=lost(self.usual_intervals),
            noise=None if self.noise is None else f"{self.noise}, of the logarithm (0.1 is about 10 %)",
        )

    def _repr_html_(self) -> str:
        from levers.extensions import html_of

        return html_of(self)

    @property
    def on_parents(self) -> dict[str, Level]:
        """The intervention restricted to the factors found to matter (second half of the paper's parent theorem).

        One of them that is left to nature is not set here either. Of levers that are found to matter together all are.
        """
        found = (*(self.parents or ()), *(name for group in self.parents_together for name in group))
        return {name: self.assignment[name] for name in found if name in self.assignment}

    @property
    def shown_to_matter(self) -> tuple[str, ...]:
        """The parents, and levers that are found to matter together as one name: what is said to matter."""
        return (*(self.parents or ()), *(" + ".join(group) for group in self.parents_together))

    @property
    def p_values_by_lever(self) -> dict[str, float | None]:
        """The p-values of the ordinary tests by the names of the factors; empty where there are none."""
        return dict(zip(self.assignment.space.names, self.p_values, strict=False))

    @property
    def within(self) -> float:
        """How far from the best the assignment can be; infinite where nothing is certified."""
        return math.inf if self.tolerance is None else self.tolerance

    @property
    def promise(self) -> str:
        """How far from the best the assignment can be, and how surely, in words."""
        said = "nothing is certified"
        if self.tolerance is not None:
            sure = f"with probability at least {1 - self.failure_prob:.0%}"
            within, unclaimed = (
                None if one is None else EVERY_SCALE[self.scale].certified(one)
                for one in (self.tolerance, self.tolerance_without_claims)
            )
            said = within_words(within or "", self.compared_with, sure, unclaimed)
        return f"in doubt (otherwise {said})" if self.doubts else said

    @property
    def holds_at_any_time(self) -> bool:
        """Whether intervals hold whenever one looks, and not only at an end that was fixed in advance."""
        return all(proviso.kind != PLANNED_END.kind for proviso in self.provisos)

    @property
    def compared_with(self) -> str:
        """What the certificate is about, in words: all that could be done, or settings of all levers only."""
        set_only = any(proviso.kind == NOT_COMPARED.kind for proviso in self.provisos)
        return "the best setting of all levers" if set_only else "the best"

    @property
    def statement(self) -> str:
        """The guarantee with its provisos and doubts, as one text; where nothing is certified, why not."""
        doubts = [f"ASSUMPTION IN DOUBT: {doubt.text}" for doubt in self.doubts]
        guarantee = [] if self.tolerance is None or doubts else [self.guarantee]  # nothing is proven beside a doubt
        return "; ".join([*guarantee, *(proviso.text for proviso in self.provisos), *doubts])


@dataclass(frozen=True, slots=True)
class Outlook:
    """Runs after the block under way: about so many, and so many in the worst case (None when there is no telling)."""

    likely: int | None = None
    worst_case: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What a state says of itself: the leading levels, what was ruled out, the noise reckoned with, whether it is the
    end, and whether tied levers are fitted by their parts."""

    leaders: tuple[int, ...] = ()
    eliminations: tuple[Elimination, ...] = ()
    noise_sd: float | None = None
    finished: bool = False
    by_parts: bool = False


@dataclass(frozen=True)
class Algorithm(ABC):
    """What runs a study: three pure methods over a frozen state that `to_json` can write.

    An algorithm is a frozen dataclass whose first field is the problem; its other fields are its options. `start`,
    `ask` and `tell` are all it must have. Randomness comes in from outside. The state is the algorithm's own: hand
    back what `start` and `tell` returned. What studies would like to know besides has a default. `__post_init__` may
    refuse options, and do nothing else: an algorithm of a study that goes on is made without it.
    """

    name: ClassVar[str]
    """The name in the registry."""
    sets_every_lever: ClassVar[bool] = True
    """Whether every run sets every factor, so that a person or a function can make it."""
    absorbs_runs: ClassVar[bool] = False
    """Whether `absorb` uses runs that the algorithm did not ask for."""
    certifies_early: ClassVar[bool] = False
    """Whether `interim` says something before the end."""
    compares_within_blocks: ClassVar[bool] = False
    """Whether levels are compared inside blocks only, so that drift between blocks does no harm."""
    finishes_early: ClassVar[bool] = False
    """Whether `finish`, `extend` and `resume` can be used: the study may be ended, and go on, whenever one likes."""

    problem: Problem

    @property
    def cost(self) -> Cost:
        """What a study costs to begin, about. It follows from level counts and options; nothing is computed for it."""
        return study_cost(self.problem.space.n_levels)

    @abstractmethod
    def start(self) -> Any:
        """The state before the first run."""

    def start_like(self, state: Any) -> Any:
        """The same by the rules under which a state was begun, where an algorithm keeps those of earlier versions."""
        return self.start()

    @abstractmethod
    def ask(self, state: Any, rng: np.random.Generator) -> Batch | Verdict:
        """The runs to make next, or the verdict. Asking again with the same generator state gives the same runs."""

    @abstractmethod
    def tell(self, state: Any, batch: Batch, outcomes: ArrayLike) -> Any:
        """The state after the batch's outcomes."""

    def tell_block(self, state: Any, batch: Batch, outcomes: ArrayLike) -> Any:
        """Like `tell`, for a whole batch whose rows were stored when it was asked for, perhaps by an older version."""
        return self.tell(state, batch, outcomes)

    def block_lengths(self, state: Any, n_runs: int) -> tuple[int, ...]:
        """How many rows of a round of so many runs belong to each of its blocks, such as days, in order.

        A block has a constant of its own in fits.
        """
        return (n_runs,)

    def absorb(self, state: Any, codes: Codes, outcomes: ArrayLike, stage: str, order: ArrayLike | None = None) -> Any:
        """The state with runs added that were made, but not asked for. See `absorbs_runs`.

        `order` says which rows of their round they were, where some of it are missing.
        """
        return state

    def interim(self, state: Any) -> Verdict | None:
        """The verdict if the study ended now; None when nothing can be said yet. See `certifies_early`."""
        return None

    def look_inside(self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> Any:
        """The state at a look inside a round, of which these runs were told; None where it says nothing.

        It is for `interim` and `fitted` only: the round goes on. `order` says which rows of the round they are.
        """
        return None

    def interim_inside(
        self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None
    ) -> Verdict | None:
        """What `interim` says at such a look."""
        seen = self.look_inside(state, codes, outcomes, order)
        return None if seen is None else self.interim(seen)

    def fitted(self, state: Any) -> Fitted | None:
        """The additive fit by which the leaders were chosen; None where there is none, or not yet."""
        return None

    def finish(self, state: Any, codes: Codes, outcomes: ArrayLike, order: ArrayLike | None = None) -> Any:
        """The state at an end that somebody chose, with these runs of the round under way. See `finishes_early`.

        `order` says which rows of the round they are, where they are not its first ones.
        """
        raise InvalidSettingError(f"{self.name} cannot stop before its end; cfs can")

    def extend(self, state: Any, n_runs: int | None) -> Any:
        """The state of a study that goes on after its end, with a block of so many runs, or as many as it likes."""
        raise InvalidSettingError(f"{self.name} cannot go on after its end; cfs can")

    def resume(self, state: Any) -> Any:
        """The state after deciding on all that was absorbed into a fresh start, as if it had been asked for."""
        return state

    def outlook(self, state: Any, n_asked: int) -> Outlook:
        """The runs that will follow the `n_asked` of the block under way."""
        return Outlook()

    def progress(self, state: Any) -> Progress:
        """Where the state stands, in the terms that all algorithms share."""
        return Progress()

    @classmethod
    def study_options(cls, n_factors: int) -> dict[str, Any]:
        """Options that a durable study sets besides those that its user chose."""
        return {}

    # What most algorithms need

    @cached_property
    def space(self) -> Space:
        """The problem's space."""
        return self.problem.space

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """How many levels each factor has."""
        return self.problem.space.n_levels

    @cached_property
    def tolerance(self) -> float:
        """The problem's tolerance, for algorithms that need one."""
        return self._given("tolerance", self.problem.tolerance)

    @cached_property
    def failure_prob(self) -> float:
        """The problem's failure probability."""
        return self.problem.failure_prob

    @cached_property
    def noise_sd(self) -> float:
        """The problem's noise, for algorithms that need to know it."""
        return self._given("noise_sd", self.problem.noise_sd)

    def check_complete(self) -> None:
        """Refuse a problem that leaves out what this algorithm needs to know."""
        _ = self.tolerance, self.noise_sd

    def _given(self, name: str, value: float | None) -> float:
        if value is None:
            raise InvalidSettingError(
                f"{self.name} needs {name}; give a number, or use cfs, which can do without", field=name
            )
        return value

    def accept(self, batch: Batch, outcomes: ArrayLike) -> NDArray[np.float64]:
        """The outcomes as numbers, after checking that they answer this batch."""
        if not isinstance(batch, Batch):
            raise OutcomeMismatchError(f"tell needs the batch that ask returned, not {type(batch).__name__}")
        if batch.codes.ndim != 2 or batch.codes.shape[1] != self.space.n_factors:
            raise OutcomeMismatchError(f"the batch is for {batch.codes.shape[1:]} factors, not {self.space.n_factors}")
        if not batch.is_global:
            raise OutcomeMismatchError(
                "some factors were left to nature; fill them in with batch.observed(codes) first"
            )
        return check_outcomes(outcomes, batch.n_runs)

    def verdict_on(self, levels: Sequence[int], n_runs: int, guarantee: str, **more: Any) -> Verdict:
        """The verdict for these level positions, on the problem as it was given; `more` are its other fields."""
        assignment = self.space.assignment(levels)
        return Verdict(self.name, assignment, n_runs, self.tolerance, self.failure_prob, guarantee, **more)

    def check_due(self, due: bool) -> None:
        """Refuse a batch that is not the one that is due: told twice, or from another point of the study."""
        if not due:
            raise OutcomeMismatchError("this batch is not the one that is due; ask again and tell that one, once")

    def check_max_parents(self, max_parents: int | None) -> None:
        """Validate the optional bound on the number of parents."""
        if max_parents is not None:
            check_count("max_parents", max_parents, 1, self.space.n_factors)


def add_runs(stages: tuple[tuple[str, int], ...], stage: str, n_runs: int) -> tuple[tuple[str, int], ...]:
    """Runs per stage with some more added; stages stay in the order they began.

    >>> add_runs(add_runs((), "phase 1", 5), "phase 1", 3)
    (('phase 1', 8),)
    """
    counted = dict(stages)
    counted[stage] = counted.get(stage, 0) + n_runs
    return tuple(counted.items())


def run_to_verdict(
    algorithm: Algorithm, outcomes_of: Callable[[Batch], tuple[Batch, ArrayLike]], rng: np.random.Generator
) -> Verdict:
    """Drive an algorithm to its verdict.

    `outcomes_of` makes the runs; it returns the batch as it was run (what nature chose filled in) and the outcomes.

    >>> from levers.algorithms.modl import Modl
    >>> noise = np.random.default_rng(1)
    >>> def outcomes_of(batch):
    ...     return batch, 2.0 * batch.codes[:, 1] + noise.normal(size=batch.n_runs)
    >>> modl = Modl(Problem(Space.sized([2, 3]), tolerance=0.5, failure_prob=0.1, noise_sd=1.0))
    >>> run_to_verdict(modl, outcomes_of, np.random.default_rng(0)).assignment["X2"]
    3
    """
    state = algorithm.start()
    while isinstance(step := algorithm.ask(state, rng), Batch):
        batch, outcomes = outcomes_of(step)
        state = algorithm.tell(state, batch, outcomes)
    return step
