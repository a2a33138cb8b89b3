"""File descriptors, of which some are kept for the files of the daemon itself, such as its journal and queue file."""

import resource

#: Descriptors that are used neither for connections nor for what is sent over them.
RESERVE = 64


def is_reserved(descriptor: int) -> bool:
    """Whether a new descriptor is one of the last ones of the process.

    The system gives the lowest number that is free. So a number near the limit says that all others are in use, and nothing needs
    to be counted.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and descriptor >= limit - RESERVE
