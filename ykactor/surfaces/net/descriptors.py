"""File descriptors, of which some are kept for the files of the daemon itself, such as its journal and queue file."""

import resource
from contextlib import suppress

#: Descriptors that are used neither for connections nor for what is sent over them.
RESERVE = 64
#: Why a connection is refused when only those are left.
NO_ROOM = f"only {RESERVE} file descriptors are left, which the daemon needs for itself: raise its limit (ulimit -n)"
#: More than all connections that the default limits allow, with those that are still in their handshake.
LIMIT_MAX = 65_536
#: A daemon without any connection has fewer open; with less than these, the reserve and so many for sessions it does not start.
OWN_MAX = 32
SESSIONS_MIN = 16
#: All that the default limits allow, and what there is of each kind in any case.
_CONNECTIONS_MAX, _EACH_MIN = 10_240, 16


class TooFewDescriptorsError(Exception):
    """The process may not have as many descriptors as a daemon needs."""


def fitting(count: int) -> int:
    """The number of connections of a kind that there may be, at most ``count``: fewer where descriptors are few."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = _CONNECTIONS_MAX if limit == resource.RLIM_INFINITY else max(0, limit - RESERVE)
    return count if left >= _CONNECTIONS_MAX else min(count, max(_EACH_MIN, count * left // _CONNECTIONS_MAX))


def is_reserved(descriptor: int) -> bool:
    """True if a new descriptor is one of the last ones of the process.

    The system gives the lowest number that is free. So a number near the limit says that all others are in use, and nothing needs
    to be counted.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and descriptor >= limit - RESERVE


def raise_limit() -> None:
    """Let the process have as many descriptors as the system allows, up to ``LIMIT_MAX``: one is needed for each connection.

    Raises:
        TooFewDescriptorsError: they are too few for a daemon.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError):  # a filter of system calls may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = RESERVE + OWN_MAX + SESSIONS_MIN
    if limit != resource.RLIM_INFINITY and limit < expected:
        need = f"expected at least {expected}, for the daemon itself and {SESSIONS_MIN} sessions"
        remedy = "raise it (ulimit -n, or LimitNOFILE= of systemd)"
        raise TooFewDescriptorsError(f"found a limit of {limit} file descriptors, {need}: {remedy}")
