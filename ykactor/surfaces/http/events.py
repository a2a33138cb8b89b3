"""``/ws/v1/events/batch`` and ``/ws/v1/events/stream``: the feed in the form of Apache YuniKorn.

Numbers of the feed begin at 1, ids of Apache YuniKorn at 0. The ring of the feed is what both read; a stream is a subscriber like
others, so nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import trio
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.gateway import ReadGateway
from ykactor.actors.selection import Batch, EventFilter, Format
from ykactor.actors.subscription import Message, Missed, Subscription
from ykactor.core.values.parts import in_parts
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.slots import Slots
from ykactor.surfaces.http.app import caller_of, check_sees_all
from ykactor.surfaces.http.parameters import number
from ykactor.surfaces.http.replies import JSON, Page, Streamed, Write, allowed_methods, cors, error_page, reply
from ykactor.surfaces.net.descriptors import fitting
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest import events as wire
from ykactor.wire.rest.codec import encode
from ykactor.wire.si.messages import EventRecord

#: Records of one batch.
RECORDS_MAX = 10_000
#: Streams that are open.
STREAMS_MAX = 100
_EVERYTHING = EventFilter()


def _lines(events: Sequence[bytes]) -> bytes:
    return b"".join(event + b"\n" for event in events)


_FORMAT = Format(wire.encode_events, _lines)


class Events:
    """Answers requests for events.

    Args:
        stopping: set when the daemon stops.
    """

    def __init__(self, gateway: ReadGateway, stopping: trio.Event) -> None:
        self._gateway = gateway
        self._stopping = stopping
        self._streams = Slots("streams", lambda: fitting(STREAMS_MAX))

    # ---- batch

    async def batch(self, request: Request) -> Response:
        """``/ws/v1/events/batch``."""
        check_sees_all(request)
        count = min(number(request, "count", RECORDS_MAX, least=1), RECORDS_MAX)
        start, ring = number(request, "start", 0), self._gateway.feed.ring
        first, lowest, highest = start + 1, ring.lowest, ring.durable
        records = None
        if lowest <= first <= highest:
            numbers = range(first, min(highest, first + count - 1) + 1)
            records = await _encoded([cast("EventRecord", ring.event(wanted)) for wanted in numbers])
        found = wire.Events(
            instance_uuid=str(self._gateway.terms.present),
            lowest_id=max(0, min(lowest, highest) - 1),
            highest_id=max(0, highest - 1),
            event_records=records,
        )
        return await reply(request, Page(200, [encode(found)]))

    # ---- stream

    async def stream(self, request: Request) -> Response:
        """``/ws/v1/events/stream``."""
        check_sees_all(request)
        past, holder = number(request, "count", 0), caller_of(request).holder
        if self._streams.refusal(holder):
            raise RefusedError(503, "Too many streaming connections")
        ring = self._gateway.feed.ring
        after = max(ring.durable - past, ring.lowest - 1)
        produce = partial(self._produce, after, caller_of(request))
        headers = {"Content-Type": JSON, **cors(allowed_methods(request))}
        return Streamed(produce, headers, partial(self._streams.take, holder))

    async def _produce(self, after: int, caller: Caller, write: Write) -> None:
        """Write what follows an event until it ends; the last line then says why. A caller is reviewed while it is held here."""
        await write(encode(wire.StreamHead(instance_uuid=str(self._gateway.terms.present))))
        stream = _Stream(Subscription(self._gateway.feed, _FORMAT, _EVERYTHING, after))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.end_after, self._stopping, "the daemon stops")
            nursery.start_soon(stream.end_after, caller.ended, "you may not read any more")
            while not stream.ended:
                if part := await stream.next():
                    await write(part)
            nursery.cancel_scope.cancel()
        await write(b"".join(error_page(200, stream.ended).parts))


class _Stream:
    """A subscription that can be ended while it is waited for; what is being written meanwhile is written to its end.

    Attributes:
        ended: why; "" until then.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.ended = ""
        self._subscription = subscription
        self._waiting = trio.CancelScope()

    async def end_after(self, event: trio.Event, reason: str) -> None:
        """End it when the event is set."""
        await event.wait()
        self.ended = self.ended or reason
        self._waiting.cancel()

    async def next(self) -> bytes:
        """The next lines; none if it has ended, or has something else to tell."""
        message: Message | None = None
        with trio.CancelScope() as self._waiting:
            message = await self._subscription.next()
        match message:
            case Batch(packed=packed):
                lines: bytes = packed
                return lines
            case Missed(first, last):
                self.ended = f"the events {first - 1} to {last - 1} are not kept any more: you have read too slowly"
        return b""


async def _encoded(events: list[EventRecord]) -> list[Raw]:
    """Events as JSON, a part at a time."""
    encoded: list[Raw] = []
    for part in in_parts(events):
        encoded += map(Raw, wire.encode_events(part))
        await trio.lowlevel.checkpoint()
    return encoded
