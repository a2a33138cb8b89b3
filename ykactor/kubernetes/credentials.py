"""The address of the API server and the credentials of the adapter: in a cluster, or by a kubeconfig."""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Other ways to show who this is, and to speak for somebody else.
_USER_REFUSED = ("exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra")
_CLUSTER_REFUSED = ("proxy-url", "tls-server-name")


class CredentialsError(Exception):
    """The API server, or how to show who this is, cannot be found out."""


class Credentials(Struct, frozen=True):
    """Access to an API server.

    Attributes:
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
    """The credentials of the service account of the pod; the token is read again at each request, because it rotates.

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
    """The credentials of a context of a kubeconfig, with a token or a client certificate.

    Args:
        context: its name; "" for the current one.

    Raises:
        CredentialsError: also for plugins that are to be executed, and other ways of proof.
    """
    config = _read(path)
    context = context or str(config.get("current-context") or "")
    if not context:
        raise CredentialsError(f"{path}: found no current-context, expected a kubeconfig that has one, or --context NAME")
    chosen = _named(path, config, "contexts", context, "context")
    cluster = _named(path, config, "clusters", str(chosen.get("cluster", "")), "cluster")
    user = _named(path, config, "users", str(chosen.get("user", "")), "user")
    url = str(cluster.get("server") or "").rstrip("/")
    if not url.startswith("https://"):
        raise CredentialsError(f"{path}: cluster.server: found {url!r}, expected https://HOST:PORT")
    try:
        return Credentials(url, _tls(path, cluster, user), _token(path, user), str(chosen.get("namespace", "")))
    except (OSError, ValueError, ssl.SSLError) as error:
        raise CredentialsError(f"{path}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    """The mapping in a file. An error is one line, as all errors of commands are."""
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise CredentialsError(f"{path}{place}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise CredentialsError(f"{path}: found no mapping, expected a kubeconfig")
    return config


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
    _refuse(path, "cluster", cluster, _CLUSTER_REFUSED, "a server that is reached directly, by its own name")
    authority = _pem(path, cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    certificate, key = _pem(path, user, "client-certificate"), _pem(path, user, "client-key")
    if certificate is not None and key is not None:
        with tempfile.NamedTemporaryFile(prefix="ykactor-", suffix=".pem") as both:  # private, and gone at once
            both.write(certificate + b"\n" + key)
            both.flush()
            tls.load_cert_chain(both.name)
    elif certificate is not None or key is not None:
        lacking = "client-certificate" if certificate is None else "client-key"
        raise CredentialsError(f"{path}: user: found no {lacking}, expected a certificate and its key")
    return tls


def _pem(path: Path, entry: dict[str, Any], name: str) -> bytes | None:
    """PEM in the kubeconfig itself, or in a file beside it; None if there is none."""
    data, file = entry.get(f"{name}-data") or None, entry.get(name) or None
    try:
        if data is not None:
            return b64decode("".join(str(data).split()), validate=True)
        return None if file is None else (path.parent / str(file)).read_bytes()
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{path}: {name if data is None else f'{name}-data'}: {error}") from None


def _token(path: Path, user: dict[str, Any]) -> Callable[[], str]:
    _refuse(path, "user", user, _USER_REFUSED, "a token or a client certificate")
    if "tokenFile" in user:
        file = path.parent / str(user["tokenFile"])
        try:
            file.read_text()
        except OSError as error:
            raise CredentialsError(f"{path}: user.tokenFile: {error}") from None
        return lambda: file.read_text().strip()
    token = user.get("token", "")
    if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
        raise CredentialsError(f"{path}: user.token: expected a line of text")
    if not token and "client-key" not in user and "client-key-data" not in user:
        raise CredentialsError(f"{path}: user: found nothing to show who this is, expected a token or a client certificate")
    return lambda: token


def _refuse(path: Path, section: str, entry: dict[str, Any], refused: Iterable[str], expected: str) -> None:
    """Raises ``CredentialsError`` for what would mean somebody or something else if it were ignored."""
    for name in refused:
        if entry.get(name):
            raise CredentialsError(f"{path}: {section}.{name} is not supported, expected {expected}")
