"""Pods with claims: when they are asked for, where, and what happens until their volumes are there."""

from __future__ import annotations

import msgspec
import pytest
from dialogue import Dialogue
from objects import changed, group, node, pod
from storageobjects import DRIVER, ZONE, capacity, claim, csi_node, driver, storage_class, using, volume
from test_neighbours import allowed
from volumecontroller import limit_volumes
from whole import Whole

from ykactor.kubernetes.configuration import BIND_TIMEOUT_S
from ykactor.kubernetes.messages import Event, Nominate, NotWritten, Ref, SelectNode, SetCondition, Tell
from ykactor.kubernetes.model import ConfigMap, Node, Object, Pod
from ykactor.wire.si import messages as si


def nodes() -> list[Node]:
    """Two nodes in the zone z1, and two in z2."""
    return [node(f"n{number}", labels={ZONE: f"z{1 + number // 2}"}) for number in range(4)]


def registered(*objects: Object) -> Dialogue:
    dialogue = Dialogue(*nodes(), *objects)
    dialogue.register()
    return dialogue


def notes(dialogue: Dialogue) -> list[str]:
    return [each.note for each in dialogue.effects if isinstance(each, Event)]


def pass_time(dialogue: Dialogue, seconds: float) -> list[str]:
    dialogue.now_s += seconds
    return dialogue.play()


# ---- bound claims


def test_a_pod_runs_where_its_volume_is() -> None:
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), claim("data", bound="pv"), volume("pv", "data", zones=["z2"]), waiting)
    assert allowed(dialogue, waiting) == {"n2", "n3"}
    assert dialogue.place(waiting, "n2") == ["bind w to n2"]


def test_pods_whose_volumes_are_in_one_zone_are_one_class() -> None:
    """The daemon keeps few answers, however many claims there are."""
    pods = [pod(f"w{number}", volumes=using(f"data{number}")) for number in range(5)]
    claims = [claim(f"data{number}", bound=f"pv{number}") for number in range(5)]
    volumes = [volume(f"pv{number}", f"data{number}", zones=["z1"]) for number in range(5)]
    dialogue = registered(storage_class(), *pods, *claims, *volumes)
    assert len({record.class_name for record in dialogue.state.book.pods.values()}) == 1
    unbound = [pod(f"u{number}", volumes=using(f"new{number}")) for number in range(5)]
    dialogue.see(*[claim(f"new{number}") for number in range(5)], *unbound)
    assert len({record.class_name for record in dialogue.state.book.pods.values()}) == 2


# ---- claims that hold a pod back


def test_a_pod_waits_for_a_claim_that_is_bound_immediately() -> None:
    """An Event and a condition say so, once."""
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(waits=False), claim("data"), waiting)
    assert dialogue.said[-2:] == ["condition of w SchedulingSkipped", "event about w FailedScheduling"]
    assert notes(dialogue) == ["claim data is not bound to a volume yet"]
    assert dialogue.see(changed(waiting, labels={"a": "b"})) == []
    assert "ask w" not in dialogue.said
    assert dialogue.see(claim("data", bound="pv"), volume("pv", "data")) == ["application yunikorn-team-autogen", "ask w"]


def test_a_pod_waits_for_a_claim_that_is_not_there() -> None:
    """The pod waits until the claim comes, and waits again after it was deleted."""
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), waiting)
    assert notes(dialogue) == ["claim data is not there"]
    assert dialogue.see(claim("data"))[-1] == "ask w"
    said = ["release w STOPPED_BY_RM", "condition of w SchedulingSkipped", "event about w FailedScheduling"]
    assert dialogue.see(claim("data", deleting=True)) == said
    assert dialogue.confirm() == []
    assert dialogue.lose(claim("data")) == said[1:]
    assert dialogue.see(claim("data")) == ["ask w"]
    assert dialogue.see(claim("data", phase="Lost", bound="pv")) == said
    assert notes(dialogue)[1:] == ["claim data is being deleted", "claim data is not there", "claim data has lost its volume pv"]


def test_what_a_condition_says_already_is_not_said_again() -> None:
    """Another process said it."""
    status = {
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingSkipped", "message": "claim data is not there"}
        ]
    }
    dialogue = registered(pod("w", volumes=using("data"), status=status))
    assert notes(dialogue) == []


def test_volumes_that_people_make_are_not_supported() -> None:
    dialogue = registered(
        storage_class(provisioner="kubernetes.io/no-provisioner"), claim("data"), pod("w", volumes=using("data"))
    )
    assert notes(dialogue) == ["not supported: claim data needs a volume that people make, of the storage class wait"]


def test_an_ephemeral_claim_belongs_to_its_pod() -> None:
    """Kubernetes makes it after the pod; one of the same name that somebody else has made is not used."""
    waiting = pod("w", volumes=using(ephemeral=["scratch"]))
    dialogue = registered(storage_class(), waiting)
    assert notes(dialogue) == ["claim w-scratch has not been made yet for its ephemeral volume"]
    dialogue.see(claim("w-scratch", owner="another"))
    assert notes(dialogue)[1:] == ["claim w-scratch was not made for this pod"]
    assert dialogue.see(claim("w-scratch", owner=waiting.metadata.uid))[-1] == "ask w"


def test_a_member_of_a_group_that_waits_for_its_claim_is_not_there_yet() -> None:
    """A gang that could not start holds no room."""
    members = [pod(name, volumes=using(name), schedulingGroup={"podGroupName": "pg"}) for name in ("m1", "m2")]
    dialogue = registered(storage_class(), group("pg", 2), claim("m1"), *members)
    assert "group pg: 1 of 2 pods are there" in dialogue.said
    assert not [word for word in dialogue.said if word.startswith("placeholder")]
    assert [word for word in dialogue.see(claim("m2")) if word.startswith("placeholder")] == [
        "placeholder m1-room",
        "placeholder m2-room",
    ]


# ---- volumes that are made for a node


def placed(*objects: Object) -> tuple[Dialogue, Pod]:
    """A pod that was placed on n1, and waits for its volume."""
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), claim("data"), waiting, *objects)
    assert dialogue.place(waiting, "n1") == ["select n1 for data", "event about w WaitingForVolumes", "nominate n1 for w"]
    return dialogue, waiting


def test_a_pod_is_bound_when_its_volume_is_made() -> None:
    """The watch of volumes may be behind that of claims."""
    dialogue, waiting = placed()
    assert dialogue.see(claim("data", selected="n1")) == []
    assert dialogue.see(waiting) == []
    assert dialogue.see(claim("data", selected="n1", bound="pv")) == []
    assert dialogue.see(volume("pv", "data", zones=["z1"])) == ["bind w to n1"]
    assert pass_time(dialogue, BIND_TIMEOUT_S) == []


def test_a_volume_that_is_not_seen_yet_counts() -> None:
    """Else another pod would get its room on the node meanwhile."""
    dialogue, _ = placed(csi_node("n1", csi__example=1))
    dialogue.see(claim("data", selected="n1"))
    assert dialogue.see(claim("data", selected="n1", bound="pv")) == []
    assert size_of(dialogue, "w") == {f"volumes.{DRIVER}": 1}


def test_a_pod_with_two_claims_waits_for_both() -> None:
    waiting = pod("w", volumes=using("one", "two"))
    dialogue = registered(storage_class(), claim("one"), claim("two"), waiting)
    assert dialogue.place(waiting, "n1") == [
        "select n1 for one",
        "select n1 for two",
        "event about w WaitingForVolumes",
        "nominate n1 for w",
    ]
    assert dialogue.see(claim("one", selected="n1", bound="pv1"), volume("pv1", "one")) == []
    assert dialogue.see(claim("two", selected="n1", bound="pv2"), volume("pv2", "two")) == ["bind w to n1"]


HANDED_BACK = ["release w SCHEDULING_FAILED_ON_RM", "event about w FailedScheduling"]


def test_volumes_that_are_not_made_in_time_are_not_wanted_any_more() -> None:
    """Only then, and the pod may be placed elsewhere."""
    dialogue, waiting = placed()
    dialogue.see(claim("data", selected="n1"))
    assert pass_time(dialogue, BIND_TIMEOUT_S - 1) == []
    assert pass_time(dialogue, 1) == [HANDED_BACK[0], "select nothing for data", HANDED_BACK[1], "nominate nothing for w"]
    assert notes(dialogue)[-1] == "node n1: its volumes were not made in 600 s"
    assert dialogue.see(claim("data")) == []
    assert dialogue.place(waiting, "n2") == ["select n2 for data", "event about w WaitingForVolumes", "nominate n2 for w"]


def test_a_volume_that_is_made_at_the_last_moment_is_not_given_up() -> None:
    dialogue, _ = placed()
    dialogue.see(claim("data", selected="n1"))
    dialogue.now_s += 2 * BIND_TIMEOUT_S
    assert dialogue.see(claim("data", selected="n1", bound="pv"), volume("pv", "data")) == ["bind w to n1"]


def test_the_time_of_a_pod_that_is_placed_later_is_its_own() -> None:
    """Another pod of its claim has waited longer, and had no room where its volume is made."""
    first, second = (pod(name, volumes=using("data")) for name in ("w1", "w2"))
    dialogue = registered(storage_class(), claim("data", selected="n1"), first, second)
    assert pass_time(dialogue, BIND_TIMEOUT_S - 1) == []
    dialogue.place(second, "n1")
    assert pass_time(dialogue, 2) == []
    assert "select nothing for data" in pass_time(dialogue, BIND_TIMEOUT_S)


def test_the_time_for_making_volumes_can_be_set() -> None:
    settings = {"metadata": {"name": "yunikorn-configs"}, "data": {"service.volumeBindTimeout": "1m30s"}}
    dialogue, _ = placed(msgspec.convert(settings, ConfigMap))
    assert pass_time(dialogue, 89) == []
    assert HANDED_BACK[0] in pass_time(dialogue, 1)


def test_a_provisioner_that_gives_up_hands_the_pod_back() -> None:
    """The provisioner gives up by taking the annotation off."""
    dialogue, _ = placed()
    dialogue.see(claim("data", selected="n1"))
    assert dialogue.see(claim("data")) == [*HANDED_BACK, "nominate nothing for w"]
    assert notes(dialogue)[-1] == "node n1: its volumes could not be made there"


def test_an_annotation_that_cannot_be_written_hands_the_pod_back() -> None:
    dialogue, waiting = placed()
    failed = NotWritten(SelectNode(Ref("team", "data"), "uid", "n1"), "500")
    assert dialogue.play(failed) == [*HANDED_BACK, "nominate nothing for w"]
    assert dialogue.play(failed) == []
    assert dialogue.place(waiting, "n2") == ["select n2 for data", "event about w WaitingForVolumes", "nominate n2 for w"]


def test_a_rival_that_binds_the_claim_elsewhere_is_right() -> None:
    """The pod goes where the volume is."""
    dialogue, waiting = placed()
    assert dialogue.see(claim("data", bound="pv"), volume("pv", "data", zones=["z2"])) == [
        "release w STOPPED_BY_RM",
        "nominate nothing for w",
    ]
    assert dialogue.confirm() == ["ask w"]
    assert allowed(dialogue, waiting) == {"n2", "n3"}
    assert dialogue.place(waiting, "n3") == ["bind w to n3"]


def test_a_rival_that_has_the_volume_made_elsewhere_is_right() -> None:
    dialogue, waiting = placed()
    dialogue.see(claim("data", selected="n1"))
    assert dialogue.see(claim("data", selected="n3"))[0] == "release w STOPPED_BY_RM"
    assert dialogue.confirm() == ["ask w"]
    assert allowed(dialogue, waiting) == {"n3"}


def test_a_claim_that_is_deleted_while_its_pod_waits_for_it() -> None:
    """The pod has no node any more, and waits for the claim."""
    dialogue, _ = placed()
    dialogue.see(claim("data", selected="n1"))
    assert dialogue.lose(claim("data")) == [
        "release w STOPPED_BY_RM",
        "condition of w SchedulingSkipped",
        "event about w FailedScheduling",
        "nominate nothing for w",
    ]
    assert dialogue.confirm() == []
    assert dialogue.see(claim("data")) == ["ask w"]


def test_a_preemption_of_a_pod_that_was_taken_off_meanwhile_is_late() -> None:
    """The pod is about to be another ask, and is not deleted."""
    dialogue, waiting = placed()
    dialogue.see(claim("data", bound="pv"), volume("pv", "data", zones=["z2"]))
    assert dialogue.release(waiting, "PREEMPTED_BY_SCHEDULER") == ["release w PREEMPTED_BY_SCHEDULER"]
    assert dialogue.confirm() == ["ask w"]


def test_a_pod_that_is_deleted_while_it_waits_for_its_volume() -> None:
    """The volume that is made for it stays with its claim."""
    dialogue, waiting = placed()
    assert dialogue.lose(waiting) == ["release w STOPPED_BY_RM"]
    assert pass_time(dialogue, BIND_TIMEOUT_S) == []


def test_a_node_that_goes_while_a_volume_is_made_for_it() -> None:
    """Another node is free to have it, although the claim still names the first."""
    dialogue, waiting = placed()
    dialogue.see(claim("data", selected="n1"))
    assert dialogue.lose(nodes()[1]) == ["DECOMISSION n1", "nominate nothing for w"]
    assert dialogue.confirm() == ["ask w"]
    assert allowed(dialogue, waiting) >= {"n0", "n2", "n3"}
    assert dialogue.place(waiting, "n2") == ["select n2 for data", "event about w WaitingForVolumes", "nominate n2 for w"]


def test_another_process_goes_on_where_the_first_has_stopped() -> None:
    """The claim names the node: no other one will do, and nothing is written again."""
    waiting = pod("w", volumes=using("data"), status={"nominatedNodeName": "n1"})
    dialogue = registered(storage_class(), claim("data", selected="n1"), waiting)
    assert allowed(dialogue, waiting) == {"n1"}
    dialogue.see(waiting)
    assert dialogue.place(waiting, "n1") == ["event about w WaitingForVolumes", "nominate n1 for w"]
    assert dialogue.see(claim("data", selected="n1", bound="pv"), volume("pv", "data")) == ["bind w to n1"]


def test_a_nomination_that_was_not_written_is_made_again() -> None:
    """Another client has written at the same moment."""
    dialogue, waiting = placed()
    (write,) = [effect for effect in dialogue.effects if isinstance(effect, Nominate)]
    assert dialogue.see(waiting) == []
    dialogue.play(NotWritten(write, "409"))
    assert dialogue.see(waiting) == ["nominate n1 for w"]


def test_a_promise_that_nobody_keeps_is_taken_back() -> None:
    """The node for which the first process had it made has no room any more, and the provisioner does nothing."""
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), claim("data", selected="n1"), waiting)
    assert pass_time(dialogue, BIND_TIMEOUT_S) == ["release w STOPPED_BY_RM", "select nothing for data"]
    assert dialogue.confirm() == ["ask w"]
    dialogue.see(claim("data"))
    assert allowed(dialogue, waiting) == {"n0", "n1", "n2", "n3"}


def test_a_process_that_leads_no_more_forgets_what_it_has_begun() -> None:
    dialogue, waiting = placed()
    dialogue.state.stop()
    assert "ask w" in dialogue.register()
    assert dialogue.place(waiting, "n2") == ["select n2 for data", "event about w WaitingForVolumes", "nominate n2 for w"]


# ---- where volumes can be made


def test_a_volume_is_made_where_its_storage_class_allows_it() -> None:
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(zones=["z2"]), claim("data"), waiting)
    assert allowed(dialogue, waiting) == {"n2", "n3"}
    dialogue.lose(storage_class())
    assert notes(dialogue) == ["claim data is not bound to a volume yet, and its storage class wait is not there"]
    dialogue.see(storage_class(zones=["z1"]))
    assert allowed(dialogue, waiting) == {"n0", "n1"}


def test_a_volume_is_made_where_there_is_room() -> None:
    """Each change of the room reaches the daemon, and only where it matters."""
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), claim("data", size="5Gi"), waiting)
    assert len(allowed(dialogue, waiting)) == 4
    dialogue.see(driver())
    assert allowed(dialogue, waiting) == set()
    dialogue.see(capacity("a", "10Gi"))
    assert allowed(dialogue, waiting) == {"n0", "n1"}
    dialogue.see(capacity("a", "10Gi", largest="4Gi"))
    assert allowed(dialogue, waiting) == set()
    dialogue.see(capacity("a", "10Gi", largest="4Gi", zone="z2"), capacity("b", "5Gi", zone="z2"))
    assert allowed(dialogue, waiting) == {"n2", "n3"}
    dialogue.lose(capacity("b", "5Gi"))
    assert allowed(dialogue, waiting) == set()
    dialogue.see(driver(tracks_room=False))
    assert len(allowed(dialogue, waiting)) == 4


def test_room_that_changes_and_is_still_enough_says_nothing() -> None:
    """Drivers write it after each volume."""
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), driver(), capacity("a", "10Gi"), claim("data"), waiting)
    dialogue.effects.clear()
    dialogue.see(capacity("a", "9Gi"))
    assert dialogue.effects == []
    dialogue.see(capacity("a", "1Mi"))
    (told,) = dialogue.effects
    assert isinstance(told, Tell)
    assert isinstance(told.request, si.PredicatesResponse)
    assert {each.node_id for each in told.request.answers} == {"n0", "n1"}


# ---- claims of one pod, and shared ones


def test_a_claim_for_one_pod_is_used_by_one() -> None:
    """The second pod may run on no node until the first one is gone."""
    first, second = (pod(name, volumes=using("data")) for name in ("w1", "w2"))
    dialogue = registered(storage_class(), claim("data", one_pod=True, bound="pv"), volume("pv", "data"), first, second)
    assert dialogue.place(first, "n0") == ["release w2 STOPPED_BY_RM", "bind w1 to n0"]
    assert dialogue.confirm() == ["ask w2"]
    assert allowed(dialogue, second) == set()
    answers = [each for each in dialogue.effects if isinstance(each, Tell) and isinstance(each.request, si.PredicatesResponse)]
    last = answers[-1].request
    assert isinstance(last, si.PredicatesResponse)
    assert {each.error for each in last.answers} == {"claim data is used by another pod, and only one may"}
    dialogue.see(changed(first, node="n0", phase="Succeeded"))
    assert allowed(dialogue, second) == {"n0", "n1", "n2", "n3"}


def test_two_pods_of_one_claim_that_are_decided_in_one_turn_are_not_both_bound() -> None:
    first, second = (pod(name, volumes=using("data")) for name in ("w1", "w2"))
    dialogue = registered(storage_class(), claim("data", one_pod=True, bound="pv"), volume("pv", "data"), first, second)
    keys = [dialogue.state.book.keys["team", name] for name in ("w1", "w2")]
    new = [si.Allocation(allocation_key=key, application_id="a", node_id=at) for key, at in zip(keys, ("n0", "n2"), strict=True)]
    assert dialogue.hear(si.AllocationResponse(new=new)) == ["release w2 STOPPED_BY_RM", "bind w1 to n0"]
    assert dialogue.confirm() == ["ask w2"]
    assert allowed(dialogue, second) == set()


def test_a_pod_of_another_scheduler_uses_a_claim_too() -> None:
    other = pod("o", node="n0", schedulerName="default-scheduler", volumes=using("data"))
    waiting = pod("w", volumes=using("data"))
    dialogue = registered(storage_class(), claim("data", one_pod=True, bound="pv"), volume("pv", "data"), other, waiting)
    assert allowed(dialogue, waiting) == set()
    dialogue.lose(other)
    assert len(allowed(dialogue, waiting)) == 4


@pytest.mark.parametrize("selected", ["", "gone"])
def test_pods_that_share_a_new_claim_run_where_its_volume_is_made(selected: str) -> None:
    """Also when another node was selected that has gone."""
    first, second = (pod(name, volumes=using("data")) for name in ("w1", "w2"))
    dialogue = registered(storage_class(), claim("data", selected=selected), first, second)
    keys = [dialogue.state.book.keys["team", name] for name in ("w1", "w2")]
    new = [si.Allocation(allocation_key=key, application_id="a", node_id=at) for key, at in zip(keys, ("n0", "n2"), strict=True)]
    assert dialogue.hear(si.AllocationResponse(new=new)) == [
        "release w2 STOPPED_BY_RM",
        "select n0 for data",
        "event about w1 WaitingForVolumes",
        "nominate n0 for w1",
    ]
    assert dialogue.confirm() == ["ask w2"]
    assert allowed(dialogue, second) == {"n0"}
    dialogue.see(claim("data", selected="n0", bound="pv"), volume("pv", "data", zones=["z1"]))
    assert allowed(dialogue, second) == {"n0", "n1"}


# ---- how many volumes a node takes


def offered(dialogue: Dialogue, name: str) -> int | None:
    """The number of volumes of the driver that a node offers, in the last report to the daemon."""
    told = None
    for effect in dialogue.effects:
        if isinstance(effect, Tell) and isinstance(effect.request, si.NodeRequest):
            for entry in effect.request.nodes:
                if entry.node_id == name and entry.schedulable_resource is not None:
                    told = entry.schedulable_resource.get(f"volumes.{DRIVER}")
    return told


def size_of(dialogue: Dialogue, name: str) -> dict[str, int]:
    size = dialogue.state.book.pods[dialogue.state.book.keys["team", name]].size
    return {resource: amount for resource, amount in size.items() if resource.startswith("volumes.")}


def test_a_node_takes_a_limited_number_of_volumes() -> None:
    """One for each claim, made or not; a driver without a limit does not count. Without one a node takes any number.

    A node that has not named the driver yet takes none: its limit is not known, and pods would be bound beyond it.
    """
    bound = [claim("a", bound="pv"), volume("pv", "a"), claim("n", bound="nfs"), volume("nfs", "n", driver="")]
    waiting = pod("w", volumes=[*using("a", "b", "n"), *using("a")])
    dialogue = registered(storage_class(), *bound, claim("b"), waiting)
    assert size_of(dialogue, "w") == {}
    assert offered(dialogue, "n0") is None
    said = dialogue.see(csi_node("n0", csi__example=2, other=None))
    assert said == ["UPDATE n0", "ask w"]
    assert size_of(dialogue, "w") == {f"volumes.{DRIVER}": 2}
    assert offered(dialogue, "n0") == 2
    assert offered(dialogue, "n1") is None
    assert dialogue.see(csi_node("n1", csi__example=None)) == ["UPDATE n1"]
    assert offered(dialogue, "n1") == 2**31 - 1
    assert dialogue.see(csi_node("n0", csi__example=5)) == ["UPDATE n0"]
    assert dialogue.lose(csi_node("n0")) == ["UPDATE n0", "UPDATE n1", "ask w"]
    assert offered(dialogue, "n0") is None


def test_pods_from_before_a_limit_was_known_stay_beyond_it_and_no_more_come() -> None:
    """Such pods stay, as with kube-scheduler, which counts no volumes where a CSINode names no limit (NodeVolumeLimits)."""
    whole = Whole(0)
    status = {"allocatable": {"cpu": "9", "memory": "16Gi", "pods": "110"}}
    whole.store.create("nodes", "", {"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}, "status": status})

    def running(*names: str) -> list[str]:
        for name in names:
            whole.try_claim(name)
            whole.create(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])
        whole.settle()
        return [each.metadata.name for each in whole.pods() if each.spec.node_name]

    assert running("a", "b", "c") == ["a", "b", "c"]
    limit_volumes(whole.store, "n1", 2)
    assert running("d") == ["a", "b", "c"]
    for name in ("a", "b"):
        whole.store.delete("pods", whole.store.get("pods", "team", name), {})
    assert running() == ["c", "d"]


def test_volumes_of_other_pods_count_on_their_nodes() -> None:
    other = pod("o", node="n0", schedulerName="default-scheduler", volumes=using("data"))
    dialogue = registered(storage_class(), claim("data", bound="pv"), volume("pv", "data"), csi_node("n0", csi__example=2), other)
    assert size_of(dialogue, "o") == {f"volumes.{DRIVER}": 1}


def test_conditions_of_claims_are_written_without_reasons_for_autoscalers() -> None:
    """Another node would not help."""
    dialogue = registered(pod("w", volumes=using("data")))
    (condition,) = [each for each in dialogue.effects if isinstance(each, SetCondition)]
    assert condition.reason == "SchedulingSkipped"
