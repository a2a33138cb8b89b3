"""Facts to be rendered, and the records of a fact as rows to compare."""

from ykactor.core.messages import facts
from ykactor.core.messages.acts import Act
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import Change, QueueLimit, TerminationType
from ykactor.core.messages.states import QueueState
from ykactor.wire.si.events import events

S = 10**9
ASK = Ask("t1", "app-1", {"vcore": 1000}, priority=3, tags={"k": "v"}, allow_preempt_other=True, arrival=1)
ALLOCATED = facts.Allocated(S, ASK, "root.a", "n1")

#: Neither decisions nor messages to the resource manager.
ONLY_EVENTS = [
    facts.NodeRemoved(S, "n1"),
    facts.NodeSchedulable(S, "n1", False),
    facts.NodeCapacityChanged(S, "n1", {}),
    facts.NodeAttributesChanged(S, "n1", {}),
    facts.ForeignChanged(S, "n1", "f1", Change.ADD, {}, {}),
    facts.ApplicationLeft(S, "app-1", "root.a"),
    facts.AskAdded(S, ASK, "root.a"),
    facts.AskRemoved(S, ASK, "root.a", True),
    facts.QueueAdded(S, "root.a"),
    facts.QueueRemoved(S, "root.a"),
    facts.QueueStateChanged(S, "root.a", QueueState.DRAINING),
    facts.QueueLimitChanged(S, "root.a", QueueLimit.MAX, None),
    facts.Audited(S, "ops", "127.0.0.1:5000", "operator", Act.DRAIN, "n1"),
]

#: Type, object, change, detail, reference, message and resource of a record.
Row = tuple[str, str, str, str, str, str, dict[str, int] | None]


def released(kind: str = "STOPPED_BY_RM", message: str = "m", node_id: str = "n1", key: str = "t1") -> facts.Released:
    ask = Ask(key, "app-1", {"vcore": 1000}, created_ns=0, arrival=1)
    return facts.Released(2 * S, ask, "root.a", node_id, TerminationType(kind), message)


def rows(fact: facts.Fact) -> list[Row]:
    """The records of a fact."""
    return [
        (
            record.type,
            record.object_id,
            record.event_change_type,
            record.event_change_detail,
            record.reference_id,
            record.message,
            record.resource,
        )
        for record in events(fact, "default", 1)
    ]
