"""A state with both its neighbours played by the test, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ykactor.client import Refusal
from ykactor.kubernetes.messages import (
    Bind,
    BindEnded,
    BindOutcome,
    Changed,
    CreatePlaceholder,
    DeletePod,
    Dismiss,
    Effect,
    Event,
    FailPod,
    Gone,
    Heard,
    Kind,
    Listed,
    Nominate,
    Ref,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    Stimulus,
    Tell,
)
from ykactor.kubernetes.model import Object, Pod
from ykactor.kubernetes.pods import key_of
from ykactor.kubernetes.state import State
from ykactor.wire.si import messages as si


class Dialogue:
    """Plays the API server and the daemon.

    Attributes:
        said: what the state has wanted since the last ``take``, in words.
        effects: the same as they are.
    """

    def __init__(self, *objects: Object) -> None:
        self.state = State("ykactor")
        self.said: list[str] = []
        self.effects: list[Effect] = []
        self.now_s = 0.0
        of_kind = {kind: list[Object]() for kind in Kind}
        for found in objects:
            of_kind[kind_of(found)].append(found)
        self.play(*(Listed(kind, found) for kind, found in of_kind.items()))

    def play(self, *stimuli: Stimulus) -> list[str]:
        """Tell the state what has happened at once; returns what it wants, in words, but answers about classes."""
        effects = self.state.handle(stimuli, self.now_s)
        said = [word for effect in effects for word in words(effect)]
        self.effects += effects
        self.said += said
        return said

    def register(self) -> list[str]:
        """The daemon knows nothing."""
        return self.play(Heard(si.RegisterResourceManagerResponse()))

    def see(self, *objects: Object) -> list[str]:
        """The watches show objects."""
        return self.play(*(Changed(kind_of(found), found) for found in objects))

    def confirm(self) -> list[str]:
        """The daemon confirms everything that it was told to forget."""
        told = [effect.request.id for effect in self.effects if isinstance(effect, Tell)]
        return self.play(*(Heard(si.Ack(id=request_id)) for request_id in told if request_id))

    def lose(self, found: Object) -> list[str]:
        """A watch shows that an object was deleted."""
        meta = found.metadata
        return self.play(Gone(kind_of(found), Ref(meta.namespace, meta.name), meta.uid))

    def place(self, pod: Pod, node: str) -> list[str]:
        """The scheduler places a pod."""
        return self.hear(si.AllocationResponse(new=[si.Allocation(allocation_key=key_of(pod), application_id="a", node_id=node)]))

    def release(self, pod: Pod, termination_type: str, application_id: str = "app") -> list[str]:
        """The scheduler ends a pod."""
        entry = si.AllocationRelease(
            allocation_key=key_of(pod), application_id=application_id, termination_type=termination_type, message="why"
        )
        return self.hear(si.AllocationResponse(released=[entry]))

    def hear(self, message: si.Response | Refusal) -> list[str]:
        return self.play(Heard(message))

    def bound(self, pod: Pod, outcome: BindOutcome = BindOutcome.DONE, node: str = "") -> list[str]:
        return self.play(BindEnded(key_of(pod), outcome, node, "because"))

    def updated(self, application_id: str, state: str) -> list[str]:
        entry = si.UpdatedApplication(application_id=application_id, state=state, state_transition_timestamp=1)
        return self.hear(si.ApplicationResponse(updated=[entry]))


def kind_of(found: Object) -> Kind:
    return {
        "Pod": Kind.PODS,
        "Node": Kind.NODES,
        "Namespace": Kind.NAMESPACES,
        "ConfigMap": Kind.CONFIG_MAPS,
        "PriorityClass": Kind.PRIORITY_CLASSES,
        "PodDisruptionBudget": Kind.BUDGETS,
        "PodGroup": Kind.POD_GROUPS,
        "StorageClass": Kind.STORAGE_CLASSES,
        "CSIDriver": Kind.CSI_DRIVERS,
        "CSINode": Kind.CSI_NODES,
        "CSIStorageCapacity": Kind.CAPACITIES,
        "PersistentVolume": Kind.VOLUMES,
        "PersistentVolumeClaim": Kind.CLAIMS,
    }[type(found).__name__]


def words(effect: Effect) -> Sequence[str]:
    """An effect in a few words; answers about classes are left out, those of nodes are told by their action."""
    match effect:
        case Tell(si.NodeRequest(nodes=nodes)):
            return [f"{entry.action} {entry.node_id}" for entry in nodes]
        case Tell(si.ApplicationRequest(new=new, remove=removed)):
            gone = [f"remove {entry.application_id}" for entry in removed]
            return gone + [f"application {entry.application_id}" for entry in new]
        case Tell(si.AllocationRequest(allocations=allocations, releases=releases)):
            ended = releases.allocations_to_release
            gone = [f"release {name_of(entry.allocation_key)} {entry.termination_type}" for entry in ended]
            return gone + [_allocation(entry) for entry in allocations]
        case Tell(si.UpdateConfigurationRequest(config=text)):
            return [f"configuration {text}"]
        case Tell(si.SetQueueQuotas(queue_name=queue)):
            return [f"quotas of {queue}"]
        case Tell(si.PredicatesResponse()):
            return []
        case Bind(ref=ref, node=node):
            return [f"bind {ref.name} to {node}"]
        case SelectNode(claim=claim, node=node):
            return [f"select {node or 'nothing'} for {claim.name}"]
        case Nominate(ref=ref, node=node):
            return [f"nominate {node or 'nothing'} for {ref.name}"]
        case DeletePod(ref=ref):
            return [f"delete {ref.name}"]
        case CreatePlaceholder(ref=ref):
            return [f"create {ref.name}"]
        case FailPod(ref=ref, reason=reason):
            return [f"fail {ref.name} {reason}"]
        case SetCondition(ref=ref, reason=reason):
            return [f"condition of {ref.name} {reason}"]
        case SetGroupCondition(ref=ref, message=message):
            return [f"group {ref.name}: {message}"]
        case Event(ref=ref, reason=reason):
            return [f"event about {ref.name} {reason}"]
        case Dismiss():
            return []
    raise AssertionError(effect)


def _allocation(entry: si.Allocation) -> str:
    kind = "foreign" if not entry.application_id else "placeholder" if entry.placeholder else "ask"
    return (
        f"{kind} {name_of(entry.allocation_key)}"
        + (f" on {entry.node_id}" if entry.node_id else "")
        + (" ending" if entry.releasing else "")
    )


def name_of(key: str) -> str:
    """The name of a pod from its allocation key, or of the room for it."""
    name, _, rest = key.partition(".")[2].rpartition("-")
    return f"{name.rpartition('-')[0]}-room" if rest == "room" else name
