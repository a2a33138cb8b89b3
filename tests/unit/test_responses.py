"""Facts to decision lines and responses."""

import json

import pytest

from ykactor.core.messages import facts as fact
from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.wire.si import messages as si
from ykactor.wire.si.responses import decision_lines, decision_log, responses

S = 10**9
SPEC = AllocationSpec("t1", "app-1", {"vcore": 1000}, priority=3, tags={"k": "v"}, allow_preempt_other=True)
ASK = Ask(SPEC, created_ns=0, arrival=1)
ALLOCATED = fact.Allocated(S, ASK, "root.a", "n1")


def released(kind: str = "STOPPED_BY_RM", message: str = "m", node_id: str = "n1", key: str = "t1") -> fact.Released:
    ask = Ask(AllocationSpec(key, "app-1", {"vcore": 1000}), 0, 1)
    return fact.Released(2 * S, ask, "root.a", node_id, kind, message)


# ---- the decision log


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        (
            fact.NodeAdded(S, "n1", {}, True, {}),
            '{"at":1.0,"decision":"node","nodeID":"n1","state":"accepted","reason":""}',
        ),
        (fact.NodeRejected(S, "n1", "why"), '{"at":1.0,"decision":"node","nodeID":"n1","state":"rejected","reason":"why"}'),
        (
            fact.ApplicationAdded(S, "app-1", "root.a", "alice"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"New","reason":""}',
        ),
        (
            fact.ApplicationRejected(S, "app-1", "why"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"Rejected","reason":"why"}',
        ),
        (
            fact.ApplicationChanged(S, "app-1", "root.a", "Running", "runApplication"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"Running","reason":""}',
        ),
        (
            fact.ApplicationChanged(S, "app-1", "root.a", "Failing", "ExecutionTimeout"),
            '{"at":1.0,"decision":"application","applicationID":"app-1","state":"Failing","reason":"ExecutionTimeout"}',
        ),
        (
            ALLOCATED,
            '{"at":1.0,"decision":"allocated","allocationKey":"t1","applicationID":"app-1","queueName":"root.a","nodeID":"n1"}',
        ),
        (
            released("PREEMPTED_BY_SCHEDULER"),
            (
                '{"at":2.0,"decision":"released","allocationKey":"t1","applicationID":"app-1","queueName":"root.a","nodeID":"n1",'
                '"terminationType":"PREEMPTED_BY_SCHEDULER"}'
            ),
        ),
        (
            released("TIMEOUT", node_id=""),
            (
                '{"at":2.0,"decision":"released","allocationKey":"t1","applicationID":"app-1","queueName":"root.a",'
                '"terminationType":"TIMEOUT"}'
            ),
        ),
        (
            fact.AllocationRejected(1_500_000_000, "t9", "app-1", "why"),
            '{"at":1.5,"decision":"rejected","allocationKey":"t9","applicationID":"app-1","reason":"why"}',
        ),
        (
            fact.ConfigurationChanged(S, "rejected", "why"),
            '{"at":1.0,"decision":"configuration","state":"rejected","reason":"why"}',
        ),
    ],
)
def test_decision_lines(decision, line):
    """The table of decisions in the protocol: which fact gives which line, keys in the order of the examples."""
    assert decision_log([decision]).decode() == line + "\n"


@pytest.mark.parametrize(
    "decision",
    [
        fact.NodeRemoved(S, "n1"),
        fact.NodeSchedulable(S, "n1", False),
        fact.NodeCapacityChanged(S, "n1", {}),
        fact.ForeignChanged(S, "n1", "f1", "ADD", {}, {}),
        fact.ApplicationLeft(S, "app-1", "root.a"),
        fact.AskAdded(S, ASK, "root.a"),
        fact.AskRemoved(S, ASK, "root.a", True),
        fact.QueueAdded(S, "root.a"),
        fact.QueueRemoved(S, "root.a"),
        fact.QueueStateChanged(S, "root.a", "Draining"),
        fact.QueueLimitChanged(S, "root.a", "max", None),
    ],
    ids=lambda decision: type(decision).__name__,
)
def test_facts_without_a_line_or_an_answer(decision):
    """Other node actions, foreign allocations, cancelled asks and queues are no decisions and no messages."""
    assert decision_lines(decision) == []
    assert responses([decision], "default") == []


def test_the_log_is_one_line_each_in_order():
    """The log is JSON Lines in the order of the facts."""
    log = decision_log([ALLOCATED, fact.NodeRemoved(S, "n1"), released()])
    assert [json.loads(line)["decision"] for line in log.splitlines()] == ["allocated", "released"]


# ---- messages to the resource manager


def test_new_holds_the_full_allocation():
    """Section 5.3 of AP: ``new`` repeats the ask, with both fields of the policy, its node and partition."""
    (message,) = responses([ALLOCATED], "default")
    assert message == si.AllocationResponse(
        new=[
            si.Allocation(
                allocation_key="t1",
                application_id="app-1",
                partition_name="default",
                node_id="n1",
                resource_per_alloc={"vcore": 1000},
                priority=3,
                allocation_tags={"k": "v"},
                preemption_policy=si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=True),
            )
        ]
    )


def test_new_says_what_the_task_is_in_its_application():
    """AP-98 and section 5.3 of AP: the mark of the task that owns the application, its group, and whether it only holds space."""
    spec = AllocationSpec("t1", "app-1", {"vcore": 1}, task_group_name="g", placeholder=True, originator=True)
    (message,) = responses([fact.Allocated(S, Ask(spec, 0, 1), "root.a", "n1")], "default")
    (new,) = message.new
    assert (new.task_group_name, new.placeholder, new.originator) == ("g", True, True)


def test_updated_entries():
    """AP-95, AP-22: every entered state is told with its time and message, Rejected only by its ``rejected`` entry."""
    message = responses(
        [
            fact.ApplicationAdded(S, "app-1", "root.a", "alice"),
            fact.ApplicationRejected(S, "app-2", "why"),
            fact.ApplicationChanged(S, "app-2", "root.a", "Rejected", "rejectApplication"),
            fact.ApplicationChanged(S + 7, "app-1", "root.a", "Accepted", "runApplication"),
        ],
        "default",
    )
    assert message == [
        si.ApplicationResponse(
            accepted=[si.AcceptedApplication(application_id="app-1", queue_name="root.a")],
            rejected=[si.RejectedApplication(application_id="app-2", reason="why")],
            updated=[
                si.UpdatedApplication(
                    application_id="app-1", state="Accepted", state_transition_timestamp=S + 7, message="runApplication"
                )
            ],
        )
    ]


def test_released_entries():
    """Section 6 of AP: a release is told with its type and message; one without a message is the confirmation and is not."""
    echo = "allocation remove as per RM request"
    assert responses([released(message=echo), released("TIMEOUT", "")], "gpu") == [
        si.AllocationResponse(
            released=[
                si.AllocationRelease(
                    application_id="app-1",
                    allocation_key="t1",
                    partition_name="gpu",
                    termination_type="STOPPED_BY_RM",
                    message=echo,
                )
            ]
        )
    ]


def test_nodes_and_rejections():
    """SC-100, AP-115: accepted and rejected nodes share a message, so do all rejected allocations."""
    facts = [
        fact.NodeAdded(S, "n1", {}, True, {}),
        fact.NodeRejected(S, "n2", "why"),
        fact.AllocationRejected(S, "t1", "app-1", "why"),
        fact.AllocationRejected(S, "t2", "app-1", "why"),
    ]
    rejected = [si.RejectedAllocation(allocation_key=key, application_id="app-1", reason="why") for key in ("t1", "t2")]
    assert responses(facts, "default") == [
        si.NodeResponse(accepted=[si.AcceptedNode(node_id="n1")], rejected=[si.RejectedNode(node_id="n2", reason="why")]),
        si.AllocationResponse(rejected_allocations=rejected),
    ]


def test_reading_lists_in_order_gives_the_facts_in_order():
    """AP-96: states precede the allocation that follows from them; a freed room is told before who gets it."""

    def changed(state: str) -> fact.ApplicationChanged:
        return fact.ApplicationChanged(S, "app-1", "root.a", state, "runApplication")

    facts = [changed("Starting"), ALLOCATED, changed("Running"), ALLOCATED, ALLOCATED, released(), released(key="t2"), ALLOCATED]
    told = [
        name
        for message in responses(facts, "default")
        for name in message.__struct_fields__
        if name != "sequence"
        for _ in getattr(message, name)
    ]
    assert told == ["updated", "new", "updated", "new", "new", "released", "released", "new"]
    assert len(responses(facts, "default")) == 5


def test_a_question_about_nodes_is_a_message_of_its_own():
    """In the order of the facts, with a check for each node and an example of the asks."""
    asked = fact.PredicatesAsked(S, "gpu", ASK, ("n1", "n2"), True)
    before, question, after = responses([ALLOCATED, asked, ALLOCATED], "default")
    assert isinstance(before, si.AllocationResponse)
    assert isinstance(after, si.AllocationResponse)
    assert question == si.PredicatesRequest(
        partition_name="default",
        checks=[
            si.PredicateCheck(predicate="gpu", node_id=name, allocate=True, allocation_key="t1", application_id="app-1")
            for name in ("n1", "n2")
        ],
    )
