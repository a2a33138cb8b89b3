"""Rows as a table, JSON, YAML or names, and one object with its fields: the formats of ``-o``, the same for all commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, zip_longest
from typing import Any, TypeVar

import click
import yaml
from msgspec import Struct, structs
from rich.cells import cell_len

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.printable import printable
from ykactor.surfaces.cli.cells import NONE, NOT_SHOWN
from ykactor.surfaces.cli.terminal import indented, terminal_width
from ykactor.surfaces.cli.views.fitting import broken, has_room, longest_word, within
from ykactor.wire.si import messages as si

#: One object as in JSON: a part of a snapshot with the names of what it belongs to. Quantities are base units, times Unix ns.
Row = dict[str, Any]

FORMATS = ("table", "wide", "json", "yaml", "name")
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="wide: a table with more columns; json, yaml: all fields; name: only names, one on each line.",
)
_GAP = "  "
#: Before the lines of a table that belongs to an object, and of a sentence below its row.
_INDENT = "  "
#: The characters of a line of an optional column at least: it must not take the room of the others.
_OPTIONAL_LEAST = 8
#: The one in C takes a third of the time.
_DUMPER = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class Column(Struct, frozen=True):
    """One column of a table.

    Attributes:
        text: of a row; it may hold anything, and is made printable. "" is shown as ``-``.
        is_wide: only with ``-o wide``.
        is_number: aligned on the right.
        is_sentence: the last column, with room of its own on a narrow terminal.
        is_optional: left out of a table in which no row has a text for it, and broken anywhere on a narrow terminal.
        colour: of a row's cell, on terminals; None is the usual one.
        label: its name where one object is described (``description.fields_of``); "" is the header, None leaves it out.
    """

    header: str
    text: Callable[[Row], str]
    is_wide: bool = False
    is_number: bool = False
    is_sentence: bool = False
    is_optional: bool = False
    colour: Callable[[Row], str | None] = lambda row: None
    label: str | None = ""


def field(key: str, text: Callable[[Any], str] = str, missing: str = NONE) -> Callable[[Row], str]:
    """The text of one field of a row; ``-`` if it is null, ``missing`` if the row does not have it."""
    return lambda row: missing if key not in row else NONE if row[key] is None else text(row[key])


def shown(key: str, text: Callable[[Any], str] = str) -> Callable[[Row], str]:
    """The text of a field that a daemon leaves out for limited readers."""
    return field(key, text, NOT_SHOWN)


def none_shown(things: str) -> str:
    """The note below an empty table of what may be hidden."""
    return f"there are no {things} that match and that the daemon shows you"


class Printout(Struct, frozen=True):
    """The output of a command.

    Attributes:
        document: the content as JSON.
        names: of the objects in it.
        lines: for people, given whether with all columns.
        notes: sentences for standard error.
        nothing: the note below an empty table: there may be nothing, or it is hidden from the caller. Empty: no note.
    """

    document: Any
    names: list[str]
    lines: Callable[[bool], Iterable[str]]
    notes: Sequence[str] = ()
    nothing: str = ""


def formatted(printout: Printout, output: str) -> Iterable[str]:
    """The lines of a printout in one of ``FORMATS``."""
    match output:
        case "json":
            return [indented(printout.document)]
        case "yaml":
            return [_yaml(printout.document)]
        case "name":
            return map(printable, printout.names)
        case _:
            return printout.lines(output == "wide")


def _yaml(document: Any) -> str:
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=2**16)
    return text.rstrip("\n")


def table(
    every: Sequence[Column], rows: Sequence[Row], is_wide: bool = False, indent: str = "", width: int | None = None
) -> Iterator[str]:
    """A line of headers and one for each row, all behind an indent.

    On a terminal that is too narrow, and without ``is_wide``, a row has several lines: cells are broken, and if that is not
    enough the sentence in the last column is below the others. Nothing is cut.

    Args:
        width: of the lines where there is no terminal; None: a row is a line there.
    """
    columns = [column for column in every if (is_wide or not column.is_wide) and _is_needed(column, rows)]
    headers = [column.header for column in columns]
    cells = [[printable(column.text(row)) or NONE for column in columns] for row in rows]
    widths = [max(map(cell_len, of_column)) for of_column in zip(headers, *cells, strict=True)]
    room = None if is_wide else terminal_width() or width
    layout = _layout(columns, cells, widths, None if room is None else room - len(indent))
    for row, texts in zip((None, *rows), (headers, *cells), strict=True):
        yield from (indent + line for line in layout.lines(texts, row))


def _is_needed(column: Column, rows: Sequence[Row]) -> bool:
    return not column.is_optional or any(column.text(row) not in ("", NONE) for row in rows)


class _Layout(Struct, frozen=True):
    """The widths of the columns, and the width of the lines of a sentence below the others; 0: there is none."""

    columns: Sequence[Column]
    widths: Sequence[int]
    below: int = 0

    def lines(self, texts: Sequence[str], row: Row | None) -> Iterator[str]:
        """The lines of a row, or without one those of the headers."""
        columns = self.columns[: len(self.widths)]
        parts = [broken(text, width, is_header=row is None) for text, width in zip(texts, self.widths, strict=False)]
        for cells in zip_longest(*parts, fillvalue=""):
            yield _line(columns, cells, self.widths, row)
        if self.below and texts[-1] != NONE:
            for line in broken(texts[-1], self.below):
                yield _INDENT + _coloured(self.columns[-1], line, row)


def _layout(columns: Sequence[Column], cells: Sequence[Sequence[str]], widths: Sequence[int], room: int | None) -> _Layout:
    """The widths that fit into a room, as far as there are some."""
    if room is None or sum(widths) + len(_GAP) * (len(widths) - 1) <= room:
        return _Layout(columns, widths)
    texts = zip(*cells, strict=True) if cells else [()] * len(columns)
    words = [
        _OPTIONAL_LEAST if column.is_optional else longest_word(column.header, found)
        for column, found in zip(columns, texts, strict=True)
    ]
    least = [min(width, longest) for width, longest in zip(widths, words, strict=True)]
    if columns[-1].is_sentence:
        *others, sentence = widths
        left = room - sum(others) - len(_GAP) * len(others)
        if has_room(sentence, left):
            return _Layout(columns, [*others, left])
        fitting = within(others, least, room - len(_GAP) * (len(others) - 1))
        return _Layout(columns, fitting, max(1, room - len(_INDENT)))
    return _Layout(columns, within(widths, least, room - len(_GAP) * (len(widths) - 1)))


def _line(columns: Sequence[Column], texts: Sequence[str], widths: Sequence[int], row: Row | None) -> str:
    shown = []
    for column, text, width in zip(columns, texts, widths, strict=True):
        blanks, styled = " " * (width - cell_len(text)), _coloured(column, text, row)
        shown.append(blanks + styled if column.is_number else styled + blanks)
    return _GAP.join(shown).rstrip(" ")


def _coloured(column: Column, text: str, row: Row | None) -> str:
    colour = None if row is None or not text else column.colour(row)
    return text if colour is None else click.style(text, fg=colour)


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
                yield from table(part.columns, part.rows, is_wide, _INDENT)

    return lines


#: The verb that lists what an option, or an argument, names.
_LISTS = {"partition": "partitions", "queue": "queues", "user": "users", "application": "apps", "app": "apps", "node": "nodes"}


#: Names that are compared with an unknown one, and their letters.
_COMPARED_MAX, _LETTERS_MAX = 5000, 64
#: The likeness below which a name is no help: all queues begin alike.
_ALIKE = 0.75


def absent(kind: str, name: str, where: str = "the daemon", known: Iterable[str] = ()) -> str:
    """Says that nothing of this kind has the name, as far as it is shown, and which of the known names may be meant."""
    near = _nearest(name, list(islice(known, _COMPARED_MAX)))
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    return f"{where} has no {kind} {name}, or does not show it{hint}; ykactor {_LISTS[kind]} lists them"


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    """The names that end with a name, as the path of a queue does, else those that are like it."""
    ends = [each for each in known if each.endswith(f".{name}")]
    short = [each for each in known if len(each) <= _LETTERS_MAX]
    return (ends or get_close_matches(name[:_LETTERS_MAX], short, cutoff=_ALIKE))[:3]


def find(
    snapshot: si.Snapshot, kind: str, section: Callable[[PartitionStatus], Mapping[str, T]], name: str, partition: str | None
) -> tuple[PartitionStatus, T]:
    """The state of the partition that has an object of this name in a section, and the object.

    Raises:
        ClickException: no partition has it, or several have.
    """
    found = [state for state in snapshot.partitions if name in section(state) and partition in (None, state.name)]
    if not found:
        where = "the daemon" if partition is None else f"partition {partition}"
        known = (known for state in snapshot.partitions if partition in (None, state.name) for known in section(state))
        raise click.ClickException(absent(kind, name, where, known))
    if len(found) > 1:
        names = " and ".join(state.name for state in found)
        raise click.ClickException(f"found {kind} {name} in the partitions {names}, expected --partition with one of them")
    (state,) = found
    return state, section(state)[name]
