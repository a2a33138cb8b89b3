"""The user as whom a task is started, where that is not the user of this program (``ykactor local --system``)."""

import grp
import os
import pwd
import resource

from msgspec import Struct

from ykactor.core.values.names import is_group_name

#: The limits that a command tells. Those of the whole machine, such as locked memory and real-time priorities, are left to root.
LIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")


class Login(Struct, frozen=True):
    """The user of a task, and what its processes begin with.

    Attributes:
        uid: as the kernel has told it.
        groups: the names of its groups at the submission, for the daemon; a task has those of its start.
        umask: the bits that its new files do not have.
        limits: soft limits by the names of ``LIMITS``, -1 for none; the hard ones are those of this program.
    """

    uid: int = -1
    groups: list[str] = []
    umask: int = 0o077
    limits: dict[str, int] = {}


class NoUser(Exception):
    """A user is not one as whom tasks are started; the message says why."""


def own_login() -> Login:
    """The umask and limits of this process, which runs no other thread."""
    umask = os.umask(0o077)
    os.umask(umask)
    soft = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in LIMITS}
    return Login(umask=umask, limits=soft)


def groups_of(uid: int) -> list[str]:
    """The names of the groups of a user that the daemon takes. Asks the directory of users, which may block.

    Raises:  NoUser.
    """
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        raise NoUser(f"found the user {uid}, expected one that getent passwd knows") from None
    return list(filter(is_group_name, map(_group_name, os.getgrouplist(account.pw_name, account.pw_gid))))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
