"""The JSON of all verbs: one style of keys, whatever part of the product a document comes from."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import trio
from click.testing import CliRunner
from daemon import real_daemon
from localjobs import local_manager

from ykactor.local.model import State
from ykactor.surfaces.cli.main import main

QUEUES = """
partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [
  {name: a, resources: {max: {vcore: 3}}, limits: [{limit: all, users: ["*"], maxapplications: 5}]}, {name: b}]}]}]
"""
#: Verbs that do not end: one prints the messages of the protocol, the other one what it has counted.
ENDLESS = {"follow", "replica"}
#: Verbs that have nothing to print here, or nothing yet: use is counted in whole seconds.
MAYBE_EMPTY = ("preemptions", "what-if", "usage")
_SNAKE = re.compile(r"[a-z0-9]_[a-z0-9]|_ns$")


def verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The names of the commands that have ``-o json``."""
    if any("--output" in param.opts and "json" in getattr(param.type, "choices", ()) for param in command.params):
        yield " ".join(path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from verbs(found, (*path, name))


def keys(document: Any) -> set[str]:
    """The keys of a document, at any depth; the names of queues, tasks and types are among them."""
    if isinstance(document, list):
        return set().union(*map(keys, document))
    return set(document).union(*map(keys, document.values())) if isinstance(document, dict) else set()


def documents(text: str) -> list[Any]:
    """The document of an output, or those of its lines."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("logging_restored")
async def test_keys_are_in_camel_case(tmp_path: Path) -> None:
    """Each verb that ends prints something, and no key of it in snake case or with a unit of time as ``_ns``."""
    state, queues, access, story = (tmp_path / name for name in ("state", "queues.yaml", "access.yaml", "story.json"))
    queues.write_text(QUEUES)
    access.write_text("identities: [{name: ops, roles: [operator]}]\n")
    ask = {"allocationKey": "t9", "applicationID": "app-1", "resourcePerAlloc": {"vcore": "1"}}
    messages = [{"at": 0, "type": "AllocationRequest", "allocations": [ask]}]
    story.write_text(json.dumps({"name": "s", "config": QUEUES, "until": 9, "messages": messages}))
    async with (
        real_daemon("--config", queues, "--state-dir", state) as daemon,
        local_manager(tmp_path / "local", daemon.url, "--resource", "vcore=2") as manager,
    ):
        await manager.states(await manager.submit("true", name="first", queue="root.a", time_limit_s=9))
        await manager.has_state(await manager.submit("sleep 1000", queue="root.a", resource={"vcore": 2000}), State.RUNNING)
        await manager.has_state(await manager.submit("true", queue="root.a", resource={"vcore": 2000}), State.PENDING)
        here, local = f"--url {daemon.url}", f"--local-dir {manager.directory}"
        (node_id,) = (await daemon.state())["nodes"]
        lines = [
            f"jobs {local}", f"jobs --attempts {local}", f"jobs show job-1 {local}", f"queues {here}", f"apps {here}",
            f"apps --since 1d {here}", f"app job-1 {here}", f"app job-2 {here}", f"asks {here}", f"nodes {here}",
            f"node {node_id} {here}", f"users {here}", f"partitions {here}", f"events {here}", f"stats {here}",
            f"health {here}", f"usage {here}", f"explain job-3 {here}", f"explain job-3 --changes {here}", f"priorities {here}",
            f"preemptions {here}", f"what-if {story} --on {state}", f"audit --state-dir {state}", f"config {here}",
            f"config plan {queues} --on {state}", f"token list --access {access}", f"simulate {story}",
            f"submit --dry-run {story} {here}", f"replay {state}", f"journal info {state}",
        ]  # fmt: skip
        await called(f"hold root.b {here}")
        await called(f"token create ops --access {access}")
        missing = {*verbs(main)} - ENDLESS - {verb for verb in verbs(main) for line in lines if line.startswith(f"{verb} ")}
        assert missing == set(), "each command with -o json needs a line here"
        wrong = {}
        for line in lines:
            found = keys(documents(await called(f"{line} -o json")))
            assert found or line.startswith(MAYBE_EMPTY), line
            if snakes := [key for key in found if _SNAKE.search(key)]:
                wrong[line.partition(" ")[0]] = snakes
    assert wrong == {}


async def called(line: str) -> str:
    """The output of a command."""
    done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, line.split(), prog_name="ykactor"))
    assert done.exit_code == 0, (line, done.output, done.stderr)
    return done.stdout
