"""The configurations that a resource manager sends: read beside its other requests, because that can take minutes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from ykactor.actors.gateway import Gateway, ReadConfig
from ykactor.actors.outbox import Outbox
from ykactor.surfaces.server.peer import error_response
from ykactor.surfaces.server.pending import Pending, unavailable_when_closed
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ProtocolError

#: The number of configurations of one session that may wait until an earlier one has been read and applied.
WAITING_MAX = 4


class ConfigUpdates:
    """Carries out the ``UpdateConfigurationRequest``s of one session in their order, while the session takes other requests."""

    def __init__(self, gateway: Gateway, outbox: Outbox[Any], acknowledge: trio.MemorySendChannel[Pending]) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._acknowledge = acknowledge
        self._put, self._requests = trio.open_memory_channel[si.UpdateConfigurationRequest](WAITING_MAX)
        self._reading = trio.CancelScope()

    def put(self, request: si.UpdateConfigurationRequest) -> None:
        """Carry out a request later.

        Raises:
            ProtocolError: too many requests wait.
        """
        try:
            self._put.send_nowait(request)
        except trio.WouldBlock:
            found = f"found {WAITING_MAX} configurations that wait for an earlier one, expected fewer"
            raise ProtocolError("UNAVAILABLE", f"{found}: wait for an Ack", "config") from None

    def close(self) -> None:
        """Take no more requests; ``run`` ends after the last one."""
        self._put.close()

    def cancel(self) -> None:
        """Read no more configurations; a change that has begun is completed, without an ``Ack``."""
        self._reading.cancel()

    async def run(self) -> None:
        """Carry out requests until ``close`` or ``cancel``."""
        with self._acknowledge, self._requests, self._reading:
            async for request in self._requests:
                try:
                    pending = await self._update(request)
                    if request.id:
                        await self._acknowledge.send(pending)
                except ProtocolError as error:
                    self._outbox.post(error_response(error, request.id))

    async def _update(self, request: si.UpdateConfigurationRequest) -> Pending:
        failure = "update of configuration failed"
        async with reading_config(self._gateway, request.config, failure, request.if_checksum) as config:
            if self._gateway.outboxes.current is not self._outbox:
                raise ProtocolError("NOT_REGISTERED", "the registration ended while the configuration was read", "config")
            return Pending(request.id, self._gateway.partitions, (), await config.apply())


@asynccontextmanager
async def reading_config(gateway: Gateway, text: str, failure: str, if_checksum: str = "") -> AsyncIterator[ReadConfig]:
    """Read a configuration, while nobody but other configurations waits; within the block no other request is handled.

    Args:
        failure: how the message of a ``ProtocolError`` begins.
    """
    try:
        with unavailable_when_closed("the partitions do"):
            async with gateway.reading_config(text, if_checksum) as config, gateway.outboxes.turn:
                yield config
    except ProtocolError as error:
        raise ProtocolError(error.code, f"{failure}: {error.message}", error.path) from None
