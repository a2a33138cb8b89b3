"""The explanation of a queue and of a node as text (AP-156)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET, to_builtins

from ykactor.core.inspection.explanation import NodeExplanation, QueueExplanation, ShortStatus
from ykactor.core.inspection.node_status import node_state
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import quantity_text
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import NOT_SHOWN, time_text
from ykactor.surfaces.cli.views.listing import Column, field, table
from ykactor.surfaces.cli.views.queues import VIEW as QUEUES
from ykactor.surfaces.cli.views.view import is_held


def of_queue(found: QueueExplanation) -> Iterator[str]:
    """The row of a queue, what is pending by code, the oldest ask, and the users of what is short."""
    row = {"queueName": found.queue_name, **to_builtins(found.status)}
    yield from table(QUEUES.columns, [row | {"isHeld": is_held(row)}])
    yield ""
    if found.oldest is UNSET:
        yield "nothing is pending"
        return
    yield printable(f"pending: {_counts(found.pending)}")
    oldest = found.oldest
    yield printable(f"oldest: {oldest.application_id}/{oldest.allocation_key} since {time_text(oldest.creation_time)}")
    yield printable(f"  {oldest.code}: {oldest.reason}")
    if found.short is not UNSET:
        yield printable(_short(found.short))
        resource = found.short.resource
        shares = [f"user {share.user} {_amount(resource, share.amount)}" for share in found.users]
        if found.other_users:
            shares.append(f"{plural(found.other_users, 'other')} {_amount(resource, found.others_use)}")
        yield printable(f"  used by {', '.join(shares) or 'nobody'}")


def _counts(counts: Mapping[str, int]) -> str:
    """``7 QUOTA, 2 NODES``, as they come."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _amount(resource: str, amount: int) -> str:
    return quantity_text(resource, amount) if resource else str(amount)


def _short(short: ShortStatus) -> str:
    """``short: vcore in root.a, 3 of 3 used, keeps back 7 asks``."""
    place = f"{short.whose} in {short.queue_name}" if short.whose else short.queue_name
    what = short.resource or "running applications"
    used = NOT_SHOWN
    if short.used is not UNSET and short.max is not UNSET:
        used = f"{_amount(short.resource, short.used)} of {_amount(short.resource, short.max)}"
    return f"short: {what} in {place}, {used} in use, {plural(short.asks, 'ask')} kept back"


_FITTING = [
    Column("QUEUE", field("queueName")),
    Column("ASKS", field("asks"), is_number=True),
    Column("WANTS", field("resource", cells.resource)),
    Column("SUCH AS", field("applicationID")),
    Column("KEPT BACK BY", lambda row: f"{row['code']}: {row['reason']}"),
]


def of_node(found: NodeExplanation) -> Iterator[str]:
    """The free amounts of a node, what keeps it from taking pending asks, and what keeps those back that would fit."""
    status = found.status
    yield printable(f"node {found.node_id}: {node_state(status)}, {plural(len(status.allocations), 'task')}")
    yield f"free {cells.resource(status.available)} of {cells.resource(status.capacity)}"
    if status.reservations:
        yield printable(f"reserved for {', '.join(status.reservations)}")
    yield ""
    if not found.pending:
        yield "nothing is pending"
        return
    yield printable(f"{plural(sum(found.pending.values()), 'pending ask')}: {_counts(found.pending)}")
    if found.fitting:
        yield printable(f"those with room wait for: {_counts(found.kept_back)}")
        yield ""
        yield from table(_FITTING, [to_builtins(each) for each in found.fitting])
        if found.fitting_count > len(found.fitting):
            yield f"and {found.fitting_count - len(found.fitting)} more groups"
