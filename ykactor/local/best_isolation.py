"""The best way of isolating tasks that this machine has."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from ykactor.local.cgroups import own_cgroups
from ykactor.local.isolation import Isolation
from ykactor.local.systemd import systemd

#: The ways, the best first; each is told with what names begin, and returns None if this machine does not have it.
WAYS: tuple[Callable[[str], Isolation | None], ...] = (systemd, own_cgroups)


def best_isolation(directory: Path) -> Isolation:
    """The first way that there is.

    Args:
        directory: where the jobs are kept, an absolute path.
    """
    name = f"ykactor-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"
    return next((found for way in WAYS if (found := way(name)) is not None), Isolation())
