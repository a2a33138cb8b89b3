"""``ykactor story``: prints the events about one object, and its present state.

They come from a daemon: the events that it still has in memory, and a snapshot; or from a journal, which has more events, and
what has caused them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from pathlib import Path

import click
from msgspec import UNSET, UnsetType

from ykactor.core.inspection.application_status import ApplicationStatus, PendingStatus
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.partition_status import PartitionStatus, QueueUse, uses_of
from ykactor.core.inspection.shown import Held
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.turn.turn import CycleDue
from ykactor.core.values.parts import finished
from ykactor.core.values.printable import printable
from ykactor.core.values.words import plural
from ykactor.core.waiting.reasons import amounts
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow
from ykactor.surfaces.cli.cells import amount, in_order, time_text
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.events import Past, as_text, opened_past
from ykactor.surfaces.cli.history import cause_of, opened, readable
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY, reserves_nodes, since_option
from ykactor.surfaces.cli.terminal import write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.files.recovery import events_of, recover_partitions
from ykactor.wire.history import RecordedTurn, decode_cause
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import AUDIT, mentioned
from ykactor.wire.si.messages import EventRecord

_GONE = "now: the daemon has nothing of {} any more"
#: To a reader that is limited to queues (SE-84): whether it is there is not known.
_NOT_SHOWN = "now: {} is not shown, if it is there"


@click.command()
@click.argument("key", shell_complete=names_of("app", "queue", "node", "user"))
@daemon_options
@click.option(
    "--state-dir",
    type=EXISTING_DIRECTORY,
    help="Read the journal in this state directory instead, and say what has caused each event. The daemon may run meanwhile.",
)
@since_option("events ")
def command(key: str, daemon: Destination, state_dir: Path | None, since_ns: int) -> None:
    """Print the events about KEY and its present state.

    KEY is an application, an ask or allocation, a node, a queue, a user or a group. The events are those that the daemon still
    has in memory, the oldest first; with --state-dir all that its journal keeps. The present state includes usage, limits, and
    why asks are pending. Exits with code 1 if nothing is known about KEY.
    """
    lines = daemon.run(_collect, key, daemon, since_ns) if state_dir is None else _from_journal(key, state_dir, since_ns)
    is_known = False
    for line in lines:
        write([line])
        is_known = True
    if not is_known:
        knows = "the daemon knows, or shows you," if state_dir is None else f"the journal in {state_dir} knows"
        raise click.ClickException(
            f"{knows} no application, ask, node, queue, user or group {key}, and has no event about it; "
            "the refusal of an ask or node is no event, only its sender gets the reason"
        )


def _from_journal(key: str, directory: Path, since_ns: int) -> Iterator[str]:
    with opened(directory) as reader:
        has_past = False
        for line in past_lines(key, reader, since_ns):
            has_past = True
            yield line
        yield from list(present_lines(key, reader)) or [printable(_GONE.format(key))] * has_past


async def _collect(key: str, daemon: Destination, since_ns: int = 0) -> list[str]:
    async with opened_past(daemon, "snapshot") as told:
        snapshot = told.now
        assert isinstance(snapshot, si.Snapshot), "it confirms a subscription from a snapshot"
        events = [line async for line in _events_about(key, told, since_ns)]
    found = list(chain.from_iterable(present(key, partition) for partition in snapshot.partitions))
    shows_all = all(partition.nodes is not UNSET for partition in snapshot.partitions)
    return events + (found or [printable((_GONE if shows_all else _NOT_SHOWN).format(key))] * bool(events))


async def _events_about(key: str, told: Past, since_ns: int) -> AsyncIterator[str]:
    """A line for each event from a time up to the snapshot that is about ``key``."""
    async for message in told.events(si.Subscribe()):
        if isinstance(message, si.Lagged):
            yield f"events {message.from_} to {message.to} are no longer in memory"
        elif message.timestamp_nano >= since_ns and key in mentioned([message]):
            yield as_text(message)


def past_lines(key: str, reader: Reader, since_ns: int) -> Iterator[str]:
    """A line for each event since a Unix time that is about ``key``, as far as the history reaches back.

    Cost: reads the index of the transactions, and those that are about ``key``.

    Raises:
        JournalError: the journal is damaged, or of another version.
    """
    for number in reader.mentions(key, reader.number_at(since_ns)):
        row = reader.row(number)
        if row is not None:  # else it has become too old meanwhile
            with readable(reader.path, number):
                yield from _lines(key, row, since_ns)


def present_lines(key: str, reader: Reader) -> Iterator[str]:
    """Lines about ``key`` from the state after the newest transaction.

    Raises:
        JournalError, UnreadableRowError, DamagedStateError: the journal is damaged, or of a later version.
    """
    for restored in recover_partitions(reader, reserves=reserves_nodes(os.environ)).values():
        yield from present(key, finished(partition_state(restored.core, restored.scheduler.state)))


def _lines(key: str, row: LogRow, since_ns: int) -> Iterator[str]:
    for event, turn in events_of(row):
        if event.timestamp_nano >= since_ns and key in mentioned([event]):
            yield f"{as_text(event)}  {_why(event, turn)}"


def _why(event: EventRecord, turn: RecordedTurn) -> str:
    cause = None if turn.number is None else decode_cause(turn.cause)
    if isinstance(cause, CycleDue):
        return f"in the scheduling cycle of turn {turn.number}"
    return printable(f"because of {_of_no_turn(event) if cause is None else cause_of(event, cause)}")


def _of_no_turn(event: EventRecord) -> str:
    if event.type == AUDIT:
        return event.reference_id or "somebody who is not known"
    is_failure = event.event_change_detail.startswith("PARTITION_")
    return "an error in the partition" if is_failure else "a request for a partition that does not exist"


Applications = Mapping[str, ApplicationStatus]


def present(key: str, partition: PartitionStatus) -> Iterator[str]:
    """Lines about ``key`` from the state of a partition."""
    yield from map(printable, _present_lines(key, partition))


def _present_lines(key: str, partition: PartitionStatus) -> Iterator[str]:
    yield from _application(key, partition.applications)
    nodes = partition.nodes or {}  # not shown to everybody
    if key in nodes:
        node = nodes[key]
        flag = "schedulable" if node.schedulable else "not schedulable"
        yield f"now: node {key}, {flag}, uses {_amounts_text(node.allocated)}, capacity {_amounts_text(node.capacity)}"
        yield from (f"now: runs {allocation}" for allocation in node.allocations)
    if key in partition.queues:
        queue = partition.queues[key]
        headroom = "unlimited" if queue.headroom is None else _amounts_text(queue.headroom)
        yield f"now: queue {key} {queue.state}{_held(queue.held)}, uses {_amounts_text(queue.allocated)}, headroom {headroom}"
        yield from _pending_in(key, partition.applications)
    yield from (f"now: {key} runs on {node_id}" for node_id in sorted(_nodes_of(key, nodes, partition.applications)))
    yield from _user_or_group(key, partition)


def _nodes_of(key: str, nodes: Mapping[str, NodeStatus], applications: Applications) -> set[str]:
    """The nodes of a task: its application names them also where nodes are not shown, nodes name foreign tasks too."""
    of_applications = (application.allocations or {} for application in applications.values())
    on_nodes = {node_id for node_id, node in nodes.items() if key in node.allocations}
    return on_nodes | {allocations[key] for allocations in of_applications if key in allocations}


def _application(key: str, applications: Applications) -> Iterator[str]:
    for name, application in applications.items():
        if key == name:
            # A rejected application has the queue that it asked for, which need not exist.
            queue = application.queue_name if application.state != "Rejected" else ""
            held = _held(application.held) + (f", held with queue {application.held_with}" if application.held_with else "")
            state = application.outcome or application.state
            yield f"now: application {name} is {state} in {queue or 'no queue'}{held}{_ended(application)}"
        for entry in application.replacing or ():
            if key in (name, entry.allocation_key, entry.placeholder):
                yield (
                    f"now: {entry.allocation_key} replaces placeholder {entry.placeholder}, on {entry.node_id}, "
                    "when the resource manager has confirmed the release of the placeholder"
                )
        for group in application.pending or ():
            if key == name or key in group.allocation_keys:
                examples = ", ".join(group.allocation_keys)
                yield f"now: {plural(group.count, 'ask')} pending ({examples}), each {amounts(group.resource)}: {_reason(group)}"


def _ended(application: ApplicationStatus) -> str:
    """The time and the reason of its end; "" while it has not ended."""
    if application.finished_time is UNSET:
        return ""
    why = "" if application.reason is UNSET else f": {application.reason}"
    return f" since {time_text(application.finished_time)}{why}"


def _held(hold: Held | UnsetType) -> str:
    return "" if hold is UNSET else f", held by {hold.by} since {time_text(hold.since)}"


def _pending_in(path: str, applications: Applications) -> Iterator[str]:
    for name, application in applications.items():
        if application.queue_name == path or application.queue_name.startswith(f"{path}."):
            for group in application.pending or ():
                yield f"now: {plural(group.count, 'ask')} of {name} pending, each {amounts(group.resource)}: {_reason(group)}"


def _user_or_group(key: str, partition: PartitionStatus) -> Iterator[str]:
    """The use and the limits of a user or group: a line for each limit, and for each leaf where no limit counts the use."""
    found = [use for use in uses_of(partition) if use.whose in (f"user {key}", f"group {key}")]
    yield from map(_usage, sorted(found, key=lambda use: (use.whose, use.queue_name)))


def _usage(use: QueueUse) -> str:
    maximum = "no limit" if use.max is None else f"limit {_amounts_text(use.max)}"
    most = f" of {use.max_applications}" if use.max_applications else ""
    runs = f"running applications {use.running_applications}{most}"
    return f"now: {use.whose} in queue {use.queue_name}, uses {_amounts_text(use.allocated)}, {maximum}, {runs}"


def _reason(group: PendingStatus) -> str:
    """The reasons of pending asks, with the last and the next attempt of the first of them to preempt."""
    if group.next_attempt is UNSET:
        return group.reason
    tried = f"tried to preempt at {time_text(group.last_attempt)}, " if isinstance(group.last_attempt, int) else ""
    return f"{group.reason}; {tried}may preempt from {time_text(group.next_attempt)} on"


def _amounts_text(resource: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount(name, value)}" for name, value in in_order(resource)) or "nothing"
