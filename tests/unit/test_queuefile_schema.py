"""The JSON schema of queue files, for editors, and the samples that it is shipped with."""

import json
from pathlib import Path

import pytest
from jsonschemas import complaints, plain
from queuetexts import SAMPLES

from ykactor.surfaces.cli.queue_files import schema_text
from ykactor.wire.queuefile import schema as queueschema
from ykactor.wire.queuefile.fields import Text
from ykactor.wire.queuefile.schema import json_schema
from ykactor.wire.queuefile.text import Mistakes, Scalar, compose

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


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_name_the_schema(path: Path) -> None:
    """Editors find the schema by the first line of a sample."""
    assert path.read_text().startswith("# yaml-language-server: $schema=queues.schema.json\n")


def complaints_of(text: str) -> list[str]:
    node = compose(text, Mistakes("q.yaml"))
    return list(complaints(plain(node or Scalar(1, 1, "", plain=True)), SCHEMA, SCHEMA))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
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
