"""The names of users and their groups, from the directory of users of the operating system, which may not answer."""

import re
from functools import partial

import trio
from msgspec import Struct

from ykactor.local.login import NoUser, groups_of
from ykactor.local.machine import user_name

#: Seconds for an answer; for which it is kept; and for which nothing is asked after there was no answer.
ANSWER_S, KEPT_S, SILENT_S = 10.0, 60.0, 10.0
#: Look-ups at a time: each has a thread, also one that is waited for no longer.
_AT_ONCE = 8
#: Accounts that are kept.
_KEPT_MAX = 10_000
_NUMBERED = re.compile(r"uid\d+", re.ASCII)


class Account(Struct, frozen=True):
    """The login name of a user as the daemon takes it, and the names of all its groups."""

    name: str
    groups: list[str]


class LookupFailed(Exception):
    """The directory of users does not know a user, or does not answer; the message says which."""


class Users:
    """The accounts of users, each looked up at most once a minute. What was known is known while there is no answer."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(_AT_ONCE)
        #: By uid, with the time until which it holds.
        self._accounts: dict[int, tuple[float, Account]] = {}
        #: The time before which nothing is asked.
        self._silent_until = 0.0

    async def account(self, uid: int) -> Account:
        """The account of a user.

        Raises:  LookupFailed.
        """
        until, known = self._accounts.get(uid, (-1.0, None))
        if known is not None and trio.current_time() < until:
            return known
        if (found := await self._found(uid) or known) is not None:
            return found
        raise LookupFailed(f"found no answer of the directory of users about {uid} within {ANSWER_S:g} s: try again")

    async def _found(self, uid: int) -> Account | None:
        """The account of a user as the directory of users has it; None if it does not answer.

        Raises:  LookupFailed.
        """
        if trio.current_time() < self._silent_until:
            return None
        with trio.move_on_after(ANSWER_S):
            try:
                found = await trio.to_thread.run_sync(partial(_account, uid), abandon_on_cancel=True, limiter=self._limiter)
            except NoUser as reason:
                self._accounts.pop(uid, None)
                raise LookupFailed(str(reason)) from None
            if len(self._accounts) >= _KEPT_MAX:
                self._accounts.clear()
            self._accounts[uid] = trio.current_time() + KEPT_S, found
            return found
        self._silent_until = trio.current_time() + SILENT_S
        return None


def _account(uid: int) -> Account:
    groups, name = groups_of(uid), user_name(uid)
    if _NUMBERED.fullmatch(name) and name != f"uid{uid}":
        raise NoUser(f"found the user {uid} with the name {name}, which is that of a user without a name")
    return Account(name, groups)
