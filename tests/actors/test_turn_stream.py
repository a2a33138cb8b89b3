"""The stream of turns: what its readers get, and when."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
import trio
from recorded import no_failure
from trio.testing import MockClock
from world import load, node, queue, tree

from ykactor.actors import turn_stream
from ykactor.actors.clock import Clock
from ykactor.actors.commands import UNHEARD, FeedCommand, Intake, Publication, Quiesce, TurnRecord
from ykactor.actors.journal import History, Journal, Recording
from ykactor.actors.partition import PartitionActor
from ykactor.actors.turn_stream import BASES_APART_S_EACH, Dropped, TurnStream
from ykactor.core.values.ids import PartitionName
from ykactor.wire.history import encode_cause
from ykactor.wire.turns import Base, EncodedTurns, Facts, Renewed, Turn, TurnMessage


class Durable:
    """A journal that makes durable what it has when it is told to."""

    def __init__(self) -> None:
        self.history = History()
        self._last = 0

    def follow(self, reader: object, number: int) -> None:
        self._last = number

    def commit(self, stream: TurnStream) -> None:
        stream.raise_durable(self._last)


DEFAULT = PartitionName("default")


def add(stream: TurnStream, number: int, base: bytes | None = None, facts: list[bytes] | None = None) -> None:
    """Add a turn, by default without facts; its events begin with ten times its number."""
    turn = TurnRecord(number, number, b"{}", [], base)
    stream.add(Publication(DEFAULT, [], turn), facts or [], 10 * number)


def read(messages: list[bytes]) -> list[TurnMessage]:
    return [msgspec.msgpack.decode(message, type=TurnMessage) for message in messages]


async def test_new_reader_begins_with_what_comes_after_it() -> None:
    """A base that was made for a reader that has left is none of the next: turns between them were not kept for anybody."""
    journal = Durable()
    stream = TurnStream(cast("Journal", journal), {}, EncodedTurns())
    first = stream.join()
    add(stream, 4, b"old")
    stream.leave(first)
    add(stream, 5)
    reader = stream.join()
    journal.commit(stream)
    add(stream, 6)
    add(stream, 7, b"new")
    journal.commit(stream)
    found = read(await reader.next())
    assert [(type(each), getattr(each, "number", None)) for each in found] == [(Base, None), (Turn, 7)]


async def test_large_bases_do_not_drop_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that does not take turns is dropped; the bases with which it begins may be as large as the partitions are."""
    monkeypatch.setattr(turn_stream, "UNREAD_BYTES_MAX", 1000)
    journal = Durable()
    stream = TurnStream(cast("Journal", journal), {}, EncodedTurns())
    reader = stream.join()
    add(stream, 1, b"x" * 5000)
    add(stream, 1, b"y" * 5000)  # of a partition of the same name that has come after it
    journal.commit(stream)
    assert [type(each) for each in read(await reader.next())] == [Base, Turn, Base, Turn]
    for number in range(2, 30):
        add(stream, number)
    journal.commit(stream)
    with pytest.raises(Dropped):
        await reader.next()


async def test_without_a_base_the_facts_are_told() -> None:
    """A reader has all events from when it joins on: of turns that it cannot run it gets the facts, and so of no turn."""
    journal = Durable()
    stream = TurnStream(cast("Journal", journal), {}, EncodedTurns())
    reader = stream.join()
    add(stream, 4, facts=[b'[["A",{}],["B",{}]]', b'[["C",{}]]'])
    add(stream, 5)
    add(stream, 6, b"base", [b'[["D",{}]]'])
    stream.add(Publication(DEFAULT, []), [b'[["E",{}]]'], 70)
    journal.commit(stream)
    facts, base, turn, others = read(await reader.next())
    assert facts == Facts(DEFAULT, b'[["A",{}],["B",{}],["C",{}]]', 40, 4)
    assert (base, turn) == (Base(DEFAULT, b"base"), turn)
    assert isinstance(turn, Turn)
    assert (turn.number, turn.first_event) == (6, 60)
    assert others == Facts(DEFAULT, b'[["E",{}]]', 70)


async def test_a_copy_that_is_lost_needs_another_base() -> None:
    """A reader that has lost its copy gets facts until the partition is made anew for it."""
    journal = Durable()
    stream = TurnStream(cast("Journal", journal), {}, EncodedTurns())
    reader = stream.join()
    add(stream, 4, b"base")
    journal.commit(stream)
    await reader.next()
    reader.forget(DEFAULT)
    add(stream, 5, facts=[b'[["A",{}]]'])
    add(stream, 6, b"base")
    journal.commit(stream)
    assert [type(each) for each in read(await reader.next())] == [Facts, Base, Turn]


async def test_a_reader_with_copies_goes_on() -> None:
    """A reader is not told again the turns that it has; it gets facts of a partition of which it has no copy."""
    journal = Durable()
    stream = TurnStream(cast("Journal", journal), {}, EncodedTurns())
    reader = stream.join([DEFAULT])
    assert (reader.lacks([DEFAULT]), reader.lacks([DEFAULT, PartitionName("gpu")])) == (False, True)
    for number in range(4, 8):
        add(stream, number, b"base" if number > 5 else None, [b'[["A",{}]]'])
    stream.add(Publication(PartitionName("gpu"), [], TurnRecord(4, 4, b"{}", [], None)), [b'[["B",{}]]'], 80)
    journal.commit(stream)
    reader.resume({DEFAULT: (6, 6)})
    renewed, turn, facts = read(await reader.next())
    assert (renewed, facts) == (Renewed(DEFAULT), Facts(PartitionName("gpu"), b'[["B",{}]]', 80, 4))
    assert isinstance(turn, Turn)
    assert turn.number == 7


async def test_bases_that_nobody_has_waited_for_count(autojump_clock: MockClock) -> None:
    """A replica that joins and leaves again and again has bases made no more often than one that stays."""
    stream = TurnStream(cast("Journal", Durable()), {}, EncodedTurns())
    began_s, size = trio.current_time(), 10_000_000
    for number in range(1, 5):
        reader = stream.join()
        await stream.make_bases()
        stream.leave(reader)
        add(stream, number, b"x" * size)
    assert trio.current_time() - began_s >= 3 * BASES_APART_S_EACH * size


async def test_without_a_journal_only_a_reader_has_turns_recorded(autojump_clock: MockClock) -> None:
    """Nothing is encoded for nobody; and who asks for a base and leaves has nobody make the partition anew again and again."""
    recorded, is_read, history = list[TurnRecord | None](), False, History()

    async def publish(command: FeedCommand) -> None:
        assert isinstance(command, Publication)
        recorded.append(command.turn)

    recording = Recording(trio.lowlevel.checkpoint, encode_cause, history, no_failure, lambda: is_read, has_rows=False)
    actor = PartitionActor(load(tree(queue("a"))), Clock(0), publish, recording=recording)

    async def turns_of(name: str) -> list[TurnRecord | None]:
        """The records of the turns that a node causes, and of those that follow when nothing else is to be done."""
        recorded.clear()
        for command in (Intake([node(name, vcore=1)]), Quiesce(UNHEARD)):
            await actor.inbox.put(command)
            await trio.sleep(10)
        return list(recorded)

    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        assert await turns_of("n1") == [None]
        is_read = True
        assert [turn and (turn.base, turn.changes) for turn in await turns_of("n2")] == [(None, []), (None, [])]
        history.ask_for_bases()
        with_base = await turns_of("n3")
        assert sum(turn is not None and turn.base is not None for turn in with_base) == 1
        history.ask_for_bases()
        is_read = False
        core = actor.core
        assert await turns_of("n4") == [None]
        assert actor.core is core
        nursery.cancel_scope.cancel()
