"""The contents of a journal after its daemon was killed, compared with all that ever left the daemon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from ledger import Ledger
from recordedfiles import record

from ykactor.core.inspection.invariants import violations
from ykactor.core.records.encoding import decode
from ykactor.core.records.rows import TaskRow
from ykactor.journal.reading import Reader
from ykactor.surfaces.cli.replay import compared, exact_turns, replayed
from ykactor.surfaces.files.recovery import Recovered, recover
from ykactor.wire.si.codec import JSON

#: By partition and node: the keys of what runs there, without what still waits for a placeholder on another node (SC-130).
Placed = dict[tuple[str, str], set[str]]


class Kept:
    """A journal, read as a whole; the daemon that wrote it does not run.

    Attributes:
        messages: all messages to resource managers that are kept, oldest first.
        events: all events, from number 1.
    """

    def __init__(self, reader: Reader, found: Recovered) -> None:
        self.recovered = found
        rows = list(reader.rows())
        self.messages = [JSON.decode_response(data) for row in rows for data in row.messages()]
        self.tasks: dict[str, TaskRow] = {}
        for key, data in reader.records():
            row = None if key.startswith(b'["",') else decode(key, data)[2]
            if isinstance(row, TaskRow):
                assert row.ask.allocation_key not in self.tasks
                self.tasks[row.ask.allocation_key] = row
        self.events = [msgspec.json.encode(event) for event in found.events]
        assert [msgspec.json.decode(event)["sequence"] for event in self.events] == list(range(1, found.last_event + 1))
        _check_turns([text for row in rows for text in row.turns()])

    @classmethod
    def read(cls, directory: Path) -> Kept | None:
        """Read the journal in a directory; None if nothing was committed yet."""
        with Reader.open(directory) as reader:
            found = recover(reader, reserves=True)
            return None if found is None else cls(reader, found)

    def check(self, ledger: Ledger | None) -> None:
        """Against itself, and against what the resource manager knows; the ledger first takes what it was not sent any more."""
        cores = self.recovered.partitions.values()
        found = [sentence for restored in cores for sentence in violations(restored.core, restored.scheduler)]
        assert not found, "\n".join(found)
        waiting = {key for key, row in self.tasks.items() if row.placeholder is not None}
        placed = {
            (str(name), str(node_id)): {str(key) for _, key in node.allocations} - waiting
            for name, restored in self.recovered.partitions.items()
            for node_id, node in restored.core.registry.nodes.items()
        }
        assert_same(placed, placed_by(self.events), "after the newest event")
        if ledger is None:
            return
        assert self.recovered.last_message >= ledger.sequence, f"message {ledger.sequence} was received and is lost"
        for message in self.messages:
            if message.sequence > ledger.first:
                ledger.take(message)
        registries = [restored.core.registry for restored in cores]
        applications = {str(name) for registry in registries for name in registry.applications}
        nodes = {str(name) for registry in registries for name in registry.nodes}
        ledger.check(self.tasks, applications, nodes)


def _check_turns(turns: Iterable[bytes]) -> None:
    """The turns of each partition have numbers without a gap; a partition that is added anew begins at 1."""
    last: dict[str, int] = defaultdict(int)
    for text in turns:
        turn: dict[str, Any] = msgspec.json.decode(text)
        number = turn.get("number")
        if number is not None:
            assert number in (1, last[turn["partition"]] + 1), f"turn {number} of {turn['partition']} follows {last}"
            last[turn["partition"]] = number


def replay(directory: Path) -> None:
    """Check that all daemons that have written the journal decide the same again, also without it (DU-26)."""
    with Reader.open(directory) as reader:
        outcome = replayed(reader)
    assert outcome.turns
    assert outcome.difference is None, outcome.difference
    with TemporaryDirectory() as other:
        exact = Path(other) / "exact.jsonl"
        record(directory, exact, "--exact")
        again = compared(exact_turns(exact), exact)
    assert again.difference is None, again.difference
    assert (again.turns, again.facts) == (outcome.turns, outcome.facts)


def assert_same(found: Placed, expected: Placed, when: str) -> None:
    """Check that the allocations on each node are those of the events."""
    differing = [node for node in found.keys() | expected.keys() if found.get(node) != expected.get(node)]
    assert not differing, f"{when}: {[(node, found.get(node), expected.get(node)) for node in differing]} (found, expected)"


def placed_by(events: Iterable[bytes]) -> Placed:
    """The allocations on each node, according to the events from number 1 on."""
    placed: Placed = {}
    for data in events:
        event = msgspec.json.decode(data)
        if event["type"] != "NODE":
            continue
        place, change, detail = (event["partition"], event["objectID"]), event["eventChangeType"], event["eventChangeDetail"]
        if detail == "NODE_ALLOC" and change == "ADD":
            assert event["referenceID"] not in placed[place], f"placed twice: {event}"
            placed[place].add(event["referenceID"])
        elif detail == "NODE_ALLOC":
            placed[place].remove(event["referenceID"])
        elif detail == "NODE_DECOMISSION":
            del placed[place]
        elif detail == "NODE_SCHEDULABLE":
            placed.setdefault(place, set())
    return placed
