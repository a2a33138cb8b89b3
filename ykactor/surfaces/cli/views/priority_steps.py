"""The priority of an ask on its way from its leaf to root."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ykactor.core.config.model import QueueProperties
from ykactor.core.queueing.priorities import queue_priority


def priority_steps(request: int, path: str, queues: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What each queue from the leaf upwards makes of the priority, if nothing in it is more important (PR-11)."""
    while path in queues:
        offset, is_fence = queues[path]["priorityOffset"], queues[path]["priorityPolicy"] == "fence"
        shown = queue_priority(request, QueueProperties(priority_offset=offset, priority_fence=is_fence))
        assert shown is not None, "of a number"
        yield {"queueName": path, "offset": offset, "isFence": is_fence, "priority": shown}
        request, path = shown, path.rpartition(".")[0]


def effective_priority(request: int, path: str, queues: dict[str, dict[str, Any]]) -> int:
    """The priority at root; for a limited reader at the highest queue in view."""
    for step in priority_steps(request, path, queues):
        request = step["priority"]
    return request
