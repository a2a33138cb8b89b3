"""What a client certificate shows (SE-7), as ``ssl.SSLObject.getpeercert`` describes it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from ykactor.access.credentials import Credentials
from ykactor.core.values.times import NEVER, S_NS

#: The types of the names that are taken, as the description has them; the type of the last one is written as in access files.
_TYPES = {"URI": "URI", "DNS": "DNS", "email": "email", "commonName": "CN"}


def shown_by(certificate: Mapping[str, Any] | None) -> Credentials:
    """The names of a verified certificate, and when it expires; no names without one."""
    if not certificate:
        return Credentials()
    subject = [field for fields in certificate.get("subject", ()) for field in fields if field[0] == "commonName"]
    found = (*certificate.get("subjectAltName", ()), *subject)
    return Credentials(
        certificate=tuple(f"{_TYPES[kind]}:{name}" for kind, name in found if kind in _TYPES),
        certificate_expires_ns=min(ssl.cert_time_to_seconds(certificate["notAfter"]) * S_NS, NEVER),
    )
