"""A report for people: one line for each figure."""

from rich.console import Console
from rich.table import Table

from bench.runs import Figure, Report, Result
from bench.targets import YUNIKORN_CALIBRATION_S, is_met, target, times_better, yunikorn_here


def print_report(report: Report, console: Console) -> None:
    """The table, and what it was measured on."""
    table = Table(title=f"Benchmark of {report.at}, median of {report.runs} runs", caption=_caption(report))
    table.add_column("case")
    table.add_column("figure")
    for heading in ("nodes", "asks", "RSS MiB", "median", "min to max", "target", "", "YuniKorn here", "times better"):
        table.add_column(heading, justify="right")
    for result in report.results:
        for name, figure in result.figures.items():
            table.add_row(*_cells(result, name, figure, report.calibration))
        table.add_section()
    console.print(table)


def _caption(report: Report) -> str:
    return (
        f"Calibration loop: {report.calibration:.3f} s; YuniKorn was measured where it takes {YUNIKORN_CALIBRATION_S} s, "
        f"its figures are scaled to this machine. Python {report.python}, {report.machine}."
    )


def _cells(result: Result, name: str, figure: Figure, calibration: float) -> list[str]:
    goal = target(result.name, name)
    bound = verdict = theirs = better = ""
    if goal.bound is not None:
        bound = number(goal.bound)
        verdict = "[green]met[/]" if is_met(name, figure.median, goal.bound) else "[red]missed[/]"
    if goal.yunikorn is not None:
        yunikorn = yunikorn_here(name, goal.yunikorn, calibration)
        theirs, better = number(yunikorn), f"{times_better(name, figure.median, yunikorn):.1f}"
    size = [number(result.nodes), number(result.asks), number(result.rss_mib) if result.rss_mib else ""]
    spread = f"{number(figure.min)} to {number(figure.max)}"
    return [result.name, name, *size, number(figure.median), spread, bound, verdict, theirs, better]


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
