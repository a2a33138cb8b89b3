"""``ykactor run --dry-run``: nothing runs, and the job then has the outcome that it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from daemon import real_daemon, run_command
from localjobs import local_manager

from ykactor.local.model import State
from ykactor.surfaces.cli import exit_codes

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: low, resources: {max: {vcore: 2}}}
          - {name: gangs, properties: {application.sort.policy: fifo}}
"""


async def tried(directory: Path, url: str, *options: str) -> dict[str, dict[str, Any]]:
    arguments = ("--local-dir", directory, "--url", url, "--memory", "16Mi", *options)
    output, _ = await run_command("run", *arguments, "--dry-run", "--json", "--", "sleep", "1000")
    return {each["allocationKey"]: each for each in json.loads(output)["asks"]}


async def test_what_is_said_then_happens(tmp_path: Path) -> None:
    """The tasks that would run do; the third one waits for them. Nothing is there of the job before it is run."""
    (tmp_path / "queues.yaml").write_text(QUEUES)
    directory = tmp_path / "l"
    async with (
        real_daemon("--config", tmp_path / "queues.yaml") as daemon,
        local_manager(directory, daemon.url, "--resource", "vcore=4") as local,
    ):
        await local.has_said("registered")
        found = await tried(directory, daemon.url, "--queue", "root.low", "--array", "1-3")
        assert {key: (each["outcome"], each["code"]) for key, each in found.items()} == {
            "job-1.1": ("runs", ""),
            "job-1.2": ("runs", ""),
            "job-1.3": ("waits", "QUOTA"),
        }
        assert (await daemon.state())["applications"] == {}
        assert (await run_command("jobs", "--local-dir", directory))[0].count("job-") == 0
        each = {"vcore": 1000, "memory": 2**24}
        job = await local.submit("sleep 1000", queue="root.low", first=1, last=3, resource=each)
        assert job == "job-1"
        await local.has_state(job, State.RUNNING)
        (found_application,) = (await daemon.state())["applications"].values()
        assert set(found_application["allocations"]) == {"job-1.1", "job-1.2"}
        found = await tried(directory, daemon.url, "--queue", "root.low")
        assert found["job-2.0"]["outcome"] == "waits"
        found = await tried(directory, daemon.url, "--queue", "root.gangs", "--gang", "2")
        assert {each["outcome"] for each in found.values()} == {"runs"}
        assert len(found) == 2


async def test_without_those_that_it_needs(tmp_path: Path) -> None:
    """An error in one line tells what is not there: a local resource manager, a daemon, room on the machine."""
    directory = tmp_path / "l"
    arguments = ("run", "--dry-run", "--url", "ws://127.0.0.1:1", "--local-dir", directory)
    _, errors = await run_command(*arguments, "true", expect=exit_codes.FAILED)
    assert "no local resource manager runs" in errors
    async with local_manager(directory, f"unix:{tmp_path}/nobody", "--resource", "vcore=4"):
        _, errors = await run_command(*arguments, "true", expect=exit_codes.FAILED)
        assert "nothing listens there" in errors
        _, errors = await run_command(*arguments, "--vcore", "5", "true", expect=exit_codes.FAILED)
        assert "expected at most 4" in errors
