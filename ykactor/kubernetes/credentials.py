"""Where the API server is and how the adapter shows who it is: in a cluster, or by a kubeconfig."""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(Exception):
    """The API server, or how to show who this is, cannot be found out."""


class Credentials(Struct, frozen=True):
    """Attributes:
    url: of the API server, without a slash at its end.
    tls: checks the certificate of the server, and has that of the client if there is one.
    token: called for each request; "" if none is shown.
    namespace: of the service account or the context; "" if it is not known.
    """

    url: str
    tls: ssl.SSLContext
    token: Callable[[], str]
    namespace: str


def in_cluster(directory: Path = _SERVICE_ACCOUNT) -> Credentials:
    """Those of the service account of the pod; the token is read again at each request, because it rotates.

    Raises:
        CredentialsError
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise CredentialsError("found no KUBERNETES_SERVICE_HOST, so this is no pod: expected --kubeconfig FILE")
    host = f"[{host}]" if ":" in host else host
    token_file = directory / "token"
    try:
        tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        token_file.read_text()
        namespace = (directory / "namespace").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise CredentialsError(f"service account: {error}") from None
    return Credentials(f"https://{host}:{port}", tls, lambda: token_file.read_text().strip(), namespace)


def of_kubeconfig(path: Path, context: str = "") -> Credentials:
    """Those of a context of a kubeconfig, with a token or a client certificate.

    Args:
        context: its name; "" for the current one.

    Raises:
        CredentialsError: also for plugins that are to be executed, and other ways of proof.
    """
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path}: {error}") from None
    if not isinstance(config, dict):
        raise CredentialsError(f"{path}: found no mapping, expected a kubeconfig")
    context = context or str(config.get("current-context") or "")
    if not context:
        raise CredentialsError(f"{path}: found no current-context, expected a kubeconfig that has one, or --context NAME")
    chosen = _named(path, config, "contexts", context, "context")
    cluster = _named(path, config, "clusters", str(chosen.get("cluster", "")), "cluster")
    user = _named(path, config, "users", str(chosen.get("user", "")), "user")
    url = str(cluster.get("server", "")).rstrip("/")
    if not url.startswith("https://"):
        raise CredentialsError(f"{path}: cluster.server: found {url!r}, expected https://HOST:PORT")
    try:
        return Credentials(url, _tls(path, cluster, user), _token(path, user), str(chosen.get("namespace", "")))
    except (OSError, ValueError, ssl.SSLError) as error:
        raise CredentialsError(f"{path}: {error}") from None


def _named(path: Path, config: dict[str, Any], section: str, name: str, kind: str) -> dict[str, Any]:
    entries = config.get(section)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise CredentialsError(f"{path}: {section}: found no {kind} named {name!r}")


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise CredentialsError(f"{path}: insecure-skip-tls-verify: the certificate of the server is always checked")
    authority = cluster.get("certificate-authority-data")
    if authority is not None:
        tls = ssl.create_default_context(cadata=b64decode(authority).decode())
    else:
        file = cluster.get("certificate-authority")
        tls = ssl.create_default_context(cafile=None if file is None else str(path.parent / str(file)))
    if "client-certificate-data" in user and "client-key-data" in user:
        with tempfile.NamedTemporaryFile(prefix="ykactor-", suffix=".pem") as both:  # private, and gone at once
            both.write(b64decode(user["client-certificate-data"]) + b"\n" + b64decode(user["client-key-data"]))
            both.flush()
            tls.load_cert_chain(both.name)
    elif "client-certificate" in user and "client-key" in user:
        tls.load_cert_chain(path.parent / str(user["client-certificate"]), path.parent / str(user["client-key"]))
    return tls


def _token(path: Path, user: dict[str, Any]) -> Callable[[], str]:
    for way in ("exec", "auth-provider", "username"):
        if way in user:
            raise CredentialsError(f"{path}: user.{way} is not supported, expected a token or a client certificate")
    if "tokenFile" in user:
        file = path.parent / str(user["tokenFile"])
        return lambda: file.read_text().strip()
    token = str(user.get("token", ""))
    return lambda: token
