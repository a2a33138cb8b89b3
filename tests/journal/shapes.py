"""The names of all that journals keep: rows, facts, causes and their fields.

``python tests/journal/shapes.py`` writes those of this version to its fixture. Once it is released, whoever keeps something new
adds a version instead (``journal.schema.VERSIONS``).
"""

from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.asks import AskRow
from ykactor.core.messages.facts import FACTS
from ykactor.core.messages.submissions import Submission
from ykactor.core.records.base import Base
from ykactor.core.records.rows import ROWS
from ykactor.journal.schema import VERSION
from ykactor.surfaces.files.daemon_rows import _KINDS
from ykactor.wire.history import RecordedTurn, SubmitAllocation, _Cause

FIXTURES = Path(__file__).parent / "fixtures"


@cache
def kept() -> dict[str, type[Struct]]:
    """All structs that a journal has, in whatever depth."""
    found: dict[type[Struct], None] = {}
    for kind in (*ROWS.values(), *_KINDS.values(), *FACTS, *get_args(Submission), *get_args(Administration)):
        _collect(kind, found)
    for kind in (Base, RecordedTurn, _Cause, SubmitAllocation, AskRow):
        _collect(kind, found)
    return {kind.__name__: kind for kind in found}


def _collect(kind: Any, found: dict[type[Struct], None]) -> None:
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
        found[kind] = None
        for field in structs.fields(kind):
            _collect(field.type, found)
    for part in get_args(kind):
        _collect(part, found)


def shapes() -> dict[str, list[str]]:
    """The fields of each, and the kinds of rows."""
    fields = {name: sorted(field.encode_name for field in structs.fields(kind)) for name, kind in sorted(kept().items())}
    return fields | {"kinds of rows": sorted(ROWS), "kinds of rows of the daemon": sorted(map(str, _KINDS))}


def path_of(version: int) -> Path:
    return FIXTURES / f"shapes-{version}.json"


if __name__ == "__main__":
    path_of(VERSION).write_bytes(msgspec.json.format(msgspec.json.encode(shapes()), indent=1) + b"\n")
