"""Queues over their max give back: the step of a cycle that tells their tasks to go (PE-88, PE-89, PE-96)."""

from __future__ import annotations

from ykactor.core.messages.facts import AskRemark, QuotaPreempted
from ykactor.core.messages.planned import Eviction
from ykactor.core.planner.steps import EvictionStep, Step
from ykactor.core.preemption.laws import Exchange
from ykactor.core.preemption.quota import candidates, choose, preemptable, shares
from ykactor.core.preemption.victims import Victim
from ykactor.core.quota.ledger import Account
from ykactor.core.state.state import Indexes
from ykactor.core.values.resources import Resource, add_to


class QuotaStep:
    """Enforces the quotas of one partition; only in a plan that has decided nothing yet, because it reads the owners."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    def run(self, now_ns: int) -> list[Step]:
        """What queues have to give back now; none has to twice for one start.

        Queues below one that gave back have their turn in the next plan, at once below one that had nothing to give.
        """
        steps: list[Step] = []
        if not self._indexes.enforces_quotas():
            return steps
        clocks = self._indexes.clocks
        while not steps and (due := clocks.due(now_ns)):
            for queue in due:
                clocks.forget(queue)
                steps += self._enforce(now_ns, queue)
        return steps

    def _enforce(self, now_ns: int, queue: Account) -> list[Step]:
        amount = preemptable(queue)
        spared = Exchange(queue, (), is_own=False)
        count, victims = 0, []
        for leaf, part in shares(queue, amount, self._indexes.ledger.children_of()) if amount else ():
            tasks = candidates(self._indexes.free_tasks(leaf), part, queue.config.max or {})
            count += len(tasks)
            victims += choose(leaf, tasks, part, spared)
        return self._evict(now_ns, queue, victims, amount, count) if count else []

    def _evict(self, now_ns: int, queue: Account, victims: list[Victim], amount: Resource, count: int) -> list[Step]:
        who = f"Preempted by Quota change enforcement process in {queue.path}"
        message = f"preempting allocations to enforce new max quota for queue : {queue.path}"
        steps: list[Step] = [AskRemark(now_ns, it.task, it.leaf.path, who) for it in victims]
        claimed: Resource = {}
        for it in victims:
            self._indexes.evict(it.leaf, it.task, None)
            steps.append(EvictionStep(Eviction(it.task, message), it.leaf))
            add_to(claimed, it.task.spec.resource)
        return [*steps, QuotaPreempted(now_ns, queue.path, amount, claimed, count, len(victims), queue.config.max or {})]
