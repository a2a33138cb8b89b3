"""Certificates for tests: an authority, what it issues, and the files of a daemon and of its clients."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

import trustme

from ykactor.client import tls_context
from ykactor.surfaces.server.tls_files import TlsFiles


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
