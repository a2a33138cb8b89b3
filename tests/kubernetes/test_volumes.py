"""Claims of pods, against tables: why pods wait, which nodes will do, and how many volumes they count for."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from objects import node, pod
from storageobjects import DRIVER, ZONE, capacity, claim, csi_node, storage_class, using, volume

from ykactor.kubernetes.configuration import Configuration
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import ConfigMap, CSIStorageCapacity, Node
from ykactor.kubernetes.quantities import QuantityError
from ykactor.kubernetes.volumes import (
    Capacities,
    Storage,
    Use,
    capacity_of,
    claim_of,
    claims_of,
    class_of,
    refusal,
    volume_of,
    volumes_of,
)

WAITS, NOW = class_of(storage_class()), class_of(storage_class(waits=False))
MANUAL = "not supported: claim data needs a volume that people make, of the storage class wait"
PV = volume_of(volume("pv", "data"))


def use(body: Any = None, /, **more: Any) -> Use:
    """A claim that waits for the first pod."""
    return Use(**{"name": "data", "claim": claim_of(claim("data") if body is None else body), "storage_class": WAITS} | more)


# ---- why a pod waits


HOLD_BACK = [
    (use(), ""),
    (use(claim("data", bound="pv"), volume=PV), ""),
    (use(claim("data", bound="pv"), volume=PV, storage_class=None), ""),
    (use(claim("data", bound="pv"), volume=PV, storage_class=NOW), ""),
    (use(claim("data", bound="pv"), volume=volume_of(volume("pv", "other"))), "volume pv of claim data is not there"),
    (use(claim("data", bound="pv")), "volume pv of claim data is not there"),
    (Use("data"), "claim data is not there"),
    (Use("w-data", is_ephemeral=True), "claim w-data has not been made yet for its ephemeral volume"),
    (use(claim("data", owner="me"), is_ephemeral=True), ""),
    (use(claim("data", owner="you"), is_ephemeral=True), "claim data was not made for this pod"),
    (use(claim("data", owner="you")), ""),
    (use(claim("data", phase="Lost", bound="pv"), volume=PV), "claim data has lost its volume pv"),
    (use(claim("data", deleting=True)), "claim data is being deleted"),
    (use(claim("data", bound="pv", deleting=True), volume=PV), "claim data is being deleted"),
    (use(claim("data", volumeName="pv")), "claim data is not bound to its volume pv yet"),
    (use(storage_class=NOW), "claim data is not bound to a volume yet"),
    (use(storage_class=None), "claim data is not bound to a volume yet, and its storage class wait is not there"),
    (use(claim("data", storageClassName=""), storage_class=None), "claim data is not bound to a volume yet"),
    (use(storage_class=class_of(storage_class(provisioner=""))), MANUAL),
    (use(storage_class=class_of(storage_class(provisioner="kubernetes.io/no-provisioner"))), MANUAL),
]  # fmt: skip


@pytest.mark.parametrize(("used", "why"), HOLD_BACK)
def test_why_a_claim_holds_its_pod_back(used: Use, why: str) -> None:
    assert volumes_of(pod("w", uid="me"), [used], ()).hindrance == why


def test_the_first_of_several_claims_that_holds_a_pod_back_is_named() -> None:
    assert volumes_of(pod("w"), [use(), Use("one"), Use("two")], ()).hindrance == "claim one is not there"


@pytest.mark.parametrize(
    ("annotations", "name", "expected"),
    [
        ({}, "new", "new"),
        ({"volume.beta.kubernetes.io/storage-class": "old"}, "new", "old"),
        ({"volume.beta.kubernetes.io/storage-class": "old"}, "", "old"),
        ({}, "", ""),
    ],
)
def test_the_storage_class_of_a_claim(annotations: dict[str, str], name: str, expected: str) -> None:
    """The annotation of old claims comes first, as for Kubernetes."""
    assert claim_of(claim("data", annotations=annotations, storageClassName=name)).storage_class == expected


def test_a_claim_with_a_volume_is_bound_when_its_controller_says_so() -> None:
    assert claim_of(claim("data", bound="pv")).is_bound
    assert not claim_of(claim("data", volumeName="pv")).is_bound
    assert not claim_of(claim("data", annotations={"pv.kubernetes.io/bind-completed": "yes"})).is_bound


@pytest.mark.parametrize("size", ["", "much", "-1Gi", "1e30"])
def test_a_size_that_cannot_be_read(size: str) -> None:
    with pytest.raises(QuantityError):
        claim_of(claim("data", size=size))
    with pytest.raises(QuantityError):
        capacity_of(capacity("c", size))


def test_the_claims_of_a_pod() -> None:
    """Each once; an ephemeral one has the names of the pod and of the volume."""
    volumes = [*using("a", "b", ephemeral=["scratch"]), *using("a"), {"name": "c", "configMap": {"name": "c"}}]
    assert claims_of(pod("w", volumes=volumes)) == {
        Ref("team", "a"): False,
        Ref("team", "b"): False,
        Ref("team", "w-scratch"): True,
    }


# ---- which nodes will do


def in_zone(name: str, zone: str) -> Node:
    return node(name, labels={ZONE: zone} if zone else {})


EAST = volume_of(volume("pv", "data", zones=["z1", "z2"]))
WEST = volume_of(volume("pv", "data", zones=["z2", "z3"]))
IN_Z1 = class_of(storage_class(zones=["z1"]))
ANSWERS = [
    ([use()], "n1", "z1", ""),
    ([use(claim("data", bound="pv"), volume=PV)], "n1", "", ""),
    ([use(claim("data", bound="pv"), volume=EAST)], "n1", "z1", ""),
    ([use(claim("data", bound="pv"), volume=EAST)], "n1", "z3", "node affinity of a volume does not match"),
    ([use(claim("data", bound="pv"), volume=EAST)], "n1", "", "node affinity of a volume does not match"),
    ([use(claim("data", bound="pv"), volume=each) for each in (EAST, WEST)], "n1", "z2", ""),
    (
        [use(claim("data", bound="pv"), volume=each) for each in (EAST, WEST)],
        "n1",
        "z1",
        "node affinity of a volume does not match",
    ),
    ([use(storage_class=IN_Z1)], "n1", "z1", ""),
    ([use(storage_class=IN_Z1)], "n1", "z2", "storage class wait does not allow its topology"),
    ([use(storage_class=IN_Z1)], "n1", "", "storage class wait does not allow its topology"),
    ([use(is_tracked=True)], "n1", "z1", ""),
    ([use(claim("data", size="6Gi"), is_tracked=True)], "n1", "z1", "no room for a volume of the storage class wait"),
    ([use(claim("data", size="6Gi"))], "n1", "z1", ""),
    ([use(claim("data", resources={}), is_tracked=True)], "n1", "z9", ""),
    ([use(is_tracked=True)], "n1", "z2", "no room for a volume of the storage class wait"),
    ([use(promised="n1")], "n1", "z1", ""),
    ([use(promised="n2")], "n1", "z1", "the volume of a claim is made for node n2"),
    ([use(promised="n1"), use(promised="n2")], "n1", "z1", "the volume of a claim is made for node n2"),
    ([use(claim("data", bound="pv"), volume=PV, promised="n2")], "n1", "z1", ""),
    ([use(is_used=True)], "n1", "z1", ""),
    ([use(claim("data", one_pod=True))], "n1", "z1", ""),
    ([use(claim("data", one_pod=True), is_used=True)], "n1", "z1", "claim data is used by another pod, and only one may"),
]


@pytest.mark.parametrize(("uses", "name", "zone", "why"), ANSWERS)
def test_whether_a_node_will_do(uses: list[Use], name: str, zone: str, why: str) -> None:
    """Only the zone z1 has a known capacity: room for 5 GiB."""
    capacities = Capacities()
    capacities.put(Ref("csi", "c"), capacity_of(capacity("c", "9Gi", largest="5Gi")))
    needs = volumes_of(pod("w"), uses, ()).needs
    assert refusal(needs, in_zone(name, zone), capacities.has_room) == why


def test_topologies_of_a_storage_class_are_alternatives() -> None:
    terms = [
        {"matchLabelExpressions": [{"key": ZONE, "values": [zone]}, {"key": "disk", "values": [disk]}]} for zone, disk in ZONES
    ]
    found = class_of(msgspec.convert({**msgspec.to_builtins(storage_class()), "allowedTopologies": terms}, type(storage_class())))
    needs = volumes_of(pod("w"), [use(storage_class=found)], ()).needs
    fitting = {
        (zone, disk)
        for zone in ("z1", "z2")
        for disk in ("ssd", "hdd")
        if not refusal(needs, node("n", labels={ZONE: zone, "disk": disk}), Capacities().has_room)
    }
    assert fitting == set(ZONES)


ZONES = [("z1", "ssd"), ("z2", "hdd")]

ROOMS = [
    (capacity("c", "5Gi"), 5),
    (capacity("c", "5Gi", largest="2Gi"), 2),
    (capacity("c", None, largest="2Gi"), 2),
    (capacity("c", None), None),
    (capacity("c", "5Gi", zone=None), None),
    (capacity("c", "5Gi", zone=""), 5),
    (capacity("c", "0"), 0),
]


@pytest.mark.parametrize(("found", "size"), ROOMS)
def test_the_largest_volume_for_which_there_is_room(found: CSIStorageCapacity, size: int | None) -> None:
    kept = capacity_of(found)
    assert (None if kept is None else kept.size) == (None if size is None else size << 30)


@pytest.mark.parametrize("seed", range(20))
def test_rooms_are_found_as_by_looking_at_all_of_them(seed: int) -> None:
    """However they come, change and go."""
    rng, capacities, there = random.Random(seed), Capacities(), dict[Ref, CSIStorageCapacity]()
    for _ in range(60):
        ref = Ref("csi", f"c{rng.randrange(6)}")
        found = capacity(
            ref.name, f"{rng.randrange(5)}Gi", zone=rng.choice(("z1", "z2", "", None)), of=rng.choice(("wait", "other"))
        )
        if rng.random() < 0.3:
            there.pop(ref, None)
            capacities.put(ref, None)
        else:
            there[ref] = found
            capacities.put(ref, capacity_of(found))
        labels, size = {ZONE: rng.choice(("z1", "z2", "z3")), "a": "b"}, rng.randrange(5) << 30
        naive = any(
            (kept := capacity_of(each)) is not None and kept.storage_class == "wait" and kept.size >= size and kept.covers(labels)
            for each in there.values()
        )
        assert capacities.has_room("wait", size, labels) is naive
    assert set(capacities.refs()) <= there.keys()


# ---- how many volumes


def test_volumes_count_by_driver() -> None:
    """Made or not, if a node takes a limited number of them."""
    uses = [
        use(),
        use(claim("data", bound="pv"), volume=PV),
        use(claim("data", bound="pv"), volume=volume_of(volume("pv", "data", driver="x"))),
    ]
    assert volumes_of(pod("w"), uses, ()).amounts == {}
    assert volumes_of(pod("w"), uses, (DRIVER,)).amounts == {f"volumes.{DRIVER}": 2}
    assert volumes_of(pod("w"), uses, (DRIVER, "x")).amounts == {f"volumes.{DRIVER}": 2, "volumes.x": 1}


def test_what_nodes_offer() -> None:
    """A limit of 0 is none at all, not no limit. A driver that is not installed there (yet) has no volumes."""
    storage = Storage()
    assert storage.offered("n1") == {}
    assert storage.put_limits("n1", csi_node("n1", a=0, b=None))
    assert not storage.put_limits("n2", csi_node("n2", a=7, b=None))
    assert storage.offered("n1") == {"volumes.a": 0}
    assert storage.offered("n2") == {"volumes.a": 7}
    assert storage.offered("n3") == {"volumes.a": 0}
    assert not storage.put_limits("n3", csi_node("n3", b=None))
    assert storage.offered("n3") == {"volumes.a": 0}
    assert not storage.put_limits("n3", csi_node("n3", a=None, b=None))
    assert storage.offered("n3") == {"volumes.a": 2**31 - 1}
    assert not storage.put_limits("n3", None)
    assert not storage.put_limits("n1", csi_node("n1"))
    assert storage.put_limits("n2", None)
    assert storage.offered("n1") == {}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600), ("1h30m", 5400), ("90s", 90), ("1.5m", 90), ("1m500ms", 60.5), ("", 600),
        ("soon", 600), ("10", 600), ("0s", 600), ("-1m", 600), ("1 m", 600), ("1m ", 600), ("m", 600), ("1d", 600), ("1e9s", 600),
    ],
)  # fmt: skip
def test_the_time_for_making_volumes(text: str, seconds: float) -> None:
    """A duration as Go writes it; what cannot be read is told, and the default holds."""
    body = {"metadata": {"name": "yunikorn-configs"}, "data": {"service.volumeBindTimeout": text}}
    configuration = Configuration()
    complaints = configuration.take("yunikorn-configs", msgspec.convert(body, ConfigMap))
    assert configuration.bind_timeout_s == seconds
    assert bool(complaints) is (seconds == 600 and text not in ("", "10m"))
