"""``/debug/fullstatedump`` and ``/debug/stack``, for readers that see everything."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ykactor.actors.pauses import drive
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.app import check_sees_all
from ykactor.surfaces.http.configuration import Configuration
from ykactor.surfaces.http.history import History
from ykactor.surfaces.http.published import Key, Published, Reading
from ykactor.surfaces.http.readings import applications, partitions, queues
from ykactor.surfaces.http.replies import JSON, TEXT, Page, Streamed, Write, allowed_methods, cors, pieces, reply, with_query
from ykactor.wire.rest.codec import encode


async def moved(target: str, request: Request) -> Response:
    """A redirection to where the route is now."""
    return RedirectResponse(with_query(target, request), 301)


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
        return await reply(request, Page(200, [*await drive(_of_tasks()), "".join(_of_threads()).encode()]), TEXT)

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
                for piece in pieces(body):
                    await write(piece)
                separator = b","
            await write(b"\n}\n")

    async def _members(self, request: Request) -> AsyncIterator[tuple[str, list[bytes]]]:
        """The members of the dump, each with its JSON in parts: it may have many megabytes."""
        yield "timestamp", [encode(self._published.gateway.now_ns())]
        yield "partitions", _list(await self._bodies(request, *self._api.summary(self._published.cluster_id)))
        live = await self._bodies(request, ("live", ""), partial(applications.live, status=""))
        completed = await self._bodies(request, ("completed",), applications.completed)
        rejected = await self._bodies(request, ("rejected",), applications.rejected)
        yield "applications", _list(filter(any, map(_items, [*live, *completed, *rejected])))
        yield "appHistory", [encode(self._history.found_applications())]
        yield "containerHistory", [encode(self._history.found_containers())]
        yield "nodes", await self._named(request, b"partitionName", b"nodesInfo", "nodes", partitions.all_nodes)
        yield "clusterInfo", [encode(self._api.found_clusters(request))]
        yield "queues", _list(await self._bodies(request, ("all queues",), queues.everything))
        yield "config", (await self._configuration.page("json")).parts
        yield "placementRules", await self._named(request, b"partition", b"rules", "rules", partitions.placement_rules)

    async def _bodies(self, request: Request, key: Key, read: Reading) -> list[list[bytes]]:
        """The page of each partition, in parts."""
        names = self._published.partitions(request)
        return [(await self._published.page(request, name, key, read)).parts for name in names]

    async def _named(self, request: Request, kind: bytes, member: bytes, key: str, read: Reading) -> list[bytes]:
        """A list with the name of each partition and what is read of it."""
        names = map(msgspec.json.encode, self._published.partitions(request))
        bodies = await self._bodies(request, (key,), read)
        return _list([b'{"%b":%b,"%b":' % (kind, name, member), *body, b"}"] for name, body in zip(names, bodies, strict=True))


def _list(items: Iterable[list[bytes]]) -> list[bytes]:
    """A list in parts, of encoded items in parts."""
    parts = [b"["]
    for item in items:
        parts += (*item, b",")
    return [*parts[:-1], b"]"] if len(parts) > 1 else [b"[]"]


def _items(parts: list[bytes]) -> list[bytes]:
    """The items of an encoded list: it without its brackets."""
    *rest, last = [parts[0].removeprefix(b"["), *parts[1:]]
    return [*rest, last.removesuffix(b"]\n")]


def _of_tasks() -> Steps[list[bytes]]:
    """A text for each task; there is one for each node and queue."""
    root = trio.lowlevel.current_root_task()
    tasks = [] if root is None else [root]
    for task in tasks:
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    found = []
    for task in tasks:
        frames = traceback.StackSummary.extract(task.iter_await_frames(), lookup_lines=False)
        found.append("".join((f"task {task.name}:\n", *traceback.format_list(frames), "\n")).encode())
        yield _TASK_ITEMS
    return found


#: A task takes as long as so many other items: 40 us.
_TASK_ITEMS = 20


def _of_threads() -> Iterator[str]:
    """A text for each thread."""
    for number, frame in sys._current_frames().items():
        yield f"thread {number}:\n"
        yield from traceback.format_stack(frame)
        yield "\n"
