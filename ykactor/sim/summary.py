"""The summary of a run: counts, preemption, pending asks with reasons, utilisation by resource, wait times by queue.

``Summary.observe`` takes every fact in order and costs O(1); ``finish`` returns the report, a plain struct that can be printed
(``print_report``), compared, or encoded as JSON. The keys of the JSON are in ``README.md`` beside this file: programs read
them, so they stay.
"""

from array import array
from collections.abc import Iterable

from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationRejected,
    AskAdded,
    AskRemoved,
    Fact,
    NodeAdded,
    NodeCapacityChanged,
    NodeRejected,
    NodeRemoved,
    Preempted,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.printable import printable
from ykactor.core.values.resources import Resource, add_to
from ykactor.sim.devices import Devices, DeviceUse

_NS = 1_000_000_000
_EXAMPLES_MAX = 3

_AskKey = tuple[ApplicationID, AllocationKey]


def _json_key(name: str) -> str:
    """``mean_s`` -> ``meanSeconds``, ``in_vain`` -> ``inVain``."""
    head, *tail = name.split("_")
    return head + "".join("Seconds" if word == "s" else word.capitalize() for word in tail)


class WaitTimes(Struct, frozen=True, rename=_json_key):
    """Seconds from the arrival of an ask to its allocation; percentiles are observed values (nearest rank)."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    max_s: float


class Utilisation(Struct, frozen=True, rename=_json_key):
    """Use of one resource in base units and in percent of the capacity of all nodes.

    The average is weighted by time and capacity: used unit-seconds divided by offered unit-seconds. Percentages are None without
    capacity.
    """

    used: int
    capacity: int
    end_percent: float | None
    average_percent: float | None


class Example(Struct, frozen=True):
    """An entry and its owner.

    The owner of a pending ask is its queue, of a refused ask its application; of a refused application or node it is this word.
    """

    key: str
    owner: str


class Reason(Struct, frozen=True):
    """Pending or refused entries with the same reason, of which the first few are the examples."""

    reason: str
    count: int
    examples: tuple[Example, ...]


class Preemptions(Struct, frozen=True, rename=_json_key):
    """Counters of preemption.

    Attributes:
        count: attempts of asks that found victims.
        evictions: allocations released by preemption, quota preemption included.
        work_lost: what the victims of asks had used, in base units times seconds.
        in_vain: asks that preempted and did not run afterwards.
    """

    count: int
    evictions: int
    work_lost: Resource
    in_vain: int


class SummaryReport(Struct, frozen=True, rename=_json_key):
    """The summary of a run. Queues and resources are in alphabetical order, reasons in order of descending count."""

    duration_s: float
    placed: int
    released: int
    cancelled: int
    rejected: int
    rejected_reasons: tuple[Reason, ...]
    pending: int
    pending_reasons: tuple[Reason, ...]
    preemptions: Preemptions
    utilisation: dict[str, Utilisation]
    waits: dict[QueuePath, WaitTimes]
    devices: dict[str, DeviceUse]


class _Level:
    """A quantity over time and its integral in unit-nanoseconds, in exact integers."""

    __slots__ = ("area", "since_ns", "value")

    def __init__(self, begin_ns: int) -> None:
        self.value = 0
        self.area = 0
        self.since_ns = begin_ns

    def change(self, at_ns: int, delta: int) -> None:
        self.area += self.value * (at_ns - self.since_ns)
        self.since_ns = at_ns
        self.value += delta


class _Levels(dict[str, _Level]):
    """One level for each resource type; a type that was never seen has the value 0."""

    def __init__(self, begin_ns: int) -> None:
        super().__init__()
        self._begin_ns = begin_ns

    def __missing__(self, name: str) -> _Level:
        level = self[name] = _Level(self._begin_ns)
        return level

    def add(self, at_ns: int, delta: Resource) -> None:
        for name, quantity in delta.items():
            self[name].change(at_ns, quantity)

    def subtract(self, at_ns: int, delta: Resource) -> None:
        for name, quantity in delta.items():
            self[name].change(at_ns, -quantity)


class Summary:
    """Summarises the facts of a run, which begins at ``begin_ns``."""

    def __init__(self, begin_ns: int = 0) -> None:
        self._begin_ns = begin_ns
        self._placed = self._released = self._cancelled = 0
        self._refused: list[tuple[str, str, str]] = []
        self._used = _Levels(begin_ns)
        self._capacity = _Levels(begin_ns)
        self._capacity_of: dict[NodeID, Resource] = {}
        self._waiting_since_ns: dict[_AskKey, int] = {}
        self._preemptions = self._evictions = 0
        self._work_lost: Resource = {}
        #: Asks that have preempted and not run since.
        self._hoping: set[_AskKey] = set()
        #: 8 bytes for each placed ask: percentiles need all wait times.
        self._waits_ns: dict[QueuePath, array[int]] = {}
        self._devices = Devices()

    def observe(self, fact: Fact) -> None:
        """Count the next fact. O(resource types)."""
        self._devices.observe(fact)
        match fact:
            case AskAdded():
                self._waiting_since_ns[_key(fact)] = fact.at_ns
            case Allocated():
                self._on_allocated(fact)
            case Released():
                self._released += 1
                self._used.subtract(fact.at_ns, fact.ask.resource)
            case AllocationResized():
                self._used.subtract(fact.at_ns, fact.before.resource)
                self._used.add(fact.at_ns, fact.after.resource)
            case AskRemoved() if self._waiting_since_ns.pop(_key(fact), None) is not None:
                self._cancelled += 1
            case AllocationRejected(_, key, application_id, reason):
                self._refused.append((key, application_id, reason))
            case ApplicationRejected(_, application_id, reason):
                self._refused.append((application_id, "application", reason.split(f"application {application_id}: ")[-1]))
            case NodeRejected(_, node_id, reason):
                self._refused.append((node_id, "node", reason.splitlines()[-1]))
            case Preempted():
                self._preemptions += 1
                self._hoping.add(_key(fact))
                add_to(self._work_lost, fact.work_lost)
            case ReleaseStarted(termination_type=TerminationType.PREEMPTED_BY_SCHEDULER):
                self._evictions += 1
            case NodeAdded() | NodeCapacityChanged():
                self._set_capacity(fact.at_ns, fact.node_id, fact.capacity)
            case NodeRemoved():
                self._set_capacity(fact.at_ns, fact.node_id, {})
            case _:
                pass  # states of applications, queues and configurations are not counted

    def finish(self, end_ns: int, pending: list[tuple[AllocationKey, QueuePath, str]]) -> SummaryReport:
        """The report of the run.

        Args:
            end_ns: the end of the run, nanoseconds; not before the last fact.
            pending: the pending asks: key, queue and reason.
        """
        return SummaryReport(
            duration_s=(end_ns - self._begin_ns) / _NS,
            placed=self._placed,
            released=self._released,
            cancelled=self._cancelled,
            rejected=len(self._refused),
            rejected_reasons=_grouped(self._refused),
            pending=len(pending),
            pending_reasons=_grouped(pending),
            preemptions=Preemptions(self._preemptions, self._evictions, self._work_lost, len(self._hoping)),
            utilisation={
                name: _utilisation(self._used[name], self._capacity[name], end_ns)
                for name in sorted(self._used.keys() | self._capacity.keys())
            },
            waits={queue: _wait_times(self._waits_ns[queue]) for queue in sorted(self._waits_ns)},
            devices=self._devices.uses(),
        )

    def _on_allocated(self, fact: Allocated) -> None:
        self._placed += 1
        self._hoping.discard(_key(fact))
        self._used.add(fact.at_ns, fact.ask.resource)
        since_ns = self._waiting_since_ns.pop(_key(fact), None)
        if since_ns is None:  # recovered with its node: it was never pending
            return
        if fact.queue not in self._waits_ns:
            self._waits_ns[fact.queue] = array("q")
        self._waits_ns[fact.queue].append(fact.at_ns - since_ns)

    def _set_capacity(self, at_ns: int, node_id: NodeID, capacity: Resource) -> None:
        self._capacity.subtract(at_ns, self._capacity_of.pop(node_id, {}))
        if capacity:
            self._capacity.add(at_ns, capacity)
            self._capacity_of[node_id] = capacity


def _key(fact: AskAdded | AskRemoved | Allocated | Preempted | Released) -> _AskKey:
    return fact.ask.application_id, fact.ask.allocation_key


def _grouped(entries: Iterable[tuple[str, str, str]]) -> tuple[Reason, ...]:
    by_reason: dict[str, list[Example]] = {}
    for key, owner, reason in entries:
        by_reason.setdefault(reason, []).append(Example(key, owner))
    ranked = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    return tuple(Reason(reason, len(found), tuple(found[:_EXAMPLES_MAX])) for reason, found in ranked)


def _utilisation(used: _Level, capacity: _Level, end_ns: int) -> Utilisation:
    used.change(end_ns, 0)
    capacity.change(end_ns, 0)
    return Utilisation(
        used=used.value,
        capacity=capacity.value,
        end_percent=_percent(used.value, capacity.value),
        average_percent=_percent(used.area, capacity.area),
    )


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole > 0 else None


def _wait_times(waits_ns: "array[int]") -> WaitTimes:
    ordered = sorted(waits_ns)
    count = len(ordered)

    def nearest_rank_s(percent: int) -> float:
        return ordered[-(-percent * count // 100) - 1] / _NS

    return WaitTimes(count, sum(ordered) / count / _NS, nearest_rank_s(50), nearest_rank_s(90), ordered[-1] / _NS)


_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
#: More characters than any line of a table has.
WIDTH = 100_000


def wide_console() -> Console:
    """Standard output. In a file or a pipe nothing is wrapped or cut: a program or a wider terminal reads it."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def print_report(report: SummaryReport, console: Console) -> None:
    """Print the report as tables, without empty ones."""
    console.print(
        f"[bold]{report.placed}[/] placed, [bold]{report.pending}[/] pending, [bold]{report.released}[/] released, "
        f"{report.cancelled} cancelled, {report.rejected} rejected in {_seconds(report.duration_s)}",
        highlight=False,
    )
    _print_preemptions(report.preemptions, console)
    for name, use in report.devices.items():
        said = f"{escape(printable(name))}: {use.without_device} of {use.placed} placements had room on no single device"
        console.print(said, highlight=False)
    reasons = (_reasons_table("Pending", report.pending_reasons), _reasons_table("Rejected", report.rejected_reasons))
    for table in (*reasons, _utilisation_table(report), _waits_table(report)):
        if table.row_count:
            console.print(table)


def _print_preemptions(preemptions: Preemptions, console: Console) -> None:
    """One line if anything was preempted; lost work in hours."""
    if not preemptions.evictions:
        return
    lost = ", ".join(f"{name} {_quantity(name, amount // 3600)} h" for name, amount in sorted(preemptions.work_lost.items()))
    console.print(
        f"preemptions: [bold]{preemptions.count}[/], released allocations: [bold]{preemptions.evictions}[/], "
        f"asks that preempted and did not run: {preemptions.in_vain}, work lost: {escape(printable(lost or 'none'))}",
        highlight=False,
    )


def _reasons_table(title: str, reasons: tuple[Reason, ...]) -> Table:
    table = Table("count", "reason", "for example", title=title, title_justify="left")
    table.columns[0].justify = "right"
    for group in reasons:
        examples = ", ".join(f"{example.key} ({example.owner})" for example in group.examples)
        table.add_row(str(group.count), _text(group.reason), _text(examples))
    return table


def _utilisation_table(report: SummaryReport) -> Table:
    table = Table("resource", "used", "capacity", "at the end", "average", title="Utilisation", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, use in report.utilisation.items():
        used, capacity = _quantity(name, use.used), _quantity(name, use.capacity)
        table.add_row(_text(name), used, capacity, _percent_text(use.end_percent), _percent_text(use.average_percent))
    return table


def _waits_table(report: SummaryReport) -> Table:
    table = Table("queue", "placed", "mean", "p50", "p90", "max", title="Wait times", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for queue, waits in report.waits.items():
        spans = (waits.mean_s, waits.p50_s, waits.p90_s, waits.max_s)
        table.add_row(_text(queue), str(waits.count), *(_seconds(span) for span in spans))
    return table


def _text(text: str) -> Text:
    """Text, because reasons print resources as map[...], which rich would take for markup."""
    return Text(printable(text))


def _seconds(span_s: float) -> str:
    return f"{span_s:,.1f} s"


def _percent_text(percent: float | None) -> str:
    return "-" if percent is None else f"{percent:.1f} %"


def _quantity(name: str, value: int) -> str:
    """Cores for ``vcore``, binary suffixes for ``memory``, plain units for everything else."""
    if name == "vcore":
        return f"{value / 1000:,.1f}"
    if name != "memory":
        return f"{value:,}"
    scaled, power = float(value), 0
    while abs(scaled) >= 1024 and power < len(_BINARY_SUFFIXES) - 1:
        scaled, power = scaled / 1024, power + 1
    return f"{scaled:.1f}{_BINARY_SUFFIXES[power]}"
