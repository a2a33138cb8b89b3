"""Claims of pods: why they hold a pod back, where their volumes can be, and how many volumes of each driver it attaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from ykactor.kubernetes import model, quantities
from ykactor.kubernetes.constraints import meets_one, selects, terms_of
from ykactor.kubernetes.index import Index
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import CSINode, CSIStorageCapacity, LabelSelector, Node, NodeSelectorTerm, Pod

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
#: The provisioner of classes whose volumes people make.
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ONE_POD = "ReadWriteOncePod"

#: A label of nodes, and the values that it may have.
Topology = tuple[tuple[str, tuple[str, ...]], ...]
#: True if there is room for a volume of a storage class and size near a node with these labels.
HasRoom = Callable[[str, int, Mapping[str, str]], bool]


# ---- what is kept of objects


class Claim(Struct, frozen=True):
    """A PersistentVolumeClaim.

    Attributes:
        owners: their uids.
        size: in bytes; None if it does not say.
        volume: the volume that it has, or waits for; "" for any.
        selected: the node for which its volume is made; "" for none.
        is_exclusive: only one pod may use it.
    """

    ref: Ref
    uid: str
    owners: tuple[str, ...]
    storage_class: str
    size: int | None
    volume: str
    selected: str
    is_bound: bool
    is_lost: bool
    is_deleting: bool
    is_exclusive: bool


def claim_of(found: model.PersistentVolumeClaim) -> Claim:
    """Raises QuantityError if its size cannot be read."""
    meta, spec = found.metadata, found.spec
    storage = spec.resources.requests.get("storage")
    return Claim(
        ref=Ref(meta.namespace, meta.name),
        uid=meta.uid,
        owners=tuple(each.uid for each in meta.owner_references),
        storage_class=meta.annotations.get(_OLD_CLASS) or spec.storage_class_name,
        size=None if storage is None else quantities.parse(storage, up=True),
        volume=spec.volume_name,
        selected=meta.annotations.get(SELECTED_NODE, ""),
        is_bound=bool(spec.volume_name) and _BIND_COMPLETED in meta.annotations,
        is_lost=found.status.phase == "Lost",
        is_deleting=meta.deletion_timestamp is not None,
        is_exclusive=_ONE_POD in spec.access_modes,
    )


class Volume(Struct, frozen=True):
    """A PersistentVolume.

    Attributes:
        claim: that it belongs to.
        terms: its node meets one of them; None if it can be anywhere.
        driver: of CSI; "" for another kind of volume.
    """

    claim: Ref | None
    terms: tuple[NodeSelectorTerm, ...] | None
    driver: str


def volume_of(found: model.PersistentVolume) -> Volume:
    """The part of a PersistentVolume that is kept."""
    spec = found.spec
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    return Volume(
        claim=Ref(spec.claim_ref.namespace, spec.claim_ref.name) if spec.claim_ref is not None else None,
        terms=None if required is None else terms_of(required),
        driver=spec.csi.driver if spec.csi is not None else "",
    )


class StorageClass(Struct, frozen=True):
    """A StorageClass.

    Attributes:
        waits: its volumes are made when the node of the first pod is known.
        topologies: the labels of a node meet one of them; empty if all nodes will do.
    """

    name: str
    provisioner: str
    waits: bool
    topologies: tuple[Topology, ...]


def class_of(found: model.StorageClass) -> StorageClass:
    """The part of a StorageClass that is kept."""
    terms = [term.match_label_expressions for term in found.allowed_topologies]
    topologies = {tuple(sorted((each.key, tuple(sorted(each.values))) for each in term)) for term in terms}
    waits = found.volume_binding_mode == "WaitForFirstConsumer"
    return StorageClass(found.metadata.name, found.provisioner, waits, tuple(sorted(topologies)))


# ---- what pods use


def claims_of(pod: Pod) -> dict[Ref, bool]:
    """The claims of a pod; True for one that Kubernetes makes for a volume of this pod alone."""
    namespace, found = pod.metadata.namespace, dict[Ref, bool]()
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            found[Ref(namespace, f"{pod.metadata.name}-{volume.name}")] = True
        elif volume.persistent_volume_claim is not None:
            found.setdefault(Ref(namespace, volume.persistent_volume_claim.claim_name), False)
    return found


class Use(Struct, frozen=True):
    """A claim that a pod uses, with all that is known about it.

    Attributes:
        name: of the claim.
        claim, volume, storage_class: None for one that is not there.
        is_ephemeral: Kubernetes makes the claim for this pod.
        is_tracked: the driver says how much room it has.
        promised: the node where its volume has to be because another pod needs it there, or it is being made there; "" for none.
        is_used: another pod that runs or is to run uses it.
    """

    name: str
    claim: Claim | None = None
    volume: Volume | None = None
    storage_class: StorageClass | None = None
    is_ephemeral: bool = False
    is_tracked: bool = False
    promised: str = ""
    is_used: bool = False

    @property
    def is_unbound(self) -> bool:
        """True if its volume has yet to be made for a node."""
        return self.claim is not None and not self.claim.is_bound

    @property
    def driver(self) -> str:
        """The driver of its volume."""
        if self.is_unbound:
            return "" if self.storage_class is None else self.storage_class.provisioner
        return "" if self.volume is None else self.volume.driver


class Provision(Struct, frozen=True, order=True):
    """A volume that has to be made.

    Attributes:
        topologies: as of its storage class.
        size: for which there has to be room; -1 if the driver does not say how much it has.
    """

    storage_class: str
    topologies: tuple[Topology, ...]
    size: int


class Needs(Struct, frozen=True):
    """The requirements of claims on a node, in a form that is equal for equal requirements.

    Attributes:
        affinities: terms of bound volumes; the node meets one of each.
        provisions: the volumes that have to be made.
        promised: the only nodes, because claims are provisioned there.
        used: claims that another pod has, and only one may have.
    """

    affinities: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    provisions: tuple[Provision, ...] = ()
    promised: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


class PodVolumes(Struct, frozen=True):
    """The claims of a pod together.

    Attributes:
        complaint: why it cannot run now; "" if it can.
        unseen: the volume of a claim that is not known yet, in words; "" if all are known.
        unbound: claims whose volumes are made when its node is known.
        amounts: ``volumes.DRIVER``, one for each claim of a driver whose volumes are limited somewhere.
    """

    complaint: str = ""
    unseen: str = ""
    needs: Needs = Needs()
    unbound: tuple[Ref, ...] = ()
    amounts: Mapping[str, int] = {}

    @property
    def hindrance(self) -> str:
        """The reason why it cannot be asked for; "" if it can."""
        return self.complaint or self.unseen


NO_VOLUMES = PodVolumes()


def volumes_of(pod: Pod, uses: Sequence[Use], limited: Collection[str]) -> PodVolumes:
    """The consequences of its claims for a pod.

    Args:
        limited: drivers of which some node takes a limited number of volumes.
    """
    amounts = dict[str, int]()
    for use in uses:
        if use.driver in limited:
            name = resource_of(use.driver)
            amounts[name] = amounts.get(name, 0) + 1
    return PodVolumes(
        complaint=next(filter(None, (_complaint(pod, use) for use in uses)), ""),
        unseen=next(filter(None, map(_unseen, uses)), ""),
        needs=_needs(uses),
        unbound=tuple(use.claim.ref for use in uses if use.claim is not None and use.is_unbound),
        amounts=amounts,
    )


def resource_of(driver: str) -> str:
    """The name under which the daemon counts volumes of a driver."""
    return f"volumes.{driver}"


def _complaint(pod: Pod, use: Use) -> str:
    """The reason why a pod cannot use a claim now."""
    claim, name = use.claim, use.name
    if claim is None:
        return f"claim {name} " + ("has not been made yet for its ephemeral volume" if use.is_ephemeral else "is not there")
    if use.is_ephemeral and pod.metadata.uid not in claim.owners:
        return f"claim {name} was not made for this pod"
    if claim.is_lost:
        return f"claim {name} has lost its volume {claim.volume}"
    if claim.is_deleting:
        return f"claim {name} is being deleted"
    return "" if claim.is_bound else _why_unbound(claim, use.storage_class)


def _why_unbound(claim: Claim, storage_class: StorageClass | None) -> str:
    """The reason why a claim stays unbound when its pod is placed; "" if its volume is made then."""
    name = claim.ref.name
    if claim.volume:
        return f"claim {name} is not bound to its volume {claim.volume} yet"
    if storage_class is None:
        of = f", and its storage class {claim.storage_class} is not there" if claim.storage_class else ""
        return f"claim {name} is not bound to a volume yet{of}"
    if not storage_class.waits:
        return f"claim {name} is not bound to a volume yet"
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        return f"not supported: claim {name} needs a volume that people make, of the storage class {storage_class.name}"
    return ""


def _unseen(use: Use) -> str:
    """The watch of volumes may be behind that of claims."""
    if use.claim is None or not use.claim.is_bound or (use.volume is not None and use.volume.claim in (None, use.claim.ref)):
        return ""
    return f"volume {use.claim.volume} of claim {use.name} is not there"


def _needs(uses: Sequence[Use]) -> Needs:
    bound = (use.volume.terms for use in uses if use.volume is not None and use.volume.terms is not None and not use.is_unbound)
    affinities = {msgspec.json.encode(terms): terms for terms in bound}
    return Needs(
        affinities=tuple(affinities[text] for text in sorted(affinities)),
        provisions=tuple(sorted(set(_provisions(uses)))),
        promised=tuple(sorted({use.promised for use in uses if use.is_unbound and use.promised})),
        used=tuple(sorted(use.name for use in uses if use.is_used and use.claim is not None and use.claim.is_exclusive)),
    )


def _provisions(uses: Iterable[Use]) -> Iterator[Provision]:
    for use in uses:
        if use.claim is not None and use.is_unbound and use.storage_class is not None:
            size = use.claim.size if use.is_tracked and use.claim.size is not None else -1
            yield Provision(use.storage_class.name, use.storage_class.topologies, size)


# ---- answers


def refusal(needs: Needs, node: Node, has_room: HasRoom) -> str:
    """The reason why the claims of a pod keep it from a node; "" if they do not."""
    if needs.used:
        return f"claim {needs.used[0]} is used by another pod, and only one may"
    for name in needs.promised:
        if name != node.metadata.name:
            return f"the volume of a claim is made for node {name}"
    why = affinity_refusal(needs, node)
    return why or next(filter(None, (_provision_refusal(each, node, has_room) for each in needs.provisions)), "")


def affinity_refusal(needs: Needs, node: Node) -> str:
    """The reason why volumes that are there cannot be used on a node; "" if they can."""
    if all(meets_one(terms, node) for terms in needs.affinities):
        return ""
    return "node affinity of a volume does not match"


def _provision_refusal(wanted: Provision, node: Node, has_room: HasRoom) -> str:
    labels = node.metadata.labels
    if wanted.topologies and not any(_is_in(topology, labels) for topology in wanted.topologies):
        return f"storage class {wanted.storage_class} does not allow its topology"
    if wanted.size >= 0 and not has_room(wanted.storage_class, wanted.size, labels):
        return f"no room for a volume of the storage class {wanted.storage_class}"
    return ""


def _is_in(topology: Topology, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) in values for key, values in topology)


# ---- the room that drivers say they have


class Capacity(Struct, frozen=True):
    """A CSIStorageCapacity.

    Attributes:
        nodes: the nodes that can use it.
        size: of the largest volume that can be made, in bytes.
    """

    storage_class: str
    nodes: LabelSelector
    size: int

    def covers(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels can use it."""
        return selects(self.nodes, labels)


def capacity_of(found: CSIStorageCapacity) -> Capacity | None:
    """The part of a CSIStorageCapacity that is kept; None for one that no node can use.

    Raises:
        QuantityError: its size cannot be read.
    """
    largest = found.maximum_volume_size if found.maximum_volume_size is not None else found.capacity
    if found.node_topology is None or largest is None:
        return None
    return Capacity(found.storage_class_name, found.node_topology, quantities.parse(largest, up=False))


class Capacities:
    """The newest of these objects."""

    def __init__(self) -> None:
        self._all: dict[Ref, Capacity] = {}
        #: By storage class and a label that the nodes have; None for those whose selector names none.
        self._by_label = Index[tuple[str, tuple[str, str] | None], Ref]()

    def refs(self) -> list[Ref]:
        """The objects that are known."""
        return list(self._all)

    def put(self, ref: Ref, capacity: Capacity | None) -> Capacity | None:
        """An object is new, has changed or is gone (None); returns what it was before."""
        before = self._all.pop(ref, None)
        if before is not None:
            self._by_label.discard(_place(before), ref)
        if capacity is not None:
            self._all[ref] = capacity
            self._by_label.add(_place(capacity), ref)
        return before

    def has_room(self, storage_class: str, size: int, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels can use a new volume of this class and size."""
        for label in (None, *labels.items()):
            for ref in self._by_label.of((storage_class, label)):
                capacity = self._all[ref]
                if capacity.size >= size and capacity.covers(labels):
                    return True
        return False


def _place(capacity: Capacity) -> tuple[str, tuple[str, str] | None]:
    return capacity.storage_class, min(capacity.nodes.match_labels.items(), default=None)


# ---- all that is known of claims and volumes, and which pods use them

#: What a node offers of a driver that is installed there and does not say how many volumes it takes.
UNLIMITED = 2**31 - 1


class Storage:
    """The newest of these objects, and the claims of pods.

    Attributes:
        claims, volumes, classes: by their names.
        tracked: the drivers that say how much room they have.
        written: claims whose annotation was written, and has not been seen yet: the node, "" for none.
        nodes: the names of the nodes; what is known of them is written elsewhere.
    """

    def __init__(self) -> None:
        self.claims: dict[Ref, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.tracked: set[str] = set()
        self.written: dict[Ref, str] = {}
        self.nodes: Collection[str] = ()
        #: By node, of the drivers that are installed there.
        self._limits: dict[str, dict[str, int]] = {}
        #: Drivers with a limit, by how many nodes have one.
        self._limited: Counter[str] = Counter()
        self._pods = Index[Ref, str]()
        #: The places of the pods that have one, by claim and key.
        self._places: dict[Ref, dict[str, str]] = {}

    # ---- pods

    def use(self, key: str, claims: Iterable[Ref]) -> None:
        """A pod that is new uses these claims."""
        for ref in claims:
            self._pods.add(ref, key)

    def disuse(self, key: str, claims: Iterable[Ref]) -> None:
        """A pod is gone."""
        for ref in claims:
            self._pods.discard(ref, key)

    def settle(self, key: str, claims: Iterable[Ref], place: str) -> list[str]:
        """A pod has a place, or none any more (""); returns the other pods for which its claims mean something else now.

        They do when the first pod of a claim gets a place, and when the last one loses it.
        """
        changed = list[str]()
        for ref in claims:
            places = self._places.setdefault(ref, {})
            others = len(places) - (key in places)
            if place:
                places[key] = place
            else:
                places.pop(key, None)
            if not others and self._depends_on_places(ref):
                changed += (each for each in self.pods_of(ref) if each != key)
            if not places:
                del self._places[ref]
        return changed

    def _depends_on_places(self, ref: Ref) -> bool:
        claim = self.claims.get(ref)
        return claim is not None and (claim.is_exclusive or not claim.is_bound)

    def pods_of(self, ref: Ref) -> Iterable[str]:
        """The keys of the pods that use a claim."""
        return self._pods.of(ref)

    def used_claims(self) -> Iterable[Ref]:
        """The claims that pods use."""
        return self._pods

    def of_pod(self, key: str, pod: Pod) -> PodVolumes:
        """The consequences of its claims for a pod."""
        claims = claims_of(pod)
        if not claims:
            return NO_VOLUMES
        uses = [self._use(key, ref, is_ephemeral=is_ephemeral) for ref, is_ephemeral in claims.items()]
        return volumes_of(pod, uses, self._limited)

    def _use(self, key: str, ref: Ref, *, is_ephemeral: bool) -> Use:
        claim = self.claims.get(ref)
        if claim is None:
            return Use(ref.name, is_ephemeral=is_ephemeral)
        storage_class = self.classes.get(claim.storage_class)
        place, selected = self.place_of(ref, but=key), self.selected(ref)
        promised = selected if selected in self.nodes else place
        return Use(
            name=ref.name,
            claim=claim,
            volume=self.volumes.get(claim.volume) if claim.is_bound else None,
            storage_class=storage_class,
            is_ephemeral=is_ephemeral,
            is_tracked=storage_class is not None and storage_class.provisioner in self.tracked,
            promised=promised if promised in self.nodes else "",
            is_used=bool(place),
        )

    def place_of(self, ref: Ref, *, but: str) -> str:
        """The place of a pod that uses a claim, other than this one; "" if none has one."""
        return next((place for key, place in self._places.get(ref, {}).items() if key != but), "")

    # ---- nodes for which volumes are made

    def selected(self, ref: Ref) -> str:
        """The node for which the volume of a claim is made, as it was written or seen last."""
        claim = self.claims.get(ref)
        return self.written.get(ref, "" if claim is None else claim.selected)

    def put_claim(self, ref: Ref, claim: Claim | None) -> bool:
        """A claim is new, has changed or is gone (None); returns True if it means something else for pods."""
        selected, known = self.selected(ref), self.claims.pop(ref, None)
        if claim is not None:
            self.claims[ref] = claim
        if claim is None or known is None or claim.uid != known.uid or self.written.get(ref) == claim.selected:
            self.written.pop(ref, None)
        return (known, selected) != (claim, self.selected(ref))

    # ---- limits

    def put_limits(self, node: str, found: CSINode | None) -> bool:
        """The limits of a node are new, have changed or are gone; returns True if another set of drivers is limited now."""
        before = set(self._limited)
        self._limited -= Counter(_limited_in(self._limits.pop(node, {})))
        limits = {} if found is None else _limits_of(found)
        if limits:
            self._limits[node] = limits
            self._limited.update(_limited_in(limits))
        return before != set(self._limited)

    def nodes_with_drivers(self) -> list[Ref]:
        """The nodes whose drivers are known."""
        return [Ref("", name) for name in self._limits]

    def offered(self, node: str) -> Mapping[str, int]:
        """The volumes that a node takes, by the names of resources: none of a driver that is not installed there, or not yet."""
        limits = self._limits.get(node, {})
        return {resource_of(driver): limits.get(driver, 0) for driver in self._limited}


def _limits_of(found: CSINode) -> dict[str, int]:
    counts = {each.name: None if each.allocatable is None else each.allocatable.count for each in found.spec.drivers}
    return {name: UNLIMITED if count is None else max(0, count) for name, count in counts.items()}


def _limited_in(limits: Mapping[str, int]) -> list[str]:
    return [driver for driver, limit in limits.items() if limit < UNLIMITED]
