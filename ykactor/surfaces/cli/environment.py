"""Environment variables that affect scheduling. They are read here only, and passed on as settings."""

from collections.abc import Mapping

#: If this variable is "true", in any case, an ask reserves a node only if it requires that node (SC-50).
DISABLE_RESERVATION = "DISABLE_RESERVATION"


def reserves_nodes(environment: Mapping[str, str]) -> bool:
    """True if asks reserve nodes."""
    return environment.get(DISABLE_RESERVATION, "").lower() != "true"
