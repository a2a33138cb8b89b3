"""The audit: who has administered the daemon, and who was refused (SE-70 to SE-76).

Sessions tell it what they do. It publishes facts without a turn, so they are events as all others:
numbered, and in the journal.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from msgspec import Struct, structs

from ykactor.access.limits import FOR_ALL, FOR_EACH, IdentityLimits
from ykactor.access.model import Identity
from ykactor.actors.commands import PartitionCommand, Publication
from ykactor.actors.feed import FeedActor
from ykactor.actors.mailbox import Mailbox
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.files.daemon_rows import DaemonRows
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.net.doors import network_of
from ykactor.wire.si import acts
from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import shortened
from ykactor.wire.si.protocol_error import ProtocolError

if TYPE_CHECKING:  # a daemon without an access file does without the libraries that this one needs
    from ykactor.access.access import Access

log = get_logger(__name__)

#: Refusals are summed by so many keys, and then all others together.
KEYS_MAX = 1024
#: The sum of a key is told at most once in this time.
SUM_S = 60.0
#: The origin of those.
OTHERS = "other addresses"
_REST = ("", "", None)
#: The identity of somebody who has not shown who it is.
UNKNOWN = Identity(name="", roles=frozenset())

#: Characters of a text, about.
TEXT_MAX = 512
#: The target of an act that changes the configuration.
CONFIGURATION = "configuration"
#: What is there before a registration ends.
REGISTERED = "registered"
_INTERRUPTED = "the daemon ended before it was told whether this was done"
#: By the type of a message that is not in ``acts``, the act and the field that says what it is about; all others are ``SEND``.
_ACTS = {
    si.RegisterResourceManagerRequest: (Act.REGISTER, "rm_id"),
    si.DeregisterResourceManagerRequest: (Act.DEREGISTER, ""),
    si.ReleaseResourceManager: (Act.RELEASE, "rm_id"),
    si.UpdateConfigurationRequest: (Act.CONFIGURE, ""),
    si.ReloadConfiguration: (Act.CONFIGURE, ""),
    si.ConfirmConfiguration: (Act.CONFIGURE, ""),
    si.RollBackConfiguration: (Act.CONFIGURE, ""),
}

_Key = tuple[str, str, Act | None]


class _Sum(Struct):
    """The refusals of one key that are not told yet: the newest one, and when they may be told."""

    newest: Audited
    times: int
    due_s: float


class Acting(Struct):
    """An act under way; ``after`` as in ``Audited``."""

    after: str


class AuditLog:
    """Logs what is refused, and what changes in watched files. A replica has no events of its own, and does only that.

    Args:
        now_ns: the present Unix time.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._sums: dict[_Key, _Sum] = {}
        self._grown = trio.Event()

    async def changed_file(self, act: Act, path: Path, before: str, after: str) -> None:
        """Tell that another content of a file is in force; nobody knows who has written it."""
        await self._tell(Audited(self._now_ns(), "", str(path), "", act, path.name, _cut(before), _cut(after)))

    async def not_confirmed(self, who: str, checksum: str, before: str) -> None:
        """Tell that nobody has confirmed the configuration of an operator in time, and which one has come back."""
        after = f"{before}, as nobody has confirmed it"
        await self._tell(Audited(self._now_ns(), who, "the daemon", "", Act.CONFIGURE, CONFIGURATION, _cut(checksum), after))

    async def access_changed(self, path: Path, before: Access, after: Access) -> None:
        """Tell what is different in the access file that is in force now."""
        await self.changed_file(Act.ACCESS, path, "", difference(before, after))

    async def certificate_expires(self, path: Path, text: str) -> None:
        """Tell that the certificate of the daemon is about to expire."""
        await self.changed_file(Act.CERTIFICATE, path, "", text)

    async def standbys_changed(self, path: Path, before: str, after: str) -> None:
        """Tell that the journal at a path goes on without the standbys that it should have, or with them again."""
        await self.changed_file(Act.STANDBY, path, before, after)

    # ---- what is refused

    def refused(self, by: Caller, act: Act, target: str, reason: str) -> None:
        """Tell that something was refused, at once or later with others of the same origin. Never waits."""
        key: _Key = (network_of(by.origin), by.identity.name, act)
        fact = self._fact(by, act, target, refusal=reason)
        if key not in self._sums and len(self._sums) >= KEYS_MAX:
            key, fact = _REST, structs.replace(fact, origin=OTHERS)
        found = self._sums.get(key)
        if found is None:
            self._sums[key] = _Sum(fact, 1, trio.current_time())
            self._grown.set()
        else:
            found.newest = fact
            found.times += 1

    def refused_message(self, by: Caller, message: Struct, reason: str) -> None:
        """The same for a message."""
        act, field = act_of(message)
        self.refused(by, act, getattr(message, field) if field else type(message).__name__, reason)

    def not_permitted(self, by: Caller, message: Struct, error: ProtocolError) -> None:
        """The same if it is refused because of who has sent it; other errors of a message are told its sender only."""
        if error.code == "NOT_PERMITTED":
            self.refused_message(by, message, str(error))

    async def run(self) -> None:
        """Tell refusals until cancelled."""
        while True:
            await self._tell_due()
            next_s = min((found.due_s for found in self._sums.values()), default=math.inf)
            with trio.move_on_at(next_s):
                await self._grown.wait()
            self._grown = trio.Event()

    async def _tell_due(self) -> None:
        now_s = trio.current_time()
        for key, found in list(self._sums.items()):
            if found.due_s > now_s:
                continue
            if not found.times:
                del self._sums[key]
                continue
            fact = structs.replace(found.newest, times=found.times)
            found.times, found.due_s = 0, now_s + SUM_S
            await self._room()
            await self._tell(fact)

    # ---- telling

    def _fact(self, by: Caller, act: Act, target: str, before: str = "", after: str = "", refusal: str = "") -> Audited:
        who = self._now_ns(), by.identity.name, by.origin, by.role, act
        return Audited(*who, _cut(target), _cut(before), _cut(after), _cut(refusal))

    async def _room(self) -> None:
        """Wait until a refusal may be told."""

    async def _tell(self, fact: Audited) -> None:
        shown = structs.asdict(fact)
        del shown["at_ns"]
        log_event(log, logging.WARNING if fact.refusal else logging.INFO, "audited", **shown)


class Audit(AuditLog):
    """Publishes what is done and refused, and logs it.

    Args:
        partitions: the running ones; the events are in the first.
        now_ns: the present Unix time.
        rows: what the daemon keeps; an act that has begun is there until it is told (SE-73).
    """

    def __init__(
        self,
        feed: FeedActor,
        partitions: Mapping[PartitionName, Mailbox[PartitionCommand]],
        now_ns: Callable[[], int],
        rows: DaemonRows,
    ) -> None:
        super().__init__(now_ns)
        self._feed = feed
        self._partitions = partitions
        self._rows = rows
        self._begun = 0

    @asynccontextmanager
    async def acting(self, by: Caller, act: Act, target: str, before: str = "", after: str = "") -> AsyncIterator[Acting]:
        """Do something within the block, which is then told. A block that raises an exception has done nothing.

        If the daemon ends meanwhile, the next one tells that this may have been done.

        Args:
            before, after: what it changes; the block may set ``after`` when it knows more.
        """
        self._begun += 1
        doing, fact = Acting(after), self._fact(by, act, target, before, after)
        key = self._rows.begin_act(self._begun, structs.replace(fact, refusal=_INTERRUPTED))
        try:
            yield doing
        except Exception:
            self._rows.forget_act(key)
            raise
        await self._tell(structs.replace(fact, at_ns=self._now_ns(), after=_cut(doing.after)), key)
        await self._feed.published(self._partition())

    async def refused_elsewhere(self, place: str, fact: Audited) -> None:
        """Tell a refusal, or a sum of them, of another process; waits while the journal has no room."""
        await self._room()
        texts = {name: _cut(getattr(fact, name)) for name in ("who", "origin", "role", "target")}
        await self._tell(structs.replace(fact, at_ns=self._now_ns(), refusal=_cut(f"{place}: {fact.refusal}"), **texts))

    async def durable(self) -> None:
        """Wait until all that was told and published before is durable."""
        await self._feed.published(self._partition())
        if self._feed.journal is not None:
            await self._feed.journal.flushed()

    async def tell_interrupted(self, acts: Mapping[bytes, Audited]) -> None:
        """Tell the acts that the daemon before this one has begun and not told."""
        for key, fact in acts.items():
            await self._tell(fact, key)
            await self._feed.published(self._partition())

    async def _room(self) -> None:
        if self._feed.journal is not None:
            await self._feed.journal.room()

    async def _tell(self, fact: Audited, *begun: bytes) -> None:
        """Tell a fact. The row of a begun act ends in its transaction: the journal never has both of them, and never neither."""
        await super()._tell(fact)
        await self._feed.inbox.put(Publication(self._partition(), [fact], ended=begun))

    def _partition(self) -> PartitionName:
        return next(iter(self._partitions))


def act_of(message: Struct) -> tuple[Act, str]:
    """The act that a message asks for, and the field that says what it is about; "" for the type of the message."""
    if isinstance(message, si.OperatorAct):
        return acts.act_of(message), acts.ACTS[type(message)].about
    return _ACTS.get(type(message), (Act.SEND, ""))


def _cut(text: str) -> str:
    return shortened(text, TEXT_MAX)


# ---- the difference between two access files (SE-72): names of identities, ids of tokens, and limits; no secret

_NO_LIMITS = IdentityLimits()
#: Names of limits with their numbers.
_Numbers = dict[str, int]


def difference(before: Access, after: Access) -> str:
    """One line."""
    parts = [
        *_kinds("", _identities(before), _identities(after)),
        *_kinds("tokens ", _tokens(before), _tokens(after)),
        *_limits(before, after),
    ]
    return "; ".join(parts) or "no identity, token or limit changed"


def _identities(access: Access) -> dict[str, Identity]:
    """The rights and proofs of each identity, but for tokens."""
    return {found.name: structs.replace(found, limits=_NO_LIMITS) for found in access.identities}


def _tokens(access: Access) -> dict[str, object]:
    return {f"{token.id} of {token.identity}": token for token in access.tokens.all}


def _kinds(of: str, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    names = {
        "added": after.keys() - before.keys(),
        "changed": {name for name in before.keys() & after.keys() if before[name] != after[name]},
        "removed": before.keys() - after.keys(),
    }
    return (f"{of}{kind}: {', '.join(sorted(found))}" for kind, found in names.items() if found)


def _limits(before: Access, after: Access) -> Iterator[str]:
    """The limits at the top of the file, then those of identities that are there before and after, if they have others."""
    at_top = [*_differences(_of_file(before), _of_file(after))]
    yield from at_top
    old = {found.name: _numbers(found.limits, FOR_EACH) for found in before.identities}
    for identity in after.identities:
        if identity.name in old:
            for text in _differences(old[identity.name], _numbers(identity.limits, FOR_EACH)):
                if text not in at_top:
                    yield f"{text} of {identity.name}"


def _of_file(access: Access) -> _Numbers:
    return _numbers(access.limits, FOR_ALL) | _numbers(access.limits.each, FOR_EACH)


def _numbers(limits: Any, names: Mapping[str, str]) -> _Numbers:
    return {key: getattr(limits, name) for key, name in names.items()}


def _differences(before: _Numbers, after: _Numbers) -> Iterator[str]:
    return (f"limit {key}: {before[key]} -> {number}" for key, number in after.items() if number != before[key])
