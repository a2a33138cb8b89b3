"""``ykactor story``: prints the events about one object, and its present state.

They come from a daemon: the events that it still has in memory, and a snapshot; or from a journal, which has more events, and
what has caused them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import click
from msgspec import UNSET

from ykactor.client import Disconnected, RequestRefused
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.turn.turn import CycleDue
from ykactor.core.values.parts import finished
from ykactor.core.values.printable import printable
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.journal.transaction import LogRow
from ykactor.surfaces.cli import loop, past
from ykactor.surfaces.cli.causes import cause_of
from ykactor.surfaces.cli.environment import reserves_nodes
from ykactor.surfaces.cli.follow import as_text
from ykactor.surfaces.cli.present import present
from ykactor.surfaces.cli.since import since_option
from ykactor.surfaces.cli.terminal import write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.files.history import events_of, readable
from ykactor.surfaces.files.recovery import recover_partitions
from ykactor.wire.history import RecordedTurn, decode_cause
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import AUDIT, mentioned
from ykactor.wire.si.messages import EventRecord

_GONE = "now: the daemon has nothing of {} any more"
#: To a reader that is limited to queues (SE-84): whether it is there is not known.
_NOT_SHOWN = "now: {} is not shown, if it is there"


@click.command()
@click.argument("key")
@daemon_options
@click.option(
    "--state-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read the journal in this state directory instead, and say what has caused each event. The daemon may run meanwhile.",
)
@since_option
def command(key: str, daemon: Destination, state_dir: Path | None, since: int) -> None:
    """Print the events about KEY and its present state.

    KEY is an application, an ask or allocation, a node, a queue, a user or a group. The events are those that the daemon still
    has in memory, the oldest first; with --state-dir all that its journal keeps. The present state includes usage, limits, and
    why asks are pending. Exits with code 1 if nothing is known about KEY.
    """
    tell = partial(_from_daemon, key, daemon, since) if state_dir is None else partial(_from_journal, key, state_dir, since)
    is_known = False
    for line in tell():
        write([line])
        is_known = True
    if not is_known:
        knows = "the daemon knows, or shows you," if state_dir is None else f"the journal in {state_dir} knows"
        raise click.ClickException(
            f"{knows} no application, ask, node, queue, user or group {key}, and has no event about it; "
            "the refusal of an ask or node is no event, only its sender gets the reason"
        )


def _from_journal(key: str, directory: Path, since_ns: int) -> Iterator[str]:
    try:
        with Reader.open(directory) as reader:
            has_past = False
            for line in past_lines(key, reader, since_ns):
                has_past = True
                yield line
            yield from list(present_lines(key, reader)) or [printable(_GONE.format(key))] * has_past
    except (JournalError, UnreadableRowError, DamagedStateError) as error:
        raise click.ClickException(str(error)) from None


def _from_daemon(key: str, daemon: Destination, since_ns: int) -> list[str]:
    try:
        return loop.run(_collect, key, daemon, since_ns)
    except* (Disconnected, RequestRefused) as errors:
        raise daemon.problem(errors.exceptions[0]) from None


async def _collect(key: str, daemon: Destination, since_ns: int = 0) -> list[str]:
    async with past.opened(daemon, "snapshot") as told:
        snapshot = told.now
        assert isinstance(snapshot, si.Snapshot), "it confirms a subscription from a snapshot"
        events = [line async for line in _events_about(key, told, since_ns)]
    found = list(chain.from_iterable(present(key, partition) for partition in snapshot.partitions))
    shows_all = all(partition.nodes is not UNSET for partition in snapshot.partitions)
    return events + (found or [printable((_GONE if shows_all else _NOT_SHOWN).format(key))] * bool(events))


async def _events_about(key: str, told: past.Past, since_ns: int) -> AsyncIterator[str]:
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
            with readable(reader, number):
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
