"""Quota preemption: the step of a cycle that releases tasks of queues above their max (PE-88, PE-89, PE-96)."""

from __future__ import annotations

from heapq import merge

from ykactor.core.messages import conditions
from ykactor.core.messages.facts import AskCondition, QuotaPreempted, StaysAboveMax
from ykactor.core.planner.plan import Plan
from ykactor.core.preemption.laws import VictimSet
from ykactor.core.preemption.quota import candidates, choose, preemptable, shares
from ykactor.core.preemption.victims import Victim
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state.above_max import above_max
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.resources import Resource, add_to


def enforce_quotas(state: SchedulerState, plan: Plan) -> Steps[None]:
    """Release tasks of every queue whose start time has come; each start is used once.

    Queues below one that released tasks follow in the next plan; queues below one that released nothing follow at once. Only in a
    plan that has decided nothing yet, because the step reads the owners: all tasks of a queue, which can be many.
    """
    clocks, enforced = state.clocks, list[QueueNode]()
    while not plan and (due := clocks.due(plan.now_ns)):
        for queue in due:
            clocks.forget(queue)
            yield from _enforce(state, plan, queue)
        enforced += due
    for queue in enforced:
        stays = above_max(state, queue)
        if stays is not None:
            plan.report(StaysAboveMax(plan.now_ns, queue.path, stays.amounts, stays.reason))


def _enforce(state: SchedulerState, plan: Plan, queue: QueueNode) -> Steps[None]:
    amount = preemptable(queue)
    spared = VictimSet(queue, (), is_own=False)
    count, victims = 0, list[Victim]()
    for leaf, part in shares(queue, amount, state.tree.children_of()) if amount else ():
        sorted_parts = []
        for tasks in in_parts(state.tasks.of_leaf(leaf)):
            possible = [task for task in tasks if state.tasks.queue_of_victim(task) is not None]
            sorted_parts.append(candidates(possible, part, queue.config.max or {}))
            count += len(sorted_parts[-1])
            yield len(tasks)
        rest = dict(part)
        for some in in_parts(merge(*sorted_parts)):
            victims += choose(leaf, some, rest, spared)
            yield len(some)
        while sorted_parts:  # freeing all at once takes long
            yield len(sorted_parts.pop())
    if count:
        yield from _evict(plan, queue, victims, amount, count)


def _evict(plan: Plan, queue: QueueNode, victims: list[Victim], amount: Resource, count: int) -> Steps[None]:
    who = conditions.preempted_by_quota(queue.path)
    message = f"preempting allocations to enforce new max quota for queue : {queue.path}"
    for victim in victims:
        plan.report(AskCondition(plan.now_ns, victim.task, victim.leaf.path, who))
        yield 1
    claimed: Resource = {}
    for victim in victims:
        plan.evict(victim, None, message)
        add_to(claimed, victim.task.resource)
        yield 1
    maximum = queue.config.max or {}
    plan.report(QuotaPreempted(plan.now_ns, queue.path, amount, claimed, count, len(victims), maximum))
