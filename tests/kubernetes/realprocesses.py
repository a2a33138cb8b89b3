"""The processes of a real cluster: etcd, kube-apiserver, and kube-controller-manager, with users by tokens.

``YK_KUBE_APISERVER``, ``YK_ETCD`` and ``YK_KUBE_CONTROLLER_MANAGER`` name the binaries; see README.md beside this file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BINARIES = {"apiserver": "YK_KUBE_APISERVER", "etcd": "YK_ETCD", "controllers": "YK_KUBE_CONTROLLER_MANAGER"}
_TOKENS = """\
admin-token,admin,admin,system:masters
manager-token,system:kube-controller-manager,manager
yk-token,system:serviceaccount:ykactor:ykactor,yk,system:serviceaccounts
alice-token,alice,alice,dev
"""


def missing(*names: str) -> str:
    """The reason for which these processes cannot be started; "" if they can."""
    for variable in (BINARIES[name] for name in names or ("apiserver", "etcd")):
        path = os.environ.get(variable, "")
        if not path or shutil.which(path) is None:
            return f"{variable} does not name a binary (tests/kubernetes/README.md)"
    return ""


def version() -> tuple[int, int]:
    """The version of the API server, such as (1, 20)."""
    told = subprocess.run([os.environ[BINARIES["apiserver"]], "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"v(\d+)\.(\d+)", told)
    assert found is not None, told
    return int(found[1]), int(found[2])


class Processes:
    """Processes whose data are in a directory, so that they can be killed and started again.

    Attributes:
        url: of the API server.
        etcd_url: of etcd.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._port, etcd_port, self._peer_port = (_free_port() for _ in range(3))
        self.url = f"https://127.0.0.1:{self._port}"
        self.etcd_url = f"http://127.0.0.1:{etcd_port}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @contextmanager
    def keys(self) -> Iterator[None]:
        """Keys and tokens are there within the block, and no process is left after it."""
        key = self.directory / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        public = subprocess.run(["openssl", "rsa", "-in", key, "-pubout"], check=True, capture_output=True).stdout
        (self.directory / "sa.pub").write_bytes(public)
        (self.directory / "tokens.csv").write_text(_TOKENS)
        (self.directory / "manager").write_text(kubeconfig(self.url, "certs/apiserver.crt", "manager-token"))
        try:
            yield
        finally:
            for process in self._running.values():
                process.kill()
                process.wait()

    def start(self, name: str, more: Sequence[str] = ()) -> None:
        """Start a process, perhaps with more arguments; its data of before are still there."""
        arguments = {"etcd": self._etcd, "apiserver": self._apiserver, "controllers": self._controllers}[name]()
        command = [os.environ[BINARIES[name]], *arguments, *more]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal, and wait for the end."""
        self._running[name].send_signal(number)
        self._running[name].wait()

    def tell_to_stop(self, name: str) -> None:
        """SIGTERM; it may take its time."""
        self._running[name].send_signal(signal.SIGTERM)

    def accepts(self) -> bool:
        """True if the API server accepts connections."""
        try:
            socket.create_connection(("127.0.0.1", self._port)).close()
        except OSError:
            return False
        return True

    def tls(self) -> ssl.SSLContext:
        """A context that trusts the API server, which must have started once."""
        return ssl.create_default_context(cafile=str(self.directory / "certs" / "apiserver.crt"))

    def connected(self) -> ssl.SSLSocket:
        """A connection to the API server."""
        return self.tls().wrap_socket(socket.create_connection(("127.0.0.1", self._port)), server_hostname="127.0.0.1")

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Wait for something that the API server says."""
        for _ in range(600):
            if is_ready():
                return
            time.sleep(0.1)
        raise AssertionError("\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in self.directory.glob("*.log")))

    def _etcd(self) -> list[str]:
        peer = f"http://127.0.0.1:{self._peer_port}"
        return [
            *("--data-dir", "etcd", "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
            "--unsafe-no-fsync",
        ]

    def _apiserver(self) -> list[str]:
        groups = ["--feature-gates=GenericWorkload=true,GangScheduling=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"]
        return [
            *(f"--etcd-servers={self.etcd_url}", f"--secure-port={self._port}", "--cert-dir=certs"),
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"),
            *("--authorization-mode=RBAC", "--token-auth-file=tokens.csv", "--service-account-issuer=https://localhost"),
            *("--service-account-signing-key-file=sa.key", "--service-account-key-file=sa.pub"),
            *("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "--service-cluster-ip-range=10.96.0.0/16"),
            *(groups if version() >= (1, 36) else ()),
        ]

    def _controllers(self) -> list[str]:
        """All but those that look for signs of life of kubelets; each with its own service account."""
        return [
            *("--kubeconfig=manager", "--use-service-account-credentials=true", "--service-account-private-key-file=sa.key"),
            *("--root-ca-file=certs/apiserver.crt", "--controllers=*,-nodelifecycle,-nodeipam,-ttl", "--leader-elect=false"),
            *("--bind-address=127.0.0.1", f"--secure-port={_free_port()}", "--cert-dir=manager-certs"),
            *(["--port=0"] if version() < (1, 24) else []),
        ]


def kubeconfig(url: str, authority: str, token: str) -> str:
    """The kubeconfig of a user with a token."""
    return f"""
current-context: c
clusters: [{{name: k, cluster: {{server: "{url}", certificate-authority: {authority}}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: c, context: {{cluster: k, user: u, namespace: ykactor}}}}]
"""


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
