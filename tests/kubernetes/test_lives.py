"""The lives of pods: what the daemon is told when they end, come again, or change their place at any moment."""

from collections.abc import Callable

import msgspec
import pytest
from dialogue import Dialogue
from objects import changed, group, namespace, node, pod
from storageobjects import capacity, claim, csi_node, storage_class, volume

from bench.growth import Quantity, tables
from ykactor.client import Refusal
from ykactor.kubernetes import model
from ykactor.kubernetes.classes import IDLE_S
from ykactor.kubernetes.messages import Bind, BindOutcome, Event, FailPod, Heard
from ykactor.wire.si import messages as si


def waiting(_: Dialogue, found: model.Pod) -> model.Pod:
    return found


def binding(dialogue: Dialogue, found: model.Pod) -> model.Pod:
    assert dialogue.place(found, "n1") == ["bind w to n1"]
    return found


def bound(dialogue: Dialogue, found: model.Pod) -> model.Pod:
    dialogue.place(found, "n1")
    dialogue.bound(found)
    dialogue.see(changed(found, node="n1"))
    return changed(found, node="n1")


def is_lost(dialogue: Dialogue, found: model.Pod) -> list[str]:
    return dialogue.lose(found)


def fails(dialogue: Dialogue, found: model.Pod) -> list[str]:
    return dialogue.see(changed(found, phase="Failed"))


def succeeds(dialogue: Dialogue, found: model.Pod) -> list[str]:
    return dialogue.see(changed(found, phase="Succeeded"))


@pytest.mark.parametrize("ends", [is_lost, fails, succeeds])
@pytest.mark.parametrize("stage", [waiting, binding, bound])
def test_a_pod_that_ends_is_released_once(
    stage: Callable[[Dialogue, model.Pod], model.Pod], ends: Callable[[Dialogue, model.Pod], list[str]]
) -> None:
    """Whatever is on its way: its bind is not wanted any more, and a decision that comes later is released."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), found)
    dialogue.register()
    found = stage(dialogue, found)
    assert ends(dialogue, found) == ["release w STOPPED_BY_RM"]
    binds = [each for each in dialogue.effects if isinstance(each, Bind)]
    assert not any(dialogue.state.wants(each) for each in binds)
    late = [] if stage is not binding else dialogue.bound(found, BindOutcome.GONE)
    assert late == []
    assert dialogue.place(found, "n2") == ["release w STOPPED_BY_RM"]
    if ends is not is_lost:
        assert dialogue.lose(found) == []


@pytest.mark.parametrize("stage", [waiting, binding])
def test_a_pod_that_is_being_deleted_is_not_asked_for(stage: Callable[[Dialogue, model.Pod], model.Pod]) -> None:
    """A finalizer may keep it for ever. A bind that is on its way ends first."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), found)
    dialogue.register()
    stage(dialogue, found)
    said = dialogue.see(changed(found, deleting=True))
    if stage is binding:
        assert said == ["ask w on n1 ending"]
        said = dialogue.bound(found, BindOutcome.GONE)
    assert said == ["release w STOPPED_BY_RM"]


def test_binds_in_flight_are_reported_with_their_node() -> None:
    """A daemon that has lost its state must not place them elsewhere; nothing is bound twice."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), found)
    dialogue.register()
    dialogue.place(found, "n1")
    again = dialogue.register()
    assert "ask w on n1" in again
    assert not [word for word in again if word.startswith("bind")]
    assert dialogue.bound(found) == ["event about w Scheduled"]


def test_a_decision_that_was_not_carried_out_is_made_again() -> None:
    """The process has died between the decision and the bind, or leads again with what it sees."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), found)
    dialogue.register()
    dialogue.place(found, "n1")
    dialogue.state.stop()
    assert "ask w" in dialogue.register()
    assert dialogue.place(found, "n1") == ["bind w to n1"]


def test_a_pod_that_is_bound_to_a_node_that_is_gone_is_known_without_it() -> None:
    """The server binds it all the same; the garbage collection ends it."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), found)
    dialogue.register()
    dialogue.place(found, "n1")
    dialogue.lose(node("n1"))
    dialogue.bound(found)
    assert dialogue.see(changed(found, node="n1")) == []
    assert dialogue.lose(changed(found, node="n1")) == []


def test_a_pod_of_that_name_that_another_one_was_bound_for_keeps_its_node() -> None:
    """A server of 1.20 ignores the uid of a bind: where the watch shows the pod is right."""
    first, second = pod("w"), pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), first)
    dialogue.register()
    dialogue.place(first, "n1")
    dialogue.see(second)
    assert dialogue.place(second, "n2") == ["bind w to n2"]
    assert dialogue.see(changed(second, node="n1")) == ["release w STOPPED_BY_RM", "ask w on n1"]
    assert dialogue.bound(second, BindOutcome.TAKEN, "n1") == []


# ---- preemption of an earlier life


def its_node_goes(dialogue: Dialogue, found: model.Pod) -> list[str]:
    """Remove the node: the bind fails, and the pod is asked for again."""
    dialogue.place(found, "n1")
    dialogue.lose(node("n1"))
    dialogue.bound(found, BindOutcome.FAILED)
    return ["ask w"]


def it_is_placed_on_a_node_that_has_gone(dialogue: Dialogue, found: model.Pod) -> list[str]:
    dialogue.lose(node("n1"))
    dialogue.place(found, "n1")
    return ["ask w"]


def a_rival_binds_it_elsewhere(dialogue: Dialogue, found: model.Pod) -> list[str]:
    """The daemon is told at once where it is, so that nothing is placed in its room."""
    dialogue.place(found, "n1")
    dialogue.see(changed(found, node="n2"))
    return []


def its_node_goes_and_a_rival_binds_it_elsewhere(dialogue: Dialogue, found: model.Pod) -> list[str]:
    dialogue.place(found, "n1")
    dialogue.lose(node("n1"))
    dialogue.see(changed(found, node="n2"))
    return []


def it_could_not_start(dialogue: Dialogue, found: model.Pod) -> list[str]:
    """A task that was handed back is an ask for the adapter, and has ended for the daemon."""
    dialogue.place(found, "n1")
    dialogue.bound(found, BindOutcome.FAILED)
    return ["ask w"]


LIVES = [
    its_node_goes,
    it_is_placed_on_a_node_that_has_gone,
    a_rival_binds_it_elsewhere,
    its_node_goes_and_a_rival_binds_it_elsewhere,
    it_could_not_start,
]


@pytest.mark.parametrize("happens", LIVES, ids=[each.__name__ for each in LIVES])
def test_a_preemption_of_an_earlier_life_spares_the_pod(happens: Callable[[Dialogue, model.Pod], list[str]]) -> None:
    """The daemon had decided it before it heard that the pod has another place or none: the uid is the same in both lives."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), found)
    dialogue.register()
    again = happens(dialogue, found)
    told = dialogue.release(found, "PREEMPTED_BY_SCHEDULER")
    assert not [word for word in told if word.startswith(("delete", "event"))]
    assert [word for word in dialogue.confirm() if word.startswith("ask")] == again


def test_a_pod_that_a_rival_has_bound_can_be_preempted_there() -> None:
    """The pod can be preempted there when the daemon has repeated where it is."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), found)
    dialogue.register()
    a_rival_binds_it_elsewhere(dialogue, found)
    dialogue.place(found, "n2")
    assert dialogue.release(found, "PREEMPTED_BY_SCHEDULER") == ["delete w", "event about w Preempted"]


# ---- the configuration


def config_map(text: str) -> model.ConfigMap:
    meta = {"name": "yunikorn-configs", "namespace": "ykactor"}
    return msgspec.convert({"metadata": meta, "data": {"queues.yaml": text}}, model.ConfigMap)


def test_applications_wait_for_the_configuration() -> None:
    """One that was made for a new queue would be rejected in the tree before; after a refusal they are told too."""
    dialogue = Dialogue(node("n1"), config_map("a"))
    dialogue.state.book.configuration.begin_registration()
    dialogue.register()
    assert dialogue.see(config_map("b"), pod("w")) == ["configuration b"]
    assert dialogue.hear(si.Ack(id="")) == ["application yunikorn-team-autogen", "ask w"]
    second = pod("v", namespace="other")
    assert dialogue.see(config_map("c"), second) == ["configuration c"]
    refusal = Refusal(si.UpdateConfigurationRequest(config="c"), si.ErrorResponse(code="CONFIG", message="config:1:1: wrong"))
    said = dialogue.play(Heard(refusal))
    assert sorted(said) == ["application yunikorn-other-autogen", "ask v", "event about yunikorn-configs ConfigurationRefused"]
    event = next(each for each in dialogue.effects if isinstance(each, Event))
    assert event.note == "config:1:1: wrong"


def test_a_pod_that_runs_after_all_is_not_failed() -> None:
    """Somebody else has bound it while the request to fail it waited."""
    found = pod("w")
    dialogue = Dialogue(node("n1"), found)
    dialogue.register()
    rejected = si.RejectedApplication(application_id="yunikorn-team-autogen", reason="no queue", code="NO_QUEUE")
    dialogue.hear(si.ApplicationResponse(rejected=[rejected]))
    (fail,) = [each for each in dialogue.effects if isinstance(each, FailPod)]
    assert dialogue.state.wants(fail)
    dialogue.see(changed(found, node="n1"))
    assert not dialogue.state.wants(fail)


# ---- what is kept of what has come and gone


def come_and_go(dialogue: Dialogue, name: str) -> None:
    """A pod and all that is about it, each with a name of its own: nodes, claims, neighbours, quotas, a PodGroup, a gang."""
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"job": name}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    objects = [
        namespace(name, namespace__quota='{"cpu": "1"}'),
        node(f"{name}-n", labels={"zone": name}),
        group(f"{name}-g", 2),
        storage_class(f"{name}-s"),
        csi_node(f"{name}-n", **{f"{name}.example": 2}),
        capacity(f"{name}-c", "1Gi", zone=name, of=f"{name}-s"),
        claim(f"{name}-v", bound=f"{name}-p"),
        volume(f"{name}-p", f"{name}-v"),
    ]
    labels = {"yunikorn.apache.org/app-id": name, "job": name}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"{name}-v"}}]
    placed = pod(f"{name}-w", labels=labels, affinity=affinity, volumes=volumes, ports=[{"hostPort": 80}])
    member = pod(f"{name}-m", schedulingGroup={"podGroupName": f"{name}-g"})
    dialogue.see(*objects, placed, member)
    dialogue.place(placed, f"{name}-n")
    dialogue.bound(placed)
    dialogue.see(changed(placed, node=f"{name}-n"))
    for found in (placed, member, *objects):
        dialogue.lose(found)
    dialogue.confirm()
    dialogue.updated(name, "Completed")
    dialogue.effects.clear()
    dialogue.said.clear()


def test_nothing_is_kept_of_what_has_come_and_gone() -> None:
    """However much it was: the state knows as little as before when its classes are forgotten."""
    dialogue, sizes = Dialogue(node("n1")), list[dict[Quantity, float]]()
    dialogue.register()
    for count in (20, 60):
        for number in range(count):
            come_and_go(dialogue, f"j{count}-{number}")
        dialogue.now_s += IDLE_S + 1
        dialogue.play()
        sizes.append(tables(dialogue.state))
    before, after = sizes
    assert {name: (before.get(name, 0), size) for name, size in after.items() if size > before.get(name, 0) + 5} == {}
