"""The requests of a registered resource manager: carried out by partitions, and answered in their order.

From the moment at which a partition gets a part of a request, the request is answered, whatever becomes of its session (SC-157).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, takewhile

import trio
from msgspec import Struct, structs

from ykactor.access.model import Identity
from ykactor.actors.commands import NOBODY, Administer, Connected, Intake, PartitionCommand, Publication
from ykactor.actors.gateway import Gateway, turns_of
from ykactor.actors.mailbox import Held, Mailbox
from ykactor.actors.outbox import Outbox, OutboxReader
from ykactor.actors.pauses import drive, pause
from ykactor.actors.receipts import Accepted
from ykactor.core.messages.acts import Act, Administration
from ykactor.core.messages.submissions import Reset, Submission
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import emptied
from ykactor.surfaces.admission.audit import REGISTERED, Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.admission.submissions import Work, admitted, of_administrator, read_work
from ykactor.surfaces.sessions.config_updates import ConfigUpdates
from ykactor.surfaces.sessions.connection import Received
from ykactor.surfaces.sessions.peer import error_response
from ykactor.surfaces.sessions.pending import Backlog, Pending, Sender, unavailable_when_closed
from ykactor.wire.si import acts, requests
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import PART_BYTES, Encoding
from ykactor.wire.si.protocol_error import ProtocolError

logger = logging.getLogger(__name__)


class _Read(Struct):
    """A request that the session has read.

    Attributes:
        size: the bytes of its message.
        work: what partitions are to do.
        pending: None until it is carried out.
    """

    size: int
    request: si.Request
    work: Work
    pending: Pending | None = None


class RequestHandler(Sender):
    """Carries out the requests of one session.

    Args:
        reader: of the outbox in which the answers are posted.
        read: makes requests of messages, of large ones with pauses.
        configs: reads the configurations that are sent.
        memory: of all input.
        caller: who sends the requests.

    Attributes:
        backlog: what partitions have not finished.
        finished: set when all requests are answered, or will not be.
    """

    def __init__(
        self,
        gateway: Gateway,
        reader: OutboxReader[Encoding],
        read: Callable[[str | bytes], Awaitable[si.Request]],
        configs: ConfigUpdates,
        memory: InputMemory,
        caller: Caller,
        audit: Audit,
    ) -> None:
        self.finished = trio.Event()
        self._gateway = gateway
        self._reader = reader
        self._outbox = reader.outbox
        self._read = read
        self._configs = configs
        self._caller = caller
        self._audit = audit
        self._open = gateway.outboxes.requests
        self.backlog = Backlog(memory, lambda: caller.identity.limits.outstanding)
        #: The requests that have no answer yet, in order; ``Backlog`` bounds them.
        self._begun: deque[Pending] = deque()
        self._is_closed = self._is_stopping = False
        #: The task that answers waits here for the first of them to be finished, and for ``close`` and ``stop``.
        self._answering = trio.lowlevel.ParkingLot()

    def close(self) -> None:
        """Accept no more requests."""
        self._is_closed = True
        self._answering.unpark_all()
        self.backlog.close()
        if self.finished.is_set():  # the last one came after that
            self._open.leave(self)

    def stop(self) -> None:
        """Do not wait for partitions any more."""
        self._is_stopping = True
        self._answering.unpark_all()

    def is_answering(self) -> bool:
        """True if the resource manager lacks answers to what it has sent so far."""
        return self._open.are_open or self._reader.is_behind

    # ---- carrying out

    async def on_messages(self, messages: list[Received]) -> None:
        """Carry out the requests of messages that have come together, or begin to; wait while too much is pending.

        There are no more than the backlog has room for.
        """
        if self._caller.revoked:  # the session is being closed: errors would only push out what a later one needs
            return
        ahead_ns = self._gateway.ahead_ns()
        read = [found for message in messages if (found := await self._read_request(message, ahead_ns)) is not None]
        if read:
            # No checkpoint if nobody holds it: requests that arrive during a turn are the input of the next.
            async with Held(self._gateway.outboxes.turn):
                for found in read:
                    if self._reader.attached and self._gateway.outboxes.current is self._outbox:
                        found.pending = await self._begin_request(found.request, found.work)
        for found in read:
            if found.size > PART_BYTES:
                await _free(found.request)
        await self.backlog.add([(found.pending, found.size) for found in read if found.pending is not None])

    async def _read_request(self, message: Received, ahead_ns: int) -> _Read | None:
        """Read a message, and make submissions of its request; None if it is refused. Nobody waits for it, as no turn is held."""
        request, work = None, Work()
        try:
            request = await self._read(message.content)
            self._caller.check(request)
            if message.size > PART_BYTES:  # to check all of its entries takes some ms too
                await pause()
            if isinstance(request, requests.PartitionRequest):
                work = await read_work(request, ahead_ns)
        except ProtocolError as error:
            self._refuse(request, error)
            if message.size > PART_BYTES:
                await _free(request)
            return None
        return _Read(message.size, request, work)

    async def _begin_request(self, request: si.Request, work: Work) -> Pending | None:
        """Carry out a request, or begin to; None if it is refused, or its ``Ack`` comes from elsewhere."""
        accepted = None
        try:
            self._caller.confirm()  # it may have waited for long
            self._gateway.outboxes.serve(self._caller.identity.partitions, self._outbox.epoch)
            if request.id and not isinstance(request, si.UpdateConfigurationRequest):
                accepted = self._open.accept(request.id, self)
            return await self._carry_out(request, work, accepted)
        except ProtocolError as error:
            self._refuse(request, error)
            if accepted is not None:
                self._open.answered([accepted])
            return None

    def _refuse(self, request: si.Request | None, error: ProtocolError) -> None:
        """Answer with an error; without a request if that could not be read."""
        if request is not None:
            self._audit.not_permitted(self._caller, request, error)
        self._outbox.post(error_response(error, "" if request is None else request.id))

    async def _carry_out(self, request: si.Request, work: Work, accepted: Accepted | None) -> Pending | None:
        """Carry out a request, or begin to; None if its ``Ack`` comes from elsewhere.

        Args:
            work: what partitions are to do.

        Raises:
            ProtocolError: the request is refused, and had no effect.
        """
        match request:
            case si.RegisterResourceManagerRequest():
                raise ProtocolError("ALREADY_REGISTERED", "this session is already registered: open another one to register anew")
            case si.DeregisterResourceManagerRequest():
                async with self._audit.acting(self._caller, Act.DEREGISTER, self._outbox.rm_id, REGISTERED):
                    await end_registration(self._gateway, self._configs)
            case si.TerminateApplication() | si.MoveApplication():
                return await self._administer(request, accepted)
            case si.SetQueueQuotas():
                return await self._put(request.id, *acts.quotas(request), accepted)
            case si.ScheduleRequest():
                await self._run_steps(request.steps)
            case si.UpdateConfigurationRequest():
                self._configs.put(request, self._outbox, self._caller)
                return None
            case _:
                return await self._submit(request, work, accepted)
        pending = self._begin(request.id, self._gateway.partitions, (), accepted)
        pending.turns.update(turns_of(self._gateway, self._caller.identity.partitions))
        return pending

    async def _run_steps(self, steps: int) -> None:
        if not self._gateway.manual:
            raise ProtocolError("NOT_MANUAL", "ScheduleRequest needs a daemon that was started with --manual")
        if steps < 1:
            raise ProtocolError("OUT_OF_RANGE", f"found {steps}, expected 1 or more", "steps")
        with unavailable_when_closed("the partitions do"):
            await self._gateway.run_steps(steps)

    def _begin(
        self,
        request_id: str,
        partitions: Iterable[PartitionName],
        working: Iterable[PartitionName],
        accepted: Accepted | None,
    ) -> Pending:
        """Promise an answer, also if the session ends; the arguments are those of ``Pending``."""
        pending = Pending(request_id, partitions, working, accepted, self)
        if accepted is not None:
            accepted.partitions = [name for name in working if name in self._gateway.partitions]
            if self._is_closed:
                raise trio.ClosedResourceError
            self._begun.append(pending)
            self.on_finished()
        return pending

    async def _submit(self, request: si.Request, work: Work, accepted: Accepted | None) -> Pending:
        work = await admitted(self._gateway, self._caller, self._audit, request, work)
        pending = self._begin(request.id, work, work, accepted)
        with _Giving(pending, left := list(work)):
            for name, submissions in work.items():
                await self._submit_to(name, submissions, pending)
                left.remove(name)
        return pending

    async def _submit_to(self, name: PartitionName, submissions: list[Submission], pending: Pending) -> None:
        inbox = self._gateway.partitions.get(name)
        if inbox is not None:
            identity = self._caller.identity
            limits = identity.limits.held(identity.name)
            intake = Intake(submissions, pending, accepted=pending.accepted, limits=limits)
            if await put(self._gateway, name, inbox, intake):
                return
        at_ns = self._gateway.now_ns()
        for part in emptied(submissions):
            refusals = [requests.unknown_partition(submission, name, at_ns) for submission in part]
            # No partition refuses these, but the feed keeps them in order with everything else.
            await self._gateway.feed.inbox.put(Publication(name, [fact for fact in refusals if fact is not None]))
            await pause()
        pending.done(name)

    async def _administer(self, request: si.TerminateApplication | si.MoveApplication, accepted: Accepted | None) -> Pending:
        """End or move an application."""
        named, wanted = acts.administration(request)
        name = requests.running(named, self._gateway.partitions)
        if wanted.who is not None:
            who = of_administrator(self._caller.identity, await self._gateway.with_own_groups(name, wanted.who))
            wanted = structs.replace(wanted, who=who)
            self._caller.confirm()  # to look up groups may take long
        return await self._put(request.id, name, wanted, accepted)

    async def _put(self, request_id: str, named: PartitionName, wanted: Administration, accepted: Accepted | None) -> Pending:
        """Give a partition what it carries out as a whole, or refuses."""
        name = requests.running(named, self._gateway.partitions)
        inbox = self._gateway.partitions[name]
        pending = self._begin(request_id, [name], [name], accepted)
        with _Giving(pending, left := [name]), unavailable_when_closed(f"partition {name} does"):
            await inbox.put(Administer(wanted, pending, accepted=accepted))
            left.clear()
        return pending

    # ---- what partitions tell

    def post(self, error: si.ErrorResponse) -> None:
        """Tell the resource manager of the error of a request that wants no answer."""
        self._outbox.post(error)

    def exceeded(self, partition: PartitionName, reason: str) -> None:
        """Audit that a limit has refused a part of a request."""
        self._audit.refused(self._caller, Act.SEND, partition, reason)

    def on_finished(self) -> None:
        """Answer, if the first request is finished."""
        if self._begun and self._begun[0].finished.is_set():
            self._answering.unpark_all()

    # ---- answering

    async def answer(self) -> None:
        """Answer the requests until ``close``. It outlives the session, so that a later session that resumes gets the answers.

        An error of its own must not end the daemon: then no more requests are accepted, and the session fails with the next one.
        """
        try:
            await self._answer()
        except Exception:
            logger.exception("acknowledging_failed")
        finally:
            self._is_closed = True
            self._open.leave(self)
            self.finished.set()

    async def _answer(self) -> None:
        """Answer in the order of the requests; those that are done at the same time are answered together."""
        while self._begun or not self._is_closed:
            done = list(takewhile(lambda each: each.finished.is_set(), self._begun))
            if done:
                for _ in done:
                    self._begun.popleft()
                await self._post_answers(done)
            elif self._begun and self._is_stopping:
                return  # the daemon stops, so the request will not be finished
            else:
                await self._answering.park()

    async def _post_answers(self, done: list[Pending]) -> None:
        """Post the answers to requests after all their direct results."""
        for name in dict.fromkeys(chain.from_iterable(request.partitions for request in done)):
            await self._gateway.feed.published(name)
        self._outbox.post(*(request.answer for request in done if request.answer is not None))
        self._open.answered(request.accepted for request in done if request.accepted is not None)


async def _free(request: si.Request | None) -> None:
    """Free the entries of a large request that nobody needs any more."""
    if isinstance(request, requests.PartitionRequest):
        await drive(requests.freeing(request))


class _Giving:
    """Partitions get their parts of a request within this block; those that are in ``left`` at its end did not."""

    def __init__(self, pending: Pending, left: list[PartitionName]) -> None:
        self._pending = pending
        self._left = left

    def __enter__(self) -> None:
        """Begin the block: nothing was given yet."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Answer with the error of the peer, if that has ended the block."""
        if self._left:
            self._pending.withhold(self._left)
        if isinstance(error, ProtocolError):
            self._pending.refuse(error)
        return isinstance(error, ProtocolError)


def check_reach(identity: Identity, registration: Outbox[Encoding]) -> None:
    """Ask whether an identity may replace, resume or end a registration: it needs all partitions that this one serves (SE-28).

    Raises:
        ProtocolError: it may not; the answer says nothing more of the registration.
    """
    if not identity.partitions.includes(registration.partitions):
        text = f"{identity.name} is limited to partitions, and the registration serves others too"
        raise ProtocolError("NOT_PERMITTED", text)


async def end_registration(gateway: Gateway, configs: ConfigUpdates) -> None:
    """Drop all that the resource manager has; any other may register. To be called by who holds ``OutboxRegistry.turn``."""
    configs.drop()  # SC-142
    gateway.outboxes.begin_change()
    await reset_partitions(gateway, NOBODY)
    gateway.outboxes.release()


async def reset_partitions(gateway: Gateway, connected: Connected) -> None:
    """Reset every partition, tell it who is connected, and wait until all that it has published is delivered."""
    gateway.outboxes.connected = connected
    partitions = dict(gateway.partitions)
    pending = Pending("", partitions, partitions)
    for name, inbox in partitions.items():
        if not await put(gateway, name, inbox, Intake([Reset(), *connected.submissions()], pending)):
            pending.done(name)
    await pending.finished.wait()
    for name in partitions:
        await gateway.feed.published(name)


async def put(gateway: Gateway, name: PartitionName, inbox: Mailbox[PartitionCommand], intake: Intake) -> bool:
    """Submit to a partition; returns False if the partition has been removed meanwhile.

    Raises:
        ProtocolError: the partition does not run.
    """
    try:
        await inbox.give(intake)
    except (trio.ClosedResourceError, trio.BrokenResourceError):
        if name in gateway.partitions:
            raise ProtocolError("UNAVAILABLE", f"partition {name} does not run at the moment, try again later") from None
        return False
    return True
