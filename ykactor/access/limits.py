"""How much one identity, and all together, may ask of the daemon (SE-48)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

_MIB = 2**20


class IdentityLimits(Struct, frozen=True, rename="camel"):
    """Of each identity. The access file has defaults for all, and may have others for one.

    Attributes:
        sessions: open at the same time, of all kinds.
        subscriptions: of these, followers.
        messages_per_second, bytes_per_second: received, of one session; more has to wait.
        message_bytes: of one message.
        outstanding: requests without an answer, of one session.
        applications, asks, nodes, queues: held at the same time; queues are those that placement created.
        tags: of one application or ask.
    """

    sessions: int = 2_000
    subscriptions: int = 2_000
    messages_per_second: int = 10_000
    bytes_per_second: int = 64 * _MIB
    message_bytes: int = 24 * _MIB
    outstanding: int = 10_000
    applications: int = 100_000
    asks: int = 1_000_000
    nodes: int = 50_000
    queues: int = 20_000
    tags: int = 4_096


class Limits(Struct, frozen=True, rename="camel"):
    """Of the whole daemon, and of an identity that has none of its own.

    Attributes:
        total_sessions: open at the same time, of all identities.
        handshake_seconds: from the connection to the first message.
        waiting_bytes: of all messages that are received and not yet handled.
        message_depth: levels of lists and mappings in a message.
    """

    total_sessions: int = 4_000
    handshake_seconds: int = 10
    waiting_bytes: int = 256 * _MIB
    message_depth: int = 64
    each: IdentityLimits = IdentityLimits()

    def with_numbers(self, numbers: Mapping[str, int]) -> Limits:
        """These limits with other numbers, by their names in the access file, of both kinds."""
        own = {FOR_ALL[key]: value for key, value in numbers.items() if key in FOR_ALL}
        return structs.replace(self, **own, each=replaced(self.each, {k: v for k, v in numbers.items() if k in FOR_EACH}))


def replaced(limits: IdentityLimits, numbers: Mapping[str, int]) -> IdentityLimits:
    """The limits of an identity with numbers of its own, by their names in the access file."""
    return structs.replace(limits, **{FOR_EACH[key]: value for key, value in numbers.items()})


#: Names in the access file, and those of the attributes.
FOR_EACH = {field.encode_name: field.name for field in structs.fields(IdentityLimits)}
FOR_ALL = {field.encode_name: field.name for field in structs.fields(Limits) if field.name != "each"}
