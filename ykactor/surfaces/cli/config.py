"""``ykactor config``: prints the configuration in force, plans the effect of another one, and puts it into force."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import to_builtins

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.client import read_configuration
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.inspection.process_status import UnconfirmedStatus
from ykactor.core.messages.kinds import AboveMaxCause
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import parse_duration, quantity_text
from ykactor.core.values.times import S_NS
from ykactor.core.values.words import plural, some
from ykactor.sim.direct import DirectPartition
from ykactor.sim.plan import AboveLimit, ConfigPlan, Drains, Effective, Never, NoAccess, fails_on, is_reason_only, plan
from ykactor.sim.what_if import Difference, Fork, in_partition
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.acts import Act, ask_for
from ykactor.surfaces.cli.cells import NONE, work
from ykactor.surfaces.cli.options import EXISTING_FILE, Number, Parsed, reserves_nodes, text_or_json
from ykactor.surfaces.cli.present_state import check_asks_nobody, on_option, present_state, recorded_configuration
from ykactor.surfaces.cli.queue_files import DASH, NoTextError, explained, name_of, read_once, warn
from ykactor.surfaces.cli.terminal import indented, say, say_lines, write
from ykactor.surfaces.cli.urls import Destination, daemon_options, options_given
from ykactor.surfaces.cli.views.daemon import configuration
from ykactor.surfaces.cli.views.showing import Showing, showing_options, taking
from ykactor.surfaces.cli.what_if import status_text
from ykactor.wire.queuefile.load import ConfigError, load
from ykactor.wire.scenario.model import SECONDS_MAX
from ykactor.wire.si import messages as si

#: How far a plan looks.
HORIZON_S = 60.0
#: The lines of one part; JSON has all.
LINES_MAX = 20
_REASONS = ("never", "preempt", "reject", "drain")
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.group(invoke_without_command=True)
@click.pass_context
@showing_options
def command(ctx: click.Context, showing: Showing) -> None:
    """Print the queue configuration in force, as it was read: the text of the queue file, with its comments.

    With -o json and -o yaml it is completed and has its checksum, as in the REST API; with -o name it is the checksum alone. Only
    readers that see all partitions and queues may read it.
    """
    if ctx.invoked_subcommand is None:
        showing.run_with(read_configuration, configuration)


# ---- plan


def _reasons(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[str]:
    if text is None:
        return []
    names = [name for each in text.split(",") if (name := each.strip())]
    if unknown := [name for name in names if name not in _REASONS]:
        raise click.BadParameter(f"found {some(unknown)}, expected some of {', '.join(_REASONS)}")
    if not names:
        raise click.BadParameter(f"found {text!r}, expected some of {', '.join(_REASONS)}")
    return names


@command.command(name="plan")
@click.argument("file", metavar="NEW.yaml", type=_FILE)
@on_option
@click.option("--base", type=EXISTING_FILE, metavar="OLD.yaml", help="Compare with this queue file instead, without any daemon.")
@click.option("--horizon", type=Number(min=0, max=SECONDS_MAX), default=HORIZON_S, show_default=True, help="In seconds.")
@click.option(
    "--fail-on",
    "reasons",
    callback=_reasons,
    metavar="REASONS",
    help=f"Exit with code 1 if it does one of these: {', '.join(_REASONS)}; several with commas between them.",
)
@text_or_json("json: one document, with everything that is different.")
@daemon_options
def plan_command(
    file: str, journal: Path | None, base: Path | None, horizon: float, reasons: Sequence[str], output: str, daemon: Destination
) -> None:
    """Show what the queue file NEW.yaml would change, on copies of the present state: nothing of the daemon changes.

    What is told of tasks is what is different from a copy with the configuration in force: at once, when nothing more can be
    decided, and within the horizon. In both nothing arrives, and tasks end only as was told. Then asks that could never run,
    queues that would drain, and users who could no longer submit where they have applications. Without --on and --base it needs
    the roles reader and replica.
    """
    if base is not None and journal is not None:
        raise click.UsageError("found --base and --on, expected one of them")
    if base is not None or journal is not None:
        check_asks_nobody("--base" if journal is None else "--on")
    new = _loaded(file)
    if base is not None:
        old = _loaded(str(base))
        checksum, begin_ns, unconfirmed = old.checksum, 0, None
        fork: Fork = partial(_empty, old)
    else:
        checksum, unconfirmed = _in_force(daemon, journal)
        fork, begin_ns = present_state(daemon, journal)
    found = plan(fork, new.text, begin_ns, horizon, reserves=reserves_nodes(os.environ))
    failed = [name for name in reasons if fails_on(found)[name]]
    if output == "json":
        say_lines(indented({"checksum": {"before": checksum, "after": new.checksum}, **to_builtins(found)}))
    else:
        write(map(printable, _lines(found, checksum, new.checksum)))
        if unconfirmed is not None:
            say(f"{unconfirmed}; confirm it or roll it back before another one is applied")
        elif checksum != new.checksum and base is None and journal is None and file != DASH and not (failed or found.refused):
            say(f"apply with: {_apply_command(file, checksum)}")
    if failed:
        say(f"fails on {', '.join(failed)}", err=True)
    if failed or found.refused:
        raise SystemExit(exit_codes.FAILED)


def _apply_command(file: str, checksum: str) -> str:
    """The command that puts the file into force, with the options of this one about the daemon."""
    return shlex.join(["ykactor", "config", "apply", file, "--if-checksum", checksum, *options_given()])


def _loaded(file: str) -> SchedulerConfig:
    """A queue file; ends the command with its mistakes."""
    try:
        return load(_text_of(file), name_of(file))
    except ConfigError as error:
        warn(error.warnings)
        raise click.ClickException(explained(error)) from None


def _text_of(file: str) -> str:
    """The text of a queue file. An empty one, as of a generator that has failed, is refused."""
    try:
        text = read_once(file)
    except NoTextError as error:
        raise click.ClickException(str(error)) from None
    if not text.strip():
        raise click.ClickException(f"{name_of(file)}: found nothing, expected a queue configuration")
    return text


def _empty(config: SchedulerConfig) -> dict[PartitionName, Cores]:
    """Partitions of a configuration, without nodes and applications."""
    made = [DirectPartition(partition, CYCLE_BUDGET, lambda _: None) for partition in config.partitions]
    return {partition.core.name: (partition.core, partition.scheduler) for partition in made}


def _in_force(daemon: Destination, journal: Path | None) -> tuple[str, UnconfirmedStatus | None]:
    """The checksum of the configuration in force; and what a daemon tells of it if it awaits confirmation."""
    if journal is not None:
        return recorded_configuration(journal).checksum, None
    answer: si.Configuration = daemon.run(taking(read_configuration, daemon))
    return answer.checksum, answer.unconfirmed or None


# ---- for people


def _lines(found: ConfigPlan, before: str, after: str) -> Iterator[str]:
    yield f"checksum {before} -> {after}" if before != after else f"checksum {after}, as it is"
    if found.refused:
        yield from _part("refused", found.refused)
        return
    told = tuple(in_partition(each.partition_name, f"queue {each.queue_name}: {each.limit} ") for each in found.effective)
    yield from _part("changes", [change for change in found.changes if not change.startswith(told)])
    yield from _part("effective", [*map(_effective, found.effective)])
    yield from _part("above their max", [*map(_above_max, found.above_max)])
    yield from _differences("at once", found.at_once)
    yield from _differences(f"within {found.seconds:g} s", found.later)
    if found.preempted:
        lost = "; ".join(f"{work(name, amount)} lost" for name, amount in sorted(found.work_lost.items()))
        yield from _part("preempted", [f"{plural(found.preempted, 'task')}{f', {lost}' if lost else ''}"])
    yield from _part("never", [*map(_never, found.never)])
    yield from _part("drains", [*map(_drains, found.drains)])
    yield from _part("access", [*map(_access, found.access)])


def _never(each: Never) -> str:
    asks = f"{plural(each.count, 'ask')} of application {each.application_id}"
    return in_partition(each.partition_name, f"{asks}: {each.reason}")


def _drains(each: Drains) -> str:
    return in_partition(each.partition_name, f"queue {each.queue_name}: {plural(each.applications, 'application')}")


def _access(each: NoAccess) -> str:
    has = f"has {plural(each.applications, 'application')} there"
    sentence = f"user {each.user} may no longer submit to queue {each.queue_name}, and {has}"
    return in_partition(each.partition_name, sentence)


def _effective(each: Effective) -> str:
    """``queue root.batch.night: max vcore 24 -> 16 (by root.batch)``."""
    before, after = (NONE if amount is None else quantity_text(each.resource, amount) for amount in (each.before, each.after))
    by = "" if each.by == each.queue_name else f" (by {each.by})"
    return in_partition(each.partition_name, f"queue {each.queue_name}: {each.limit} {each.resource} {before} -> {after}{by}")


def _above_max(each: AboveLimit) -> str:
    """``queue root.batch: 24 vcore in use, max 16: quota preemption is off; nothing new starts there until enough has ended``."""
    whose = f"{each.whose} in " if each.whose else ""
    where = in_partition(each.partition_name, f"{whose}queue {each.queue_name}: ")
    if not each.resource:
        used = f"{plural(each.used, 'running application')}, maxapplications {each.max}"
        return f"{where}{used}: {each.reason}; no other one starts until enough have ended"
    used, most = (quantity_text(each.resource, amount) for amount in (each.used, each.max))
    meanwhile = "" if each.cause is AboveMaxCause.WAITS else "; nothing new starts there until enough has ended"
    return f"{where}{used} {each.resource} in use, max {most}: {each.reason}{meanwhile}"


def _part(title: str, lines: Sequence[str], last: str = "") -> Iterator[str]:
    """A title with lines below it, and one that is there however many they are; nothing if there is none."""
    if not lines and not last:
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in lines[:LINES_MAX])
    if len(lines) > LINES_MAX:
        yield f"  and {len(lines) - LINES_MAX} more; -o json has all"
    if last:
        yield f"  {last}"


def _differences(title: str, found: Sequence[Difference]) -> Iterator[str]:
    """A line for each, but for those of which only the sentence is another one: they are counted."""
    told = [each for each in found if not is_reason_only(each)]
    count = sum(len(each.allocation_keys) or 1 for each in found[len(told) :])
    more = f"{plural(count, 'task')} {'waits' if count == 1 else 'wait'} for the same, with other numbers; -o json has them"
    return _part(title, [*map(_difference, told)], more if count else "")


def _difference(each: Difference) -> str:
    """``tasks t1, t2 and 3 more of application app: waits: ... -> runs on n1 after 0 s``."""
    name = f"application {each.application_id}"
    if each.allocation_keys:
        name = f"{'task' if len(each.allocation_keys) == 1 else 'tasks'} {some(each.allocation_keys)} of {name}"
    return in_partition(each.partition_name, f"{name}: {status_text(each.as_it_is)} -> {status_text(each.what_if)}")


# ---- apply, confirm, rollback

#: The seconds of a window, as the daemon takes them.
_WINDOW_S = (10, 86_400)


def _window_s(text: str) -> float:
    """The seconds of a time such as ``5m``."""
    found_ns = parse_duration(text)
    if found_ns is None or not _WINDOW_S[0] * S_NS <= found_ns <= _WINDOW_S[1] * S_NS:
        raise ValueError(f"found {text!r}, expected a time of 10s to 24h such as 90s, 5m or 1h30m")
    return found_ns / S_NS


_IN_FORCE = "it was in force already: no window is open, and there is nothing to confirm"

_only_if = partial(click.option, "--if-checksum", metavar="CHECKSUM", default="")


@command.command()
@click.argument("file", metavar="NEW.yaml", type=_FILE)
@_only_if(help="Only if this is the checksum of the configuration in force.")
@click.option(
    "--confirm-within",
    type=Parsed("TIME", _window_s),
    metavar="TIME",
    help="Put the previous configuration back into force unless it is confirmed so soon, such as 90s, 5m or 1h.",
)
@daemon_options
def apply(file: str, if_checksum: str, confirm_within: float | None, daemon: Destination) -> None:
    """Put the queue file NEW.yaml into force; - is standard input. It needs an operator who may configure.

    The daemon checks it first, and tells all mistakes; then nothing changes. It survives a restart of a daemon with a state
    directory, until the queue file that the daemon follows changes.

    With --confirm-within, which needs a daemon with a state directory, the previous configuration comes back unless config
    confirm keeps this one in time, also if the daemon is restarted or a standby takes over meanwhile. Until then no other
    configuration is accepted, and a queue file that has changed waits.
    """
    text, name = _text_of(file), name_of(file)
    without_window = "" if confirm_within is None else _IN_FORCE
    request = si.UpdateConfigurationRequest(config=text, if_checksum=if_checksum, confirm_within_seconds=confirm_within)
    ask_for(daemon, [Act(name, "is in force", request, without_window=without_window, file=name)])


@command.command()
@_only_if(help="Only if this is the checksum of the configuration in force; then it may be confirmed already.")
@daemon_options
def confirm(if_checksum: str, daemon: Destination) -> None:
    """Keep the configuration that was applied with --confirm-within. It needs an operator who may configure."""
    ask_for(
        daemon,
        [Act("the configuration", "is confirmed", si.ConfirmConfiguration(if_checksum=if_checksum), refused="confirmation")],
    )


@command.command()
@daemon_options
def rollback(daemon: Destination) -> None:
    """Put the configuration back into force that was there before the one applied with --confirm-within, at once.

    What that one has done stays, and is named: tasks that were preempted, applications that were rejected or are in queues that
    drain now. It needs an operator who may configure.
    """
    ask_for(daemon, [Act("the previous configuration", "is in force again", si.RollBackConfiguration(), refused="rollback")])
