"""Quotas of dynamic leaves that the resource manager sets beside applications (QU-107)."""

from __future__ import annotations

from ykactor.core.messages.acts import SetQueueQuotas, full_path
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.held_limits import TYPES_MAX
from ykactor.core.objects.commands import Configure
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import Exchange, Registry, send
from ykactor.core.placement.dynamic import limit_changes, quotas_objection, with_set_quotas
from ykactor.core.placement.rules import RECOVERY_QUEUE
from ykactor.core.values.quantities import brief, quota_types


def refusal_of(registry: Registry, request: SetQueueQuotas) -> str:
    """The reason why the request cannot be carried out, or ""."""
    path = full_path(request.queue_name)
    queue = registry.queues.get(path)
    if queue is None:
        return f"queue {brief(path)} does not exist"
    if not isinstance(queue, LeafCore) or queue.config.managed or path == RECOVERY_QUEUE:
        return f"queue {brief(path)} is no dynamic leaf: its quotas come from the queue file"
    return quotas_objection(request.tags) or _too_many_types(registry, request)


def _too_many_types(registry: Registry, request: SetQueueQuotas) -> str:
    types = registry.books.types
    found, new = types.found(), types.new(quota_types(request.tags))
    if not new or found + len(new) <= TYPES_MAX:
        return ""
    return f"tags: found {len(new)} new resource types beside {found}, expected at most {TYPES_MAX} in a partition"


def carry_out(registry: Registry, now_ns: int, request: SetQueueQuotas) -> Exchange[list[Fact]]:
    """Set the quotas; ``refusal_of`` must have had no objection."""
    leaf = registry.leaf(full_path(request.queue_name))
    before = leaf.config
    after = with_set_quotas(registry.queues, before, request.tags)
    if after is before:
        return []
    yield from send([(leaf, Configure(after, leaf.state))])
    return limit_changes(before, after, now_ns)
