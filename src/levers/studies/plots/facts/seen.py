"""What is looked at in a study, worked out once for all the pictures of it."""

from dataclasses import dataclass
from functools import cached_property

from levers.algorithms.base import Verdict
from levers.algorithms.cfs import Cfs
from levers.studies import diagnostics, evidence, views
from levers.studies.estimates import Estimates
from levers.studies.fold import StudyState
from levers.studies.plots.facts.outcomes import Outcomes

MOST_POINTS = 400
"""The most residuals that are drawn."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A study as it is now, and its views: each is worked out when first asked for, and kept.

    Make one for each page and throw it away with the page: it does not follow the study.

    >>> import levers
    >>> study = levers.create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> seen = Seen("oven", study.state)
    >>> seen.lead, seen.n_runs, seen.effects is seen.effects
    ('leading', 0, True)
    """

    name: str
    state: StudyState

    @property
    def lead(self) -> str:
        """What the levels that are ahead are called."""
        return "chosen" if self.state.open_block is None else "leading"

    @cached_property
    def n_runs(self) -> int:
        """Outcomes that count, with the imported runs that are in use."""
        return self.state.n_complete + self._imported(self.state.n_past_used)

    @cached_property
    def _estimates(self) -> Estimates:
        return Estimates.of(self.state)

    @cached_property
    def status(self) -> views.Status:
        """Where the study stands."""
        return views.status(self.name, self.state)

    @cached_property
    def effects(self) -> list[views.EffectRow]:
        """Every level."""
        return views.effects(self.state, self._estimates)

    @cached_property
    def best(self) -> views.Best | None:
        """The setting that the estimates favour."""
        return views.best(self.state, self._estimates)

    @cached_property
    def forecast(self) -> views.Forecast:
        """Runs to go."""
        return views.forecast(self.state)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict; None before the end."""
        return views.verdict(self.state)

    @cached_property
    def outcomes(self) -> Outcomes:
        """Every outcome in the order of telling."""
        return Outcomes.of(self.state)

    @cached_property
    def steps(self) -> list[tuple[int, float]]:
        """Runs, and how far from the best the leading setting can be: after each block of cfs; else at the end."""
        solver, state = self.state.spec.solver, self.state
        if not isinstance(solver, Cfs):
            return [] if self.verdict is None else [(self.n_runs, self.verdict.tolerance)]
        found = [(solver.interim(known), used) for known, used in zip(state.known, state.past_used, strict=True)]
        # a verdict counts the study's own runs; levels are ruled out, and the end is counted, with the imported ones
        return [(v.n_runs + self._imported(used), v.tolerance) for v, used in found if v is not None]

    @cached_property
    def residuals(self) -> diagnostics.Residuals:
        """What the additive fit leaves over, as few enough points to draw."""
        return diagnostics.residuals(self.state, most=MOST_POINTS)

    @cached_property
    def additivity(self) -> diagnostics.Additivity:
        """Whether levers seem to interact."""
        return diagnostics.additivity(self.state)

    @cached_property
    def evidence(self) -> list[evidence.FactorEvidence]:
        """How strong the evidence is for each factor."""
        return evidence.evidence(self.state)

    def _imported(self, used: int) -> int:
        return sum(len(past.values) for past in self.state.past[:used])
