"""The logins of web pages: each has shown a bearer once, and a cookie stands for it since (SE-98, SE-99)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from hashlib import sha256

from msgspec import structs

from ykactor.access.credentials import Credentials, Login, NotAuthenticatedError
from ykactor.core.values.times import S_NS
from ykactor.surfaces.admission.caller import Cookie
from ykactor.surfaces.admission.slots import Slot, Slots

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
