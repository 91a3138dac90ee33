"""The views of studies that were looked at last: worked out once for each place in a log, however many people look."""

import threading
from collections import OrderedDict
from collections.abc import Iterable

from levers.charts.view import StudyView
from levers.core.codec import tag_of
from levers.studies.events import Told
from levers.studies.state import StudyState, TrialState
from levers.studies.study import Study

_MOST_STUDIES = 32
_LOOK_BACK = (500, 20_000)  # events of the log among which whoever told an outcome is mostly found


class ViewCache:
    """A view of each study, as long as nothing is told to it and it is one of those that were looked at last.

    >>> from levers.studies.library import create_study
    >>> study = create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> cache = ViewCache()
    >>> first = cache.view(study)
    >>> cache.view(study) is first
    True
    >>> _ = study.ask()
    >>> cache.view(study) is first
    False
    """

    def __init__(self, most: int = _MOST_STUDIES) -> None:
        self._most = most
        self._views: OrderedDict[tuple[int, int], StudyView] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, study: Study) -> StudyView:
        """The study as it is now."""
        key = (id(study.storage), study.id)
        seq = study.state.seq
        with self._lock:
            found = self._views.get(key)
            if found is not None and found.seq >= seq:
                self._views.move_to_end(key)
                return found
        made = StudyView(study.name, study.frozen())
        with self._lock:
            found = self._views.get(key)
            if found is None or found.seq < made.seq:  # somebody else may have been faster
                self._views[key] = found = made
            self._views.move_to_end(key)
            while len(self._views) > self._most:
                self._views.popitem(last=False)
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
    told = tag_of(Told)
    found: dict[int, str] = {}
    for most in sorted({min(n, state.seq) for n in (*_LOOK_BACK, state.seq)}):
        if len(found) == len(wanted):
            break
        for stored in study.storage.read(study.id, state.seq - most):
            event = stored.record().event if stored.kind == told and stored.at in times else None
            if isinstance(event, Told):
                found |= {int(t): stored.who for t in event.trials if int(t) in wanted}
    return found
