"""The verbs of an operator: ``drain``, ``undrain``, ``cancel``, ``hold``, ``release``, ``priority``, ``move``; and ``rm``.

Each takes several names, acts on one after the other, and prints a line for each; one that is refused stops none of the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ykactor.core.messages.submissions import PARTITION_ATTRIBUTE
from ykactor.core.values.printable import printable
from ykactor.surfaces.cli import exit_codes, loop
from ykactor.surfaces.cli.cells import time_text
from ykactor.surfaces.cli.completing import names_of
from ykactor.surfaces.cli.options import PRIORITY
from ykactor.surfaces.cli.terminal import print_journal_status, say, say_lines
from ykactor.surfaces.cli.urls import Destination, daemon_options
from ykactor.wire.si import messages as si

if TYPE_CHECKING:  # the client takes 0.2 s to load, which help and completion do without
    from ykactor.client import RequestRefused

#: The verbs that ``ykactor local`` carries out for jobs of which the daemon does not know.
_HERE = ("cancel", "hold", "release")
#: Names that are looked at together.
_NAMES_MAX = 1000
#: The sentence about an unknown name, and who lists those that there are.
_LISTS = (
    (re.compile("failed to find application "), "ykactor apps lists them"),
    (re.compile("failed to find node "), "ykactor nodes lists them"),
    (re.compile("failed to find partition "), "ykactor partitions lists them"),
    (re.compile("failed to find .* of application "), "ykactor asks lists what waits, and ykactor app ID what runs"),
    (re.compile("queue .* does not exist"), "ykactor queues lists them"),
)
#: How the daemon begins to refuse a configuration, and where it finds mistakes of its field.
_FAILURE = "update of configuration failed: "
_PLACE = re.compile(r"(^|: )config:(?=\d+:\d+)", re.MULTILINE)
_HOW_TO_NAME = "write it like that, as APP/ASK; or give --whole if the names are those of applications"


class Act(NamedTuple):
    """A request to the daemon.

    Attributes:
        name: as on the command line.
        done: what is printed behind it when the act is durable.
        begun: the same while the resource manager has to confirm a release.
        refused: the name in a refusal, if it is another one.
        without_window: what is printed if the daemon tells no end of a window.
        file: the name of the file with the configuration of the request; "" if it has none.
    """

    name: str
    done: str
    request: si.OperatorRequest
    begun: str = ""
    refused: str = ""
    without_window: str = ""
    file: str = ""


def ask_for(daemon: Destination, acts: Sequence[Act], expectations: Sequence[si.ExpectNoAllocations] = ()) -> None:
    """Ask for one after the other, if what is expected is true; exits with code 1 if one is refused."""
    if not acts:
        return
    try:
        refused = daemon.run(_ask, daemon, acts, expectations)
    except* KeyboardInterrupt:
        say("interrupted: the daemon has not confirmed the act after the last one printed", err=True)
        raise
    if refused:
        raise SystemExit(exit_codes.FAILED)


async def _ask(daemon: Destination, acts: Sequence[Act], expectations: Sequence[si.ExpectNoAllocations]) -> int:
    """Returns how many were refused."""
    from ykactor.client import RequestRefused, operate

    refused = 0
    async with operate(daemon.url, on_journal=print_journal_status, **daemon.login()) as operator:
        for expectation in expectations:
            try:
                await operator.request(expectation)
            except RequestRefused as refusal:
                how = f"; {_HOW_TO_NAME}" if refusal.path == "allocationKeys" else ""
                raise click.ClickException(printable(f"nothing was done: {_sentence(refusal)}{how}")) from None
        for act in acts:
            try:
                ack = await operator.request(act.request)
                say(f"{act.name} {act.begun if ack.releasing else act.done}")
                if ack.until:
                    say(f"  until {time_text(ack.until)}, unless it is confirmed: ykactor config confirm")
                elif act.without_window:
                    say(f"  {act.without_window}")
                for sentence in ack.remains:
                    say(f"  {sentence}")
            except RequestRefused as refusal:
                refused += 1
                reason = await _reason(act, refusal)
                sentence = _in_file(reason, act.file) if act.file else reason  # each mistake of a configuration has a line
                say_lines(f"{act.refused or act.name} refused: {sentence}", err=True)
    return refused


async def _reason(act: Act, refusal: RequestRefused) -> str:
    """The reason of a refusal, with what to do about a name that is unknown."""
    from ykactor.surfaces.cli.jobs.asking import fate, job_of

    if (job := job_of(act.name)) and isinstance(act.request, si.HoldApplication | si.MoveApplication):
        return f"found a task, expected its job {job}"
    if job and (ended := await fate(act.name)):
        return ended
    sentence = _sentence(refusal)
    lists = next((lists for unknown, lists in _LISTS if unknown.match(sentence)), "")
    if not lists:
        return sentence
    if isinstance(act.request, si.HoldApplication):
        lists += f"; if a queue is meant, write its path, such as root.{act.name}"
    return f"{sentence}; {lists}"


def _sentence(refusal: RequestRefused) -> str:
    """The reason for people: without the field of the message, which they did not write, and a code that says no more."""
    return refusal.message if refusal.code == "REFUSED" else f"{refusal.code}: {refusal.message}"


def _in_file(sentence: str, file: str) -> str:
    """A refusal of a configuration, with the places of its mistakes in the file instead of the field of the request."""
    return _PLACE.sub(lambda found: f"{found[1]}{file}:", sentence.replace(_FAILURE, "", 1))


#: The verbs in the order in which they are listed, by their names.
VERBS: dict[str, click.Command] = {}

#: What a verb acts on.
_COMPLETED: Mapping[str, Sequence[str]] = {"NODE": ("node",), "NAME": ("job", "app", "queue"), "APP": ("job", "app")}
_partition = click.option(
    "--partition", default="", metavar="NAME", help="The partition, if it is not default.", shell_complete=names_of("partition")
)
_app = click.option(
    "--app", default="", metavar="APP", help="The application of asks that are named without it.", shell_complete=names_of("app")
)
_whole = click.option("--whole", is_flag=True, help="Each NAME is that of an application, also if a task has it too.")


def _verb(metavar: str) -> Callable[[Callable[..., Act]], Callable[..., Act]]:
    """A function that makes the act on one object becomes a verb that acts on several, one after the other."""

    def register(act_on: Callable[..., Act]) -> Callable[..., Act]:
        @wraps(act_on)
        def carry_out(names: tuple[str, ...], daemon: Destination, **options: Any) -> None:
            names = _not_done_here(names, daemon, act_on.__name__)
            ask_for(daemon, [act_on(name, **options) for name in names])

        _register(metavar, carry_out)
        return act_on

    return register


def _task_verb(act_on: Callable[..., Act]) -> Callable[..., Act]:
    """The same of a function that makes the act on a task or an application, with the options ``_app`` and ``_whole``."""

    @wraps(act_on)
    def carry_out(names: tuple[str, ...], app: str, whole: bool, daemon: Destination, partition: str, **options: Any) -> None:
        if not app and not whole:
            names = _not_done_here(names, daemon, act_on.__name__)
        named = _named(names, app, whole)
        acts = [act_on(each, partition=partition, **options) for each in named]
        ask_for(daemon, acts, _no_tasks(named, whole, partition))

    _register("NAME", carry_out)
    return act_on


def _not_done_here(names: tuple[str, ...], daemon: Destination, verb: str) -> tuple[str, ...]:
    """The names that the daemon has to be asked about: those of jobs of this machine that it does not know yet are left out."""
    from ykactor.local import control
    from ykactor.surfaces.cli.jobs.asking import done_here, job_of, named

    left = []
    for name in names:
        done = ""
        if verb in _HERE and (job_of(name) or job_of(f"{name}.0")):
            job, index = named(name)
            request = control.Cancel(job, index) if verb == "cancel" else control.Hold(job, verb == "hold")
            done = loop.run(done_here, name, daemon.url, request)
        if done:
            say(f"{name} {done}")
        else:
            left.append(name)
    return tuple(left)


def _register(metavar: str, carry_out: Callable[..., None]) -> None:
    """Make a command of a function, with the options of all verbs."""
    completed = names_of(*_COMPLETED[metavar])
    several = click.argument("names", metavar=f"{metavar}...", nargs=-1, required=True, shell_complete=completed)
    VERBS[carry_out.__name__] = click.command()(daemon_options(_partition(several(carry_out))))


class _Named(NamedTuple):
    """The meaning of a name: a task of an application, or without ``key`` the application."""

    name: str
    application_id: str
    key: str


def _named(names: Sequence[str], app: str, whole: bool) -> list[_Named]:
    """The meaning of each name.

    Raises:
        UsageError: the key is empty, as that of a variable which is not set: the application must not be meant then.
    """
    if app and whole:
        raise click.UsageError("found --app and --whole, expected one of them")
    return [_Named(name, name, "") if whole else _one_named(name, app) for name in names]


def _one_named(name: str, app: str) -> _Named:
    from ykactor.surfaces.cli.jobs.asking import job_of, present_key

    if not app and (job := job_of(name)):
        return _Named(name, job, loop.run(present_key, name))
    application_id, is_task, key = (app, "/", name) if app else name.partition("/")
    if is_task and not key:
        raise click.UsageError(f"found {name!r} without the key of a task, expected APP, APP/ASK, or --app APP with ASK")
    return _Named(name, application_id, key)


def _no_tasks(named: Sequence[_Named], whole: bool, partition: str) -> list[si.ExpectNoAllocations]:
    """Check that nobody takes an application for the task of the same name."""
    applications = [] if whole else [each.application_id for each in named if not each.key]
    starts = range(0, len(applications), _NAMES_MAX)
    parts = (applications[start : start + _NAMES_MAX] for start in starts)
    return [si.ExpectNoAllocations(allocation_keys=part, partition_name=partition) for part in parts]


@_verb("NODE")
def drain(node: str, partition: str) -> Act:
    """Drain nodes: what runs there goes on, and nothing new is placed on them."""
    return Act(node, "drains", _set_node(node, "DRAIN_NODE", partition))


@_verb("NODE")
def undrain(node: str, partition: str) -> Act:
    """Let drained nodes take tasks again."""
    return Act(node, "is schedulable", _set_node(node, "DRAIN_TO_SCHEDULABLE", partition))


def _set_node(node: str, action: str, partition: str) -> si.NodeRequest:
    attributes = {PARTITION_ATTRIBUTE: partition} if partition else {}
    return si.NodeRequest(nodes=[si.NodeInfo(node_id=node, action=action, attributes=attributes)])


@_task_verb
@_app
@_whole
def cancel(named: _Named, partition: str) -> Act:
    """Cancel tasks and applications.

    NAME is an application, APP/ASK, or with --app an ask or allocation of it; job-3.4 is task 4 of job-3 of ykactor run. A
    pending ask is removed. An allocation is being released, and runs until the resource manager has confirmed that. An
    application fails, with all that it has, and is ending while something of it runs. Nothing is done if a task has the name
    that is given for an application: --whole says that the application is meant.
    """
    name, application_id, key = named
    if not key:
        whole = si.TerminateApplication(application_id=application_id, partition_name=partition)
        return Act(name, "is cancelled", whole, begun="is ending")
    task = si.CancelAllocation(application_id=application_id, allocation_key=key, partition_name=partition)
    return Act(name, "is cancelled", task, begun="is being released")


@_verb("NAME")
def hold(name: str, partition: str) -> Act:
    """Hold applications and queues: they get nothing new, and what runs goes on.

    NAME is a queue if it is root or begins with root., else an application. A hold lasts until it is released, also after a
    restart of the daemon; asks that are submitted meanwhile wait.
    """
    return Act(name, "is held", _set_hold(name, True, partition))


@_verb("NAME")
def release(name: str, partition: str) -> Act:
    """End the holds of applications and queues, named as for hold.

    The hold of an application and that of its queue end separately.
    """
    return Act(name, "is released", _set_hold(name, False, partition))


def _set_hold(name: str, held: bool, partition: str) -> si.HoldQueue | si.HoldApplication:
    if name.lower() == "root" or name.lower().startswith("root."):
        return si.HoldQueue(queue_name=name, held=held, partition_name=partition)
    return si.HoldApplication(application_id=name, held=held, partition_name=partition)


@_task_verb
@click.argument("priority", metavar="N", type=PRIORITY)
@_app
@_whole
def priority(named: _Named, partition: str, priority: int) -> Act:
    """Give pending asks the priority N; higher is more important. Write -- before a negative N.

    NAME is an application, which means all asks that it has pending, or APP/ASK, or with --app an ask of it. job-3.4 is task 4 of
    job-3 of ykactor run. Nothing is done if a
    task has the name that is given for an application: --whole says that the application is meant.
    """
    name, application_id, key = named
    wanted = si.SetPriority(application_id=application_id, allocation_key=key, priority=priority, partition_name=partition)
    return Act(name, f"has priority {priority}", wanted)


@_verb("APP")
@click.argument("queue", metavar="QUEUE", shell_complete=names_of("queue"))
def move(app: str, partition: str, queue: str) -> Act:
    """Move applications to the leaf QUEUE, with all that they have."""
    wanted = si.MoveApplication(application_id=app, queue_name=queue, partition_name=partition)
    return Act(app, f"moved to {queue}", wanted)


# ---- the resource manager


@click.group()
def rm() -> None:
    """Hand the daemon over from one resource manager to another."""


@rm.command("release")
@click.argument("rm_id", metavar="RM_ID")
@click.option(
    "--forget-epoch",
    is_flag=True,
    help="As an operator, also forget the epoch of RM_ID, registered or not, so that a process with any epoch may register.",
)
@daemon_options
def release_rm(rm_id: str, *, forget_epoch: bool, daemon: Destination) -> None:
    """End the registration of the resource manager RM_ID, so that another one may register.

    The daemon drops all nodes and applications of RM_ID, and closes its session if it has one, after which ykactor local
    ends; stop its service first, which would start it again. A caller that is no operator does this as RM_ID itself, if it may
    register as RM_ID and no higher epoch has.
    """
    try:
        daemon.run(_release_rm, rm_id, daemon, forget_epoch)
    except* KeyboardInterrupt:
        say(f"interrupted: the daemon has not confirmed that {rm_id} is deregistered", err=True)
        raise
    forgotten = " and its epoch is forgotten" if forget_epoch else ""
    say(f"{rm_id} is deregistered{forgotten}; another resource manager may register")


def _not_released(rm_id: str, refusal: RequestRefused, daemon: Destination) -> click.ClickException:
    """The error that the registration of ``rm_id`` is not ended: none exists, another one does, or the caller may not end it."""
    match refusal.code:
        case "REFUSED":
            return click.ClickException(refusal.message)
        case "RESYNC_REQUIRED":
            return click.ClickException(f"{rm_id} is not registered, found no resource manager")
        case "ALREADY_REGISTERED":
            return click.ClickException(f"{rm_id} is not registered: {refusal.message.removeprefix(f'found {rm_id}: ')}")
        case _:
            return daemon.problem(refusal)


async def _release_rm(rm_id: str, daemon: Destination, forget_epoch: bool) -> None:
    """Release as an operator, so that the session of the resource manager is told who has ended it; else as itself."""
    from ykactor.client import RequestRefused, operate

    try:
        async with operate(daemon.url, on_journal=print_journal_status, **daemon.login()) as operator:
            await operator.request(si.ReleaseResourceManager(rm_id=rm_id, forget_epoch=forget_epoch))
    except RequestRefused as as_operator:
        if as_operator.code != "NOT_PERMITTED" or forget_epoch:
            raise _not_released(rm_id, as_operator, daemon) from None
        try:
            await _deregister(rm_id, daemon)
        except RequestRefused as as_itself:
            refusal = as_operator if as_itself.code == "STALE_EPOCH" else as_itself
            raise _not_released(rm_id, refusal, daemon) from None


async def _deregister(rm_id: str, daemon: Destination) -> None:
    """Resume the session of the resource manager, and end its registration."""
    from ykactor.client import connect

    async with connect(daemon.url, rm_id=rm_id, resume_from="now", on_journal=print_journal_status, **daemon.login()) as rm:
        await rm.request(si.DeregisterResourceManagerRequest())
