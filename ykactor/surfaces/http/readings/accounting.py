"""The use and the waiting of a partition, summed up by the columns of a request."""

from __future__ import annotations

from collections.abc import Sequence

from ykactor.core.inspection.accounting import Column, named, sums
from ykactor.core.values.parts import Steps, sorted_in_parts
from ykactor.core.values.resources import pruned
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest.codec import encode_part
from ykactor.wire.rest.usage import ResourceSeconds


def resource_seconds(look: Look, columns: Sequence[Column], days: range) -> Steps[list[bytes]]:
    """Sums by these columns, in the order of their values, of these days; encoded. What lasts counts up to now (AP-141)."""
    found = yield from sums(look.core.registry, look.now_ns, columns, days, look.shows)
    rows = yield from sorted_in_parts(found.items())
    encoded = []
    for values, account in rows:
        shown = ResourceSeconds(
            **named(columns, values),
            allocated=pruned(account.allocated),
            waited=pruned(account.waited),
            lost=pruned(account.lost),
        )
        encoded.append(encode_part(shown))
        yield 2
    return encoded
