"""Pods and nodes as an API server has them, with the fields that nobody here reads."""

from typing import Any

Body = dict[str, Any]

NAMESPACE = "team"
_TIME = "2030-01-01T00:00:00Z"
_IMAGE = "registry.example/team/server:1.27.3"


def uid_of(name: str) -> str:
    """The uid of an object of this name."""
    return f"{name:0>12}-0000-4000-8000-000000000000"


def pod(name: str, cpu: str = "100m", node: str = "") -> Body:
    """A pod of a Deployment, with what the server and admission fill in; one with a node runs."""
    mount = {"name": "kube-api-access-x2bkq", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    container = {
        "name": "server",
        "image": _IMAGE,
        "args": ["--listen=0.0.0.0:8080", "--log-format=json", "--cache-size=256Mi"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": key, "value": f"value of {key}"} for key in ("REGION", "STAGE", "LOG_LEVEL", "ENDPOINT", "FEATURES")],
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": cpu, "memory": "128Mi"}},
        "volumeMounts": [mount],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 5},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "allowPrivilegeEscalation": False},
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "server-5d9c7b8f6d-",
            "namespace": NAMESPACE,
            "uid": uid_of(name),
            "creationTimestamp": _TIME,
            "labels": {"app": "server", "pod-template-hash": "5d9c7b8f6d", "tier": "backend"},
            "annotations": {"example.com/config-hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
            "ownerReferences": [_owner("ReplicaSet", "server-5d9c7b8f6d")],
            "managedFields": [_managed("kube-controller-manager", _POD_FIELDS), _managed("kubelet", _STATUS_FIELDS)],
        },
        "spec": {
            "volumes": [{"name": mount["name"], "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}}],
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "schedulerName": "ykactor",
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            **({"nodeName": node} if node else {}),
        },
        "status": running_status() if node else {"phase": "Pending", "qosClass": "Burstable"},
    }


def node(name: str, beat: int = 0, cpu: str = "64") -> Body:
    """A node with what its kubelet reports; ``beat`` counts its heartbeats."""
    at = f"2030-01-01T{beat // 3600 % 24:02}:{beat // 60 % 60:02}:{beat % 60:02}Z"
    amounts = {"cpu": cpu, "memory": "263856548Ki", "ephemeral-storage": "103880232Ki", "hugepages-2Mi": "0", "pods": "110"}
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": at, "lastTransitionTime": _TIME, "reason": why, "message": text}
        for kind, status, why, text in _NODE_CONDITIONS
    ]
    images = [{"names": [f"registry.example/team/{i}@sha256:{i:064x}", f"registry.example/team/{i}:1"], "sizeBytes": i * 10**6}
              for i in range(30)]  # fmt: skip
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": uid_of(name),
            "creationTimestamp": _TIME,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m.16xlarge",
                "topology.kubernetes.io/region": "r1",
                "topology.kubernetes.io/zone": f"r1-{name[-1]}",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": '{"csi.example.com":"i-0"}'},
            "managedFields": [_managed("kubelet", _STATUS_FIELDS), _managed("kube-controller-manager", _POD_FIELDS)],
        },
        "spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"], "providerID": f"example:///r1/{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"kernelVersion": "6.1.0", "osImage": "Linux", "kubeletVersion": "v1.36.2", "architecture": "amd64"},
            "images": images,
        },
    }


def running_status() -> Body:
    """The status of a pod that its kubelet has started."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    started = {"name": "server", "state": {"running": {"startedAt": _TIME}}, "lastState": {}, "ready": True, "started": True}
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME} for kind in kinds],
        "hostIP": "10.0.0.1",
        "podIP": "10.0.1.7",
        "podIPs": [{"ip": "10.0.1.7"}],
        "startTime": _TIME,
        "containerStatuses": [{**started, "restartCount": 0, "image": _IMAGE, "imageID": f"{_IMAGE}@sha256:{1:064x}"}],
        "qosClass": "Burstable",
    }


def _owner(kind: str, name: str) -> Body:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid_of(name), "controller": True}


def _managed(manager: str, fields: Body) -> Body:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _toleration(condition: str) -> Body:
    key = f"node.kubernetes.io/{condition}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


_POD_FIELDS: Body = {
    "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:tier": {}}, "f:ownerReferences": {".": {}}},
    "f:spec": {
        'f:containers:k:{"name":"server"}': {
            **{f"f:{name}": {} for name in ("args", "env", "image", "imagePullPolicy", "livenessProbe", "name", "ports")},
            "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
        },
        **{f"f:{name}": {} for name in ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext")},
    },
}
_STATUS_FIELDS: Body = {
    "f:status": {
        "f:conditions": {f'k:{{"type":"{kind}"}}': {".": {}, "f:status": {}, "f:type": {}, "f:lastTransitionTime": {}}
                         for kind in ("Initialized", "Ready", "ContainersReady")},
        **{f"f:{name}": {} for name in ("containerStatuses", "hostIP", "phase", "podIP", "podIPs", "startTime")},
    }
}  # fmt: skip
_TOKEN_SOURCES: list[Body] = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
]
_NODE_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
