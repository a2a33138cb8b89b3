"""Applications that have ended, as ``ykactor apps`` and ``ykactor app`` show them."""

from __future__ import annotations

from typing import Any

from ykactor.core.values.times import S_NS
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.views.listing import Column, field


def durations(application: dict[str, Any]) -> dict[str, int]:
    """The seconds that an application has waited for its start and has run; what is not known is left out."""
    submitted_ns, started_ns = (application.get(key) for key in ("submissionTime", "startTime"))
    # Not the time in Completing, in which another task might have come.
    finished_ns = application.get("lastWorkTime", application.get("finishedTime"))
    found = {}
    if submitted_ns is not None and started_ns is not None:
        found["waitedSeconds"] = (started_ns - submitted_ns) // S_NS
    if started_ns is not None and finished_ns is not None:
        found["ranSeconds"] = (finished_ns - started_ns) // S_NS
    return found


SUBMITTED, WAITED, RAN, ENDED, USED, LOST, REASON = (
    field("submissionTime", time_text),
    field("waitedSeconds", cells.age),
    field("ranSeconds", cells.age),
    field("finishedTime", time_text),
    field("usedSeconds", cells.resource_hours),
    field("lostSeconds", cells.resource_hours),
    field("reason"),
)
#: What a table has of them beside their names.
COLUMNS = (
    Column("SUBMITTED", SUBMITTED),
    Column("WAITED", WAITED, is_number=True),
    Column("RAN", RAN, is_number=True),
    Column("ENDED", ENDED),
    Column("USED", USED),
    Column("LOST", LOST),
    Column("GROUPS", field("groups", ",".join), is_wide=True),
    Column("REASON", REASON),
)
