"""The invariants of a partition (SC-131), checked in parts."""

from __future__ import annotations

from ykactor.core.inspection.invariants import checks
from ykactor.core.values.parts import Pace, Pausing
from ykactor.surfaces.http.readings.look import Look

#: Violations of one subject that are kept.
_KEPT_MAX = 10
#: A comparison takes as long as so many other items: 20 us.
_COMPARISON_ITEMS = 5


def violations(look: Look) -> Pausing[dict[str, list[str]]]:
    """By subject the first violations; none is how it should be."""
    pace = Pace()
    broken: dict[str, list[str]] = {}
    for subject, check in checks(look.core, look.state).items():
        found = broken[subject] = []
        for violation in check:
            if violation and len(found) < _KEPT_MAX:
                found.append(violation)
            if pace.is_due(_COMPARISON_ITEMS):
                yield ()
    return broken
