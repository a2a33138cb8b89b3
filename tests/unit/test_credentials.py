"""The address of the API server and the adapter's credentials: service accounts and kubeconfigs, each with wrong ones."""

from __future__ import annotations

import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from certificates import Authority

from ykactor.kubernetes.credentials import Credentials, CredentialsError, in_cluster, of_kubeconfig


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def files(authority: Authority) -> dict[str, Any]:
    """A client certificate and its key as files and as data, and the authority as data."""
    issued = authority.issue("client@example.org")
    directory = authority.ca.parent
    cert, key = directory / "the.crt", directory / "the.key"
    cert.write_bytes(issued.cert_chain_pems[0].bytes())
    key.write_bytes(issued.private_key_pem.bytes())
    other = directory / "other.key"
    other.write_bytes(authority.issue("other@example.org").private_key_pem.bytes())
    found = {"ca": authority.ca, "cert": cert, "key": key, "other": other}
    return {**found, **{f"{name}-data": b64encode(path.read_bytes()).decode() for name, path in found.items()}}


def kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> Path:
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "mine"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def server(authority: Authority) -> Iterator[tuple[int, list[str]]]:
    """A server that asks for certificates: its port, and whom it has seen: the address in the certificate, or "" for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.write()
    context.load_cert_chain(authority.cert, authority.key)
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    seen: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(raw, server_side=True) as connection:
                    seen.append(str(dict(connection.getpeercert() or {}).get("subjectAltName", "")))
                    connection.sendall(b"x")
            except OSError:
                raw.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1], seen
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def connects(credentials: Credentials, port: int) -> bool:
    """True if the certificate of the server is accepted."""
    with socket.create_connection(("127.0.0.1", port)) as raw:
        try:
            with credentials.tls.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
                return connection.recv(1) == b"x"
        except ssl.SSLError:
            return False


# ---- service accounts


@pytest.fixture
def account(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a service account."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("mine\n")
    (tmp_path / "ca.crt").write_bytes(authority.ca.read_bytes())
    return tmp_path


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_a_service_account(account: Path, monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    """The token of a service account is read again, because it rotates."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    found = in_cluster(account)
    assert (found.url, found.token(), found.namespace) == (url, "first", "mine")
    (account / "token").write_text("second")
    assert found.token() == "second"


def test_a_service_account_checks_the_server(
    account: Path, server: tuple[int, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert connects(in_cluster(account), server[0])
    other = Authority(tmp_path_factory.mktemp("other"))
    (account / "ca.crt").write_bytes(other.ca.read_bytes())
    assert not connects(in_cluster(account), server[0])


@pytest.mark.parametrize("lacking", ["token", "ca.crt", "namespace"])
def test_a_service_account_that_lacks_a_file(account: Path, lacking: str) -> None:
    (account / lacking).unlink()
    with pytest.raises(CredentialsError, match=r"service account: .*No such file"):
        in_cluster(account)


def test_outside_of_a_cluster(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(CredentialsError, match="expected --kubeconfig FILE"):
        in_cluster(account)


# ---- kubeconfigs


@pytest.mark.parametrize(
    ("cert", "key"),
    [
        ({"client-certificate": "cert"}, {"client-key": "key"}),
        ({"client-certificate-data": "cert-data"}, {"client-key-data": "key-data"}),
        ({"client-certificate-data": "cert-data"}, {"client-key": "key"}),
        ({"client-certificate": "cert"}, {"client-key-data": "key-data"}),
    ],
)
def test_a_client_certificate(
    tmp_path: Path, files: dict[str, Any], server: tuple[int, list[str]], cert: dict[str, str], key: dict[str, str]
) -> None:
    """Each part in a file or in the kubeconfig itself; no part of it is left behind."""
    user = {name: str(files[value]) for name, value in {**cert, **key}.items()}
    path = kubeconfig(tmp_path / "config", {"certificate-authority": str(files["ca"])}, user)
    found = of_kubeconfig(path)
    assert connects(found, server[0])
    assert "client@example.org" in server[1][-1]
    assert (found.url, found.token(), found.namespace) == ("https://127.0.0.1:6443", "", "mine")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("authority_of", [{"certificate-authority": "ca"}, {"certificate-authority-data": "ca-data"}, {}])
def test_a_token(tmp_path: Path, files: dict[str, Any], server: tuple[int, list[str]], authority_of: dict[str, str]) -> None:
    """The certificate of the server is checked, without an authority by those of this machine."""
    cluster = {name: str(files[value]) for name, value in authority_of.items()}
    found = of_kubeconfig(kubeconfig(tmp_path / "config", cluster, {"token": "secret"}))
    assert found.token() == "secret"
    assert connects(found, server[0]) is bool(cluster)
    assert server[1][-1:] == ([""] if cluster else [])


def test_a_token_in_a_file_is_read_again(tmp_path: Path) -> None:
    """Beside the kubeconfig, and before a token in it."""
    (tmp_path / "token").write_text("first\n")
    found = of_kubeconfig(kubeconfig(tmp_path / "config", {}, {"tokenFile": "token", "token": "other"}))
    assert found.token() == "first"
    (tmp_path / "token").write_text("second\n")
    assert found.token() == "second"


def test_a_context_may_be_chosen(tmp_path: Path) -> None:
    contexts = [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("c", "d")]
    clusters = [{"name": name, "cluster": {"server": f"https://{name}:6443/"}} for name in ("c", "d")]
    path = kubeconfig(tmp_path / "config", {}, {"token": "t"}, contexts=contexts, clusters=clusters)
    assert (of_kubeconfig(path).url, of_kubeconfig(path, "d").url) == ("https://c:6443", "https://d:6443")
    with pytest.raises(CredentialsError, match="contexts: found no context named 'e'"):
        of_kubeconfig(path, "e")


TOKEN = {"token": "t"}


@pytest.mark.parametrize(
    ("cluster", "user", "word"),
    [
        ({}, {}, "expected a token or a client certificate"),
        ({}, {"exec": {"command": "login"}}, "user.exec is not supported"),
        ({}, {"exec": {"command": "login"}, **TOKEN}, "user.exec is not supported"),
        ({}, {"auth-provider": {"name": "oidc"}}, "user.auth-provider is not supported"),
        ({}, {"username": "ann", "password": "secret"}, "user.username is not supported"),
        ({}, {"as": "system:admin", **TOKEN}, "user.as is not supported"),
        ({}, {"client-certificate": "cert"}, "client-key"),
        ({}, {"client-key-data": "key-data", **TOKEN}, "client-certificate"),
        ({}, {"client-certificate": "cert", "client-key": "other"}, "config: "),
        ({}, {"client-certificate": "gone", "client-key": "key"}, "gone"),
        ({}, {"client-certificate-data": "%%%", "client-key-data": "key-data"}, "client-certificate-data"),
        ({}, {"token": 5}, "token"),
        ({}, {"token": "a\nb"}, "token"),
        ({}, {"tokenFile": "gone"}, "gone"),
        ({"server": "http://127.0.0.1:8080"}, TOKEN, "expected https://HOST:PORT"),
        ({"server": None}, TOKEN, "expected https://HOST:PORT"),
        ({"insecure-skip-tls-verify": True}, TOKEN, "is always checked"),
        ({"proxy-url": "http://127.0.0.1:1"}, TOKEN, "cluster.proxy-url is not supported"),
        ({"tls-server-name": "other"}, TOKEN, "cluster.tls-server-name is not supported"),
        ({"certificate-authority": "gone"}, TOKEN, "gone"),
        ({"certificate-authority": "key"}, TOKEN, "config: "),
        ({"certificate-authority-data": "%%%"}, TOKEN, "certificate-authority-data"),
        ({"certificate-authority-data": "eHh4"}, TOKEN, "config: "),
    ],
)
def test_a_wrong_kubeconfig(
    tmp_path: Path, files: dict[str, Any], cluster: dict[str, Any], user: dict[str, Any], word: str
) -> None:
    """Nothing is executed, and nobody is taken for somebody else; the error names the file."""
    cluster, user = ({name: str(files.get(value, value)) if isinstance(value, str) else value for name, value in part.items()}
                     for part in (cluster, user))  # fmt: skip
    path = kubeconfig(tmp_path / "config", cluster, user)
    with pytest.raises(CredentialsError) as error:
        of_kubeconfig(path)
    assert str(error.value).startswith(f"{path}: ")
    assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ""),
        ("[", ":1:2"),
        (": [", ":1:1"),
        ("a: b\nc: d: e", ":2:5"),
        ("a: \x01", ""),
        ("- a", ""),
        ("a: b", ""),
        ("current-context: c", ""),
        ("current-context: c\ncontexts: {}", ""),
        ("a: \udcff", ""),
        ("a: &x [*x]", ""),
    ],
)
def test_what_is_no_kubeconfig(tmp_path: Path, text: str, place: str) -> None:
    """One line, which begins with the file, and the line and column where it is no YAML."""
    path = tmp_path / "config"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CredentialsError) as error:
        of_kubeconfig(path)
    assert str(error.value).startswith(f"{path}{place}: ")
    assert "\n" not in str(error.value)
