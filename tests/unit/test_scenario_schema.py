"""The JSON schema of scenario files, for editors."""

import json
from importlib import resources
from pathlib import Path

import pytest
from jsonschemas import complaints, plain

from ykactor.surfaces.cli.simulate import schema_text
from ykactor.wire.queuefile.text import Mistakes, compose
from ykactor.wire.scenario.model import json_schema

ROOT = Path(__file__).parents[2]
CONFORMANCE = ROOT.parent / "shared" / "conformance"
SCHEMA = json_schema()
START = "name: a\nconfig: ''\nuntil: 9\n"


def complaints_of(text: str) -> list[str]:
    node = compose(text, Mistakes("s.yaml"))
    assert node is not None
    return list(complaints(plain(node), SCHEMA, SCHEMA))


def test_shipped_schema() -> None:
    """config/scenario.schema.json is what ``simulate --schema`` prints."""
    shipped = (ROOT / "config" / "scenario.schema.json").read_text()
    assert shipped == schema_text()
    assert json.loads(shipped) == SCHEMA


def test_what_editors_show() -> None:
    """Every key that only scenarios have is described, and so are the names of actions."""
    assert all(entry["description"] for entry in SCHEMA["properties"].values())
    assert all(SCHEMA["$defs"][name]["properties"]["at"]["description"] for name in ("NodeRequest", "ScheduleRequest"))
    assert SCHEMA["$defs"]["Allocation"]["properties"]["runSeconds"]["description"]
    assert "CREATE_DRAIN" in SCHEMA["$defs"]["NodeInfo"]["properties"]["action"]["examples"]


def test_the_page_has_every_key() -> None:
    """The page about scenarios names each key of the schema."""
    page = (ROOT / "ykactor" / "sim" / "README.md").read_text()
    keys = {*SCHEMA["properties"], *(key for entry in SCHEMA["$defs"].values() for key in entry["properties"])}
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_the_samples_pass() -> None:
    """The packaged sample, and the scenarios of the documents."""
    assert complaints_of((resources.files("ykactor.sim") / "sample.yaml").read_text()) == []
    page = (ROOT / "ykactor" / "sim" / "README.md").read_text()
    assert complaints_of(page.partition("```yaml\n")[2].partition("```")[0]) == []
    chapter = (ROOT / "ykactor" / "handbook" / "first-hour.md").read_text()
    assert complaints_of(chapter.partition("```yaml\n")[2].partition("```")[0]) == []


@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="the conformance scenarios are not beside this checkout")
def test_the_conformance_scenarios_pass() -> None:
    """The schema accepts every recorded scenario, those with mistakes that the scheduler refuses too."""
    paths = sorted(CONFORMANCE.glob("*/*/scenario.json"))
    assert paths
    for path in paths:
        assert list(complaints(json.loads(path.read_text()), SCHEMA, SCHEMA)) == [], path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (START, True),
        (START + "confirmReleases: false\nmessages: []", True),
        (START + "messages: [{at: 0.5, type: NodeRequest}]", True),
        (START + "messages: [{at: 1, type: AllocationRequest, allocations: [{allocationKey: t, runSeconds: 0.1}]}]", True),
        (START + "messages: [{at: 1, type: AllocationRequest, allocations: [{allocationKey: t, runSeconds: 0}]}]", False),
        (START + "messages: [{at: 1, type: AllocationRequest, allocations: [{applicationID: t}]}]", False),
        (START + "messages: [{at: 1, type: NodeRequest, nodes: [{nodeID: n, action: CREATE, runSeconds: 1}]}]", False),
        (START + "messages: [{type: NodeRequest}]", False),
        (START + "messages: [{at: -1, type: NodeRequest}]", False),
        (START + "messages: [{at: 1, type: RegisterResourceManagerRequest, rmID: a}]", False),
        (START + "seed: 3", False),
        ("name: a\nconfig: ''\n", False),
    ],
)
def test_what_the_schema_says(text: str, expected: bool) -> None:
    """Keys, types and ranges are checked, as ``load`` does."""
    assert (complaints_of(text) == []) == expected
