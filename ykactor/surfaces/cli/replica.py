"""``ykactor replica``: runs the turns of a daemon as they come, and compares; or keeps its journal, as a standby."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path

import click
import trio
from msgspec import Struct, to_builtins

import ykactor
from ykactor.actors.clock import system_ns
from ykactor.actors.pauses import checkpoint, drive
from ykactor.client.connection import MessageStream, alongside, open_connection
from ykactor.client.errors import Disconnected
from ykactor.client.login import Login
from ykactor.core.records.encoding import UnreadableRowError
from ykactor.core.records.restore import DamagedStateError
from ykactor.core.values.times import S_NS
from ykactor.core.values.words import plural
from ykactor.sim.replica import Replica
from ykactor.surfaces.admission.slots import TURNS_PATH
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.options import Number, text_or_json
from ykactor.surfaces.cli.standby import keep_standby
from ykactor.surfaces.cli.state_options import Keeping, StateDirectory, keeping_options
from ykactor.surfaces.cli.terminal import on_one_line, say
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.wire.history import UnreadableCauseError
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import Base, Hello, Renewed, Turn, TurnMessage, UnreadableTurnsError, unpacked

#: So many mismatches within so many seconds end the command: another one would say nothing new.
MISMATCHES_MAX = 3
WITHIN_S = 3600.0
#: The first and the longest pause before another attempt to connect.
PAUSE_FIRST_S = 0.2
PAUSE_MAX_S = 10.0


class Status(Struct, rename="camel"):
    """The progress of a replica.

    Attributes:
        turns, facts: how many of them were decided the same, since the command has started.
        lag_seconds: how long after the daemon the last turn was run; None before the first one.
        mismatches: how many turns were decided otherwise.
    """

    at_ns: int
    partitions: list[str]
    turns: int = 0
    facts: int = 0
    lag_seconds: float | None = None
    mismatches: int = 0

    def __str__(self) -> str:
        """A line for people."""
        lag = "" if self.lag_seconds is None else f", {1000 * self.lag_seconds:.0f} ms behind"
        copies = ", ".join(self.partitions) or "no partition yet"
        return f"{time_text(self.at_ns)} {copies}: {self.turns} turns, {self.facts} facts as decided by the daemon{lag}"


@click.command()
@daemon_options
@click.option(
    "--every",
    "every_s",
    type=Number(min=0.1),
    default=10.0,
    show_default=True,
    help="Seconds between two lines that say how far it is.",
)
@click.option(
    "--standby",
    "is_standby",
    is_flag=True,
    help="Run no turns, but keep the journal of the daemon in --state-dir, from which a daemon can go on.",
)
@click.option("--state-dir", type=StateDirectory(), help="The directory of a standby, which is new, or has followed this daemon.")
@keeping_options
@text_or_json("json: JSON Lines.")
def command(daemon: Destination, every_s: float, is_standby: bool, state_dir: Path | None, keeping: Keeping, output: str) -> None:
    """Run the turns of the daemon as they come, each with its recorded cause, and compare what was decided, until Ctrl-C.

    The daemon needs --state-dir, and this command the same version and the role replica. It begins with the state of each
    partition, which the daemon makes anew for it, at most once a minute. It begins again after a lost connection, and after a
    turn that was decided otherwise, which is printed on standard error; the third of these in an hour ends it with exit code 70.

    With --standby it has each transaction of the daemon on its own disk as soon as the daemon has it. It begins with a copy of
    what it lacks, and goes on after a lost connection. When the daemon is gone, 'ykactor serve' goes on in this directory.
    """
    if is_standby != (state_dir is not None):
        raise click.UsageError("found one of --standby and --state-dir, expected both or none")
    if state_dir is not None:
        keep_standby(daemon, keeping.settings(state_dir), every_s, is_json=output == "json")
        return
    daemon.run(_Command(daemon, every_s, is_json=output == "json").run)


class _MismatchError(Exception):
    """A turn was decided otherwise, so the replica has to begin again."""


class _Command:
    """One run of the command."""

    def __init__(self, daemon: Destination, every_s: float, *, is_json: bool) -> None:
        self._daemon = daemon
        self._login = Login(**daemon.login())
        self._every_s = every_s
        self._is_json = is_json
        self._replica = Replica()
        #: What earlier connections have run.
        self._status = Status(0, [])
        #: The times of the newest mismatches.
        self._mismatched: deque[float] = deque(maxlen=MISMATCHES_MAX)
        self._is_connected = False
        self._pause_s = PAUSE_FIRST_S

    async def run(self) -> None:
        """Follow the daemon until cancelled.

        Raises:
            Disconnected: there was no connection yet. RequestRefused: the daemon does not let this one in.
            ClickException, SystemExit: what comes cannot be run, or is decided otherwise again and again.
        """
        async with alongside(self._report):
            while True:
                try:
                    await self._follow()
                except Disconnected as lost:
                    if not self._is_connected:
                        raise
                    say(f"the connection is lost: {lost}", err=True)
                except _MismatchError as otherwise:
                    self._on_mismatch(str(otherwise))
                self._take_stock()
                await trio.sleep(self._pause_s * random.uniform(0.5, 1))
                self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    async def _follow(self) -> None:
        """Follow the daemon over one connection."""
        url, names = self._daemon.url, [MSGPACK.name]
        async with open_connection(url, TURNS_PATH, login=self._login, subprotocols=names) as connection:
            stream = MessageStream(connection, MSGPACK)
            while True:
                data = await stream.receive()
                assert isinstance(data, bytes), "the subprotocol is msgpack"
                with exit_codes.ending(UnreadableTurnsError, UnreadableCauseError, UnreadableRowError, DamagedStateError):
                    for message in unpacked(data):
                        await self._handle(message)

    async def _handle(self, message: TurnMessage) -> None:
        """Handle one of many messages; others run meanwhile, or the daemon would get no answer to its pings."""
        await checkpoint()
        match message:
            case Hello(version=version, term=term):
                if version != ykactor.__version__:
                    raise click.ClickException(
                        f"{self._daemon.url}: found a daemon of version {version}, expected {ykactor.__version__}: "
                        "another version may decide otherwise"
                    )
                self._is_connected, self._pause_s = True, PAUSE_FIRST_S
                say(f"connected to {self._daemon.url}, in term {term}", err=True)
            case Base(partition=name):
                await drive(self._replica.begin(message))
                say(f"begins with the state of partition {name}: {plural(len(message.state), 'byte')}", err=True)
            case Renewed():
                await drive(self._replica.renew(message))
            case Turn():
                mismatch = self._replica.run(message)
                if mismatch is not None:
                    raise _MismatchError(str(mismatch))
                self._status.lag_seconds = (system_ns() - message.now_ns) / S_NS

    def _on_mismatch(self, text: str) -> None:
        """Tell of a mismatch; ends the command if there are too many."""
        say(text, err=True)
        self._status.mismatches += 1
        self._mismatched.append(trio.current_time())
        if len(self._mismatched) == MISMATCHES_MAX and trio.current_time() - self._mismatched[0] < WITHIN_S:
            raise SystemExit(exit_codes.SOFTWARE)

    def _take_stock(self) -> None:
        """Count what the replica of the last connection has run, and begin without partitions."""
        self._status.turns += self._replica.turns
        self._status.facts += self._replica.facts
        self._replica = Replica()

    async def _report(self) -> None:
        while True:
            await trio.sleep(self._every_s)
            status, replica = self._status, self._replica
            found = Status(
                system_ns(),
                [*replica.partitions],
                status.turns + replica.turns,
                status.facts + replica.facts,
                status.lag_seconds,
                status.mismatches,
            )
            say(on_one_line(to_builtins(found)) if self._is_json else str(found))
