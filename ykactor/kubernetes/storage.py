"""All that is known of claims and volumes, and which pods use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.storagemodel import CSINode
from ykactor.kubernetes.volumes import NONE, Claim, PodVolumes, StorageClass, Use, Volume, claims_of, resource_of, volumes_of

#: What a node offers of a driver that does not say how many volumes it takes there.
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
        self._limits: dict[str, dict[str, int]] = {}
        #: Drivers with a limit, by how many nodes have one.
        self._limited: Counter[str] = Counter()
        self._pods: dict[Ref, dict[str, None]] = {}
        #: The places of the pods that have one, by claim and key.
        self._places: dict[Ref, dict[str, str]] = {}

    # ---- pods

    def use(self, key: str, claims: Iterable[Ref]) -> None:
        """A pod that is new uses these claims."""
        for ref in claims:
            self._pods.setdefault(ref, {})[key] = None

    def disuse(self, key: str, claims: Iterable[Ref]) -> None:
        """A pod is gone."""
        for ref in claims:
            there = self._pods.get(ref, {})
            there.pop(key, None)
            if not there:
                self._pods.pop(ref, None)

    def settle(self, key: str, claims: Iterable[Ref], place: str) -> list[str]:
        """A pod has a place; returns the other pods for which its claims mean something else now."""
        return self._change_places(key, claims, place)

    def unsettle(self, key: str, claims: Iterable[Ref]) -> list[str]:
        """A pod has none any more; returns as ``settle``."""
        return self._change_places(key, claims, "")

    def _change_places(self, key: str, claims: Iterable[Ref], place: str) -> list[str]:
        """Compare other pods again when the first pod of a claim gets a place, and when the last one loses it."""
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
        return self._pods.get(ref, ())

    def used_claims(self) -> Iterable[Ref]:
        """The claims that pods use."""
        return self._pods

    def of_pod(self, key: str, pod: Pod) -> PodVolumes:
        """The consequences of its claims for a pod."""
        claims = claims_of(pod)
        if not claims:
            return NONE
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
        for driver in self._limits.pop(node, {}):
            self._limited[driver] -= 1
            if not self._limited[driver]:
                del self._limited[driver]
        limits = {} if found is None else _limits_of(found)
        if limits:
            self._limits[node] = limits
            self._limited.update(list(limits))
        return before != set(self._limited)

    def limited_nodes(self) -> list[Ref]:
        """The nodes with limits."""
        return [Ref("", name) for name in self._limits]

    def offered(self, node: str) -> Mapping[str, int]:
        """The volumes that a node takes, by the names of resources."""
        limits = self._limits.get(node, {})
        return {resource_of(driver): limits.get(driver, UNLIMITED) for driver in self._limited}


def _limits_of(found: CSINode) -> dict[str, int]:
    counts = {each.name: each.allocatable.count for each in found.spec.drivers if each.allocatable is not None}
    return {name: max(0, count) for name, count in counts.items() if count is not None}
