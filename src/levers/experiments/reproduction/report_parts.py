"""What both reports say: the claims, what the results were made with, and numbers in words."""

import platform
from collections.abc import Sequence
from importlib.metadata import version

import polars as pl

from levers.experiments.reproduction.catalogue import SWEEPS
from levers.experiments.reproduction.claims import Claim
from levers.experiments.reproduction.run import ALL, Reproduction
from levers.experiments.reproduction.styles import in_order
from levers.experiments.reproduction.sweep import WORLDS_AND_REPEATS

TITLE = "Additive Causal Bandits with Unknown Graph: the experiments, run again"
ABOUT = (
    "The experiments of the paper of that name (Malek, Aglietti, Chiappa, ICML 2023), run with the package levers. "
    "Each method sets or watches the levers of random worlds until it can name a setting that is, with probability "
    "0.9, within 0.5 of the best one. Counted are the runs it takes, and how far from the best its setting truly is: "
    "its gap. cfs is the method of levers, modl the paper's, the rest is there to compare."
)
READING = (
    "Means over worlds and repeats. Errors are one standard error, with worlds as the independent units. In figures "
    "the points of a place stand a little side by side, so that equal ones can be seen."
)
CLAIMS_HEADER = ("experiment", "claim", "measured", "verdict", "why")


def worlds_and_repeats(reproduction: Reproduction) -> str:
    """How many worlds and repeats there are, and who has fewer: counted in the results, not taken from the plan."""
    n_worlds, n_repeats = WORLDS_AND_REPEATS[reproduction.settings.size]
    by_point = reproduction.runs.group_by("experiment", "panel", "x", "contender").len("n")
    counts = by_point.group_by("experiment", "contender").agg(pl.col("n").max())
    repeats = {
        (experiment, contender): n for experiment, contender, n in counts.iter_rows() if n < n_worlds * n_repeats
    }
    fewer: dict[int, list[str]] = {}
    for contender in in_order(sorted(contender for _, contender in repeats)):
        by_n: dict[int, list[str]] = {}
        for name in reproduction.names:
            if (name, contender) in repeats:
                by_n.setdefault(repeats[name, contender], []).append(name)
        everywhere = counts.filter(pl.col("contender") == contender).height
        for n, names in by_n.items():
            where = "" if len(names) == everywhere else f" ({', '.join(names)})"
            fewer.setdefault(n, []).append(f"{contender}{where}")
    text = f"{n_worlds} worlds x {n_repeats} repeats"
    return text + "".join(f"; {n} runs of {', '.join(who)}" for n, who in fewer.items())


def made_with(reproduction: Reproduction) -> list[tuple[str, str]]:
    """The settings of a session, with what differs from one machine to the next."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("levers", "numpy", "scipy", "polars"))
    return [
        ("size", reproduction.settings.size),
        ("each point", worlds_and_repeats(reproduction)),
        ("seed", str(reproduction.settings.seed)),
        ("versions", f"{packages}, Python {platform.python_version()}"),
        ("tasks", f"{reproduction.n_tasks}, of which {reproduction.n_resumed} were there already"),
        ("time", f"{reproduction.seconds:,.1f} s in this session"),
    ]


def again(reproduction: Reproduction) -> str:
    """The commands that make the same results."""
    names, settings = reproduction.names, reproduction.settings
    whats = (ALL,) if names == tuple(SWEEPS) else names
    return "\n".join(
        f"levers reproduce {what} --size {settings.size} --seed {settings.seed} -o results" for what in whats
    )


def counted(claims: Sequence[Claim]) -> str:
    """How many claims got which verdict."""
    verdicts = [claim.verdict for claim in claims]
    parts = [f"{verdict}: {verdicts.count(verdict)}" for verdict in dict.fromkeys(verdicts)]
    return f"{len(claims)} claims. {'; '.join(parts)}." if claims else "No claims were checked."


def amount(mean: float, error: float | None) -> str:
    """A number of runs with its standard error.

    >>> amount(1532.4, 118.2), amount(7.25, None)
    ('1,532 ± 118', '7.2')
    """
    digits = 0 if mean >= 100 else 1
    return f"{mean:,.{digits}f}" + ("" if error is None else f" ± {error:,.{digits}f}")
