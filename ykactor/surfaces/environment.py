"""What the environment decides; everything that decides is read here, at the edge, and handed in."""

from collections.abc import Mapping

#: Where this variable is "true", in any case, no ask reserves a node unless it requires that node (SC-50).
DISABLE_RESERVATION = "DISABLE_RESERVATION"


def reserves_nodes(environment: Mapping[str, str]) -> bool:
    """Whether asks reserve nodes."""
    return environment.get(DISABLE_RESERVATION, "").lower() != "true"
