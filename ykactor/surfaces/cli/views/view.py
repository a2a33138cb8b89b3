"""A view: a table of the state, and the command that prints it with filters and an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import click
from msgspec import Struct

from ykactor.access.model import is_below, normal_queue
from ykactor.actors.clock import system_ns
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, table
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.wire.si import messages as si

#: The state of a partition, as in a snapshot.
State = dict[str, Any]
#: The values that a filter was given, and a row.
Matches = Callable[[tuple[str, ...], Row], bool]

_PARTITION = Column("PARTITION", field("partition"))


class View(Struct, frozen=True):
    """A table of the state.

    Attributes:
        rows: of a partition's state at a Unix time in ns. Their ``partition`` is filled in.
        name: the field that names a row.
        orders: sort keys by the name of the order; the first is the default. Equal rows are ordered by partition, and
            in it as ``rows`` has them.
        filters: some of ``FILTERS``; the field of the same name must be in the rows that it may keep.
    """

    rows: Callable[[State, int], Iterable[Row]]
    name: str
    columns: tuple[Column, ...]
    orders: Mapping[str, Callable[[Row], Any]]
    filters: tuple[str, ...] = ()

    def of(self, snapshot: si.Snapshot, keeps: Callable[[Row], bool], order: str, now_ns: int) -> Printout:
        """The rows that are kept, in an order; the partition is a column if there are several."""
        found = [{"partition": state["name"], **row} for state in snapshot.partitions for row in self.rows(state, now_ns)]
        rows = sorted(filter(keeps, found), key=self.orders[order])
        is_named = len(snapshot.partitions) > 1 or self.name == "partition"

        def lines(is_wide: bool) -> Iterable[str]:
            return table([_PARTITION, *self.columns] if is_wide or is_named else self.columns, rows, is_wide=is_wide)

        return Printout(rows, [str(row[self.name]) for row in rows], lines)


def _is_in_queue(queues: tuple[str, ...], row: Row) -> bool:
    return is_below(row.get("queueName", ""), [normal_queue(queue) for queue in queues])


def _is_equal(key: str, values: tuple[str, ...], row: Row) -> bool:
    return str(row.get(key)) in values


def _is_alike(key: str, values: tuple[str, ...], row: Row) -> bool:
    return str(row.get(key)).lower() in [value.lower() for value in values]


#: The options that choose rows, each with its help.
FILTERS: Mapping[str, tuple[Matches, str]] = {
    "partition": (partial(_is_alike, "partition"), "Only what is in this partition. Repeatable."),
    "queue": (_is_in_queue, "Only what is in this queue and in the queues below it. Repeatable."),
    "state": (partial(_is_alike, "state"), "Only what is in this state. Repeatable."),
    "user": (partial(_is_equal, "user"), "Only what belongs to this user. Repeatable."),
}


def command_of(view: View, explanation: str) -> click.Command:
    """The command that prints a view."""

    def show(showing: Showing, order: str, **chosen: tuple[str, ...]) -> None:
        def keeps(row: Row) -> bool:
            return all(FILTERS[name][0](values, row) for name, values in chosen.items() if values)

        showing.run(lambda snapshot: view.of(snapshot, keeps, order, system_ns()))

    first, *_ = orders = list(view.orders)
    sort = click.option("--sort", "order", type=click.Choice(orders), default=first, show_default=True, help="The order.")
    chooses = [
        click.option(f"--{name}", multiple=True, metavar="NAME", help=FILTERS[name][1]) for name in ("partition", *view.filters)
    ]
    decorated = showing_options(show)
    for option in (sort, *reversed(chooses)):
        decorated = option(decorated)
    return click.command(help=explanation)(decorated)
