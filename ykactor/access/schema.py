# ruff: noqa: RUF012 (msgspec gives every instance its own empty list or mapping)
"""The keys of the access file: one type for each mapping, as ``wire.queuefile.fields`` reads them.

A key that is not written is None or empty, so that ``rules`` can tell it from one that is.
"""

from __future__ import annotations

from typing import ClassVar

from ykactor.wire.queuefile.fields import Text
from ykactor.wire.queuefile.text import Mapping, Scalar


class ProofText(Text):
    """One way to show the identity: one of the first three keys."""

    user: str | None = None
    certificate: str | None = None
    jwt: dict[str, str] | None = None
    expires: str = ""


class IdentityText(Text, rename={"rm_ids": "rmIDs", "may_force": "mayForce"}):
    """An identity and its rights."""

    labelled: ClassVar[bool] = True

    name: str = ""
    proofs: list[ProofText] = []
    roles: list[str] = []
    rm_ids: list[str] | None = None
    partitions: list[str] | None = None
    users: list[str] | None = None
    groups: list[str] | None = None
    may_force: bool | None = None
    configure: bool | None = None
    queues: list[str] | None = None
    limits: dict[str, str] = {}

    @classmethod
    def label(cls, node: Mapping, above: str, siblings: int) -> str:
        """The name, so that a path says whose it is."""
        entry = node.entry("name")
        return entry[1].text if entry and isinstance(entry[1], Scalar) and entry[1].text.isprintable() else ""


class JwtText(Text):
    """The source of JWTs."""

    jwks: str = ""
    issuer: str = ""
    audience: str = ""
    lifetime: str = ""


class FileText(Text):
    """The access file."""

    identities: list[IdentityText] = []
    tokens: str = ""
    jwt: JwtText | None = None
    limits: dict[str, str] = {}
