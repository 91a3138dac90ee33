"""A service of studies, from Python."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from levers.client.study import RemoteStudy, built, status, study_path
from levers.client.transport import Transport
from levers.core.outcome_scale import LINEAR
from levers.core.space import Level, Space
from levers.errors import NoSuchStudyError
from levers.experiments.plan import Budget, Plan, TradeOff
from levers.studies.analysis.views import Status
from levers.studies.settings import CREATE, PLAN, settings_of
from levers.studies.space_text import tolerance_amount


class Client:
    """The studies that a service keeps.

    `token` is what `levers token create` printed. A request that is not answered within `timeout` seconds is sent
    again, with growing pauses, until `patience` seconds are over; a change still happens only once.

    >>> client = Client("http://127.0.0.1:8080", patience=5.0)
    >>> client
    Client('http://127.0.0.1:8080')
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0, patience: float = 60.0) -> None:
        self._transport = Transport(url, token, timeout, patience)

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"  # never the token

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._transport.close()

    def studies(self) -> list[Status]:
        """Where each study stands, oldest first: those that the token opens."""
        return [status(one) for one in self._transport.pages("/studies")]

    def create_study(
        self,
        name: str,
        space: Space | Mapping[str, Sequence[Level]],
        *,
        goal: str = "maximize",
        tolerance: float | str | None = None,
        failure_prob: float = 0.1,
        noise_sd: float | None = None,
        max_parents: int | None = None,
        min_effect: float | None = None,
        budget: int | None = None,
        max_runs: int | None = None,
        aim: str | None = None,
        noise: str | None = None,
        certificate: str | None = None,
        algorithm: str = "cfs",
        forbidden: Iterable[Mapping[str, Level]] = (),
        merged: Iterable[Sequence[str]] = (),
        free: Iterable[str] = (),
        hard_to_change: Iterable[str] = (),
        seed: int | None = None,
        baseline: Mapping[str, Level] | None = None,
        baseline_outcome: float | None = None,
        block_size: int | None = None,
        scale: str = LINEAR,
        **options: Any,
    ) -> RemoteStudy:
        """Begin a study there; see `levers.create_study`."""
        given = locals()
        body = {setting.name: given[setting.name] for setting in settings_of(CREATE)}
        body |= _together(forbidden, merged)
        body |= {
            "name": name,
            "tolerance": _amount(tolerance),
            "factors": _factors(space),
            "free": [free] if isinstance(free, str) else list(free),
            "hard_to_change": [hard_to_change] if isinstance(hard_to_change, str) else list(hard_to_change),
            "options": options,
            "baseline": None if baseline is None else dict(baseline),
        }
        return self._made("/studies", body)

    def load_study(self, name: str) -> RemoteStudy:
        """A study that exists."""
        found = self.study(name)
        _ = found.spec  # says so if there is none
        return found

    def study(self, name: str) -> RemoteStudy:
        """A study by its name, without looking whether it is there."""
        return RemoteStudy(name, self._transport)

    def copy_study(self, name: str, new_name: str) -> RemoteStudy:
        """Copy a study with its whole log, under another name."""
        return self._made(f"{study_path(name)}/copy", {"name": new_name})

    def merge_study(
        self, name: str, new_name: str, factors: Sequence[str], *, budget: int | None = None, seed: int | None = None
    ) -> RemoteStudy:
        """Begin a study there in which some levers of another are studied as one; see `levers.merge_study`."""
        body = {"name": new_name, "factors": list(factors), "budget": budget, "seed": seed}
        return self._made(f"{study_path(name)}/merge", body)

    def _made(self, path: str, body: Mapping[str, Any]) -> RemoteStudy:
        return self.study(self._transport.change(path, body)["name"])

    def delete_study(self, name: str) -> None:
        """Remove a study and everything that was told to it. There is no way back."""
        self.load_study(name)
        try:
            self._transport.send("DELETE", study_path(name))
        except NoSuchStudyError:  # it was there a moment ago: the answer to the first try was lost
            return

    def plan(
        self,
        space: Space | Mapping[str, Sequence[Level]] | Sequence[int],
        *,
        tolerance: float | str | None = None,
        failure_prob: float = 0.1,
        noise_sd: float | None = None,
        expected_noise: float | None = None,
        max_parents: int | None = None,
        min_effect: float | None = None,
        budget: int | None = None,
        block_size: int | None = None,
        effect_sd: float | None = None,
        baseline_outcome: float | None = None,
        certificate: str | None = None,
        noise: str | None = None,
        forbidden: Iterable[Mapping[str, Level]] = (),
        merged: Iterable[Sequence[str]] = (),
        goal: str = "maximize",
        scale: str = LINEAR,
    ) -> Plan:
        """How many runs a study takes, computed there; see `levers.plan`."""
        given = locals()
        body = {setting.name: given[setting.name] for setting in settings_of(PLAN)}
        body |= _together(forbidden, merged)
        body["tolerance"] = _amount(tolerance)
        body["factors"] = list(space) if isinstance(space, Sequence) else _factors(space)
        found = self._transport.change("/plan", body)
        trade_off = tuple(built(TradeOff, one) for one in found["trade_off"])
        return built(Plan, found, trade_off=trade_off, budgets=tuple(built(Budget, one) for one in found["budgets"]))


def _amount(tolerance: float | str | None) -> float | str | None:
    """A tolerance as the service takes it: a text is a percentage there, and a number in a text becomes one.

    >>> _amount(".5"), _amount(" 5%"), _amount(0.5)
    (0.5, '5%', 0.5)
    """
    is_share = isinstance(tolerance, str) and tolerance.strip().endswith("%")
    return str(tolerance).strip() if is_share else tolerance_amount(tolerance, None)


def _together(forbidden: Iterable[Mapping[str, Level]], merged: Iterable[Sequence[str]]) -> dict[str, Any]:
    return {"forbidden": [dict(one) for one in forbidden], "merged": [list(names) for names in merged]}


def _factors(space: Space | Mapping[str, Sequence[Level]]) -> list[dict[str, Any]]:
    return [{"name": factor.name, "levels": list(factor.levels)} for factor in Space.of(space).factors]
