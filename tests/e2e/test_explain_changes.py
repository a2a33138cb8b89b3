"""AP-155: ``ykactor explain --changes`` beside a running daemon, of which nothing changes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from daemon import RunningDaemon, application, node, real_daemon, run_command

from ykactor.client import connect, operate
from ykactor.client.resource_manager import ResourceManager
from ykactor.core.inspection.changes import (
    AddNode,
    Change,
    DropTerm,
    EndHold,
    Found,
    Free,
    Prioritise,
    Raise,
    Resize,
    Search,
    Undrain,
    Wait,
)
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.sim.candidates import Part
from ykactor.sim.smallest import EndedError, Outcome, search
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.changes import lines, words
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a, resources: {max: {vcore: 3}}}]
"""


@asynccontextmanager
async def crowded(directory: Path) -> AsyncIterator[tuple[RunningDaemon, ResourceManager]]:
    """A queue of three cores in which t1, of two, runs, and t2, of two, waits."""
    (directory / "queues.yaml").write_text(QUEUES)
    async with real_daemon("--config", directory / "queues.yaml", "--state-dir", directory / "state") as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node(vcore=8000))
            await rm.request(application(queue="root.a"))
            for key in ("t1", "t2"):
                ask = si.Allocation(key, "app-1", resource_per_alloc={"vcore": 2000})
                await rm.request(si.AllocationRequest(allocations=[ask]))
            yield daemon, rm


async def found(*arguments: str | Path) -> dict[str, Any]:
    """The JSON of an explanation with changes."""
    output, errors = await run_command("explain", *arguments, "--changes", "-o", "json")
    assert errors == ""
    document: dict[str, Any] = json.loads(output)
    return document


async def test_the_daemon_then_places_it(tmp_path: Path) -> None:
    """The change that is told first: the daemon places the ask with it; daemon and journal tell the same."""
    async with crowded(tmp_path) as (daemon, _):
        told = await found("app-1", "--url", daemon.url)
        assert told["allocationKey"] == "t2"
        raised = {"type": "Raise", "queueName": "root.a", "whose": "", "resource": "vcore", "before": 3000, "after": 4000}
        assert [each["changes"] for each in told["changes"]["found"]] == [
            [raised | {"isDynamic": False}],
            [{"type": "Resize", "resource": "vcore", "before": 2000, "after": 1000}],
            [told["changes"]["found"][2]["changes"][0]],
        ]
        assert told["changes"]["found"][2]["changes"][0]["tasks"] == [["app-1", "t1"]]
        recorded = await found("app-1/t2", "--on", tmp_path / "state")
        assert [each["changes"][0]["type"] for each in recorded["changes"]["found"]] == ["Raise", "Resize", "Free"]
        async with operate(daemon.url) as operator:
            await operator.request(si.UpdateConfigurationRequest(config=QUEUES.replace("vcore: 3", "vcore: 4")))
        status, _ = await run_command("explain", "app-1/t2", "--changes", "--url", daemon.url)
        assert status.startswith("task t2 runs on ")


async def test_what_people_read(tmp_path: Path) -> None:
    """The explanation, then the changes, in 80 columns."""
    async with crowded(tmp_path) as (daemon, _):
        printed, errors = await run_command("explain", "app-1/t2", "--changes", "--url", daemon.url)
        changes = printed.partition("Changes, each tried on a copy of the present state:\n")[2].splitlines()
        assert errors == ""
        assert changes[0].split("  ")[1] == "1 raise max vcore of root.a 3 -> 4"
        assert "  t2 on " in changes[0]
        assert max(map(len, changes)) <= 80
        assert re.search(r"root.a  vcore     2    3      2      1 +\d+s  QUOTA  <- binding", printed)


async def test_the_history_tells_of_what_is_remembered_no_longer(tmp_path: Path) -> None:
    """AP-156: an application that was removed, and its tasks; one that there never was has the begin of the history."""
    async with crowded(tmp_path) as (daemon, rm):
        await rm.request(si.ApplicationRequest(remove=[si.RemoveApplicationRequest("app-1")]))
        _, errors = await run_command("explain", "app-1", "--url", daemon.url, expect=exit_codes.FAILED)
        assert "there is no application, task, queue or node app-1; the 10,000 applications that ended last" in errors
        for name, end in (
            ("app-1", r"application app-1 ended in root\.a at \S+Z: it was Completed"),
            ("t1", r"task t1 of application app-1 ended on \S+ in root\.a at \S+Z: STOPPED_BY_RM: Application app-1 Removed"),
            ("app-1/t1", r"task t1 of application app-1 ended .*"),
        ):
            told, _ = await run_command("explain", name, "--on", tmp_path / "state")
            assert re.fullmatch(f"{end}, as the history says\n", told)
        _, errors = await run_command("explain", "app-9", "--on", tmp_path / "state", expect=exit_codes.FAILED)
        assert re.search(r"there is no application, task, queue or node app-9; the history since \S+Z has no end of one", errors)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nobody", "--changes"], exit_codes.FAILED, "there is no application nobody"),
        (["root.a", "--changes"], exit_codes.FAILED, "root.a is no application and no ask"),
        (["app-1/t9", "--changes"], exit_codes.FAILED, "application app-1 has no task t9 that waits or runs"),
        (["app-1", "--changes", "--partition", "other"], exit_codes.FAILED, "found other, expected one of default"),
        (["app-1", "--changes", "--watch"], exit_codes.USAGE, "found --watch with --changes"),
        (["app-1", "--preempt"], exit_codes.USAGE, "found --preempt without --changes"),
    ],
)
async def test_what_is_refused(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    """An unknown name, and options that do not go together."""
    async with crowded(tmp_path) as (daemon, _):
        output, errors = await run_command("explain", *arguments, "--url", daemon.url, expect=code)
        assert (output, message in errors) == ("", True)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Raise(QueuePath("root.a"), "user bob", "vcore", 1000, 2500), "raise max vcore of user bob in root.a 1 -> 2500m"),
        (Raise(QueuePath("root.a"), "", "", 1, 2), "raise maxapplications of root.a 1 -> 2"),
        (Resize("memory", 2**31, 2**30), "ask for memory 1Gi instead of 2Gi"),
        (Prioritise(0, 5), "give it priority 5 instead of 0"),
        (DropTerm("zone=a", 0), "drop zone=a from its selector"),
        (DropTerm("n1", None), "let it run elsewhere than on n1"),
        (
            Free(NodeID("n1"), [(ApplicationID("app"), AllocationKey("t1"))], 90 * 10**9),
            "end app/t1 on n1 (90s of work lost)",
        ),
        (AddNode(NodeID("n1")), "add a node like n1"),
        (Undrain(NodeID("n1")), "undrain n1"),
        (EndHold(QueuePath("root.a")), "end the hold of root.a"),
        (EndHold(QueuePath("")), "end the hold of its application"),
        (Wait(29.5), "wait 30s"),
        (
            Wait(189.5, (ApplicationID("nlp"), AllocationKey("nlp-2")), NodeID("n7")),
            "wait for nlp/nlp-2 on n7 (at most 3m10s left, as told)",
        ),
    ],
)
def test_words(change: Change, text: str) -> None:
    """A change is a sentence in the imperative."""
    assert words(change) == text


def waits() -> None:
    """Time alone does not help."""


def test_a_search_that_is_ended_says_so() -> None:
    """After 200 tries nothing more is tried, and what was found so far is told."""
    parts = [Part(Undrain(NodeID(f"n{number}"))) for number in range(300)]
    result = search([[part] for part in parts], lambda changes, _: Outcome("n7" if changes == [parts[7].change] else ""), waits)
    assert (len(result.found), result.is_ended, result.tries) == (1, True, 200)
    assert list(lines(result, "t1"))[-1] == "The search was ended after 5 s or 200 tries: there may be others"


def test_more_is_not_always_better() -> None:
    """An amount is a result only if one step less does not suffice; without any the reason is told."""
    part = Part(Raise(QueuePath("root.a"), "", "gpu", 4, 6), 1, 100)
    enough = {8, 9, 10, 14, 20}

    def attempt(changes: object, _: bool) -> Outcome:
        amounts = [change.after for change in changes if isinstance(change, Raise)] if isinstance(changes, list) else []
        return Outcome("n1") if amounts and amounts[0] in enough else Outcome(reason="QUOTA: too little")

    assert search([[part]], attempt, waits).found == [Found([part.at(8).change], "n1", 0, too_little=7)]
    enough.clear()
    result = search([[part]], attempt, waits)
    assert result == Search([], False, result.tries, "QUOTA: too little")
    assert list(lines(result, "t1")) == ["No change was found that places it; the last that was tried: QUOTA: too little"]


def test_what_suffices_is_told_although_the_search_is_ended() -> None:
    """An amount that was found to suffice is what is needed at most, if no smaller one could be tried any more."""
    part = Part(Raise(QueuePath("root.a"), "", "gpu", 4, 6), 1, 100)

    def attempt(changes: Sequence[Change], _: bool) -> Outcome:
        (change,) = changes
        assert isinstance(change, Raise)
        if change.after == 7:
            raise EndedError
        return Outcome("n1" if change.after >= 8 else "")

    result = search([[part]], attempt, waits)
    assert (result.found, result.is_ended) == ([Found([part.at(8).change], "n1", 0, is_least=False)], True)
    assert "t1 on n1; at most this is needed" in list(lines(result, "t1"))[1]
