"""What the service holds: the storage, the studies that are open, who may do what, and when to stop."""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from levers.errors import NoSuchStudyError, StorageError
from levers.studies.group_commit import GroupCommit
from levers.studies.library import load_study
from levers.studies.storage.base import Storage, Stored, Token, check_name, exists_already, no_such_study
from levers.studies.storage.sessions import find_session
from levers.studies.storage.tokens import ROLES, WARN_SECONDS, days_left, known_token, name_in_log, why_not
from levers.studies.study import Study, UndecidedError, login_name
from levers.web.access.attempts import MOST_FAILURES, WINDOW_SECONDS, Attempts
from levers.web.access.sightings import Sightings
from levers.web.errors import RefusedError
from levers.web.limits import Limits as Limits
from levers.web.limits.pool import Job, Pool, shared_pool

SESSION = "levers_session"
"""The cookie with the value of a browser's session; never a token."""
SAID_AGAIN = 86_400.0
"""How often, in seconds, the log repeats that a token is about to end, or has ended and is still sent."""
WAITING, DESIGN_SECONDS = 8, 2
"""How many requests wait for the design of a study's next round, and after how many seconds others may come again: each
that waits keeps a place that requests about other studies need."""

_MOST_SAID = 10_000
T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger("levers.web")


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks, and what is allowed: a role, for one study (by id) or for all.

    `who` is for the log, and `name` for pages. `days_left` is how long the token still works, None without an end.
    """

    who: str
    role: str
    study: int | None = None
    token_id: str | None = None
    name: str = ""
    days_left: float | None = None

    def allows(self, role: str) -> bool:
        """Whether this role includes another.

        >>> Access("ann", "write").allows("read"), Access("ann", "read").allows("write")
        (True, False)
        """
        return ROLES.index(self.role) >= ROLES.index(role)

    def offered(self) -> frozenset[str]:
        """The roles whose forms and links a page shows: nobody administers who may see one study only.

        >>> sorted(Access("ann", "admin", study=3).offered())
        ['read', 'write']
        """
        return frozenset(role for role in ROLES if self.allows(role) and (role != "admin" or self.study is None))


class Service:
    """A storage served over HTTP.

    With `needs_token` every request must carry one. Without (only for a loopback address) whoever comes without a token
    may do everything; a token that is sent is still believed, and limits what its bearer may do.
    """

    def __init__(self, storage: Storage, *, needs_token: bool = False, limits: Limits | None = None) -> None:
        self.storage = storage
        self.needs_token = needs_token
        self.limits = limits or Limits()
        self.stopping = threading.Event()
        self.attempts = Attempts()
        self.sightings = Sightings(storage)
        self.clock: Callable[[], float] = time.time
        self._local = Access(login_name(), "admin", name=login_name())  # whoever comes without a token
        self._said: dict[str, float] = {}
        self._studies: OrderedDict[str, GroupCommit] = OrderedDict()
        self._lock = threading.Lock()

    def access(self, request: Request) -> Access:
        """Who a request is from. A wrong token is refused even where none is needed: a typo must not open doors."""
        kept = request.scope["levers.state"].get("access")
        if isinstance(kept, Access):
            return kept
        found = request.scope["levers.state"]["access"] = self._looked_up(request)
        return found

    def _looked_up(self, request: Request) -> Access:
        text, value = _bearer(request), _session(request)
        if text is not None:
            found = self.token(request, text)
        elif value is not None:
            found = self._of_session(request, value)
        elif self.needs_token or "authorization" in request.headers:
            message = "this service needs a token: send it as `Authorization: Bearer ...`"
            raise RefusedError(401, message, no_token=True)
        else:
            return self._local
        state = request.scope["levers.state"]
        state["token"] = found.id  # for the log, which must not see the secret
        left = days_left(found, self.clock())
        if left is not None and found.expires_at is not None and left * 86_400 < WARN_SECONDS:
            state["token_ends"] = found.expires_at
            self._say_once(
                f"ends {found.id}", f"{name_in_log(found)} expires in {left:.1f} days: `levers token rotate`"
            )
        return Access(name_in_log(found), found.role, found.study, found.id, found.note or f"token {found.id}", left)

    def token(self, request: Request, text: str) -> Token:
        """The token that a request came with, if it opens something. Wrong ones are counted by where they come from."""
        caller = str(request.scope["levers.state"].get("caller", "unknown"))
        found = known_token(self.storage, text)
        if found is None:
            wait = self.attempts.wait(caller)
            if wait:  # not logged any more
                message = f"the token is wrong, and too many wrong ones came from {caller}; wait {wait:.0f} s"
                raise RefusedError(429, message, retry_after=math.ceil(wait))
            n_failed = self.attempts.failed(caller)
            much = f": {n_failed} in {WINDOW_SECONDS:.0f} s, more are not logged" if n_failed >= MOST_FAILURES else ""
            log.warning("a wrong token from %s%s", caller, much)
            raise RefusedError(401, "the token is wrong or was revoked; `levers token create` makes a new one")
        ended = why_not(found, self.clock())
        if ended is not None:  # the secret is right, so nobody is guessing
            self._say_once(f"over {found.id} {caller}", f"{name_in_log(found)}, from {caller}: the token {ended}")
            raise RefusedError(401, f"the token {found.id} {ended}; `levers token create` makes a new one")
        return found

    def _of_session(self, request: Request, value: str) -> Token:
        """The token that a browser's session was begun with, if both go on."""
        now, state = self.clock(), request.scope["levers.state"]
        session = find_session(self.storage, value, now)
        found = None if session is None else self.storage.token(session.token_id)
        if session is None or found is None or why_not(found, now) is not None:
            raise RefusedError(401, "the session has ended; log in again")
        if not state.get("only_watching"):  # a page that is left open is not somebody who is there
            self.sightings.note(session, now)
        return found

    def _say_once(self, about: str, message: str) -> None:
        """Write a line to the log, if it was not written a day ago or later."""
        now = self.clock()
        with self._lock:
            known = self._said.get(about)
            if known is not None and now - known < SAID_AGAIN:
                return
            if len(self._said) >= _MOST_SAID:
                self._said.clear()
            self._said[about] = now
        log.warning("%s", message)

    def allow(self, request: Request, role: str) -> Access:
        """Who asks, if they may do what needs this role on all studies."""
        found = self.access(request)
        if not found.allows(role):
            raise RefusedError(403, f"the token has the role {found.role}; this needs {role}")
        if found.study is not None and role == "admin":
            raise RefusedError(403, "the token is for one study only")
        return found

    def study(self, request: Request, name: str, role: str) -> Study:
        """A study for whoever asks, if they may; the log will have their name."""
        found = self.allow(request, role)
        if found.study is not None and dict(self.storage.names()).get(found.study) != name:
            raise RefusedError(403, "the token is for another study")
        mine = self.open(name).by(found.who)
        if found.study not in (None, mine.id):  # deleted, and made again under the same name, a moment ago
            raise RefusedError(403, "the token is for another study")
        mine.warns = False
        return mine

    def names(self, access: Access) -> list[str]:
        """The studies that somebody may see, oldest first."""
        return [name for study, name in self.storage.names() if access.study in (None, study)]

    def open(self, name: str) -> Study:
        """A study; its state stays in memory, and is followed from there, as long as it is one of the last used."""
        with self._lock:
            found = self._studies.get(name)
            if found is not None:
                self._studies.move_to_end(name)
                return found.study
        if not name.isprintable():  # no study has such a name, and PostgreSQL cannot even look for a NUL
            raise NoSuchStudyError("there is no study of that name")
        try:
            opened = load_study(name, self.storage)
        except NoSuchStudyError:  # where the storage is, is nobody's business out there
            raise no_such_study(name, [known for _, known in self.storage.names()]) from None
        with self._lock:
            kept = self._studies.get(name)
            if kept is None or kept.study.id != opened.id:  # else another thread was faster, and has the one to use
                kept = self._studies[name] = _together(opened)
            while len(self._studies) > self.limits.open_studies:
                self._studies.popitem(last=False)
        return kept.study

    def n_free(self, name: str) -> int | None:
        """How many runs of a study wait for somebody, as of the last look; None where nobody knows, or none will come.

        It waits for nothing, so that it can be asked where requests come in.
        """
        found = self._studies.get(name)
        return None if found is None else found.study.n_free

    def change(self, study: Study, act: Callable[[], T], *, apart: bool = False) -> T:
        """Change a study: together with what others want of it at the same moment, which is much faster.

        What may take long to work out is done `apart`, while others go on.
        """
        if apart:
            return study.apart(act)
        with self._lock:
            found = self._studies.get(study.name)
        # another object for the same study would wait for this one's transaction, inside of it
        together = found if found is not None and found.study.shares_log_with(study) else _together(study)
        try:
            return together.do(act)
        except UndecidedError as error:  # others wait for it already, and nobody else's request shall for them
            raise RefusedError(503, str(error), retry_after=DESIGN_SECONDS) from None

    def check_rows(self, n: int) -> None:
        """Refuse more rows than a request may bring."""
        most = self.limits.rows
        if n > most:
            message = f"the request is about {n:,} rows; at most {most:,} go at a time, so send it in parts"
            raise RefusedError(413, message)

    @property
    def pool(self) -> Pool:
        """The processes for what takes long."""
        return shared_pool(self.limits)

    def compute(self, request: Request, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have something worked out in a process of its own, which ends when whoever asks has left."""
        job = request.scope["levers.state"].get("job") or Job()
        return self.pool.run(job, function, *args, **kwargs)

    def check_new(self, name: str) -> None:
        """Refuse a name that no new study can have, before anything is worked out for it."""
        check_name(name)
        if any(known == name for _, known in self.storage.names()):
            raise exists_already(name)

    def begin(self, name: str, records: list[Stored], who: str) -> Study:
        """Keep a study whose first events were worked out elsewhere."""
        return Study(name, self.storage, self.storage.create(name, records), who=who)

    def forget_deleted(self) -> None:
        """After an error that says that a study is gone: look the name up again next time, another may have it."""
        try:
            there = {study for study, _ in self.storage.names()}
        except StorageError:  # then there are other worries
            return
        with self._lock:
            for name in [name for name, opened in self._studies.items() if opened.study.id not in there]:
                del self._studies[name]


def _together(study: Study) -> GroupCommit:
    return GroupCommit(study, most_waiting=WAITING)


def session_cookie(request: Request) -> str:
    """The name of the cookie: over https browsers let nobody else set one that begins with __Host-."""
    return f"__Host-{SESSION}" if is_secure(request) else SESSION


def is_secure(request: Request) -> bool:
    """Whether the browser's connection is encrypted."""
    return bool(request.scope["levers.state"].get("secure", request.url.scheme == "https"))


def _session(request: Request) -> str | None:
    """A browser's session. Browsers send it along by themselves, so a change over the API does not count it."""
    for_pages = request.method in ("GET", "HEAD") or not request.url.path.startswith("/api/")
    return request.cookies.get(session_cookie(request)) or None if for_pages else None


def _bearer(request: Request) -> str | None:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None
