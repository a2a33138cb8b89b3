"""Settle: a batch for each leaf in the plan, in parts if it is long.

The leaf turns asks into allocations and changes states of applications.
"""

from __future__ import annotations

from ykactor.core.messages.fact_order import with_state_changes
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Planned
from ykactor.core.objects.commands import Positioned, SettleBatch
from ykactor.core.objects.registry import Exchange, Send
from ykactor.core.planner.plan import Placement, Plan
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps, in_parts, paced

#: So many replies are put together in the time of one other item.
_REPLIES = 10


def settle(state: SchedulerState, plan: Plan) -> Exchange[list[Fact]]:
    """Send each leaf its orders. Returns all facts in the order of the plan (AP-96)."""
    batches = yield from paced(_batches(plan))
    sends: list[Send[Positioned]] = []
    for leaf, batch in batches.items():
        owner = state.registry.leaf(leaf.path)
        sends += ((owner, SettleBatch(plan.now_ns, part)) for part in in_parts(batch))
    replies: list[Positioned] = yield sends
    facts = yield from paced(_in_plan_order(plan, replies))
    return facts


def _batches(plan: Plan) -> Steps[dict[QueueUsage, list[tuple[int, Planned]]]]:
    """The orders of each leaf with their positions in the plan."""
    batches: dict[QueueUsage, list[tuple[int, Planned]]] = {}
    for part in in_parts(enumerate(plan.orders)):
        for position, order in part:
            batches.setdefault(order.leaf, []).append((position, order.planned))
        yield len(part)
    return batches


def _in_plan_order(plan: Plan, replies: list[Positioned]) -> Steps[list[Fact]]:
    """The reported facts and the facts that orders led to, merged in the order of the plan."""
    facts, changes = list[Fact](), dict[int, list[Fact]]()
    for reply in replies:
        changes.update(reply)
        yield len(reply) // _REPLIES
    reported = iter([*plan.facts, (len(plan.orders) + 1, None)])
    at, fact = next(reported)
    for part in in_parts(enumerate(plan.orders)):
        for position, order in part:
            while at <= position and fact is not None:
                facts.append(fact)
                at, fact = next(reported)
                yield 1
            caused = changes.get(position)
            if type(order) is not Placement:
                facts += caused or []
            elif caused:
                facts += with_state_changes(caused, order.planned)
            else:
                facts.append(order.planned)
        yield len(part)
    while fact is not None:
        facts.append(fact)
        at, fact = next(reported)
    return facts
