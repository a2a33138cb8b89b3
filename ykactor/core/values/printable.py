"""Texts without terminal commands: names, reasons and messages are chosen by others.

Besides control characters, those of C1 too, what changes the order of letters (U+202E) or cannot be seen is escaped.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line, with escapes in place of all characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """A JSON text that says the same; JSON itself escapes only some of these characters."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _json_escape(char) for char in text)


def _json_escape(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")  # two units beyond the first 65,536 characters
    return "".join(f"\\u{data[place : place + 2].hex()}" for place in range(0, len(data), 2))
