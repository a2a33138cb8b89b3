"""The session of a resource manager: registers it, passes its requests to partitions, and sends the messages of its outbox."""

import logging
import shlex
from contextlib import AsyncExitStack, suppress
from typing import Literal

import trio
from msgspec import UNSET

from ykactor.access import moments
from ykactor.actors.commands import NOBODY, Connected, Intake
from ykactor.actors.gateway import Gateway, ReadConfig, turns_of
from ykactor.actors.journal import Resumed, Stalled
from ykactor.actors.outbox import TAKE_MAX, MessagesLostError, Outbox, OutboxReader, RegistrationEndedError, SessionReplacedError
from ykactor.core.messages.acts import Act
from ykactor.journal.terms import Terms
from ykactor.surfaces.admission.audit import REGISTERED, Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.sessions.config_updates import ConfigUpdates, reading_config
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.peer import Peer, error_response, journal_status, read_request
from ykactor.surfaces.sessions.rm_requests import RequestHandler, check_reach, reset_partitions
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding
from ykactor.wire.si.protocol_error import ProtocolError

logger = logging.getLogger(__name__)

#: Close codes (RFC 6455 reserves 4000 to 4999 for applications).
CLOSED_REPLACED = 4001
CLOSED_FELL_BEHIND = 4002
CLOSED_RELEASED = 4006
CLOSED_REFUSED = 4007
_CONNECTED = f"{REGISTERED}, connected"


class ResourceManagerSession:
    """Registers a resource manager, takes its requests and sends the messages of its outbox.

    A task of ``nursery``, which outlives the session, answers the requests (``RequestHandler``).
    """

    def __init__(
        self,
        peer: Peer,
        gateway: Gateway,
        nursery: trio.Nursery,
        configs: ConfigUpdates,
        memory: InputMemory,
        caller: Caller,
        audit: Audit,
    ) -> None:
        self.peer = peer
        self._caller = caller
        self._audit = audit
        self._gateway = gateway
        self._nursery = nursery
        self._configs = configs
        self._reader: OutboxReader[Encoding] | None = None
        self._notices = gateway.outboxes.notices()
        self._connected = NOBODY
        #: Around everything but sending, because a partly sent message cannot be taken back; cancelled by ``stop``. (It is also
        #: around sending an error before the registration, which is partly sent only to a peer that does not read.)
        self._listening = trio.CancelScope()
        #: What carries out the requests, once the peer is registered.
        self._handler: RequestHandler | None = None
        self._memory = memory

    def stop(self) -> None:
        """Take no more requests; ``run`` sends the messages in the outbox and ends."""
        self._listening.cancel()
        if self._handler is not None:
            self._handler.stop()

    async def run(self) -> None:
        """Serve the peer until the connection ends, a newer session takes over, or ``stop`` is called."""
        try:
            async with trio.open_nursery() as sending:
                with self._listening, suppress(ConnectionClosedError):
                    await self._listen(sending)
                if self._reader is None or self._handler is None or not self._reader.attached:
                    pass  # not registered, or a newer session took over: then the sending task closes with the reason
                elif self._listening.cancel_called or not self._is_registered(self._reader):
                    await self._handler.finished.wait()
                    self._reader.finish()
                else:
                    sending.cancel_scope.cancel()
        finally:
            if self._reader is not None and self._reader.attached:
                self._reader.outbox.since_ns = self._gateway.now_ns()
                self._reader.outbox.detach()
            if self._reader is not None and not self._listening.cancel_called:
                await self._leave(self._reader.outbox)

    async def _leave(self, outbox: Outbox[Encoding]) -> None:
        """Tell partitions that nobody is connected any more, unless a newer session has taken over."""
        async with self._gateway.outboxes.turn:
            if self._connected != NOBODY and outbox is self._gateway.outboxes.current and outbox.reader is None:
                await self._tell_connected(NOBODY)

    async def _listen(self, sending: trio.Nursery) -> None:
        reader = self._reader = await self._register()
        if reader is None:
            return
        self.peer.settle()
        sending.start_soon(self._send_messages, reader)
        handler = self._handler = RequestHandler(
            self._gateway, reader, self._read, self._configs, self._memory, self._caller, self._audit
        )
        self._nursery.start_soon(handler.answer)
        self.peer.gather_while(handler.is_answering, goes_on=reader.outbox.journal is not None)
        try:
            while self._is_registered(reader):
                await self._gateway.outboxes.room()
                await handler.on_messages(await self.peer.receive_some(handler.backlog.room))
        finally:
            handler.close()

    def _is_registered(self, reader: OutboxReader[Encoding]) -> bool:
        """False when a newer session has taken over, or the resource manager has deregistered."""
        return reader.attached and self._gateway.outboxes.current is reader.outbox

    # ---- registration (SC-140 to SC-145)

    async def _register(self) -> OutboxReader[Encoding] | None:
        """The first registration that comes; None if it was refused, which ends the session."""
        while True:
            message = await self.peer.receive()
            request: si.Request | None = None
            try:
                request = await self._read(message)
                if not isinstance(request, si.RegisterResourceManagerRequest):
                    found = type(request).__name__
                    raise ProtocolError("NOT_REGISTERED", f"found {found}, expected RegisterResourceManagerRequest", "type")
                await self.peer.tell_of_journal(self._notices)  # also if there is no room for it yet
                return await self._on_register(request)
            except ProtocolError as error:
                if request is not None:
                    self._audit.not_permitted(self._caller, request, error)
                await self.peer.send(error_response(error, request.id if request is not None else ""))
                is_revoked = bool(self._caller.revoked)  # then it is closed for that reason already
                if isinstance(request, si.RegisterResourceManagerRequest) and not is_revoked:
                    await self.peer.close(CLOSED_REFUSED, "the registration was refused")
                    return None

    async def _read(self, message: str | bytes) -> si.Request:
        return await read_request(Encoding.decoding_request, self.peer.encoding, message)

    async def _on_register(self, request: si.RegisterResourceManagerRequest) -> OutboxReader[Encoding]:
        """Register the peer. Others go on while a configuration is read, so the registration is checked before and after it."""
        if not request.config:
            async with self._gateway.outboxes.turn:
                return await self._enter(request, None)
        self._check_registration(request)
        async with AsyncExitStack() as stack:
            reading = reading_config(self._gateway, request.config, "registration of RM failed", rm_id=request.rm_id)  # SC-140
            with self.peer.connected():  # who is gone must not delay a second attempt
                config = await stack.enter_async_context(reading)
            return await self._enter(request, config)

    def _check_registration(self, request: si.RegisterResourceManagerRequest) -> int | None:
        """The number of the message after which the session resumes; None for a fresh registration.

        What it refuses tells who is registered, so the first question is whether the caller may register as this one (SE-64).
        """
        self._caller.check(request)
        current = self._gateway.outboxes.current
        if current is not None and current.rm_id != request.rm_id:  # SC-142
            message = f"found {request.rm_id}: {_holder(current)}"
            raise ProtocolError("ALREADY_REGISTERED", message, "rmID")
        identity = self._caller.identity
        if current is not None:
            check_reach(identity, current)
        lowest = self._gateway.outboxes.epochs.lowest(request.rm_id, identity.partitions)
        if request.epoch < lowest:
            message = f"found {request.epoch}, expected at least {lowest}: a newer process of {request.rm_id} has registered"
            raise ProtocolError("STALE_EPOCH", message, "epoch")
        if request.resume_from is UNSET:
            return None
        return _resume_after(current, request.resume_from, request.term, self._gateway.terms)

    async def _enter(self, request: si.RegisterResourceManagerRequest, config: ReadConfig | None) -> OutboxReader[Encoding]:
        after = self._check_registration(request)
        act = Act.REGISTER if after is None else Act.RESUME
        before = _connection(self._gateway.outboxes.current)
        async with self._audit.acting(self._caller, act, request.rm_id, before, _CONNECTED) as doing:
            reader = await self._change(request, config, after)
            if config is not None:
                doing.after = f"{_CONNECTED}, configuration {self._gateway.config.checksum}"
            return reader

    async def _change(
        self, request: si.RegisterResourceManagerRequest, config: ReadConfig | None, after: int | None
    ) -> OutboxReader[Encoding]:
        """Register anew, or resume after a message."""
        outboxes, partitions = self._gateway.outboxes, self._caller.identity.partitions
        current, connected = outboxes.current, Connected(request.answers_predicates, request.wants_scheduling_states)
        if after is None:
            outboxes.begin_change()
        try:
            checksum = "" if config is None else await config.apply(afresh=after is None)
        except ProtocolError:
            outboxes.end_change()
            raise
        if current is not None and after is not None:
            reader = current.attach(after)
            current.since_ns = self._gateway.now_ns()  # before anything waits: followers may ask meanwhile
            await self._tell_connected(connected)
            await outboxes.requests.all_answered()  # SC-157
        else:
            self._configs.drop()  # SC-141
            await reset_partitions(self._gateway, connected)
            await outboxes.requests.all_answered()
            outbox = outboxes.renew(request.rm_id, self.peer.encoding, partitions)
            reader = outbox.attach(outbox.sequence)
            outbox.since_ns = self._gateway.now_ns()
        outboxes.serve(partitions, request.epoch)
        self._connected = connected
        reader.notices = self._notices
        reader.outbox.build_info = request.build_info
        term = str(self._gateway.terms.present)
        reader.outbox.post(si.RegisterResourceManagerResponse(term=term))
        if request.id:
            turns = turns_of(self._gateway, partitions)
            reader.outbox.post(si.Ack(id=request.id, checksum=checksum, term=term, turns=turns))
        return reader

    async def _tell_connected(self, connected: Connected) -> None:
        """Tell every partition who is connected."""
        self._gateway.outboxes.connected = connected
        for inbox in list(self._gateway.partitions.values()):
            with suppress(trio.ClosedResourceError, trio.BrokenResourceError):  # a partition that ends sends no more messages
                await inbox.put(Intake(connected.submissions()))

    # ---- messages to the resource manager

    async def _send_messages(self, reader: OutboxReader[Encoding]) -> None:
        try:
            while taken := await reader.take():
                if isinstance(taken, Stalled | Resumed):
                    await self.peer.send(journal_status(taken))
                    continue
                await self.peer.send_encoded(taken, reader.outbox.encoding)
                if self._handler is not None and not self._handler.is_answering():
                    self.peer.answered()
                if len(taken) == TAKE_MAX:  # there may be more, and nothing of this need have waited
                    await trio.lowlevel.checkpoint()
        except ConnectionClosedError:
            pass  # the task that receives gets the same exception
        except SessionReplacedError as reason:
            await self.peer.close(CLOSED_REPLACED, str(reason))
        except RegistrationEndedError as reason:
            await self.peer.close(CLOSED_RELEASED, str(reason))
        except MessagesLostError as reason:
            await self.peer.drop(CLOSED_FELL_BEHIND, str(reason))


def _connection(current: Outbox[Encoding] | None) -> str:
    """The registration before another one, for the audit."""
    if current is None:
        return ""
    return _CONNECTED if current.reader is not None else f"{REGISTERED}, not connected"


def _holder(current: Outbox[Encoding]) -> str:
    """The reason for which no other resource manager can register, since when, and what ends this."""
    since = moments.shown(moments.at(current.since_ns))
    # A daemon before this one may have been killed: nobody knows how long ago the connection ended.
    connected = "has been connected" if current.reader is not None else "has not been connected at least"
    return (
        f"RM {current.rm_id} has been registered before and holds this daemon until it deregisters; "
        f"it {connected} since {since}; 'ykactor rm release {shlex.quote(current.rm_id)}' drops its nodes and "
        "applications and lets another one register"
    )


def _resume_after(current: Outbox[Encoding] | None, wanted: int | Literal["now"], term: str, terms: Terms) -> int:
    """The number of the last message that is not sent again."""
    try:
        if current is None:
            raise MessagesLostError("this resource manager is not registered")
        if wanted == "now":
            return current.durable
        if reason := _foreign(current, wanted, term, terms):
            raise ProtocolError("RESYNC_REQUIRED", f"{reason}: register without resumeFrom", "term")
        current.after(wanted, 0)
    except MessagesLostError as reason:
        raise ProtocolError("RESYNC_REQUIRED", f"{reason}: register without resumeFrom", "resumeFrom") from None
    return wanted


def _foreign(current: Outbox[Encoding], number: int, term: str, terms: Terms) -> str:
    """The reason for which a number may be of a message of another history, as a sentence; "" if it is of this one.

    A client that knows no terms may go on with what it was sent since the daemon was started: before that nobody knows.
    """
    if term:
        return terms.missing("message", number, term)
    if current.taken < number <= current.durable:
        return f"found message {number} without a term, expected one, because it was sent by a daemon before this one, if any"
    return ""
