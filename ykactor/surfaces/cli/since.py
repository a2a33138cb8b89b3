"""A moment in the past, as the options ``--since`` take it."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime

import click

from ykactor.actors.clock import system_ns
from ykactor.core.values.times import S_NS

#: The forms of a time, in UTC: a day, a second, or as events and tokens are printed.
TIMES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ")
#: A time span before now: ``10m``.
_AGO = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS_NS = {"s": S_NS, "m": 60 * S_NS, "h": 3600 * S_NS, "d": 86_400 * S_NS}


class Since(click.ParamType[int]):
    """A time, or how long ago; Unix time in ns."""

    name = "time"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = value if isinstance(value, int) else _unix_ns(value)
        if found is None:
            wanted = "a time in UTC such as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago"
            self.fail(f"found {value!r}, expected {wanted}", param, ctx)
        return found


def _unix_ns(text: str) -> int | None:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, system_ns() - int(ago[1]) * _UNITS_NS[ago[2]])
    for form in TIMES:
        with suppress(ValueError):
            return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000) * 10**6
    return None


since_option = click.option(
    "--since",
    type=Since(),
    default=0,
    metavar="TIME",
    help="Only events from this time on: in UTC, as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago.",
)
