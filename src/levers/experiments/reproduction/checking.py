"""All claims of a reproduction."""

from collections.abc import Callable, Iterator

from levers.experiments.reproduction.claims import Claim, Lines
from levers.experiments.reproduction.claims_other import (
    degree_claims,
    elimination_claims,
    hardness_claims,
    misspecification_claims,
    support_claims,
)
from levers.experiments.reproduction.claims_parents import parents_claims
from levers.experiments.reproduction.run import Reproduction

_CHECKS: dict[str, Callable[[Lines], Iterator[Claim]]] = {
    "parents": parents_claims,
    "elimination": elimination_claims,
    "support": support_claims,
    "degree": degree_claims,
    "misspecification": misspecification_claims,
    "hardness": hardness_claims,
}


def check_claims(reproduction: Reproduction) -> list[Claim]:
    """Every check of the experiments that were run."""
    summary = reproduction.summary
    return [claim for name in reproduction.names for claim in _CHECKS[name](Lines(summary, name))]
