"""Demo studies: a simulated factory line that runs by itself, slowly enough to watch."""

import threading
import time
from collections.abc import Callable

from levers.errors import LeversError, StudyError
from levers.experiments.demo import Line, new_demo
from levers.studies.study import Study
from levers.web.service import Service, log

MOST_DEMOS = 3
"""How many run at a time."""
_WORKER = "simulated line"
_AT_A_TIME = 12


class Demos:
    """Demo studies under way. They stop with the service, and go on nowhere else: what they told stays.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> service = Service(MemoryStorage())
    >>> demos = Demos(service, pause=0.0)
    >>> demos.start("ann")
    'demo: factory line'
    >>> service.stopping.set()
    >>> demos.join(10.0)
    True
    """

    def __init__(self, service: Service, pause: float = 0.4) -> None:
        self._service = service
        self._pause = pause
        self._threads: dict[str, tuple[threading.Thread, threading.Event]] = {}
        self._lock = threading.Lock()

    @property
    def n_running(self) -> int:
        """How many run now."""
        with self._lock:
            self._threads = {name: pair for name, pair in self._threads.items() if pair[0].is_alive()}
            return len(self._threads)

    def start(self, who: str) -> str:
        """Begin one under a name that is free; returns the name."""
        if self.n_running >= MOST_DEMOS:
            raise StudyError(f"{MOST_DEMOS} demo studies are under way; wait for one to end, or delete it")
        study = self._service.open(new_demo(self._service.storage, who=who).name).by(_WORKER)
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(study, stop), name=study.name, daemon=True)
        with self._lock:
            self._threads[study.name] = (thread, stop)
        thread.start()
        return study.name

    def stop(self, name: str) -> None:
        """Let one go no further, for whoever deletes it."""
        with self._lock:
            found = self._threads.pop(name, None)
        if found is not None:
            found[1].set()
            found[0].join(5.0)

    def join(self, seconds: float) -> bool:
        """Wait for all to end; whether they did."""
        with self._lock:
            threads = [thread for thread, _ in self._threads.values()]
        end = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _run(self, study: Study, stop: threading.Event) -> None:
        line = Line(study.spec.seed)
        over: Callable[[], bool] = lambda: stop.is_set() or self._service.stopping.is_set()  # noqa: E731
        try:
            while not over() and not study.is_finished:
                trials = study.ask(_AT_A_TIME)
                self._wait(stop)
                if over():
                    break
                if trials:
                    study.tell_many(zip(trials, line.run(trials), strict=True))
                self._wait(stop)
        except LeversError as error:  # deleted meanwhile, or somebody else told a trial of it
            log.warning("the demo study %r ended: %s", study.name, error)

    def _wait(self, stop: threading.Event) -> None:
        """A pause that ends early when the service stops."""
        end = time.monotonic() + self._pause
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._service.stopping.wait(min(left, 0.1)):
                return
