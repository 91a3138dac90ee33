"""Statements of the paper as checks, by experiment; docs/reproduction/sentences.md lists which sentence is where."""

from collections.abc import Callable, Iterator

from levers.reproduction.appendix import degree_claims, interactions_claims, misspecification_claims, support_claims
from levers.reproduction.evidence import AGREES, Claim, Lines
from levers.reproduction.main_text import elimination_claims, parents_claims
from levers.reproduction.run import Reproduction
from levers.reproduction.sweeps import GAUSSIAN
from levers.reproduction.theorems import gaps_claims, hardness_claims, recovery_claims, theorem_claims

CHECKS: dict[str, tuple[Callable[[Lines], Iterator[Claim]], ...]] = {
    "parents": (parents_claims, theorem_claims),
    "elimination": (elimination_claims,),
    "support": (support_claims,),
    "degree": (degree_claims,),
    "misspecification": (misspecification_claims,),
    "interactions": (interactions_claims,),
    "recovery": (recovery_claims,),
    "gaps": (gaps_claims,),
    "hardness": (hardness_claims,),
}
"""The checks of each experiment."""


def check_claims(reproduction: Reproduction) -> list[Claim]:
    """Every check of the experiments that were run.

    Numbers that were measured with the paper's noise are compared with results of that noise only.
    """
    lines = {name: Lines(reproduction.runs, name) for name in reproduction.names}
    found = [claim for name, here in lines.items() for checks in CHECKS[name] for claim in checks(here)]
    is_papers = reproduction.settings.noise == GAUSSIAN
    return [claim for claim in found if is_papers or not claim.name.startswith(AGREES)]
