"""What speaks against a study's answer, each with what can be done about it; and every check that was made."""

from dataclasses import dataclass

from levers.algorithms.base import Remark
from levers.charts.view import StudyView
from levers.studies.analysis.doubts import checks

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


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check in the table: its name, how likely such outcomes are if nothing is wrong, and below what it alarms."""

    kind: str
    p_value: float
    level: float
    alarms: bool
    text: str


NAMES = {
    "noise": "stated noise",
    "outlier": "outcomes that do not belong",
    "spread": "spread alike everywhere",
    "drift": "no drift",
    "serial": "runs do not follow the ones before",
    "shape": "shape of the noise",
    "max_parents": "number of levers that matter",
    "min_effect": "least effect",
    "nonadditivity": "effects add up on this scale",
    "pairs": "no pair of levers acts together",
    "lack of fit": "effects add up, by settings run again",
}
"""What each check is about, for people."""


def check_rows(view: StudyView) -> list[CheckRow]:
    """Every check of the runs so far, alarms first."""
    found = [
        CheckRow(NAMES.get(one.check.kind, one.check.kind), one.check.p_value, one.level, one.alarms, one.remark.text)
        for one in checks(view.state)
    ]
    added = view.additivity
    pairs = min((pair.adjusted for pair in added.checks), default=None)
    for kind, p_value in (("pairs", pairs), ("lack of fit", None if added.lack is None else added.lack.p_value)):
        if p_value is not None:
            found.append(CheckRow(NAMES[kind], p_value, added.level, p_value < added.level, ""))
    return sorted(found, key=lambda row: not row.alarms)
