"""What speaks against a study's answer, each with what can be done about it."""

from dataclasses import dataclass

from levers.algorithms.base import Remark
from levers.charts.view import StudyView

NOISE_KINDS = ("noise", "spread", "drift", "serial")
"""Doubts that another noise answers."""
CLAIMS = ("max_parents", "min_effect")
"""Doubts about what was claimed, which can be taken back."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What speaks against the answer, and what can be done about it."""

    remark: Remark

    @property
    def text(self) -> str:
        """For people, as a sentence."""
        return f"{self.remark.text[:1].upper()}{self.remark.text[1:]}."

    @property
    def trials(self) -> tuple[int, ...]:
        """The trials that it names: each can be corrected, or left out."""
        return self.remark.trials[:20]

    @property
    def asks_for_noise(self) -> bool:
        """Whether another noise would answer it."""
        return self.remark.kind in NOISE_KINDS

    @property
    def asks_for_claims(self) -> bool:
        """Whether it would be answered by claiming less."""
        return self.remark.kind in CLAIMS

    @property
    def asks_for_checks(self) -> bool:
        """Whether the page of checks says more, and what to do."""
        return self.remark.kind in ("additivity", "nonadditivity")


def doubts_of(view: StudyView) -> list[Doubt]:
    """All doubts, most telling first."""
    return [Doubt(remark) for remark in view.status.doubts]
