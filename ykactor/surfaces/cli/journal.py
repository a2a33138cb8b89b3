"""``ykactor journal``: looks at the journal of a daemon, checks, exports, compacts and copies it, and restores a copy."""

from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from ykactor.journal import maintenance
from ykactor.journal.errors import JournalError
from ykactor.journal.files import unknown_after
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.options import EXISTING_DIRECTORY, EXISTING_FILE, text_or_json
from ykactor.surfaces.cli.terminal import JsonFile, indented, say, say_lines


class _JournalGroup(click.Group):
    """Prints what is wrong with a journal as one line."""

    def invoke(self, ctx: click.Context) -> object:
        with exit_codes.ending(JournalError):
            return super().invoke(ctx)


_directory = click.argument("directory", metavar="DIR", type=EXISTING_DIRECTORY)
_source = click.argument("source", metavar="DIR|BACKUP", type=click.Path(exists=True, path_type=Path))


@click.group(cls=_JournalGroup)
def command() -> None:
    """Look at the journal in a state directory, check, export, compact or copy it, or restore a copy."""


@command.command()
@_source
@text_or_json("json is one document.")
def info(source: Path, output: str) -> None:
    """Print what the journal in DIR, or a BACKUP, holds: sizes, the number of records, the transactions with their times."""
    found = maintenance.info(source)
    say_lines(indented(found) if output == "json" else _text(found))


@command.command()
@_source
def verify(source: Path) -> None:
    """Read the whole journal in DIR, or a BACKUP, and print all that is wrong.

    Exits with code 1 if there is something. The daemon may run meanwhile.
    """
    is_ok = True
    for problem in maintenance.verify(source):
        say(problem)
        is_ok = False
    if not is_ok:
        raise click.ClickException(
            f"{source}: found damage; restore a backup into an empty directory with ykactor journal restore, "
            "or begin with an empty directory"
        )
    found = maintenance.info(source)
    rest = "" if found.has_witness else f"; {unknown_after(found.last)}"
    say(f"{found.path}: ok, {found.records} records, {found.last - found.first + 1} transactions{rest}")


@command.command()
@_directory
@click.option("--records", is_flag=True, help="Print the present state instead: a line for each record, with key and data.")
@click.option("-o", "--output", metavar="OUT.jsonl", type=JsonFile("wb"), default="-", help="Default: stdout.")
def export(directory: Path, records: bool, output: BinaryIO) -> None:
    """Print the history in DIR as JSON Lines.

    There is a line for each turn, with the number of its transaction, the oldest first. The daemon may run meanwhile.
    """
    (maintenance.export_records if records else maintenance.export_history)(directory, output)


@command.command()
@_directory
def compact(directory: Path) -> None:
    """Write the journal in DIR anew, without the space that deleted history has left. Only while no daemon runs.

    While it runs, the disk needs room for twice the size of what remains.
    """
    before, after = maintenance.compact(directory)
    say(f"{directory}: {before} bytes before, {after} bytes now")


@command.command()
@_directory
@click.argument("file", type=click.Path(path_type=Path))
def backup(directory: Path, file: Path) -> None:
    """Copy the journal in DIR, as it is now, to the new FILE. The daemon may run meanwhile.

    To go back to the copy, use ykactor journal restore.
    """
    maintenance.backup(directory, file)
    say(f"{file}: {file.stat().st_size} bytes")


@command.command()
@click.argument("file", type=EXISTING_FILE)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def restore(file: Path, directory: Path) -> None:
    """Make FILE, a copy of ykactor journal backup, the journal of DIR, which is new or empty, and print as of when it is.

    A daemon that is started with --state-dir DIR has everything as it was then. What came after is not known to it: a resource
    manager that was told more registers anew, and followers that have seen more begin with a snapshot.
    """
    found = maintenance.restore(file, directory)
    say(f"{directory}: {found.records} records, as of {_time(found.last_ns)} (transaction {found.last})")


def _text(found: maintenance.Info) -> str:
    """A line for each value; times in UTC."""
    lines = {
        "journal": found.path,
        "version": found.version,
        "term": found.term or "-",
        "created": _time(found.created_ns),
        "records": found.records,
        "history": f"transactions {found.first} to {found.last}, {found.history_bytes} bytes",
        "oldest": _time(found.first_ns),
        "newest": _time(found.last_ns),
        "database": f"{found.file_bytes} bytes, {found.free_bytes} of them free",
        "log": f"{found.wal_bytes} bytes that are not yet in the database",
        "witness": "there" if found.has_witness else unknown_after(found.last),
    }
    return "\n".join(f"{name:<8}  {value}" for name, value in lines.items())


def _time(unix_ns: int | None) -> str:
    return "-" if unix_ns is None else f"{datetime.fromtimestamp(unix_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
