"""Scenario files."""

import io
import json
from pathlib import Path

import pytest

from ykactor.wire.scenario import Scenario, ScenarioError, TimedRequest, dump_jsonl, load
from ykactor.wire.si import messages as si
from ykactor.wire.si.requests import submissions

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance"

YAML = """\
name: two-queues
config: |
  partitions:
    - name: default
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: n1, action: CREATE, schedulableResource: {vcore: "4", memory: 8Gi}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: app-1, queueName: root.a, ugi: {user: no, groups: [dev]}}]}
  - {at: 1.5, type: AllocationRequest, allocations: [{allocationKey: t1, applicationID: app-1,
     resourcePerAlloc: {vcore: 500, memory: 010, gpu: "2"}, priority: 10}]}
until: 60
confirmReleases: false
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_yaml_scenario(tmp_path):
    """A scenario in YAML loads; quantities are integers in base units or text, quoted or not."""
    scenario = load(write(tmp_path, "s.yaml", YAML))
    assert (scenario.name, scenario.until, scenario.confirm_releases) == ("two-queues", 60.0, False)
    assert scenario.config == "partitions:\n  - name: default\n"
    node, application, allocation = scenario.messages
    assert [message.at for message in scenario.messages] == [0.0, 0.0, 1.5]
    assert isinstance(node.request, si.NodeRequest)
    assert node.request.nodes[0].schedulable_resource == {"vcore": "4", "memory": "8Gi"}
    assert isinstance(application.request, si.ApplicationRequest)
    assert application.request.new[0].ugi.user == "no"
    assert isinstance(allocation.request, si.AllocationRequest)
    assert allocation.request.allocations[0].resource_per_alloc == {"vcore": 500, "memory": "010", "gpu": "2"}


def test_all_three_formats_load_as_equal_scenarios(tmp_path):
    """A scenario as YAML, JSON and JSON Lines loads as equal scenarios; dump_jsonl writes to a path or an open file."""
    scenario = load(write(tmp_path, "s.yml", YAML))
    dump_jsonl(scenario, tmp_path / "s.jsonl")
    assert load(str(tmp_path / "s.jsonl")) == scenario
    file = io.BytesIO()
    dump_jsonl(scenario, file)
    assert file.getvalue() == (tmp_path / "s.jsonl").read_bytes()
    header, *lines = map(json.loads, file.getvalue().splitlines())
    assert list(lines[0])[:2] == ["at", "type"]
    assert load(write(tmp_path, "s.json", json.dumps({**header, "messages": lines}))) == scenario


def test_defaults(tmp_path):
    """By default releases are confirmed and there are no messages; blank lines are ignored."""
    text = '{"name":"a","config":"","until":1}\n'
    expected = Scenario("a", "", 1.0)
    assert load(write(tmp_path, "s.json", text)) == expected
    assert load(write(tmp_path, "s.jsonl", text + "\n  \n")) == expected
    message = '\n{"at":0,"type":"NodeRequest"}\n'
    assert load(write(tmp_path, "m.jsonl", text + message)).messages == [TimedRequest(0.0, si.NodeRequest())]


HEADER = '{"name":"a","config":"","until":9}\n'
EARLY = '{"at":0,"type":"NodeRequest"}\n'


@pytest.mark.parametrize(
    ("name", "text", "number", "path", "words"),
    [
        ("s.yaml", "a: [", 0, "", "not valid YAML"),
        ("s.yaml", "name: a\nname: b\n", 0, "", "found the key name twice"),
        (
            "s.yaml",
            "name: a\nconfig: ''\nuntil: 1\nmessages:\n- {at: 0, type: NodeRequest, type: NodeRequest}",
            0,
            "",
            "type twice",
        ),
        ("s.yaml", "name: a\n---\nname: b\n", 0, "", "single document"),
        ("s.yaml", "", 0, "", "found nothing, expected a mapping"),
        ("s.yaml", "- a", 0, "", "found list, expected a mapping"),
        ("s.yaml", "name: !!int x", 0, "", "not valid YAML"),
        ("s.yaml", "name: !!bool x", 0, "", "not valid YAML"),
        ("s.yaml", "name: !!timestamp x", 0, "", "not valid YAML"),
        ("s.yaml", "name: a\nconfig: ''\nuntil: soon", 0, "until", "found str, expected float"),
        ("s.yaml", "name: a\nconfig: ''\nuntil: 1e300", 0, "until", "expected float <="),
        ("s.yaml", "name: a\nconfig: ''\nuntil: 1\nmessages: {}", 0, "messages", "found dict, expected a list"),
        ("s.yaml", "name: a\nconfig: ''\nuntil: 1\nmessages: [x]", 1, "", "found str, expected a mapping"),
        ("s.json", "{", 0, "", "not JSON"),
        ("s.json", '{"name":"a","name":"b"}', 0, "name", "twice"),
        ("s.json", '{"config":"","until":1}', 0, "name", "required"),
        ("s.json", '{"name":"a","config":"","until":1,"seed":3}', 0, "seed", "does not exist"),
        ("s.jsonl", "", 0, "name", "required"),
        ("s.jsonl", HEADER + EARLY + "{\n", 2, "", "not JSON"),
        ("s.jsonl", HEADER + '{"type":"NodeRequest"}\n', 1, "at", "required"),
        ("s.jsonl", HEADER + '{"at":-1,"type":"NodeRequest"}\n', 1, "at", "expected float >= 0"),
        ("s.jsonl", HEADER + '{"at":true,"type":"NodeRequest"}\n', 1, "at", "found bool"),
        ("s.jsonl", HEADER + '{"at":2,"type":"NodeRequest"}\n' + EARLY, 2, "at", "found 0.0, expected at least 2.0"),
        ("s.jsonl", HEADER + EARLY + '{"at":1,"type":"NodeRequest","at":2}\n', 2, "at", "twice"),
        ("s.jsonl", HEADER + EARLY + '{"at":1,"type":"Nodes"}\n', 2, "type", "expected one of NodeRequest"),
        ("s.jsonl", HEADER + '{"at":1,"type":"RegisterResourceManagerRequest","rmID":"a"}\n', 1, "type", "expected one of"),
        (
            "s.jsonl",
            HEADER + '{"at":1,"type":"NodeRequest","nodes":[{"nodeID":"n","action":"CREATE","schedulableResource":{"v":0.5}}]}',
            1,
            "nodes[0].schedulableResource.v",
            "found float",
        ),
    ],
)
def test_mistakes_in_files(tmp_path, name, text, number, path, words):
    """The error has the file, the number of the message and the path in the message."""
    file = write(tmp_path, name, text)
    with pytest.raises(ScenarioError) as caught:
        load(file)
    error = caught.value
    assert (error.file, error.number, error.path) == (str(file), number, path)
    assert words in error.message
    assert str(error).startswith(str(file))


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("name: a\nmessages: [", 3, 1, "while parsing a flow node, did not find expected node content"),
        ("name: a\n  b: c: d\n", 2, 4, "mapping values are not allowed in this context"),
        ("name: a\nname: b\n", 1, 1, "found the key name twice, expected it once"),
        ("name: a\nx: \u00e9\x00", 2, 5, "control characters are not allowed"),
        ("name: !mine x\n", 1, 7, "could not determine a constructor for the tag '!mine'"),
    ],
)
def test_yaml_mistakes_are_one_line_with_their_place(tmp_path, text, line, column, words):
    """An error in the YAML has the form of errors in the queue file: ``file:line:column: message``."""
    file = write(tmp_path, "s.yaml", text)
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert str(caught.value) == f"{file}:{line}:{column}: found text that is not valid YAML: {words}"


def test_a_missing_file_is_an_os_error(tmp_path):
    """A file that cannot be read raises OSError, not ScenarioError."""
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="the conformance scenarios are not beside this checkout")
def test_conformance_scenarios_load(tmp_path):
    """Every conformance scenario loads, converts to submissions without a mistake, and survives JSON Lines."""
    paths = sorted(CONFORMANCE.glob("*/*/scenario.json"))
    assert paths
    for path in paths:
        scenario = load(path)
        for message in scenario.messages:
            if isinstance(message.request, si.NodeRequest | si.ApplicationRequest | si.AllocationRequest):
                submissions(message.request)
        dump_jsonl(scenario, tmp_path / "copy.jsonl")
        assert load(tmp_path / "copy.jsonl") == scenario
