"""The groups of a user as the operating system knows them (QU-93, resolver kind ``os``).

Resource managers' sessions ask for the groups of an application that names none. Name services may block for seconds, so they
are asked in worker threads, and what they said is remembered for a while (QU-94).
"""

import grp
import logging
import os
import pwd
from collections.abc import Callable

import trio
from msgspec import Struct

from ykactor.surfaces.server.logs import get_logger, log_event

log = get_logger(__name__)

#: How long an answer, and how long a failure, counts (QU-94).
KNOWN_S = 300.0
FAILED_S = 30.0
#: Answers that are remembered; then the oldest is forgotten.
ANSWERS_MAX = 10_000
#: Lookups at the same time.
LOOKUPS_MAX = 4

#: Names of a user's groups, the primary one first; None for an unknown user.
Groups = tuple[str, ...] | None


def os_groups(user: str) -> Groups:
    """Ask the operating system: the primary group, then the others; a group without a name is its number. May block.

    Raises:
        OSError: the name service fails.
    """
    try:
        primary = pwd.getpwnam(user).pw_gid
    except (KeyError, ValueError):  # the second: such a text cannot be a name
        return None
    return tuple(dict.fromkeys(_group_name(gid) for gid in (primary, *os.getgrouplist(user, primary))))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


class _Answer(Struct, frozen=True):
    groups: Groups
    #: By trio's clock.
    valid_until: float


class GroupResolver:
    """Remembers the groups of users; those who ask for one user at the same time share one lookup.

    Args:
        look_up: finds the groups of a user, in a worker thread; an ``OSError`` counts as a failure like an unknown user.
    """

    def __init__(self, look_up: Callable[[str], Groups] = os_groups) -> None:
        self._look_up = look_up
        self._limiter = trio.CapacityLimiter(LOOKUPS_MAX)
        #: The oldest first.
        self._answers: dict[str, _Answer] = {}
        self._under_way: dict[str, trio.Event] = {}

    async def groups_of(self, user: str) -> Groups:
        """The groups of a user, None if it is unknown. May be cancelled at any time; others who wait ask again themselves."""
        while True:
            answer = self._answers.get(user)
            if answer is not None and trio.current_time() < answer.valid_until:
                return answer.groups
            under_way = self._under_way.get(user)
            if under_way is None:
                return await self._ask(user)
            await under_way.wait()

    async def _ask(self, user: str) -> Groups:
        done = self._under_way[user] = trio.Event()
        groups = None
        try:
            groups = await trio.to_thread.run_sync(self._look_up, user, limiter=self._limiter, abandon_on_cancel=True)
        except OSError as error:
            log_event(log, logging.WARNING, "group_lookup_failed", user=user, reason=str(error))
        finally:
            del self._under_way[user]
            done.set()
        self._remember(user, groups)
        return groups

    def _remember(self, user: str, groups: Groups) -> None:
        self._answers.pop(user, None)
        if len(self._answers) == ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[user] = _Answer(groups, trio.current_time() + (FAILED_S if groups is None else KNOWN_S))
