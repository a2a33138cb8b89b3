"""The session of an operator: it acts on nodes, applications and queues, changes the configuration, ends registrations.

Requests are carried out one after the other, beside the registered resource manager or without any. Each is answered when its
effect and the audit of it are durable; then the next one is read, so that nothing piles up here.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress

import trio
from msgspec import Struct, structs

from ykactor.actors.driving import pause
from ykactor.actors.gateway import Gateway
from ykactor.core.values.parts import PART_MAX
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.large_requests import read_request
from ykactor.surfaces.sessions.operator_requests import OperatorRequests
from ykactor.surfaces.sessions.peer import Peer, error_response, journal_status
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding
from ykactor.wire.si.protocol_error import ProtocolError

logger = logging.getLogger(__name__)

#: Of a node in the path of a mistake.
_INDEX = re.compile(r"^nodes\[(\d+)\]")


class OperatorSession:
    """Takes the requests of an operator and answers them."""

    def __init__(self, peer: Peer, gateway: Gateway, configs: ConfigUpdates, caller: Caller, audit: Audit) -> None:
        self.peer = peer
        self._gateway = gateway
        self._caller = caller
        self._audit = audit
        self._requests = OperatorRequests(gateway, configs, caller, audit)
        self._notices = gateway.outboxes.notices()
        self._is_stopping = False
        #: Around waiting for a request; cancelled by ``stop``.
        self._listening = trio.CancelScope()

    def stop(self) -> None:
        """Take no more requests; ``run`` answers the one under way and ends."""
        self._is_stopping = True
        self._listening.cancel()

    async def run(self) -> None:
        """Serve the peer until the connection ends or ``stop`` is called."""
        with suppress(ConnectionClosedError):
            while not self._is_stopping:
                with trio.CancelScope() as self._listening:
                    message = await self.peer.receive()
                if self._listening.cancelled_caught:
                    break
                await self._tell_of_journal()
                await self._gateway.outboxes.room()
                for answer in await self._answers(message):
                    await self.peer.send(answer)

    async def _tell_of_journal(self) -> None:
        """A request is not answered before it is durable: the peer must know why that takes long."""
        notice = self._notices.next()
        if notice is not None:
            await self.peer.send(journal_status(notice))

    async def _answers(self, message: str | bytes) -> list[Struct]:
        """Carry out a request; none of one that is carried out and wants no answer."""
        request_id = ""
        try:
            request = await read_request(Encoding.decoding_operator_request, self.peer.encoding, message)
            request_id = request.id
            ack = await self._carry_out(request)
        except ProtocolError as error:
            return [error_response(error, request_id)]
        return [ack] if request_id else []

    async def _carry_out(self, request: si.OperatorRequest) -> si.Ack:
        try:
            await self._check(request)
            ack = await self._requests.carry_out(request)
        except ProtocolError as error:
            self._audit.refused_message(self._caller, request, str(error))
            raise
        await self._audit.durable()
        self.peer.settle()
        return ack

    async def _check(self, request: si.OperatorRequest) -> None:
        """Ask whether the caller may send the request, of a few of its nodes at a time: each is asked about."""
        if not isinstance(request, si.NodeRequest):
            self._caller.check(request)
            return
        for start in range(0, len(request.nodes) + 1, PART_MAX):
            try:
                self._caller.check(structs.replace(request, nodes=request.nodes[start : start + PART_MAX]))
            except ProtocolError as error:
                raise ProtocolError(error.code, error.message, _shifted(error.path, start)) from None
            if start + PART_MAX <= len(request.nodes):
                await pause()


def _shifted(path: str, count: int) -> str:
    """The path of a mistake in a part of the nodes, in the whole: so many are before it."""
    return _INDEX.sub(lambda found: f"nodes[{count + int(found[1])}]", path)
