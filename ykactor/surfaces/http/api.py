"""The routes of the REST API: what each answers, and why it may be refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.commands import Read
from ykactor.actors.gateway import Gateway
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.values.ids import ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.core.values.names import is_group_name, is_user_name
from ykactor.core.values.parts import Pausing
from ykactor.core.values.quantities import is_queue_name
from ykactor.surfaces.http.pages import Page, Pages
from ykactor.surfaces.http.readings import applications, nodes, partitions, queues, users
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.replies import RefusedError, reply
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import as_list, encode

_ROOT = QueuePath("root")
#: A partition that waits for the disk answers nothing.
ANSWER_S = 30
#: What a reading returns: one payload, the encoded items of a list, or None if there is no such object.
Reading = Callable[[Look], Any]


class Api:
    """Answers requests from the state of the daemon.

    Args:
        gateway: the daemon.
        started_ns: when it was started, Unix time.
    """

    def __init__(self, gateway: Gateway, started_ns: int) -> None:
        self._gateway = gateway
        self._started_ns = started_ns
        self._pages = Pages()

    # ---- cluster and partitions

    async def clusters(self, request: Request) -> Response:
        """``/ws/v1/clusters``."""
        current = self._gateway.outboxes.current
        information = [] if current is None else [{"rmId": current.rm_id}]
        found = [
            types.Cluster(
                start_time=self._started_ns,
                rm_build_information=information,
                partition=name,
                cluster_name="ykactor",
            )
            for name in self._gateway.partitions
        ]
        return await reply(request, Page(200, encode(found)))

    async def partitions(self, request: Request) -> Response:
        """``/ws/v1/partitions``."""
        return await self._of_each(request, "summary", partial(partitions.summary, cluster_id=self._cluster_id()))

    async def node_utilizations(self, request: Request) -> Response:
        """``/ws/v1/scheduler/node-utilizations``."""
        return await self._of_each(request, "utilizations", partial(nodes.utilizations, cluster_id=self._cluster_id()))

    async def placement_rules(self, request: Request) -> Response:
        """``P/placementrules``."""
        return await self._answer(request, self._partition(request), ("rules",), partitions.placement_rules)

    # ---- queues

    async def all_queues(self, request: Request) -> Response:
        """``P/queues``."""
        return await self._answer(request, self._partition(request), ("tree", _ROOT), partial(queues.tree, path=_ROOT))

    async def queue(self, request: Request) -> Response:
        """``P/queue/{queue}``."""
        partition, path = self._partition(request), _queue_path(request)
        is_tree = "subtree" in request.query_params
        kind, read = ("tree", queues.tree) if is_tree else ("queue", queues.one)
        return await self._answer(request, partition, (kind, path), partial(_if_queue, path, read), missing="Queue not found")

    # ---- applications

    async def queue_applications(self, request: Request) -> Response:
        """``P/queue/{queue}/applications`` and ``.../applications/{state}``."""
        path = _queue_path(request)
        partition = self._partition(request)
        state = request.path_params.get("state", "active").lower()
        if state != "active":
            raise RefusedError(400, f"Only following application states are allowed: active, found {state!r}")
        read = partial(applications.live, queue=path, status=_status(request))
        key = ("live", path, _status(request))
        return await self._answer(request, partition, key, partial(_if_leaf, path, read), missing="Queue not found")

    async def applications(self, request: Request) -> Response:
        """``P/applications/{state}``."""
        partition, state = self._partition(request), request.path_params["state"].lower()
        match state:
            case "active":
                read: Reading = partial(applications.live, status=_status(request))
                return await self._answer(request, partition, ("live", _status(request)), read)
            case "completed":
                return await self._answer(request, partition, (state,), applications.completed)
            case "rejected":
                return await self._answer(request, partition, (state,), applications.rejected)
        raise RefusedError(400, f"Only following application states are allowed: active, completed, rejected, found {state!r}")

    async def application(self, request: Request) -> Response:
        """``P/application/{app}`` and ``P/queue/{queue}/application/{app}``."""
        partition, name = self._partition(request), ApplicationID(request.path_params["app"])
        path = _queue_path(request) if "queue" in request.path_params else None
        key = ("application", path, name)
        read = partial(applications.one, application_id=name, queue=path)
        return await self._answer(request, partition, key, read, missing="Application not found")

    # ---- nodes

    async def nodes(self, request: Request) -> Response:
        """``P/nodes``."""
        return await self._answer(request, self._partition(request), ("nodes",), nodes.all_nodes)

    async def node(self, request: Request) -> Response:
        """``P/node/{node}``."""
        node_id = NodeID(request.path_params["node"])
        read = partial(nodes.one, node_id=node_id)
        return await self._answer(request, self._partition(request), ("node", node_id), read, missing="Node not found")

    # ---- users and groups

    async def users(self, request: Request) -> Response:
        """``P/usage/users``."""
        return await self._answer(request, self._partition(request), ("users",), users.users)

    async def groups(self, request: Request) -> Response:
        """``P/usage/groups``."""
        return await self._answer(request, self._partition(request), ("groups",), users.groups)

    async def user(self, request: Request) -> Response:
        """``P/usage/user/{user}``."""
        name = _decoded(request.path_params["user"])
        if not is_user_name(name):
            raise RefusedError(400, "Invalid user name")
        read = partial(users.user, name=name)
        return await self._answer(request, self._partition(request), ("user", name), read, missing="User not found")

    async def group(self, request: Request) -> Response:
        """``P/usage/group/{group}``."""
        name = _decoded(request.path_params["group"])
        if not is_group_name(name):
            raise RefusedError(400, "Invalid group name")
        read = partial(users.group, name=name)
        return await self._answer(request, self._partition(request), ("group", name), read, missing="Group not found")

    # ---- reading

    def _cluster_id(self) -> str:
        current = self._gateway.outboxes.current
        return "" if current is None else current.rm_id

    def _partition(self, request: Request) -> PartitionName:
        name = PartitionName(request.path_params["partition"])
        if name not in self._gateway.partitions:
            raise RefusedError(404, "Partition not found")
        return name

    async def _of_each(self, request: Request, kind: str, read: Reading) -> Response:
        """A list with what is read of each partition."""
        bodies = []
        for name in list(self._gateway.partitions):
            page = await self._page(name, (kind,), read, "Partition not found")
            bodies.append(page.body.rstrip(b"\n"))
        return await reply(request, Page(200, as_list(bodies)))

    async def _answer(
        self, request: Request, partition: PartitionName, key: tuple[Hashable, ...], read: Reading, missing: str = ""
    ) -> Response:
        return await reply(request, await self._page(partition, key, read, missing))

    async def _page(self, partition: PartitionName, key: tuple[Hashable, ...], read: Reading, missing: str) -> Page:
        page = await self._pages.get((partition, *key), partial(self._read, partition, read))
        if page.status == 404:
            raise RefusedError(404, missing)
        return page

    async def _read(self, partition: PartitionName, read: Reading) -> Page:
        found = await self._ask(partition, read)
        if found is None:
            return Page(404, b"")
        is_encoded = isinstance(found, list) and all(type(item) is bytes for item in found)
        return Page(200, as_list(found) if is_encoded else encode(found))

    async def _ask(self, partition: PartitionName, read: Reading) -> Any:
        """What a reading returns; the partition runs it between two turns."""
        answer = _Answer()
        with trio.move_on_after(ANSWER_S) as waiting:
            try:
                await self._gateway.partitions[partition].put(Read(partial(_paused, read), answer.give))
            except (KeyError, trio.ClosedResourceError, trio.BrokenResourceError):
                raise RefusedError(404, "Partition not found") from None
            await answer.given.wait()
        if waiting.cancelled_caught:
            raise RefusedError(503, f"partition {partition} has not answered within {ANSWER_S} s")
        if isinstance(answer.found, Exception):
            raise answer.found
        return answer.found


class _Answer:
    """What a partition has read; nobody may wait for it any more."""

    def __init__(self) -> None:
        self.given = trio.Event()
        self.found: Any = None

    def give(self, found: Any) -> None:
        """Called by the partition."""
        self.found = found
        self.given.set()


def _paused(read: Reading, *looked: Any) -> Pausing[Any]:
    """The reading as one that pauses."""
    found = read(Look(*looked))
    return (yield from found) if isinstance(found, Generator) else found


def _if_queue(path: QueuePath, read: Callable[[Look, QueuePath], Any], look: Look) -> Any:
    return read(look, path) if path in look.core.registry.queues else None


def _if_leaf(path: QueuePath, read: Reading, look: Look) -> Any:
    queue = look.core.registry.queues.get(path)
    if queue is None:
        return None
    return read(look) if isinstance(queue, LeafCore) else []


def _decoded(text: str) -> str:
    """Decoded for the second time, as Apache YuniKorn does with names of queues, users and groups."""
    position = text.find("%")
    while position >= 0:
        if not _is_hex(text[position + 1 : position + 3]):
            raise RefusedError(400, f'invalid URL escape "{text[position : position + 3]}"')
        position = text.find("%", position + 1)
    return unquote_plus(text)


def _is_hex(digits: str) -> bool:
    return len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)


def _queue_path(request: Request) -> QueuePath:
    path = _decoded(request.path_params["queue"])
    for part in path.split("."):
        if not is_queue_name(part):
            raise RefusedError(400, f"found the queue {path!r}, expected legal names with dots between them")
    return QueuePath(path.lower())


def _status(request: Request) -> str:
    status = request.query_params.get("status", "").lower()
    if status and status not in applications.LIVE_STATES:
        expected = ", ".join(applications.LIVE_STATES)
        raise RefusedError(400, f"Only following active application statuses are allowed: {expected}, found {status!r}")
    return status
