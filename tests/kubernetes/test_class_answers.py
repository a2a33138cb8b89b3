"""Predicate classes: which answers the daemon gets, when, and how many; and host ports, which they are about too."""

from __future__ import annotations

import pytest
from dialogue import Dialogue, words
from objects import changed, node, pod

from ykactor.kubernetes import classes
from ykactor.kubernetes.messages import BindOutcome, Heard, Tell
from ykactor.kubernetes.model import Object, Pod
from ykactor.kubernetes.pods import key_of
from ykactor.wire.si import messages as si

SSD = {"nodeSelector": {"disk": "ssd"}}
TAINT = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}


class Told:
    """The requests to the daemon since the last call of one of the methods."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue

    def in_order(self) -> list[str]:
        """Requests in words; answers as ``NODE ALLOCATE`` with ``no`` if they refuse, and ``forget NODE`` or ``forget class``."""
        effects, self._dialogue.effects = self._dialogue.effects, []
        found: list[str] = []
        for effect in effects:
            if isinstance(effect, Tell) and isinstance(effect.request, si.PredicatesResponse):
                found += [f"forget {each.node_id or 'class'}" for each in effect.request.forget]
                found += [_answer(each) for each in effect.request.answers]
            else:
                found += words(effect)
        return found

    def answers(self) -> list[str]:
        """Only the answers for placements, and what is to be forgotten."""
        return [each for each in self.in_order() if "place" in each or each.startswith("forget")]


def _answer(answer: si.PredicateAnswer) -> str:
    uses = f" uses {answer.uses}" if answer.uses is not None else ""
    return f"{answer.node_id} {'place' if answer.allocate else 'preempt'}{' no' if answer.error else ''}{uses}"


def told_after_registration(*objects: Object) -> tuple[Dialogue, Told]:
    dialogue = Dialogue(*objects)
    dialogue.register()
    told = Told(dialogue)
    told.in_order()
    return dialogue, told


def test_answers_about_all_nodes_come_before_the_first_ask_of_a_class() -> None:
    """Both for a placement and for preemption; the next pods of the class need none."""
    dialogue, told = told_after_registration(node("n1", labels={"disk": "ssd"}), node("n2"))
    dialogue.see(pod("w", **SSD))
    answers = ["n1 place", "n1 preempt", "n2 place no", "n2 preempt no"]
    assert told.in_order() == [*answers, "application yunikorn-team-autogen", "ask w"]
    dialogue.see(pod("v", **SSD))
    assert told.in_order() == ["ask v"]


def test_answers_about_a_node_come_when_it_comes_and_behind_each_change() -> None:
    """The daemon forgets them with each change (SC-156). A heartbeat changes nothing."""
    dialogue, told = told_after_registration(pod("w", **SSD))
    dialogue.see(node("n1"))
    assert told.in_order() == ["CREATE_DRAIN n1", "UPDATE n1", "n1 place no", "n1 preempt no", "DRAIN_TO_SCHEDULABLE n1"]
    dialogue.see(node("n1", labels={"disk": "ssd"}))
    assert told.in_order() == ["UPDATE n1", "n1 place", "n1 preempt"]
    dialogue.see(node("n1", labels={"disk": "ssd"}, cpu="8"))
    assert told.in_order() == ["UPDATE n1", "n1 place", "n1 preempt"]
    dialogue.see(node("n1", labels={"disk": "ssd"}, cpu="8"))
    assert told.in_order() == []
    dialogue.see(node("n1", labels={"disk": "ssd"}, cpu="8", **TAINT))
    assert told.in_order() == ["n1 place no", "n1 preempt no"]


def test_a_fresh_registration_brings_all_answers_again() -> None:
    dialogue, told = told_after_registration(node("n1"), pod("w"))
    dialogue.register()
    assert told.answers() == ["n1 place"]


def test_beyond_a_number_only_nodes_that_pass_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon keeps 200,000 answers. A node that passes no longer is forgotten, so that the daemon asks."""
    monkeypatch.setattr(classes, "PUSHED_MAX", 3)
    dialogue, told = told_after_registration(node("n1"), node("n2", labels={"disk": "ssd"}))
    dialogue.see(pod("w", **SSD))
    assert told.answers() == ["n2 place"]
    dialogue.see(node("n2", labels={"disk": "ssd"}, **TAINT))
    assert told.answers() == ["forget n2"]
    dialogue.see(node("n1", labels={"disk": "ssd"}))
    assert told.in_order() == ["UPDATE n1", "forget n1", "n1 place", "n1 preempt"]


@pytest.mark.parametrize(
    ("class_of", "node_id", "answer"),
    [
        ("w", "n1", "n1 place no"),
        ("w", "n2", "n2 place"),
        ("w", "gone", "gone place no uses 1"),
        ("", "n1", "n1 place no uses 1"),
    ],
)
def test_every_question_is_answered_at_once(class_of: str, node_id: str, answer: str) -> None:
    """Also about what is not known any more."""
    waiting = pod("w", **SSD)
    dialogue, told = told_after_registration(node("n1"), node("n2", labels={"disk": "ssd"}), waiting)
    name = dialogue.state.book.pods[key_of(waiting)].class_name if class_of else "unknown"
    check = si.PredicateCheck(predicate=name, node_id=node_id, allocate=True)
    dialogue.hear(si.PredicatesRequest(partition_name="default", checks=[check]))
    assert told.answers() == [answer]


def test_a_class_without_a_pod_is_forgotten_after_ten_minutes() -> None:
    """One that gets a pod again in time is kept; one that comes later is told anew."""
    first = pod("w", **SSD)
    dialogue, told = told_after_registration(node("n1"), first)
    dialogue.lose(first)
    dialogue.now_s += 599
    second = pod("v", **SSD)
    dialogue.see(second)
    dialogue.now_s += 599
    dialogue.play()
    assert told.answers() == []
    dialogue.lose(second)
    dialogue.now_s += 599
    dialogue.play()
    assert told.answers() == []
    dialogue.now_s += 1
    dialogue.play()
    assert told.answers() == ["forget class"]
    dialogue.see(pod("u", **SSD))
    assert told.answers() == ["n1 place no"]


def test_a_replica_that_does_not_lead_keeps_nothing_of_what_is_gone() -> None:
    """A waiting replica stays small, although pods may come and go for months."""
    ports = {"ports": [{"hostPort": 80}]}
    dialogue, _ = told_after_registration(node("n1"), pod("stays", **ports))
    dialogue.state.stop()
    book = dialogue.state.book
    for number in range(5):
        for found in (pod(f"w{number}", nodeSelector={"number": str(number)}, **ports), pod(f"r{number}", node="n1", **ports)):
            dialogue.see(found)
            dialogue.lose(found)
    dialogue.see(node("n1", cpu="8"))
    dialogue.now_s += 600
    dialogue.play()
    assert list(book.pods.values()) == [book.pods[key] for key in book.keys.values()]
    assert (book.dirty_pods, book.dirty_nodes, book.classes.topology.changed, book.out.requests("")) == ({}, {}, {}, [])
    assert book.classes.count == 1
    assert dialogue.register()[:2] == ["CREATE_DRAIN n1", "application yunikorn-team-autogen"]


# ---- host ports


def with_port(name: str, port: int = 80, **more: str) -> Pod:
    return pod(name, ports=[{"hostPort": port, **more}])


def test_a_port_is_refused_as_soon_as_a_placement_is_known() -> None:
    """A taken port is refused to all classes that want it, by protocol, address and port; each answer holds once."""
    one, same, other = with_port("one"), with_port("same", hostIP="10.0.0.1"), with_port("other", protocol="UDP")
    dialogue, told = told_after_registration(node("n1"), one, same, other)
    dialogue.place(one, "n1")
    assert told.in_order() == ["n1 place no", "n1 preempt uses 1"] * 2 + ["bind one to n1"]
    dialogue.lose(one)
    assert told.answers() == ["n1 place uses 1"] * 2


@pytest.mark.parametrize("scheduler", ["ykactor", "default-scheduler"])
def test_a_port_of_a_pod_that_runs_already_is_taken_until_it_ends(scheduler: str) -> None:
    running = pod("r", node="n1", ports=[{"hostPort": 80}], schedulerName=scheduler)
    dialogue, told = told_after_registration(node("n1"), running)
    dialogue.see(with_port("w", hostIP="10.0.0.1"))
    assert told.answers() == ["n1 place no"]
    dialogue.see(changed(running, phase="Succeeded"))
    assert set(told.answers()) == {"n1 place uses 1"}


def test_the_second_of_two_that_want_a_port_is_handed_back() -> None:
    """They were decided in one turn, before the daemon heard of either."""
    one, two = with_port("one"), with_port("two", protocol="TCP")
    dialogue, _ = told_after_registration(node("n1"), one, two)
    new = [si.Allocation(allocation_key=key_of(each), application_id="a", node_id="n1") for each in (one, two)]
    assert dialogue.play(Heard(si.AllocationResponse(new=new))) == ["release two SCHEDULING_FAILED_ON_RM", "bind one to n1"]


def test_a_port_of_a_bind_that_has_failed_is_free_again() -> None:
    one, two = with_port("one"), with_port("two")
    dialogue, told = told_after_registration(node("n1"), one, two)
    dialogue.place(one, "n1")
    told.in_order()
    dialogue.bound(one, BindOutcome.FAILED)
    assert told.answers() == ["n1 place uses 1"]
