"""The settings of a study, in one table: every face of the library (Python, command, HTTP, form) offers these.

A new setting is one entry here and one argument of `create_study` (or of `plan`); the command's option, the field of
the HTTP request and what the form reads are made from the entry. tests/studies/test_settings.py holds the explicit
signatures to the table.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

CREATE, PLAN, FORM = "create", "plan", "form"
"""Faces: creating a study (`create_study`, `levers create`, HTTP), planning one, and the form for a new study."""

GOALS = ("maximize", "minimize")
AIMS = ("certify", "best")
Kind: TypeAlias = Literal["choice", "text", "positive", "probability", "count", "whole", "combinations", "groups"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, what values it takes, what people read about it, and who offers it.

    `kind` says what values it takes: `count` is a whole number from 1, `whole` from 0, `combinations` are levels that
    cannot be run together, `groups` are levers to study as one. `label` is how messages of the form call it.
    """

    name: str
    kind: Kind
    label: str
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    faces: tuple[str, ...] = (CREATE, PLAN, FORM)

    @property
    def type(self) -> type:
        """The Python type of one value."""
        return {"positive": float, "probability": float, "count": int, "whole": int}.get(self.kind, str)


_STUDY = (CREATE, FORM)
SETTINGS = (
    Setting("goal", "choice", "the goal", "maximize or minimize.", GOALS[0], GOALS, _STUDY),
    Setting("tolerance", "positive", "the tolerance", "How far from the best is good enough."),
    Setting(
        "failure_prob", "probability", "the failure probability", "How often the answer may be worse than that.", 0.1
    ),
    Setting("noise_sd", "positive", "the noise", "Standard deviation of the noise; a study estimates it if unknown."),
    Setting(
        "expected_noise", "positive", "the expected noise", "What an unknown noise may turn out to be.", faces=(PLAN,)
    ),
    Setting("max_parents", "count", "the number of factors that matter", "At most so many factors matter."),
    Setting("min_effect", "positive", "the least effect", "A factor that matters moves the outcome so much."),
    Setting("budget", "count", "the budget", "Runs available, from 2 up, instead of a tolerance."),
    Setting("max_runs", "count", "the most runs", "At most so many runs, beside a tolerance.", faces=_STUDY),
    Setting(
        "aim",
        "choice",
        "the aim",
        "What runs serve: certify the smallest tolerance, or find the best setting (default with a budget).",
        None,
        AIMS,
        _STUDY,
    ),
    Setting(
        "effect_sd",
        "positive",
        "the spread of effects",
        "Standard deviation of effects, to simulate what a budget achieves; that of the noise if not given.",
        faces=(PLAN,),
    ),
    Setting("algorithm", "text", "the algorithm", "See `levers algorithms`.", "cfs", faces=(CREATE,)),
    Setting("forbidden", "combinations", "what is forbidden", "Levels that cannot be run together.", (), (), _STUDY),
    Setting("merged", "groups", "what is merged", "Levers that influence each other, studied as one.", (), (), _STUDY),
    Setting("seed", "whole", "the seed", "Same seed, same design.", faces=_STUDY),
    Setting(
        "block_size", "count", "the block size", "Runs that are made together: on a day, on one sheet.", faces=_STUDY
    ),
    Setting(
        "certificate",
        "choice",
        "the certificate",
        "slippage, proven or subgaussian.",
        "slippage",
        ("slippage", "proven", "subgaussian"),
        (PLAN,),
    ),
)


def settings_of(face: str) -> tuple[Setting, ...]:
    """The settings that a face offers.

    >>> [setting.name for setting in settings_of(PLAN)][:3]
    ['tolerance', 'failure_prob', 'noise_sd']
    """
    return tuple(setting for setting in SETTINGS if face in setting.faces)
