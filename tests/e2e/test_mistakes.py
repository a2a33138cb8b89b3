"""The mistakes of newcomers: each message names what was wrong, where, and what to do."""

import re
import shlex
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from daemon import ended_command, real_daemon
from localjobs import local_manager

from ykactor.surfaces.cli import habits
from ykactor.surfaces.cli.main import main

QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: batch, submitacl: "*", resources: {max: {vcore: 2}}}
          - {name: dev, submitacl: "*"}
          - {name: closed, submitacl: somebody}
"""
WITHOUT_UNIT = QUEUES.replace("max: {vcore: 2}", "max: {vcore: 2, memory: 8}")
WRONG_KEY = QUEUES.replace("resources:", "resource:")
WITH_TAB = QUEUES.replace("          - {name: dev", "\t- {name: dev")
OTHER_TYPE = QUEUES.replace("max: {vcore: 2}", "max: {cpu: 2}")
FRACTION = QUEUES.replace("max: {vcore: 2}", "max: {vcore: 1.5}")
ABOVE_PARENT = QUEUES.replace("{max: {vcore: 2}}", "{max: {vcore: 2}}, queues: [{name: in, resources: {max: {vcore: 3}}}]")
STAR = QUEUES.replace('submitacl: "*"}', "submitacl: *}")

#: The command line, and what its message says: what was wrong, where, and what to do. ``{...}`` are places of the test; a job
#: ``job-1`` with the tasks 1 and 2 has ended, a job ``job-2`` with the task 1 of two that has ended runs.
MISTAKES = (
    # ---- words of other tools
    ("squeue", "No such command 'squeue'", "ykactor jobs", "ykactor asks"),
    ("sbatch job.sh", "'sbatch'", "ykactor submit-script"),
    ("sinfo", "'sinfo'", "ykactor nodes"),
    ("scontrol hold 1", "'scontrol'", "ykactor hold"),
    ("get nodes", "'get'", "ykactor nodes"),
    ("quues", "'quues'", "ykactor queues"),
    ("run -p batch -- true", "ykactor run", "'-p'", "--queue"),
    ("run --mem 4G -- true", "'--mem'", "--memory"),
    ("run -c 4 -- true", "'-c'", "--vcore"),
    ("run --gres gpu:1 -- true", "'--gres'", "--gpu"),
    ("--url {url} queues", "'--url'", "behind the name of a command"),
    # ---- the daemon
    ("queues --url {page_as_ws}", "{page_as_ws}", "no websocket of a daemon", "serve --ws"),
    ("queues --url {page}", "--url", "found '{page}'", "expected ws://HOST:PORT"),
    ("queues --url localhost", "--url", "found 'localhost'", "expected ws://HOST:PORT"),
    ("queues --url {nowhere}", "{nowhere}: nothing listens there", "ykactor serve --ws"),
    ("queues --token-file {empty}", "{empty}: found no token", "ykactor token create"),
    ("top", "found no terminal", "ykactor queues --watch"),
    # ---- a job
    ("run --local-dir {missing} -- true", "runs for {missing}", "ykactor local"),
    ("run", "Missing argument 'COMMAND...'", "ykactor run --help"),
    ("run --memory 8 -- true", "--memory", "8 bytes", "8Gi"),
    ("run --memory 4GB -- true", "--memory", "'4GB'", "G or Gi"),
    ("run --vcore 0.5 -- true", "--vcore", "'0.5'", "write 500m"),
    ("run --priority high -- true", "--priority", "'high'", "whole number"),
    ("run --time 1:00:00 -- true", "--time", "'1:00:00'", "such as 90s, 10m or 1h30m"),
    ("run --array 9-1 -- true", "--array", "'9-1'", "such as 1-100"),
    ("run --resource gpu -- true", "--resource", "'gpu'", "such as gpu=2"),
    ("run --queue root.batsh -- true", "queue root.batsh does not exist"),
    ("run --queue root.closed -- true", "root.closed"),
    ("run --queue root.dev -- notacommand", "ykactor: notacommand: command not found", "exit code 127"),
    ("cancel job-1.1", "job-1.1", "has ended: Completed"),
    ("cancel job-2.1", "job-2.1", "has ended: Completed"),
    ("cancel job-2.7", "no task job-2.7", "job-2 has the tasks 1 to 2"),
    ("cancel job-99", "failed to find application job-99", "ykactor apps"),
    ("logs job-99", "there is no job job-99", "ykactor jobs lists them"),
    ("logs job-1.9", "there is no task job-1.9", "job-1 has the tasks 1 to 2"),
    ("jobs job-1.x", "found 'job-1.x'", "JOB.INDEX such as job-3 or job-3.4"),
    ("hold dev", "failed to find application dev", "root.dev"),
    ("hold job-2.2", "found a task", "expected its job job-2"),
    ("move job-2 root.dec", "queue root.dec does not exist", "ykactor queues"),
    ("drain elsewhere", "failed to find node elsewhere", "ykactor nodes"),
    # ---- files and directories
    ("check-config {WITH_TAB}", "{WITH_TAB}:7:1", "spaces, not with tabs"),
    ("check-config {WRONG_KEY}", "{WRONG_KEY}:6:43", "did you mean resources?"),
    ("check-config {FRACTION}", "{FRACTION}:6:", "root.batch", "write 1500m"),
    ("check-config {ABOVE_PARENT}", "{ABOVE_PARENT}:6:", "root.batch.in", "found 3 vcore, expected at most 2"),
    ("check-config {STAR}", "{STAR}:7:", 'put a star in quotes: "*"'),
    ("serve --ws {taken}", "{taken}: Address already in use", "--ws HOST:PORT"),
    ("demo --ws {taken}", "{taken}: Address already in use", "make run ADDRESS=HOST:PORT"),
    ("serve --state-dir /proc/state", "/proc/state: cannot be made", "that this user may write to"),
    ("local", "in use by process {local_pid}", "end that process, or use another directory"),
)
#: The same of what is allowed, but seldom meant.
WARNINGS = (
    ("check-config {WITHOUT_UNIT}", "{WITHOUT_UNIT}:6:79", "'8', which is 8 bytes", "did you mean 8Gi?"),
    ("check-config {OTHER_TYPE}", "{OTHER_TYPE}:6:", "resources.max.cpu", "did you mean vcore?"),
    ("queues --queue batch", "has no queue batch", "did you mean root.batch?", "ykactor queues lists them"),
)
ENDED = "true"
ONE_RUNS = "[ $YKACTOR_TASK = 1 ] || sleep 1000"


@pytest.mark.usefixtures("logging_restored")
async def test_what_a_message_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command fails with a message that has all its words; what is allowed is a warning with them."""
    places = {"missing": str(tmp_path / "missing"), "empty": str(tmp_path / "empty"), "nowhere": "ws://127.0.0.1:1"}
    (tmp_path / "empty").touch()
    for name, text in {name: text for name, text in globals().items() if isinstance(text, str) and name.isupper()}.items():
        places[name] = str(tmp_path / f"{name}.yaml")
        (tmp_path / f"{name}.yaml").write_text(text)
    async with (
        real_daemon("--config", places["QUEUES"], http="127.0.0.1:0") as daemon,
        local_manager(tmp_path / "local", daemon.url, "--resource", "vcore=4") as manager,
    ):
        monkeypatch.setenv("YKACTOR_URL", daemon.url)
        monkeypatch.setenv("YKACTOR_LOCAL_DIR", str(manager.directory))
        places |= {"url": daemon.url, "taken": daemon.url.removeprefix("ws://"), "local_pid": str(manager.process.pid)}
        places["local"] = str(manager.directory)
        places |= {"page": daemon.http, "page_as_ws": daemon.http.replace("http:", "ws:")}
        assert await manager.submit(ENDED, first=1, last=2, queue="root.dev") == "job-1"
        await manager.states("job-1")
        assert await manager.submit(ONE_RUNS, first=1, last=2, queue="root.dev") == "job-2"
        while not (await manager.show("job-2")).tasks[0].state.is_final:  # noqa: ASYNC110 (nothing tells when it is)
            await trio.sleep(0.02)
        found = [await lacking(line, words, places, is_allowed=False) for line, *words in MISTAKES]
        found += [await lacking(line, words, places, is_allowed=True) for line, *words in WARNINGS]
    assert [each for each in found if each] == []
    assert len(MISTAKES) == 49


async def lacking(line: str, words: list[str], places: dict[str, str], *, is_allowed: bool) -> str:
    """Run a command line; what its message lacks."""
    arguments = shlex.split(line.format(**places))
    if arguments[0] in ("serve", "demo", "local"):  # they take signals
        code, *written = await ended_command(
            *arguments, environment={"YKACTOR_URL": places["url"]} | {"YKACTOR_LOCAL_DIR": places["local"]}
        )
        output = "".join(written)
    else:
        done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments, prog_name="ykactor"))
        code, output = done.exit_code, done.output
    missing = [word for text in words if (word := text.format(**places)) not in output]
    is_right = not missing and (code == 0) is is_allowed and "Traceback" not in output
    return "" if is_right else f"{line}: {missing}, exit code {code}\n{output}"


def test_words_of_other_tools_lead_to_what_there_is() -> None:
    """Each command that is named exists, and no word is one of ykactor; of an option some command has one."""
    commands = {word: set(re.findall(r"ykactor ([a-z-]+)", meant)) for word, meant in habits.COMMANDS.items()}
    known = {name: main.get_command(None, name) for name in main.list_commands(None)}  # type: ignore[arg-type]
    assert {name for names in commands.values() for name in names} <= set(known)
    assert all(commands.values())
    assert not set(commands) & set(known)
    options = {word for command in known.values() if command is not None for each in command.params for word in each.opts}
    assert [name for name, meant in habits.OPTIONS.items() if not options & set(meant)] == []
