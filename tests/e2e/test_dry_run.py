"""``ykactor submit --dry-run``: asks then have the outcomes that it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from daemon import application, node, real_daemon, run_command
from triedwork import allocation

from ykactor.client import ResourceManager, connect
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.main import main
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, properties: {preemption.delay: 1s}}
          - {name: b, resources: {guaranteed: {vcore: 2}, max: {vcore: 3}}, properties: {preemption.delay: 1s}}
"""
VICTIM = {"preemptionPolicy": {"allowPreemptOther": True, "allowPreemptSelf": True}}


def task(key: str, cores: int, **more: object) -> dict[str, object]:
    return {"allocationKey": key, "applicationID": "new", "resourcePerAlloc": {"vcore": str(cores)}, **more}


def scenario(path: Path) -> Path:
    """An application in root.b: one task that has to preempt, one for which its queue has no room, one that fits on no node."""
    ask = {"at": 1, "type": "AllocationRequest", "allocations": [task("n1", 1, **VICTIM), task("n2", 3), task("n9", 9)]}
    lost = {"at": 1, "type": "AllocationRequest", "allocations": [{**task("x1", 1), "applicationID": "lost"}]}
    queues = {"new": "root.b", "lost": "root.c"}
    new = [{"applicationID": name, "queueName": queue, "ugi": {"user": "al"}} for name, queue in queues.items()]
    messages = [{"at": 0, "type": "ApplicationRequest", "new": new}, ask, lost]
    path.write_text(json.dumps({"name": "new", "config": "", "until": 30, "messages": messages}))
    return path


async def tried(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    output, _ = await run_command("submit", *arguments, "--dry-run", "-o", "json")
    return {each["allocationKey"]: each for each in json.loads(output)["asks"]}


async def test_what_is_said_then_happens(tmp_path: Path) -> None:
    """The node and the victim of the task that runs; nothing is registered, and nothing changes, before it is sent."""
    (tmp_path / "queues.yaml").write_text(QUEUES)
    file, state = scenario(tmp_path / "new.json"), tmp_path / "state"
    async with real_daemon("--config", tmp_path / "queues.yaml", "--state-dir", state) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node("m1", vcore=4000))
            await rm.request(application("old", "root.a"))
            await rm.request(si.AllocationRequest(allocations=[allocation(f"o{number}", "old") for number in range(4)]))
            before = await daemon.state()
            found = await tried(file, "--url", daemon.url)
            assert found == await tried(file, "--on", state)
            assert await daemon.state() == before
            outcomes = {key: (each["outcome"], each["nodeID"], each["code"]) for key, each in found.items()}
            assert outcomes == {
                "n1": ("runs", "m1", "QUOTA"),  # it waits for the delay of preemption
                "n2": ("waits", "", "QUOTA"),
                "n9": ("never", "", "QUOTA"),
                "x1": ("refused", "", ""),
            }
            assert found["x1"]["reason"].startswith("failed to place application lost: ")
            (victim,) = found["n1"]["preempts"]
            await rm.request(application("new", "root.b"))
            await rm.request(si.AllocationRequest(allocations=[allocation("n1", "new")]))
            assert await first_released(rm) == victim


async def first_released(rm: ResourceManager) -> str:
    """The first task whose release the scheduler starts."""
    async for response in rm:
        if isinstance(response, si.AllocationResponse) and response.released:
            return response.released[0].allocation_key
    raise AssertionError("responses do not end")


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        (("--on", "."), exit_codes.USAGE, "found --on without --dry-run, expected both"),
        (("-o", "json"), exit_codes.USAGE, "found -o without --dry-run, expected both"),
        (("--dry-run", "--on", "nowhere"), exit_codes.USAGE, "does not exist"),
        (("--dry-run", "--url", "ws://127.0.0.1:1"), exit_codes.FAILED, "nothing listens there"),
    ],
)
def test_without_a_state(tmp_path: Path, flags: tuple[str, ...], code: int, text: str) -> None:
    """A state that is not there is an error that says so."""
    done = CliRunner().invoke(main, ["submit", str(scenario(tmp_path / "new.json")), *flags])
    assert (done.exit_code, text in done.output) == (code, True), done.output
