"""The accounts of use and of waiting, for a follower that asks (``ReadUsage``, AP-141)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio
from msgspec import Raw, Struct

from ykactor.access import moments
from ykactor.access.view import View
from ykactor.actors.gateway import Gateway
from ykactor.actors.reading import read_partition
from ykactor.core.accounting.accounts import ALL_DAYS, Account, told
from ykactor.core.inspection.accounting import Column, Sums, named, sums
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.times import DAY_NS
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

#: How long a partition may take to answer.
ANSWER_S = 30


class EncodedUsage(Struct, tag_field="type", tag="Usage"):
    """``si.Usage`` with rows that are already encoded."""

    rows: list[Raw]


async def read_usage(
    gateway: Gateway, view: View | None, request: si.ReadUsage, encode: Callable[[Struct], bytes]
) -> EncodedUsage:
    """The answer, of what ``view`` shows; encoded a part at a time, because applications can be many.

    Raises:
        ProtocolError: the request has an unknown name, or a partition does not answer.
    """
    columns, found = _columns(request), Sums()
    for partition in _partitions(gateway, view, request):
        for part in in_parts((await _sums(gateway, partition, view, columns, _days(request))).items()):
            for values, account in part:
                found.setdefault(values, Account()).add(account)
            await trio.lowlevel.checkpoint()
    rows = []
    for part in in_parts(found.items()):
        rows += [Raw(encode(_row(columns, values, account))) for values, account in part]
        await trio.lowlevel.checkpoint()
    return EncodedUsage(rows)


def _columns(request: si.ReadUsage) -> list[Column]:
    for number, name in enumerate(request.by):
        if name not in [*Column] or name in request.by[:number]:
            raise ProtocolError(
                "UNKNOWN_NAME", f"found {name!r}, expected some of {', '.join(Column)}, each once", f"by[{number}]"
            )
    return [*map(Column, request.by)]


def _days(request: si.ReadUsage) -> range:
    first = _day(request.first_day, "firstDay") if request.first_day else ALL_DAYS[0]
    return range(first, (_day(request.last_day, "lastDay") if request.last_day else ALL_DAYS[-1]) + 1)


def _day(text: str, path: str) -> int:
    """The day of a date, counted from 1970."""
    moment = moments.parse(text)
    if moment is None:
        raise ProtocolError("MALFORMED", f"found {text!r}, expected {moments.FORM}", path)
    return moments.unix_ns(moment) // DAY_NS


def _partitions(gateway: Gateway, view: View | None, request: si.ReadUsage) -> list[PartitionName]:
    """The partitions that count, each once."""
    seen = {name.lower(): name for name in gateway.partitions if view is None or view.shows_partition(name)}
    for number, wanted in enumerate(request.partitions):
        if wanted.lower() not in seen:
            expected = ", ".join(sorted(seen.values())) or "none"
            raise ProtocolError("UNKNOWN_NAME", f"found {wanted!r}, expected one of {expected}", f"partitions[{number}]")
    return [seen[name] for name in dict.fromkeys(map(str.lower, request.partitions))] or [*seen.values()]


async def _sums(gateway: Gateway, partition: PartitionName, view: View | None, columns: list[Column], days: range) -> Sums:
    read = partial(_read, columns, days, (lambda _: True) if view is None else view.shows_queue)
    try:
        with trio.move_on_after(ANSWER_S):
            found: Sums = await read_partition(gateway.partitions[partition], read)
            return found
    except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
        raise ProtocolError("UNAVAILABLE", f"partition {partition} does not run") from None
    raise ProtocolError("UNAVAILABLE", f"partition {partition} has not answered within {ANSWER_S} s")


def _read(
    columns: list[Column],
    days: range,
    shows_queue: Callable[[str], bool],
    core: PartitionCore,
    _: SchedulerState,
    now_ns: int,
) -> Steps[Sums]:
    return sums(core.registry, now_ns, columns, days, shows_queue)


def _row(columns: list[Column], values: tuple[str | int, ...], account: Account) -> si.UsageRow:
    allocated, waited, lost = map(told, (account.allocated, account.waited, account.lost))
    return si.UsageRow(**named(columns, values), allocated=allocated, waited=waited, lost=lost)
