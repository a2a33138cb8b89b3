"""The configurations that a resource manager sends: read beside its other requests, because that can take minutes."""

import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from ykactor.access.model import ANYBODY
from ykactor.actors.gateway import Gateway, ReadConfig, turns_of
from ykactor.actors.outbox import Outbox
from ykactor.core.messages.acts import AN_OPERATOR, Act, Operator
from ykactor.core.values.times import utc_text
from ykactor.surfaces.admission.audit import CONFIGURATION, Audit
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions.peer import error_response
from ykactor.surfaces.sessions.pending import unavailable_when_closed
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding
from ykactor.wire.si.protocol_error import ProtocolError

logger = logging.getLogger(__name__)

#: The number of configurations that may wait until an earlier one has been read and applied.
WAITING_MAX = 4
_FAILED = ProtocolError("UNAVAILABLE", "an error of the daemon, its log has the details", "config")


class _Update(NamedTuple):
    """A request, the outbox of the registration that it belongs to, and who has sent it."""

    request: si.UpdateConfigurationRequest
    outbox: Outbox[Encoding]
    caller: Caller


class ConfigUpdates:
    """Carries out the ``UpdateConfigurationRequest``s of all sessions in their order, while the sessions take other requests.

    They belong to a registration and not to a session: when a connection is lost they are still carried out, before those of the
    session that resumes, which gets their acknowledgements.
    """

    def __init__(self, gateway: Gateway, audit: Audit) -> None:
        self._gateway = gateway
        self._audit = audit
        self._waiting: deque[_Update] = deque()
        self._grown = trio.lowlevel.ParkingLot()
        #: Around the one that is being read.
        self._reading = trio.CancelScope()

    def put(self, request: si.UpdateConfigurationRequest, outbox: Outbox[Encoding], caller: Caller) -> None:
        """Carry out a request later.

        Raises:
            ProtocolError: too many requests wait, or it does not wait for the confirmation of the configuration in force.
        """
        if not request.waits_for_confirmation:  # those before it may wait for a day
            self._gateway.confirmation.check_settled()
        if len(self._waiting) == WAITING_MAX:
            found = f"found {WAITING_MAX} configurations that wait for an earlier one, expected fewer"
            raise ProtocolError("UNAVAILABLE", f"{found}: wait for an Ack", "config")
        self._waiting.append(_Update(request, outbox, caller))
        self._grown.unpark_all()

    def drop(self) -> None:
        """The registration ends: carry out none of its requests that has not begun to change the partitions.

        Called by who holds ``OutboxRegistry.turn``, so that no change is under way.
        """
        self._waiting.clear()
        self._reading.cancel()

    async def run(self) -> None:
        """Carry out requests until cancelled."""
        while True:
            while not self._waiting:
                await self._grown.park()
            update = self._waiting.popleft()
            with trio.CancelScope() as self._reading:
                try:
                    await self._carry_out(update)
                except ProtocolError as error:
                    self._audit.not_permitted(update.caller, update.request, error)
                    update.outbox.post(error_response(error, update.request.id))
                except Exception:  # this task outlives the session, so an error of its own would end the daemon
                    logger.exception("config_update_failed")
                    update.outbox.post(error_response(_FAILED, update.request.id))

    async def _carry_out(self, update: _Update) -> None:
        request = update.request
        if request.confirm_within_seconds is not None:
            found = "found a window, expected none: only an operator can confirm a configuration"
            raise ProtocolError("REFUSED", found, "confirmWithinSeconds")
        if not request.waits_for_confirmation:
            return await self._apply(update)
        while True:
            await self._gateway.confirmation.settled()
            try:
                return await self._apply(update)
            except ProtocolError as error:  # the next window may open before this is read
                if error.code != "AWAITS_CONFIRMATION":
                    raise

    async def _apply(self, update: _Update) -> None:
        request, outbox = update.request, update.outbox
        async with applying_update(self._gateway, self._audit, request, update.caller, outbox.rm_id) as checksum:
            for name in list(self._gateway.partitions):
                await self._gateway.feed.published(name)
            if request.id:  # within the block: that it was replaced is told afterwards
                turns = turns_of(self._gateway, update.caller.identity.partitions)
                outbox.post(si.Ack(id=request.id, checksum=checksum, turns=turns))


@asynccontextmanager
async def applying_update(
    gateway: Gateway, audit: Audit, request: si.UpdateConfigurationRequest, caller: Caller, rm_id: str = ""
) -> AsyncIterator[str]:
    """Put the configuration of a request into force, and tell it in the audit; the checksum in force.

    Until the end of the block other changes of the configuration wait.

    Args:
        rm_id: the resource manager that has sent it; "" if it is from an operator.

    Raises:
        ProtocolError: it is wrong or cannot replace the one in force.
    """
    failure, window = "update of configuration failed", None
    if request.confirm_within_seconds is not None:
        window = gateway.confirmation.window(operator_of(caller).name, request.confirm_within_seconds)
    async with reading_config(gateway, request.config, failure, request.if_checksum, rm_id) as config:
        caller.confirm()  # reading takes a while
        async with audit.acting(caller, Act.CONFIGURE, CONFIGURATION, gateway.config.checksum) as doing:
            checksum = await config.apply(window=window)
            found = gateway.unconfirmed
            doing.after = checksum if found is None else f"{checksum}, to be confirmed until {utc_text(found.until)}"
        yield checksum


def operator_of(caller: Caller) -> Operator:
    """The operator that a caller is."""
    who = caller.identity
    return Operator(AN_OPERATOR if who is ANYBODY else who.name, tuple(sorted(who.queues or ())))


@asynccontextmanager
async def reading_config(
    gateway: Gateway, text: str, failure: str, if_checksum: str = "", rm_id: str = ""
) -> AsyncIterator[ReadConfig]:
    """Read a configuration, while nobody but other configurations waits; within the block no other request is handled.

    Args:
        failure: how the message of a ``ProtocolError`` begins.
        rm_id: as in ``Gateway.reading_config``.
    """
    try:
        with unavailable_when_closed("the partitions do"):
            async with gateway.reading_config(text, if_checksum, rm_id) as config, gateway.outboxes.turn:
                yield config
    except ProtocolError as error:
        raise ProtocolError(error.code, f"{failure}: {error.message}", error.path) from None
