"""``wire/scenario/units.py``: bare numbers of ``vcore`` that are probably meant as cores are warned of."""

import json
from pathlib import Path

import pytest

from ykactor.wire.scenario import load
from ykactor.wire.scenario.units import unit_warnings

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
    return [text.replace(str(file), "FILE") for text in unit_warnings(file, load(file).messages)]


def test_each_is_named_with_its_line(tmp_path: Path) -> None:
    """Below 1,000 thousandths on a node and below 10 of an ask, as a number; text is never suspect."""
    file = tmp_path / "s.yaml"
    file.write_text(YAML)
    resources = ["9:67: messages[0].nodes[0].schedulableResource", "23:18: messages[1].allocations[1].resourcePerAlloc"]
    assert warnings(file) == [
        f'FILE:{resources[0]}.vcore: the number 4 is 0.004 cores; write "4" for 4 cores, "4m" for this',
        f'FILE:{resources[1]}.vcore: the number 2 is 0.002 cores; write "2" for 2 cores, "2m" for this',
    ]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_in_json(tmp_path: Path, suffix: str) -> None:
    """Also in JSON, which may be one line, and in JSON Lines, where the path is that in the message."""
    header = {"name": "small", "config": "", "until": 1}
    nodes = [{"nodeID": f"n{n}", "action": "CREATE", "schedulableResource": {"vcore": n}} for n in range(8)]
    message = {"at": 0, "type": "NodeRequest", "nodes": nodes}
    file = tmp_path / f"s.{suffix}"
    lines = [header, message] if suffix == "jsonl" else [header | {"messages": [message]}]
    file.write_text("\n".join(map(json.dumps, lines)))
    found = warnings(file)
    line, text = [*enumerate(file.read_text().splitlines(), 1)][-1]
    place = f"FILE:{line}:{text.index('1}') + 1}: " + ("messages[0]." if suffix == "json" else "")
    assert found[0].startswith(f"{place}nodes[1].schedulableResource.vcore: the number 1 is 0.001 cores")
    assert (len(found), found[-1]) == (6, "FILE: 2 more numbers of vcore like these")
