"""Invariants of preemption: attempts, victims and quota clocks agree with the applications."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.inspection.checks import differs
from ykactor.core.messages.asks import shape_of
from ykactor.core.objects.registry import Registry
from ykactor.core.preemption.quota import gives_back
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.resources import Resource, add_to, pruned


def preemptions(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that victims run and are being released, asks with an attempt are pending and have a node, and the sums (PE-93)."""
    attempts, applications = state.preemptions, state.applications
    preempting: dict[QueueUsage, Resource] = {queue: {} for queue in state.tree.nodes.values()}
    claims: dict[QueueUsage, Resource] = {queue: {} for queue in preempting}
    for (application_id, key), (size, _) in attempts.victims.items():
        where = f"victim {key} of {application_id}"
        leaf = applications[application_id].leaf
        truth = registry.leaf(leaf.path).applications[application_id]
        if key not in truth.allocations or key not in truth.gang.released:
            yield f"{where}: does not run, or is not being released"
        else:
            yield from differs(where, "the size", size, truth.allocations[key][0].resource)
        for queue in leaf.path_up:
            add_to(preempting[queue], size)
    for identity, attempt in attempts.by_ask.items():
        where = f"attempt of {identity}"
        application = applications[identity[0]]
        leaf = application.leaf
        yield from differs(where, "the application", attempt.application, application)
        yield from differs(where, "the ask", application.reserving.get(identity[1]), attempt.ask)
        yield from differs(where, "whether its room is made", attempt.room_made_ns is not None, not attempt.waits_for)
        for victim in attempt.waits_for:
            if victim not in attempts.victims or attempts.victims[victim][1] != identity:
                yield f"{where}: waits for {victim}, which has gone or goes for somebody else"
        pinned = shape_of(attempt.ask)[1] is not None
        claim = {} if pinned else {name: amount for name, amount in attempt.ask.resource.items() if amount > 0}
        yield from differs(where, "the claim", attempt.claim, claim)
        for queue in leaf.path_up:
            add_to(claims[queue], claim)
    for queue in preempting:
        where = f"queue {queue.path}"
        yield from differs(where, "preempting", pruned(queue.preempting), pruned(preempting[queue]))
        yield from differs(where, "claims", pruned(queue.claims), pruned(claims[queue]))
        for name, amount in queue.preempting.items():
            if amount > queue.allocated.get(name, 0):
                yield f"{where}: is preempting {amount} {name}, more than it uses"
    waits = {(name, key) for name, application in applications.items() for key in application.asks}
    for identity in attempts.last_attempts.keys() - waits:
        yield f"attempt of {identity}: it does not wait"
    for victim_leaf, preemptor_leaf, name in attempts.cycle_guard.cycles():
        yield f"preemption: {victim_leaf} and {preemptor_leaf} have taken {name} from each other, expected one direction"


def quota_clocks(state: SchedulerState) -> Iterator[str]:
    """Check that only configured queues with a max and a delay have a start of quota preemption (CF-81)."""
    for queue in state.clocks.starts:
        if state.tree.nodes.get(queue.path) is not queue or not gives_back(queue.config):
            yield f"queue {queue.path}: has to give back, expected none that is gone, dynamic, or without max or delay"
