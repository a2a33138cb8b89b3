"""Lets connections in by the access file, and ends them when the file or the time takes away what they have shown.

A caller is reviewed whenever it is asked what it may do, so a change holds for the next message, however long it waited. The
task of ``AccessControl`` finds those that ask nothing. What is reviewed is what was shown at the handshake, as if it were shown
again: that alone sees every reason why it proves nothing any more, such as a key of JWTs that has been withdrawn.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from weakref import WeakSet

import trio
from msgspec import structs

from ykactor.access.access import Access, Authenticated, authenticate
from ykactor.access.credentials import Credentials, Login, NotAuthenticatedError
from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.actors.clock import Clock
from ykactor.core.values.times import NEVER, S_NS
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.admission.caller import Caller, Cookie
from ykactor.surfaces.admission.slots import Slot, Slots
from ykactor.surfaces.files.access_file import AccessFile
from ykactor.surfaces.files.watcher import SHORTAGES, FileWatcher, TryAgainError
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.wire.queuefile.text import ConfigError

log = get_logger(__name__)

#: What a session is told that is ended; the log says more.
PROOF_GONE = "what you have shown is no proof of your identity any more"
RIGHTS_SHRANK = "you may do less than before: connect again"


class AccessControl:
    """The access file that is in force, and who was let in by it.

    Attributes:
        access: what the file says.
        clock: by whose corrected time proofs expire.
        logins: of web pages.
    """

    def __init__(self, access: Access, clock: Clock) -> None:
        self.access = access
        self.clock = clock
        self.logins = Logins(self.review_all)
        #: Those that somebody holds: a session, or a request that waits longer than it.
        self._callers: WeakSet[AdmittedCaller] = WeakSet()
        self._due = trio.Event()
        self._next_ns = NEVER

    def limits(self) -> Limits:
        """The limits that are in force."""
        return self.access.limits

    def admit(self, role: Role, credentials: Credentials, origin: str) -> Caller:
        """Let in who comes through the door of a role.

        Raises:
            NotAuthenticatedError: it is nobody. The identity may still lack the role.
        """
        credentials = self.logins.resolved(credentials)
        proved = authenticate(self.access, credentials, self.clock.corrected_ns())
        caller = AdmittedCaller(
            role, origin, proved.identity, proved.expires_ns, control=self, credentials=credentials, access=self.access
        )
        self._callers.add(caller)
        if caller.expires_ns < self._next_ns:
            self._due.set()
        return caller

    def release(self, caller: AdmittedCaller) -> None:
        """Review the caller no more."""
        self._callers.discard(caller)

    def replace(self, access: Access) -> None:
        """Put another access file into force. It holds at once, for those that were let in before too."""
        self.access = access
        self.review_all()

    def review_all(self) -> None:
        """Review all callers soon."""
        self._due.set()

    async def run(self) -> None:
        """End the callers that are let in no longer, until cancelled."""
        while True:
            self._due = trio.Event()
            for caller in list(self._callers):
                caller.review()
                await trio.lowlevel.checkpoint()  # to verify thousands of signatures takes long
            self._next_ns = min((caller.expires_ns for caller in self._callers if not caller.revoked), default=NEVER)
            with trio.move_on_at(math.inf if self._next_ns == NEVER else self.clock.corrected_to_trio(self._next_ns)):
                await self._due.wait()


class AdmittedCaller(Caller, eq=False, kw_only=True):
    """A caller that an access file has let in.

    Attributes:
        credentials: what it has shown.
        access: by which it was reviewed the last time.
    """

    control: AccessControl
    credentials: Credentials
    access: Access

    @property
    def is_logged_in(self) -> bool:
        """True if the cookie of a login has let it in."""
        return self.credentials.login is not None

    def review(self) -> None:
        """Take over what the access file says now; revoked if what it has shown, or a right of it, is gone."""
        now_ns = self.control.clock.corrected_ns()
        is_current = self.access is self.control.access and now_ns < self.expires_ns and not self._has_logged_out()
        if self.revoked or is_current:
            return
        self.access = self.control.access
        try:
            self._take_over(authenticate(self.access, self.credentials, now_ns))
        except NotAuthenticatedError as error:
            self._end(PROOF_GONE, str(error))

    def release(self) -> None:
        """Review the caller no more."""
        self.control.release(self)

    def log_in(self, page: str) -> Cookie | None:
        """Open a login for a page in place of the one that it has, if it has shown a bearer and not just a cookie."""
        shown = self.credentials
        if shown.bearer is None or shown.login is not None:
            return None
        log_event(log, logging.INFO, "page_logged_in", identity=self.identity.name, peer=self.origin, page=page)
        now_ns = self.control.clock.corrected_ns()
        if shown.page is not None:
            self.control.logins.close(shown.page.cookies)
        return self.control.logins.open(shown.bearer, page, self.holder, now_ns, self.expires_ns, shown.sender)

    def log_out(self) -> Cookie | None:
        """End the login of the cookie, and all sessions that were opened by it."""
        if self.credentials.login is None or self.credentials.page is None:
            return None
        return self.control.logins.close(self.credentials.page.cookies)

    def _has_logged_out(self) -> bool:
        return self.credentials.login is not None and self.credentials.login.is_over

    def _take_over(self, proved: Authenticated) -> None:
        if proved.identity.name != self.identity.name:
            self._end(PROOF_GONE, f"it is now of {proved.identity.name}")
        elif not proved.identity.includes(self.identity):
            self._end(RIGHTS_SHRANK, RIGHTS_SHRANK)
        else:
            self.identity, self.expires_ns = proved.identity, proved.expires_ns

    def _end(self, told: str, reason: str) -> None:
        log_event(log, logging.INFO, "access_ended", identity=self.identity.name, peer=self.origin, reason=reason)
        self.revoke(told)


# ---- the access file: what it says holds from when it, or a file that it names, was changed (SE-67)

#: The number of mistakes of one file that are logged one by one.
MISTAKES_LOGGED_MAX = 200


class AccessWatcher(FileWatcher):
    """Watches an access file and the files that it names.

    Attributes:
        control: whom the file lets in.
        audit: where changes are told; set by the daemon.
    """

    audit: AuditLog | None = None
    refusal = ""

    def __init__(self, file: AccessFile, clock: Clock) -> None:
        super().__init__("access", file.path, file.content)
        self.control = AccessControl(file.access, clock)
        self._file = file
        log_applied(file)

    def directories(self) -> set[Path]:
        return self._file.directories()

    def read(self) -> bytes:
        return self._file.read()

    async def deliver(self, content: bytes, *, is_asked: bool) -> bytes:
        """A wrong file changes nothing, and is logged."""
        before = self.control.access
        try:
            # In a thread, because a name service that says who a user is may take seconds.
            self.control.replace(await trio.to_thread.run_sync(self._file.load, abandon_on_cancel=True))
        except (ConfigError, OSError) as error:
            if self._file.lacks(SHORTAGES):
                raise TryAgainError from None
            _log_refused(self._file, str(error).splitlines())
            self.refusal = error.summary() if isinstance(error, ConfigError) else str(error)
        else:
            self.refusal = ""
            log_applied(self._file)
            if self.audit is not None:
                await self.audit.access_changed(self.path, before, self.control.access)
        return self._file.content


def log_applied(file: AccessFile) -> None:
    """Log what an operator may want to know of an access file that is in force from now on."""
    access = file.access
    log_event(
        log,
        logging.INFO,
        "access_applied",
        path=file.path,
        identities=len(access.identities),
        tokens=len(access.tokens.all),
    )
    for warning in access.warnings:
        log_event(log, logging.WARNING, "access_warning", reason=warning)


def _log_refused(file: AccessFile, mistakes: list[str]) -> None:
    if len(mistakes) > MISTAKES_LOGGED_MAX:
        mistakes[MISTAKES_LOGGED_MAX:] = [f"and {len(mistakes) - MISTAKES_LOGGED_MAX} more"]
    for mistake in mistakes:
        log_event(log, logging.ERROR, "access_refused", path=file.path, reason=mistake)


# ---- logins of web pages: each has shown a bearer once, and a cookie stands for it since (SE-98, SE-99)

#: How long a login lasts at most.
LIFE_S = 12 * 3600
LOGINS_MAX = 1000
_ID_BYTES = 32


class Logins:
    """All logins of one daemon; they end with it.

    Args:
        on_end: called when a login has ended before its time.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        #: Of the cookie. A browser sends cookies to all ports of a host, so that the daemons there must not share a name.
        self._name = f"ykactor-{secrets.token_hex(4)}"
        #: By the SHA-256 of its cookie.
        self._open: dict[str, tuple[Login, Slot]] = {}
        self._slots = Slots("logins", lambda: LOGINS_MAX)

    def open(self, bearer: str, page: str, holder: str, now_ns: int, expires_ns: int, sender: int | None = None) -> Cookie:
        """Log a page in, if need be in place of the oldest login of the same holder.

        Args:
            holder: whose login it is.
            expires_ns: when the bearer is none any more.
            sender: as in ``Credentials``.
        """
        for digest in [digest for digest, (login, _) in self._open.items() if login.expires_ns <= now_ns]:
            self._end(digest)
        self._slots.make_room(holder)
        login = Login(bearer=bearer, page=page, expires_ns=min(expires_ns, now_ns + LIFE_S * S_NS), sender=sender)
        value = secrets.token_urlsafe(_ID_BYTES)
        digest = _digest(value)
        self._open[digest] = login, self._slots.take(holder, partial(self._end, digest))
        return Cookie(self._name, value, (login.expires_ns - now_ns) // S_NS)

    def close(self, cookies: str) -> Cookie:
        """End the login for which a header ``Cookie`` stands; returns the cookie that is worth nothing any more."""
        self._end(_digest(self._value(cookies)))
        return Cookie(self._name)

    def resolved(self, credentials: Credentials) -> Credentials:
        """The credentials with what their cookie stands for; a bearer in the request itself counts alone.

        Raises:
            NotAuthenticatedError: the request is of another page than the login, or of another user of this machine.
        """
        page = credentials.page
        if page is None or credentials.bearer is not None:
            return credentials
        login, _ = self._open.get(_digest(self._value(page.cookies)), (None, None))
        if login is None:
            return credentials
        if not page.is_of(login.page):
            raise NotAuthenticatedError(f"a cookie of the page {login.page} came from another page")
        if login.sender not in (None, credentials.sender):
            raise NotAuthenticatedError(f"a cookie of the user {login.sender} came from another user")
        return structs.replace(credentials, bearer=login.bearer, login=login)

    def _value(self, cookies: str) -> str:
        """The value of our cookie in a header; "" if it has none."""
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        return next((value for name, _, value in pairs if name == self._name), "")

    def _end(self, digest: str) -> None:
        login, slot = self._open.pop(digest, (None, None))
        if login is not None and slot is not None:
            login.is_over = True
            slot.release()
            self._on_end()


def _digest(value: str) -> str:
    return sha256(value.encode()).hexdigest()
