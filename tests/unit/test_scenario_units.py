"""``wire/scenario_units.py``: bare numbers of ``vcore`` that are probably meant as cores are warned of."""

import json
from pathlib import Path

import pytest

from ykactor.wire.scenario import load
from ykactor.wire.scenario_units import unit_warnings

YAML = """\
name: small
config: |
  partitions: [{name: default, queues: [{name: root, submitacl: "*"}]}]
until: 1
messages:
  - at: 0
    type: NodeRequest
    nodes:
      - {nodeID: n1, action: CREATE, schedulableResource: {vcore: 4, memory: 8Gi}}
      - nodeID: n2
        action: CREATE
        schedulableResource:
          vcore: "4"
      - {nodeID: n3, action: CREATE, schedulableResource: {vcore: 1000}}
  - at: 0
    type: AllocationRequest
    allocations:
      - {allocationKey: t1, applicationID: app-1, resourcePerAlloc: {vcore: 10}}
      - allocationKey: t2
        applicationID: app-1
        resourcePerAlloc:
          memory: 1
          vcore: 2
"""


def warnings(file: Path) -> list[str]:
    return [text.replace(str(file), "FILE") for text in unit_warnings(file, load(file))]


def test_each_is_named_with_its_line(tmp_path: Path) -> None:
    """Below 1,000 thousandths on a node and below 10 of an ask, as a number; text is never suspect."""
    file = tmp_path / "s.yaml"
    file.write_text(YAML)
    assert warnings(file) == [
        'FILE:9, nodes[0].schedulableResource.vcore: the number 4 is 0.004 cores; write "4" for 4 cores, "4m" for this',
        'FILE:23, allocations[1].resourcePerAlloc.vcore: the number 2 is 0.002 cores; write "2" for 2 cores, "2m" for this',
    ]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_in_json_the_message_is_named(tmp_path: Path, suffix: str) -> None:
    """A JSON file may be one line."""
    header = {"name": "small", "config": "", "until": 1}
    nodes = [{"nodeID": f"n{n}", "action": "CREATE", "schedulableResource": {"vcore": n}} for n in range(8)]
    message = {"at": 0, "type": "NodeRequest", "nodes": nodes}
    file = tmp_path / f"s.{suffix}"
    lines = [header, message] if suffix == "jsonl" else [header | {"messages": [message]}]
    file.write_text("\n".join(map(json.dumps, lines)))
    found = warnings(file)
    assert found[0].startswith("FILE, message 1, nodes[1].schedulableResource.vcore: the number 1 is 0.001 cores")
    assert (len(found), found[-1]) == (6, "FILE: 2 more numbers of vcore like these")
