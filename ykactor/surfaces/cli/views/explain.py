"""``ykactor explain``: why one ask waits, what waits in a queue, and what could run on a node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import get_args

import click
from msgspec import UNSET, to_builtins

from ykactor.client import explain
from ykactor.core.inspection.explanation import AheadStatus, AskExplanation
from ykactor.core.inspection.finding import Kind
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import quantity_text
from ykactor.core.values.times import S_NS
from ykactor.core.values.words import plural
from ykactor.surfaces.cli import cells
from ykactor.surfaces.cli.cells import NONE, NOT_SHOWN, time_text
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.present_state import check_asks_nobody, on_option
from ykactor.surfaces.cli.views.explained_places import of_node, of_queue
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, table
from ykactor.surfaces.cli.views.showing import Showing, show, showing_options
from ykactor.wire.si import messages as si

_APPLICATIONS = "applications"
_KINDS = get_args(Kind)


@click.command()
@click.argument("name", metavar="APP[/ASK]|ASK|QUEUE|NODE", shell_complete=names_of("job", "app", "queue", "node"))
@click.option("--kind", type=click.Choice(_KINDS), help="What NAME is.  [default: whichever has the name]")
@click.option("--partition", default="", metavar="NAME", help="Its partition.  [default: whichever has the name]")
@click.option("--changes", is_flag=True, help="Also the smallest changes with which it would be placed, each tried on a copy.")
@click.option("--preempt", is_flag=True, help="With --changes: it may preempt, within a minute.")
@on_option
@showing_options
def command(
    name: str, kind: Kind | None, partition: str, changes: bool, preempt: bool, journal: Path | None, showing: Showing
) -> None:
    """Explain why an ask waits, of an application its first one; what waits in a queue; what could run on a node.

    A queue is root or begins with root. Of an ask first the reason, as ykactor asks prints it. Then a row for each level that the
    ask has to pass, from root to the nodes: the type that is short or scarcest there (running applications count too), how much
    of it is in use, how much more the ask wants, and how much too little that is; the level that keeps it back first is marked,
    and SINCE is for how long asks like it have been found short there. Levels without a limit are left out. Then the nodes by
    what keeps them from taking it, what comes before it and why, and for how long it has waited for what.

    With --on the journal is asked, also for an application or a task that has ended and that the daemon no longer remembers.
    With --changes copies of the present state are made, and nothing of the daemon changes. With the role replica that is done
    here; for others a child of the daemon does it, one at a time, and changes about what they may not see are counted.
    """
    if changes:
        if kind not in (None, "application", "ask"):
            raise click.UsageError(f"found --changes with --kind {kind}, expected an application or ask")
        _show_changes(name, partition, journal, showing, preempt=preempt)
        return
    if preempt:
        raise click.UsageError("found --preempt without --changes, expected both")
    if "/" in name and kind not in (None, "application", "ask"):
        raise click.UsageError(f"found APP/ASK with --kind {kind}, expected an application or ask")
    if journal is not None:
        _show_recorded(name, kind, partition, journal, showing)
        return
    name, _, key = name.partition("/")
    wanted = "application" if key else kind or ""
    showing.run_with(partial(explain, name=name, allocation_key=key, kind=wanted, partition=partition), explained)


def _show_recorded(name: str, kind: Kind | None, partition: str, journal: Path, showing: Showing) -> None:
    from ykactor.surfaces.cli.explain_journal import explain_journal  # loads the scheduler

    if showing.is_watching:
        raise click.UsageError("found --watch with --on, expected one of them")
    check_asks_nobody("--on")
    show(explained(explain_journal(journal, name, kind, partition)), showing.output)


def _show_changes(ask: str, partition: str, journal: Path | None, showing: Showing, *, preempt: bool) -> None:
    from ykactor.surfaces.cli.changes import tried, with_changes  # loads the scheduler

    if showing.is_watching:
        raise click.UsageError("found --watch with --changes, expected one of them")
    if journal is not None:
        check_asks_nobody("--on")
    answer = tried(showing.daemon, journal, ask, partition, may_preempt=preempt)
    show(with_changes(explained(answer), answer), showing.output)


def explained(answer: si.Explanation) -> Printout:
    """The explanation of an ask, a queue or a node, or what is known of a task that does not wait."""
    if (queue := answer.queue) is not None:
        return Printout(to_builtins(queue), [queue.queue_name], lambda _: of_queue(queue))
    if (node := answer.node) is not None:
        return Printout(to_builtins(node), [node.node_id], lambda _: of_node(node))
    found = answer.ask
    if found is None:
        return Printout({"status": answer.status}, [], lambda _: [printable(answer.status)])
    name = f"{found.application_id}/{found.allocation_key}"
    return Printout(to_builtins(found), [name], lambda _: _lines(found))


def _lines(found: AskExplanation) -> Iterator[str]:
    user = f" (user {found.user})" if found.user else ""
    yield printable(
        f"{found.allocation_key} of application {found.application_id}{user} waits in {found.queue_name} since "
        f"{time_text(found.creation_time)}, number {found.position} of {found.waiting} there"
    )
    yield printable(f"wants {cells.resource(found.resource)}, priority {found.priority}")
    yield printable(f"{found.code}: {found.reason}")
    yield ""
    rows = [
        {**to_builtins(level), "isBinding": index == found.binding, "time": found.time}
        for index, level in enumerate(found.levels)
    ]
    yield from table(_COLUMNS, rows)
    if found.nodes is not UNSET:
        yield ""
        yield printable(_nodes(found.nodes))
    if found.ahead:
        yield printable(f"ahead: {_ahead(found)}")
    yield printable(cells.waited(found.waited))


def _nodes(nodes: dict[str, int]) -> str:
    """``8 nodes: 5 too little vcore free, 2 drained, 1 has room``."""
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(nodes.items(), key=lambda item: (-item[1], item[0])))
    return f"{plural(sum(nodes.values()), 'node')}: {counts}" if counts else "0 nodes"


def _ahead(found: AskExplanation) -> str:
    """``root.ops (priority 10 before 0), app-3 (age ...) and 2 more``."""
    named = ", ".join(map(_one_ahead, found.ahead))
    more = found.ahead_count - len(found.ahead)
    return f"{named} and {more} more" if more else named


def _one_ahead(status: AheadStatus) -> str:
    name = f"queue {status.queue_name}" if status.application_id is UNSET else f"application {status.application_id}"
    return f"{name} ({status.by} {status.value} before {status.own})"


# ---- levels


def _place(row: Row) -> str:
    return " in ".join(filter(None, (row.get("whose", ""), row.get("queueName", ""))))


def _amount(key: str) -> Column:
    def text(row: Row) -> str:
        if key not in row:
            return NOT_SHOWN if "wants" in row else NONE
        return quantity_text(row["resource"], row[key]) if row.get("resource") else str(row[key])

    return Column(key.upper(), text, is_number=True)


def _short(row: Row) -> str:
    """The amount that is missing."""
    if not row.get("code") or "used" not in row:
        return NONE
    short = row["used"] + row["wants"] - row["max"]
    return quantity_text(row["resource"], short) if row.get("resource") else str(short)


_COLUMNS = [
    Column("LEVEL", _place),
    Column("TYPE", lambda row: row.get("resource") or (_APPLICATIONS if "wants" in row else NONE)),
    *map(_amount, ("used", "max", "wants")),
    Column("SHORT", _short, is_number=True),
    Column("SINCE", lambda row: cells.age((row["time"] - row["since"]) // S_NS) if "since" in row else NONE, is_number=True),
    Column("CODE", lambda row: f"{row['code']}  <- binding" if row["isBinding"] else row.get("code", "")),
]
