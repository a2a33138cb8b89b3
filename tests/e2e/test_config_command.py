"""``ykactor config``: print, plan and apply, beside a daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from daemon import real_daemon, run_command
from triedwork import LARGER, TWO_QUEUES, asked_for_four, running

from ykactor.client import connect
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main

WITHOUT_A = TWO_QUEUES.replace("- {name: a, resources: {max: {vcore: 2}}}", "- {name: c}")


async def planned(*arguments: str | Path, expect: int = 0) -> dict[str, Any]:
    """The JSON of a plan, without its time."""
    output, _ = await run_command("config", "plan", *arguments, "-o", "json", expect=expect)
    return {key: value for key, value in json.loads(output).items() if key != "beginNs"}


async def test_a_plan_is_what_apply_does(tmp_path: Path) -> None:
    """The task that is to start at once is the one that starts. Daemon and journal tell the same, and do not change."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (larger := tmp_path / "larger.yaml").write_text(LARGER)
    state = tmp_path / "state"
    async with real_daemon("--config", tmp_path / "queues.yaml", "--state-dir", state) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await asked_for_four(rm)
            before = await running(daemon)
            found = await planned(larger, "--url", daemon.url)
            assert found == await planned(larger, "--on", state)
            (started,) = [each for each in found["atOnce"] if each["whatIf"]["state"] == "runs"]
            assert (started["allocationKeys"], started["whatIf"]["nodeID"]) == (["t3"], "n1")
            assert found["effective"] == [
                {"partitionName": "default", "queueName": "root.a", "limit": "max", "resource": "vcore"}
                | {"before": 2000, "after": 3000, "by": "root.a"}
            ]
            assert await running(daemon) == before
            text, _ = await run_command("config", "plan", larger, "--url", daemon.url)
            checksum = found["checksum"]["before"]
            assert "  queue root.a: max vcore 2 -> 3" in text.splitlines()
            assert "  1 task waits for the same, with other numbers; -o json has them" in text.splitlines()
            assert (
                text.splitlines()[-1] == f"apply with: ykactor config apply {larger} --if-checksum {checksum} --url {daemon.url}"
            )
            output, _ = await run_command("config", "apply", larger, "--if-checksum", checksum, "--url", daemon.url)
            assert output == f"{larger} is in force\n"
            await check_no_way_to_apply(tmp_path, state, daemon.url, checksum)
            assert await running(daemon) == before | {"t3"}
            printed, _ = await run_command("config", "--url", daemon.url)
            assert printed.strip() == LARGER.strip()
            _, errors = await run_command(
                "config", "apply", larger, "--if-checksum", checksum, "--url", daemon.url, expect=exit_codes.FAILED
            )
            assert "CHECKSUM_MISMATCH" in errors


async def check_no_way_to_apply(tmp_path: Path, state: Path, url: str, former: str) -> None:
    """A plan that fails, or of standard input, or of a journal, or while a window is open, names no command to apply it."""
    (smaller := tmp_path / "smaller.yaml").write_text(TWO_QUEUES.replace("vcore: 2", "vcore: 1"))
    output, _ = await run_command("config", "plan", smaller, "--url", url)
    assert "  queue root.a: 3 vcore in use, max 1: nothing is taken because quota preemption is off; nothing new" in output
    assert "apply with: " in output
    for arguments in ((smaller, "--url", url, "--fail-on", "never,preempt,reject"), (smaller, "--on", state)):
        output, _ = await run_command("config", "plan", *arguments)
        assert ("apply with: " in output) == ("--url" in arguments)
    without = tmp_path / "without.yaml"
    without.write_text(WITHOUT_A)
    output, _ = await run_command("config", "plan", without, "--url", url, "--fail-on", "drain", expect=exit_codes.FAILED)
    assert "apply with: " not in output
    assert former not in output


async def test_fail_on(tmp_path: Path) -> None:
    """Exit code 1 if it does what was named, else 0; a queue with an application that is removed drains."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (without := tmp_path / "without.yaml").write_text(WITHOUT_A)
    async with real_daemon("--config", tmp_path / "queues.yaml") as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        await asked_for_four(rm)
        found = await planned(without, "--url", daemon.url, "--fail-on", "never,preempt,reject")
        assert found["drains"] == [{"partitionName": "default", "queueName": "root.a", "applications": 1}]
        await planned(without, "--url", daemon.url, "--fail-on", "never, drain", expect=exit_codes.FAILED)


def invoked(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    return done.exit_code, done.output


def test_two_files(tmp_path: Path) -> None:
    """``--base`` needs no daemon, and tells no tasks; the same file twice changes nothing."""
    (old := tmp_path / "old.yaml").write_text(TWO_QUEUES)
    (new := tmp_path / "new.yaml").write_text(LARGER)
    code, output = invoked("config", "plan", new, "--base", old)
    assert code == 0
    assert output.splitlines()[1:] == [
        "effective:",
        "  queue root.a: max vcore 2 -> 3",
    ]
    assert invoked("config", "plan", old, "--base", old)[1].endswith(", as it is\n")


def test_amounts_that_change_nothing_are_told(tmp_path: Path) -> None:
    """A maximum that one above it hides: the files differ, so the plan is not empty. Only the default partition is not named."""
    text = TWO_QUEUES + TWO_QUEUES.replace("\npartitions:", "").replace("name: default", "name: gpu").replace(
        "vcore: 2", "vcore: 7"
    )
    text = text.replace("{name: b}", "{name: b, resources: {max: {vcore: 2}}, queues: [{name: c, resources: {max: {vcore: 2}}}]}")
    (old := tmp_path / "old.yaml").write_text(text)
    text = text.replace(", resources: {max: {vcore: 2}}}]", "}]").replace("vcore: 7", "vcore: 8")
    (new := tmp_path / "new.yaml").write_text(text)
    code, output = invoked("config", "plan", new, "--base", old)
    assert code == 0
    assert output.splitlines()[1:] == [
        "changes:",
        "  queue root.b.c: max {vcore: 2000} -> not set",
        "  partition gpu: queue root.b.c: max {vcore: 2000} -> not set",
        "effective:",
        "  partition gpu: queue root.a: max vcore 7 -> 8",
    ]


@pytest.mark.parametrize(
    ("text", "flags", "code", "expected"),
    [
        ("partitions: 3", (), exit_codes.FAILED, "new.yaml:1:13"),
        (LARGER, ("--fail-on", "never,sometimes"), exit_codes.USAGE, "found sometimes, expected some of never, preempt"),
        (LARGER, ("--fail-on", ""), exit_codes.USAGE, "found '', expected some of never, preempt"),
        (" \n", (), exit_codes.FAILED, "new.yaml: found nothing, expected a queue configuration"),
        (LARGER, ("--horizon", "-1"), exit_codes.USAGE, "expected a number"),
        (LARGER, ("--on", "."), exit_codes.USAGE, "found --base and --on, expected one of them"),
        (LARGER, ("--url", "ws://127.0.0.1:1"), exit_codes.USAGE, "found --url with --base, expected one of them"),
    ],
)
def test_wrong_input(tmp_path: Path, text: str, flags: tuple[str, ...], code: int, expected: str) -> None:
    """A mistake has its place, and nothing is planned."""
    (old := tmp_path / "old.yaml").write_text(TWO_QUEUES)
    (new := tmp_path / "new.yaml").write_text(text)
    found, output = invoked("config", "plan", new, "--base", old, *flags)
    assert (found, expected in output) == (code, True), output


async def test_what_apply_refuses(tmp_path: Path) -> None:
    """An empty file, as of a generator that has failed, and mistakes, each of which has a line. Nothing changes."""
    (tmp_path / "queues.yaml").write_text(TWO_QUEUES)
    (new := tmp_path / "new.yaml").write_text("")
    async with real_daemon("--config", tmp_path / "queues.yaml") as daemon:
        before, _ = await run_command("config", "--url", daemon.url)
        _, errors = await run_command("config", "apply", new, "--url", daemon.url, expect=1)
        assert errors == f"Error: {new}: found nothing, expected a queue configuration\n"
        new.write_text(TWO_QUEUES.replace("vcore: 2", "vcore: -2").replace("name: b", "name: 'b c'"))
        _, errors = await run_command("config", "apply", new, "--url", daemon.url, expect=1)
        first, second = errors.splitlines()[:2]
        assert first.startswith(f"{new} refused: CONFIG_REFUSED: {new}:9:")
        assert second.startswith(f"{new}:8:")
        assert await run_command("config", "--url", daemon.url) == (before, "")
