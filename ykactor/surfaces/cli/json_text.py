"""JSON as people read it."""

from typing import Any

import msgspec


def indented(document: Any) -> str:
    """The document on several lines, without the last line end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
