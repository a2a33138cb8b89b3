"""The view that a limited reader has of each kind of event."""

import pytest
from msgspec import structs
from samplefacts import ASK, S

from ykactor.access.model import ANYBODY, Identity, Names, Role
from ykactor.access.view import IN_PARTITION, IN_QUEUE, STATE_CAUSES, View, view_of
from ykactor.core.config.access import Principal, PrincipalKind
from ykactor.core.messages import conditions, facts
from ykactor.core.messages.acts import Act
from ykactor.core.messages.asks import Failure
from ykactor.core.messages.kinds import Change, Consequence, Gate, PreemptionKind, QueueLimit
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.wire.si import messages as si
from ykactor.wire.si.events import events
from ykactor.wire.si.kinds import EVENT_KINDS


def view(*queues: str, partitions: str = "*") -> View:
    identity = Identity(name="x", roles=frozenset([Role.READER]), partitions=Names.of([partitions]), queues=frozenset(queues))
    found = view_of(identity)
    assert found is not None
    return found


A = view("root.a")
ALL_QUEUES = view("root")
ONE_PARTITION = View(Names.of(["default"]), None)
RES = {"vcore": 1000}


def of(fact: facts.Fact, by: View = A, partition: str = "default") -> list[si.EventRecord]:
    """The records that the view shows of the events of a fact."""
    found = [by.of_event(event) for event in events(fact, partition, 1)]
    return [event for event in found if event is not None]


def is_whole(fact: facts.Fact, by: View = A) -> bool:
    """True if all events of a fact are shown as they are, and as the same objects."""
    records = events(fact, "default", 1)
    return bool(records) and all(by.of_event(record) is record for record in records)


def test_every_kind_of_event_is_listed() -> None:
    """SE-81: what is to be shown of a new kind is decided for it; until then it is hidden."""
    kinds = {(kind, detail) for kind, details in EVENT_KINDS.items() for detail in details}
    assert IN_QUEUE.keys() == IN_PARTITION.keys() == kinds
    new = structs.replace(events(facts.AskAdded(S, ASK, "root.a"), "default", 1)[0], type="AUDIT", event_change_detail="X")
    assert [by.of_event(new) for by in (A, ALL_QUEUES, ONE_PARTITION)] == [None] * 3


def test_who_is_limited() -> None:
    """SE-80: who is limited to queues or partitions; equal limits are equal views."""
    assert view_of(ANYBODY) is None
    assert view_of(structs.replace(ANYBODY, partitions=Names.of(["gpu"]))) == View(Names.of(["gpu"]), None)
    assert view("root.a") == A
    assert hash(view("root.a")) == hash(A)
    assert view("root.a", partitions="gpu") != A


@pytest.mark.parametrize(
    ("queue", "shown"),
    [("root.a", True), ("root.a.b.c", True), ("root", False), ("root.ab", False), ("root.b", False), ("", False)],
)
def test_queues_in_view(queue: str, shown: bool) -> None:
    """SE-80: the queues of the view and what is below; nothing above, beside, or in no queue."""
    assert A.shows_queue(queue) is shown
    assert is_whole(facts.AskAdded(S, ASK, queue)) is shown
    assert bool(of(facts.AskAdded(S, ASK, queue))) is shown


def test_partition_and_queue() -> None:
    """SE-80: both have to be in view; partitions are compared without case."""
    gpu = view("root.a", partitions="gpu")
    fact = facts.AskAdded(S, ASK, "root.a")
    assert [len(of(fact, gpu, name)) for name in ("gpu", "GPU", "default", "")] == [1, 1, 0, 0]
    assert not of(facts.AskAdded(S, ASK, "root.b"), gpu, "gpu")


def test_a_view_remembers_a_bounded_number_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues come and go for ever; what is shown stays the same."""
    monkeypatch.setattr("ykactor.access.view._PLACES_MAX", 3)
    small = view("root.a")
    paths = [f"root.{parent}.{number}" for number in range(10) for parent in "ab"]
    assert [bool(of(facts.AskAdded(S, ASK, path), small)) for path in paths] == [True, False] * 10
    assert len(small._rules) <= 3


OWN = [
    facts.ApplicationAdded(S, "app-1", "root.a", "alice"),
    facts.ApplicationLeft(S, "app-1", "root.a"),
    *(
        facts.ApplicationChanged(S, "app-1", "root.a", ApplicationState.FAILING, ApplicationEvent.FAIL, why)
        for why in ("", *STATE_CAUSES)
    ),
    facts.RunnableChanged(S, "app-1", "root.a", Gate.QUOTA, False),
    facts.Allocated(S, ASK, "root.a", "n1", charged_to=facts.ChargedTo("alice", "dev")),
    facts.NodeUseChanged(S, ASK, "root.a", "n1", Change.REMOVE),
    facts.Reserved(S, ASK, "root.a", "n1"),
    facts.UsageChanged(S, facts.ChargedTo("alice", "dev"), "root.a", Change.REMOVE, RES),
    facts.GroupLinkChanged(S, "app-1", "root.a", "dev", Change.SET),
    facts.LimitChanged(S, "root.a", Principal(PrincipalKind.USER, "alice"), Change.SET),
    facts.QueueAdded(S, "root.a"),
    facts.QueueLimitChanged(S, "root.a", QueueLimit.MAX, RES),
    facts.QueueTypeChanged(S, "root.a", True),
    facts.QuotaPreempted(S, "root.a", RES, RES, 2, 1, RES),
    facts.ApplicationMoved(S, "app-1", "root.a.x", "root.a.y"),
    facts.AskCondition(S, ASK, "root.a", conditions.of_request("t1", conditions.WITHIN_LIMIT)),
    facts.AskCondition(S, ASK, "root.a", conditions.of_request("t1", conditions.within_quota("root.a"))),
]


@pytest.mark.parametrize("fact", OWN, ids=lambda fact: type(fact).__name__)
def test_own_events_are_shown_as_they_are(fact: facts.Fact) -> None:
    """SE-81: of the queues in view nothing is missing that names only what is in view."""
    assert is_whole(fact)
    assert is_whole(fact, ALL_QUEUES)
    assert is_whole(fact, ONE_PARTITION)
    assert not of(fact, view("root.other"))


OF_NO_QUEUE = [
    facts.NodeAdded(S, "n1", RES, True, {}),
    facts.NodeRemoved(S, "n1"),
    facts.NodeSchedulable(S, "n1", False),
    facts.NodeCapacityChanged(S, "n1", RES),
    facts.ForeignChanged(S, "n1", "f1", Change.ADD, RES, RES),
    facts.ApplicationRejected(S, "app-1", "application app-1 is already in queue root.secret"),
    facts.ConfigurationChanged(S, True, "", ("queue root.a: max changed",)),
]


@pytest.mark.parametrize("fact", OF_NO_QUEUE, ids=lambda fact: type(fact).__name__)
def test_what_is_in_no_queue_is_hidden(fact: facts.Fact) -> None:
    """SE-80, SE-81: also from who sees all queues."""
    assert not of(fact)
    assert not of(fact, ALL_QUEUES)
    assert of(fact, ONE_PARTITION)
    assert not of(fact, ONE_PARTITION, "gpu")


@pytest.mark.parametrize("act", Act)
def test_the_audit_is_hidden(act: Act) -> None:
    """SE-75: it tells of other identities, whatever it is about."""
    fact = facts.Audited(S, "ops", "10.0.0.7:5000", "operator", act, "app-1")
    for by in A, ALL_QUEUES, ONE_PARTITION:
        assert not of(fact, by)


@pytest.mark.parametrize("by", [A, ALL_QUEUES, ONE_PARTITION])
def test_failures_of_a_partition_are_told_without_the_exception(by: View) -> None:
    """SE-81: who follows has to know that something is wrong."""
    for consequence in Consequence:
        (event,) = of(facts.PartitionFailed(S, consequence, "KeyError: root.secret"), by)
        assert (event.event_change_detail, event.message) == (f"PARTITION_{consequence}", "")
    assert not of(facts.PartitionFailed(S, consequence, "KeyError"), view("root.a", partitions="gpu"))


def test_a_configuration_may_be_about_other_partitions() -> None:
    """SE-81: who sees a whole partition learns that its configuration changed, not what the text says."""
    (event,) = of(facts.ConfigurationChanged(S, False, "partition gpu: no such rule"), ONE_PARTITION)
    assert (event.event_change_detail, event.message) == ("QUEUE_CONFIG", "")


def test_a_move_over_the_border() -> None:
    """SE-82: it is told without the queue at the other side."""
    out = facts.ApplicationMoved(S, "app-1", "root.a.x", "root.secret")
    into = facts.ApplicationMoved(S, "app-1", "root.secret", "root.a.x")
    assert [(event.event_change_type, event.message) for event in of(out) + of(into)] == [
        ("REMOVE", "moved out of view"),
        ("ADD", "moved into view"),
    ]
    assert is_whole(out, ALL_QUEUES)


def test_only_known_causes_are_shown() -> None:
    """SE-82: a cause that is added later may name anything."""
    (event,) = of(facts.ApplicationChanged(S, "app-1", "root.a", ApplicationState.FAILING, ApplicationEvent.FAIL, "root.secret"))
    assert (event.event_change_detail, event.message) == ("APP_FAILING", "")


@pytest.mark.parametrize("is_held", [True, False])
def test_a_hold_says_what_happened(is_held: bool) -> None:
    """SE-82: held, or no longer; the name of the operator is in the audit."""
    for fact in (
        facts.ApplicationHeld(S, "app-1", "root.a", "secret", is_held),
        facts.QueueHeld(S, "root.a", "secret", is_held),
    ):
        (event,) = of(fact)
        assert event.message == ("held by an operator" if is_held else "hold ended by an operator")
        assert is_whole(fact, ONE_PARTITION)


BEGINNINGS = [
    (
        conditions.of_request("t1", conditions.over_quota("root.a", RES, {"vcore": 7})),
        "Request 't1' does not fit in queue 'root.a'",
    ),
    (conditions.of_request("t1", conditions.over_limit(RES, {"vcore": 7})), "Request 't1' exceeds the available user quota"),
    (conditions.unschedulable("t1", {"secret": 3}), "Unschedulable request 't1'"),
    (conditions.handed_back("t1", Failure("secret", 1, S)), "Request 't1' could not start"),
    (conditions.no_victim_on("t1", "n1"), "Unschedulable request 't1'"),
    ("Preempted by secret from application secret in root.secret", "Preempted"),
    ("Preempted by Quota change enforcement process in root.secret", "Preempted by Quota change enforcement process"),
    ("Task group 'x' in application 'app-1': allocation resources", ""),
    ("Request 't2' exceeds the available user quota", ""),
    ("something new about root.secret", ""),
]


@pytest.mark.parametrize(("text", "shown"), BEGINNINGS)
def test_texts_about_asks(text: str, shown: str) -> None:
    """SE-82: what happened, as far as it can be said with the names of the ask and its queue."""
    (event,) = of(facts.AskCondition(S, ASK, "root.a", text))
    assert (event.message, event.object_id, event.resource) == (shown, "t1", RES)


def test_a_preemption_shows_the_own_side_only() -> None:
    """SE-83: the kind, the node and the victims in view; no sum, no share, no text and no other node."""
    victims = (("root.a.x", "app-2", "t2"), ("root.secret", "secret", "secret"))
    shares = {"root.secret": 1.5, "root.a": 0.5}
    rejected = (("n9", "root.secret"),)
    fact = facts.Preempted(S, ASK, "root.a", "n1", "queue root is below", victims, shares, shares, rejected, {"vcore": 9})
    (event,) = of(fact)
    assert event.message == "Request 't1' preempts"
    own = si.PreemptionVictim(queue_name="root.a.x", application_id="app-2", allocation_key="t2")
    assert event.preemption == si.Preemption(node_id="n1", kind=PreemptionKind.GENERIC, why="", victims=[own])
    (refused,) = of(facts.PreemptionRefused(S, ASK, "root.a", "it would take from root.secret"))
    assert refused.message == "Request 't1' may not preempt"
