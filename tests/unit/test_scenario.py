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
wantsSchedulingStates: true
wakes: false
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_yaml_scenario(tmp_path):
    """A scenario in YAML loads; quantities are integers in base units or text, quoted or not."""
    scenario = load(write(tmp_path, "s.yaml", YAML))
    assert (scenario.name, scenario.until) == ("two-queues", 60.0)
    assert (scenario.confirm_releases, scenario.wants_scheduling_states, scenario.wakes) == (False, True, False)
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
    """The defaults: releases are confirmed, the scheduler wakes, there are no messages; blank lines are ignored."""
    text = '{"name":"a","config":"","until":1}\n'
    expected = Scenario("a", "", 1.0)
    assert (expected.confirm_releases, expected.wakes) == (True, True)
    assert load(write(tmp_path, "s.json", text)) == expected
    assert load(write(tmp_path, "s.jsonl", text + "\n  \n")) == expected
    message = '\n{"at":0,"type":"NodeRequest"}\n'
    assert load(write(tmp_path, "m.jsonl", text + message)).messages == [TimedRequest(0.0, si.NodeRequest())]


HEADER = '{"name":"a","config":"","until":9}\n'
EARLY = '{"at":0,"type":"NodeRequest"}\n'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("s.yaml", "a: [", "2:1: not YAML: did not find expected node content"),
        ("s.yaml", "name: a\n  b: c: d\n", "2:4: not YAML: mapping values are not allowed in this context"),
        ("s.yaml", "name: a\nx: \u00e9\x00", "2:5: not YAML: the character '\\x00' is not allowed"),
        ("s.yaml", "", "1:1: found nothing, expected a mapping with name, config, until and messages"),
        ("s.yaml", "- a", "1:1: found a list, expected a mapping"),
        ("s.yaml", "name: a\nconfig: ''\nuntil: 1\nmessages: {}", "4:1: messages: found a mapping, expected a list"),
        ("s.yaml", "name: a\nconfig: ''\nuntil: 1\nmessages: [x]", '4:12: messages[0]: found "x", expected a mapping'),
        ("s.yaml", "name: a\nconfig: ''\nuntil: 1e300", "3:8: until: found 1e300, expected a number <="),
        ("s.json", "{", "1:2: not JSON: Input data was truncated"),
        ("s.json", '{"name":"a",\n"name":"b"}', "2:1: name: found this key twice, expected it once"),
        ("s.json", '{"config":"",\n"until":1}', "1:1: name: found nothing, expected this required field"),
        ("s.json", '{"name":"a","config":"",\n "until":1,"seed":3}', "2:12: seed: found a field that does not exist here"),
        ("s.json", '{"name":"\\ud83d\\ude00","config":"","until":"x"}', '1:1: until: found "x", expected a number'),
        ("s.json", '{"name":"\\ud83d\\ude00","name":""}', "1:1: name: found this key twice, expected it once"),
        ("s.jsonl", HEADER + '{"at":1,"type":"NodeRequest","nodes":3}\n', "2:38: nodes: found 3, expected a list"),
        ("s.jsonl", HEADER + '{"at":1e999,"type":"NodeRequest"}\n', "2:34: not JSON: Number out of range"),
        ("s.jsonl", HEADER + EARLY + "{x\n", "3:2: not JSON: JSON is malformed: object keys must be strings"),
        ("s.jsonl", HEADER + '{"type":"NodeRequest"}\n', "2:1: at: found nothing, expected this required field"),
        ("s.yaml", "# a queue file\npartitions: []\n", "2:1: partitions: found a queue file, expected a scenario"),
        ("s.jsonl", HEADER + '{"at":-1,"type":"NodeRequest"}\n', "2:7: at: found -1, expected a number >= 0"),
        ("s.jsonl", HEADER + '{"at":true,"type":"NodeRequest"}\n', "2:7: at: found true, expected a number"),
        ("s.jsonl", HEADER + '{"at":2,"type":"NodeRequest"}\n' + EARLY, "3:7: at: found 0.0, expected at least 2.0"),
        ("s.jsonl", HEADER + '{"at":1,"type":"NodeRequest","at":2}\n', "2:30: at: found this key twice, expected it once"),
        ("s.jsonl", HEADER + '{"at":1,"type":"Nodes"}\n', "2:16: type: found 'Nodes', expected one of NodeRequest"),
        ("s.jsonl", HEADER + '{"at":1,"type":["Nodes"]}\n', "2:9: type: found list, expected str"),
        ("s.jsonl", HEADER + '{"at":1,"type":"RegisterResourceManagerRequest","rmID":"a"}\n', "2:16: type: found"),
        ("s.jsonl", HEADER + "\xff\n", "2:1: not UTF-8 text: invalid start byte at byte 0"),
    ],
)
def test_mistakes_in_files(tmp_path, name, text, expected):
    """Each has file, line and column, the path in the document (in JSON Lines in the message), what was found and expected."""
    file = tmp_path / name
    file.write_bytes(text.encode("latin-1") if "\xff" in text else text.encode())
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}:{expected}")
    assert len(caught.value.mistakes) == 1


WRONG = """\
name: a
name: b
until: soon
colour: red
messages:
  - {at: 3, type: NodeRequest, nodes: [{nodeID: n1, size: 4}, {nodeID: 7, action: CREATE}]}
  - at: 1
    type: AllocationRequest
    allocations:
      - {allocationKey: t1, resourcePerAlloc: {vcore: 0.5, memory: [1], gpu: 1}, priority: 10000000000}
      - !mine {allocationKey: t2, preemptionPolicy: {allowPreemptSelf: 1}}
  - {at: 4, type: Nodes}
  - nodes
"""


def test_all_mistakes_at_once(tmp_path):
    """One run finds every mistake, also several in one message, in the order of the file."""
    file = write(tmp_path, "s.yaml", WRONG)
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert [line.removeprefix(f"{file}:").split(", AllocationRequest,")[0] for line in str(caught.value).splitlines()] == [
        "1:1: config: found nothing, expected this required field",
        "2:1: name: the key was already set in line 1",
        '3:8: until: found "soon", expected a number',
        "4:1: colour: found a field that does not exist here",
        "6:40: messages[0].nodes[0].action: found nothing, expected this required field",
        "6:53: messages[0].nodes[0].size: found a field that does not exist here",
        "6:72: messages[0].nodes[1].nodeID: found 7, expected a text",
        "7:9: messages[1].at: found 1.0, expected at least 3.0, the at of the message before",
        "10:55: messages[1].allocations[0].resourcePerAlloc.vcore: found 0.5, expected a whole number or a text",
        "10:60: messages[1].allocations[0].resourcePerAlloc.memory: found a list, expected a whole number or a text",
        "10:92: messages[1].allocations[0].priority: found 10000000000, expected a whole number <= 2147483647",
        "11:9: found the tag '!mine', expected none",
        "11:72: messages[1].allocations[1].preemptionPolicy.allowPreemptSelf: found 1, expected true or false",
        "12:19: messages[2].type: found 'Nodes', expected one of NodeRequest, ApplicationRequest",
        '13:5: messages[3]: found "nodes", expected a mapping with at, type and the request\'s fields',
    ]


def test_an_empty_file_lacks_every_field(tmp_path):
    """JSON Lines without a header."""
    with pytest.raises(ScenarioError) as caught:
        load(write(tmp_path, "s.jsonl", ""))
    assert [mistake.path for mistake in caught.value.mistakes] == ["name", "config", "until"]


def test_the_first_twenty_mistakes(tmp_path):
    """The text has 20 of them and the number of the others; nothing is said of messages that cannot be read."""
    file = write(tmp_path, "s.jsonl", "{\n" + '{"at":1,"type":"NodeRequest","x":1}\n' * 30)
    with pytest.raises(ScenarioError) as caught:
        load(file)
    first, second, *others = str(caught.value).splitlines()
    assert (first, second) == (
        f"{file}:1:2: not JSON: Input data was truncated",
        f"{file}:2:30: x: found a field that does not exist here",
    )
    assert (len(others), others[-1]) == (19, "and 11 more")


def test_a_tree_of_aliases_is_refused(tmp_path):
    """A few lines of YAML cannot stand for billions of values."""
    levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 12))
    with pytest.raises(ScenarioError, match="aliases repeat more than 100000 values"):
        load(write(tmp_path, "s.yaml", f"l0: &l0 [x]\n{levels}\n"))


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


RUNS = """\
name: a
config: ''
until: 9
messages:
  - at: 0
    type: AllocationRequest
    allocations:
      - {allocationKey: t1, applicationID: app-1}
      - {allocationKey: t2, applicationID: app-1, runSeconds: RUN}
"""


def test_run_seconds(tmp_path):
    """An ask may say how long it runs; the request is the one of the protocol, without this field."""
    scenario = load(write(tmp_path, "s.yaml", RUNS.replace("RUN", "2.5")))
    (message,) = scenario.messages
    assert message.run_seconds == {1: 2.5}
    assert [ask.allocation_key for ask in message.request.allocations] == ["t1", "t2"]
    dump_jsonl(scenario, tmp_path / "s.jsonl")
    assert load(tmp_path / "s.jsonl") == scenario


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0", "found 0, expected a number > 0"),
        ("-1", "found -1, expected a number > 0"),
        ("soon", 'found "soon", expected a number'),
        ("", "found nothing, expected a number"),
        ("1e10", "expected a number <= 8000000000"),
    ],
)
def test_wrong_run_seconds(tmp_path, value, words):
    """``runSeconds`` is a number of seconds above 0."""
    with pytest.raises(ScenarioError) as caught:
        load(write(tmp_path, "s.yaml", RUNS.replace("RUN", value)))
    assert "messages[0].allocations[1].runSeconds: " in str(caught.value)
    assert words in str(caught.value)


def test_run_seconds_is_for_asks_only(tmp_path):
    """Elsewhere it is an unknown field."""
    with pytest.raises(ScenarioError, match=r"nodes\[0\].runSeconds: found a field that does not exist here"):
        load(
            write(
                tmp_path,
                "s.jsonl",
                HEADER + '{"at":1,"type":"NodeRequest","nodes":[{"nodeID":"n","action":"CREATE","runSeconds":1}]}',
            )
        )


# ---- the queue file of a scenario

QUEUES = "partitions:\n  - name: default\n"


@pytest.mark.parametrize("name", ["queues.yaml", "queues.yml", "../scenarios/queues.yaml", "|\n  queues.yaml"])
def test_a_queue_file_beside_the_scenario(tmp_path, name):
    """A ``config`` of one line that ends like the name of a YAML file is a path, relative to the scenario."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for written in ("queues.yaml", "queues.yml"):
        write(folder, written, QUEUES)
    scenario = load(write(folder, "s.yaml", f"name: a\nuntil: 1\nconfig: {name}\n"))
    assert scenario.config == QUEUES
    assert Path(scenario.config_file).resolve().parent == folder.resolve()
    dump_jsonl(scenario, tmp_path / "s.jsonl")
    assert load(tmp_path / "s.jsonl") == Scenario("a", QUEUES, 1.0)


@pytest.mark.parametrize("config", ["", "partitions: []", "partitions: []\n# as in queues.yaml\n", "# no\n# queues.yaml"])
def test_any_other_config_is_the_text(tmp_path, config):
    """Also if its last line ends like a path."""
    scenario = load(write(tmp_path, "s.json", json.dumps({"name": "a", "until": 1, "config": config})))
    assert (scenario.config, scenario.config_file) == (config, "")


def test_another_queue_file(tmp_path):
    """The caller may name a queue file, which counts instead of the scenario's, even if that one is missing."""
    other = write(tmp_path, "other.yaml", QUEUES)
    scenario = load(write(tmp_path, "s.yaml", "name: a\nuntil: 1\nconfig: none.yaml\n"), other)
    assert (scenario.config, scenario.config_file) == (QUEUES, str(other))


def test_a_queue_file_that_cannot_be_read(tmp_path):
    """Missing: an OSError with its name and that of the scenario. Not UTF-8: a mistake in that file."""
    file = write(tmp_path, "s.yaml", "name: a\nuntil: 1\nconfig: queues.yaml\n")
    with pytest.raises(FileNotFoundError, match=r"s\.yaml: config: .*queues\.yaml"):
        load(file)
    (tmp_path / "queues.yaml").write_bytes(b"\xff")
    with pytest.raises(ScenarioError, match=r"queues\.yaml:1:1: not UTF-8 text"):
        load(file)
