"""Records of pods, nodes and applications: what the adapter knows of them, and what it has told the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from ykactor.kubernetes import pods
from ykactor.kubernetes.constraints import HostPort, ports_of
from ykactor.kubernetes.gangs import Gang
from ykactor.kubernetes.index import Index
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import Node, Pod
from ykactor.kubernetes.nodes import Offer
from ykactor.kubernetes.quantities import QuantityError
from ykactor.kubernetes.topology import NO_WISHES, Wishes
from ykactor.kubernetes.volumes import NO_VOLUMES, PodVolumes, claims_of
from ykactor.wire.si import messages as si


class Why(NamedTuple):
    """The reason and the message in the condition of a waiting pod."""

    reason: str
    message: str


class PodRecord(Struct, eq=False):
    """A pod.

    Attributes:
        pod: as the API server has it now.
        requests: what its containers count for, in base units; empty if that cannot be read.
        size: the same with its volumes.
        complaint: why it cannot be asked for: its size cannot be read, or it needs what is not supported.
        class_name: its predicate class; "" for a pod of another scheduler.
        wishes: what it requires of the pods near it.
        claims: that it uses.
        volumes: what they mean for it.
        application: the name of its application; "" for a pod of another scheduler.
        told: what the daemon knows of it; None for nothing.
        node: where the scheduler has placed it, before the API server says so; "" if it has not.
        is_binding: True while its bind has not ended.
        is_bound: True if the API server has bound it, also before the watch shows it.
        termination: the type of a release that the scheduler has started; "" if it has not.
        unconfirmed: where it was reported to run, until the daemon repeats that (AP-109); "" if nothing is to be repeated.
        is_refused: the daemon has rejected its application, or it was failed: it is not asked for again.
        remarks: what else is wrong with it: a reason and a sentence each.
        why: what its condition has to say while it waits; None if that is not known.
        version: of the pod.
        written_why, written_node: its condition and the node that its status names, as they are being written over this version,
            or were and have not been seen; None for nothing.
        is_gated: a bind has found scheduling gates that no event has shown yet.
    """

    pod: Pod
    key: str = ""
    told: si.Allocation | None = None
    node: str = ""
    is_binding: bool = False
    is_bound: bool = False
    is_refused: bool = False
    is_gated: bool = False
    termination: str = ""
    unconfirmed: str = ""
    class_name: str = ""
    application: str = ""
    wishes: Wishes = NO_WISHES
    remarks: list[tuple[str, str]] = []
    why: Why | None = None
    written_why: Why | None = None
    written_node: str | None = None
    version: str = ""
    volumes: PodVolumes = NO_VOLUMES
    claims: tuple[Ref, ...] = ()
    ports: tuple[HostPort, ...] = ()
    complaint: str = ""
    requests: dict[str, int] = {}
    size: dict[str, int] = {}

    def __post_init__(self) -> None:
        self.key = pods.key_of(self.pod)
        self.claims = tuple(claims_of(self.pod))
        self.update(self.pod)

    def update(self, pod: Pod) -> None:
        """The pod has changed."""
        self.pod = pod
        if self.version != pod.metadata.resource_version:
            self.version = pod.metadata.resource_version
            self.forget_written()
        self.is_gated = False
        self.ports = ports_of(pod)
        needs = ", ".join(pods.unmet_needs(pod)) if not pod.spec.node_name else ""
        self.complaint = f"not supported: {needs}" if needs else ""
        try:
            self.requests = pods.requests_of(pod)
        except QuantityError as error:
            self.requests, self.complaint = {}, str(error)
        self.set_volumes(self.volumes)

    def set_volumes(self, volumes: PodVolumes) -> None:
        """Set what its claims mean for it."""
        self.volumes = volumes
        self.size = {**self.requests, **volumes.amounts} if self.requests and volumes.amounts else self.requests

    def forget_written(self) -> None:
        """Take the pod for what it says now."""
        self.written_why = self.written_node = None

    @property
    def nominated(self) -> str:
        """The node that its status names."""
        return self.pod.status.nominated_node_name if self.written_node is None else self.written_node

    @property
    def shown(self) -> Why | None:
        """The reason for waiting in its condition."""
        if self.written_why is not None:
            return self.written_why
        known = next((each for each in self.pod.status.conditions if each.type == "PodScheduled"), None)
        return Why(known.reason, known.message) if known is not None and known.status == "False" else None

    @property
    def ref(self) -> Ref:
        """The namespace and the name of the pod."""
        return Ref(self.pod.metadata.namespace, self.pod.metadata.name)

    @property
    def place(self) -> str:
        """The node where it runs or is to run; "" while it waits."""
        return self.pod.spec.node_name or self.node


class GroupRecord(Struct):
    """A PodGroup.

    Attributes:
        min_count: so many pods run together or none.
        seen: what its condition says: why it waits, "" if it does not; None for nothing.
        why: what it has to say; None if that is not known.
        written: what is being written over what was seen, or was and has not been seen; None for nothing.
    """

    min_count: int
    seen: str | None
    why: str | None = None
    written: str | None = None

    @property
    def shown(self) -> str | None:
        """The message of its condition, as it is or will be."""
        return self.seen if self.written is None else self.written


class NodeRecord(Struct, eq=False):
    """A node.

    Attributes:
        offer: what it offers.
        told: what the daemon knows of it; None for nothing.
    """

    node: Node
    offer: Offer
    told: Offer | None = None


class ApplicationRecord(Struct, eq=False):
    """An application: pods with one application name.

    Attributes:
        keys: its pods, in the order of their arrival.
        is_told: True if the daemon knows it.
        queue: the leaf where it was placed; "" before.
        gang: of the first pod; None if it is no gang.
        group: the PodGroup that it is; None if it is none.
        hindrance: why the PodGroup cannot begin; "" if it can.
        quotas: those of its namespace that the daemon was told last.
        rooms: of a PodGroup, the placeholders without pods, each with the member for which it holds room.
        lacks_room: the daemon has said that a placeholder waits.
        is_started: its gang has all its room, or is over: real pods are asked for.
    """

    name: str
    first: str
    namespace: str
    group: Ref | None
    keys: dict[str, None] = {}
    is_told: bool = False
    is_started: bool = False
    placeholders_made: bool = False
    lacks_room: bool = False
    queue: str = ""
    hindrance: str = ""
    quotas: Mapping[str, str] = {}
    gang: Gang | None = None
    rooms: dict[str, str] = {}


class Applications(dict[str, ApplicationRecord]):
    """The applications by name; those of a namespace or a PodGroup are found without looking at the others."""

    def __init__(self) -> None:
        super().__init__()
        self._of = Index[str | Ref, str]()

    def of(self, owner: str | Ref) -> list[ApplicationRecord]:
        """The applications of a namespace, or of a PodGroup."""
        return [self[name] for name in self._of.of(owner)]

    def add(self, application: ApplicationRecord) -> None:
        """An application is new; its PodGroup is known."""
        self[application.name] = application
        for owner in _owners(application):
            self._of.add(owner, application.name)

    def discard(self, application: ApplicationRecord) -> None:
        """An application has ended, or never begun."""
        del self[application.name]
        for owner in _owners(application):
            self._of.discard(owner, application.name)


def _owners(application: ApplicationRecord) -> list[str | Ref]:
    return [application.namespace, *([] if application.group is None else [application.group])]
