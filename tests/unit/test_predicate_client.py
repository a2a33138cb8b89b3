"""Asks whose nodes the resource manager decides about: asked, waited for, answered, refused, forgotten."""

import pytest
from world import S_NS, answer, answering, app, ask, configure, forget, make_world, node, queue, release, tree

from ykactor.core.messages.asks import PREDICATE_CLASS_MAX
from ykactor.core.messages.conditions import NO_PREDICATE_SERVICE
from ykactor.core.messages.facts import Allocated, PredicatesAsked, Preempted
from ykactor.core.nodes.predicate_client import PredicateClient
from ykactor.core.nodes.predicates import NO_ANSWER
from ykactor.core.waiting.reasons import PREDICATE_UNKNOWN

TEXT = tree(queue("a"), queue("b"))
TWO_NODES = [node("n1", vcore=4000), node("n2", vcore=4000)]


@pytest.fixture
def world():
    made = make_world(TEXT, TWO_NODES)
    made.given(app("app-1"), app("app-2", "root.b"))
    return made


def gpu(key, application_id="app-1", **more):
    return ask(key, application_id, predicate="gpu", **{"vcore": 1000} | more)


def test_an_ask_waits_for_the_answer_and_others_do_not(world):
    """The nodes that have room are asked about, in order; asks without a class go on meanwhile (SC-30, SC-120, SC-154)."""
    world.send(gpu("t1"), ask("free", "app-2", vcore=1000))
    world.expect("app-1 Accepted", "app-2 Accepted", "gpu on n1 n2?", "app-2 Starting", "free on n1")
    assert world.why("t1") == PREDICATE_UNKNOWN
    world.send(*answer("gpu", "n1", "n2"))
    world.expect("app-1 Starting", "t1 on n2")


def test_an_ask_preempts_when_its_queue_is_filled_while_it_waits():
    """The ask no longer waits for the answer about n1, but for room in its queue, and may preempt on n2 (SC-154, PE-14)."""
    leaves = queue("a", guaranteed={"vcore": 4}, p={"preemption.delay": "2s"}), queue("b")
    world = make_world(tree(queue("p", *leaves, max={"vcore": 6})), [answering(True), node("n1", vcore=10), node("n2", vcore=4)])
    world.given(*answer("gpu", "n2"), app("app-1", "root.p.a"), app("app-2", "root.p.b"))
    world.given(*(ask(f"t{number}", "app-2", vcore=1, on="n2") for number in range(4)))
    world.given(gpu("w", vcore=1, preempt_other=True), at=1)
    assert world.why("w") == PREDICATE_UNKNOWN
    world.given(ask("t4", "app-2", vcore=1), ask("t5", "app-2", vcore=1), at=2)
    world.run(4)
    assert [(fact.at_ns // S_NS, fact.node_id) for fact in world.facts if isinstance(fact, Preempted)] == [(3, "n2")]


def test_where_it_could_preempt_is_asked():
    """SC-160, PE-45: nobody preempts on a full node of which nothing is known, or not any more, before the answer."""
    leaves = queue("a", guaranteed={"vcore": 4}, p={"preemption.delay": "1s"}), queue("b")
    world = make_world(tree(*leaves), [answering(True), node("n1", vcore=4), app("app-1"), app("app-2", "root.b")])
    world.given(*(ask(f"t{number}", "app-2", vcore=1, on="n1") for number in range(4)))
    world.given(gpu("w1", vcore=1, preempt_other=True), gpu("w2", vcore=1, preempt_other=True))
    for asked in ("w1", "w2"):
        world.run(world.now_ns // S_NS + 30)
        assert [fact.ask.allocation_key for fact in world.facts if isinstance(fact, PredicatesAsked)][-1] == asked
        world.given(*answer("gpu", "n1", uses=1))
    world.run(world.now_ns // S_NS + 30)
    assert [fact.ask.allocation_key for fact in world.facts if isinstance(fact, Preempted)] == ["w1", "w2"]
    assert world.node("n1")["allocations"] == ["t0", "t1", "w1", "w2"]


def test_asks_of_one_class_share_answers(world):
    """The known answers of a class need no asking, whatever the size, the application or the queue of the ask (SC-156)."""
    world.given(gpu("t1"), *answer("gpu", "n1", no="no gpu"))
    world.given(*answer("gpu", "n2"))
    world.send(gpu("t2", vcore=500), gpu("t3", "app-2"))
    assert world.placed() == ["t3", "t2"]
    assert world.node("n1")["allocated"] == {}


def test_the_answer_decides_and_not_how_long_it_took(world):
    """A node that comes earlier is waited for although a later one is known to pass (SC-43, SC-154)."""
    world.given(gpu("t1"))
    world.send(*answer("gpu", "n2"))
    world.expect()
    world.send(*answer("gpu", "n1"))
    world.expect("app-1 Starting", "t1 on n1")


def test_a_node_without_room_is_not_asked_about(world):
    """The hook comes after all other checks (SC-120)."""
    world.given(ask("full", "app-2", on="n1", vcore=4000))
    world.send(gpu("t1"))
    world.expect("app-1 Accepted", "gpu on n2?")


def test_sixteen_nodes_at_a_time():
    """A question is about 16 nodes at most, in order; the next are asked about when none of them will do (SC-154)."""
    names = [f"n{number:02}" for number in range(20)]
    world = make_world(TEXT, [node(name, vcore=1000) for name in names])
    world.given(app("app-1"))
    world.send(gpu("t1"))
    world.expect("app-1 Accepted", f"gpu on {' '.join(names[:16])}?")
    world.send(*answer("gpu", *names[:15], no="no gpu"))
    world.expect()
    world.send(*answer("gpu", names[15], no="no gpu"))
    world.expect(f"gpu on {' '.join(names[16:])}?")


def test_answers_may_come_before_anybody_asks(world):
    """Unasked answers of the resource manager hold as well (SC-156)."""
    world.given(*answer("gpu", "n1", no="no gpu"), *answer("gpu", "n2"))
    world.send(gpu("t1"))
    world.expect("app-1 Accepted", "app-1 Starting", "t1 on n2")


def test_an_answer_about_an_unknown_node_is_ignored(world):
    """The node may have left meanwhile; the answer must not be believed when it comes back."""
    world.send(*answer("gpu", "n9"), node("n9", vcore=9000))
    world.given(gpu("t1", vcore=9000))
    assert world.why("t1") == PREDICATE_UNKNOWN


def test_refused_everywhere(world):
    """The reason is shown, and reported with counts, at most every 15 s for one of equal asks (EV-16, SC-45, SC-121)."""
    world.given(gpu("t1"), gpu("t2"))
    world.send(*answer("gpu", "n1", "n2", no="no gpu"))
    assert world.why("t1") == world.why("t2") == "no node that has room for it may run it: no gpu (2x)"
    assert world.remarks() == ["Unschedulable request 't1': no gpu (2x); "]
    world.send(node("n3", vcore=100), at=14)
    assert len(world.remarks()) == 1
    world.send(node("n4", vcore=100), at=15)
    assert len(world.remarks()) == 2


def test_nodes_are_looked_at_only_for_a_report_that_is_due(world, monkeypatch):
    """While an ask was reported lately, another try of it does not look for the nodes that refuse it (SC-45)."""
    world.given(gpu("t1"), *answer("gpu", "n1", "n2", no="no gpu"))
    looked_at, refusals = [], PredicateClient._refusals
    monkeypatch.setattr(PredicateClient, "_refusals", lambda *asked: looked_at.append(asked) or refusals(*asked))
    world.send(node("n3", vcore=100), at=14)
    assert looked_at == []
    world.send(node("n4", vcore=100), at=15)
    assert len(looked_at) == 1


def test_a_changed_answer_wakes(world):
    """Another answer replaces the one before (SC-156)."""
    world.given(gpu("t1"), *answer("gpu", "n1", "n2", no="no gpu"))
    world.send(*answer("gpu", "n2"))
    world.expect("app-1 Starting", "t1 on n2")


def test_a_required_node_is_asked_about_alone(world):
    """SC-75: the hook has its word on a required node too."""
    world.send(gpu("t1", requires="n2"))
    world.expect("app-1 Accepted", "gpu on n2?")
    world.send(*answer("gpu", "n2", no="no gpu"))
    assert world.why("t1") == "no node that has room for it may run it: no gpu (1x)"


# ---- nodes that are reserved for an ask


def kept_for(world):
    return [name for name in ("n1", "n2") for _ in world.node(name)["reservations"]]


def test_the_hook_has_its_word_on_a_reservation(world):
    """SC-53: with ``allocate`` false, of the node that lacks least; without it no node is kept."""
    world.given(ask("f1", "app-2", on="n1", vcore=1000), ask("f2", "app-2", on="n2", vcore=2000))
    world.given(gpu("t1", vcore=4000))
    world.wait(2)
    world.expect("gpu instead on n1?")
    world.send(*answer("gpu", "n1", no="never", allocate=False))
    world.expect()
    world.send(*answer("gpu", "n1", allocate=False))
    world.expect("t1 reserves n1")
    assert world.why("t1") == "node n1 is reserved for it; wants 4, has 3 of 4 vcore there"


def test_a_node_that_turns_out_to_be_refused_is_kept_no_more(world):
    """Other asks get the node when it has room and the hook refuses: nothing is won by waiting (SC-151)."""
    world.given(*answer("gpu", "n1", allocate=False), *answer("gpu", "n2", no="no gpu"))
    world.given(ask("f1", "app-2", on="n1", vcore=2000), ask("f2", "app-2", on="n2", vcore=2000))
    world.given(gpu("t1", vcore=4000))
    world.given(at=2)
    assert kept_for(world) == ["n1"]
    world.send(release("f1", "app-2"))
    assert world.heard()[-1] == "gpu on n1?"
    world.send(ask("other", "app-2", vcore=3000))
    world.expect()
    world.send(*answer("gpu", "n1", no="no gpu"))
    world.expect("t1 leaves n1", "other on n1")


def test_a_required_node_that_refuses_is_not_kept(world):
    """Else an ask whose answer never comes would keep the node from everybody (SC-76 keeps it for want of room only)."""
    world.send(gpu("t1", requires="n1", vcore=4000))
    world.expect("app-1 Accepted", "gpu on n1?")
    world.send(*answer("gpu", "n1", no="no gpu"))
    world.wait(60)
    assert kept_for(world) == []
    world.given(ask("f1", "app-2", vcore=1000, requires="n1"))
    assert world.node("n1")["allocations"] == ["f1"]
    world.send(node("n2", "UPDATE", vcore=5000))
    assert kept_for(world) == []  # nor while there is no room for it


# ---- what is not answered


def test_no_answer_in_time_counts_as_refused(world):
    """After 10 s the ask goes on to other nodes (SC-155)."""
    world.given(gpu("t1"), at=100)
    world.given(*answer("gpu", "n2"), at=105)
    world.wait(109)
    world.expect()
    world.wait(200)
    world.expect("app-1 Starting", "t1 on n2")
    assert [fact.at_ns for fact in world.facts if isinstance(fact, Allocated)] == [110 * 10**9]


def test_a_dead_answerer_is_asked_again_at_growing_distances(world):
    """The ask is refused meanwhile, and this is reported (SC-155)."""
    world.send(gpu("t1"))
    world.wait(3000)
    times = [fact.at_ns // 10**9 for fact in world.facts if isinstance(fact, PredicatesAsked)]
    assert times == [0, 20, 50, 100, 190, 360, 690, 1340, 1990, 2640]
    assert world.why("t1") == f"no node that has room for it may run it: {NO_ANSWER} (2x)"
    world.heard()
    world.send(*answer("gpu", "n1"))
    world.expect("app-1 Starting", "t1 on n1")


def test_who_is_silent_about_one_node_is_not_waited_for_again(world):
    """While a silent node is asked about again it stays refused: others are taken at once."""
    world.given(gpu("t1", vcore=4000), *answer("gpu", "n2", no="no gpu"))
    world.given(at=25)
    world.given(node("n3", vcore=4000), *answer("gpu", "n3"))
    assert world.node("n3")["allocations"] == ["t1"]


def test_nobody_answers(world):
    """Only answers that are known pass without a resource manager that answers, and the reason says so (SC-155)."""
    world.given(answering(False), *answer("gpu", "n2"))
    world.send(gpu("t1", vcore=4000), gpu("t2"))
    world.expect("app-1 Accepted", "app-1 Starting", "t1 on n2")
    assert world.why("t2") == f"no node that has room for it may run it: {NO_PREDICATE_SERVICE} (1x)"
    assert world.remarks() == [f"Unschedulable request 't2': {NO_PREDICATE_SERVICE} (1x); "]
    world.send(answering(True))
    world.expect("gpu on n1?")


def test_the_answerer_goes_while_it_is_waited_for(world):
    """The ask is refused at once, not after 10 s, because no answer will come, and asked about anew when somebody comes."""
    world.given(gpu("t1"))
    world.send(answering(False))
    assert NO_PREDICATE_SERVICE in world.why("t1")
    world.wait(5)
    world.send(answering(True))
    world.expect("gpu on n1 n2?")


# ---- what is forgotten


def test_a_node_that_changes_or_returns_is_asked_about_again(world):
    """Another capacity is another node for all that we know; so is one that comes back (SC-156)."""
    world.given(*answer("gpu", "n1", "n2", no="no gpu"), gpu("t1"))
    world.send(node("n1", "UPDATE", vcore=5000))
    world.expect("gpu on n1?")
    world.given(*answer("gpu", "n1", no="no gpu"))
    world.send(node("n2", "DECOMISSION"), node("n2", vcore=4000))
    assert world.heard()[-1] == "gpu on n2?"


def test_the_resource_manager_takes_back_what_it_said(world):
    """Answers are taken back for one class on one node, one of both, or everything (SC-156)."""
    world.given(*answer("gpu", "n1", "n2", no="no gpu"), *answer("disk", "n1", no="slow"), gpu("t1"))
    world.send(forget("gpu", "n1"))
    world.expect("gpu on n1?")
    world.given(*answer("gpu", "n1", no="no gpu"))
    world.send(forget("gpu"))
    world.expect("gpu on n1 n2?")
    world.given(*answer("gpu", "n1", "n2", no="no gpu"))
    world.send(forget("disk"))
    world.expect()
    world.send(forget("", "n2"))
    world.expect("gpu on n2?")
    world.given(*answer("gpu", "n2", no="no gpu"))
    world.send(forget())
    world.expect("gpu on n1 n2?")


def test_many_nodes_behind_refused_ones():
    """Past the nodes that are looked at one by one the order and the answers hold as well."""
    names = [f"n{number:03}" for number in range(150)]
    world = make_world(TEXT, [node(name, vcore=1000) for name in names])
    world.given(app("app-1"), *answer("gpu", *names[:140], no="no gpu"), *answer("gpu", *names[140:]))
    world.send(gpu("t1"), gpu("t2"))
    assert [line for line in world.heard() if " on " in line] == ["t1 on n140", "t2 on n141"]
    world.send(*answer("gpu", "n100"), gpu("t3"))
    world.expect("t3 on n100")
    world.send(*answer("gpu", "n142", no="broken"), gpu("t4"))
    world.expect("t4 on n143")
    world.send(answering(False), forget("gpu", "n144"), gpu("t5"))
    world.expect("t5 on n145")
    world.send(answering(True), gpu("t6"))
    world.expect("gpu on n144?")


def test_an_unasked_answer_without_a_service():
    """SC-155, SC-156: a node that was passed over as unknown is taken as soon as it is known to pass, also among many nodes."""
    small = [node(f"n{number}", vcore=1) for number in range(100)]
    world = make_world(TEXT, [*small, node("large", vcore=2), answering(False), app("app-1")])
    world.given(gpu("t1", vcore=2))
    world.send(*answer("gpu", "large"))
    assert world.placed() == ["t1"]


def test_a_class_is_not_endless(world):
    """The name of a class is remembered, so it is bounded."""
    world.send(ask("t1", "app-1", predicate="x" * (PREDICATE_CLASS_MAX + 1), vcore=1))
    world.expect("t1 rejected: tag ykactor.io/predicate: found 254 characters, expected at most 253")


def test_what_is_known_outlives_a_reload(world):
    """Another queue file says nothing about nodes."""
    world.given(*answer("gpu", "n1", no="no gpu"), *answer("gpu", "n2"), configure(tree(queue("a"))))
    world.send(gpu("t1"))
    world.expect("app-1 Accepted", "app-1 Starting", "t1 on n2")


def test_an_ask_that_is_gone_is_not_placed(world):
    """An answer for nobody is only remembered."""
    world.given(gpu("t1"), release("t1"))
    world.send(*answer("gpu", "n1"))
    world.expect()
