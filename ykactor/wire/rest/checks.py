"""The answers of the REST API about checks: of the live state, and of a configuration (``types``)."""

from __future__ import annotations

from ykactor.wire.rest.types import Payload


class HealthCheck(Payload, frozen=True, kw_only=True, rename="pascal"):
    """One check."""

    name: str
    succeeded: bool
    description: str = ""
    diagnosis_message: str = ""


class Health(Payload, frozen=True, kw_only=True, rename="pascal"):
    """All checks, and whether all have succeeded."""

    healthy: bool
    health_checks: list[HealthCheck] = []


class Verdict(Payload, frozen=True, kw_only=True):
    """The verdict on a queue configuration, with the reason if it is not valid."""

    allowed: bool
    reason: str = ""
    checksum: str = ""
    checksum_match: bool = False
