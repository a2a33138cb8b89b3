"""The answers about tasks on routes that Apache YuniKorn does not have."""

from __future__ import annotations

from ykactor.wire.rest.types import Payload


class PendingAsk(Payload, frozen=True, kw_only=True):
    """The reason for which an ask is pending now: a code (AP-150), and a sentence."""

    allocation_key: str
    code: str
    reason: str


class TaskRecord(Payload, frozen=True, kw_only=True):
    """The end of a task, as its resource manager reports it (AP-152).

    Attributes:
        exit_code: null if there is none.
        signal: the name of the one that has ended it.
        start_time, finished_time: Unix nanoseconds; 0 if they are not known.
        peak_memory: bytes; null if nothing has measured it.
    """

    allocation_key: str
    user: str
    node_id: str = ""
    state: str
    exit_code: int | None
    signal: str = ""
    start_time: int = 0
    finished_time: int = 0
    peak_memory: int | None
