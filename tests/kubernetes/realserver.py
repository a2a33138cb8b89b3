"""A real API server in the place of the fake one: the same objects by its API, and kubelets that poll.

``YK_KUBE_APISERVER`` and ``YK_ETCD`` name the binaries; see README.md beside this file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml
from fakehttp import Body, Refused
from kubelets import ENDS

BINARIES = {"apiserver": "YK_KUBE_APISERVER", "etcd": "YK_ETCD"}
MANIFESTS = Path(__file__).parents[2] / "config" / "kubernetes"
_PREFIXES = {
    "podgroups": "/apis/scheduling.k8s.io/v1alpha2",
    "leases": "/apis/coordination.k8s.io/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "events": "/apis/events.k8s.io/v1",
}


def missing() -> str:
    """Why no real server can be started; "" if one can."""
    for variable in BINARIES.values():
        path = os.environ.get(variable, "")
        if not path or shutil.which(path) is None:
            return f"{variable} does not name a binary (tests/kubernetes/README.md)"
    return ""


class RealServer:
    """An etcd and an API server in a directory; killed and started again with the same data.

    Attributes:
        url: of the API server.
        store: this object, which has the methods of the fake store that tests use.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = self
        self.port, self._etcd_port, self._peer_port = (_free_port() for _ in range(3))
        self.url = f"https://127.0.0.1:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    # ---- processes

    @contextmanager
    def running(self) -> Iterator[RealServer]:
        """It runs within the block."""
        key = self.directory / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        public = subprocess.run(["openssl", "rsa", "-in", key, "-pubout"], check=True, capture_output=True).stdout
        (self.directory / "sa.pub").write_bytes(public)
        (self.directory / "tokens.csv").write_text(
            "admin-token,admin,admin,system:masters\nyk-token,system:serviceaccount:ykactor:ykactor,yk,system:serviceaccounts\n"
        )
        try:
            self.start("etcd")
            self.start("apiserver")
            self.wait_ready()
            yield self
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait()

    def start(self, name: str) -> None:
        """Start a process; its data of before are still there."""
        arguments = self._etcd() if name == "etcd" else self._apiserver()
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [os.environ[BINARIES[name]], *arguments], cwd=self.directory, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait()

    def wait_ready(self) -> None:
        """Wait until the server says that it is."""
        for _ in range(600):
            try:
                if self._request("GET", "/readyz").status_code == 200:
                    return
            except (httpx2.HTTPError, OSError):
                pass
            time.sleep(0.1)
        raise AssertionError((self.directory / "apiserver.log").read_text()[-3000:])

    def _etcd(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            *("--data-dir", "etcd", "--listen-client-urls", client, "--advertise-client-urls", client, "--unsafe-no-fsync"),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        ]

    def _apiserver(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--insecure-port=0", "--token-auth-file=tokens.csv"),
            *("--authorization-mode=RBAC", "--service-account-issuer=https://localhost", "--endpoint-reconciler-type=none"),
            *("--service-account-signing-key-file=sa.key", "--service-account-key-file=sa.pub", "--cert-dir=certs"),
            *("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "--service-cluster-ip-range=10.96.0.0/16"),
        ]

    # ---- what the fake store has too

    def create(self, resource: str, namespace: str, body: Body) -> Body:
        status, body = body.get("status"), {key: value for key, value in body.items() if key != "status"}
        made: Body = self._answer("POST", self._path(resource, namespace), body)
        if status is not None:
            made = self._patch(f"{self._path(resource, namespace)}/{made['metadata']['name']}/status", {"status": status})
        return made

    def all(self, resource: str, namespace: str) -> list[Body]:
        found: list[Body] = self._answer("GET", self._path(resource, namespace)).get("items") or []
        return found

    def delete(self, resource: str, found: Body, options: Body) -> Body:
        meta = found["metadata"]
        answer: Body = self._answer("DELETE", f"{self._path(resource, meta.get('namespace', ''))}/{meta['name']}", options)
        return answer

    def compact(self) -> None:
        """A real server compacts by itself."""

    def phase(self, pod: Body, phase: str) -> None:
        """As a kubelet says it."""
        meta = pod["metadata"]
        self._patch(f"{self._path('pods', meta['namespace'])}/{meta['name']}/status", {"status": {"phase": phase}})

    def install(self) -> None:
        """The namespace and the role of the adapter, from the manifests."""
        for name in ("namespace.yaml", "rbac.yaml", "configmap.yaml"):
            for body in yaml.safe_load_all((MANIFESTS / name).read_text()):
                resource = f"{body['kind'].lower()}s"
                self.create(resource, body["metadata"].get("namespace", ""), body)

    def _path(self, resource: str, namespace: str) -> str:
        prefix = _PREFIXES.get(resource, "/api/v1")
        return f"{prefix}/namespaces/{namespace}/{resource}" if namespace else f"{prefix}/{resource}"

    def _patch(self, path: str, patch: Body) -> Body:
        answer: Body = self._answer("PATCH", path, patch, "application/strategic-merge-patch+json")
        return answer

    def _answer(self, method: str, path: str, body: Body | None = None, kind: str = "application/json") -> Any:
        answer = self._request(method, path, body, kind)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.json().get("reason", ""), answer.text)
        return answer.json()

    def _request(self, method: str, path: str, body: Body | None = None, kind: str = "application/json") -> httpx2.Response:
        if not hasattr(self, "_client"):
            tls = ssl.create_default_context(cafile=str(self.directory / "certs" / "apiserver.crt"))
            headers = {"authorization": "Bearer admin-token"}
            self._client = httpx2.Client(base_url=self.url, verify=tls, headers=headers, trust_env=False, timeout=20)
        content = None if body is None else json.dumps(body).encode()
        return self._client.request(method, path, content=content, headers={"content-type": kind})


class PollingKubelets:
    """The kubelets of all nodes, by the API of a real server.

    Attributes:
        started: the uid of each pod that has run, with its node, in order.
    """

    def __init__(self, server: RealServer) -> None:
        self._server = server
        self.started: list[tuple[str, str]] = []

    def look(self) -> None:
        """What is bound runs, some of it ends; what is deleted is gone."""
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


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
