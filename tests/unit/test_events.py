"""Facts to event records."""

import pytest
from samplefacts import ASK, S, rows

from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.messages import facts
from ykactor.core.messages.kinds import Change, Gate, QueueLimit, TerminationType
from ykactor.core.messages.states import ApplicationEvent, ApplicationState, QueueState
from ykactor.wire.si.events import events

ALLOCATED = facts.Allocated(S, ASK, "root.a", "n1", charged_to=facts.ChargedTo("alice"))


def released(kind: str = "STOPPED_BY_RM", message: str = "m", *, with_node: bool = False) -> facts.Released:
    return facts.Released(2 * S, ASK, "root.a", "n1", TerminationType(kind), message, with_node)


RES = {"vcore": 1000}
NODE_ALLOC_ADD = ("NODE", "n1", "ADD", "NODE_ALLOC", "t1", "", RES)
NODE_ALLOC_REMOVE = ("NODE", "n1", "REMOVE", "NODE_ALLOC", "t1", "", RES)


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            facts.NodeAdded(S, "n1", RES, False, {}),
            [
                ("NODE", "n1", "ADD", "DETAILS_NONE", "", "Node added to the scheduler", RES),
            ],
        ),
        (facts.NodeRejected(S, "n1", "why"), []),
        (
            facts.NodeRemoved(S, "n1"),
            [("NODE", "n1", "REMOVE", "NODE_DECOMISSION", "", "Node removed from the scheduler", None)],
        ),
        (facts.NodeSchedulable(S, "n1", True), [("NODE", "n1", "SET", "NODE_SCHEDULABLE", "", "schedulable: true", None)]),
        (
            facts.NodeAttributesChanged(S, "n1", {"zone": "b", "disk": "ssd"}),
            [("NODE", "n1", "SET", "NODE_ATTRIBUTES", "", "disk=ssd, zone=b", None)],
        ),
        (facts.NodeCapacityChanged(S, "n1", RES), [("NODE", "n1", "SET", "NODE_CAPACITY", "", "", RES)]),
        (
            facts.ForeignChanged(S, "n1", "f1", Change.ADD, RES, {"vcore": 9}),
            [
                ("NODE", "n1", "ADD", "NODE_ALLOC", "f1", "", RES),
                ("NODE", "n1", "SET", "NODE_OCCUPIED", "", "", {"vcore": 9}),
            ],
        ),
        (
            facts.ForeignChanged(S, "n1", "f1", Change.SET, RES, {"vcore": 9}),
            [("NODE", "n1", "SET", "NODE_OCCUPIED", "", "", {"vcore": 9})],
        ),
        (
            facts.ForeignChanged(S, "n1", "f1", Change.REMOVE, RES, {}),
            [("NODE", "n1", "REMOVE", "NODE_ALLOC", "f1", "", RES), ("NODE", "n1", "SET", "NODE_OCCUPIED", "", "", {})],
        ),
        (
            facts.ApplicationAdded(S, "app-1", "root.a", "alice"),
            [("APP", "app-1", "ADD", "APP_NEW", "", "", None), ("QUEUE", "root.a", "ADD", "QUEUE_APP", "app-1", "", None)],
        ),
        (
            facts.ApplicationRejected(S, "app-1", "why"),
            [("APP", "app-1", "ADD", "APP_NEW", "", "", None), ("APP", "app-1", "SET", "APP_REJECT", "", "why", None)],
        ),
        (
            facts.ApplicationChanged(S, "app-1", "root.a", ApplicationState.STARTING, ApplicationEvent.RUN),
            [("APP", "app-1", "SET", "APP_STARTING", "", "", None)],
        ),
        (
            facts.ApplicationChanged(S, "app-1", "root.a", ApplicationState.FAILING, ApplicationEvent.FAIL, "PartitionRemoved"),
            [("APP", "app-1", "SET", "APP_FAILING", "", "PartitionRemoved", None)],
        ),
        (
            facts.ApplicationLeft(S, "app-1", "root.a"),
            [
                ("APP", "app-1", "REMOVE", "DETAILS_NONE", "", "", None),
                ("QUEUE", "root.a", "REMOVE", "QUEUE_APP", "app-1", "", None),
            ],
        ),
        (facts.AskAdded(S, ASK, "root.a"), [("APP", "app-1", "ADD", "APP_REQUEST", "t1", "", RES)]),
        (facts.AskRemoved(S, ASK, "root.a", True), [("APP", "app-1", "REMOVE", "REQUEST_CANCEL", "t1", "", RES)]),
        (facts.AskRemoved(S, ASK, "root.a", False), [("APP", "app-1", "REMOVE", "REQUEST_CANCEL", "t1", "", RES)]),
        (facts.AskRemoved(S, ASK, "root.a", True, True), [("APP", "app-1", "REMOVE", "REQUEST_TIMEOUT", "t1", "", RES)]),
        (
            ALLOCATED,
            [
                NODE_ALLOC_ADD,
                ("USERGROUP", "alice", "ADD", "UG_USER_RESOURCE", "root.a", "", RES),
                ("APP", "app-1", "ADD", "APP_ALLOC", "t1", "", RES),
            ],
        ),
        (
            facts.Allocated(S, ASK, "root.a", "n1", charged_to=facts.ChargedTo("alice", "dev")),
            [
                NODE_ALLOC_ADD,
                ("USERGROUP", "alice", "ADD", "UG_USER_RESOURCE", "root.a", "", RES),
                ("USERGROUP", "dev", "ADD", "UG_GROUP_RESOURCE", "root.a", "", RES),
                ("APP", "app-1", "ADD", "APP_ALLOC", "t1", "", RES),
            ],
        ),
        (facts.Allocated(S, ASK, "root.a", "n1"), [("APP", "app-1", "ADD", "APP_ALLOC", "t1", "", RES)]),
        (facts.NodeUseChanged(S, ASK, "root.a", "n1", Change.REMOVE), [NODE_ALLOC_REMOVE]),
        (
            facts.UsageChanged(S, facts.ChargedTo("", "dev"), "root.a", Change.REMOVE, RES),
            [("USERGROUP", "dev", "REMOVE", "UG_GROUP_RESOURCE", "root.a", "", RES)],
        ),
        (
            facts.GroupLinkChanged(S, "app-1", "root.a", "dev", Change.SET),
            [("USERGROUP", "dev", "SET", "UG_APP_LINK", "app-1", "", None)],
        ),
        (
            facts.LimitChanged(S, "root.a", Principal(PrincipalKind.USER, "alice"), Change.SET),
            [("USERGROUP", "alice", "SET", "UG_USER_LIMIT", "root.a", "", None)],
        ),
        (
            facts.LimitChanged(S, "root", Principal(PrincipalKind.GROUP, "dev"), Change.REMOVE),
            [("USERGROUP", "dev", "REMOVE", "UG_GROUP_LIMIT", "root", "", None)],
        ),
        (
            facts.RunnableChanged(S, "app-1", "root.a", Gate.QUEUE, False),
            [("APP", "app-1", "NONE", "APP_CANNOTRUN_QUEUE", "", "", None)],
        ),
        (
            facts.RunnableChanged(S, "app-1", "root.a", Gate.QUOTA, True),
            [("APP", "app-1", "NONE", "APP_RUNNABLE_QUOTA", "", "", None)],
        ),
        (facts.AskCondition(S, ASK, "root.a", "so"), [("REQUEST", "t1", "NONE", "DETAILS_NONE", "app-1", "so", RES)]),
        (
            facts.AskCondition(S, ASK, "root.a", "so", {"vcore": 9}),
            [("REQUEST", "t1", "NONE", "DETAILS_NONE", "app-1", "so", {"vcore": 9})],
        ),
        (facts.AllocationRejected(S, "t1", "app-1", "why"), []),
        (facts.QueueAdded(S, "root.a"), [("QUEUE", "root.a", "ADD", "DETAILS_NONE", "", "", None)]),
        (facts.StaysAboveMax(S, "root.a", RES, "why"), [("QUEUE", "root.a", "SET", "QUEUE_ABOVE_MAX", "", "why", RES)]),
        (facts.QueueRemoved(S, "root.a"), [("QUEUE", "root.a", "REMOVE", "DETAILS_NONE", "", "", None)]),
        (facts.QueueStateChanged(S, "root.a", QueueState.DRAINING), []),
        (
            facts.QuotaPreempted(S, "root.a", {"vcore": 5}, {"vcore": 4, "memory": 9}, 3, 2, RES),
            [
                (
                    "QUEUE",
                    "root.a",
                    "SET",
                    "QUEUE_PREEMPTION",
                    "",
                    (
                        "Quota Preemption results summary: preemptable resources: map[vcore:5], "
                        "claimed resources: map[memory:9 vcore:4], selected victims: 3, preempted victims: 2"
                    ),
                    RES,
                )
            ],
        ),
        (facts.QueueLimitChanged(S, "root", QueueLimit.MAX, RES), [("QUEUE", "root", "SET", "QUEUE_MAX", "", "", RES)]),
        (
            facts.QueueLimitChanged(S, "root.a", QueueLimit.GUARANTEED, None),
            [("QUEUE", "root.a", "SET", "QUEUE_GUARANTEED", "", "", None)],
        ),
        (
            facts.ConfigurationChanged(S, True, ""),
            [("QUEUE", "root", "SET", "QUEUE_CONFIG", "", "configuration accepted", None)],
        ),
        (
            facts.ConfigurationChanged(S, False, "line 3"),
            [("QUEUE", "root", "SET", "QUEUE_CONFIG", "", "configuration rejected: line 3", None)],
        ),
    ],
)
def test_events_of_a_fact(fact, expected):
    """Each fact gives its records, in order (EV-69, EV-71 to EV-74), with names for type, change and detail (EV-1)."""
    assert rows(fact) == expected


@pytest.mark.parametrize(
    ("fact", "detail"),
    [
        (released("STOPPED_BY_RM"), "ALLOC_CANCEL"),
        (released("STOPPED_BY_RM", "Application app-1 Removed"), "ALLOC_CANCEL"),
        (released("STOPPED_BY_RM", "Node n1 Removed"), "ALLOC_CANCEL"),
        (released("STOPPED_BY_RM", with_node=True), "ALLOC_NODEREMOVED"),
        (released("PREEMPTED_BY_SCHEDULER"), "ALLOC_PREEMPT"),
        (released("TIMEOUT", ""), "ALLOC_TIMEOUT"),
        (released("PLACEHOLDER_REPLACED", ""), "ALLOC_REPLACED"),
        (released("UNKNOWN_TERMINATION_TYPE"), "ALLOC_NODEREMOVED"),
    ],
)
def test_events_of_a_release(fact, detail):
    """The detail gives the cause; the message does not matter (EV-70)."""
    assert rows(fact) == [("APP", "app-1", "REMOVE", detail, "t1", "", RES)]


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        (ApplicationState.ACCEPTED, "APP_ACCEPTED"),
        (ApplicationState.STARTING, "APP_STARTING"),
        (ApplicationState.RUNNING, "APP_RUNNING"),
        (ApplicationState.COMPLETING, "APP_COMPLETING"),
        (ApplicationState.COMPLETED, "APP_COMPLETED"),
        (ApplicationState.FAILING, "APP_FAILING"),
        (ApplicationState.FAILED, "APP_FAILED"),
        (ApplicationState.RESUMING, "APP_RESUMING"),
        (ApplicationState.EXPIRED, "APP_EXPIRED"),
    ],
)
def test_every_state_has_its_detail(state, detail):
    """One detail for each state that can be entered (EV-69)."""
    assert rows(facts.ApplicationChanged(S, "app-1", "root.a", state, ApplicationEvent.RUN))[0][3] == detail


def test_records_are_numbered_and_say_where():
    """Records of a fact have consecutive numbers, its time, and the partition and queue that subscribers filter by (EV-1)."""
    records = events(ALLOCATED, "gpu", 41)
    assert [record.sequence for record in records] == [41, 42, 43]
    for record in records:
        assert (record.partition, record.queue_name, record.timestamp_nano) == ("gpu", "root.a", S)


def test_long_messages_are_cut():
    """A message of more than 1024 characters becomes the first 1021 and three dots (EV-68)."""
    for length, expected in ((1024, "x" * 1024), (1500, "x" * 1021 + "...")):
        assert events(facts.ApplicationRejected(S, "app-1", "x" * length), "default", 1)[-1].message == expected
