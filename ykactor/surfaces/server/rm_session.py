"""The session of a resource manager: registers it, passes its requests to partitions, and sends the messages of its outbox."""

import logging
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Literal

import trio
from msgspec import UNSET, structs
from trio_websocket import ConnectionClosed

from ykactor.actors.commands import Administer, Failure, Intake, PartitionCommand, Publication
from ykactor.actors.gateway import Gateway, ReadConfig
from ykactor.actors.journal import Resumed, Stalled
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.outbox import MessagesLostError, Outbox, OutboxReader, SessionReplacedError
from ykactor.actors.receipts import Accepted
from ykactor.core.messages.submissions import Reset, SetPredicateService
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.server.config_updates import ConfigUpdates, reading_config
from ykactor.surfaces.server.peer import Peer, error_response, journal_status
from ykactor.surfaces.server.pending import Backlog, Pending, Reply, interrupted, unavailable_when_closed
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests
from ykactor.wire.si.codec import Encoding, ProtocolError

logger = logging.getLogger(__name__)

#: Close codes (RFC 6455 reserves 4000 to 4999 for applications).
CLOSED_REPLACED = 4001
CLOSED_FELL_BEHIND = 4002

#: The number of requests of one session that may wait for their ``Ack``; then no further request is read.
UNACKNOWLEDGED_MAX = 1024


class ResourceManagerSession:
    """Registers a resource manager, takes its requests and sends the messages of its outbox.

    A task of ``nursery`` sends acknowledgements. It outlives the session, so that a later session that resumes gets them.
    """

    def __init__(self, peer: Peer, gateway: Gateway, nursery: trio.Nursery, configs: ConfigUpdates) -> None:
        self.peer = peer
        self._gateway = gateway
        self._nursery = nursery
        self._configs = configs
        self._reader: OutboxReader[Encoding] | None = None
        #: Whether the resource manager is a predicate service.
        self._answers = False
        #: Around everything but sending, because a partly sent message cannot be taken back; cancelled by ``stop``. (It is also
        #: around sending an error before the registration, which is partly sent only to a peer that does not read.)
        self._listening = trio.CancelScope()
        #: Around waiting for partitions to finish a request; cancelled by ``stop`` too.
        self._patience = trio.CancelScope()
        self._backlog = Backlog()
        #: Set when all accepted requests have their ``Ack``, or will not get one.
        self._acknowledged = trio.Event()

    def stop(self) -> None:
        """Take no more requests; ``run`` sends the messages in the outbox and ends."""
        self._listening.cancel()
        self._patience.cancel()

    async def run(self) -> None:
        """Serve the peer until the connection ends, a newer session takes over, or ``stop`` is called."""
        try:
            async with trio.open_nursery() as sending:
                with self._listening, suppress(ConnectionClosed):
                    await self._listen(sending)
                if self._reader is None or not self._reader.attached:
                    pass  # not registered, or a newer session took over: then the sending task closes with the reason
                elif self._listening.cancel_called or not self._is_registered(self._reader):
                    await self._acknowledged.wait()
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
        """Without this session there is no predicate service, unless a newer session has taken over."""
        async with self._gateway.outboxes.turn:
            if self._answers and outbox is self._gateway.outboxes.current and outbox.reader is None:
                await self._set_predicate_service(False)

    async def _listen(self, sending: trio.Nursery) -> None:
        reader = self._reader = await self._register()
        sending.start_soon(self._send_messages, reader)
        acknowledge, pending = trio.open_memory_channel[Pending](UNACKNOWLEDGED_MAX)
        self._nursery.start_soon(self._acknowledge, pending, reader.outbox)
        with acknowledge:
            while self._is_registered(reader):
                await self._gateway.outboxes.room()
                await self._on_message(await self.peer.receive(), reader, acknowledge)

    def _is_registered(self, reader: OutboxReader[Encoding]) -> bool:
        """False when a newer session has taken over, or the resource manager has deregistered."""
        return reader.attached and self._gateway.outboxes.current is reader.outbox

    # ---- registration (SC-140 to SC-145)

    async def _register(self) -> OutboxReader[Encoding]:
        while True:
            message = await self.peer.receive()
            request_id = ""
            try:
                request = self.peer.encoding.decode_request(message)
                request_id = request.id
                if not isinstance(request, si.RegisterResourceManagerRequest):
                    found = type(request).__name__
                    raise ProtocolError("NOT_REGISTERED", f"found {found}, expected RegisterResourceManagerRequest", "type")
                return await self._on_register(request)
            except ProtocolError as error:
                await self.peer.send(error_response(error, request_id))

    async def _on_register(self, request: si.RegisterResourceManagerRequest) -> OutboxReader[Encoding]:
        """Nobody waits while a configuration is read, so the registration is checked before and again after it."""
        if not request.config:
            async with self._gateway.outboxes.turn:
                return await self._enter(request, None)
        self._check_registration(request)
        async with AsyncExitStack() as stack:
            reading = reading_config(self._gateway, request.config, "registration of RM failed")  # SC-140
            with self.peer.connected():  # who is gone must not delay a second attempt
                config = await stack.enter_async_context(reading)
            return await self._enter(request, config)

    def _check_registration(self, request: si.RegisterResourceManagerRequest) -> int | None:
        """The number of the message after which the session resumes; None for a fresh registration."""
        current = self._gateway.outboxes.current
        if current is not None and current.rm_id != request.rm_id:  # SC-142
            message = f"found {request.rm_id}: {_holder(current)}"
            raise ProtocolError("ALREADY_REGISTERED", message, "rmID")
        return None if request.resume_from is UNSET else _resume_after(current, request.resume_from)

    async def _enter(self, request: si.RegisterResourceManagerRequest, config: ReadConfig | None) -> OutboxReader[Encoding]:
        outboxes = self._gateway.outboxes
        after = self._check_registration(request)
        current = outboxes.current
        if after is None:
            outboxes.begin_change()
        try:
            checksum = "" if config is None else await config.apply(afresh=after is None)
        except ProtocolError:
            outboxes.end_change()
            raise
        if current is not None and after is not None:
            reader = current.attach(after)
            await self._set_predicate_service(request.answers_predicates)
            await outboxes.requests.all_answered()  # SC-157
        else:
            self._configs.drop()  # SC-141
            await self._reset_partitions(request.answers_predicates)
            outbox = outboxes.renew(request.rm_id, self.peer.encoding)
            reader = outbox.attach(outbox.sequence)
        self._answers = request.answers_predicates
        reader.outbox.since_ns = self._gateway.now_ns()
        reader.outbox.post(si.RegisterResourceManagerResponse())
        if request.id:
            reader.outbox.post(si.Ack(id=request.id, checksum=checksum))
        return reader

    async def _set_predicate_service(self, is_there: bool) -> None:
        for inbox in list(self._gateway.partitions.values()):
            with suppress(trio.ClosedResourceError, trio.BrokenResourceError):  # a partition that ends sends no more checks
                await inbox.put(Intake([SetPredicateService(is_there)]))

    async def _reset_partitions(self, answers: bool) -> None:
        """Reset every partition, and wait until no older message can reach the new outbox."""
        partitions = dict(self._gateway.partitions)
        pending = Pending("", partitions, partitions)
        for name, inbox in partitions.items():
            if not await self._put(name, inbox, Intake([Reset(), SetPredicateService(answers)], pending.on_done)):
                pending.on_done(name)
        await pending.done.wait()
        for name in partitions:
            await self._gateway.feed.published(name)

    # ---- requests

    async def _on_message(
        self,
        message: str | bytes,
        reader: OutboxReader[Encoding],
        acknowledge: trio.MemorySendChannel[Pending],
    ) -> None:
        open_requests = self._gateway.outboxes.requests
        request_id, accepted = "", None
        try:
            request = self.peer.encoding.decode_request(message)
            request_id = request.id
            async with _held(self._gateway.outboxes.turn):
                if not reader.attached:
                    return
                if request_id and not isinstance(request, si.UpdateConfigurationRequest):
                    accepted = open_requests.accept(request_id, self)
                pending = await self._on_request(request, reader.outbox, accepted)
            if pending is None:
                return
            if accepted is not None:
                pending.accepted = accepted
                await acknowledge.send(pending)
            await self._backlog.add(pending, len(message))
        except ProtocolError as error:
            reader.outbox.post(error_response(error, request_id))
            if accepted is not None:
                open_requests.answered(accepted)

    async def _on_request(self, request: si.Request, outbox: Outbox[Encoding], accepted: Accepted | None) -> Pending | None:
        """Carry out a request, or begin to; None if its ``Ack`` comes from elsewhere."""
        match request:
            case si.RegisterResourceManagerRequest():
                raise ProtocolError("ALREADY_REGISTERED", "this session is already registered: open another one to register anew")
            case si.DeregisterResourceManagerRequest():
                self._configs.drop()  # SC-142
                self._gateway.outboxes.begin_change()
                await self._reset_partitions(False)
                self._gateway.outboxes.release()
            case si.TerminateApplication() | si.MoveApplication():
                return await self._administer(request, accepted)
            case si.ScheduleRequest():
                if not self._gateway.manual:
                    raise ProtocolError("NOT_MANUAL", "ScheduleRequest needs a daemon that was started with --manual")
                if request.steps < 1:
                    raise ProtocolError("OUT_OF_RANGE", f"found {request.steps}, expected 1 or more", "steps")
                with unavailable_when_closed("the partitions do"):
                    await self._gateway.run_steps(request.steps)
            case si.UpdateConfigurationRequest():
                self._configs.put(request, outbox)
                return None
            case _:
                return await self._submit(request, outbox, accepted)
        return Pending(request.id, self._gateway.partitions, ())

    async def _submit(self, request: requests.PartitionRequest, outbox: Outbox[Encoding], accepted: Accepted | None) -> Pending:
        work = requests.addressed(requests.submissions(request), self._gateway.partitions)
        if accepted is not None:
            accepted.partitions = [name for name in work if name in self._gateway.partitions]
        pending = Pending(request.id, work, work)
        # Without an id there is no answer that could say so later.
        on_failed = pending.on_failed if request.id else lambda failure: outbox.post(_failed(failure, ""))
        for name, submissions in work.items():
            inbox = self._gateway.partitions.get(name)
            if inbox is not None:
                known = await self._gateway.with_groups(name, submissions)
                intake = Intake(known, pending.on_done, accepted=accepted, failed=on_failed)
            try:
                is_given = inbox is not None and await self._put(name, inbox, intake)
            except ProtocolError:
                if name == next(iter(work)):
                    raise
                pending.answer = interrupted(request.id)
                pending.on_done(name)
                continue
            if not is_given:
                at_ns = self._gateway.now_ns()
                refusals = [requests.unknown_partition(submission, name, at_ns) for submission in submissions]
                facts = [fact for fact in refusals if fact is not None]
                # No partition refuses these, but the feed keeps them in order with everything else.
                await self._gateway.feed.inbox.put(Publication(name, facts))
                pending.on_done(name)
        return pending

    async def _administer(self, request: si.TerminateApplication | si.MoveApplication, accepted: Accepted | None) -> Pending:
        """End or move an application; raises ProtocolError if the partition refuses."""
        named, wanted = requests.administration(request)
        name = requests.running(named, self._gateway.partitions)
        inbox = self._gateway.partitions[name]
        if wanted.who is not None:
            wanted = structs.replace(wanted, who=await self._gateway.with_own_groups(name, wanted.who))
        if accepted is not None:
            accepted.partitions = [name]
        reply = Reply()
        with unavailable_when_closed(f"partition {name} does"):
            await inbox.put(Administer(wanted, reply.on_done, accepted=accepted, failed=reply.on_failed))
        try:
            await reply.accepted()
        except ProtocolError:
            await self._gateway.feed.published(name)  # its receipt must not come after the answer
            raise
        return Pending(request.id, [name], ())

    async def _put(self, name: PartitionName, inbox: Mailbox[PartitionCommand], intake: Intake) -> bool:
        """Submit to a partition; returns False if the partition has been removed meanwhile."""
        try:
            if not inbox.offer(intake):
                await inbox.put(intake)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            if name in self._gateway.partitions:
                raise ProtocolError("UNAVAILABLE", f"partition {name} does not run at the moment, try again later") from None
            return False
        return True

    # ---- messages to the resource manager

    async def _send_messages(self, reader: OutboxReader[Encoding]) -> None:
        try:
            while taken := await reader.take():
                if isinstance(taken, Stalled | Resumed):
                    await self.peer.send(journal_status(taken))
                    continue
                for message in taken:
                    await self.peer.send_encoded(message, reader.outbox.encoding)
        except ConnectionClosed:
            pass  # the task that receives gets the same exception
        except SessionReplacedError as reason:
            await self.peer.close(CLOSED_REPLACED, str(reason))
        except MessagesLostError as reason:
            await self.peer.drop(CLOSED_FELL_BEHIND, str(reason))

    async def _acknowledge(self, pending: trio.MemoryReceiveChannel[Pending], outbox: Outbox[Encoding]) -> None:
        """``_send_acks``, which outlives the session: an error of its own must not end the daemon.

        After it nothing takes from ``pending``, so that the session fails with its next request.
        """
        try:
            with pending:
                await self._send_acks(pending, outbox)
        except Exception:
            logger.exception("acknowledging_failed")
        finally:
            self._gateway.outboxes.requests.leave(self)
            self._acknowledged.set()

    async def _send_acks(self, pending: trio.MemoryReceiveChannel[Pending], outbox: Outbox[Encoding]) -> None:
        """Post an ``Ack`` for each request, in the order of the requests, after all their direct results."""
        async for request in pending:
            if not self._listening.cancel_called:
                with trio.CancelScope() as self._patience:
                    await request.done.wait()
            if not request.done.is_set():
                break  # the daemon stops, so the request will not be finished
            for name in request.partitions:
                await self._gateway.feed.published(name)
            outbox.post(request.answer)
            assert request.accepted is not None, "only such requests are sent here"
            self._gateway.outboxes.requests.answered(request.accepted)


@asynccontextmanager
async def _held(lock: trio.Lock) -> AsyncIterator[None]:
    """As ``async with lock``, but without a checkpoint if the lock is free.

    A request is then handled in one step of the event loop, and the requests that arrive during a turn are the input of the next.
    """
    try:
        lock.acquire_nowait()
    except trio.WouldBlock:
        await lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _failed(failure: Failure, request_id: str) -> si.ErrorResponse:
    return error_response(ProtocolError(failure.code, failure.reason), request_id)


def _holder(current: Outbox[Encoding]) -> str:
    """Why no other resource manager can register, since when, and what ends this."""
    since = datetime.fromtimestamp(current.since_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # A daemon before this one may have been killed: nobody knows how long ago the connection ended.
    connected = "has been connected" if current.reader is not None else "has not been connected at least"
    return (
        f"RM {current.rm_id} has been registered before and holds this daemon until it deregisters; "
        f"it {connected} since {since}; 'ykactor deregister {shlex.quote(current.rm_id)}' drops its nodes and "
        "applications and lets another one register"
    )


def _resume_after(current: Outbox[Encoding] | None, wanted: int | Literal["now"]) -> int:
    """The number of the last message that is not sent again."""
    try:
        if current is None:
            raise MessagesLostError("this resource manager is not registered")
        after = current.durable if wanted == "now" else wanted
        current.after(after, 0)
    except MessagesLostError as reason:
        raise ProtocolError("RESYNC_REQUIRED", f"{reason}: register without resumeFrom", "resumeFrom") from None
    return after
