"""The names that a shell completes: those of the daemon, and of the local resource manager, if they answer within a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import click
from msgspec import UNSET

from ykactor.surfaces.cli.urls import DEFAULT_URL, Destination

if TYPE_CHECKING:  # these take 0.3 s to load, which help does without
    from ykactor.core.inspection.partition_status import PartitionStatus
    from ykactor.wire.si import messages as si

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")

_Complete = Callable[[click.Context, click.Parameter, str], list[str]]
#: Who waits for a shell does not wait longer.
ANSWER_S = 1.0
#: Names that are shown at most, and jobs that are looked at.
_NAMES_MAX, _JOBS_MAX = 200, 1000


def _users(state: PartitionStatus) -> set[str]:
    """The users that have an application, and those that a limit names."""
    limited = (limit.whose.removeprefix("user ") for limit in state.limits if limit.whose.startswith("user "))
    return {*limited, *(application.user for application in state.applications.values() if application.user is not UNSET)}


#: By kind: the names that the state of a partition has.
KNOWN: Mapping[str, Callable[[PartitionStatus], Iterable[str]]] = {
    "partition": lambda state: [state.name.lower()],
    "queue": lambda state: state.queues,
    "app": lambda state: state.applications,
    "user": _users,
    "node": lambda state: state.nodes or {},
}


def names_of(*kinds: str) -> _Complete:
    """Completes names of these kinds: ``job`` with its tasks, or one of ``KNOWN``; an error, or no answer, is no name."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        found = list[str]()
        with suppress(click.ClickException, OSError):
            found += _of_jobs(ctx, incomplete) if "job" in kinds else ()
        with suppress(click.ClickException, OSError):
            found += _of_daemon(ctx, [kind for kind in kinds if kind != "job"])
        return [name for name in dict.fromkeys(found) if name.startswith(incomplete)][:_NAMES_MAX]

    return complete


def _of_jobs(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """The jobs of this machine, or the tasks of the one whose name is complete."""
    from ykactor.local import control
    from ykactor.local.private import NotPrivate
    from ykactor.surfaces.cli import loop
    from ykactor.surfaces.cli.jobs.asking import usual_directory

    job, is_task, _ = incomplete.partition(".")
    request = control.ShowJob(job) if is_task else control.ListJobs(_JOBS_MAX)
    with suppress(control.NoManager, NotPrivate):
        match loop.run(_within, control.ask, ctx.params.get("directory") or usual_directory(), request):
            case control.ShownJob(tasks=tasks):
                return [f"{job}.{task.index}" for task in tasks]
            case control.JobList(jobs=jobs):
                return [job.id for job in reversed(jobs)]
    return ()


def _of_daemon(ctx: click.Context, kinds: list[str]) -> Iterator[str]:
    """The objects that the state of the daemon has, as far as it shows them."""
    from ykactor.surfaces.cli.views.showing import take_snapshot

    given = {field: ctx.params.get(field) for field in Destination.__struct_fields__}
    daemon = Destination(**{field: value for field, value in given.items() if value} | {"url": given["url"] or DEFAULT_URL})

    async def take() -> si.Snapshot:
        return await take_snapshot(daemon.url, **daemon.login())

    snapshot = daemon.run(_within, take) if kinds else None
    for state in snapshot.partitions if snapshot is not None else ():
        for kind in kinds:
            yield from sorted(KNOWN[kind](state))


async def _within(function: Callable[[*_Args], Awaitable[_Result]], *args: *_Args) -> _Result | None:
    """The result of a function; None if it takes too long."""
    import trio

    with trio.move_on_after(ANSWER_S):
        return await function(*args)
    return None
