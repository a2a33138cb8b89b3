"""The names in a client certificate, and when it ends."""

from typing import Any

from ykactor.access.credentials import Credentials, shown_by
from ykactor.core.values.times import NEVER

#: As ``ssl.SSLObject.getpeercert`` returns it.
FOUND: dict[str, Any] = {
    "subject": ((("organizationName", "DNS:org"),), (("commonName", "bob"), ("commonName", "DNS:b"))),
    "notAfter": "Jan 15 08:00:01 2027 GMT",
    "subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://a/b"), ("email", "a@b"), ("IP Address", "10.0.0.1")),
}


def test_names() -> None:
    """SE-7: each with its type, which a name cannot pretend; names of other types and of issuers are none."""
    assert shown_by(FOUND).certificate == ("DNS:a.example", "URI:spiffe://a/b", "email:a@b", "CN:bob", "CN:DNS:b")
    assert shown_by(FOUND | {"issuer": FOUND["subject"], "subject": (), "subjectAltName": ()}).certificate == ()


def test_the_end() -> None:
    """SE-33: it expires when the certificate does; later than any time that can be written is never."""
    assert shown_by(FOUND).certificate_expires_ns == 1_800_000_001 * 10**9
    assert shown_by(FOUND | {"notAfter": "Dec 31 23:59:59 9999 GMT"}).certificate_expires_ns == NEVER


def test_without_a_certificate() -> None:
    """SE-1: nothing is shown. OpenSSL has an empty description of one that is not verified."""
    assert shown_by(None) == shown_by({}) == Credentials()
