"""The kinds of objects that API servers have, and where they are."""

#: By group, with the versions in which servers of 1.36 and of 1.20 have them.
_KINDS = (
    ("", "v1", "v1", "Pod Binding Node Namespace ConfigMap Secret ServiceAccount PersistentVolumeClaim PersistentVolume"),
    ("apps", "v1", "v1", "Deployment ReplicaSet StatefulSet DaemonSet"),
    ("authorization.k8s.io", "v1", "v1", "SelfSubjectAccessReview"),
    ("batch", "v1", "v1", "Job CronJob"),
    ("coordination.k8s.io", "v1", "v1", "Lease"),
    ("events.k8s.io", "v1", "v1", "Event"),
    ("node.k8s.io", "v1", "v1", "RuntimeClass"),
    ("policy", "v1", "v1beta1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "v1", "v1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("scheduling.k8s.io", "v1", "v1 v1beta1", "PriorityClass"),
    ("scheduling.k8s.io", "v1alpha2", "", "PodGroup"),
    ("storage.k8s.io", "v1", "v1", "StorageClass CSINode CSIDriver"),
    ("storage.k8s.io", "v1", "v1alpha1", "CSIStorageCapacity"),
)


def served(*, is_old: bool = False) -> dict[tuple[str, str, str], str]:
    """The kinds of a server, by group, version and resource."""
    return {
        (group, version, _plural(kind)): kind
        for group, new, old, kinds in _KINDS
        for version in (old if is_old else new).split()
        for kind in kinds.split()
    }


def prefix_of(resource: str) -> str:
    """The path of a resource up to its version, on a server of 1.36."""
    group, version = next((group, version) for group, version, each in served() if each == resource)
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _plural(kind: str) -> str:
    """The resource of a kind: ``pods``, ``priorityclasses``, ``csistoragecapacities``."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"
