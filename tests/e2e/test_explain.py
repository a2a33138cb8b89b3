"""``ykactor explain``, its message and its route: why an ask waits (AP-153)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from daemon import real_daemon, run_command
from daemonhere import daemon_here
from msgspec import UNSET
from restdaemon import application, asks, rest_daemon

from ykactor.client import Refused, RequestRefused, connect, explain, follow
from ykactor.core.inspection.explanation import AheadStatus, AskExplanation, LevelStatus
from ykactor.surfaces.cli import exit_codes
from ykactor.surfaces.cli.events import event_line
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.views.explain import explained
from ykactor.wire.si import messages as si

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {max: {vcore: 3}}
            limits: [{limit: bob, users: [bob], maxresources: {vcore: 2}}]
          - {name: b, properties: {priority.offset: "10"}}
"""


def cores(count: int) -> dict[str, int | str]:
    return {"vcore": 1000 * count}


@asynccontextmanager
async def crowded() -> AsyncIterator[str]:
    """Two of three tasks of bob run; one of another application comes behind, and a queue with a higher priority before."""
    async with daemon_here(QUEUES) as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource=cores(4))]))
        bob = si.UserGroupInformation("bob")
        new = [si.AddApplicationRequest(f"app-{name}", f"root.{name[0]}", ugi=bob) for name in ("a1", "a2", "b")]
        await rm.request(si.ApplicationRequest(new=new))
        for owner, names in (("app-a1", "t1 t2 t3"), ("app-a2", "u1")):
            tasks = [si.Allocation(name, owner, resource_per_alloc=cores(1)) for name in names.split()]
            await rm.request(si.AllocationRequest(allocations=tasks))
        await rm.request(si.AllocationRequest(allocations=[si.Allocation("b1", "app-b", resource_per_alloc=cores(3))]))
        yield url


async def test_levels_nodes_and_what_comes_before() -> None:
    """All levels with what is left, the one that binds, and the queue and the application that come before."""
    async with crowded() as url:
        found = (await explain(url, "app-a2")).ask
        assert isinstance(found, AskExplanation)
        assert (found.allocation_key, found.code, found.position, found.waiting) == ("u1", "LIMIT", 2, 2)
        rows = [(level.whose, level.queue_name, level.used, level.max, level.wants, level.code) for level in found.levels[:3]]
        assert rows == [
            ("", "root", 2000, 4000, 1000, ""),
            ("", "root.a", 2000, 3000, 1000, ""),
            ("user bob", "root.a", 2000, 2000, 1000, "LIMIT"),
        ]
        assert (found.binding, found.levels[2].reason) == (2, found.reason)
        assert found.levels[3].whose == "nodes"
        assert sum((found.nodes or {}).values()) == 1
        assert isinstance(found.levels[2].since, int)
        assert found.levels[2].since <= found.time  # t3 was found short of the same limit before
        assert (found.levels[0].since, sum(found.waited.values())) == (UNSET, found.time - found.creation_time)
        before = [(status.queue_name, status.application_id, status.by) for status in found.ahead]
        assert before[0][0::2] == ("root.b", "priority")
        assert (before[1], found.ahead_count) == (("root.a", "app-a1", before[1][2]), 2)


@pytest.mark.parametrize(
    ("application", "key", "status"),
    [("app-a1", "t1", "task t1 runs on n1"), ("app-b", "", ""), ("app-a1", "t3", "")],
)
async def test_what_does_not_wait(application: str, key: str, status: str) -> None:
    """A task that runs has a status, one that waits an explanation."""
    async with crowded() as url:
        answer = await explain(url, application, key)
        assert (answer.status, answer.ask is None) == (status, bool(status))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"name": "nobody"}, "there is no application, task, queue or node nobody"),
        ({"name": "app-a"}, "there is no application, task, queue or node app-a; the nearest names are app-a1, app-a2, app-b"),
        ({"name": "app-a2", "kind": "node"}, "there is no node app-a2"),
        ({"name": "root.A", "kind": "application"}, "there is no application root.A"),
        ({"name": "app-a1", "allocation_key": "t9"}, "application app-a1 has no task t9 that waits or runs"),
        ({"name": "app-a1", "partition": "other"}, "found other, expected one of default"),
    ],
)
async def test_unknown_names(wanted: dict[str, Any], message: str) -> None:
    """A name that is not known is refused with what was found."""
    async with crowded() as url:
        with pytest.raises(RequestRefused, match=message):
            await explain(url, **wanted)


async def test_an_application_of_the_past() -> None:
    """The status says that one was rejected, has ended, or has nothing pending."""
    bob = si.UserGroupInformation("bob")
    async with daemon_here(QUEUES) as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(si.ApplicationRequest(new=[si.AddApplicationRequest("quiet", "root.a", ugi=bob)]))
        with pytest.raises(Refused):
            await rm.request(si.ApplicationRequest(new=[si.AddApplicationRequest("lost", "root.nowhere", ugi=bob)]))
        assert (await explain(url, "quiet")).status == "nothing of application quiet is pending: it is New"
        assert "application lost was rejected: " in (await explain(url, "lost")).status
        gone = si.RemoveApplicationRequest("quiet", outcome="Failed", message="the driver ended")
        await rm.request(si.ApplicationRequest(remove=[gone]))
        assert (await explain(url, "quiet")).status == "application quiet has ended: it is Failed: the driver ended"


async def test_the_route_and_the_command_show_the_same() -> None:
    """``P/application/ID/explanation/ASK`` is 404 for what does not wait; the command prints the same as JSON."""
    async with crowded() as url:
        printed, _ = await run_command("explain", "app-a2/u1", "--url", url, "-o", "json")
        assert json.loads(printed)["levels"][2]["code"] == "LIMIT"
        table, _ = await run_command("explain", "app-a2/u1", "--url", url)
        shown = re.sub(r" +", " ", table)
        assert re.search(r"^user bob in root.a vcore 2 2 1 1 \d+s LIMIT <- binding$", shown, re.MULTILINE)
        assert re.fullmatch(r"waited [\d.]+s: LIMIT [\d.]+s(, NEXT [\d.]+s)?", table.splitlines()[-1])
        output, errors = await run_command("explain", "nobody", "--url", url, expect=exit_codes.FAILED)
        assert (output, "there is no application, task, queue or node nobody" in errors) == ("", True)


async def test_the_route() -> None:
    """An ask that waits, and 404 for any other."""
    of = "/ws/v1/partition/default/application"
    async with rest_daemon(QUEUES) as rest:
        await rest.submit(application("app-1", "root.a"), asks("app-1", 1))
        (found,) = await rest.read("partition/default/application/app-1/pending")
        key = found["allocationKey"]
        explanation = await rest.read(f"partition/default/application/app-1/explanation/{key}")
        assert (explanation["allocationKey"], explanation["code"]) == (key, found["code"])
        for path in (f"{of}/app-1/explanation/nothing", f"{of}/nobody/explanation/{key}"):
            assert (await rest.ask(path)).status == 404


async def test_a_queue() -> None:
    """Pending asks of a queue and below by code, the oldest ask, and who uses what is short; a path in any case."""
    async with crowded() as url:
        found = (await explain(url, "root.A")).queue
        assert found is not None
        assert (found.queue_name, found.status.max, found.pending) == ("root.a", {"vcore": 3000}, {"LIMIT": 2})
        assert found.oldest
        assert (found.oldest.application_id, found.oldest.allocation_key, found.oldest.code) == ("app-a1", "t3", "LIMIT")
        assert found.short
        assert (found.short.whose, found.short.resource, found.short.used, found.short.max) == ("user bob", "vcore", 2000, 2000)
        assert ([(share.user, share.amount) for share in found.users], found.other_users) == ([("bob", 2000)], 0)
        printed, _ = await run_command("explain", "root.a", "--url", url)
        assert printed.splitlines()[-2:] == [
            "short: vcore in user bob in root.a, 2 of 2 in use, 2 asks kept back",
            "  used by user bob 2",
        ]


async def test_a_node() -> None:
    """The pending asks by what keeps the node from taking them, and what else keeps those back that fit."""
    async with crowded() as url:
        found = (await explain(url, "n1")).node
        assert found is not None
        assert (found.pending, found.kept_back) == ({"has room": 2, "too little vcore free": 1}, {"LIMIT": 2})
        assert [(each.queue_name, each.application_id, each.asks, each.code) for each in found.fitting] == [
            ("root.a", "app-a1", 2, "LIMIT")
        ]
        printed, _ = await run_command("explain", "n1", "--url", url)
        assert printed.splitlines()[:2] == ["node n1: Schedulable, 2 tasks", "free vcore=2 of vcore=4"]
        assert "those with room wait for: 2 LIMIT" in printed


async def test_a_task_without_its_application() -> None:
    """The key of a task that no other application has is enough; one that two have is refused with both."""
    async with crowded() as url:
        found = (await explain(url, "u1")).ask
        assert (found and found.application_id, (await explain(url, "t1")).status) == ("app-a2", "task t1 runs on n1")
    bob = si.UserGroupInformation("bob")
    async with daemon_here(QUEUES) as (_, url), connect(url, rm_id="rm-1") as rm:
        new = [si.AddApplicationRequest(name, "root.a", ugi=bob) for name in ("one", "two")]
        await rm.request(si.ApplicationRequest(new=new))
        same = [si.Allocation("t1", name, resource_per_alloc=cores(1)) for name in ("one", "two")]
        await rm.request(si.AllocationRequest(allocations=same))
        with pytest.raises(RequestRefused, match="t1 may be ask one/t1 in partition default; ask two/t1 in partition default"):
            await explain(url, "t1")


async def test_an_application_and_a_node_with_one_name() -> None:
    """Both are named, and the kind decides; names are found in all partitions."""
    two = f"{QUEUES}  - {{name: gpu, queues: [{{name: root, submitacl: '*', queues: [{{name: c}}]}}]}}\n"
    async with daemon_here(two) as (_, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(si.NodeRequest(nodes=[si.NodeInfo("twin", "CREATE", schedulable_resource=cores(4))]))
        bob = si.UserGroupInformation("bob")
        new = si.AddApplicationRequest("twin", "root.c", partition_name="gpu", ugi=bob)
        await rm.request(si.ApplicationRequest(new=[new]))
        with pytest.raises(RequestRefused, match="node twin in partition default; application twin in partition gpu"):
            await explain(url, "twin")
        assert (await explain(url, "twin", kind="application")).status == "nothing of application twin is pending: it is New"
        assert (await explain(url, "twin", partition="default")).node
        await run_command("explain", "twin", "--kind", "queue", "--url", url, expect=exit_codes.FAILED)
        await run_command("explain", "twin/a", "--kind", "node", "--url", url, expect=exit_codes.USAGE)
        await run_command("explain", "twin", "--kind", "node", "--changes", "--url", url, expect=exit_codes.USAGE)


async def test_explanations_of_all_kinds() -> None:
    """``/v1/explain/KIND/ID`` answers as the feed does; 404 for what is not there, 400 for another kind."""
    async with rest_daemon(QUEUES) as rest:
        await rest.submit(application("app-1", "root.a"), asks("app-1", 1))
        (found,) = await rest.read("partition/default/application/app-1/pending")
        key = found["allocationKey"]
        for path in (f"application/app-1?ask={key}", f"ask/{key}", "application/app-1"):
            answer = await rest.ask(f"/v1/explain/{path}")
            assert (answer.status, json.loads(answer.body)["ask"]["allocationKey"]) == (200, key)
        queue = json.loads((await rest.ask("/v1/explain/queue/root.a?partition=DEFAULT")).body)
        assert queue["queue"]["pending"] == {found["code"]: 1}
        for path in ("node/n9", "queue/root.z", "ask/t?partition=other", "application/app-1?ask=t"):
            assert (await rest.ask(f"/v1/explain/{path}")).status == 404, path
        assert (await rest.ask("/v1/explain/user/bob")).status == 400


async def test_an_ambiguous_name_is_refused_with_what_it_may_mean() -> None:
    """409 with the candidates, in one partition and in several; the partition decides."""
    gpu = "  - {name: gpu, queues: [{name: root, submitacl: '*', queues: [{name: c}]}]}\n"
    bob = si.UserGroupInformation("bob")
    new = [si.AddApplicationRequest(name, "root.a", ugi=bob) for name in ("one", "two")]
    same = [si.Allocation("t1", each.application_id, resource_per_alloc=cores(1)) for each in new]
    other = si.AddApplicationRequest("one", "root.c", partition_name="gpu", ugi=bob)
    async with rest_daemon(QUEUES + gpu) as rest:
        await rest.submit(si.ApplicationRequest(new=[*new, other]), si.AllocationRequest(allocations=same))
        for path, candidates in (
            ("ask/t1", "t1 may be ask one/t1 in partition default; ask two/t1 in partition default"),
            ("application/one", "one may be application one in partition default; application one in partition gpu"),
        ):
            for query in ("", "?changes=true"):
                answer = await rest.ask(f"/v1/explain/{path}{query}")
                assert (answer.status, candidates in answer.body.decode()) == (409, True), answer.body
        assert (await rest.ask("/v1/explain/application/one?partition=gpu")).status == 200


def test_what_people_read() -> None:
    """Numbers that are not shown, places without numbers, and what comes before."""
    levels = [
        LevelStatus(queue_name="root", resource="vcore", wants=1000, code="QUOTA", reason="r", since=3 * 10**9),
        LevelStatus(whose="user bob", queue_name="root.a", used=1, max=1, wants=1, code="MAX_APPLICATIONS", reason="r"),
        LevelStatus(whose="nodes"),
    ]
    ahead = [AheadStatus(queue_name="root.b", by="share", value="0.1", own="0.2")]
    found = AskExplanation(
        partition_name="default",
        application_id="app",
        allocation_key="t",
        user="",
        queue_name="root.a",
        code="QUOTA",
        reason="r",
        time=41 * 10**9,
        creation_time=0,
        waited={"NEXT": 3 * 10**9, "QUOTA": 38 * 10**9, "ORDER": 0},
        priority=0,
        resource={"vcore": 1000},
        position=3,
        waiting=9,
        levels=levels,
        binding=0,
        ahead=ahead,
        ahead_count=4,
    )
    lines = list(explained(si.Explanation(ask=found)).lines(False))
    assert lines[0] == "t of application app waits in root.a since 1970-01-01T00:00:00.000Z, number 3 of 9 there"
    assert [line.split() for line in lines[5:8]] == [
        ["root", "vcore", "not", "shown", "not", "shown", "1", "-", "38s", "QUOTA", "<-", "binding"],
        ["user", "bob", "in", "root.a", "applications", "1", "1", "1", "1", "-", "MAX_APPLICATIONS"],
        ["nodes", "-", "-", "-", "-", "-", "-", "-"],
    ]
    assert lines[-2:] == ["ahead: queue root.b (share 0.1 before 0.2) and 3 more", "waited 41s: QUOTA 38s, NEXT 3.00s"]


def test_the_help() -> None:
    """The command is listed with the other readings."""
    assert "explain" in CliRunner().invoke(main, ["--help"]).output


async def test_what_an_ask_waits_for_survives_kill_9(tmp_path: Path) -> None:
    """AP-154: since when it is short and what it has waited for are as before, and the event of its placement has it all."""
    config = tmp_path / "queues.yaml"
    config.write_text(QUEUES)
    arguments = ("--config", config, "--state-dir", tmp_path / "state")
    async with real_daemon(*arguments) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource=cores(4))]))
            bob = si.UserGroupInformation("bob")
            await rm.request(si.ApplicationRequest(new=[si.AddApplicationRequest("app", "root.a", ugi=bob)]))
            tasks = [si.Allocation(f"t{number}", "app", resource_per_alloc=cores(1)) for number in range(3)]
            await rm.request(si.AllocationRequest(allocations=tasks))
        before = await the_ask(daemon.url)
        daemon.process.kill()
    async with real_daemon(*arguments) as daemon:
        after = await the_ask(daemon.url)
        assert [level.since for level in after.levels] == [level.since for level in before.levels]
        assert (after.waited.get("NEXT"), after.creation_time) == (before.waited.get("NEXT"), before.creation_time)
        assert after.waited["LIMIT"] - before.waited["LIMIT"] == after.time - before.time
        async with follow(daemon.url, from_="snapshot") as events:
            config.write_text(QUEUES.replace("maxresources: {vcore: 2}", "maxresources: {vcore: 3}"))
            async for placed in events:
                if isinstance(placed, si.EventRecord) and placed.waited:
                    break
        assert isinstance(placed, si.EventRecord)
        assert (placed.reference_id, placed.event_change_detail) == ("t2", "APP_ALLOC")
        assert placed.timestamp_nano - sum((placed.waited or {}).values()) == before.time - sum(before.waited.values())
        assert re.search(r"t2 .* waited [\d.ms]+: LIMIT ", event_line(placed))


async def the_ask(url: str) -> AskExplanation:
    """The explanation of the only ask."""
    found = (await explain(url, "app")).ask
    assert found is not None
    return found
