"""A view: a table of the state, and the command that prints it with filters and an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from msgspec import UNSET, Struct

from ykactor.access.model import is_below, normal_queue
from ykactor.actors.clock import system_ns
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.states import ApplicationState, Outcome
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.completing import KNOWN, names_of
from ykactor.surfaces.cli.options import since_option
from ykactor.surfaces.cli.views.listing import Column, Printout, Row, absent, field, table
from ykactor.surfaces.cli.views.showing import Showing, showing_options
from ykactor.wire.si import messages as si

#: Beside the state of what is held, as ``Ready,SchedulingDisabled`` of kubectl.
HELD = "Held"


def is_held(row: Row) -> bool:
    """True if a queue or an application is held, itself or with a queue above it."""
    return "held" in row or "heldWith" in row


def held_by(hold: Row) -> str:
    """``ops since 2026-07-31T09:30:00.000Z``."""
    return f"{hold['by']} since {time_text(hold['since'])}"


def state_text(row: Row) -> str:
    """``Active``, or ``Active,Held``; of an application that has ended, how."""
    return ",".join(states_of(row))


def states_of(row: Row) -> list[str]:
    """All that a row is: its state, or the outcome that its resource manager has told, and whether it is held."""
    state: str = row.get("outcome") or row["state"]
    return [state, HELD] if row.get("isHeld") else [state]


#: The states in which applications have ended.
_ENDED = frozenset((ApplicationState.COMPLETED, ApplicationState.FAILED, ApplicationState.REJECTED, *Outcome))


class Filter(Struct, frozen=True):
    """An option that may be given several times.

    Attributes:
        help: of the option.
        spelled: a name as the daemon writes it.
        known: the names in the state of a partition.
        keeps: whether a row has one of the names.
    """

    help: str
    spelled: Callable[[str], str]
    known: Callable[[PartitionStatus], Iterable[str]]
    keeps: Callable[[Row, Sequence[str]], bool]


FILTERS: Mapping[str, Filter] = {
    "partition": Filter(
        "Only what is in this partition. Repeatable.",
        spelled=str.lower,
        known=KNOWN["partition"],
        keeps=lambda row, names: row["partition"].lower() in names,
    ),
    "queue": Filter(
        "Only what is in this queue and in the queues below it. Repeatable.",
        spelled=normal_queue,
        known=KNOWN["queue"],
        keeps=lambda row, names: is_below(row.get("queueName", ""), names),
    ),
    "app": Filter(
        "Only what is of this application. Repeatable.",
        spelled=str,
        known=KNOWN["app"],
        keeps=lambda row, names: row.get("applicationID") in names,
    ),
    "user": Filter(
        "Only what belongs to this user. Repeatable.",
        spelled=str,
        known=KNOWN["user"],
        keeps=lambda row, names: row.get("user") in names,
    ),
}


class Choice(Struct, frozen=True):
    """The choice of the options; an option that is not given keeps all rows.

    Attributes:
        names: by the option, as the daemon writes them.
        states: of which a row must have one.
        since_ns: the Unix time before which a row must not have ended, and it must have ended.
    """

    names: Mapping[str, Sequence[str]]
    states: Sequence[str] = ()
    since_ns: int | None = None

    @classmethod
    def of(cls, states: Sequence[str] = (), since_ns: int | None = None, **names: Sequence[str]) -> Choice:
        """The choice of options with their values, as they were given."""
        spelled = {option: [FILTERS[option].spelled(name) for name in given] for option, given in names.items() if given}
        return cls(spelled, states, since_ns)

    @property
    def is_narrow(self) -> bool:
        """True if there is an option that may keep less than all rows."""
        return bool(self.names or self.states) or self.since_ns is not None

    @property
    def is_past(self) -> bool:
        """True if only ended applications can be chosen."""
        return self.since_ns is not None or (bool(self.states) and _ENDED.issuperset(self.states))

    def keeps(self, row: Row) -> bool:
        """True if all options keep the row."""
        if self.states and not any(state in self.states for state in states_of(row)):
            return False
        if self.since_ns is not None and row.get("finishedTime", -1) < self.since_ns:
            return False
        return all(FILTERS[option].keeps(row, names) for option, names in self.names.items())

    def unknown(self, states: Sequence[PartitionStatus]) -> Iterator[str]:
        """A sentence about each name that no partition has: it may be a typo."""
        for option, names in self.names.items():
            known = {name for state in states for name in FILTERS[option].known(state)}
            yield from (absent(option, name, known=sorted(known)) for name in names if name not in known)


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
            return table([*first, *columns], rows, is_wide)

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
    since = since_option("what has ended ", default=None)
    chooses = [
        click.option(f"--{name}", multiple=True, metavar="NAME", help=FILTERS[name].help, shell_complete=names_of(name))
        for name in ("partition", *view.filters)
    ]
    decorated = showing_options(show)
    for option in (sort, *[since] * bool(view.past), *[in_state] * bool(view.states), *reversed(chooses)):
        decorated = option(decorated)
    return click.command(help=explanation)(decorated)
