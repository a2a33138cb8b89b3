"""Stimuli, which the state is told, and effects, which it wants done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from ykactor.client import Refusal
from ykactor.kubernetes import model
from ykactor.kubernetes.model import Object
from ykactor.wire.si import messages as si


class Kind(StrEnum):
    """Kinds of objects that are watched."""

    NAMESPACES = "namespaces"
    CONFIG_MAPS = "configmaps"
    PRIORITY_CLASSES = "priorityclasses"
    BUDGETS = "poddisruptionbudgets"
    POD_GROUPS = "podgroups"
    NODES = "nodes"
    STORAGE_CLASSES = "storageclasses"
    CSI_DRIVERS = "csidrivers"
    CSI_NODES = "csinodes"
    CAPACITIES = "csistoragecapacities"
    VOLUMES = "persistentvolumes"
    CLAIMS = "persistentvolumeclaims"
    PODS = "pods"


#: What is read of the objects of each kind; these types have the names that Kubernetes has for their objects.
TYPES: dict[Kind, type[Object]] = {
    Kind.NAMESPACES: model.Namespace,
    Kind.CONFIG_MAPS: model.ConfigMap,
    Kind.PRIORITY_CLASSES: model.PriorityClass,
    Kind.BUDGETS: model.PodDisruptionBudget,
    Kind.POD_GROUPS: model.PodGroup,
    Kind.NODES: model.Node,
    Kind.STORAGE_CLASSES: model.StorageClass,
    Kind.CSI_DRIVERS: model.CSIDriver,
    Kind.CSI_NODES: model.CSINode,
    Kind.CAPACITIES: model.CSIStorageCapacity,
    Kind.VOLUMES: model.PersistentVolume,
    Kind.CLAIMS: model.PersistentVolumeClaim,
    Kind.PODS: model.Pod,
}


class Ref(NamedTuple):
    """A namespaced object, or one of the cluster (``namespace`` is "")."""

    namespace: str
    name: str


# ---- stimuli


class Listed(NamedTuple):
    """All objects of a kind, with the names of those that cannot be read; what was known before and is not among them is gone."""

    kind: Kind
    objects: Sequence[Object]
    unreadable: Sequence[Ref] = ()


class Changed(NamedTuple):
    """An object is new or has changed."""

    kind: Kind
    object: Object


class Gone(NamedTuple):
    """An object was deleted; ``uid`` is that of the deleted one."""

    kind: Kind
    ref: Ref
    uid: str


class Unreadable(NamedTuple):
    """An object cannot be read; it stays as it was known before, if it was."""

    kind: Kind
    ref: Ref
    uid: str
    reason: str


class Heard(NamedTuple):
    """A message of the daemon. ``RegisterResourceManagerResponse`` says that the daemon has to be told everything."""

    message: si.Response | Refusal


class BindOutcome(StrEnum):
    """The end of a bind."""

    DONE = "done"
    #: The pod is gone, being deleted, or another one of the same name.
    GONE = "gone"
    #: Bound already to ``node`` of the result.
    TAKEN = "taken"
    #: The pod has scheduling gates.
    GATED = "gated"
    #: Every attempt has failed.
    FAILED = "failed"


class BindEnded(NamedTuple):
    """The result of ``Bind``; ``node`` is where the pod is bound, if that is known."""

    key: str
    outcome: BindOutcome
    node: str = ""
    reason: str = ""


class CreateEnded(NamedTuple):
    """The result of ``CreatePlaceholder``.

    Attributes:
        reason: why the pod could not be created; "" if it was.
        is_final: it never can be; else it is tried again.
    """

    application_id: str
    ref: Ref
    reason: str = ""
    is_final: bool = False


class NotWritten(NamedTuple):
    """Something that an object says of itself could not be written, and counts as written no longer."""

    effect: Written
    reason: str


Stimulus = Listed | Changed | Gone | Unreadable | Heard | BindEnded | CreateEnded | NotWritten


# ---- effects


class Tell(NamedTuple):
    """Send a request to the daemon."""

    request: si.WorkRequest


class Bind(NamedTuple):
    """Bind a pod to a node; answered by ``BindEnded``."""

    key: str
    ref: Ref
    uid: str
    node: str


class SelectNode(NamedTuple):
    """Have the volume of a claim made for a node, or with "" for none any more; answered by ``NotWritten`` if that fails."""

    claim: Ref
    uid: str
    node: str


class Nominate(NamedTuple):
    """Say on a pod for which node its volumes are made; "" for none; answered by ``NotWritten`` if that fails."""

    ref: Ref
    uid: str
    node: str


class DeletePod(NamedTuple):
    """Delete a pod with its own grace, if it still has this uid."""

    ref: Ref
    uid: str


class CreatePlaceholder(NamedTuple):
    """Create a placeholder pod; answered by ``CreateEnded``."""

    application_id: str
    ref: Ref
    body: Mapping[str, Any]


class FailPod(NamedTuple):
    """Set the phase of a pod that never ran to Failed."""

    ref: Ref
    uid: str
    reason: str
    message: str


class SetCondition(NamedTuple):
    """Set the condition PodScheduled of a waiting pod to False; a later one for the same pod replaces it while it waits;
    answered by ``NotWritten`` if that fails.

    Attributes:
        version: of the pod as it was seen: a pod that has changed since is left as it is.
    """

    ref: Ref
    uid: str
    version: str
    reason: str
    message: str


class SetGroupCondition(NamedTuple):
    """Say on a PodGroup why it waits, "" for no longer; answered by ``NotWritten`` if that fails."""

    ref: Ref
    message: str


class Event(NamedTuple):
    """Write an Event about an object.

    Attributes:
        kind: of the object, such as ``Pod``.
        is_warning: of the type Warning, else Normal.
    """

    kind: str
    ref: Ref
    uid: str
    reason: str
    action: str
    note: str
    is_warning: bool = True


class Dismiss(NamedTuple):
    """An object is gone: what waits to be done about it is not done any more, so that only what is there can wait.

    Attributes:
        subject: the uid of a pod or claim, or the name of a placeholder or PodGroup.
    """

    subject: str | Ref


#: What objects of the API server say of themselves because of this process.
Written = SelectNode | Nominate | SetCondition | SetGroupCondition
Effect = Tell | Bind | Written | DeletePod | CreatePlaceholder | FailPod | Event | Dismiss
