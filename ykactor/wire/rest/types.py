"""The form of all answers of the REST API: names, types and omitted fields are those of Apache YuniKorn; and the answers about
the daemon: its partitions, its checks, its caller.

A field with a default is left out when it has that value; the others are always there. ``UNSET`` is the default of what limited
readers are not shown and all others always are: a 0 or a false would say something of the cluster (SE-88).

A field that is the same in the read model has its name, and ``Payload.of`` takes it from there; ``field`` has the name of Apache
YuniKorn where that is another one.

Amounts are base units in signed 64 bits, times Unix nanoseconds, where a field does not say otherwise. Lists have a fixed order:
nodes and queues by name, applications by their submission, tasks by their creation.
"""

from __future__ import annotations

from functools import cache
from typing import Self

from msgspec import Struct

from ykactor.core.values.resources import Resource, saturated


class Payload(Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """An object of an answer."""

    @classmethod
    def of(cls, *shown: Struct, **others: object) -> Self:
        """The object with the fields of ``shown`` that have the same names, and with ``others``; what is ``UNSET`` stays so."""
        fields: dict[str, object] = {}
        for each in shown:
            fields |= {name: getattr(each, name) for name in _shared(cls, type(each))}
        return cls(**fields | others)


@cache
def _shared(kind: type[Payload], shown: type[Struct]) -> list[str]:
    """The names of the fields that both have."""
    return [name for name in shown.__struct_fields__ if name in kind.__struct_fields__]


class Error(Payload, frozen=True, kw_only=True, rename=None):
    """The answer to a refused request; the status repeats ``status_code``."""

    status_code: int
    message: str
    description: str


class Session(Payload, frozen=True, kw_only=True):
    """The caller. Not of Apache YuniKorn.

    Attributes:
        websockets: their URL without a path, with the host of the request; "" if no browser can reach them.
        is_logged_in: whether a cookie has shown it (SE-98).
    """

    name: str
    roles: list[str]
    websockets: str
    is_logged_in: bool = False


class Cluster(Payload, frozen=True, kw_only=True):
    """One partition, and what is behind it.

    Attributes:
        start_time: of the daemon.
        rm_build_information: what the registered resource manager has told of itself, ``rmId`` among it.
    """

    start_time: int = 0
    rm_build_information: list[dict[str, str]] = []
    partition: str
    cluster_name: str


# ---- amounts of resources

#: Whole percent by type; at most 2147483647.
Percent = dict[str, int]

_PERCENT_MAX = 2**31 - 1


def limit(resource: Resource | None) -> Resource:
    """A limit: a type with 0 may not be used, and is shown."""
    return saturated(resource or {})


def percent(amount: Resource, capacity: Resource) -> Percent:
    """Whole percent, of the types that both have."""
    return {name: _percent(amount[name], whole) for name, whole in capacity.items() if name in amount}


def _percent(amount: int, whole: int) -> int:
    if amount <= 0:
        return 0
    return min(100 * amount // whole, _PERCENT_MAX) if whole > 0 else 100


# ---- checks: of the live state, and of a configuration


class HealthCheck(Payload, frozen=True, kw_only=True, rename="pascal"):
    """One check."""

    name: str
    succeeded: bool
    description: str = ""
    diagnosis_message: str = ""


class Health(Payload, frozen=True, kw_only=True, rename="pascal"):
    """All checks, and whether all have succeeded."""

    healthy: bool
    health_checks: list[HealthCheck] = []


class Verdict(Payload, frozen=True, kw_only=True):
    """The verdict on a queue configuration, with the reason if it is not valid."""

    allowed: bool
    reason: str = ""
    checksum: str = ""
    checksum_match: bool = False
