"""The REST API of a daemon as it ships, beside its websockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio
from daemon import RunningDaemon, application, asks, node, real_daemon
from restdaemon import Answer, request

from ykactor.client import ResourceManager, connect, keep_registered, operate
from ykactor.wire.si import messages as si

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {guaranteed: {vcore: 1}, max: {vcore: 3, memory: 8Gi}}
          - name: b
            parent: true
"""


VCORE = {"vcore": 1000}


async def ask(daemon: RunningDaemon, path: str, method: str = "GET", **headers: str) -> Answer:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return await trio.to_thread.run_sync(partial(request, urlsplit(daemon.http).port, method, path, shown))


async def read(daemon: RunningDaemon, path: str) -> Any:
    answer = await ask(daemon, f"/ws/v1/{path}")
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert answer.headers["access-control-allow-origin"] == "*"
    return answer.content


@asynccontextmanager
async def populated(tmp_path: Path, *arguments: str | Path) -> AsyncIterator[tuple[RunningDaemon, ResourceManager]]:
    """A node with 4 vcores, an application with three tasks of 1 vcore that run and two that do not fit into its queue."""
    (tmp_path / "queues.yaml").write_text(CONFIG)
    async with real_daemon("--config", tmp_path / "queues.yaml", *arguments, http="127.0.0.1:0") as daemon:
        async with connect(daemon.url, rm_id="rm") as rm:
            node = si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": 4000, "memory": 2**34})
            await rm.request(si.NodeRequest(nodes=[node]))
            application = si.AddApplicationRequest(
                application_id="app", queue_name="root.a", ugi=si.UserGroupInformation(user="alice", groups=["dev"])
            )
            await rm.request(si.ApplicationRequest(new=[application]))
            asks = [
                si.Allocation(allocation_key=f"t{number}", application_id="app", resource_per_alloc=VCORE, priority=number)
                for number in range(5)
            ]
            await rm.request(si.AllocationRequest(allocations=asks))
            running = 0
            async for response in rm:
                running += len(response.new) if isinstance(response, si.AllocationResponse) else 0
                if running == 3:
                    break
            yield daemon, rm


async def test_what_runs_and_what_waits(tmp_path: Path) -> None:
    """Queues, applications and nodes with the types and names of Apache YuniKorn; the values are those of the feed's snapshot."""
    async with populated(tmp_path) as (daemon, _):
        root = await read(daemon, "partition/default/queues")
        assert (root["queuename"], root["partition"], root["childNames"]) == ("root", "default", ["root.a", "root.b"])
        leaf = root["children"][0]
        assert leaf == (await read(daemon, "partition/default/queue/ROOT.A")) | {"parent": "root"}
        assert (leaf["allocatedResource"], leaf["pendingResource"]) == ({"vcore": 3000}, {"vcore": 2000})
        assert (leaf["absUsedCapacity"], leaf["headroom"]) == ({"vcore": 100}, {"memory": 2**33, "vcore": 0})
        assert (leaf["isLeaf"], leaf["runningApps"], leaf["currentPriority"]) == (True, 1, 1)

        (application,) = await read(daemon, "partition/default/queue/root.a/applications")
        alone = await read(daemon, "partition/default/application/app")
        assert application == alone
        assert (application["applicationID"], application["applicationState"], application["user"]) == ("app", "Running", "alice")
        assert [task["allocationKey"] for task in application["allocations"]] == ["t2", "t3", "t4"]
        assert [(ask["allocationKey"], ask["priority"]) for ask in application["requests"]] == [("t0", "0"), ("t1", "1")]
        first, second = await read(daemon, "partition/default/application/app/pending")
        assert (first["allocationKey"], second["allocationKey"], first["code"]) == ("t0", "t1", "QUOTA")
        assert "has 0 of 3 vcore in queue root.a" in first["reason"]

        assert await read(daemon, "partition/default/application/app/records") == []

        (node,) = await read(daemon, "partition/default/nodes")
        assert node == await read(daemon, "partition/default/node/n1")
        assert (node["allocated"], node["utilized"]) == ({"vcore": 3000}, {"vcore": 75})
        assert node["available"] == {"memory": 2**34, "vcore": 1000}
        (partition,) = await read(daemon, "partitions")
        assert (partition["totalNodes"], partition["totalContainers"]) == (1, 3)
        assert partition["applications"] == {"Running": 1, "total": 1}
        (user,) = await read(daemon, "partition/default/usage/users")
        assert user["queues"]["children"][0]["resourceUsage"] == {"vcore": 3000}


async def test_what_is_told_of_requests_is_true(tmp_path: Path) -> None:
    """REST says if an ask was tried, and if it was told that no node can take it (AP-147); no log is made up (RE-3)."""
    async with (
        real_daemon(http="127.0.0.1:0") as daemon,
        connect(daemon.url, rm_id="rm", wants_scheduling_states=True) as rm,
    ):
        await rm.request(node())
        await rm.request(application())
        await rm.request(asks("large", vcore=9000))
        while not isinstance(message := await anext(rm), si.SchedulingStateResponse):
            pass
        assert [(entry.allocation_key, entry.state) for entry in message.entries] == [("large", "FAILED")]
        async with operate(daemon.url) as operator:
            await operator.request(si.HoldApplication(application_id="app-1", held=True))
        await rm.request(asks("held", vcore=1))
        large, held = (await read(daemon, "partition/default/application/app-1"))["requests"]
        assert (large["allocationKey"], large["triggeredScaleUp"]) == ("large", True)
        assert not held.keys() & {"triggeredScaleUp", "schedulingAttempted", "allocationLog"}
        assert "allocationLog" not in large
        found = await read(daemon, "partition/default/application/app-1/pending")
        assert [ask["code"] for ask in found] == ["HELD", "HELD"]


async def test_who_the_resource_manager_is() -> None:
    """The client tells its version and build at each registration, also one that it renews by itself; clusters show them."""
    told: dict[str, Any] = {"version": "1.2", "build_info": {"buildVersion": "1.2", "buildDate": "2027-01-31"}}
    expected = {**told["build_info"], "rmId": "rm"}
    async with real_daemon(http="127.0.0.1:0") as daemon:
        async with connect(daemon.url, rm_id="rm", **told):
            assert (await read(daemon, "clusters"))[0]["rmBuildInformation"] == [expected]
        async with keep_registered(daemon.url, rm_id="rm", **told) as kept:
            assert isinstance(await anext(kept), si.RegisterResourceManagerResponse)
            assert (await read(daemon, "clusters"))[0]["rmBuildInformation"] == [expected]
