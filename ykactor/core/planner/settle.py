"""Settle: a batch for each leaf in the plan, in parts if it is long.

The leaf turns asks into allocations and changes states of applications.
"""

from __future__ import annotations

from ykactor.core.messages.fact_order import with_state_changes
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Planned
from ykactor.core.objects.commands import Positioned, SettleBatch
from ykactor.core.objects.exchange import Exchange, Send
from ykactor.core.planner.plan import Placement, Plan
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import PART_MAX, Pace


def settle(state: SchedulerState, plan: Plan) -> Exchange[list[Fact]]:
    """Send each leaf its orders. Returns all facts in the order of the plan (AP-96)."""
    batches: dict[QueueUsage, list[tuple[int, Planned]]] = {}
    for position, order in enumerate(plan.orders):
        batches.setdefault(order.leaf, []).append((position, order.planned))
        if (position + 1) % PART_MAX == 0:
            yield []
    sends: list[Send[Positioned]] = []
    for leaf, batch in batches.items():
        owner = state.registry.leaf(leaf.path)
        for start in range(0, len(batch), PART_MAX):
            part = batch[start : start + PART_MAX]
            sends.append((owner, SettleBatch(plan.now_ns, part)))
    replies: list[Positioned] = yield sends
    changes: dict[int, list[Fact]] = {}
    for reply in replies:
        changes.update(reply)
    if len(replies) > 1:
        yield []
    facts = yield from _in_plan_order(plan, changes)
    return facts


def _in_plan_order(plan: Plan, changes: dict[int, list[Fact]]) -> Exchange[list[Fact]]:
    """The reported facts and the facts that orders led to, merged in the order of the plan."""
    facts, pace = list[Fact](), Pace()
    reported = iter([*plan.facts, (len(plan.orders) + 1, None)])
    at, fact = next(reported)
    for position, order in enumerate(plan.orders):
        while at <= position and fact is not None:
            facts.append(fact)
            at, fact = next(reported)
            if pace.is_due():
                yield []
        caused = changes.get(position)
        if type(order) is not Placement:
            facts += caused or []
        elif caused:
            facts += with_state_changes(caused, order.planned)
        else:
            facts.append(order.planned)
        if (position + 1) % PART_MAX == 0:
            yield []
    while fact is not None:
        facts.append(fact)
        at, fact = next(reported)
    return facts
