"""``ykactor demo``: a daemon and a local resource manager in one process, and a tour of what they do with a few jobs."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import trio

from ykactor.actors.clock import system_ns
from ykactor.client import Disconnected, RequestRefused
from ykactor.client.login import LoginOptions
from ykactor.core.values.printable import printable
from ykactor.core.values.times import DAY_NS
from ykactor.journal.errors import JournalError
from ykactor.local import control
from ykactor.local.exclusive import InUse
from ykactor.local.isolation import Isolation, best_isolation
from ykactor.local.machine import this_machine, this_user
from ykactor.local.manager import Settings, managing
from ykactor.local.model import State
from ykactor.local.private import NotPrivate
from ykactor.surfaces.cli import loop
from ykactor.surfaces.cli.exit_codes import first_of
from ykactor.surfaces.cli.jobs.local import end_signals
from ykactor.surfaces.cli.options import ADDRESS, ADDRESS_OR_NONE, DEFAULT_ADDRESS, DEFAULT_HTTP, reserves_nodes
from ykactor.surfaces.cli.serve import (
    kept_state,
    make_daemon,
    prepare_descriptors,
    running,
)
from ykactor.surfaces.cli.state_options import Keeping, StateDirectory, obstacle
from ykactor.surfaces.cli.terminal import say, say_lines, write
from ykactor.surfaces.cli.urls import DEFAULT_URL
from ykactor.surfaces.cli.views.showing import take_snapshot
from ykactor.surfaces.daemon import daemon as server
from ykactor.surfaces.log.logs import configure
from ykactor.surfaces.net.doors import Address, DoorError, DoorSettings
from ykactor.wire.queuefile.load import load

#: The resources of the node, however many cores the machine has: nothing here computes.
CORES = 4
#: How long a task runs, beside the time that so many commands take: the report and the training have to run when the alert comes,
#: also on a slow machine.
TASK_S = 6
_COMMANDS = 6
QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
            resources:
              max: {vcore: "3"}
          - name: research
            resources:
              guaranteed: {vcore: "1"}
              max: {vcore: "2"}
          - name: urgent
            properties:
              preemption.delay: 3s
            resources:
              guaranteed: {vcore: "1"}
              max: {vcore: "2"}
"""
#: The longest line of the tour, and how many scenes it has.
COLUMNS = 100
SCENES = 6
_PAUSE_S = 0.1
#: Each task asks for this, beside a core.
_MEMORY = "16Mi"


class Tour:
    """The scenes of the tour. Each begins when what it shows has come about.

    Args:
        program: what to type for ``ykactor``.
        url, page: of the daemon; "" is no page.
        local: of the local resource manager.
    """

    def __init__(self, program: str, url: str, page: str, local: Settings) -> None:
        self._program = program
        self._url = url
        self._page = page
        self._local = local
        self._task_s = TASK_S
        #: The environment that tells commands where jobs and daemon are; nothing else of their options comes from ours.
        self._places = {"YKACTOR_LOCAL_DIR": str(local.directory)} | ({} if url == DEFAULT_URL else {"YKACTOR_URL": url})
        others = {name: value for name, value in os.environ.items() if not name.startswith("YKACTOR_")}
        self._environ = others | self._places | {"COLUMNS": str(COLUMNS)}
        self._scene = 0

    async def run(self) -> None:
        """All scenes; returns when all jobs have ended."""
        self._introduce()
        await self._node_is_there()
        self._begin(
            "root.batch may use 3 cores at most: its quota. root.research and root.urgent may use 2, and have 1 guaranteed."
        )
        began_at = trio.current_time()
        await self._call("queues")
        self._task_s = TASK_S + round(_COMMANDS * (trio.current_time() - began_at))
        report = await self._quota()
        training = await self._all_cores()
        alert = await self._preemption(report)
        for job in (alert, training, report):
            await self._until(job, lambda job: False)
        await self._end(alert)

    # ---- the scenes

    def _introduce(self) -> None:
        page = f" Its page is {self._page}/." if self._page else ""
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._places.items())
        _say(
            f"A daemon listens on {self._url}.{page} This machine is its only node. Jobs come into three queues, and run on it "
            "as processes; that takes half a minute. They only sleep and print, so the node offers "
            f"{CORES} cores, however many the machine has. Here {self._local.isolation.description}."
        )
        say_lines(
            'Lines that begin with "$" are commands. You can call them, and others, from another terminal:\n'
            f"  export {exports}\n"
            f"  {self._program} top\n"
            "Ctrl-C ends everything.\n"
        )

    async def _quota(self) -> str:
        self._begin("A report of six tasks comes into root.batch. Three of them run, and three wait for the quota of the queue.")
        report = await self._submit("report", "root.batch", "--array", "1-6", "--retries", "1")
        await self._until(report, lambda job: job.job.states.get(State.RUNNING) == 3)
        await self._call("asks")
        return report

    async def _all_cores(self) -> str:
        self._begin("A training comes into root.research, and gets the last core.")
        training = await self._submit("training", "root.research")
        await self._until(training, _runs)
        await self._call("nodes")
        return training

    async def _preemption(self, report: str) -> str:
        self._begin(
            "An alert comes into root.urgent. No core is free, but one is guaranteed to this queue. When the alert has waited "
            "for preemption.delay (3 s), it preempts a task of root.batch, which has no guarantee: that task gets SIGTERM."
        )
        alert = await self._submit("alert", "root.urgent")
        await self._call("asks")
        await self._until(alert, _runs)
        preempted = next((task.index for task in (await self._job(report)).tasks if task.attempt), 1)
        self._begin(
            "The alert runs. The task that has made room is started again when there is room, because its job has --retries 1."
        )
        await self._call("jobs", report)
        await self._call("logs", f"{report}.{preempted}")
        _say("What waits runs as soon as others end.")
        return alert

    async def _end(self, alert: str) -> None:
        await self._call("jobs", "--limit", "3")
        self._begin("All have ended. This has happened to the alert.")
        await self._call("events", "--app", alert)
        say_lines(
            "The daemon runs until Ctrl-C. In the other terminal you can run something yourself:\n"
            f"  {self._program} run --queue root.research -- echo hello\n"
        )

    def _begin(self, sentence: str) -> None:
        """Begin a scene, with its number."""
        self._scene += 1
        _say(f"{self._scene}/{SCENES}  {sentence}")

    # ---- commands and jobs

    async def _call(self, *words: str) -> str:
        """Print a command, bold on a terminal, and what it prints, which is returned."""
        write(click.style(line, bold=True) for line in command_lines(f"$ {self._program}", words))
        done = await trio.run_process(
            [sys.executable, "-m", "ykactor", *words],
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
            env=self._environ,
            start_new_session=True,  # Ctrl-C is for this program, which then ends it
        )
        output = done.stdout.decode()
        say_lines(output)
        return output

    async def _submit(self, name: str, queue: str, *options: str) -> str:
        """A job; its id."""
        script = f"echo begun; sleep {self._task_s}; echo done"
        about = ("--name", name, "--queue", queue, "--vcore", "1", "--memory", _MEMORY)
        return (await self._call("run", "--detach", *about, *options, "--", "sh", "-c", script)).strip()

    async def _node_is_there(self) -> None:
        """Wait until the daemon knows the machine."""
        while True:
            snapshot = await take_snapshot(self._url, **self._local.login)
            if any(partition.nodes for partition in snapshot.partitions):
                return
            await trio.sleep(_PAUSE_S)

    async def _until(self, name: str, is_so: Callable[[control.ShownJob], bool]) -> None:
        """Wait until it is so, or the job has ended, also if somebody else has ended it."""
        while True:
            job = await self._job(name)
            if is_so(job) or all(task.state.is_final for task in job.tasks):
                return
            await trio.sleep(_PAUSE_S)

    async def _job(self, name: str) -> control.ShownJob:
        shown = await control.ask(self._local.directory, control.ShowJob(name))
        assert isinstance(shown, control.ShownJob)
        return shown


def _say(sentence: str) -> None:
    """Print a sentence in lines of the tour."""
    say_lines(textwrap.fill(sentence, COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n")


def command_lines(program: str, words: Sequence[str]) -> Iterator[str]:
    """A command as it is typed, on several lines if it is longer than one of the tour."""
    line = program
    quoted = [shlex.quote(printable(word)) for word in words]
    while quoted:
        is_option = quoted[0].startswith("--") and len(quoted) > 1 and not quoted[1].startswith("-")
        word = " ".join(quoted[: 1 + is_option])  # an option stays with its value
        del quoted[: 1 + is_option]
        if len(line) + len(word) > COLUMNS - len(" \\"):
            yield f"{line} \\"
            line = "   "
        line += f" {word}"
    yield line


def _runs(job: control.ShownJob) -> bool:
    return State.RUNNING in job.job.states


RM_ID = "ykactor-demo"
#: The demonstration ends before any job is forgotten.
KEPT_NS = DAY_NS
#: Seconds for a job that has to end; all of them do so at once.
GRACE_S = 2.0
_NO_PROOF = LoginOptions(token="", tls=None, insecure=False)


@click.command()
@click.option(
    "--ws",
    "address",
    type=ADDRESS,
    metavar="HOST:PORT|unix:PATH",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Where the daemon listens.",
)
@click.option(
    "--http",
    type=ADDRESS_OR_NONE,
    metavar="HOST:PORT|unix:PATH|none",
    default=DEFAULT_HTTP,
    show_default=True,
    help="Where the page and the REST API are served.",
)
@click.option(
    "--state-dir",
    type=StateDirectory(),
    help="The directory in which all state is kept. Default: nothing is kept.",
)
def command(address: Address, http: Address | None, state_dir: Path | None) -> None:
    """Run a daemon with three queues and a few jobs on this machine, and show on the way what happens and with which commands.

    The jobs only sleep and print. Ctrl-C ends everything, also jobs of your own.
    """
    prepare_descriptors()
    configure("warning", sys.stderr, for_people=True)
    settings = server.Settings(reserves=reserves_nodes(os.environ))
    kept = "Nothing is kept." if state_dir is None else f"What has happened is kept in {state_dir}."
    where = DoorSettings((address,), http=() if http is None else (http,))
    try:
        with kept_state(state_dir, settings, Keeping()) as state, _jobs_directory(state_dir) as directory:
            make = partial(make_daemon, load(QUEUES), settings, state)
            local_of = partial(_local_settings, directory, best_isolation(directory))
            was_interrupted = loop.run(_demonstrate, make, where, local_of, kept)
    except* (JournalError, DoorError) as errors:
        problem = obstacle(error := first_of(errors))
        raise type(problem)(f"{problem.message}{_in_make(error)}") from None
    except* (Disconnected, RequestRefused, InUse, NotPrivate, sqlite3.Error) as failures:
        raise click.ClickException(str(first_of(failures))) from None
    if was_interrupted:
        raise KeyboardInterrupt


def _in_make(error: JournalError | DoorError) -> str:
    """The variable of ``make run`` for the option that a message names."""
    found = next((name for option, name in (("--ws", "ADDRESS"), ("--http", "HTTP")) if f"{option} HOST:PORT" in str(error)), "")
    return f", or with make run {found}=HOST:PORT" if found and isinstance(error, DoorError) else ""


@contextmanager
def _jobs_directory(state_dir: Path | None) -> Iterator[Path]:
    """The directory of the jobs: beside the journal, or a temporary one."""
    if state_dir is not None:
        yield state_dir.absolute() / "local"
        return
    with tempfile.TemporaryDirectory(prefix="ykactor-") as directory:
        yield Path(directory)


async def _demonstrate(
    make: Callable[[], server.Daemon], where: DoorSettings, local_of: Callable[[str], Settings], kept: str
) -> bool:
    """Run the demonstration until a signal; returns whether it was Ctrl-C. The jobs end first, while the daemon can be told so.

    Args:
        make: the daemon.
        local_of: the settings of the local resource manager, for the URL of the daemon.
        kept: a sentence that says what is left of it.
    """
    with trio.open_signal_receiver(*end_signals()) as signals:
        async with running(make(), where) as (url, *others):
            local = local_of(url)
            page = next((other for other in others if other.startswith("http")), "")
            async with managing(local), trio.open_nursery() as nursery:
                nursery.start_soon(Tour(_program(), url, page, local).run)
                number = await anext(signals)
                nursery.cancel_scope.cancel()
                say("")
                say(f"The jobs end, then the daemon. {kept}")
    return number == signal.SIGINT


def _local_settings(directory: Path, isolation: Isolation, url: str) -> Settings:
    return Settings(
        url=url,
        login=_NO_PROOF,
        rm_id=RM_ID,
        directory=directory,
        machine=this_machine({"vcore": CORES * 1000}),
        isolation=isolation,
        user=this_user(),
        grace_s=GRACE_S,
        kept_ns=KEPT_NS,
        stops_jobs=True,
        now_ns=system_ns,
        say=lambda sentence: None,
    )


def _program() -> str:
    """The command for ``ykactor`` in another terminal: ``make run`` does not put it on the PATH."""
    if shutil.which("ykactor"):
        return "ykactor"
    return sys.argv[0] if Path(sys.argv[0]).name == "ykactor" else "python -m ykactor"
