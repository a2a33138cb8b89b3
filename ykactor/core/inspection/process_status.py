"""The status of the daemon itself, beside its partitions."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Registration(Struct, frozen=True):
    """The resource manager that is registered.

    Attributes:
        build_info: what it has told of itself, as far as that is shown.
        is_connected: whether it has a session.
        since_ns: the Unix time at which this session began, or without one, at which the last one ended.
    """

    rm_id: str
    build_info: Mapping[str, str]
    is_connected: bool
    since_ns: int
