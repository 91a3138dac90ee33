"""What pages show of a study: worked out once for each place in its log, however many people look."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from levers.charts.catalogue import CHARTS
from levers.charts.facts import MAX_TITLE, Seen, clipped
from levers.charts.svg import NARROW, WIDE, Chart
from levers.studies.events import Told
from levers.studies.state import StudyState, TrialState
from levers.studies.storage.base import Stored
from levers.studies.study import Study

_MOST_STUDIES = 32
_LOOK_BACK = (500, 20_000)  # events of the log among which whoever told an outcome is mostly found


class Sight:
    """A study at one place in its log. Nothing here changes any more, so everything is kept once it was asked for."""

    def __init__(self, name: str, state: StudyState) -> None:
        self.name = name
        self.state = state
        self.views = Seen(name, state)
        self._kept: dict[str, Any] = {}
        self._lock = threading.RLock()

    @property
    def seq(self) -> int:
        """The place in the log."""
        return self.state.seq

    @property
    def is_finished(self) -> bool:
        """Whether there is a verdict."""
        return self.state.open_block is None

    def kept(self, what: str, make: Callable[[], Any]) -> Any:
        """Something that follows from the state: made by the first who asks, while others wait for it."""
        with self._lock:
            if what not in self._kept:
                self._kept[what] = make()
            return self._kept[what]

    def look(self) -> Seen:
        """The study's views. Two threads do not work out the same."""
        with self._lock:
            for view in ("status", "best"):
                getattr(self.views, view)
            return self.views

    def charts(self, keys: Iterable[str]) -> list[tuple[Chart, Chart]]:
        """Charts, each for a wide and a narrow window."""
        return [self.kept(f"chart {key}", partial(self._drawn, key)) for key in keys]

    def _drawn(self, key: str) -> tuple[Chart, Chart]:
        draw = CHARTS[key]
        wide, narrow = (draw(self.name, self.state, width, self.views) for width in (WIDE, NARROW))
        return replace(wide, title=_heading(self.name, wide.title)), narrow


def _heading(name: str, title: str) -> str:
    """A title on a page that has the study's name above it anyway.

    >>> _heading("oven", "oven: levels in play")
    'Levels in play'
    """
    found = title.removeprefix(f"{clipped(name, MAX_TITLE)}: ")
    return found[:1].upper() + found[1:]


class Sights:
    """The sights of the studies that were looked at last.

    >>> from levers.studies.library import create_study
    >>> study = create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> sights = Sights()
    >>> first = sights.of(study)
    >>> sights.of(study) is first
    True
    >>> _ = study.ask()
    >>> sights.of(study) is first
    False
    """

    def __init__(self, most: int = _MOST_STUDIES) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, int], Sight] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, study: Study) -> Sight:
        """The study as it is now."""
        key = (id(study.storage), study.id)
        seq = study.state.seq
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found.seq >= seq:
                self._kept.move_to_end(key)
                return found
        made = Sight(study.name, study.frozen())
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.seq < made.seq:  # somebody else may have been faster
                self._kept[key] = found = made
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found


def who_told(study: Study, state: StudyState, trials: Iterable[int]) -> dict[int, str]:
    """Who told some outcomes. The log knows; it is read from its end, where they mostly are.

    >>> from levers.studies.library import create_study
    >>> study = create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1, who="ann")
    >>> study.tell(study.ask()[0], 2.5)
    >>> who_told(study, study.state, [0])
    {0: 'ann'}
    """
    table = state.trials
    wanted = {t for t in trials if 0 <= t < table.n_trials and table.state[t] == TrialState.COMPLETE}
    times = {float(table.told_at[t]) for t in wanted}
    found: dict[int, str] = {}
    for most in (*_LOOK_BACK, state.seq):
        if len(found) == len(wanted):
            break
        found = {}
        for stored in study.storage.read(study.id, max(0, state.seq - most)):
            if stored.kind == Told.__name__ and stored.at in times:
                found |= {t: stored.who for t in _told(stored) if t in wanted}
        if most >= state.seq:
            break
    return found


def _told(stored: Stored) -> list[int]:
    event = stored.record().event
    return [int(t) for t in event.trials] if isinstance(event, Told) else []
