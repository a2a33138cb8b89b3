"""``ykactor audit``: prints who has administered a daemon, and who was refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import structs

from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.values.printable import printable
from ykactor.journal.errors import JournalError
from ykactor.journal.reading import Reader
from ykactor.surfaces.cli.follow import time_text
from ykactor.surfaces.cli.since import Since
from ykactor.surfaces.cli.terminal import on_one_line, say
from ykactor.surfaces.files.history import readable
from ykactor.wire.history import decode_facts, decode_turn
from ykactor.wire.si.events import AUDIT, audit_text


@click.command()
@click.option(
    "--state-dir",
    "directory",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The state directory of the daemon, which may run meanwhile.",
)
@click.option(
    "--since",
    "since_ns",
    type=Since(),
    default=0,
    metavar="TIME",
    help="Only from this time on: in UTC, as 2026-07-31 or 2026-07-31T09:30:00, or 10m, 2h or 7d ago.",
)
@click.option("--who", metavar="NAME", help="Only what the identity NAME has done, or was refused.")
@click.option("--act", type=click.Choice([*Act], case_sensitive=False), help="Only this act.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="json: JSON Lines.")
def command(directory: Path, since_ns: int, who: str | None, act: str | None, output: str) -> None:
    """Print who has administered a daemon, and who was refused, in the order of their times.

    Refusals that repeat are told together once a minute, with the time of the last one and their number. Without a journal only
    the log and ykactor follow --kind AUDIT have the audit; they have it in the order in which it was told.

    Columns: time, act, object, identity, then from where, as which role, and what was before and after, or why it was refused.
    """
    try:
        audited = [fact for fact in _audited(directory, since_ns) if who in (None, fact.who) and act in (None, fact.act)]
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    # A refusal may be told a minute after it happened, and an act that was interrupted after the restart.
    for fact in sorted(audited, key=lambda fact: fact.at_ns):
        say(_json(fact) if output == "json" else _line(fact))
    if not audited:
        say("nothing in the journal matches", err=True)


def _audited(directory: Path, since_ns: int) -> Iterator[Audited]:
    with Reader.open(directory) as reader:
        for number in reader.mentions(AUDIT, reader.number_at(since_ns)):
            row = reader.row(number)
            if row is None:  # it has become too old meanwhile
                continue
            with readable(reader, number):
                facts = [fact for text in row.turns() for fact in decode_facts(decode_turn(text).facts)]
            yield from (fact for fact in facts if isinstance(fact, Audited) and fact.at_ns >= since_ns)


def _json(fact: Audited) -> str:
    return on_one_line(structs.asdict(fact))


def _line(fact: Audited) -> str:
    """The entry on one line, whatever the texts of a client hold."""
    return printable(f"{time_text(fact.at_ns)} {fact.act:10} {fact.target or '-':24} {fact.who or '-':16} {audit_text(fact)}")
