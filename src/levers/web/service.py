"""What the service holds: the storage, the studies that are open, who may do what, and when to stop."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from levers.errors import NoSuchStudyError, StorageError
from levers.studies.group_commit import GroupCommit
from levers.studies.library import load_study
from levers.studies.storage.base import Storage, Stored, check_name, exists_already, no_such_study
from levers.studies.storage.tokens import ROLES, find_token
from levers.studies.study import Study, login_name
from levers.web.errors import RefusedError
from levers.web.limits import Limits as Limits
from levers.web.limits.pool import Job, Pool, shared_pool

COOKIE = "levers_token"
"""Holds a browser's token after it was typed in once."""

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger("levers.web")


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks, and what is allowed: a role, for one study (by id) or for all."""

    who: str
    role: str
    study: int | None = None
    token_id: str | None = None

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
        self._local = Access(login_name(), "admin")  # whoever comes without a token
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
        text = _bearer(request) or _cookie(request)
        if text is None:
            if self.needs_token or "authorization" in request.headers:
                message = "this service needs a token: send it as `Authorization: Bearer ...`"
                raise RefusedError(401, message, no_token=True)
            return self._local
        found = find_token(self.storage, text)
        if found is None:
            raise RefusedError(401, "the token is wrong or was revoked; `levers token create` makes a new one")
        request.scope["levers.state"]["token"] = found.id  # for the log, which must not see the secret
        return Access(found.note or f"token {found.id}", found.role, found.study, found.id)

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
                kept = self._studies[name] = GroupCommit(opened)
            while len(self._studies) > self.limits.open_studies:
                self._studies.popitem(last=False)
        return kept.study

    def change(self, study: Study, act: Callable[[], T]) -> T:
        """Change a study: together with what others want of it at the same moment, which is much faster."""
        with self._lock:
            found = self._studies.get(study.name)
        # another object for the same study would wait for this one's transaction, inside of it
        return (found if found is not None and found.study.shares_log_with(study) else GroupCommit(study)).do(act)

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


def _cookie(request: Request) -> str | None:
    """A browser's token. Browsers send it along by themselves, so a change over the API does not count it."""
    for_pages = request.method in ("GET", "HEAD") or not request.url.path.startswith("/api/")
    return request.cookies.get(COOKIE) if for_pages else None


def _bearer(request: Request) -> str | None:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None
