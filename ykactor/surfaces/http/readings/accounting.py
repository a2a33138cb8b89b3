"""What was used and waited for, by what somebody asks for."""

from __future__ import annotations

from collections.abc import Sequence

from ykactor.access import moments
from ykactor.core.accounting.account import DAY_S
from ykactor.core.inspection.accounting import Column, sums
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.times import S_NS
from ykactor.surfaces.http.readings.look import Look, used
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode_part


def resource_seconds(look: Look, columns: Sequence[Column], first_day: int) -> Pausing[list[bytes]]:
    """Sums by these columns, in the order of their values, from a day on; encoded. What lasts counts up to now (AP-141)."""
    found = yield from sums(look.core.registry, look.now_ns, columns, first_day, look.shows)
    encoded, pace = [], Pace()
    for values, account in sorted(found.items()):
        names = {column: _text(value) for column, value in zip(columns, values, strict=True)}
        shown = types.ResourceSeconds(
            day=names.get(Column.DAY, ""),
            queue=names.get(Column.QUEUE, ""),
            user=names.get(Column.USER, ""),
            group=names.get(Column.GROUP, ""),
            application=names.get(Column.APPLICATION, ""),
            allocated=used(account.allocated),
            waited=used(account.waited),
            lost=used(account.lost),
        )
        encoded.append(encode_part(shown))
        if pace.is_due(2):
            yield ()
    return encoded


def _text(value: str | int) -> str:
    """A day as a date."""
    return f"{moments.at(value * DAY_S * S_NS):%Y-%m-%d}" if isinstance(value, int) else value
