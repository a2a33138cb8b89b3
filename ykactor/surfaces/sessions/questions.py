"""The answers to questions of followers that partitions are read for: use (AP-141), and why an ask waits (AP-153)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio
from msgspec import Raw, Struct

from ykactor.access import moments
from ykactor.access.view import View, in_whole_ms
from ykactor.actors.commands import read_partition
from ykactor.actors.gateway import ReadGateway
from ykactor.core.accounting.accounts import ALL_DAYS, Account, told
from ykactor.core.inspection.accounting import Column, Sums, named, sums
from ykactor.core.inspection.explaining import explain, first_ask
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.times import DAY_NS
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


# ---- why an ask waits


async def explained(gateway: ReadGateway, view: View | None, request: si.Explain) -> si.Explanation:
    """The answer, of what ``view`` shows.

    Raises:
        ProtocolError: there is no such partition, application or task, or the partition does not answer.
    """
    names = {name.lower(): name for name in gateway.partitions if view is None or view.shows_partition(name)}
    partition = names.get(request.partition_name.lower() or "default")
    if partition is None:
        found, expected = request.partition_name or "no partition", ", ".join(sorted(names.values())) or "none"
        raise ProtocolError("UNKNOWN_NAME", f"found {found}, expected one of {expected}", "partitionName")
    read = partial(_explain, ApplicationID(request.application_id), AllocationKey(request.allocation_key), view)
    answer: si.Explanation | ProtocolError = await _found(gateway, partition, read)
    if isinstance(answer, ProtocolError):
        raise answer
    return answer


def _explain(
    application_id: ApplicationID, key: AllocationKey, view: View | None, core: PartitionCore, state: SchedulerState, _: int
) -> Steps[si.Explanation | ProtocolError]:
    path = core.registry.applications.get(application_id)
    if path is None or not (view is None or view.shows_queue(path)):
        return (yield from _gone(application_id, core, view))
    waiting = state.applications[application_id]
    wanted = key or (yield from first_ask(waiting))
    if wanted is None:
        return si.Explanation(status=f"nothing of application {application_id} is pending: it is {waiting.state.value}")
    sight = None if view is None or view.queues is None else view
    if (found := (yield from explain(core, state, application_id, wanted, sight))) is not None:
        return si.Explanation(ask=found if sight is None else in_whole_ms(found, ["creation_time"]))
    running = core.registry.leaf_of(application_id).applications[application_id].tasks.allocations.get(wanted)
    if running is None:
        why = f"application {application_id} has no task {wanted} that waits or runs"
        return ProtocolError("UNKNOWN_NAME", why, "allocationKey")
    where = f" on {running[1]}" if sight is None else ""
    return si.Explanation(status=f"task {wanted} runs{where}")


def _gone(application_id: ApplicationID, core: PartitionCore, view: View | None) -> Steps[si.Explanation | ProtocolError]:
    """The answer about an application that does not live: the last one with this id that is remembered."""
    for ended in reversed(core.timers.ended.values()):
        if ended.application_id == application_id and (view is None or view.shows_queue(ended.queue)):
            past, state = ended.past, (ended.past.outcome or ended.state).value
            why = ended.reason or past.message or past.failure
            return si.Explanation(status=f"application {application_id} has ended: it is {state}{f': {why}' if why else ''}")
        yield 1
    rejected = core.timers.rejected.get(application_id)
    if rejected is not None and (view is None or view.queues is None):
        return si.Explanation(status=f"application {application_id} was rejected: {rejected.reason}")
    return ProtocolError("UNKNOWN_NAME", f"there is no application {application_id} in partition {core.name}", "applicationID")
