# ruff: noqa: ASYNC240  # a few bytes in a temporary directory
"""Jobs as processes: a real daemon, a real local resource manager, both killed where it hurts."""

import os
import signal
import socket
import termios
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from click.testing import CliRunner
from daemon import LIMIT_S, RunningDaemon, real_daemon, run_command, running_command
from localjobs import job_of, left_over, local_manager, noting
from restdaemon import request

from ykactor.client import connect, operate
from ykactor.local import control
from ykactor.local.isolation import Isolation
from ykactor.local.machine import boot_id
from ykactor.local.model import State, Task
from ykactor.local.processes import Processes
from ykactor.local.records import records
from ykactor.local.store import Store
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: low, resources: {max: {vcore: 2}}}
          - {name: high, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 100ms}}
          - {name: small, resources: {max: {vcore: 200m}}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "l"


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """The address of a daemon that is not there."""
    return f"unix:{tmp_path}/nobody"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A file in which each run of a command leaves a line."""
    return tmp_path / "runs"


# ---- killed between two steps


async def test_killed_between_two_steps(directory: Path, runs: Path, nowhere: str) -> None:
    """The next local resource manager loses nothing and runs nothing twice, whatever the last one was about to do."""
    directory.mkdir(mode=0o700)
    processes = Processes(directory / "jobs", Isolation(), 1)
    jobs = [
        (Task("before-the-start", 0, State.RUNNING, boot=boot_id()), ""),
        (Task("after-the-start", 0, State.RUNNING, boot=boot_id()), "sleep 1; exit 7"),
        (Task("before-the-end-is-noted", 0, State.RUNNING, boot=boot_id()), "exit 8"),
        (Task("before-the-signal", 0, State.ENDING, boot=boot_id(), verdict=State.PREEMPTED), "sleep 100"),
        (Task("before-the-start-that-must-not-be", 0, State.ENDING, boot=boot_id(), verdict=State.CANCELLED), ""),
        (Task("before-the-machine-was-started-again", 0, State.RUNNING, boot="another"), ""),
    ]
    kept = {task.job: (task, job_of(noting(runs, then), id=task.job)) for task, then in jobs}
    store = Store(directory)
    store.commit([job for _, job in kept.values()], [task for task, _ in kept.values()], [], 0)
    store.close()
    started = [kept[name] for name in ("after-the-start", "before-the-end-is-noted", "before-the-signal")]
    for task, job in started:
        processes.start(job, task)
    await processes.wait(kept["before-the-end-is-noted"][0])
    async with local_manager(directory, nowhere) as local:
        found = {name: (await local.show(name, waits=True)).tasks[0] for name in kept}
        assert left_over(directory) == []
    late, its_job = kept["before-the-start-that-must-not-be"]
    processes.start(its_job, late)  # a shell that was on its way
    for task in (late, *[task for task, _ in started]):
        await processes.wait(task)
    assert {name: (task.state, task.exit_code) for name, task in found.items()} == {
        "before-the-start": (State.COMPLETED, 0),
        "after-the-start": (State.FAILED, 7),
        "before-the-end-is-noted": (State.FAILED, 8),
        "before-the-signal": (State.PREEMPTED, 143),
        "before-the-start-that-must-not-be": (State.CANCELLED, None),
        "before-the-machine-was-started-again": (State.LOST, None),
    }
    assert sorted(runs.read_text().split()) == [
        "after-the-start.0",
        "before-the-end-is-noted.0",
        "before-the-signal.0",
        "before-the-start.0",
    ]


async def test_a_job_that_is_submitted_twice_is_one(directory: Path, nowhere: str) -> None:
    """A client that gets no answer may ask again."""
    async with local_manager(directory, nowhere) as local:
        first = await local.submit("true", token="the same")
        await local.kill()
        await local.start()
        assert await local.submit("true", token="the same") == first
        assert await local.submit("true") != first


# ---- with a daemon


@pytest.mark.parametrize("has_journal", [True, False])
async def test_a_job_outlives_daemon_and_manager(directory: Path, tmp_path: Path, runs: Path, has_journal: bool) -> None:
    """Both are killed while it runs; it runs once, and so does the next one. A daemon that has lost everything is told it."""
    state = ("--state-dir", tmp_path / "s") if has_journal else ()
    async with real_daemon(*state) as first, local_manager(directory, first.url) as local:
        job = await local.submit(noting(runs, "sleep 1"))
        await local.has_state(job, State.RUNNING)
        first.process.kill()
        await first.process.wait()
        next_job = await local.submit(noting(runs))
        await local.kill()
        await local.start()
        async with real_daemon(*state, ws=("--ws", first.url.removeprefix("ws://"))):
            assert await local.states(job) == [State.COMPLETED]
            assert await local.states(next_job) == [State.COMPLETED]
    assert runs.read_text() == "job-1.0\njob-2.0\n"


async def test_quotas_preemption_and_retries(directory: Path, tmp_path: Path, runs: Path) -> None:
    """A guaranteed queue takes back what others use, and who was preempted runs again if it has retries."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUES)
    async with real_daemon("--config", queues) as daemon, local_manager(directory, daemon.url, "--resource", "vcore=2") as local:
        small = await local.submit(noting(runs, "sleep 0.3"), queue="root.small", last=3)
        assert await local.states(small) == [State.COMPLETED] * 4
        victim = await local.submit("trap 'exit 0' TERM; sleep 100 & wait", queue="root.low", resource={"vcore": 2000})
        await local.has_state(victim, State.RUNNING)
        urgent = await local.submit("true", queue="root.high", resource={"vcore": 1000})
        assert await local.states(urgent) == [State.COMPLETED]
        assert await local.states(victim) == [State.PREEMPTED]
        assert await local.states(await local.submit("exit 3", queue="root.low", retries=2)) == [State.FAILED]
        (tried,) = (await local.show("job-4", waits=True)).tasks
        assert (tried.attempt, tried.exit_code) == (2, 3)
        refused = await local.submit("true", queue="root.none")
        assert await local.states(refused) == [State.REJECTED]
    assert len(runs.read_text().splitlines()) == 4


async def test_gangs_and_gpus(directory: Path) -> None:
    """All start together with devices of their own, and end together if one fails."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url, "--resource", "gpu=4") as local:
        gang = {"is_gang": True, "last": 2}
        good = await local.submit("echo $CUDA_VISIBLE_DEVICES", resource={"vcore": 100, "gpu": 1}, **gang)
        assert await local.states(good) == [State.COMPLETED] * 3
        assert sorted((directory / "jobs" / good / f"{index}.0" / "out").read_text() for index in range(3)) == [
            "0\n",
            "1\n",
            "2\n",
        ]
        bad = await local.submit('test "$YKACTOR_TASK" = 1 && exit 4; sleep 100', **gang)
        assert await local.states(bad) == [State.CANCELLED, State.FAILED, State.CANCELLED]


async def test_an_operator_cancels(directory: Path) -> None:
    """A running task is ended, a pending one is gone, and nothing is left of the job."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url, "--resource", "vcore=1") as local:
        job = await local.submit("trap '' TERM; sleep 100 & sleep 100", resource={"vcore": 1000}, last=2)
        await local.has_state(job, State.RUNNING)
        async with operate(daemon.url) as operator:
            await operator.request(si.TerminateApplication(application_id=job))
        assert await local.states(job) == [State.CANCELLED] * 3
        assert {task.reason for task in (await local.show(job)).tasks} == {"cancelled by an operator"}
        assert left_over(directory) == []


async def test_time_limits_and_the_end_with_all_jobs(directory: Path) -> None:
    """A task over its limit is ended; ``--stop-jobs`` ends all, also when its terminal closes, and frees the daemon's slot."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url, "--stop-jobs") as local:
        assert await local.states(await local.submit("sleep 100", time_limit_s=0.2)) == [State.TIMED_OUT]
        running = await local.submit("sleep 100")
        await local.has_state(running, State.RUNNING)
        waiting = await local.submit("true", resource={"vcore": 1000}, last=999)
        assert await local.kill(signal.SIGHUP) == 0
        assert left_over(directory) == []
        with records(directory) as kept:
            assert kept.counts(running) == {State.CANCELLED: 1}
            assert State.PENDING not in kept.counts(waiting)
        async with local_manager(directory.with_name("other"), daemon.url):
            pass


async def test_jobs_that_end_with_the_local_resource_manager_end_with_its_place_too(directory: Path) -> None:
    """An operator ends its registration: with ``--stop-jobs`` no process is left that nobody counts, and none waits for it."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url, "--stop-jobs") as local:
        job = await local.submit("trap '' TERM; sleep 100 & sleep 100")
        await local.has_state(job, State.RUNNING)
        await run_command("rm", "release", f"local-{socket.gethostname()}", "--url", daemon.url)
        assert "4006" in await local.ends()
        assert left_over(directory) == []
        with records(directory) as kept:
            assert kept.counts(job) == {State.CANCELLED: 1}


async def test_what_does_not_fit_is_refused(directory: Path, nowhere: str) -> None:
    """A job that is larger than the machine is refused at once, because it would wait for ever."""
    async with local_manager(directory, nowhere) as local:
        answer = await control.ask(directory, control.Submit(job_of("true", resource={"vcore": 10**9})))
        assert isinstance(answer, control.Refused)
        assert "the machine" not in answer.message
        assert "this machine has no more" in answer.message
        assert await local.kill(signal.SIGINT) == exit_codes.INTERRUPTED


# ---- the commands


@pytest.fixture
async def world(directory: Path) -> AsyncIterator[tuple[RunningDaemon, dict[str, str]]]:
    """A daemon, a local resource manager, and the environment in which commands find both."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url):
        yield daemon, {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url, "MINE": "é"}


async def test_the_commands(world: tuple[RunningDaemon, dict[str, str]]) -> None:
    """``run`` gives what the command writes and its exit code; the others show it."""
    _, environment = world
    output, errors = await run_command(
        "run", "--name", "mine", "--", "sh", "-c", "echo $MINE; echo bad >&2; pwd; exit 5", expect=5, environment=environment
    )
    assert output == f"é\n{os.getcwd()}\n"
    assert errors == "job-1\nbad\njob-1 Failed: exit code 5\n"
    output, _ = await run_command(
        "run", "--detach", "--array", "3-5", "--", "sh", "-c", "echo $YKACTOR_TASK", environment=environment
    )
    assert output == "job-2\n"
    assert await run_command("wait", "job-2", environment=environment) == ("", "")
    assert (await run_command("logs", "-f", "job-2.4", environment=environment))[0] == "4\n"
    assert (await run_command("logs", "job-2", environment=environment))[0] == "job-2.3: 3\njob-2.4: 4\njob-2.5: 5\n"
    assert (await run_command("logs", "-f", "--tail", "1", "job-2", environment=environment))[
        0
    ] == "job-2.3: 3\njob-2.4: 4\njob-2.5: 5\n"
    listed = msgspec.json.decode((await run_command("jobs", "-o", "json", environment=environment))[0])
    assert [(job["jobID"], job["states"]) for job in listed] == [("job-1", {"Failed": 1}), ("job-2", {"Completed": 3})]
    table, _ = await run_command("jobs", "job-1", environment=environment)
    assert table.splitlines()[1].split()[:4] == ["job-1.0", "Failed", "0", "5"]


async def test_a_job_has_the_directory_and_the_environment_that_were_chosen(
    world: tuple[RunningDaemon, dict[str, str]], tmp_path: Path
) -> None:
    """``--chdir`` may be relative; with ``--clean-env`` only what a program needs is left, and what ``--env`` names."""
    _, environment = world
    (tmp_path / "d").mkdir()
    options = "--chdir", os.path.relpath(tmp_path / "d"), "--env", "MINE", "--env", "OTHER=a=b", "--env", "HOME=/h", "--clean-env"
    output, _ = await run_command("run", *options, "--", "sh", "-c", "pwd; env", environment=environment | {"SECRET": "s"})
    directory, *variables = output.splitlines()
    assert directory == str(tmp_path / "d")
    assert {"MINE=é", "OTHER=a=b", "HOME=/h", f"PATH={os.environ['PATH']}"} <= set(variables)
    assert not any(line.startswith(("SECRET=", "YKACTOR_URL=")) for line in variables)
    nowhere = "--chdir", str(tmp_path / "none")
    assert "does not exist" in (await run_command("run", *nowhere, "true", expect=2, environment=environment))[1]


async def test_a_job_has_the_files_that_were_chosen(world: tuple[RunningDaemon, dict[str, str]], tmp_path: Path) -> None:
    """``run`` prints what has no file, ``logs`` all; the cause of a file that cannot be opened is that of the task."""
    _, environment = world
    (tmp_path / "in").write_text("read\n")
    options = "--chdir", tmp_path, "--input", "in", "--output", "%j.%a.%n"
    script = "cat; echo oops >&2; exit $((3 * !YKACTOR_ATTEMPT))"
    given = "run", "--retries", "1", *options, "--error", "/dev/null", "--", "sh", "-c", script
    assert await run_command(*given, environment=environment) == ("", "job-1\n")
    assert await run_command("logs", "job-1", environment=environment) == ("read\nread\n", "-- attempt 1 --\n")
    assert (tmp_path / "job-1.0.1").read_text() == "read\n"
    shown = msgspec.json.decode((await run_command("jobs", "show", "job-1", "-o", "json", environment=environment))[0])
    assert (shown["input"], shown["output"], shown["error"]) == (f"{tmp_path}/in", f"{tmp_path}/%j.%a.%n", "/dev/null")
    _, errors = await run_command("run", "--output", "/none/x", "--", "true", environment=environment, expect=125)
    assert errors == ("job-2\njob-2 Failed: the command cannot be started: --output /none/x: No such file or directory\n")
    _, errors = await run_command("run", "--output", "%z", "--", "true", environment=environment, expect=exit_codes.USAGE)
    assert "found '%z', expected after each % one of %j or %A (the job), %a (index)" in errors


async def test_a_job_on_the_terminal_of_run(world: tuple[RunningDaemon, dict[str, str]]) -> None:
    """``run --pty`` shows what the job writes, gives it what is typed, and its size; it ends with it, and so do both."""
    _, environment = world
    here, end = os.openpty()
    termios.tcsetwinsize(end, (33, 99))
    text = b""

    async def type_after(expected: bytes, typed: bytes) -> None:
        nonlocal text
        while expected not in text:
            await trio.lowlevel.wait_readable(here)
            text += os.read(here, 2**16)
        os.write(here, typed)

    command = ("run", "--pty", "--", "sh", "-c", "stty size; read x; echo got $x; trap 'exit 7' INT; echo up; sleep 100")
    async with running_command(*command, environment=environment, stdin=end, terminal=end) as process:
        await type_after(b"33 99", b"this\r")
        await type_after(b"up\r\n", b"\x03")
        assert await process.wait() == 7
    async with running_command(*command, environment=environment, stdin=end, terminal=end) as process:
        text = b""
        await type_after(b"33 99", b"")
        process.send_signal(signal.SIGTERM)
        await process.wait()
    await type_after(b"job-2 Cancelled: cancelled by", b"")
    assert termios.tcgetattr(end)[3] & termios.ECHO, "it is as it was"
    os.close(here)
    os.close(end)
    nobody = await run_command("run", "--pty", "--", "true", environment=environment, expect=1)
    assert "found no terminal as standard input and output" in nobody[1]
    both = await run_command("run", "--pty", "--array", "1-2", "--", "true", environment=environment, expect=exit_codes.USAGE)
    assert "found --pty with several tasks" in both[1]


async def test_ctrl_c_leaves_the_job(world: tuple[RunningDaemon, dict[str, str]]) -> None:
    """A user who waits no longer is told how to end the job."""
    _, environment = world
    async with running_command("run", "--", "sh", "-c", "echo up; sleep 100", environment=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert await process.stdout.receive_some() == b"up\n"
        process.send_signal(signal.SIGINT)
        assert await process.wait() == exit_codes.INTERRUPTED
        said = b"".join([part async for part in process.stderr]).decode()
    assert said.startswith("job-1\njob-1 goes on; ykactor cancel job-1 ends it\n")
    assert "Traceback" not in said
    assert (await run_command("jobs", "-o", "json", environment=environment))[0].count("Running") == 1


async def test_a_second_one_is_refused(world: tuple[RunningDaemon, dict[str, str]], tmp_path: Path) -> None:
    """A second one is refused for the same directory, and for a daemon that another resource manager has."""
    _, environment = world
    _, errors = await run_command("local", expect=1, environment=environment)
    assert "expected one local resource manager for each directory" in errors
    async with real_daemon() as taken, connect(taken.url, rm_id="other"):
        _, errors = await run_command("local", "--url", taken.url, "--local-dir", tmp_path / "o", expect=1)
    assert "ALREADY_REGISTERED" in errors
    assert "Traceback" not in errors


async def test_without_a_daemon_run_says_what_to_start(directory: Path, nowhere: str) -> None:
    """The job is taken, and waits for one."""
    async with local_manager(directory, nowhere):
        output, errors = await run_command("run", "--local-dir", directory, "--detach", "--", "true")
    assert output == "job-1\n"
    assert errors == f"job-1: it waits for the daemon at {nowhere}, which is not there: start one with ykactor serve\n"


async def test_memory_without_a_unit_is_refused(tmp_path: Path) -> None:
    """One byte was not meant."""
    _, errors = await run_command("run", "--local-dir", tmp_path, "--memory", "1", "--", "true", expect=exit_codes.USAGE)
    assert "found --memory of 1 bytes, expected at least 1Mi, or 0: 1Gi are gibibytes" in errors


@pytest.mark.parametrize("name", ["vcore", "memory", "gpu"])
async def test_a_resource_has_one_option(tmp_path: Path, name: str) -> None:
    """The other one would be silently without effect."""
    _, errors = await run_command(
        "run", "--local-dir", tmp_path, "--resource", f"{name}=1", "--", "true", expect=exit_codes.USAGE
    )
    assert f"found --resource {name}, expected --{name}" in errors


async def test_without_a_local_resource_manager_run_says_what_to_start(tmp_path: Path) -> None:
    """The command says so in one line, and starts nothing."""
    _, errors = await run_command("run", "--local-dir", tmp_path, "--", "true", expect=1)
    assert errors.count("\n") == 1
    assert "start one with ykactor local" in errors


def test_a_user_without_a_home_names_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has no entry in the user database, such as in a container."""
    for name in ("HOME", "XDG_STATE_HOME", "YKACTOR_LOCAL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    done = CliRunner().invoke(main, ["jobs"])
    assert done.exit_code == exit_codes.USAGE
    assert done.output.splitlines()[-1] == "Error: found no home directory, expected --local-dir or YKACTOR_LOCAL_DIR"


# ---- one record, wherever it is shown


async def _apps(url: str) -> dict[str, tuple[str, str]]:
    """The outcome and reason of each application, as ``ykactor apps`` shows it."""
    listed, _ = await run_command("apps", "--since", "1h", "-o", "json", "--url", url)
    return {app["applicationID"]: (app["outcome"], app.get("reason", "")) for app in msgspec.json.decode(listed)}


async def test_a_job_has_ended_in_the_same_way_wherever_it_is_shown(directory: Path, tmp_path: Path) -> None:
    """All of ``jobs``, ``apps``, ``app`` and the REST API agree: an exit code is no success, a cancelled job has not failed."""
    async with real_daemon(http="127.0.0.1:0") as daemon, local_manager(directory, daemon.url, "--resource", "vcore=9") as local:
        environment = {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url}
        good, bad, killed = [await local.submit(script) for script in ("exit 0", "exit 3", "kill -9 $$")]
        cancelled, array = await local.submit("sleep 100"), await local.submit('exit "$YKACTOR_TASK"', last=2)
        slow = await local.submit("sleep 100", time_limit_s=0.1)
        await local.has_state(cancelled, State.RUNNING)
        assert (await run_command("cancel", cancelled, environment=environment))[0] == f"{cancelled} is ending\n"
        expected = {
            good: ("Completed", ""),
            bad: ("Failed", "exit code 3"),
            killed: ("Failed", "exit code 137 (SIGKILL)"),
            cancelled: ("Cancelled", "cancelled by an operator"),
            array: ("Failed", "task 1: exit code 1; 2 of 3 tasks"),
            slow: ("Failed", "ran longer than 0.1 s"),
        }
        records = {job: (await local.show(job, waits=True)).tasks for job in expected}
        with trio.fail_after(LIMIT_S):
            while await _apps(daemon.url) != expected:  # noqa: ASYNC110 (the daemon is told after the job has ended)
                await trio.sleep(0.05)
        assert [(records[job][0].state, records[job][0].signal) for job in (good, bad, killed, cancelled)] == [
            (State.COMPLETED, ""),
            (State.FAILED, ""),
            (State.FAILED, "SIGKILL"),
            (State.CANCELLED, "SIGTERM"),
        ]
        assert all(0 < task.started_ns < task.ended_ns for tasks in records.values() for task in tasks)
        described, _ = await run_command("app", bad, environment=environment)
        facts = dict(line.split(maxsplit=1) for line in described.splitlines() if len(line.split()) == 2)
        assert (facts["State"], facts["Ran"]) == ("Failed", "0s")
        story, _ = await run_command("story", cancelled, environment=environment)
        assert story.splitlines()[-1].startswith(f"now: application {cancelled} is Cancelled in root.default since ")
        _, said = await run_command("cancel", good, expect=1, environment=environment)
        assert "refused" in said
        assert await _apps(daemon.url) == expected
        table, _ = await run_command("jobs", killed, "-o", "wide", environment=environment)
        header, row = (line.split() for line in table.splitlines())
        shown = dict(zip(header, row, strict=False))
        assert (shown["STATE"], shown["EXIT"], shown["PEAK"], shown["USER"]) == ("Failed", "SIGKILL", "-", "root")
        assert 0 <= float(shown["RAN"].removesuffix("s")) < 5
        port = int(daemon.http.rpartition(":")[2])
        answer = await trio.to_thread.run_sync(request, port, "GET", "/ws/v1/partition/default/applications/completed", {})
        rest = answer.content
        assert {app["applicationID"]: (app["applicationState"], app.get("rejectedMessage", "")) for app in rest} == {
            job: ("Failed", "Cancelled: cancelled by an operator") if job == cancelled else end for job, end in expected.items()
        }


def _record(task: Task) -> dict[str, Any]:
    """The record of a task that has ended, as a snapshot has it."""
    known = {
        "allocationKey": task.key,
        "state": task.state.value,
        "exitCode": task.exit_code,
        "signal": task.signal or None,
        "startTime": task.started_ns or None,
        "finishedTime": task.ended_ns or None,
        "peakMemory": task.peak_memory,
        "eligibleTime": task.eligible_ns,
        "cpuTime": task.cpu_ns,
        "reason": task.reason or None,
        "queueName": task.queue,
    }
    return {field: value for field, value in known.items() if value is not None}


async def test_a_task_has_one_record_wherever_it_is_shown(directory: Path, tmp_path: Path) -> None:
    """AP-152: in ``jobs``, ``app``, ``apps`` and the REST API, with its node and its user; also after a restart of the daemon."""
    state_dir = str(tmp_path / "state")
    async with real_daemon("--state-dir", state_dir, http="127.0.0.1:0") as daemon:
        async with local_manager(directory, daemon.url, "--resource", "vcore=9") as local:
            environment = {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url}
            jobs = [await local.submit(script) for script in ("exit 0", "exit 3", "kill -9 $$")]
            jobs += [await local.submit('exit "$YKACTOR_TASK"', last=2), await local.submit("exit 4", retries=1)]
            cancelled = await local.submit("sleep 100")
            await local.has_state(cancelled, State.RUNNING)
            await run_command("cancel", cancelled, environment=environment)
            tasks = {job: (await local.show(job, waits=True)).tasks for job in (*jobs, cancelled)}
            expected = {job: sorted(map(_record, of_job), key=_key) for job, of_job in tasks.items()}
            assert [record["state"] for record in expected[cancelled]] == ["Cancelled"]
            with trio.fail_after(LIMIT_S):
                while len(await _apps(daemon.url)) < len(expected):  # noqa: ASYNC110 (the daemon is told after the job has ended)
                    await trio.sleep(0.05)
            assert await _records(daemon, expected) == expected
            assert await _progress(daemon, jobs[3]) == ("Failed", 3, 1, 2, 0)  # AP-160
            assert await _progress(daemon, cancelled) == ("Cancelled", 1, 0, 0, 1)
            described, _ = await run_command("app", jobs[2], environment=environment)
            header, row = (line.split() for line in described[described.index("Ended:\n") :].splitlines()[1:])
            shown = dict(zip(header, row, strict=False))
            assert (shown["TASK"], shown["STATE"], shown["EXIT"]) == (f"{jobs[2]}.0", "Failed", "SIGKILL")
    async with real_daemon("--state-dir", state_dir, http="127.0.0.1:0") as daemon:
        assert await _records(daemon, expected) == expected


async def _progress(daemon: RunningDaemon, job: str) -> tuple[Any, ...]:
    """The state of a job in REST, its tasks, and how they have ended."""
    port = int(daemon.http.rpartition(":")[2])
    found = (await trio.to_thread.run_sync(request, port, "GET", f"/v1/jobs/{job}", {})).content
    return tuple(found[field] for field in ("state", "tasks", "completed", "failed", "cancelled"))


def _key(record: dict[str, Any]) -> str:
    return str(record["allocationKey"])


async def _records(daemon: RunningDaemon, jobs: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The records of each job's last attempts, which ``app``, ``apps`` and REST show in the same way."""
    listed, _ = await run_command("apps", "--since", "1h", "-o", "json", "--url", daemon.url)
    found = {}
    for row in msgspec.json.decode(listed):
        job, records = row["applicationID"], row["records"]
        described, _ = await run_command("app", job, "-o", "json", "--url", daemon.url)
        assert msgspec.json.decode(described)["records"] == records
        port = int(daemon.http.rpartition(":")[2])
        path = f"/ws/v1/partition/default/application/{job}/records"
        answer = await trio.to_thread.run_sync(request, port, "GET", path, {})
        nodes = [record.pop("nodeID") for record in records]
        assert [{field: value for field, value in entry.items() if value is not None} for entry in answer.content] == [
            record | {"user": row["user"], "nodeId": node} for record, node in zip(records, nodes, strict=True)
        ]
        attempts = {record["allocationKey"] for record in records}
        last = [record for record in records if f"{_key(record)}.r1" not in attempts]
        found[job] = sorted(last, key=_key)
    assert found.keys() == set(jobs)
    return found


async def test_a_task_is_named_everywhere_by_its_job_and_index(directory: Path) -> None:
    """The name JOB.INDEX is taken by ``jobs``, ``wait``, ``logs``, ``cancel`` and ``priority``, also for the second attempt."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url, "--resource", "vcore=1") as local:
        environment = {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url}
        script = 'echo "$YKACTOR_TASK"; case "$YKACTOR_ALLOCATION" in *1.r1) sleep 100;; *1) exit 7;; esac'
        job = await local.submit(script, first=1, last=3, retries=1)
        waiting = await local.submit("true", resource={"vcore": 1000})
        assert await run_command("wait", f"{job}.2", environment=environment) == ("", "")
        with trio.fail_after(LIMIT_S):
            while ((task := (await local.show(job)).tasks[0]).attempt, task.state) != (1, State.RUNNING):  # noqa: ASYNC110
                await trio.sleep(0.02)
        table, _ = await run_command("jobs", f"{job}.2", environment=environment)
        assert [line.split()[:2] for line in table.splitlines()] == [["TASK", "STATE"], [f"{job}.2", "Completed"]]
        assert (await run_command("logs", f"{job}.3", environment=environment))[0] == "3\n"
        assert (await run_command("priority", f"{waiting}.0", "7", environment=environment))[0] == f"{waiting}.0 has priority 7\n"
        assert (await run_command("cancel", f"{job}.1", environment=environment))[0] == f"{job}.1 is being released\n"
        assert await local.states(job) == [State.CANCELLED, State.COMPLETED, State.COMPLETED]
        for wrong, found in (
            (f"{job}.4", "there is no task"),
            (f"{job}.x", "expected JOB or JOB.INDEX"),
            ("job-9", "there is no job"),
        ):
            for verb in ("jobs", "wait", "logs"):
                code = exit_codes.USAGE if wrong.endswith("x") else 1
                assert found in (await run_command(verb, wrong, expect=code, environment=environment))[1]


# ---- what is asked for is what happens, or it is said


NAMED = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: batch, submitacl: "*"}
          - {name: closed, submitacl: "nobody-else"}
          - {name: fair, submitacl: "*", properties: {application.sort.policy: fair}}
          - {name: default, submitacl: "*"}
"""


async def test_a_job_in_a_queue_that_does_not_take_it_is_refused(directory: Path, tmp_path: Path, runs: Path) -> None:
    """A typo, and a queue for others: ``root.default`` takes only jobs that have named no queue."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(NAMED)
    async with real_daemon("--config", queues) as daemon, local_manager(directory, daemon.url):
        environment = {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url}
        command = ("--", "sh", "-c", noting(runs))
        for queue in ("root.batchh", "root.closed"):
            _, errors = await run_command("run", "--queue", queue, *command, expect=143, environment=environment)
            assert (
                f" Rejected: found that placement rules lead to root.default, expected {queue}: there is no such queue" in errors
            )
        for options in ((), ("--queue", "root.batch"), ("--queue", "batch")):
            await run_command("run", *options, *command, environment=environment)
        assert runs.read_text() == "job-3.0\njob-4.0\njob-5.0\n"
        _, errors = await run_command("run", "--gang", "2", "--queue", "root.fair", *command, expect=143, environment=environment)
        assert "a gang needs a queue with the application.sort.policy fifo or stateaware" in errors
        _, errors = await run_command(
            "run", "--gang", "2", "--", "sh", "-c", "exit $YKACTOR_TASK", expect=1, environment=environment
        )
        assert "job-7.1 Failed: exit code 1\n" in errors


async def test_a_retry_keeps_what_an_operator_has_said(directory: Path, tmp_path: Path) -> None:
    """A hold, under which it waits, and a priority."""
    async with real_daemon() as daemon, local_manager(directory, daemon.url, "--resource", "vcore=1") as local:
        environment = {"YKACTOR_LOCAL_DIR": str(directory), "YKACTOR_URL": daemon.url}
        go = tmp_path / "go"
        os.mkfifo(go)
        blocking = await local.submit("sleep 100", resource={"vcore": 1000})
        await local.has_state(blocking, State.RUNNING)
        job = await local.submit(f"read line < {go}; exit 3", resource={"vcore": 1000}, retries=1)
        await run_command("priority", job, "7", environment=environment)
        await run_command("cancel", blocking, environment=environment)
        await local.has_state(job, State.RUNNING)
        await run_command("hold", job, environment=environment)
        await trio.to_thread.run_sync(go.write_text, "go\n")
        with trio.fail_after(LIMIT_S):
            while (await local.show(job)).tasks[0].attempt == 0:  # noqa: ASYNC110
                await trio.sleep(0.02)
        asks = msgspec.json.decode((await run_command("asks", "-o", "json", environment=environment))[0])
        assert [(ask["allocationKeys"], ask["priority"], ask["code"]) for ask in asks] == [([f"{job}.0.r1"], 7, "HELD")]


@pytest.mark.parametrize("kind", ["pipe", "file", "nothing", "an empty pipe"])
async def test_input_that_is_not_read_is_mentioned(directory: Path, tmp_path: Path, nowhere: str, kind: str) -> None:
    """A user who pipes something into ``run`` is told; others are not."""
    (tmp_path / "file").write_bytes(b"data")
    reading, writing = os.pipe()
    if kind == "pipe":
        os.write(writing, b"data")
    file = os.open(os.devnull if kind == "nothing" else tmp_path / "file", os.O_RDONLY)
    async with local_manager(directory, nowhere):
        stdin = reading if "pipe" in kind else file
        output, errors = await run_command("run", "--local-dir", directory, "--detach", "--", "true", stdin=stdin)
    for descriptor in (reading, writing, file):
        os.close(descriptor)
    assert ("standard input is not read" in errors) == (kind in ("pipe", "file"))
    assert output == "job-1\n"
