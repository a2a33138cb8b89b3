"""The groups of a user in the operating system (QU-93, resolver ``os``).

Sessions of resource managers look up the groups of an application that is submitted without groups. A name service may block
for seconds, so lookups run in worker threads, and their results are cached (QU-94).
"""

import grp
import logging
import os
import pwd
from collections.abc import Callable

import trio
from msgspec import Struct, structs

from ykactor.actors.pauses import pause
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.submissions import AddApplication, Submission
from ykactor.core.placement.users import NOBODY
from ykactor.core.values.parts import in_parts
from ykactor.surfaces.log.logs import get_logger, log_event

log = get_logger(__name__)

#: How long a found result, and a failed lookup, stays in the cache (QU-94).
KNOWN_S = 300.0
FAILED_S = 30.0
#: The size of the cache; the oldest result is removed first.
ANSWERS_MAX = 10_000
#: The number of lookups at the same time.
LOOKUPS_MAX = 4

#: The names of a user's groups, the primary one first; None for an unknown user.
Groups = tuple[str, ...] | None


def os_groups(user: str) -> Groups:
    """The primary group, then the others; the name of a group without a name is its number. May block.

    Raises:
        OSError: the name service fails.
    """
    try:
        primary = pwd.getpwnam(user).pw_gid
    except (KeyError, ValueError):  # ValueError: the text cannot be a name
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
    """Caches the groups of users; concurrent calls for one user share a lookup.

    Args:
        look_up: finds the groups of a user, in a worker thread. An ``OSError`` has the same effect as an unknown user.
    """

    def __init__(self, look_up: Callable[[str], Groups] = os_groups) -> None:
        self._look_up = look_up
        self._limiter = trio.CapacityLimiter(LOOKUPS_MAX)
        #: The oldest first.
        self._answers: dict[str, _Answer] = {}
        self._under_way: dict[str, trio.Event] = {}

    async def all_completed(self, submissions: list[Submission]) -> list[Submission]:
        """Submissions, of which the applications are ``completed``."""
        found: list[Submission] = []
        for part in in_parts(submissions):
            if found:
                await pause()
            found += [await self.completed(new) if type(new) is AddApplication else new for new in part]
        return found

    async def completed(self, application: AddApplication) -> AddApplication:
        """An application with the groups of its user, if it names a user and no groups."""
        if application.groups or not application.user:
            return application
        groups = await self.groups_of(application.user)
        if groups is None:
            return structs.replace(application, user_is_unknown=True)
        return structs.replace(application, groups=groups)

    async def of_administrator(self, who: UserGroups) -> UserGroups:
        """An administrator with groups."""
        return who if who.groups else UserGroups(who.user, await self.groups_of(who.user) or NOBODY.groups)

    async def groups_of(self, user: str) -> Groups:
        """The groups of a user, None if it is unknown. If a call that looks up is cancelled, a waiting one looks up itself."""
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
