"""The JSON schema of queue files, for editors, and the samples that it is shipped with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ykactor.surfaces.cli.check_config import schema_text
from ykactor.wire.queuefile import schema as queueschema
from ykactor.wire.queuefile.places import Text
from ykactor.wire.queuefile.schema import json_schema
from ykactor.wire.queuefile.text import Mapping, Mistakes, Node, Scalar, Sequence, compose

CONFIG = Path(__file__).parents[2] / "config"
SCHEMA = json_schema()

TYPES = [kind for kind in vars(queueschema).values() if isinstance(kind, type) and issubclass(kind, Text) and kind is not Text]

#: CF-62 to CF-71, mapping by mapping.
KEYS = {
    "FileText": "partitions checksum",
    "PartitionText": "name queues placementrules limits preemption nodesortpolicy usergroupresolver",
    "QueueText": "name parent queues resources maxapplications properties adminacl submitacl childtemplate limits",
    "ResourcesText": "guaranteed max",
    "TemplateText": "maxapplications properties resources",
    "LimitText": "limit users groups maxapplications maxresources",
    "NodeSortText": "type resourceweights",
    "PreemptionText": "enabled quotapreemptionenabled",
    "ResolverText": "type",
    "RuleText": "name create parent value filter",
    "FilterText": "type users groups",
}


def test_keys() -> None:
    """CF-62 to CF-71: the types, and the schema made of them, have exactly these keys; each with a description."""
    assert {kind.__name__: set(kind.__struct_encode_fields__) for kind in TYPES} == {n: set(k.split()) for n, k in KEYS.items()}
    assert {name: set(entry["properties"]) for name, entry in SCHEMA["$defs"].items()} == {
        n: set(k.split()) for n, k in KEYS.items()
    }
    for definition in SCHEMA["$defs"].values():
        assert definition["description"]
        assert definition["additionalProperties"] is False
        assert all(value["description"] for value in definition["properties"].values())


def test_shipped_schema() -> None:
    """config/queues.schema.json is what ``check-config --schema`` prints."""
    shipped = (CONFIG / "queues.schema.json").read_text()
    assert shipped == schema_text()
    assert json.loads(shipped) == SCHEMA


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_samples_name_the_schema(path: Path) -> None:
    """Editors find the schema by the first line of a sample."""
    assert path.read_text().startswith("# yaml-language-server: $schema=queues.schema.json\n")


# ---- as much of JSON schema as ours uses


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


def complaints(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths at which ``value`` does not match the schema."""
    if "$ref" in schema:
        yield from complaints(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], path)
    if "anyOf" in schema and all(list(complaints(value, choice, path)) for choice in schema["anyOf"]):
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
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        yield path
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from complaints(item, schema.get("items", {}), f"{path}[{index}]")
    if isinstance(value, dict):
        yield from (f"{path}.{key}" for key in schema.get("required", []) if key not in value)
        for key, item in value.items():
            others = schema.get("additionalProperties", {})
            inner = schema.get("properties", {}).get(key, others if isinstance(others, dict) else None)
            yield from [f"{path}.{key}"] if inner is None else complaints(item, inner, f"{path}.{key}")


def complaints_of(text: str) -> list[str]:
    node = compose(text, Mistakes("q.yaml"))
    return list(complaints(plain(node or Scalar(1, 1, "", plain=True)), SCHEMA))


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_samples_pass(path: Path) -> None:
    """The schema accepts every sample."""
    assert complaints_of(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("partitions: [{queues: [{name: a, resources: {max: {vcore: 1, memory: 1Gi, gpu: }}}]}]", []),
        ("partitions: [{queues: [{name: 7, submitacl: , limits: , properties: {priority.offset: 5, mine: true}}]}]", []),
        ("partitions: [{queues: [], nodesortpolicy: {type: binpacking, resourceweights: {a: 1, b: 0.5}}, limits: }]", []),
        ("partitions: [{queues: [], preemption: , placementrules: [{name: User, parent: {name: tag, value: 5}}]}]", []),
        ("partitions: [{queues: [{name: a, maxApplications: 1}]}]", [".partitions[0].queues[0].maxApplications"]),
        ("partitions: [{queues: [{name: a, maxapplications: -1}]}]", [".partitions[0].queues[0].maxapplications"]),
        ("partitions: [{queues: [{name: a, maxapplications: x}]}]", [".partitions[0].queues[0].maxapplications"]),
        ("partitions: [{queues: [{name: [a]}]}]", [".partitions[0].queues"]),
        ("partitions: [{queues: [], nodesortpolicy: {type: Fair}}]", [".partitions[0].nodesortpolicy"]),
        ("partitions: [{queues: [], usergroupresolver: {type: nis}}]", [".partitions[0].usergroupresolver"]),
        ("partitions: [{queues: [], limits: {users: [bob]}}]", [".partitions[0].limits"]),
        ("partitions: [{}]", [".partitions[0].queues"]),
        ("{}", [".partitions"]),
    ],
)
def test_what_the_schema_says(text: str, expected: list[str]) -> None:
    """CF-5, CF-10: any scalar is text, and null is allowed; keys, types and fixed words are checked."""
    found = complaints_of(text)
    assert bool(found) == bool(expected)
    assert all(any(place.startswith(path) or path.startswith(place) for path in expected) for place in found)
