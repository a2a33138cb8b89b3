"""The session of an operator: it acts on nodes, applications and queues, changes the configuration, ends registrations.

Requests are carried out one after the other, beside the registered resource manager or without any. Each is answered when its
effect and the audit of it are durable; then the next one is read, so that nothing piles up here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Set as AbstractSet
from contextlib import suppress

import trio
from msgspec import Struct, structs

from ykactor.actors.commands import Administer, Intake
from ykactor.actors.gateway import Gateway, turns_of
from ykactor.actors.pauses import drive, pause
from ykactor.core.messages.acts import Act, HoldQueue, MoveApplication, Operator, OperatorAct, full_path
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.submissions import RefuseEntry, Submission, UpdateNode
from ykactor.core.objects.acts import EFFECTS, hold_text, state_of
from ykactor.core.objects.application import Application
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.administration import knows_application
from ykactor.core.values.ids import ApplicationID, NodeID, PartitionName
from ykactor.core.values.parts import PART_MAX, Steps, in_parts
from ykactor.core.values.words import some
from ykactor.surfaces.admission.audit import CONFIGURATION, REGISTERED, Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions.config_updates import ConfigUpdates, applying_update, operator_of
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.peer import Peer, error_response, read_request
from ykactor.surfaces.sessions.pending import Pending, interrupted, unavailable_when_closed
from ykactor.surfaces.sessions.rm_requests import check_reach, end_registration, put
from ykactor.wire.si import acts, requests
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
                await self.peer.tell_of_journal(self._notices)
                await self._gateway.outboxes.room()
                for answer in await self._answers(message):
                    await self.peer.send(answer)

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
        turns = turns_of(self._gateway, self._caller.identity.partitions)
        await self._audit.durable()
        self.peer.settle()
        return structs.replace(ack, turns=turns, term=str(self._gateway.terms.present))

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


# ---- the requests, carried out, and told in the audit with what was before and after

#: Sent to a resource manager whose registration an operator has ended.
_RELEASED = "an operator has ended the registration"


class OperatorRequests:
    """Carries out the requests of one operator."""

    def __init__(self, gateway: Gateway, configs: ConfigUpdates, caller: Caller, audit: Audit) -> None:
        self._gateway = gateway
        self._configs = configs
        self._caller = caller
        self._audit = audit

    async def carry_out(self, request: si.OperatorRequest) -> si.Ack:
        """Carry out a request that the caller may send. Returns its answer.

        Raises:
            ProtocolError: it is refused, and had no effect; with the code ``INTERRUPTED`` a part of it had.
        """
        match request:
            case si.NodeRequest():
                await self._drain(request)
            case si.UpdateConfigurationRequest():
                async with applying_update(self._gateway, self._audit, request, self._caller) as checksum:
                    found = self._gateway.unconfirmed
                    return si.Ack(id=request.id, checksum=checksum, until=0 if found is None else found.until)
            case si.ReloadConfiguration():
                return si.Ack(id=request.id, checksum=await self._reload())
            case si.ConfirmConfiguration():
                return si.Ack(id=request.id, checksum=await self._confirm(request))
            case si.RollBackConfiguration():
                checksum, remains = await self._roll_back()
                return si.Ack(id=request.id, checksum=checksum, remains=remains)
            case si.ReleaseResourceManager():
                await self._release(request)
            case si.ExpectNoAllocations():
                await self._expect_none(request)
            case _:
                return si.Ack(id=request.id, releasing=await self._act(request))
        return si.Ack(id=request.id)

    # ---- applications and queues

    async def _act(self, request: si.OperatorAct) -> bool:
        """Returns whether what it cancels waits for the resource manager."""
        named, wanted = acts.operation(request, operator_of(self._caller))
        name = requests.running(named, self._gateway.partitions)
        act, target = acts.act_of(request), wanted.target
        before = self._look(name, wanted)
        async with self._audit.acting(self._caller, act, target, before) as doing:
            pending = Pending("", [name], [name])
            with unavailable_when_closed(f"partition {name} does"):
                await self._gateway.partitions[name].put(Administer(wanted, pending))
            await _finished(pending)
            doing.after = self._look(name, wanted)
        return name in self._gateway.partitions and is_releasing(self._gateway.registry(name), wanted)

    async def _expect_none(self, request: si.ExpectNoAllocations) -> None:
        name = requests.running(requests.partition_named(request.partition_name), self._gateway.partitions)
        search = tasks_named(self._gateway.registry(name), frozenset(request.allocation_keys), operator_of(self._caller))
        found = await drive(search)
        if found:
            are = "is a task" if len(found) == 1 else "are tasks"
            raise ProtocolError("REFUSED", f"{some(found)} {are}", "allocationKeys")

    def _look(self, name: PartitionName, wanted: OperatorAct) -> str:
        """The present state of the target; empty if it is not there, or the partition was removed."""
        return look(self._gateway.registry(name), wanted) if name in self._gateway.partitions else ""

    # ---- nodes

    async def _drain(self, request: si.NodeRequest) -> None:
        """One node after the other, when all of them are there."""
        work = requests.addressed(await drive(requests.submitting(request)), self._gateway.partitions)
        drains: list[tuple[PartitionName, UpdateNode]] = []
        for name, entries in work.items():
            for part in in_parts(entries):
                drains += [(name, self._drain_of(name, entry)) for entry in part]
                await pause()
        self._caller.confirm()  # a while later
        for index, (name, drain) in enumerate(drains):
            try:
                await self._drain_one(name, drain)
            except ProtocolError:
                if index:
                    raise interrupted() from None
                raise

    def _drain_of(self, name: PartitionName, entry: Submission) -> UpdateNode:
        if isinstance(entry, RefuseEntry):
            raise ProtocolError("REFUSED", entry.rejected.reason, "nodes")
        assert isinstance(entry, UpdateNode), "the submissions of a NodeRequest"
        if not self._node(name, entry.node_id):
            raise ProtocolError("REFUSED", f"failed to find node {entry.node_id} in partition {name}", "nodes")
        return entry

    async def _drain_one(self, name: PartitionName, drain: UpdateNode) -> None:
        act = Act.DRAIN if drain.action is NodeAction.DRAIN_NODE else Act.UNDRAIN
        before = self._node(name, drain.node_id)
        async with self._audit.acting(self._caller, act, drain.node_id, before) as doing:
            pending = Pending("", [name], [name])
            inbox = self._gateway.partitions.get(name)
            intake = Intake([drain], pending)
            if inbox is None or not await put(self._gateway, name, inbox, intake):
                raise ProtocolError("REFUSED", f"partition {name} was removed")
            await _finished(pending)
            doing.after = self._node(name, drain.node_id)

    def _node(self, name: PartitionName, node_id: NodeID) -> str:
        """The state of a node; empty if it is not there."""
        node = self._gateway.registry(name).nodes.get(node_id) if name in self._gateway.partitions else None
        return "" if node is None else "schedulable" if node.schedulable else "draining"

    # ---- the configuration

    async def _reload(self) -> str:
        before = self._gateway.config.checksum
        with unavailable_when_closed("the partitions do"):
            async with self._audit.acting(self._caller, Act.CONFIGURE, CONFIGURATION, before) as doing:
                doing.after = await self._gateway.reload_file()
                return doing.after

    async def _confirm(self, request: si.ConfirmConfiguration) -> str:
        before = self._gateway.config.checksum
        if self._gateway.unconfirmed is None:  # which may be right, and then nothing was done
            return await self._gateway.confirmation.confirm(request.if_checksum)
        async with self._audit.acting(self._caller, Act.CONFIGURE, CONFIGURATION, before) as doing:
            checksum = await self._gateway.confirmation.confirm(request.if_checksum)
            doing.after = f"{checksum}, confirmed"
            return checksum

    async def _roll_back(self) -> tuple[str, list[str]]:
        before = self._gateway.config.checksum
        with unavailable_when_closed("the partitions do"):
            async with self._audit.acting(self._caller, Act.CONFIGURE, CONFIGURATION, before) as doing:
                doing.after, remains = await self._gateway.confirmation.roll_back()
                return doing.after, remains

    # ---- the registration

    async def _release(self, request: si.ReleaseResourceManager) -> None:
        outboxes = self._gateway.outboxes
        async with outboxes.turn:
            self._caller.confirm()  # a while later
            current, reach = outboxes.current, self._caller.identity.partitions
            if current is not None:
                check_reach(self._caller.identity, current)
            is_registered = current is not None and current.rm_id == request.rm_id
            epoch = outboxes.epochs.highest_within(request.rm_id, reach) if request.forget_epoch else 0
            if not is_registered and not epoch:
                found = "no resource manager" if current is None else current.rm_id
                raise ProtocolError("REFUSED", f"{request.rm_id} is not registered, found {found}", "rmID")
            before = [REGISTERED] * is_registered + [f"epoch {epoch}"] * bool(epoch)
            async with self._audit.acting(self._caller, Act.RELEASE, request.rm_id, ", ".join(before)):
                if current is not None and is_registered:
                    await end_registration(self._gateway, self._configs)
                    current.expel(_RELEASED)
                if epoch:
                    outboxes.forget_epochs(request.rm_id, reach)


async def _finished(pending: Pending) -> None:
    """Wait until the partition has carried it out.

    Raises:
        ProtocolError: it has refused it.
    """
    await pending.finished.wait()
    if isinstance(pending.answer, si.ErrorResponse):
        raise ProtocolError(pending.answer.code, pending.answer.message, pending.answer.path)


# ---- the target of a request for the audit: what it is like before and after (SE-72)


def look(registry: Registry, wanted: OperatorAct) -> str:
    """The state of the target, also in the middle of a turn; empty if it is not there, as while it moves, or is hidden."""
    if isinstance(wanted, HoldQueue):
        queue = registry.queues.get(full_path(wanted.queue_name))
        return "" if queue is None else hold_text(queue.hold)
    if not knows_application(registry, wanted.application_id, wanted.operator):
        return ""
    application = _application(registry, wanted.application_id)
    if application is None:
        return ""
    look_at = state_of if isinstance(wanted, MoveApplication) else EFFECTS[type(wanted)].look
    return look_at(application, wanted)


def is_releasing(registry: Registry, wanted: OperatorAct) -> bool:
    """True if what an operator has cancelled goes on until the resource manager has confirmed its release (AP-128)."""
    if isinstance(wanted, HoldQueue | MoveApplication):
        return False
    application = _application(registry, wanted.application_id)
    return application is not None and EFFECTS[type(wanted)].goes_on(application, wanted)


def _application(registry: Registry, name: ApplicationID) -> Application | None:
    """The application; None if it is not there, also while it moves."""
    return registry.leaf_of(name).applications.get(name) if name in registry.applications else None


def tasks_named(registry: Registry, keys: AbstractSet[str], operator: Operator) -> Steps[list[str]]:
    """``app-1/t1`` for each ask and allocation that has one of these keys, as far as the operator knows its application."""
    found: list[str] = []
    for part in in_parts(list(registry.applications)):
        for name in part:
            path = registry.applications.get(name)  # it may end or move in the pauses
            application = None if path is None else registry.leaf(path).applications.get(name)
            if path is not None and application is not None and operator.may_operate(path):
                found += [f"{name}/{key}" for key in sorted(_tasks_among(keys, application))]
        yield len(part)
    return found


def _tasks_among(keys: AbstractSet[str], application: Application) -> AbstractSet[str]:
    """An intersection takes as long as the smaller side."""
    replacing = {ask.allocation_key for ask, _ in application.tasks.replacing.values()}
    return (application.tasks.asks.keys() & keys) | (application.tasks.allocations.keys() & keys) | (replacing & keys)
