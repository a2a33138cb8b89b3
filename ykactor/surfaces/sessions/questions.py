"""The answers to questions of followers that partitions are read for: use (AP-141), and why something waits (AP-153)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio
from msgspec import Raw, Struct

from ykactor.access import moments
from ykactor.access.explanations import explanation, limited, meanings, no_task
from ykactor.access.view import View
from ykactor.actors.commands import read_partition
from ykactor.actors.gateway import ReadGateway
from ykactor.core.accounting.accounts import ALL_DAYS, Account, told
from ykactor.core.inspection.accounting import Column, Sums, named, sums
from ykactor.core.inspection.finding import Kind, Match, names_like, nearest, nothing_remembered, several
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.times import DAY_NS
from ykactor.surfaces.copies.computing import Computing, NotComputedError
from ykactor.surfaces.copies.explained import computed
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

#: The questions of followers.
Question = si.ReadConfiguration | si.CheckHealth | si.ReadUsage | si.Explain
#: How long a partition may take to answer.
ANSWER_S = 30


class EncodedUsage(Struct, tag_field="type", tag="Usage"):
    """``si.Usage`` with rows that are already encoded."""

    rows: list[Raw]


# ---- use


async def read_usage(
    gateway: ReadGateway, view: View | None, request: si.ReadUsage, encode: Callable[[Struct], bytes]
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


def _partitions(gateway: ReadGateway, view: View | None, request: si.ReadUsage) -> list[PartitionName]:
    """The partitions that count, each once."""
    seen = {name.lower(): name for name in gateway.partitions if view is None or view.shows_partition(name)}
    for number, wanted in enumerate(request.partitions):
        if wanted.lower() not in seen:
            expected = ", ".join(sorted(seen.values())) or "none"
            raise ProtocolError("UNKNOWN_NAME", f"found {wanted!r}, expected one of {expected}", f"partitions[{number}]")
    return [seen[name] for name in dict.fromkeys(map(str.lower, request.partitions))] or [*seen.values()]


async def _sums(gateway: ReadGateway, partition: PartitionName, view: View | None, columns: list[Column], days: range) -> Sums:
    read = partial(_read, columns, days, (lambda _: True) if view is None else view.shows_queue)
    found: Sums = await _found(gateway, partition, read)
    return found


async def _found(
    gateway: ReadGateway, partition: PartitionName, read: Callable[[PartitionCore, SchedulerState, int], Steps[Any]]
) -> Any:
    """The result of a reading of a partition.

    Raises:
        ProtocolError: the partition does not answer.
    """
    try:
        with trio.move_on_after(ANSWER_S):
            return await read_partition(gateway.partitions[partition], read)
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


# ---- why something waits


async def explained(gateway: ReadGateway, view: View | None, request: si.Explain, computing: Computing) -> si.Explanation:
    """The answer, of what ``view`` shows.

    Raises:
        ProtocolError: nothing has this name, several things have it, a partition does not answer, or no process for changes does.
    """
    partitions = _partitions_named(gateway, view, request.partition_name)
    kind = request.kind or ("application" if request.allocation_key else None)
    found: list[Match] = []
    for partition in partitions:
        found += await _found(gateway, partition, partial(_meanings, request.name, kind, view))
    if len(found) != 1:
        why = several(request.name, found) if found else await _nothing(gateway, view, request.name, kind, partitions)
        raise ProtocolError("AMBIGUOUS_NAME" if found else "UNKNOWN_NAME", why, "name")
    match = found[0]._replace(key=request.allocation_key) if request.allocation_key else found[0]
    if request.changes:
        answer = await _with_changes(gateway, view, match, computing, may_preempt=request.preempt)
    else:
        answer = await _found(gateway, match.partition, partial(_explanation, match, view))
    if answer is None:
        raise ProtocolError("UNKNOWN_NAME", no_task(match) if match.key else nothing_remembered(request.name, kind, []), "name")
    return answer


async def _with_changes(
    gateway: ReadGateway, view: View | None, match: Match, computing: Computing, *, may_preempt: bool
) -> si.Explanation | None:
    if match.kind not in ("application", "ask"):
        raise ProtocolError("UNKNOWN_NAME", f"{match.name} is no application and no ask, of which changes need one", "name")
    try:
        return await computed(computing, gateway, view, match, may_preempt=may_preempt)
    except NotComputedError as error:
        raise ProtocolError(error.code, str(error)) from None


def _partitions_named(gateway: ReadGateway, view: View | None, wanted: str) -> list[PartitionName]:
    """The partition of a name, in any case; without one all that are shown."""
    names = {name.lower(): name for name in gateway.partitions if view is None or view.shows_partition(name)}
    if wanted and wanted.lower() not in names:
        expected = ", ".join(sorted(names.values())) or "none"
        raise ProtocolError("UNKNOWN_NAME", f"found {wanted}, expected one of {expected}", "partitionName")
    return [names[wanted.lower()]] if wanted else [*names.values()]


async def _nothing(gateway: ReadGateway, view: View | None, name: str, kind: Kind | None, partitions: list[PartitionName]) -> str:
    """A sentence that nothing has a name, with the nearest ones."""
    like: list[str] = []
    for partition in partitions:
        like += await _found(gateway, partition, partial(_names_like, name, kind, view))
    return nothing_remembered(name, kind, nearest(name, like))


def _meanings(
    name: str, kind: Kind | None, view: View | None, core: PartitionCore, state: SchedulerState, _: int
) -> Steps[list[Match]]:
    return meanings(name, kind, view, core, state)


def _explanation(
    match: Match, view: View | None, core: PartitionCore, state: SchedulerState, now_ns: int
) -> Steps[si.Explanation | None]:
    return explanation(match, view, core, state, now_ns)


def _names_like(
    name: str, kind: Kind | None, view: View | None, core: PartitionCore, _state: SchedulerState, _: int
) -> Steps[list[str]]:
    return names_like(core, name, kind, limited(view))
