"""Converts the "openb" GPU cluster trace (Alibaba cluster-trace-gpu-v2023) to a scenario.

The input is two CSV files, the output a ``Scenario``. How the trace is read:

- A node offers ``vcore`` (thousandths), ``memory`` (bytes) and, if it has n GPUs, n ``gpu`` and 1000 n ``gpu-milli``: more than a
  third of the tasks ask for a fraction of one. A task of n whole GPUs wants n ``gpu`` and 1000 n ``gpu-milli``, a task with a
  fraction only that. Both are amounts of a node and not of a device: four half free devices count as two free ones, so the
  scheduler may place a task that no device of the node has room for; the summary of ``simulate`` counts these.
- A task is an application with one ask. The trace has no jobs, and grouping tasks by a guess would add an order between
  them that was not recorded. The allocation key and the application ID are the task's name.
- A task arrives at ``creation_time``. Once placed it runs as long as it did in the trace, from ``scheduled_time`` to
  ``deletion_time``, so that it ends later if it waits longer. A task without ``scheduled_time`` was never placed there: it runs
  from ``creation_time`` to ``deletion_time``. The shortest run is 1 s, the resolution of the trace. ``pod_phase`` is not used.
- ``model`` is an attribute of the node. A task with a ``gpu_spec``, models with ``|`` between them, selects nodes that have one
  of them.
- The quality of service selects the queue (``QUEUES``).
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import yaml
from msgspec import Struct

from ykactor.core.values import selector
from ykactor.sim.traces import TraceError
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

#: Whole devices, and thousandths of any.
GPU, GPU_MILLI = "gpu", "gpu-milli"
#: The attribute of a node with the model of its GPUs.
MODEL = "gpu-model"
#: So that memory in bytes has 64 bits.
DIGITS_MAX = 12
#: The values of an attribute that a selector can name.
_VALUE, _VALUE_FORM = re.compile("[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"), "up to 63 letters, digits, -, _ and ."
_USER = si.UserGroupInformation(user="openb", groups=["openb"])
_BYTES_PER_MIB = 2**20
#: The run continues after the last task, because an application is Completed only 30 s later (AP-50).
_EPILOGUE_S = 60
_TASK_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip


class QueueShare(Struct, frozen=True):
    """The queue of a quality of service: leaf, priority offset and guaranteed percentage of the cluster."""

    leaf: str
    priority_offset: int
    guaranteed_percent: int


#: ``LS`` (latency sensitive) and ``Guaranteed`` have guarantees and equal offsets, so that usage relative to the guarantee
#: decides between them. ``Burstable`` has a lower priority; ``BE`` (best effort) has the lowest and no guarantee. A tenth of
#: the cluster is not guaranteed.
QUEUES = {
    "LS": QueueShare("ls", 100, 60),
    "Guaranteed": QueueShare("guaranteed", 100, 10),
    "Burstable": QueueShare("burstable", 0, 20),
    "BE": QueueShare("be", -100, 0),
}


class TraceNode(Struct, frozen=True):
    """One row of the node file, in base units."""

    node_id: str
    capacity: dict[str, int]
    model: str


class TraceTask(Struct, frozen=True):
    """One row of the task file, in base units and seconds; ``models`` is empty if it accepts all."""

    name: str
    resource: dict[str, int]
    models: tuple[str, ...]
    qos: str
    creation_s: int
    run_s: int


# ---- rows


class _Row:
    """One line of a CSV file, with file and line number for errors."""

    def __init__(self, path: Path, line: int, cells: dict[str, str]) -> None:
        self.path = path
        self.line = line
        self.cells = cells

    def refuse(self, column: str, expected: str) -> NoReturn:
        found = self.cells[column][:60]
        raise TraceError(f"{self.path}:{self.line}: column {column}: found {found!r}, expected {expected}")

    def text(self, column: str) -> str:
        if not self.cells[column]:
            self.refuse(column, "a name")
        return self.cells[column]

    def value(self, column: str) -> str:
        """The value of an attribute; it may be empty."""
        if self.cells[column] and _VALUE.fullmatch(self.cells[column]) is None:
            self.refuse(column, _VALUE_FORM)
        return self.cells[column]

    def count(self, column: str) -> int:
        """A whole number of up to ``DIGITS_MAX`` digits."""
        cell = self.cells[column]
        if not (cell.isascii() and cell.isdigit() and len(cell) <= DIGITS_MAX):
            self.refuse(column, f"a whole number of up to {DIGITS_MAX} digits")
        return int(cell)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[_Row]:
    """The rows of a file with at least these columns; names in the first column must be unique."""
    seen: set[str] = set()
    lines = _lines(path)
    _, header = next(lines, (1, []))
    for column in columns:
        if column not in header:
            raise TraceError(f"{path}:1: column {column}: missing, found {', '.join(header)[:200] or 'an empty file'}")
    for line, cells in lines:
        if len(cells) != len(header):
            raise TraceError(f"{path}:{line}: found {len(cells)} columns, expected {len(header)}")
        row = _Row(path, line, dict(zip(header, cells, strict=True)))
        if row.text(columns[0]) in seen:
            row.refuse(columns[0], "a name that did not occur before")
        seen.add(row.text(columns[0]))
        yield row


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each line."""
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines)
        try:
            for cells in reader:
                yield reader.line_num, cells
        except csv.Error as error:
            raise TraceError(f"{path}:{reader.line_num}: not CSV: {error}") from None
        except UnicodeDecodeError as error:  # found in a block of lines
            raise TraceError(f"{path}: not UTF-8 text: {error.reason}") from None


def read_nodes(path: Path) -> list[TraceNode]:
    """Read the node file.

    Raises:
        TraceError: the first error in the file.
    """
    rows = _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    return [TraceNode(row.text("sn"), _resource(row, _whole(row.count("gpu"))), row.value("model")) for row in rows]


def read_tasks(path: Path) -> list[TraceTask]:
    """Read the task file.

    Raises:
        TraceError: the first error in the file.
    """
    return [_task(row) for row in _rows(path, _TASK_COLUMNS)]


def _task(row: _Row) -> TraceTask:
    if row.cells["qos"] not in QUEUES:
        row.refuse("qos", "one of " + ", ".join(QUEUES))
    creation_s = row.count("creation_time")
    scheduled_s = row.count("scheduled_time") if row.cells["scheduled_time"] else creation_s
    if scheduled_s < creation_s:
        row.refuse("scheduled_time", f"at least the creation_time, {creation_s}")
    deletion_s = row.count("deletion_time")
    if deletion_s < scheduled_s:
        row.refuse("deletion_time", f"at least the creation_time and the scheduled_time, {scheduled_s}")
    resource = _resource(row, _gpus(row))
    return TraceTask(row.text("name"), resource, _models(row), row.cells["qos"], creation_s, max(1, deletion_s - scheduled_s))


def _models(row: _Row) -> tuple[str, ...]:
    cell = row.cells["gpu_spec"]
    models = tuple(cell.split("|")) if cell else ()
    if not all(map(_VALUE.fullmatch, models)):
        row.refuse("gpu_spec", f"{_VALUE_FORM}, with | between several")
    return models


def _whole(gpus: int) -> dict[str, int]:
    return {GPU: gpus, GPU_MILLI: 1000 * gpus} if gpus else {}


def _gpus(row: _Row) -> dict[str, int]:
    gpus, share = row.count("num_gpu"), row.count("gpu_milli")
    if gpus == 1 and not 1 <= share <= 1000:
        row.refuse("gpu_milli", "1 to 1000 thousandths of the one GPU")
    return {GPU_MILLI: share} if gpus == 1 and share < 1000 else _whole(gpus)


def _resource(row: _Row, gpus: dict[str, int]) -> dict[str, int]:
    return {"vcore": row.count("cpu_milli"), "memory": row.count("memory_mib") * _BYTES_PER_MIB} | gpus


# ---- the scenario


def openb_scenario(nodes: list[TraceNode], tasks: list[TraceTask]) -> Scenario:
    """All nodes at second 0, then each task at its own time; the last moment is when all would have ended if none waited."""
    messages = [TimedRequest(at=0, request=_node_request(nodes)), *_task_messages(tasks)]
    last_s = max((task.creation_s + task.run_s for task in tasks), default=0)
    return Scenario(name="openb", config=_config(nodes), until=last_s + _EPILOGUE_S, messages=messages)


def _node_request(nodes: list[TraceNode]) -> si.NodeRequest:
    return si.NodeRequest(
        nodes=[
            si.NodeInfo(
                node_id=node.node_id,
                action="CREATE",
                attributes={MODEL: node.model} if node.model else {},
                schedulable_resource=_wire(node.capacity),
            )
            for node in nodes
        ]
    )


def _wire(resource: dict[str, int]) -> si.WireResource:
    return dict(resource)  # the wire type also allows text, and dict is invariant


def _task_messages(tasks: list[TraceTask]) -> Iterator[TimedRequest]:
    arriving: dict[int, list[TraceTask]] = {}
    for task in tasks:
        arriving.setdefault(task.creation_s, []).append(task)
    for second, arrivals in sorted(arriving.items()):
        run_seconds = {index: float(task.run_s) for index, task in enumerate(arrivals)}
        yield TimedRequest(at=second, request=_applications(arrivals))
        yield TimedRequest(at=second, request=_asks(arrivals), run_seconds=run_seconds)


def _applications(tasks: list[TraceTask]) -> si.ApplicationRequest:
    return si.ApplicationRequest(
        new=[
            si.AddApplicationRequest(application_id=task.name, queue_name=f"root.{QUEUES[task.qos].leaf}", ugi=_USER)
            for task in tasks
        ]
    )


def _asks(tasks: list[TraceTask]) -> si.AllocationRequest:
    return si.AllocationRequest(
        allocations=[
            si.Allocation(
                allocation_key=task.name,
                application_id=task.name,
                resource_per_alloc=_wire(task.resource),
                allocation_tags={selector.TAG: f"{MODEL} in ({','.join(task.models)})"} if task.models else {},
            )
            for task in tasks
        ]
    )


def _config(nodes: list[TraceNode]) -> str:
    """One leaf for each quality of service; guarantees are percentages of all nodes together, rounded down."""
    cluster: dict[str, int] = {}
    for node in nodes:
        for name, quantity in node.capacity.items():
            cluster[name] = cluster.get(name, 0) + quantity
    leaves = [_leaf(share, cluster) for share in QUEUES.values()]
    root = {"name": "root", "submitacl": "*", "queues": leaves}
    return yaml.safe_dump({"partitions": [{"name": "default", "queues": [root]}]}, sort_keys=False)


def _leaf(share: QueueShare, cluster: dict[str, int]) -> dict[str, object]:
    leaf: dict[str, object] = {"name": share.leaf, "properties": {"priority.offset": str(share.priority_offset)}}
    if share.guaranteed_percent:
        percent = share.guaranteed_percent
        guaranteed = {name: _quantity(name, quantity * percent // 100) for name, quantity in cluster.items()}
        leaf["resources"] = {"guaranteed": guaranteed}
    return leaf


def _quantity(name: str, value: int) -> str:
    """Base units in the notation of the queue file: ``vcore`` needs the suffix ``m`` to be thousandths (CF-29)."""
    return f"{value}m" if name == "vcore" else str(value)
