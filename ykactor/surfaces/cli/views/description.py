"""One object on several lines, as ``kubectl describe`` has it: its fields, then tables of what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import click
from msgspec import Struct, structs

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.printable import printable
from ykactor.surfaces.cli.cells import NONE
from ykactor.surfaces.cli.views.filters import absent
from ykactor.surfaces.cli.views.listing import Column, Row, table
from ykactor.wire.si import messages as si

#: Before the lines of a table that belongs to an object.
_INDENT = "  "

T = TypeVar("T")


class Part(Struct, frozen=True):
    """A table with a title; left out without rows."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]


def fields_of(columns: Iterable[Column]) -> list[Column]:
    """The columns of a table as the fields of one object, with their labels."""
    shown = [column for column in columns if column.label is not None]
    return [structs.replace(each, header=each.label or each.header.replace("-", " ").capitalize()) for each in shown]


def lines_of(fields: Sequence[Column], row: Row, parts: Sequence[Part]) -> Callable[[bool], Iterator[str]]:
    """The lines about one object, given whether with all columns; fields without a value are left out."""

    def lines(is_wide: bool) -> Iterator[str]:
        every = [(field, printable(field.text(row))) for field in fields]
        shown = [(field, text) for field, text in every if text not in ("", NONE)]
        width = max(len(field.header) for field, _ in shown)
        for field, text in shown:
            colour = field.colour(row)
            yield f"{field.header:{width}}  {text if colour is None else click.style(text, fg=colour)}"
        for part in parts:
            if part.rows:
                yield f"{part.title}:"
                yield from (_INDENT + line for line in table(part.columns, part.rows, is_wide=is_wide))

    return lines


def find(
    snapshot: si.Snapshot, kind: str, section: Callable[[PartitionStatus], Mapping[str, T]], name: str, partition: str | None
) -> tuple[PartitionStatus, T]:
    """The state of the partition that has an object of this name in a section, and the object.

    Raises:
        ClickException: no partition has it, or several have.
    """
    found = [state for state in snapshot.partitions if name in section(state) and partition in (None, state.name)]
    if not found:
        raise click.ClickException(absent(kind, name, "the daemon" if partition is None else f"partition {partition}"))
    if len(found) > 1:
        names = " and ".join(state.name for state in found)
        raise click.ClickException(f"found {kind} {name} in the partitions {names}, expected --partition with one of them")
    (state,) = found
    return state, section(state)[name]
