"""Certificates for tests: an authority, what it issues, and the files of a daemon and of its clients."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from ykactor.client import tls_context
from ykactor.surfaces.files.tls_files import TlsFiles


class Authority:
    """An authority, with its files in a directory.

    Attributes:
        ca: a file with its certificate.
        cert, key: the files of a daemon on this machine.
    """

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self.ca = directory / f"{name}.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        self.cert, self.key = directory / "cert.pem", directory / "key.pem"

    def below(self, name: str) -> Authority:
        """An authority that this one has made; its file has its certificate alone."""
        made = Authority(self._directory, name)
        made._authority = self._authority.create_child_ca()
        made._authority.cert_pem.write_to_path(made.ca)
        return made

    def for_servers(self, name: str) -> ssl.SSLContext:
        """A client with a certificate that is not for clients."""
        key = load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        issued = self.issue(name)
        found = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        builder = x509.CertificateBuilder(found.issuer, found.subject, found.public_key(), found.serial_number)
        builder = builder.not_valid_before(found.not_valid_before_utc).not_valid_after(found.not_valid_after_utc)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=True)
        signed = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
        path = self._directory / "client.pem"
        path.write_bytes(signed + issued.private_key_pem.bytes())
        return tls_context(self.ca, path)

    def issue(self, *names: str, not_after: datetime | None = None, common_name: str | None = None) -> trustme.LeafCert:
        """A certificate with these names."""
        return self._authority.issue_cert(*names, not_after=not_after, common_name=common_name)

    def write(self, not_after: datetime | None = None) -> trustme.LeafCert:
        """A new certificate and its key in the files of the daemon."""
        issued = self.issue("localhost", "127.0.0.1", not_after=not_after)
        write_key(self.key, issued)
        self.cert.write_bytes(chain_of(issued))
        return issued

    def files(self, client_ca: Path | None = None) -> TlsFiles:
        """New files of the daemon, read."""
        self.write()
        return TlsFiles(self.cert, self.key, client_ca)

    def client(self, *names: str, not_after: datetime | None = None, common_name: str | None = None) -> ssl.SSLContext:
        """A client that trusts this authority, and has a certificate of it if it has a name."""
        if not names and common_name is None:
            return tls_context(self.ca)
        path = self._directory / "client.pem"
        self.issue(*names, not_after=not_after, common_name=common_name).private_key_and_cert_chain_pem.write_to_path(path)
        return tls_context(self.ca, path)


def chain_of(issued: trustme.LeafCert) -> bytes:
    """The certificate, and those between it and its authority, in PEM."""
    return b"".join(pem.bytes() for pem in issued.cert_chain_pems)


def write_key(path: Path, issued: trustme.LeafCert) -> None:
    """Put the key into a file of its owner."""
    path.touch(mode=0o600)
    path.write_bytes(issued.private_key_pem.bytes())
