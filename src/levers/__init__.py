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

_NAMES = {
    "algorithms.base": "Algorithm Batch Problem Verdict run_to_verdict",
    "algorithms.cfs.verify": "Verification verify",
    "algorithms.registry": "ALGORITHMS make_algorithm",
    "client": "Client",
    "core.codec": "from_json to_json",
    "core.space": "Assignment Factor Level Space",
    "experiments.compare": "Comparison",
    "experiments.optimize": "optimize",
    "experiments.plan": "Plan plan",
    "experiments.runner": "run_on_world",
    "studies.library": "copy_study create_study delete_study list_studies load_study merge_study",
    "studies.state": "Trial TrialState",
    "studies.storage.memory": "MemoryStorage",
    "studies.study": "Study",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each public name."""

# values, algorithms, studies, and loops over them
__all__ = ["Assignment", "Factor", "Level", "LeversError", "Space", "from_json", "to_json"]
__all__ += ["ALGORITHMS", "Algorithm", "Batch", "Problem", "Verdict", "Verification"]
__all__ += ["make_algorithm", "run_to_verdict", "verify"]
__all__ += ["Client", "MemoryStorage", "Study", "Trial", "TrialState"]
__all__ += ["copy_study", "create_study", "delete_study", "list_studies", "load_study", "merge_study"]
__all__ += ["Comparison", "Plan", "optimize", "plan", "run_on_world"]


def __getattr__(name: str) -> Any:
    if name == "from_json":
        import_module("levers.algorithms.registry")  # which tells the codec where the states of algorithms are
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"levers.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
