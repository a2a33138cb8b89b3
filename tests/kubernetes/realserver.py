"""A real API server in the place of the fake one: the same objects by its API, kubelets and a driver of volumes that poll.

The binaries are named by variables; see README.md beside this file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml
from celpolicies import User
from fakehttp import Body, Refused
from kinds import prefix_of
from kubelets import ENDS
from realprocesses import Processes
from storageobjects import DRIVER
from volumecontroller import SELECTED_NODE, selected, volume_for

#: The controller that binds claims asks this driver for a volume.
_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
MANIFESTS = Path(__file__).parents[2] / "config" / "kubernetes"


class RealServer:
    """A real API server.

    Attributes:
        processes: what it runs in.
        url: of the API server.
        store: this object, which has the methods of the fake store that tests use.
    """

    def __init__(self, directory: Path) -> None:
        self.processes = Processes(directory)
        self.url = self.processes.url
        self.store = self

    @contextmanager
    def running(self) -> Iterator[RealServer]:
        """Run etcd and the API server within the block."""
        with self.processes.keys():
            self.processes.start("etcd")
            self.processes.start("apiserver")
            self.wait_ready()
            yield self

    def wait_ready(self) -> None:
        """Wait until the server says that it is."""
        self.processes.wait_until(self._is_ready)

    def start_controllers(self) -> None:
        """Start the controllers, and wait until they make service accounts."""
        self.processes.start("controllers")
        self.processes.wait_until(lambda: bool(self.all("serviceaccounts", "default")))

    def _is_ready(self) -> bool:
        try:
            return self._request("GET", "/readyz").status_code == 200
        except (httpx2.HTTPError, OSError):
            return False

    # ---- what the fake store has too

    def create(self, resource: str, namespace: str, body: Body) -> Body:
        status, body = body.get("status"), {key: value for key, value in body.items() if key != "status"}
        made: Body = self.send("POST", self._path(resource, namespace), body)
        if status is not None:
            made = self._patch(f"{self._path(resource, namespace)}/{made['metadata']['name']}/status", {"status": status})
        return made

    def get(self, resource: str, namespace: str, name: str) -> Body:
        found: Body = self.send("GET", f"{self._path(resource, namespace)}/{name}")
        return found

    def change(self, resource: str, namespace: str, name: str, patch: Body) -> Body:
        """A strategic merge patch."""
        return self._patch(f"{self._path(resource, namespace)}/{name}", patch)

    def all(self, resource: str, namespace: str) -> list[Body]:
        found: list[Body] = self.send("GET", self._path(resource, namespace)).get("items") or []
        return found

    def delete(self, resource: str, found: Body, options: Body) -> Body:
        meta = found["metadata"]
        answer: Body = self.send("DELETE", f"{self._path(resource, meta.get('namespace', ''))}/{meta['name']}", options)
        return answer

    def compact(self) -> None:
        """Make the store forget all versions but the one of now."""
        with httpx2.Client(base_url=self.processes.etcd_url, trust_env=False) as etcd:
            found = etcd.post("/v3/kv/range", json={"key": "AA=="}).json()
            etcd.post("/v3/kv/compaction", json={"revision": found["header"]["revision"], "physical": True}).raise_for_status()

    def phase(self, pod: Body, phase: str) -> None:
        """Set the phase of a pod like a kubelet."""
        meta, ready = pod["metadata"], {"type": "Ready", "status": str(phase == "Running")}
        status = {"phase": phase, "conditions": [ready]}
        self._patch(f"{self._path('pods', meta['namespace'])}/{meta['name']}/status", {"status": status})

    def install(self) -> None:
        """The namespace and the role of the adapter, from the manifests."""
        for name in ("namespace.yaml", "rbac.yaml", "configmap.yaml"):
            for body in yaml.safe_load_all((MANIFESTS / name).read_text()):
                resource = f"{body['kind'].lower()}s"
                self.create(resource, body["metadata"].get("namespace", ""), body)

    def _path(self, resource: str, namespace: str) -> str:
        prefix = prefix_of(resource)
        return f"{prefix}/namespaces/{namespace}/{resource}" if namespace else f"{prefix}/{resource}"

    def _patch(self, path: str, patch: Body) -> Body:
        answer: Body = self.send("PATCH", path, patch, "application/strategic-merge-patch+json")
        return answer

    def send(
        self, method: str, path: str, body: Body | None = None, kind: str = "application/json", user: User | None = None
    ) -> Any:
        """Send a request as the administrator, who may speak for a user. Raises ``Refused``."""
        headers = [("content-type", kind)]
        if user is not None:
            headers += [("impersonate-user", user.name), *(("impersonate-group", group) for group in user.groups)]
        answer = self._request(method, path, body, headers)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.json().get("reason", ""), answer.text)
        return answer.json()

    def _request(
        self, method: str, path: str, body: Body | None = None, headers: Sequence[tuple[str, str]] = ()
    ) -> httpx2.Response:
        if not hasattr(self, "_client"):
            self._client = httpx2.Client(base_url=self.url, verify=self.processes.tls(), trust_env=False, timeout=20)
            self._client.headers["authorization"] = "Bearer admin-token"
        content = None if body is None else json.dumps(body).encode()
        return self._client.request(method, path, content=content, headers=[*headers])


class PollingKubelets:
    """The kubelets of all nodes, by the API of a real server.

    Attributes:
        started: the uid of each pod that has run, with its node, in order.
    """

    def __init__(self, server: RealServer) -> None:
        self._server = server
        self.started: list[tuple[str, str]] = []

    def look(self) -> None:
        """Run bound pods, end some of them, and remove deleted ones."""
        for pod in self._server.all("pods", ""):
            if not pod["spec"].get("nodeName"):
                continue
            try:
                self._look(pod)
            except Refused as refused:
                if refused.status not in (404, 409):
                    raise

    def _look(self, pod: Body) -> None:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            self._server.delete("pods", pod, {"gracePeriodSeconds": 0})
        elif pod["status"]["phase"] == "Pending":
            self.started.append((meta["uid"], pod["spec"]["nodeName"]))
            self._server.phase(pod, "Succeeded" if ENDS in meta.get("annotations", {}) else "Running")


class PollingDriver:
    """Makes the volumes that the real controller of claims asks for.

    Attributes:
        rests: it does nothing.
        is_full: it cannot make volumes.
    """

    def __init__(self, server: RealServer, rng: random.Random) -> None:
        self._server = server
        self._rng = rng
        self.rests = False
        self.is_full = False

    def look(self) -> None:
        """Make what is asked for, or say that it is not possible there."""
        claims = self._server.all("persistentvolumeclaims", "team") if not self.rests else []
        for claim in claims:
            is_asked = claim["metadata"].get("annotations", {}).get(_PROVISIONER) == DRIVER
            if is_asked and not claim["spec"].get("volumeName") and "deletionTimestamp" not in claim["metadata"]:
                self._make(claim)

    def _make(self, claim: Body) -> None:
        nodes = [body["metadata"]["name"] for body in self._server.all("nodes", "")]
        node = selected(claim) or self._rng.choice(nodes)
        try:
            if self.is_full:
                annotations = {"annotations": {SELECTED_NODE: None}}
                self._server.change("persistentvolumeclaims", "team", claim["metadata"]["name"], {"metadata": annotations})
            else:
                self._server.create("persistentvolumes", "", volume_for(claim, node))
        except Refused as refused:
            if refused.status != 409:  # made already, and not bound yet
                raise
