"""``sim/openb.py`` and ``surfaces/cli/convert.py``: a production trace as a scenario."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec import structs
from simulated import simulate

from ykactor.core.messages.facts import Allocated
from ykactor.sim.openb import openb_scenario, read_nodes, read_tasks
from ykactor.sim.traces import TraceError
from ykactor.surfaces.cli.convert import command

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,0,\nn1,96000,2048,8,G2\n"
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
TRACE = Path(__file__).parents[2].parent / "shared" / "data" / "openb"


def convert(tmp_path: Path, *tasks: str) -> list[dict[str, Any]]:
    """The lines of the scenario for the two nodes above and these tasks."""
    nodes_csv, tasks_csv = tmp_path / "nodes.csv", tmp_path / "tasks.csv"
    nodes_csv.write_text(NODES)
    tasks_csv.write_text(HEADER + "".join(f"{task}\n" for task in tasks))
    result = CliRunner().invoke(command, ["openb", str(nodes_csv), str(tasks_csv)])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_nodes_are_in_base_units(tmp_path: Path) -> None:
    """vcore in thousandths, memory in bytes, GPUs whole and in thousandths; a node without GPUs offers none, and has no model."""
    _, nodes, *_ = convert(tmp_path)
    assert nodes["type"] == "NodeRequest"
    assert [node["schedulableResource"] for node in nodes["nodes"]] == [
        {"vcore": 32000, "memory": 2**30},
        {"vcore": 96000, "memory": 2**31, "gpu": 8, "gpu-milli": 8000},
    ]
    assert [node.get("attributes") for node in nodes["nodes"]] == [None, {"gpu-model": "G2"}]


@pytest.mark.parametrize(
    ("num_gpu", "gpu_milli", "expected"),
    [
        (0, 0, {}),
        (1, 460, {"gpu-milli": 460}),
        (1, 1000, {"gpu": 1, "gpu-milli": 1000}),
        (4, 1000, {"gpu": 4, "gpu-milli": 4000}),
    ],
)
def test_gpu_share(tmp_path: Path, num_gpu: int, gpu_milli: int, expected: dict[str, int]) -> None:
    """One GPU may be shared in thousandths; several are whole ones."""
    lines = convert(tmp_path, f"t,1000,512,{num_gpu},{gpu_milli},,LS,Running,5,9,5")
    assert lines[3]["allocations"][0]["resourcePerAlloc"] == {"vcore": 1000, "memory": 2**29} | expected


def test_a_task_selects_the_models_that_it_accepts(tmp_path: Path) -> None:
    """Only one of the two nodes has a model that the task names."""
    convert(tmp_path, "t,1000,512,1,460,G2|P100,LS,Running,5,9,5", "u,1000,512,0,0,P100,LS,Running,5,9,5")
    scenario = openb_scenario(read_nodes(tmp_path / "nodes.csv"), read_tasks(tmp_path / "tasks.csv"))
    placed = {fact.ask.allocation_key: fact.node_id for fact in simulate(scenario).facts if isinstance(fact, Allocated)}
    assert placed == {"t": "n1"}


def test_a_task_is_an_application_with_one_ask(tmp_path: Path) -> None:
    """The application arrives at its creation time in the leaf of its qos."""
    head, _, application, ask = convert(tmp_path, "t,1000,512,0,0,,Burstable,Pending,5,9,")
    assert application["at"] == ask["at"] == 5
    assert application["new"][0]["applicationID"] == "t"
    assert application["new"][0]["queueName"] == "root.burstable"
    assert ask["allocations"] == [
        {"allocationKey": "t", "applicationID": "t", "resourcePerAlloc": {"vcore": 1000, "memory": 2**29}, "runSeconds": 4}
    ]
    assert head["until"] > 9 + 30


@pytest.mark.parametrize(
    ("times", "run_s"), [("5,9,5", 4), ("5,9,7", 2), ("5,9,", 4), ("5,5,", 1), ("5,9,9", 1)], ids=lambda value: str(value)
)
def test_a_task_runs_as_long_as_in_the_trace(tmp_path: Path, times: str, run_s: int) -> None:
    """The run time is from scheduled_time, or from creation_time if it was never placed, to deletion_time, at least a second."""
    *_, ask = convert(tmp_path, f"t,1000,512,0,0,,LS,Running,{times}")
    assert [entry["runSeconds"] for entry in ask["allocations"]] == [run_s]


def test_waiting_delays_the_end(tmp_path: Path) -> None:
    """A task on a full cluster runs later than in the trace, and as long."""
    rows = [f"t{number},96000,512,8,1000,,LS,Running,{number},{number + 100},{number}" for number in range(3)]
    convert(tmp_path, *rows)
    scenario = openb_scenario(read_nodes(tmp_path / "nodes.csv"), read_tasks(tmp_path / "tasks.csv"))
    facts = simulate(structs.replace(scenario, until=1000.0)).facts
    starts = [fact.at_ns // 10**9 for fact in facts if isinstance(fact, Allocated)]
    assert starts == [0, 100, 200]


def test_guarantees_are_shares_of_the_cluster(tmp_path: Path) -> None:
    """Each leaf's guarantee is its percentage of all nodes together, in the notation of the queue file."""
    head, *_ = convert(tmp_path)
    (root,) = yaml.safe_load(head["config"])["partitions"][0]["queues"]
    leaves = {leaf["name"]: leaf for leaf in root["queues"]}
    assert list(leaves) == ["ls", "guaranteed", "burstable", "be"]
    assert leaves["ls"]["resources"]["guaranteed"] == {
        "vcore": "76800m",
        "memory": str(3 * 2**30 * 60 // 100),
        "gpu": "4",
        "gpu-milli": "4800",
    }
    assert "resources" not in leaves["be"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("t,many,512,0,0,,LS,Running,5,9,5", "tasks.csv:3: column cpu_milli: found 'many', expected a whole number"),
        ("t,1000,-1,0,0,,LS,Running,5,9,5", "tasks.csv:3: column memory_mib: found '-1', expected a whole number"),
        (f"t,{'9' * 5000},512,0,0,,LS,Running,5,9,5", "cpu_milli: found '" + "9" * 60 + "', expected a whole number of up to 12"),
        (f"{'t' * 200_000},1000,512,0,0,,LS,Running,5,9,5", "tasks.csv:3: not CSV: field larger than"),
        ("t,1000,512,1,1200,,LS,Running,5,9,5", "tasks.csv:3: column gpu_milli: found '1200', expected 1 to 1000"),
        ("t,1000,512,1,100,G2|,LS,Running,5,9,5", "tasks.csv:3: column gpu_spec: found 'G2|', expected up to 63 letters"),
        ("t,1000,512,0,0,,Gold,Running,5,9,5", "tasks.csv:3: column qos: found 'Gold', expected one of LS"),
        ("t,1000,512,0,0,,LS,Running,5,4,5", "tasks.csv:3: column deletion_time: found '4', expected at least"),
        ("t,1000,512,0,0,,LS,Running,5,8,9", "tasks.csv:3: column deletion_time: found '8', expected at least"),
        ("t,1000,512,0,0,,LS,Running,5,8,4", "tasks.csv:3: column scheduled_time: found '4', expected at least"),
        (
            "first,1000,512,0,0,,LS,Running,5,9,5",
            "tasks.csv:3: column name: found 'first', expected a name that did not",
        ),
        (",1000,512,0,0,,LS,Running,5,9,5", "tasks.csv:3: column name: found '', expected a name"),
        ("t,1000,512", "tasks.csv:3: found 3 columns, expected 11"),
    ],
)
def test_a_mistake_names_its_place(tmp_path: Path, row: str, says: str) -> None:
    """File, line, column, what was found and what was expected."""
    tasks_csv = tmp_path / "tasks.csv"
    tasks_csv.write_text(f"{HEADER}first,1000,512,0,0,,LS,Running,5,9,5\n{row}\n")
    with pytest.raises(TraceError) as caught:
        read_tasks(tasks_csv)
    assert says in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The file is refused with its name, as for other mistakes."""
    (tmp_path / "nodes.csv").write_bytes(b"sn,cpu_milli\n\xff\n")
    with pytest.raises(TraceError, match=r"nodes\.csv: not UTF-8 text: invalid start byte"):
        read_nodes(tmp_path / "nodes.csv")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """The wrong file is recognised by its first line."""
    tasks_csv = tmp_path / "tasks.csv"
    tasks_csv.write_text(HEADER)
    with pytest.raises(TraceError, match=r"tasks\.csv:1: column sn: missing, found name, cpu_milli"):
        read_nodes(tasks_csv)


def test_a_mistake_leaves_no_output(tmp_path: Path) -> None:
    """The command fails with the sentence and has written nothing."""
    nodes_csv, output = tmp_path / "nodes.csv", tmp_path / "out.jsonl"
    nodes_csv.write_text("sn\n")
    result = CliRunner().invoke(command, ["openb", str(nodes_csv), str(nodes_csv), "-o", str(output)])
    assert result.exit_code == 1
    assert "column cpu_milli: missing" in result.output
    assert not output.exists()


@pytest.mark.skipif(not TRACE.is_dir(), reason="the openb trace is not here")
def test_the_whole_trace() -> None:
    """All 1,523 nodes and 8,152 tasks are converted, and each task has its time."""
    paths = [str(TRACE / "openb_node_list_all_node.csv"), str(TRACE / "openb_pod_list_default.csv")]
    result = CliRunner().invoke(command, ["openb", *paths])
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines[1]["nodes"]) == 1523
    assert sum(len(line.get("new", ())) for line in lines) == 8152
    assert sum(len(line.get("allocations", ())) for line in lines) == 8152
    assert all(ask["runSeconds"] >= 1 for line in lines for ask in line.get("allocations", ()))
    times = [line["at"] for line in lines[1:]]
    assert times == sorted(times)
