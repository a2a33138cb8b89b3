"""The part of JSON schema that ours use, to check what an editor would say of a file."""

import re
from collections.abc import Iterator
from typing import Any

from ykactor.wire.queuefile.text import Mapping, Node, Sequence


def plain(node: Node) -> Any:
    """A node as an editor sees it: scalars by YAML 1.2."""
    if isinstance(node, Mapping):
        return {plain(key): plain(value) for key, value in node.entries()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.nodes]
    if node.is_null:
        return None
    if node.plain and node.text in ("true", "false"):
        return node.text == "true"
    if node.plain and re.fullmatch(r"-?[0-9]+", node.text):
        return int(node.text)
    if node.plain and re.fullmatch(r"-?[0-9]*\.[0-9]+", node.text):
        return float(node.text)
    return node.text


KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None),
}  # fmt: skip


def complaints(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths at which ``value`` does not match ``schema``, which is a part of the schema ``root``."""
    if "$ref" in schema:
        yield from complaints(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "anyOf" in schema and all(list(complaints(value, choice, root, path)) for choice in schema["anyOf"]):
        yield path
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    matching = [
        kind for kind in kinds if isinstance(value, KINDS[kind]) and not (kind in ("integer", "number") and value is True)
    ]
    if kinds and not matching:
        yield path
    if "enum" in schema and value not in schema["enum"]:
        yield path
    if isinstance(value, int | float):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield path
        if value <= schema.get("exclusiveMinimum", value - 1):
            yield path
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from complaints(item, schema.get("items", {}), root, f"{path}[{index}]")
    if isinstance(value, dict):
        yield from (f"{path}.{key}" for key in schema.get("required", []) if key not in value)
        for key, item in value.items():
            others = schema.get("additionalProperties", {})
            inner = schema.get("properties", {}).get(key, others if isinstance(others, dict) else None)
            yield from [f"{path}.{key}"] if inner is None else complaints(item, inner, root, f"{path}.{key}")
