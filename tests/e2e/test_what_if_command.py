"""``ykactor what-if`` beside a running daemon: the daemon then does what was told, and nothing of it has changed before."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from daemon import new_token, real_daemon, run_command
from doubles import running_daemon
from replicas import running_replica
from test_replica_command import ACCESS
from triedwork import LARGER, TWO_QUEUES, asked_for_four, running

from ykactor.client import connect, operate
from ykactor.surfaces.cli import exit_codes
from ykactor.wire.si import messages as si

SCENARIO = """
name: more
config: ""
until: 30
messages:
  - {at: 1, type: HoldQueue, queueName: root.a}
  - {at: 2, type: ApplicationRequest, new: [{applicationID: app-2, queueName: root.b, ugi: {user: alice}}]}
  - at: 2
    type: AllocationRequest
    allocations:
      - {allocationKey: u1, applicationID: app-2, resourcePerAlloc: {vcore: "1"}, runSeconds: 5}
      - {allocationKey: u2, applicationID: app-2, resourcePerAlloc: {vcore: "9"}}
  - {at: 3, type: CancelAllocation, applicationID: app-1, allocationKey: t4}
  - {at: 4, type: CancelAllocation, applicationID: nobody, allocationKey: t4}
"""


async def tried(*arguments: str | Path) -> dict[str, Any]:
    """The JSON of a what-if, without its time."""
    output, errors = await run_command("what-if", *arguments, "-o", "json")
    assert errors == ""
    return {key: value for key, value in json.loads(output).items() if key != "beginNs"}


async def test_the_daemon_then_does_what_was_told(tmp_path: Path) -> None:
    """A larger quota: the task that it would start is the one that starts; and the journal has nothing of the what-if.

    The journal, the daemon and a replica tell the same.
    """
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (tmp_path / "larger.yaml").write_text(LARGER)
    state = tmp_path / "state"
    async with real_daemon("--config", tmp_path / "queues.yaml", "--state-dir", state) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm, operate(daemon.url) as operator:
            await asked_for_four(rm)
            before = await running(daemon)
            async with running_replica(daemon.url) as replica:
                await replica.wait_logged("partition_copied")
                recorded = (await run_command("journal", "info", state, "-o", "json"))[0]
                sources = [("--on", state), ("--url", daemon.url), ("--url", replica.url)]
                tries = [await tried(*source, "--config", tmp_path / "larger.yaml") for source in sources]
            told = tries[0]
            assert tries == [told] * 3
            assert (await run_command("journal", "info", state, "-o", "json"))[0] == recorded
            assert told["changes"] == ["queue root.a: max {vcore: 2000} -> {vcore: 3000}"]
            assert (told["asItIs"]["runs"], told["whatIf"]["runs"]) == (2, 3)
            starts = {
                key: difference["whatIf"]["nodeID"]
                for difference in told["differences"]
                if difference["whatIf"]["state"] == "runs" and difference["asItIs"]["state"] == "waits"
                for key in difference["allocationKeys"]
            }
            await operator.request(si.UpdateConfigurationRequest(config=LARGER))
            assert dict.fromkeys(await running(daemon) - before, "n1") == starts


async def test_messages_and_acts_of_a_scenario(tmp_path: Path) -> None:
    """A table of what is different; tasks end as the scenario says; what has no effect is told; a backup will do."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (tmp_path / "more.yaml").write_text(SCENARIO)
    state, backup = tmp_path / "state", tmp_path / "backup"
    async with real_daemon("--config", tmp_path / "queues.yaml", "--state-dir", state) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await asked_for_four(rm)
            await run_command("journal", "backup", state, backup)
    output, errors = await run_command("what-if", tmp_path / "more.yaml", "--on", backup)
    head, runs, as_it_is, what_if, empty, columns, *rows = output.splitlines()
    assert head.startswith(f"{backup} at 2")
    assert head.endswith(", 30 s later:")
    assert empty == ""
    assert [line.split() for line in (runs, as_it_is, what_if)] == [
        ["TASKS", "RUNS", "WAITS", "ENDED", "REFUSED"],
        ["as", "it", "is", "2", "2", "0", "0"],
        ["what", "if", "2", "2", "2", "0"],
    ]
    assert columns.split("  ")[0] == "APPLICATION"
    held, *others = [row.split("  ")[-1].strip() for row in rows]
    assert held.startswith("waits: held by scenario since")
    assert held.endswith("with queue root.a")
    assert others == [
        "ended after 3 s: it was withdrawn before it ran",
        "Starting",
        "ended on n1 after 7 s: STOPPED_BY_RM",
        "waits: can never fit: the largest node has 4 vcore, it wants 9; wants 9, has 2 of 4 vcore in the cluster",
    ]
    assert errors == "refused: at 4: failed to find application nobody\n"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ([], exit_codes.USAGE, "found neither SCENARIO nor --config, expected a change"),
        (["--config", "wrong.yaml"], exit_codes.FAILED, "wrong.yaml:1:1"),
        (["wrong.yaml"], exit_codes.FAILED, "found a queue file, expected a scenario"),
        (["--config", "queues.yaml", "--seconds", "-1"], exit_codes.USAGE, "expected a number from 0 to"),
        (["--config", "queues.yaml"], exit_codes.FAILED, "found no journal.db, expected the state directory of a daemon"),
    ],
)
async def test_what_cannot_be_tried(arguments: list[str], code: int, reason: str, tmp_path: Path) -> None:
    """Each mistake is told with what was expected."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (tmp_path / "wrong.yaml").write_text("partitions: none")
    paths = [tmp_path / each if each.endswith(".yaml") else each for each in arguments]
    assert reason in (await run_command("what-if", "--on", tmp_path, *paths, expect=code))[1]


async def test_a_configuration_that_is_refused(tmp_path: Path) -> None:
    """A configuration that the partitions cannot change to has no effect, and it is told why."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (tmp_path / "parent.yaml").write_text(TWO_QUEUES.replace("{name: a, ", "{name: a, parent: true, "))
    state = tmp_path / "state"
    async with real_daemon("--config", tmp_path / "queues.yaml", "--state-dir", state) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await asked_for_four(rm)
            output, errors = await run_command("what-if", "--on", state, "--config", tmp_path / "parent.yaml")
    assert output.endswith("no task and no application is different\n")
    assert errors.startswith("refused: ")
    assert "root.a" in errors


@pytest.mark.parametrize("option", [("--url", "ws://127.0.0.1:1"), ("--insecure",)])
async def test_a_state_that_is_read_is_asked_of_nobody(tmp_path: Path, option: tuple[str, ...]) -> None:
    """An option about a daemon would have no effect with --on, and who gives it may mean another state; a variable may be set."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    command = partial(run_command, "what-if", "--on", tmp_path, "--config", tmp_path / "queues.yaml")
    assert f"found {option[0]} with --on, expected one of them" in (await command(*option, expect=exit_codes.USAGE))[1]
    errors = (await command(environment={"YKACTOR_URL": "ws://127.0.0.1:1"}, expect=exit_codes.FAILED))[1]
    assert "found no journal.db" in errors


async def test_only_a_daemon_hears_resource_managers(tmp_path: Path) -> None:
    """The messages of operators in a scenario are played by what-if and simulate; submit names the first, and sends nothing."""
    (tmp_path / "more.yaml").write_text(SCENARIO)
    errors = (await run_command("submit", tmp_path / "more.yaml", "--url", "ws://127.0.0.1:1", expect=exit_codes.FAILED))[1]
    assert "found HoldQueue at 1, expected messages of a resource manager" in errors
    output, errors = await run_command("simulate", tmp_path / "more.yaml", "-o", "json")
    assert "refused: at 1: queue root.a does not exist" in errors
    assert json.loads(output)["pending"] == 0


async def test_only_replicas_get_the_state(tmp_path: Path) -> None:
    """SE-100: the role is needed, as for turns, here also at a daemon that records none."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    access.chmod(0o600)
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    expected = {"copy": exit_codes.OK, "reader": exit_codes.FAILED}
    for name in expected:
        (tmp_path / name).write_text(new_token(name, access))
    async with real_daemon("--access", access) as daemon:
        for name, code in expected.items():
            arguments = ("--url", daemon.url, "--token-file", tmp_path / name, "--config", tmp_path / "queues.yaml")
            output, errors = await run_command("what-if", *arguments, expect=code)
            assert ("no application is different" in output) == (name == "copy")
            assert ("does not have the role replica" in errors) == (name == "reader")


async def test_a_partition_that_does_not_run_cannot_be_tried(tmp_path: Path) -> None:
    """A replica that has no copy of it says so."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    async with running_daemon() as daemon:
        daemon.doubles["default"].inbox.close()
        command = partial(run_command, "what-if", "--url", daemon.url, "--config", tmp_path / "queues.yaml")
        assert "1013 partition default does not run at the moment" in (await command(expect=exit_codes.FAILED))[1]
