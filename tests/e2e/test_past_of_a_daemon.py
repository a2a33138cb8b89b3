"""The commands that print the past, against a daemon with real sockets."""

import csv
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from daemon import application, asks, next_allocated, node
from msgspec import structs
from test_limited_followers import limit_sessions
from test_slow_configurations import daemon_here, update
from world import queue, tree

from ykactor.client import Refused, connect
from ykactor.core.accounting.accounts import AccountKey
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.daemon.daemon import Daemon
from ykactor.wire.si import messages as si

QUEUES = tree(queue("team-a", queue("x")), queue("secret"))
HOUR_S = 3600
#: Of a day of a large cluster: more than 64 bits have.
BYTES = 2**51


@asynccontextmanager
async def daemon_with_a_past() -> AsyncIterator[str]:
    """The URL of one where ``app-1`` was preempted for ``secret-1`` and then failed, and ``bad-1`` was rejected."""
    async with daemon_here() as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(update(QUEUES))
        await rm.request(node(vcore=4))
        for name, leaf in (("app-1", "root.team-a.x"), ("secret-1", "root.secret")):
            await rm.request(application(name, leaf))
        with pytest.raises(Refused):
            await rm.request(application("bad-1", "root.none"))
        await rm.request(asks("t1", of="app-1", vcore=3))
        await next_allocated(rm)
        (ask,) = asks("d1", of="secret-1", vcore=2).allocations
        pinned = structs.replace(ask, allocation_tags={"yunikorn.apache.org/requiredNode": "n1"})
        await rm.request(si.AllocationRequest(allocations=[pinned]))
        ends = si.AllocationRelease(application_id="app-1", allocation_key="t1", termination_type="PREEMPTED_BY_SCHEDULER")
        await rm.request(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[ends])))
        await next_allocated(rm)
        await rm.request(si.TerminateApplication(application_id="app-1"))
        count(daemon)
        yield url


def count(daemon: Daemon) -> None:
    """Use of two days that nobody has to wait for."""
    accounts = daemon.registry("default").books.accounts
    of_team = AccountKey("root.team-a.x", "alice", "dev", "app-1")
    accounts.use(of_team, {"vcore": 1000, "memory": BYTES}, 23 * HOUR_S, 26 * HOUR_S, is_lost=False)
    accounts.use(AccountKey("root.secret", "bob", "ops", "secret-1"), {"gpu": 2}, 23 * HOUR_S, 24 * HOUR_S, is_lost=True)


async def run(url: str, *arguments: str) -> Result:
    """A command in this process, which serves the daemon meanwhile."""
    invoke = CliRunner().invoke
    return await trio.to_thread.run_sync(lambda: invoke(main, [*arguments, "--url", url], prog_name="ykactor"))


async def document(url: str, *arguments: str) -> Any:
    """The JSON that a command prints."""
    result = await run(url, *arguments, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


async def test_what_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preemptions, ended applications and accounts; then what a reader sees who is limited to one team (SE-83, SE-84, SE-88)."""
    async with daemon_with_a_past() as url:
        await check_preemptions(url)
        await check_ended_applications(url)
        await check_usage(url)
        limit_sessions(monkeypatch)
        assert await document(url, "preemptions") == []
        assert [app["applicationID"] for app in await document(url, "apps", "--since", "1h")] == ["app-1"]
        assert {row["user"] for row in await document(url, "usage")} == {"alice"}
        refused = await run(url, "usage", "--partition", "gpu")
        assert refused.stderr.startswith("Error: NOT_PERMITTED: partitions[0]: found a name that does not exist or that")


async def check_preemptions(url: str) -> None:
    """Check the list of preemptions, with the ask, the victims and the outcome, and its options."""
    (row,) = await document(url, "preemptions", "--since", "1h")
    assert (row["allocationKey"], row["nodeID"], row["kind"], row["outcome"]) == ("d1", "n1", "required_node", "placed")
    assert row["victims"] == [{"queueName": "root.team-a.x", "applicationID": "app-1", "allocationKey": "t1"}]
    header, line = (await run(url, "preemptions")).stdout.splitlines()
    assert header.split() == ["TIME", "KIND", "ASK", "APPLICATION", "QUEUE", "NODE", "VICTIMS", "RELEASED", "OUTCOME", "WHY"]
    assert line.split()[1:9] == ["required_node", "d1", "secret-1", "root.secret", "n1", "app-1/t1", "1/1", "placed"]
    for chosen in (("--queue", "root.team-a"), ("--queue", "root.secret"), ("--app", "app-1"), ("--app", "secret-1")):
        assert await document(url, "preemptions", *chosen) == [row]
    for chosen in (("--queue", "root.team"), ("--app", "bad-1"), ("--since", "2040-01-01"), ("--partition", "gpu")):
        assert await document(url, "preemptions", *chosen) == []


async def check_ended_applications(url: str) -> None:
    """Check the list of ended applications: times, use, the reason of a failure or rejection, and columns of their own."""
    failed, rejected = await document(url, "apps", "--state", "Failed", "--state", "rejected")
    assert (failed["applicationID"], failed["user"], failed["reason"]) == ("app-1", "alice", "Terminated")
    assert failed["submissionTime"] < failed["startTime"] < failed["finishedTime"]
    assert (failed["waitedSeconds"], failed["ranSeconds"]) == (0, 0)
    assert (rejected["applicationID"], "startTime" in rejected, "root.none" in rejected["reason"]) == ("bad-1", False, True)
    assert len(await document(url, "apps")) == 3
    header, *lines = (await run(url, "apps", "--since", "1h")).stdout.splitlines()
    assert header.split()[4:] == ["SUBMITTED", "WAITED", "RAN", "ENDED", "USED", "LOST", "REASON"]
    assert {line.split()[0] for line in lines} == {"app-1", "bad-1"}
    assert (await run(url, "apps", "--since", "2040-01-01", "-o", "name")).stdout == ""
    told = dict(line.split(maxsplit=1) for line in (await run(url, "app", "app-1")).stdout.splitlines())
    assert (told["State"], told["User"], told["Reason"], "Ended" in told) == ("Failed", "alice", "Terminated", True)
    story = (await run(url, "story", "app-1")).stdout
    assert ": Terminated" in next(line for line in story.splitlines() if line.startswith("now: application app-1 is Failed in"))


async def check_usage(url: str) -> None:
    """AP-141: by the same columns and days as from a journal, exact also beyond 64 bits; a total in the table only."""
    of_days = await document(url, "usage", "--by", "day,application", "--until", "1970-01-02")
    memory = {"memory": 2 * HOUR_S * BYTES, "vcore": 2 * HOUR_S * 1000}
    assert memory["memory"] > 2**63
    lost = {"gpu": 2 * HOUR_S}
    assert [row for row in of_days if row["day"] == "1970-01-02"] == [
        {"day": "1970-01-02", "application": "app-1", "allocated": memory, "waited": {}, "lost": {}}
    ]
    assert [row["lost"] for row in of_days if row["application"] == "secret-1"] == [lost]
    text = (await run(url, "usage", "--by", "group", "--until", "1970-01-01", "-o", "csv")).stdout
    assert ["ops", "gpu", str(2 * HOUR_S), "0", str(2 * HOUR_S)] in list(csv.reader(text.splitlines()))
    assert "total" not in text
    assert "total" in (await run(url, "usage", "--until", "1970-01-02")).stdout
    assert await document(url, "usage", "--since", "2040-01-01") == []
    empty = await run(url, "usage", "--since", "2040-01-01")
    assert empty.stderr == "there are no accounts that match and that the daemon shows you\n"
    unknown = await run(url, "usage", "--partition", "gpu")
    assert (unknown.exit_code, unknown.stderr) == (
        1,
        "Error: UNKNOWN_NAME: partitions[0]: found 'gpu', expected one of default\n",
    )
