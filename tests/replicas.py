"""``ykactor replica`` beside a daemon, and comparisons of what both show."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio
from daemon import RunningDaemon, running_command
from restdaemon import Answer, request

#: What is of the moment in which it is read, or of the process that answers.
_OF_THE_MOMENT = re.compile(rb'"(timestamp|runningTime|snapshotTime)":\d+')


@asynccontextmanager
async def running_replica(url: str, *arguments: str | Path, ws: str = "127.0.0.1:0") -> AsyncIterator[RunningDaemon]:
    """A replica of the daemon at a URL that serves readers, until the block ends."""
    options = ("--url", url, "--http", "127.0.0.1:0", "--ws", ws, *arguments)
    async with running_command("replica", *options) as process, trio.open_nursery() as nursery:
        replica = RunningDaemon(process)
        nursery.start_soon(replica.read_log)
        addresses = (await replica.wait_logged("replica_started"))["addresses"].split(", ")
        replica.http = next(each for each in addresses if each.startswith("http"))
        replica.url = next(each for each in addresses if not each.startswith("http"))
        yield replica
        nursery.cancel_scope.cancel()


async def ask(served: RunningDaemon, path: str, method: str = "GET", **headers: str) -> Answer:
    """The answer of a daemon or a replica."""
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return await trio.to_thread.run_sync(partial(request, urlsplit(served.http).port, method, path, shown))


async def shown(served: RunningDaemon, path: str) -> tuple[int, bytes]:
    """The status and the body of an answer, without what is of the moment."""
    answer = await ask(served, path)
    return answer.status, _OF_THE_MOMENT.sub(rb'"\1":0', answer.body)


async def paths_of(daemon: RunningDaemon) -> list[str]:
    """The paths of all answers about what the daemon has at present."""
    found = ["clusters", "partitions", "config", "scheduler/node-utilizations", "events/batch", "events/batch?start=3&count=5"]
    for partition in await _read(daemon, "partitions"):
        base = f"partition/{partition['name']}"
        found += [f"{base}/{each}" for each in ("queues", "nodes", "placementrules", "usage/users", "usage/groups")]
        found += [f"{base}/applications/{state}" for state in ("active", "completed", "rejected")]
        for queue in _queues(await _read(daemon, f"{base}/queues")):
            found += [f"{base}/queue/{queue}", f"{base}/queue/{queue}?subtree", f"{base}/queue/{queue}/applications"]
        for application in await _read(daemon, f"{base}/applications/active"):
            name = application["applicationID"]
            found += [f"{base}/application/{name}", f"{base}/application/{name}/pending", f"{base}/application/{name}/records"]
        found += [f"{base}/node/{node['nodeID']}" for node in await _read(daemon, f"{base}/nodes")]
    return [f"/ws/v1/{each}" for each in found]


async def until_equal(daemon: RunningDaemon, replica: RunningDaemon) -> int:
    """Wait until a replica shows what its daemon shows, in each answer; returns how many these are."""
    paths = await paths_of(daemon)
    for path in paths:
        while (expected := await shown(daemon, path)) != (found := await shown(replica, path)):
            replica.differs = (path, expected, found)  # type: ignore[attr-defined]
            await trio.sleep(0.05)
    return len(paths)


async def _read(served: RunningDaemon, path: str) -> Any:
    answer = await ask(served, f"/ws/v1/{path}")
    assert answer.status == 200, answer.body
    return answer.content


def _queues(queue: dict[str, Any]) -> list[str]:
    return [queue["queuename"], *(name for child in queue.get("children") or () for name in _queues(child))]
