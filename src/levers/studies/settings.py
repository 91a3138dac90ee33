"""The settings of a study, in one table: every face of the library (Python, command, HTTP, form) offers these.

A new setting is one entry here and one argument of `create_study` (or of `plan`); the command's option, the field of
the HTTP request and that of the form are made from the entry. tests/studies/test_settings.py holds the explicit
signatures to the table.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from levers.core.outcome_scale import SCALES

CREATE, PLAN, FORM = "create", "plan", "form"
"""Faces: creating a study (`create_study`, `levers create`, HTTP), planning one, and the form for a new study."""

LEVERS, RUNS, NOISE, OUTCOME, KNOWN, MORE = "levers", "runs", "noise", "outcome", "known", "more"
QUESTIONS = {
    LEVERS: ("Levers and their levels", ""),
    RUNS: ("How many runs, or how close to the best?", ""),
    NOISE: ("Do you know the noise?", "The noise is how much outcomes differ when nothing is changed."),
    OUTCOME: ("What is good?", ""),
    KNOWN: (
        "What else do you know, if you are sure of it?",
        "Both save most of the runs when they are true, and void the guarantee when they are not.",
    ),
    MORE: ("More", ""),
}
"""The questions of the form in the order in which it asks them, each with a hint."""

GOALS = ("maximize", "minimize")
AIMS = ("certify", "best")
NOISES = ("gaussian", "subgaussian")
PROOFS = ("slippage", "proven")
Kind: TypeAlias = Literal[
    "choice",
    "text",
    "positive",
    "amount",
    "number",
    "probability",
    "count",
    "whole",
    "combinations",
    "groups",
    "assignment",
    "names",
]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, what values it takes, what people read about it, and who offers it.

    `kind` says what values it takes: `count` is a whole number from 1, `whole` from 0, `amount` a number or a text such
    as 5%, `combinations` are levels that cannot be run together, `groups` are levers to study as one, `assignment` is a
    level for every lever, `names` are levers. `label` is how messages call it, `field` how the form
    does, and `help` says more. `question` is the part of the form that asks for it. `words` are what people read for
    each choice, `example` shows what to type, and `flags` are further names of the command's option.
    """

    name: str
    kind: Kind
    label: str
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    faces: tuple[str, ...] = (CREATE, PLAN, FORM)
    field: str = ""
    question: str = MORE
    words: tuple[tuple[str, str], ...] = ()
    example: str = ""
    flags: tuple[str, ...] = ()

    @property
    def type(self) -> type:
        """The Python type of one value."""
        reals, wholes = ("positive", "number", "probability"), ("count", "whole")
        return float if self.kind in reals else int if self.kind in wholes else str

    @property
    def title(self) -> str:
        """What stands above its field.

        >>> Setting("seed", "whole", "the seed", "Same seed, same design.").title
        'Seed'
        """
        return self.field or self.label.removeprefix("the ").capitalize()


_STUDY, _ALL = (CREATE, FORM), (CREATE, PLAN, FORM)
SETTINGS = (
    Setting(
        "budget",
        "count",
        "the budget",
        "Runs available, from 2 up, instead of a tolerance: the study makes so many and recommends a setting.",
        field="I can make so many runs",
        question=RUNS,
    ),
    Setting(
        "block_size",
        "count",
        "the block size",
        "Runs that are made together: in a day, on one sheet.",
        field="Runs in a day, or on a sheet",
        question=RUNS,
        flags=("--per-day",),
    ),
    Setting(
        "tolerance",
        "amount",
        "the tolerance",
        "How far from the best is good enough, in the unit of the outcome; 5% is of today's outcome, and on a log "
        "scale of the best one's.",
        field="It must be as close as",
        question=RUNS,
    ),
    Setting(
        "max_runs",
        "count",
        "the most runs",
        "At most so many runs, beside a tolerance; the study then ends with what it can promise.",
        faces=_STUDY,
        field="but in at most so many runs",
        question=RUNS,
    ),
    Setting(
        "failure_prob",
        "probability",
        "the failure probability",
        "How often the answer may be worse than promised; 0.1 is one in ten.",
        0.1,
        question=RUNS,
    ),
    Setting(
        "noise_sd",
        "positive",
        "the noise",
        "Standard deviation of the outcome when nothing is changed; a study learns it if unknown. On a log scale 0.1 "
        "is about 10 %.",
        field="Yes, its standard deviation is",
        question=NOISE,
    ),
    Setting(
        "noise",
        "choice",
        "the shape of the noise",
        "gaussian (default), or subgaussian for noise of any shape, such as yes or no: it takes more runs.",
        None,
        NOISES,
        (CREATE, PLAN),
        question=NOISE,
    ),
    Setting(
        "expected_noise",
        "positive",
        "the expected noise",
        "What an unknown noise may turn out to be. Plans are made with it, and nothing else rests on it.",
        faces=(PLAN, FORM),
        field="No, the study learns it; my guess",
        question=NOISE,
    ),
    Setting(
        "goal",
        "choice",
        "the goal",
        "maximize or minimize.",
        GOALS[0],
        GOALS,
        field="A good outcome is",
        question=OUTCOME,
        words=(("maximize", "large"), ("minimize", "small")),
    ),
    Setting(
        "scale",
        "choice",
        "the scale",
        "linear: effects add up. log: effects multiply and noise is in percent, as with times, yields, concentrations "
        "and costs; outcomes are above 0.",
        SCALES[0],
        SCALES,
        field="What a lever does",
        question=OUTCOME,
        words=(("linear", "adds to the outcome"), ("log", "multiplies it, as it saves 20 % of a time")),
    ),
    Setting(
        "max_parents",
        "count",
        "the number of levers that matter",
        "At most so many levers matter.",
        field="At most so many levers matter",
        question=KNOWN,
    ),
    Setting(
        "min_effect",
        "positive",
        "the least effect",
        "A lever that matters moves the outcome by at least so much; on a log scale 0.1 is 10 %.",
        field="A lever that matters moves the outcome by at least",
        question=KNOWN,
    ),
    Setting(
        "aim",
        "choice",
        "the aim",
        "What runs serve: certify the smallest tolerance, or find the best setting (default with a budget).",
        None,
        AIMS,
        _STUDY,
        field="What the runs serve",
        words=(
            ("", "what is usual: the setting recommended if there is a budget, else the certificate"),
            ("best", "the setting recommended at the end"),
            ("certify", "what can be certified about it"),
        ),
    ),
    Setting(
        "effect_sd",
        "positive",
        "the spread of effects",
        "Standard deviation of effects, to simulate what a budget achieves; that of the noise if not given.",
        faces=(PLAN,),
    ),
    Setting("algorithm", "text", "the algorithm", "See `levers algorithms`.", "cfs", faces=(CREATE,)),
    Setting(
        "forbidden",
        "combinations",
        "what is forbidden",
        "Levels that cannot be run together.",
        (),
        (),
        _ALL,
        field="Combinations that cannot be run, one a line",
        question=LEVERS,
        example="heat=high, speed=4",
    ),
    Setting(
        "merged",
        "groups",
        "what is merged",
        "Levers that influence each other, studied as one: its levels are all their combinations, and it takes more "
        "runs.",
        (),
        (),
        _ALL,
        field="Levers that influence each other, one group a line",
        question=LEVERS,
        example="heat, speed",
    ),
    Setting(
        "free",
        "names",
        "what may be left alone",
        "Levers that some runs leave alone, to see whether that does better: then somebody writes down what they took.",
        (),
        (),
        _STUDY,
        field="Levers that may be left alone",
        question=LEVERS,
        example="heat, speed",
    ),
    Setting(
        "hard_to_change",
        "names",
        "what is hard to change",
        "Levers that take time or money to change, the hardest first: in a day, runs with the same level of them stand "
        "together.",
        (),
        (),
        _STUDY,
        field="Levers that are hard to change, the hardest first",
        question=LEVERS,
        example="mould, heat",
    ),
    Setting(
        "baseline",
        "assignment",
        "the baseline",
        "The setting in place today, with a level of every lever. The study says what is gained over it.",
        faces=_STUDY,
        field="The setting in place today",
        question=OUTCOME,
        example="heat=low, speed=2",
    ),
    Setting(
        "baseline_outcome",
        "number",
        "the baseline's outcome",
        "The outcome today, which a tolerance in percent is of unless the scale is log.",
        field="Its outcome",
        question=OUTCOME,
    ),
    Setting("seed", "whole", "the seed", "Same seed, same design; one is drawn if none is given.", faces=_STUDY),
    Setting(
        "certificate",
        "choice",
        "the certificate",
        "slippage (default), or proven for a complete proof: it takes more runs.",
        None,
        PROOFS,
        (CREATE, PLAN),
    ),
)


def settings_of(face: str) -> tuple[Setting, ...]:
    """The settings that a face offers.

    >>> [setting.name for setting in settings_of(PLAN)][:3]
    ['budget', 'block_size', 'tolerance']
    """
    return tuple(setting for setting in SETTINGS if face in setting.faces)
