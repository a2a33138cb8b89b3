"""What the REST API answers about checks: of the live state, and of a configuration (``types``)."""

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
    """Whether a queue configuration is valid, and why it is not."""

    allowed: bool
    reason: str = ""
    checksum: str = ""
    checksum_match: bool = False
