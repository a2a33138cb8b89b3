"""``ykactor what-if``: tries a change on a copy of the state of a daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec import structs, to_builtins

from ykactor.actors.clock import system_ns
from ykactor.client.connection import MessageStream, open_connection
from ykactor.client.login import Login
from ykactor.core.records.base import decode_base, partition_from
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.printable import printable
from ykactor.core.values.times import US_NS
from ykactor.core.values.words import some
from ykactor.sim.what_if import Comparison, Difference, Status, compare, with_config
from ykactor.surfaces.admission.slots import BASES_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import NONE, time_text
from ykactor.surfaces.cli.history import opened
from ykactor.surfaces.cli.options import EXISTING_FILE, Number, reserves_nodes, text_or_json
from ykactor.surfaces.cli.queue_files import NoTextError, name_of, read_once
from ykactor.surfaces.cli.terminal import indented, say, say_lines, write
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.surfaces.cli.views.listing import Column, Row, field, table
from ykactor.surfaces.files.recovery import recover_partitions
from ykactor.wire.queuefile.load import ConfigError
from ykactor.wire.queuefile.load import load as load_config
from ykactor.wire.scenario import Scenario, ScenarioError, load
from ykactor.wire.scenario.model import SECONDS_MAX
from ykactor.wire.scenario.units import unit_warnings
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import Base, Hello, OtherVersionError, Process, UnreadableTurnsError, unpacked

#: The length of both runs without a scenario.
SECONDS = 60.0
#: The lines of the table; JSON has all.
ROWS_MAX = 100


@click.command()
@click.argument("scenario", type=EXISTING_FILE, required=False)
@click.option(
    "--on",
    "journal",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR|BACKUP",
    help="The state directory of a daemon, which may run meanwhile, or a backup of its journal. Default: the daemon at --url, or "
    "one of its replicas, which has more time for it.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="QUEUES.yaml",
    help="Put this queue file into force first; - is standard input. Default: that of the scenario, if it has one.",
)
@click.option(
    "--seconds",
    type=Number(min=0, max=SECONDS_MAX),
    help=f"How long both runs are. Default: until the end of the scenario, and {SECONDS:g} without one.",
)
@text_or_json("json: one document, with everything that is different.")
@daemon_options
def command(
    scenario: Path | None, journal: Path | None, config_file: str | None, seconds: float | None, output: str, daemon: Destination
) -> None:
    """Run the state of a daemon twice, as it is and with a change, and print what is different at the end.

    The change is a configuration, or what the file SCENARIO has: messages of resource managers and acts of operators, each with
    its second from now on. Nothing of the daemon changes. Both runs begin now, on a virtual clock. In both nothing else arrives,
    a task ends only if the scenario says so, and releases that the scheduler starts are confirmed at once.
    Without --on it needs the role replica.
    """
    if scenario is None and config_file is None:
        raise click.UsageError("found neither SCENARIO nor --config, expected a change")
    if journal is not None:
        _check_asks_nobody()
    change = _change(scenario, config_file)
    if seconds is not None:
        change = structs.replace(change, until=seconds)
    bases, at_ns = daemon.run(_told, daemon) if journal is None else _recorded(journal)
    begin_ns = -(-max(system_ns(), at_ns) // US_NS) * US_NS
    fork = partial(_made, bases)
    comparison = compare(fork, change, begin_ns, reserves=reserves_nodes(os.environ))
    for refusal in comparison.refused:
        say(f"refused: {refusal}", err=True)
    if output == "json":
        say_lines(indented(to_builtins(comparison)))
    else:
        write(_lines(journal or daemon.url, comparison))


def _check_asks_nobody() -> None:
    """Refuse options about a daemon beside --on, which asks none; those of the environment are for all commands."""
    context = click.get_current_context()
    for name in Destination.__struct_fields__:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"found {option} with --on, expected one of them: --on asks no daemon")


def _change(file: Path | None, config_file: str | None) -> Scenario:
    """The change as a scenario whose first message is its configuration, if it has one; ends the command if it is wrong."""
    change = Scenario("", "", SECONDS)
    with exit_codes.ending(ScenarioError, ConfigError, NoTextError):
        if file is not None:
            change = load(file)
            for warning in unit_warnings(file, change):
                say(f"warning: {warning}", err=True)
        text, name = change.config, change.config_file or f"{file}: config"
        if config_file is not None:
            text, name = read_once(config_file), name_of(config_file)
        if not text and config_file is None:
            return change
        load_config(text, name)  # so that its mistakes name the file
        return with_config(change, text)


async def _told(daemon: Destination) -> tuple[dict[PartitionName, bytes], int]:
    """The base of each partition, as a daemon or a replica tells it, and the Unix time there.

    Raises:
        ClickException: it has another version. Disconnected, RequestRefused.
    """
    found, wanted, at_ns = dict[PartitionName, bytes](), 1, 0
    async with open_connection(daemon.url, BASES_PATH, login=Login(**daemon.login()), subprotocols=[MSGPACK.name]) as connection:
        stream = MessageStream(connection, MSGPACK)
        while len(found) < wanted:
            data = await stream.receive()
            assert isinstance(data, bytes), "the subprotocol is msgpack"
            with exit_codes.ending(UnreadableTurnsError):
                messages = unpacked(data)
            for message in messages:
                match message:
                    case Hello(now_ns=now_ns):
                        with exit_codes.ending(OtherVersionError):
                            message.check_version(daemon.url)
                        at_ns = now_ns
                    case Process(partitions=partitions):
                        wanted = len(partitions)
                    case Base(partition=name, state=state):
                        found[name] = state
    return found, at_ns


def _recorded(journal: Path) -> tuple[dict[PartitionName, bytes], int]:
    """The base of each partition after the last transaction, and the Unix time of that."""
    with opened(journal) as reader:
        partitions = recover_partitions(reader, reserves=reserves_nodes(os.environ))
        newest = next(reader.rows_backwards(), None)
    if not partitions or newest is None:
        raise click.ClickException(f"{journal}: found no partition, expected the journal of a daemon that has started")
    return {name: restored.base for name, restored in partitions.items()}, newest.at_ns


def _made(bases: Mapping[PartitionName, bytes]) -> dict[PartitionName, Cores]:
    return {name: finished(partition_from(decode_base(base))) for name, base in bases.items()}


# ---- for people

_TOTALS = [
    Column("TASKS", field("run")),
    *(Column(name.upper(), field(name), is_number=True) for name in ("runs", "waits", "ended", "refused")),
]
_COLUMNS = [
    Column(name, field(name)) for name in ("PARTITION", "APPLICATION", "QUEUE", "TASKS", "AS IT IS", "WHAT IF")
]


def _lines(source: Path | str, comparison: Comparison) -> Iterator[str]:
    yield printable(f"{source} at {time_text(comparison.begin_ns)}, {comparison.seconds:g} s later:")
    yield from (printable(f"  {change}") for change in comparison.changes)
    runs = {"as it is": comparison.as_it_is, "what if": comparison.what_if}
    yield from table(_TOTALS, [{"run": name, **to_builtins(found)} for name, found in runs.items()])
    yield ""
    if not comparison.differences:
        yield "no task and no application is different"
        return
    rows = [_row(difference) for difference in comparison.differences[:ROWS_MAX]]
    has_one = len({row["PARTITION"] for row in rows}) == 1
    yield from table(_COLUMNS[1:] if has_one else _COLUMNS, rows)
    if len(comparison.differences) > ROWS_MAX:
        yield f"and {len(comparison.differences) - ROWS_MAX} more; -o json has all"


def _row(difference: Difference) -> Row:
    found = difference.what_if or difference.as_it_is
    return {
        "PARTITION": difference.partition_name,
        "APPLICATION": difference.application_id,
        "QUEUE": "" if found is None else found.queue_name,
        "TASKS": some(difference.allocation_keys),
        "AS IT IS": _text(difference.as_it_is),
        "WHAT IF": _text(difference.what_if),
    }


def _text(status: Status | None) -> str:
    """``runs on n1 after 5 s``, ``waits: ...``, ``ended on n1 after 5 s: ...``; ``-`` if there is none."""
    if status is None:
        return NONE
    where = f" on {status.node_id}" if status.node_id else ""
    when = "" if status.after_seconds is None else f" after {status.after_seconds:g} s"
    why = f": {status.reason}" if status.reason else ""
    return f"{status.state}{where}{when}{why}"
