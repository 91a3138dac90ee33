"""Where a study's outcomes contradict what its verdict rests on."""

from levers.algorithms.base import Remark
from levers.studies.analysis.diagnostics import additivity
from levers.studies.state import StudyState


def doubts(state: StudyState) -> tuple[Remark, ...]:
    """Where the outcomes contradict the additive model that the guarantee assumes."""
    found = additivity(state)
    if not found.in_doubt:
        return ()
    names = {found.names[k] for pair in found.suspects for k in (pair.first, pair.second)}
    return (Remark("additivity", found.summary, tuple(name for name in found.names if name in names)),)
