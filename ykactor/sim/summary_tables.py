"""The summary of a run as text and tables."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ykactor.core.values.printable import printable
from ykactor.sim.summary import Preemptions, Reason, SummaryReport

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
