"""Right requests of many large entries: users with a thousand groups, selectors of some KiB, queues of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import trio
from target import Target

from ykactor.client import ResourceManager, connect
from ykactor.wire.si import messages as si

#: What other tools take longest to match, when they try all ways.
_EXPRESSION = "^team-.*-.*-.*prod$"
_GROUPS = [f"team-a-b-{number}-dev" for number in range(1000)]


class Shape(NamedTuple):
    """A configuration of root, and requests of so many entries.

    Attributes:
        count: of the entries that a resource manager might send at once.
    """

    keys: dict[str, Any]
    rule: dict[str, Any]
    requests: Callable[[int], Iterator[si.Request]]
    count: int


def _applications(count: int, groups: list[str], queue: str = "root.default") -> si.ApplicationRequest:
    return si.ApplicationRequest(
        new=[
            si.AddApplicationRequest(
                application_id=f"app{number}",
                queue_name=queue.format(number),
                ugi=si.UserGroupInformation(user=f"user{number}", groups=groups),
            )
            for number in range(count)
        ]
    )


def _asks(count: int, of: str, **tags: str) -> si.AllocationRequest:
    return si.AllocationRequest(
        allocations=[
            si.Allocation(
                allocation_key=f"k{number}",
                application_id=of.format(number),
                resource_per_alloc={"vcore": 1},
                allocation_tags={name.replace("__", "/"): text.replace("#", str(number)) for name, text in tags.items()},
            )
            for number in range(count)
        ]
    )


def _with_groups(count: int) -> Iterator[si.Request]:
    yield _applications(count, _GROUPS)
    yield _asks(count, "app{}")


def _with_selectors(count: int) -> Iterator[si.Request]:
    attributes = {f"k{number}": "v" for number in range(0, 80, 2)}
    nodes = [
        si.NodeInfo(node_id=f"m{number}", action="CREATE", attributes=attributes, schedulable_resource={"vcore": 10})
        for number in range(count)
    ]
    yield si.NodeRequest(nodes=nodes)
    yield _applications(1, [])
    requirements = [f"k{number} notin (wanted-#,other-value)" for number in range(80)]
    yield _asks(count, "app0", **{"ykactor.io__node-selector": ",".join([*requirements, "spot"])})


def _with_queues(count: int) -> Iterator[si.Request]:
    yield _applications(count, [], "root.new{}")
    yield _asks(count, "app{}")


_LIMITS = [{"limit": "", "groups": [f"team-a-b-{number}-prod"], "maxapplications": 5} for number in range(300)]
_PROVIDED = {"name": "provided", "create": True}
SHAPES = {
    "groups in a filter": Shape({}, _PROVIDED | {"filter": {"type": "deny", "groups": [_EXPRESSION]}}, _with_groups, 500),
    "groups beside limits": Shape({"limits": _LIMITS}, _PROVIDED, _with_groups, 500),
    "selectors": Shape({}, _PROVIDED, _with_selectors, 3000),
    "queues": Shape({}, _PROVIDED, _with_queues, 10_000),
}


async def large_entries(abused: Target, part: float) -> str:
    """Send this part of each shape to a daemon, one after the other; ``Target.check`` says how long one has held its loop."""
    figures = []
    async with connect(abused.daemon.url, rm_id="rm-1", resume_from="now") as rm, trio.open_nursery() as nursery:
        nursery.start_soon(_read, rm)
        for name, shape in SHAPES.items():
            root = {"name": "root", "submitacl": "*", "queues": [{"name": "default"}]} | shape.keys
            partition = {"name": "default", "placementrules": [shape.rule], "queues": [root]}
            await rm.request(si.UpdateConfigurationRequest(config=json.dumps({"partitions": [partition]})))
            for request in shape.requests(max(1, int(shape.count * part))):
                await rm.request(request)
            await rm.request(si.ApplicationRequest(remove=_removals(int(shape.count * part))))
            figures.append(f"{name}: longest hold up to here {1e3 * abused.check():.0f} ms")
        nursery.cancel_scope.cancel()
    return "; ".join(figures)


def _removals(count: int) -> list[si.RemoveApplicationRequest]:
    return [si.RemoveApplicationRequest(application_id=f"app{number}") for number in range(max(1, count))]


async def _read(rm: ResourceManager) -> None:
    async for _ in rm:
        pass
