"""The limits of one identity, and of all together (SE-48)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

from ykactor.core.messages.submissions import TYPES_MAX, HeldLimits
from ykactor.core.values.quantities import parse_uint64
from ykactor.wire.si.lengths import ITEMS_MAX

_MIB = 2**20
#: The most slots that are kept for resource managers, and as many for operators: nobody else can take them.
_RESERVED_MAX = 64


class IdentityLimits(Struct, frozen=True, rename="camel"):
    """The limits of each identity. The access file has defaults for all, and may have others for one.

    Attributes:
        sessions: open at the same time, of all kinds.
        subscriptions: of these, followers.
        connections: to the REST API, open at the same time.
        messages_per_second, bytes_per_second: received, of one session; more has to wait.
        message_bytes: of one message. There is room for the largest configuration (``lengths.CONFIG_MAX``) and its escapes.
        outstanding: requests that partitions have not finished, of one session; more has to wait.
        applications, asks, nodes, queues, resource_types: held in a partition at the same time (``HeldLimits``).
        tags: of one application or ask; at most those that a message may have.
    """

    sessions: int = 1_032
    subscriptions: int = 1_000
    connections: int = 250
    messages_per_second: int = 10_000
    bytes_per_second: int = 64 * _MIB
    message_bytes: int = 24 * _MIB
    outstanding: int = 1_024
    applications: int = 100_000
    asks: int = 1_000_000
    nodes: int = 50_000
    queues: int = 20_000
    resource_types: int = TYPES_MAX
    tags: int = ITEMS_MAX

    def held(self, identity: str) -> HeldLimits:
        """The limits on what the identity with this name may hold in a partition."""
        return HeldLimits(identity, self.applications, self.asks, self.nodes, self.queues, self.resource_types)


class Limits(Struct, frozen=True, rename="camel"):
    """The limits of the whole daemon, and of an identity that has none of its own.

    Attributes:
        total_sessions: open at the same time, of all identities.
        handshake_seconds: for the handshake of TLS, and for the request that opens a websocket.
        waiting_bytes: of all messages, complete or not, that are received and not yet handled.
    """

    total_sessions: int = 4_000 + 2 * _RESERVED_MAX
    handshake_seconds: int = 10
    waiting_bytes: int = 256 * _MIB
    each: IdentityLimits = IdentityLimits()

    @property
    def reserved_sessions(self) -> int:
        """The number of sessions that are kept for resource managers, and as many for operators."""
        return min(_RESERVED_MAX, self.total_sessions // 4)

    def with_numbers(self, numbers: Mapping[str, int]) -> Limits:
        """These limits with other numbers, by their names in the access file, of both kinds."""
        own = {FOR_ALL[key]: value for key, value in numbers.items() if key in FOR_ALL}
        return structs.replace(self, **own, each=replaced(self.each, {k: v for k, v in numbers.items() if k in FOR_EACH}))


def replaced(limits: IdentityLimits, numbers: Mapping[str, int]) -> IdentityLimits:
    """The limits of an identity with numbers of its own, by their names in the access file."""
    return structs.replace(limits, **{FOR_EACH[key]: value for key, value in numbers.items()})


#: The smallest and the largest number of limits that differ from the others in this, by their names in the access file.
_SMALLEST = {"totalSessions": 4}
_LARGEST = {"tags": ITEMS_MAX, "resourceTypes": TYPES_MAX}


def range_of(name: str) -> tuple[int, int]:
    """The smallest and the largest number of a limit."""
    return _SMALLEST.get(name, 1), _LARGEST.get(name, 10**15)


def number(name: str, text: str) -> int | None:
    """The number of a limit, from its text; None if it may not have this one."""
    found, (smallest, largest) = parse_uint64(text), range_of(name)
    return found if found is not None and smallest <= found <= largest else None


#: Names in the access file, and those of the attributes.
FOR_EACH = {field.encode_name: field.name for field in structs.fields(IdentityLimits)}
FOR_ALL = {field.encode_name: field.name for field in structs.fields(Limits) if field.name != "each"}
