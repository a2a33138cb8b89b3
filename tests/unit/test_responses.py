"""Facts to messages for the resource manager."""

import random

import pytest
from msgspec import structs
from samplefacts import ALLOCATED, ASK, ONLY_EVENTS, S, released
from seeds import seeds

from ykactor.core.messages import facts
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import RejectionCode as Code
from ykactor.core.messages.kinds import SchedulingState, WaitingCause
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.wire.si import messages as si
from ykactor.wire.si.responses import responses


@pytest.mark.parametrize("fact", ONLY_EVENTS, ids=lambda fact: type(fact).__name__)
def test_facts_that_are_not_sent(fact):
    """Other node actions, foreign allocations, asks and queues are no messages to the resource manager (SC-81)."""
    assert responses([fact], "default") == []


def test_reservations_are_not_sent():
    """SC-13, SC-54: the resource manager is notified of a placement, not of the reservation before it."""
    found = responses([facts.Reserved(S, ASK, "root.a", "n1"), ALLOCATED, facts.Unreserved(S, ASK, "root.a", "n1")], "default")
    assert [len(message.new) for message in found] == [1]


def test_new_holds_the_full_allocation():
    """AP-130: ``new`` repeats the ask, with both fields of the policy, its node and partition."""
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


def test_new_repeats_originator_task_group_and_placeholder():
    """AP-98, AP-130: ``new`` repeats whether the task is the originator or a placeholder, and its task group."""
    ask = Ask("t1", "app-1", {"vcore": 1}, task_group_name="g", placeholder=True, originator=True, arrival=1)
    (message,) = responses([facts.Allocated(S, ask, "root.a", "n1")], "default")
    (new,) = message.new
    assert (new.task_group_name, new.placeholder, new.originator) == ("g", True, True)


def test_updated_entries():
    """AP-95, AP-21, AP-22: every entered state except New is sent with its time and message; Rejected is sent as ``rejected``."""
    message = responses(
        [
            facts.ApplicationAdded(S, "app-1", "root.a", "alice"),
            facts.ApplicationRejected(S, "app-2", "why", Code.ACL),
            facts.ApplicationChanged(S + 7, "app-1", "root.a", ApplicationState.ACCEPTED, ApplicationEvent.RUN),
        ],
        "default",
    )
    assert message == [
        si.ApplicationResponse(
            accepted=[si.AcceptedApplication(application_id="app-1", queue_name="root.a")],
            rejected=[si.RejectedApplication(application_id="app-2", reason="why", code="ACL")],
            updated=[
                si.UpdatedApplication(
                    application_id="app-1", state="Accepted", state_transition_timestamp=S + 7, message="runApplication"
                )
            ],
        )
    ]


def test_moves_are_sent_in_their_order():
    """AP-134, AP-96: the new leaf of an application comes before the states and allocations that follow from it."""
    added = facts.ApplicationAdded(S, "app-1", "root.a", "alice")
    moves = [facts.ApplicationMoved(S, "app-1", "root.a", "root.b"), facts.ApplicationMoved(S, "app-1", "root.b", "root.c")]
    starting = facts.ApplicationChanged(S, "app-1", "root.b", ApplicationState.STARTING, ApplicationEvent.RUN)
    told = responses([added, moves[0], starting, ALLOCATED, moves[1]], "default")
    assert [type(message) for message in told] == [si.ApplicationResponse, si.AllocationResponse, si.ApplicationResponse]
    assert [[(entry.application_id, entry.queue_name) for entry in told[n].moved] for n in (0, 2)] == [
        [("app-1", "root.b")],
        [("app-1", "root.c")],
    ]
    assert (len(told[0].accepted), len(told[0].updated)) == (1, 1)


def test_holds_are_sent_in_their_order():
    """AP-134, OP-9: each hold of an application, and its end, also if an allocation comes between."""
    holds = [facts.ApplicationHeld(S, "app-1", "root.a", "carol", is_held) for is_held in (True, False, True)]
    told = responses([holds[0], ALLOCATED, *holds[1:]], "default")
    assert [(entry.application_id, entry.held) for n in (0, 2) for entry in told[n].held] == [
        ("app-1", True),
        ("app-1", False),
        ("app-1", True),
    ]
    assert len(told) == 3


def test_released_entries():
    """AP-131: a release is sent with its type and message; one without a message confirms, and is not sent."""
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
    reported = [
        facts.NodeAdded(S, "n1", {}, True, {}),
        facts.NodeRejected(S, "n2", "why", Code.DUPLICATE),
        facts.AllocationRejected(S, "t1", "app-1", "why", Code.NO_NODE),
        facts.AllocationRejected(S, "t2", "app-1", "why", Code.NO_NODE),
    ]
    keys = ("t1", "t2")
    rejected = [si.RejectedAllocation(allocation_key=key, application_id="app-1", reason="why", code="NO_NODE") for key in keys]
    assert responses(reported, "default") == [
        si.NodeResponse(
            accepted=[si.AcceptedNode(node_id="n1")],
            rejected=[si.RejectedNode(node_id="n2", reason="why", code="DUPLICATE")],
        ),
        si.AllocationResponse(rejected_allocations=rejected),
    ]


def test_reading_lists_in_order_gives_the_facts_in_order():
    """AP-96: a state comes before the allocation that follows it; a release comes before the use of its room."""
    starting, running = changed("app-1", ApplicationState.STARTING), changed("app-1", ApplicationState.RUNNING)
    reported = [starting, ALLOCATED, running, ALLOCATED, ALLOCATED, released(), released(key="t2"), ALLOCATED]
    lists = [
        name
        for message in responses(reported, "default")
        for name in message.__struct_fields__
        if name != "sequence"
        for _ in getattr(message, name)
    ]
    assert lists == ["updated", "new", "updated", "new", "new", "released", "released", "new"]
    assert len(responses(reported, "default")) == 5


def test_applications_share_messages():
    """AP-96: what happens to each application is in its order, and so are all allocations and releases; states stand together."""
    told = []
    for name in ("app-1", "app-2", "app-3"):
        told += [changed(name, ApplicationState.STARTING), allocated(name)]
    states, allocations = responses([*told, allocated("app-1")], "default")
    assert [entry.application_id for entry in states.updated] == ["app-1", "app-2", "app-3"]
    assert [entry.application_id for entry in allocations.new] == ["app-1", "app-2", "app-3", "app-1"]

    told = [allocated("app-1"), changed("app-1", ApplicationState.RUNNING), changed("app-2", ApplicationState.STARTING)]
    assert [type(message) for message in responses(told, "default")] == [si.AllocationResponse, si.ApplicationResponse]
    told = [changed("app-1", ApplicationState.COMPLETING), released(), allocated("app-2"), facts.NodeAdded(S, "n1", {}, True, {})]
    kinds = [si.ApplicationResponse, si.AllocationResponse, si.AllocationResponse, si.NodeResponse]
    assert [type(message) for message in responses(told, "default")] == kinds


@pytest.mark.parametrize("seed", seeds(200))
def test_the_order_of_each_application_is_kept(seed):
    """AP-96, whatever happens in one step: read in order, with their lists in order, the messages tell the history of each."""
    rng = random.Random(seed)
    names = ("app-1", "app-2", "app-3")
    draws = (
        lambda name: changed(name, rng.choice((ApplicationState.STARTING, ApplicationState.RUNNING))),
        allocated,
        lambda name: facts.AllocationRejected(S, "t1", name, "why"),
        lambda name: facts.ApplicationRejected(S, name, "why"),
        lambda name: facts.ApplicationHeld(S, name, "root.a", "carol", is_held=True),
        lambda _: facts.NodeAdded(S, "n1", {}, True, {}),
    )
    told = [rng.choice(draws)(rng.choice(names)) for _ in range(rng.randint(0, 12))]
    read = [
        (getattr(entry, "application_id", ""), name)
        for message in responses(told, "default")
        for name in message.__struct_fields__
        if name != "sequence"
        for entry in getattr(message, name)
    ]
    alone = [_entry_of(fact) for fact in told]
    assert sorted(read) == sorted(alone)
    for name in ("", *names):
        assert [pair for pair in read if pair[0] == name] == [pair for pair in alone if pair[0] == name]
    of_allocations = ("new", "released", "rejected_allocations")
    assert [pair for pair in read if pair[1] in of_allocations] == [pair for pair in alone if pair[1] in of_allocations]


def _entry_of(fact):
    """The application and the list of the only entry that is sent for a fact."""
    (message,) = responses([fact], "default")
    ((name, entry),) = [
        (name, entry) for name in message.__struct_fields__ if name != "sequence" for entry in getattr(message, name)
    ]
    return getattr(entry, "application_id", ""), name


def changed(name: str, state: ApplicationState) -> facts.ApplicationChanged:
    return facts.ApplicationChanged(S, name, "root.a", state, ApplicationEvent.RUN)


def allocated(name: str) -> facts.Allocated:
    ask = structs.replace(ASK, application_id=name)
    return structs.replace(ALLOCATED, ask=ask)


def test_predicate_checks_are_a_message_of_their_own():
    """Checks come in the order of the facts, one for each node, with one ask of the predicate class as an example."""
    asked = facts.PredicatesAsked(S, "gpu", ASK, ("n1", "n2"), True)
    before, checks, after = responses([ALLOCATED, asked, ALLOCATED], "default")
    assert isinstance(before, si.AllocationResponse)
    assert isinstance(after, si.AllocationResponse)
    assert checks == si.PredicatesRequest(
        partition_name="default",
        checks=[
            si.PredicateCheck(predicate="gpu", node_id=name, allocate=True, allocation_key="t1", application_id="app-1")
            for name in ("n1", "n2")
        ],
    )


def waiting(*keys: str, name: str = "app-1") -> facts.SchedulingStateChanged:
    state, cause = SchedulingState.SKIPPED, WaitingCause.QUEUE
    return facts.SchedulingStateChanged(S, name, keys, state, cause, "root.a", {"vcore": 2}, {"vcore": 1}, {}, "why")


def test_an_entry_for_each_ask_that_waits():
    """AP-146, AP-147: what is told of several asks of an application is told of each."""
    (message,) = responses([waiting("t1", "t2")], "gpu")
    assert message.partition_name == "gpu"
    assert message.entries == [
        si.SchedulingStateEntry(
            allocation_key=key,
            application_id="app-1",
            state="SKIPPED",
            cause="queue",
            queue_name="root.a",
            requested={"vcore": 2},
            available={"vcore": 1},
            reason="why",
        )
        for key in ("t1", "t2")
    ]


def test_waiting_asks_share_messages_and_keep_the_order():
    """AP-148: neighbours are in one message of up to 500 entries, and what was decided between them comes between them."""
    many = [waiting(*(f"t{number}-{key}" for key in range(100)), name=f"app-{number}") for number in range(7)]
    found = responses([ALLOCATED, *many, ALLOCATED, waiting("t9"), ALLOCATED], "default")
    assert [type(message) for message in found] == [
        si.AllocationResponse,
        si.SchedulingStateResponse,
        si.SchedulingStateResponse,
        si.AllocationResponse,
        si.SchedulingStateResponse,
        si.AllocationResponse,
    ]
    assert [len(message.entries) for message in found if isinstance(message, si.SchedulingStateResponse)] == [500, 200, 1]
