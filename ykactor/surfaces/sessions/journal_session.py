"""The session of a standby: it gets the transactions of the journal, and says which of them it has on its disk (DU-20)."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import trio

from ykactor.actors.gateway import Gateway
from ykactor.actors.standbys import KEPT_BYTES_MAX, Missed, Standby, Standbys
from ykactor.journal import schema
from ykactor.journal.copying import copy_rest
from ykactor.journal.errors import JournalError
from ykactor.journal.stream import (
    PART_BYTES,
    Copy,
    Durable,
    Ended,
    Following,
    HandOver,
    Join,
    Part,
    Refused,
    ToDaemon,
    ToStandby,
    WantBases,
    encode,
    from_standby,
    parts,
)
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.files.state_dir import COPY_PREFIX
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.peer import STALLED, Peer
from ykactor.surfaces.sessions.sealed import SealedPeer

#: The code of the close frame for a message that should not have come (RFC 6455).
_WRONG = 1002
#: The code when a standby may try it again later.
_LATER = 1013
#: A session sends so many copies. A second one is for what was committed just when the standby joined.
_COPIES_MAX = 2
#: While another standby waits for a copy, one has to take its own at so many bytes in a second, after a while.
COPY_RATE_MIN = 2**20
_COPY_GRACE_S = 30.0


class _TooSlow(Exception):
    """A standby takes its copy too slowly, and another one waits."""


class JournalSession:
    """Sends transactions, whatever the subprotocol is, in the form of ``journal.stream``."""

    def __init__(self, peer: Peer, gateway: Gateway, standbys: Standbys, caller: Caller) -> None:
        self.peer = peer
        self._sealed = SealedPeer(peer)
        self._caller = caller
        self._gateway = gateway
        self._standbys = standbys
        self._takes_over = False
        #: Around waiting for transactions; cancelled by ``stop``.
        self._waiting = trio.CancelScope()
        self._is_stopping = False
        self._told = trio.Event()
        #: Held while the standby waits for bases.
        self._making = trio.Lock()

    def stop(self) -> None:
        """Send what there is, and end when the standby has it."""
        self._is_stopping = True
        self._waiting.cancel()

    async def run(self) -> None:
        """Serve the standby until the connection ends or ``stop`` is called."""
        message = await self._receive()
        if not isinstance(message, Join):
            await self.peer.drop(_WRONG, "expected Join as the first message")
            return
        self.peer.settle()
        if (term := self._gateway.terms.superseded_by(message.beginnings)) is not None:
            try:
                await self._send(Refused(f"this daemon ends, as another one has taken over in term {term}", ends=True))
            finally:  # also if the answer reaches nobody
                self._gateway.supersede(str(term))
            return
        if reason := self._refusal(message):
            terms = self._gateway.terms
            outrun_in = str(terms.present) if terms.has_outrun(message.beginnings) else ""
            await self._send(Refused(reason, outrun_in=outrun_in))
            return
        standby = self._standbys.join(message.number, self._caller.identity.name, self._caller.origin)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, standby, nursery)
                with suppress(ConnectionClosedError):
                    try:
                        await self._serve(standby)
                    except _TooSlow:
                        await self.peer.drop(_LATER, f"read less than {COPY_RATE_MIN} bytes/s of a copy, and others wait for one")
                    except (JournalError, OSError) as error:
                        await self.peer.drop(_LATER, f"no copy can be made: {error}")
                nursery.cancel_scope.cancel()
        finally:
            self._standbys.leave(standby)

    def _refusal(self, join: Join) -> str:
        """The reason for which a journal cannot follow; "" if it can."""
        if join.version != schema.VERSION:
            return f"found version {join.version} of the journal, expected {schema.VERSION}: both need the same"
        reason = self._standbys.strange(join.number, join.beginnings)
        return reason and f"found a journal that is no beginning of the daemon's: {reason}; begin with an empty directory"

    async def _receive(self) -> ToDaemon | None:
        """The next message; None if it cannot be read."""
        data = await self._sealed.receive()
        with suppress(msgspec.DecodeError):
            return from_standby(data)
        return None

    async def _listen(self, standby: Standby, session: trio.Nursery) -> None:
        """Take in what the standby has on its disk, until it says something else."""
        with suppress(ConnectionClosedError):
            while True:
                message = await self._receive()
                if isinstance(message, WantBases):
                    session.start_soon(self._make_bases)
                    continue
                if isinstance(message, HandOver):
                    self._takes_over = True
                    self._gateway.hand_over()
                    continue
                if not isinstance(message, Durable) or not standby.number <= message.number <= self._standbys.number:
                    await self.peer.drop(_WRONG, "expected Durable with a transaction that was sent")
                    break
                self._standbys.told(standby, message.number)
                self._told.set()
                self._told = trio.Event()
        session.cancel_scope.cancel()

    async def _make_bases(self) -> None:
        """Have the next turn of each partition begin with a base, unless the standby has asked for that already."""
        turns = self._gateway.turns
        if turns is not None and not self._making.locked():
            async with self._making:
                await turns.make_bases()

    async def _serve(self, standby: Standby) -> None:
        await self._send(Following(self._standbys.beginnings, self._standbys.number))
        sent, copies = standby.number, 0
        while True:
            try:
                transactions = await self._after(sent)
            except Missed:
                copies += 1
                if copies > _COPIES_MAX:
                    await self.peer.drop(STALLED, f"more than {KEPT_BYTES_MAX} bytes were not read")
                    return
                sent = await self._send_copy(sent)
                continue
            if not transactions and await self._has_all(standby, sent):
                break
            for data in transactions:
                for part in parts(data):
                    await self._sealed.send(part)
            sent += len(transactions)
        if self._takes_over:
            self._gateway.handed_over()
            await self._send(Ended())

    async def _has_all(self, standby: Standby, sent: int) -> bool:
        """Wait until the standby has what it was sent, or the daemon has ended; False if there is more meanwhile."""
        while standby.number < sent:
            await self._told.wait()
        if self._takes_over:
            await self._standbys.end()
        return sent == self._standbys.number

    async def _after(self, number: int) -> list[bytes]:
        """The next transactions; [] if there are none and the session is to stop."""
        with trio.CancelScope() as self._waiting:
            if self._is_stopping:
                self._waiting.cancel()
            return await self._standbys.after(number)
        return []

    async def _send_copy(self, number: int) -> int:
        """Send a copy of all after a transaction; returns the newest transaction in it. Raises _TooSlow."""
        directory = self._standbys.directory
        async with self._standbys.copying:
            with tempfile.TemporaryDirectory(dir=directory, prefix=COPY_PREFIX, ignore_cleanup_errors=True) as place:
                copy = Path(place, "rest.db")
                make = partial(copy_rest, directory, copy, number)
                newest = await trio.to_thread.run_sync(make, abandon_on_cancel=True, limiter=self._standbys.copier)
                await self._send_file(copy)
        return newest

    async def _send_file(self, copy: Path) -> None:
        sent, began_s = 0, trio.current_time()
        await self._send(Copy((await trio.Path(copy).stat()).st_size))
        async with await trio.open_file(copy, "rb") as file:
            data = await file.read(PART_BYTES)
            while data:
                following = await file.read(PART_BYTES)
                await self._send(Part(data, is_last=not following))
                sent, data = sent + len(data), following
                has_had_s = trio.current_time() - began_s - _COPY_GRACE_S
                if data and has_had_s > sent / COPY_RATE_MIN and self._standbys.copying.statistics().tasks_waiting:
                    raise _TooSlow

    async def _send(self, message: ToStandby) -> None:
        await self._sealed.send(encode(message))
