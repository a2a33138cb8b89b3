"""Messages to a resource manager: numbered without gaps, kept for a while, read by one session."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from msgspec import Struct

from ykactor.actors.outbox import KEPT_BYTES_MAX, MessagesLostError, Outbox, OutboxRegistry, SessionReplacedError


class Note(Struct, frozen=True):
    text: str
    sequence: int = 0


#: How the messages of these tests are encoded.
JSON = SimpleNamespace(encode=msgspec.json.encode)


def notes(messages: list[bytes]) -> list[Note]:
    return [msgspec.json.decode(message, type=Note) for message in messages]


def outbox(count: int, kept_max: int = 100) -> Outbox[Any]:
    box: Outbox[Any] = Outbox("rm-1", JSON, kept_max=kept_max)
    for number in range(1, count + 1):
        box.post(Note(f"m{number}"))
    return box


def test_messages_are_numbered_from_one_without_gaps():
    """Every message carries ``sequence``, increasing by one (protocol, Delivery)."""
    assert [(m.sequence, m.text) for m in notes(outbox(3).after(0))] == [(1, "m1"), (2, "m2"), (3, "m3")]


@pytest.mark.parametrize(
    ("after", "expected"),
    [(-1, None), (4, None), (5, [6, 7, 8, 9, 10]), (9, [10]), (10, []), (11, None)],
)
def test_only_kept_messages_can_be_read(after: int, expected: list[int] | None):
    """Reading messages that are no longer kept, or not yet there, is an error; the boundaries themselves are fine."""
    box = outbox(10, kept_max=5)
    if expected is None:
        with pytest.raises(MessagesLostError):
            box.after(after)
    else:
        assert [m.sequence for m in notes(box.after(after))] == expected


def test_messages_are_kept_up_to_their_bytes():
    """300 messages of 1 MB: no more than the bound is kept, and a session that lacks an older one cannot resume (4002)."""
    box: Outbox[Any] = Outbox("rm-1", JSON)
    reader = box.attach(0)
    for _ in range(300):
        box.post(Note("x" * 10**6))
        assert sum(map(len, box._kept)) <= KEPT_BYTES_MAX
    assert [m.sequence for m in notes(box.after(233))] == list(range(234, 301))
    with pytest.raises(MessagesLostError):
        box.attach(232)
    assert reader.attached


async def test_a_session_that_lacks_a_message_dropped_for_its_bytes_is_told():
    """A session that lacks a message dropped for its bytes gets the same error as when the count is exceeded."""
    box: Outbox[Any] = Outbox("rm-1", JSON, bytes_max=1000)
    reader = box.attach(0)
    box.post(Note("x" * 600))
    box.post(Note("x" * 600))
    with pytest.raises(MessagesLostError):
        await reader.take()


def test_after_takes_the_oldest_first_and_no_more_than_asked():
    """A bounded read continues where it stopped."""
    assert [m.sequence for m in notes(outbox(10).after(2, 3))] == [3, 4, 5]


async def test_reader_gets_kept_messages_and_then_new_ones():
    """An unattached outbox keeps; the session that attaches gets what it lacks and is woken for more."""
    box = outbox(3)
    reader = box.attach(1)
    assert [m.sequence for m in notes(await reader.take())] == [2, 3]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_taken, reader, [4])
        await trio.testing.wait_all_tasks_blocked()
        box.post(Note("m4"))


async def expect_taken(reader, sequences):
    assert [m.sequence for m in notes(await reader.take())] == sequences


async def test_newer_session_sends_the_older_one_away():
    """One session at a time for an rmID: the waiting one wakes up and leaves."""
    box = outbox(0)
    old = box.attach(0)

    async def leave():
        with pytest.raises(SessionReplacedError):
            await old.take()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        new = box.attach(0)
    assert new.attached
    assert not old.attached


@pytest.mark.parametrize("count", [0, 3, 300])
async def test_finishing_reader_gets_what_is_there_and_then_nothing(count):
    """``finish`` wakes the reader and ends it behind the last message: what a session sends before it ends."""
    box = outbox(0, kept_max=1000)
    reader = box.attach(0)
    seen = []

    async def read():
        while messages := await reader.take():
            seen.extend(message.sequence for message in notes(messages))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(count):
            box.post(Note(str(number)))
        reader.finish()
    assert seen == list(range(1, count + 1))


async def test_too_slow_session_is_told_that_messages_are_lost():
    """A session that falls behind what is kept must register afresh, it never sees a gap."""
    box = outbox(0, kept_max=2)
    reader = box.attach(0)
    for number in range(3):
        box.post(Note(str(number)))
    with pytest.raises(MessagesLostError):
        await reader.take()


def test_failed_attach_leaves_the_session_in_place():
    """A resume that is refused does not disturb the session that runs."""
    box = outbox(3, kept_max=2)
    reader = box.attach(3)
    with pytest.raises(MessagesLostError):
        box.attach(0)
    assert reader.attached


def test_fresh_registration_goes_on_counting_and_forgets():
    """A fresh registration has an empty outbox; late messages of the old one reach nobody (SC-141)."""
    registry: OutboxRegistry[Any] = OutboxRegistry()
    registry.deliver([Note("nobody listens")])
    old = registry.renew("rm-1", JSON)
    registry.deliver([Note("a"), Note("b")])
    session = old.attach(0)
    new = registry.renew("rm-1", JSON)
    old.post(Note("late"))
    registry.deliver([Note("c")])
    assert not session.attached
    assert [(m.sequence, m.text) for m in notes(new.after(2))] == [(3, "c")]
