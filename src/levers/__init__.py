"""levers: the best setting of every lever of a system, in as few experiments as provably possible.

>>> import levers
>>> levers.Space.of({"heat": ["low", "high"], "dose": [1, 2, 3]}).n_assignments
6
"""

from typing import TYPE_CHECKING, Any

from levers.algorithms.base import Algorithm, Batch, Problem, Verdict, run_to_verdict
from levers.algorithms.cfs.verify import Verification, verify
from levers.algorithms.registry import ALGORITHMS, make_algorithm
from levers.core.codec import from_json, to_json
from levers.core.space import Assignment, Factor, Level, Space
from levers.errors import LeversError
from levers.experiments.compare import Comparison
from levers.experiments.optimize import optimize
from levers.experiments.plan import Plan, plan
from levers.experiments.runner import run_on_world
from levers.studies.library import copy_study, create_study, delete_study, list_studies, load_study, merge_study
from levers.studies.state import Trial, TrialState
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study

if TYPE_CHECKING:
    from levers.client import Client

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Assignment",
    "Batch",
    "Client",
    "Comparison",
    "Factor",
    "Level",
    "LeversError",
    "MemoryStorage",
    "Plan",
    "Problem",
    "Space",
    "Study",
    "Trial",
    "TrialState",
    "Verdict",
    "Verification",
    "copy_study",
    "create_study",
    "delete_study",
    "from_json",
    "list_studies",
    "load_study",
    "make_algorithm",
    "merge_study",
    "optimize",
    "plan",
    "run_on_world",
    "run_to_verdict",
    "to_json",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "Client":  # needs httpx, which is an extra
        from levers.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
