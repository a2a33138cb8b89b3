"""A view: a table of the state, and the command that prints it with filters and an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from msgspec import UNSET, Struct

from ykactor.actors.clock import system_ns
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.surfaces.cli.since import Since
from ykactor.surfaces.cli.views.filters import FILTERS, Choice
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, field, table
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.wire.si import messages as si

#: Remarks about rows that are printed at most.
REMARKS_MAX = 10
PARTITION = Column("PARTITION", field("partition"))


class View(Struct, frozen=True):
    """A table of the state.

    Attributes:
        things: what the rows are about, for sentences.
        rows: of a partition's state at a Unix time in ns. Their ``partition`` is filled in.
        name: of a row, as the next command takes it.
        orders: sort keys by the name of the order; the first is the default. Equal rows are ordered by partition, and
            in it as ``rows`` has them.
        past: the columns in place of these if only what has ended is chosen; none if nothing ends.
        filters: some of ``FILTERS``; the field of the same name must be in the rows that it may keep.
        states: those that rows may have, by which they can be chosen.
        of_all: what each row ends with, which all partitions share.
        remark: a sentence about a row for standard error; "" is none.
    """

    things: str
    rows: Callable[[PartitionStatus, int], Iterable[Row]]
    name: Callable[[Row], str]
    columns: tuple[Column, ...]
    orders: Mapping[str, Callable[[Row], Any]]
    filters: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    past: tuple[Column, ...] = ()
    of_all: Callable[[si.Snapshot], Row] = lambda snapshot: {}
    remark: Callable[[Row], str] = lambda row: ""

    def of(self, snapshot: si.Snapshot, choice: Choice, order: str, now_ns: int) -> Printout:
        """The rows that are chosen, in an order; the partition is a column if there are several."""
        last = self.of_all(snapshot)
        found = [{"partition": state.name, **row, **last} for state in snapshot.partitions for row in self.rows(state, now_ns)]
        rows = sorted(filter(choice.keeps, found), key=self.orders[order])
        is_missing = PARTITION not in self.columns
        columns = self.past if self.past and choice.is_past else self.columns

        def lines(is_wide: bool) -> Iterable[str]:
            first = [PARTITION] * (is_missing and (is_wide or len(snapshot.partitions) > 1))
            return table([*first, *columns], rows, is_wide=is_wide)

        names = list(dict.fromkeys(map(self.name, rows)))
        notes = [*choice.unknown(snapshot.partitions), *self._remarks(rows)]
        return Printout(rows, names, lines, notes, self._nothing(snapshot, choice))

    def _nothing(self, snapshot: si.Snapshot, choice: Choice) -> str:
        """The sentence about an empty table."""
        is_limited = not snapshot.partitions or any(state.nodes is UNSET for state in snapshot.partitions)
        why = ["match"] * choice.is_narrow + ["the daemon shows you"] * is_limited
        return f"there are no {self.things}" + (f" that {' and that '.join(why)}" if why else "")

    def _remarks(self, rows: Iterable[Row]) -> list[str]:
        remarks = list(filter(None, map(self.remark, rows)))
        more = len(remarks) - REMARKS_MAX
        return remarks if more <= 0 else [*remarks[:REMARKS_MAX], f"and {more} more of the kind; -o json has all"]


def command_of(view: View, explanation: str) -> click.Command:
    """The command that prints a view."""

    def show(
        showing: Showing, order: str, state: tuple[str, ...] = (), since_ns: int | None = None, **names: tuple[str, ...]
    ) -> None:
        choice = Choice.of(state, since_ns, **names)
        showing.run(lambda snapshot: view.of(snapshot, choice, order, system_ns()))

    first, *_ = orders = list(view.orders)
    sort = click.option("--sort", "order", type=click.Choice(orders), default=first, show_default=True, help="The order.")
    in_state = click.option(
        "--state",
        type=click.Choice(view.states, case_sensitive=False),
        multiple=True,
        help="Only what is in this state. Repeatable.",
    )
    since = click.option(
        "--since",
        "since_ns",
        type=Since(),
        metavar="TIME",
        help="Only what has ended from this time on: in UTC, as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago.",
    )
    chooses = [
        click.option(f"--{name}", multiple=True, metavar="NAME", help=FILTERS[name].help) for name in ("partition", *view.filters)
    ]
    decorated = showing_options(show)
    for option in (sort, *[since] * bool(view.past), *[in_state] * bool(view.states), *reversed(chooses)):
        decorated = option(decorated)
    return click.command(help=explanation)(decorated)
