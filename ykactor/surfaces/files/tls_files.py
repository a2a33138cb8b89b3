"""The certificate of the daemon, its key, and the authorities of its clients: files that are read together (SE-30 to SE-32)."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from ykactor.access.moments import Moment
from ykactor.surfaces.files.regular import FilesTogether

_OPTIONS = ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET


class TlsFileError(Exception):
    """A file is not as it should be: the file, what was found and what was expected."""


class TlsFiles(FilesTogether):
    """The files and what they say.

    Attributes:
        cert: a file with the certificate, and those between it and its authority.
        key: the file with its key; may be the same.
        client_ca: a file with the authorities of clients; None: clients show no certificates.
        context: for new connections.
        turn: held by one handshake at a time while it computes.

    Raises: as ``load``.
    """

    def __init__(self, cert: Path, key: Path, client_ca: Path | None = None) -> None:
        super().__init__()
        self.cert = cert
        self.key = key
        self.client_ca = client_ca
        self._certificate: x509.Certificate
        self._is_key_public = False
        self.context: ssl.SSLContext
        self.turn = trio.Lock()
        self.load()

    def load(self) -> None:
        """Read the files again; nothing else changes if they are wrong, also if they do not fit together. Blocks.

        Raises: TlsFileError; OSError if a file cannot be read, or others may write that of the authorities.
        """
        self._found = {path: self._found_at(path) for path in (self.cert, self.key, self.client_ca) if path is not None}
        certificate = _certificates(self.cert, self._content(self.cert))[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= _OPTIONS
        context.num_tickets = 0  # of TLS 1.3; what was proved by a certificate is not handed out
        self._load_pair(context, certificate)
        if self.client_ca is not None:
            authorities = _certificates(self.client_ca, self._content(self.client_ca))
            context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in authorities))
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # also below an authority that is below another one
        self._is_key_public = bool(self.key.stat().st_mode & stat.S_IROTH)
        self.context, self._certificate = context, certificate

    def _load_pair(self, context: ssl.SSLContext, certificate: x509.Certificate) -> None:
        if _key(self.key, self._content(self.key)).public_key() != certificate.public_key():
            raise TlsFileError(f"{self.key}: found a key of another certificate, expected that of the first one in {self.cert}")
        # From memory: what was read is what counts, also while somebody replaces the files.
        with _file_of(self._content(self.cert) + b"\n" + self._content(self.key)) as file:
            try:
                context.load_cert_chain(file)
            except ssl.SSLError as error:
                reason = (error.reason or "unknown").lower().replace("_", " ")
                raise TlsFileError(f"{self.cert}: found a certificate that OpenSSL refuses: {reason}") from None

    def _content(self, path: Path) -> bytes:
        found = self._found[path]
        if isinstance(found, OSError):
            raise found
        return found

    def owners(self, path: Path) -> Collection[int] | None:
        """The authorities decide who is let in, so nobody else may be able to write them (SE-36)."""
        return {0, os.geteuid()} if path == self.client_ca else None

    @property
    def expires(self) -> Moment:
        """The moment after which the certificate is not valid any more."""
        return self._certificate.not_valid_after_utc

    def warnings(self, now: Moment) -> Iterator[str]:
        """Warnings of what is allowed and probably not meant."""
        begins = self._certificate.not_valid_before_utc
        if self.expires < now:
            yield f"{self.cert}: the certificate has expired on {self.expires:%Y-%m-%d}: clients refuse it"
        if now < begins:
            yield f"{self.cert}: the certificate is not valid before {begins:%Y-%m-%d}: clients refuse it"
        if self._is_key_public:
            yield f"{self.key}: every user of this machine can read the key, expected mode 0600 or 0640"


def _certificates(path: Path, content: bytes) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(content)
        found[0].public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise TlsFileError(f"{path}: found no valid certificate, expected one or more in PEM") from None
    return found


def _key(path: Path, content: bytes) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(content, None)
    except TypeError:
        raise TlsFileError(f"{path}: found a key with a passphrase, expected one without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise TlsFileError(f"{path}: found no valid private key, expected one in PEM") from None


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """The path of a file in memory."""
    descriptor = os.memfd_create("tls")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
