"""levers: the best setting of every lever of a system, in as few experiments as provably possible.

Each name below is imported when it is first used, so that `import levers` takes no time.

>>> import levers
>>> levers.Space.of({"heat": ["low", "high"], "dose": [1, 2, 3]}).n_assignments
6
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from levers.errors import LeversError

if TYPE_CHECKING:  # what editors and type checkers see; __getattr__ below does the same when a program runs
    from levers.algorithms.base import Algorithm, Batch, Problem, Verdict, run_to_verdict
    from levers.algorithms.cfs.verify import Verification, verify
    from levers.algorithms.registry import ALGORITHMS, make_algorithm
    from levers.client import Client
    from levers.core.codec import from_json, to_json
    from levers.core.space import Assignment, Factor, Level, Space
    from levers.experiments.compare import Comparison
    from levers.experiments.optimize import optimize
    from levers.experiments.plan import Plan, plan
    from levers.experiments.runner import run_on_world
    from levers.studies.library import copy_study, create_study, delete_study, list_studies, load_study, merge_study
    from levers.studies.state import Trial, TrialState
    from levers.studies.storage.memory import MemoryStorage
    from levers.studies.study import Study

_MODULES = {
    "ALGORITHMS": "algorithms.registry",
    "Algorithm": "algorithms.base",
    "Assignment": "core.space",
    "Batch": "algorithms.base",
    "Client": "client",
    "Comparison": "experiments.compare",
    "Factor": "core.space",
    "Level": "core.space",
    "MemoryStorage": "studies.storage.memory",
    "Plan": "experiments.plan",
    "Problem": "algorithms.base",
    "Space": "core.space",
    "Study": "studies.study",
    "Trial": "studies.state",
    "TrialState": "studies.state",
    "Verdict": "algorithms.base",
    "Verification": "algorithms.cfs.verify",
    "copy_study": "studies.library",
    "create_study": "studies.library",
    "delete_study": "studies.library",
    "from_json": "core.codec",
    "list_studies": "studies.library",
    "load_study": "studies.library",
    "make_algorithm": "algorithms.registry",
    "merge_study": "studies.library",
    "optimize": "experiments.optimize",
    "plan": "experiments.plan",
    "run_on_world": "experiments.runner",
    "run_to_verdict": "algorithms.base",
    "to_json": "core.codec",
    "verify": "algorithms.cfs.verify",
}
"""Where each public name is defined."""

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
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"levers.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
