"""Lets connections in by the access file, and ends them when the file or the time takes away what they have shown.

A caller is reviewed whenever it is asked what it may do, so a change holds for the next message, however long it waited. The
task of ``AccessControl`` finds those that ask nothing. What is reviewed is what was shown at the handshake, as if it were shown
again: that alone sees every reason why it proves nothing any more, such as a key of JWTs that has been withdrawn.
"""

from __future__ import annotations

import logging
import math
from weakref import WeakSet

import trio

from ykactor.access.access import Access
from ykactor.access.authenticate import Authenticated, authenticate
from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.actors.clock import Clock
from ykactor.core.values.times import NEVER
from ykactor.surfaces.server.caller import Caller
from ykactor.surfaces.server.logins import Cookie, Logins
from ykactor.surfaces.server.logs import get_logger, log_event

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
        """Those that are in force."""
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
    """Who was let in by an access file.

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
        """As of the base."""
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
