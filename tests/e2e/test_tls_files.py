"""The files of TLS: what is refused, what is only said, and what happens when they are replaced."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from certificates import Authority, chain_of, write_key
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key

from ykactor.actors.clock import Clock
from ykactor.surfaces.daemon.tls_watcher import TlsWatcher
from ykactor.surfaces.files.regular import UnsafeFileError
from ykactor.surfaces.files.tls_files import TlsFileError, TlsFiles

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.write()
    return made


def refusal(authority: Authority, client_ca: Path | None = None) -> str:
    with pytest.raises(TlsFileError) as refused:
        TlsFiles(authority.cert, authority.key, client_ca)
    return str(refused.value)


# ---- what is refused


def test_a_key_of_another_certificate(authority: Authority) -> None:
    """SE-31: the message names both files."""
    write_key(authority.key, authority.issue("localhost"))
    expected = f"{authority.key}: found a key of another certificate, expected that of the first one in {authority.cert}"
    assert refusal(authority) == expected


def test_the_certificate_of_the_daemon_comes_first(authority: Authority) -> None:
    """SE-31: behind that of its authority it is not found."""
    authority.cert.write_bytes(authority.ca.read_bytes() + authority.cert.read_bytes())
    assert "found a key of another certificate" in refusal(authority)


def test_others_may_not_write_the_authorities(authority: Authority) -> None:
    """SE-36: they decide who is let in; nothing changes later, and the end of it is seen."""
    files = TlsFiles(authority.cert, authority.key, authority.ca)
    authority.ca.chmod(0o664)
    for load in (files.load, partial(TlsFiles, authority.cert, authority.key, authority.ca)):
        with pytest.raises(UnsafeFileError, match="found the mode 0664, by which others could let anybody in"):
            load()
    refused = files.read()
    authority.ca.chmod(0o644)
    assert files.read() != refused
    TlsFiles(authority.cert, authority.key)


def test_a_key_with_a_passphrase(authority: Authority) -> None:
    """SE-31: nobody is asked for it."""
    key = load_pem_private_key(authority.key.read_bytes(), None)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    authority.key.write_bytes(secret)
    assert refusal(authority) == f"{authority.key}: found a key with a passphrase, expected one without"


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n", None])
def test_what_is_no_key(authority: Authority, content: bytes | None) -> None:
    """SE-31: nothing of it is repeated. ``None``: a certificate."""
    authority.key.write_bytes(authority.cert.read_bytes() if content is None else content)
    assert refusal(authority) == f"{authority.key}: found no valid private key, expected one in PEM"


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", None])
@pytest.mark.parametrize("of_clients", [False, True])
def test_what_is_no_certificate(authority: Authority, content: bytes | None, of_clients: bool) -> None:
    """SE-31, of the daemon and of the authorities of clients. ``None``: a key."""
    wrong = authority.ca if of_clients else authority.cert
    wrong.write_bytes(authority.key.read_bytes() if content is None else content)
    assert refusal(authority, authority.ca) == f"{wrong}: found no valid certificate, expected one or more in PEM"


def test_a_key_that_is_too_short(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-31: OpenSSL refuses what can be broken."""
    generate = rsa.generate_private_key
    monkeypatch.setattr(rsa, "generate_private_key", lambda public_exponent, key_size: generate(public_exponent, 1024))
    issued = trustme.CA().issue_cert("localhost", key_type=trustme.KeyType.RSA)
    authority.cert.write_bytes(chain_of(issued))
    write_key(authority.key, issued)
    assert refusal(authority) == f"{authority.cert}: found a certificate that OpenSSL refuses: ee key too small"


@pytest.mark.parametrize("name", ["cert", "key", "ca"])
def test_a_missing_file(authority: Authority, name: str) -> None:
    """SE-31: ``exit_codes.unified`` says it at the start."""
    getattr(authority, name).unlink()
    with pytest.raises(FileNotFoundError):
        TlsFiles(authority.cert, authority.key, authority.ca)


def test_one_file_for_both(authority: Authority) -> None:
    """SE-31: certificate and key may be in one."""
    authority.key.write_bytes(authority.cert.read_bytes() + authority.key.read_bytes())
    assert TlsFiles(authority.key, authority.key).content


# ---- what is said


def warnings(authority: Authority) -> list[str]:
    return [*TlsFiles(authority.cert, authority.key).warnings(NOW)]


def test_nothing_to_say(authority: Authority) -> None:
    """SE-31: a valid certificate, and a key that its owner and its group can read."""
    authority.key.chmod(0o640)
    assert warnings(authority) == []


def test_an_expired_certificate(authority: Authority) -> None:
    """SE-31: with the day; who does not check it can still connect."""
    authority.write(not_after=NOW)
    assert warnings(authority) == []
    authority.write(not_after=NOW - timedelta(seconds=1))
    assert warnings(authority) == [f"{authority.cert}: the certificate has expired on 2026-10-31: clients refuse it"]


def test_a_certificate_of_the_future(authority: Authority) -> None:
    """SE-31: with the day."""
    files = TlsFiles(authority.cert, authority.key)
    (warning,) = files.warnings(datetime(1999, 1, 1, tzinfo=UTC))
    assert warning == f"{authority.cert}: the certificate is not valid before 2000-01-01: clients refuse it"


def test_a_key_that_everybody_can_read(authority: Authority) -> None:
    """SE-31."""
    authority.key.chmod(0o644)
    assert warnings(authority) == [
        f"{authority.key}: every user of this machine can read the key, expected mode 0600 or 0640",
    ]


# ---- replaced


@asynccontextmanager
async def following(authority: Authority) -> AsyncIterator[TlsFiles]:
    files = TlsFiles(authority.cert, authority.key, authority.ca)
    async with watching(files):
        yield files


@asynccontextmanager
async def watching(files: TlsFiles) -> AsyncIterator[TlsWatcher]:
    watcher, stop = TlsWatcher(files, Clock(NOW_NS)), trio.Event()
    with trio.fail_after(180):
        async with trio.open_nursery() as nursery:
            await nursery.start(watcher.run, stop)
            yield watcher
            stop.set()


async def logged(caplog: pytest.LogCaptureFixture, event: str, count: int = 1) -> list[str]:
    """The reasons of this event, when it was logged so often."""
    while caplog.messages.count(event) < count:  # noqa: ASYNC110  # the log cannot set an event
        await trio.sleep(0.02)
    return [record.__dict__["keys"].get("reason", "") for record in caplog.records if record.getMessage() == event]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


async def test_a_pair_that_is_replaced_file_by_file(authority: Authority, log: pytest.LogCaptureFixture) -> None:
    """SE-32: the old pair stays until both are there; until then health has a problem."""
    files = TlsFiles(authority.cert, authority.key, authority.ca)
    async with watching(files) as watcher:
        before = files.context
        renewed = authority.issue("localhost")
        authority.cert.write_bytes(chain_of(renewed))
        assert "found a key of another certificate" in (await logged(log, "tls_refused"))[0]
        assert files.context is before
        assert "found a key of another certificate" in watcher.problem
        write_key(authority.key, renewed)
        await logged(log, "tls_applied", 2)
        assert files.context is not before
        assert watcher.problem == ""


async def test_kubernetes_link_swap(authority: Authority, tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    """SE-32: of a Secret all files change at once, by a link beside them, each time."""
    mount = tmp_path / "mount"
    for version in ("..v1", "..v2", "..v3"):
        (mount / version).mkdir(parents=True)
        authority.write()
        for file in (authority.cert, authority.key):
            (mount / version / file.name).write_bytes(file.read_bytes())
    (mount / "..data").symlink_to("..v1")
    for file in (authority.cert, authority.key):
        (mount / file.name).symlink_to(f"..data/{file.name}")
    authority.cert, authority.key = mount / authority.cert.name, mount / authority.key.name
    async with following(authority):
        for count, version in ((2, "..v2"), (3, "..v3")):
            (mount / "..data_tmp").symlink_to(version)
            (mount / "..data_tmp").rename(mount / "..data")
            await logged(log, "tls_applied", count)
    assert "tls_refused" not in log.messages


async def test_a_wrong_file_changes_nothing(authority: Authority, log: pytest.LogCaptureFixture) -> None:
    """SE-32: nor does a missing one; a good one holds then, although it has what was there before."""
    async with following(authority) as files:
        before, content = files.context, authority.ca.read_bytes()
        authority.ca.write_bytes(b"")
        assert (await logged(log, "tls_refused"))[0].startswith(f"{authority.ca}: found no valid certificate")
        authority.ca.unlink()
        assert "No such file" in (await logged(log, "tls_refused", 2))[1]
        assert files.context is before
        authority.ca.write_bytes(content)
        await logged(log, "tls_applied", 2)


async def test_a_shortage_says_nothing_about_a_file(
    authority: Authority, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-32: without descriptors the files are read again a while later, and nothing is refused."""
    load, failures = TlsFiles.load, []

    def failing(files: TlsFiles) -> None:
        if not failures:
            failures.append(1)
            raise OSError(24, "Too many open files")
        load(files)

    async with following(authority):
        monkeypatch.setattr(TlsFiles, "load", failing)
        authority.ca.write_bytes(authority.ca.read_bytes() + b"\n")
        await logged(log, "tls_applied", 2)
        assert failures
        assert "tls_refused" not in log.messages


async def test_what_is_applied_is_warned_of(authority: Authority, log: pytest.LogCaptureFixture) -> None:
    """SE-32: as at the start."""
    async with following(authority):
        authority.write(not_after=NOW - timedelta(days=1))
        assert "has expired on 2026-10-31" in (await logged(log, "tls_warning"))[0]
    applied = [record.__dict__["keys"] for record in log.records if record.getMessage() == "tls_applied"]
    assert applied[-1] == {"path": authority.cert, "expires": "2026-10-31T00:00:00Z"}
