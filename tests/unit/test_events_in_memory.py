"""``ykactor events`` and ``ykactor story`` end at the last event that there was, whatever the daemon sends."""

import pytest
import trio
from trio.testing import MockClock

from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import MessageStream
from ykactor.surfaces.cli.events import up_to
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON


class Stream(MessageStream):
    """Has these messages, and then is silent."""

    def __init__(self, *messages: si.FeedMessage) -> None:
        self._encoding = JSON
        self._messages = list(messages)

    async def receive(self) -> bytes:
        if not self._messages:
            await trio.sleep_forever()
        return JSON.encode(self._messages.pop(0))


async def told(last: int, stream: Stream) -> list[si.EventRecord | si.Lagged]:
    return [message async for message in up_to(last, stream)]


def events(*numbers: int) -> si.Events:
    return si.Events(events=[si.EventRecord(number, "APP", "app-1", "ADD", "APP_NEW", 0) for number in numbers])


@pytest.mark.parametrize(
    ("messages", "numbers", "lost"),
    [
        ([events(1, 2), events(3)], [1, 2, 3], None),
        ([events(1, 3, 4)], [1, 3], None),  # the last one is later than the beginning
        ([si.Lagged(from_=1, to=2), events(3)], [3], (1, 2)),
        ([si.Lagged(from_=1, to=7)], [], (1, 7)),
        ([events(2), si.Bookmark(sequence=3)], [2], None),  # the third is not wanted
        ([si.JournalStatus(writable=False), si.Bookmark(sequence=3)], [], None),
    ],
)
async def test_ends(messages: list[si.FeedMessage], numbers: list[int], lost: tuple[int, int] | None) -> None:
    found = await told(3, Stream(*messages))
    assert [event.sequence for event in found if isinstance(event, si.EventRecord)] == numbers
    assert [(missing.from_, missing.to) for missing in found if isinstance(missing, si.Lagged)] == ([lost] if lost else [])


async def test_a_daemon_in_which_nothing_has_happened() -> None:
    """A daemon without events has nothing to wait for."""
    assert await told(0, Stream()) == []


async def test_a_silent_daemon(autojump_clock: MockClock) -> None:
    """A client does not wait for a silent daemon for ever."""
    with pytest.raises(Disconnected, match="no message within 60 s"):
        await told(3, Stream(events(1)))


async def test_a_refusal() -> None:
    """A refusal is raised with its code."""
    with pytest.raises(RequestRefused, match="UNAVAILABLE: no"):
        await told(3, Stream(si.ErrorResponse(code="UNAVAILABLE", message="no")))
