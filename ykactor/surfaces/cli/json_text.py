"""JSON as commands print it."""

from typing import Any

import msgspec

from ykactor.core.values.printable import printable_json


def indented(document: Any) -> str:
    """The document on several lines, without the last line end."""
    return printable_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def on_one_line(document: Any) -> str:
    """The document as a line of JSON Lines, without its end."""
    return printable_json(msgspec.json.encode(document).decode())
