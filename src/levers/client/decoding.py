"""A service's answers as the values that a local study returns."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from levers.core.merging import forbidden_combinations, merged_groups
from levers.core.space import Factor, Space
from levers.errors import StorageError
from levers.experiments.planning import Plan, TradeOff
from levers.studies.fold import Correction
from levers.studies.spec import StudySpec
from levers.studies.trials import Trial, TrialState
from levers.studies.views import Best, Forecast, Status

T = TypeVar("T")


def made(kind: type[T], data: Mapping[str, Any], **more: Any) -> T:
    """A dataclass from its fields. A newer service may send more than is known here.

    >>> made(Forecast, {"now": 3, "likely": None, "worst_case": 9, "new": 1})
    Forecast(now=3, likely=None, worst_case=9)
    """
    names = [field.name for field in dataclasses.fields(kind) if field.name not in more]  # type: ignore[arg-type]
    try:
        return kind(**{name: data[name] for name in names}, **more)
    except (KeyError, TypeError):
        raise StorageError(f"the service is of another version: its {kind.__name__} is not known here") from None


def spec(data: Mapping[str, Any]) -> StudySpec:
    """What a study is asked to find."""
    space = Space([Factor(factor["name"], factor["levels"]) for factor in data["factors"]])
    return made(
        StudySpec,
        data,
        space=space,
        options=tuple(sorted(data["options"].items())),
        forbidden=forbidden_combinations(space, data["forbidden"]),
        merged=merged_groups(space, data["merged"]),
    )


def trial(space: Space, data: Mapping[str, Any]) -> Trial:
    """One trial."""
    return made(
        Trial,
        data,
        number=data["trial"],
        params=space.encode(data["params"]),
        block=data["block"] - 1,
        state=TrialState[data["state"]],
    )


def status(data: Mapping[str, Any]) -> Status:
    """Where a study stands."""
    return made(Status, data, to_go=made(Forecast, data["to_go"]))


def best(space: Space, data: Mapping[str, Any]) -> Best | None:
    """The setting that the estimates favour."""
    return None if data["params"] is None else made(Best, data, params=space.encode(data["params"]))


def correction(data: Mapping[str, Any]) -> Correction:
    """A corrected outcome."""
    return made(Correction, data, changes=tuple(data["changes"]))


def plan(data: Mapping[str, Any]) -> Plan:
    """How many runs a study takes."""
    return made(Plan, data, trade_off=tuple(made(TradeOff, one) for one in data["trade_off"]))
