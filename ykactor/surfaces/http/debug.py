"""``/debug/fullstatedump`` and ``/debug/stack``, for readers that see everything."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from functools import partial

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.configuration import Configuration
from ykactor.surfaces.http.history import History
from ykactor.surfaces.http.pages import Page
from ykactor.surfaces.http.published import Published, Reading, check_sees_all
from ykactor.surfaces.http.readings import applications, nodes, partitions, queues
from ykactor.surfaces.http.replies import JSON, Streamed, Write, allowed_methods, cors, reply
from ykactor.wire.rest.codec import PART_BYTES, encode


async def to_stack(_: Request) -> Response:
    """``/ws/v1/stack``."""
    return RedirectResponse("/debug/stack", 301)


async def to_dump(_: Request) -> Response:
    """``/ws/v1/fullstatedump``."""
    return RedirectResponse("/debug/fullstatedump", 301)


class Debug:
    """Answers requests for what is inside."""

    def __init__(self, published: Published, api: Api, history: History, configuration: Configuration) -> None:
        self._published = published
        self._api = api
        self._history = history
        self._configuration = configuration
        self._dumping = trio.Lock()

    async def stack(self, request: Request) -> Response:
        """``/debug/stack``: where each task and thread is."""
        check_sees_all(request)
        return await reply(request, Page(200, ["".join(_stacks()).encode()]))

    async def dump(self, request: Request) -> Response:
        """``/debug/fullstatedump``: the answers of many routes in one document, one dump at a time."""
        check_sees_all(request)
        return Streamed(partial(self._produce, request), {"Content-Type": JSON, **cors(allowed_methods(request))})

    async def _produce(self, request: Request, write: Write) -> None:
        async with self._dumping:
            await write(b"{")
            separator = b""
            async for name, body in self._members(request):
                await write(separator + f'\n  "{name}": '.encode())
                for start in range(0, len(body), PART_BYTES):
                    await write(body[start : start + PART_BYTES])
                separator = b","
            await write(b"\n}\n")

    async def _members(self, request: Request) -> AsyncIterator[tuple[str, bytes]]:
        """The members of the dump, each with its JSON."""
        yield "timestamp", encode(self._published.gateway.now_ns()).rstrip()
        summary = partial(partitions.summary, cluster_id=self._published.cluster_id)
        yield "partitions", await self._of_each(request, "summary", summary)
        live = await self._of_each(request, ("live", ""), partial(applications.live, status=""), is_list=True)
        completed = await self._of_each(request, "completed", applications.completed, is_list=True)
        rejected = await self._of_each(request, "rejected", applications.rejected, is_list=True)
        yield "applications", _list([live, completed, rejected])
        yield "appHistory", encode(self._history.found_applications()).rstrip()
        yield "containerHistory", encode(self._history.found_containers()).rstrip()
        yield "nodes", await self._named(request, "nodesInfo", "nodes", nodes.all_nodes)
        yield "clusterInfo", encode(self._api.found_clusters(request)).rstrip()
        yield "queues", await self._of_each(request, "all queues", queues.everything)
        yield "config", b"".join((await self._configuration.page("json")).parts)
        yield "placementRules", await self._named(request, "rules", "rules", partitions.placement_rules)

    async def _pages(self, request: Request, key: str | tuple[str, str], read: Reading) -> list[tuple[str, bytes]]:
        whole = (key,) if isinstance(key, str) else key
        names = self._published.partitions(request)
        pages = [(name, await self._published.page(request, name, whole, read)) for name in names]
        return [(name, b"".join(page.parts).rstrip()) for name, page in pages]

    async def _of_each(self, request: Request, key: str | tuple[str, str], read: Reading, *, is_list: bool = False) -> bytes:
        bodies = [body for _, body in await self._pages(request, key, read)]
        return _items(bodies) if is_list else b"[" + b",".join(bodies) + b"]"

    async def _named(self, request: Request, member: str, key: str, read: Reading) -> bytes:
        """A list with the name of each partition and what is read of it."""
        kind = "partitionName" if key == "nodes" else "partition"
        pages = await self._pages(request, key, read)
        return (
            b"["
            + b",".join(
                f'{{"{kind}":'.encode() + msgspec.json.encode(name) + f',"{member}":'.encode() + body + b"}"
                for name, body in pages
            )
            + b"]"
        )


def _items(lists: list[bytes]) -> bytes:
    """The items of some encoded lists, without brackets."""
    return b",".join(found for found in (body[1:-1] for body in lists) if found)


def _list(items: list[bytes]) -> bytes:
    return b"[" + b",".join(found for found in items if found) + b"]"


def _stacks() -> Iterator[str]:
    """A text for each task and each thread."""
    root = trio.lowlevel.current_root_task()
    waiting = [] if root is None else [root]
    while waiting:
        task = waiting.pop()
        yield f"task {task.name}:\n"
        yield from traceback.format_list(traceback.StackSummary.extract(task.iter_await_frames(), lookup_lines=False))
        yield "\n"
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    for number, frame in sys._current_frames().items():
        yield f"thread {number}:\n"
        yield from traceback.format_stack(frame)
        yield "\n"
