"""The routes of the REST API about partitions: what each answers, and why it may be refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import json
from starlette.requests import Request
from starlette.responses import Response

from ykactor.access.explanations import no_task
from ykactor.core.inspection.finding import Kind, Match, nothing_remembered, several
from ykactor.core.objects.queues import LeafCore
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.surfaces.copies.explained import computed
from ykactor.surfaces.http.app import check_sees_nodes, view_for
from ykactor.surfaces.http.computed import computing
from ykactor.surfaces.http.parameters import columns, days, explain_kind, flag, group_name, queue_path, status, user_name
from ykactor.surfaces.http.published import NO_QUEUE, Key, Published, Reading, age_of
from ykactor.surfaces.http.readings import applications, explanations, jobs, partitions, queues, usage
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.replies import Page, reply
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode

_ROOT = QueuePath("root")
_NO_APPLICATION = "Application not found"
_NO_ASK = "Ask not found"


class Api:
    """Answers requests from the state of the partitions.

    Args:
        published: what they publish.
    """

    def __init__(self, published: Published) -> None:
        self._published = published

    # ---- cluster and partitions

    async def clusters(self, request: Request) -> Response:
        """``/ws/v1/clusters``."""
        return await reply(request, Page(200, [encode(self.found_clusters(request))]))

    def found_clusters(self, request: Request) -> list[types.Cluster]:
        """One for each partition that who asks may see."""
        build = {} if view_for(request) is not None else self._published.build_information
        return [
            types.Cluster(
                start_time=self._published.gateway.started_ns,
                rm_build_information=[build] if build else [],
                partition=name,
                cluster_name="ykactor",
            )
            for name in self._published.partitions(request)
        ]

    def _rm_id(self, request: Request) -> str:
        """The registered resource manager; "" if there is none, or a view is limited."""
        return "" if view_for(request) is not None else self._published.cluster_id

    async def partitions(self, request: Request) -> Response:
        """``/ws/v1/partitions``."""
        key, read = self.summary(self._rm_id(request))
        return await self._published.answer_of_each(request, key, read)

    def summary(self, rm_id: str) -> tuple[Key, Reading]:
        """The key and the reading of a partition with its totals, for who is told that the resource manager is this one."""
        return ("summary", rm_id), partial(partitions.summary, cluster_id=rm_id, standing=self._published.gateway.standing)

    async def node_utilizations(self, request: Request) -> Response:
        """``/ws/v1/scheduler/node-utilizations``."""
        check_sees_nodes(request)
        rm_id = self._rm_id(request)
        read = partial(partitions.utilizations, cluster_id=rm_id)
        return await self._published.answer_of_each(request, ("utilizations", rm_id), read)

    async def placement_rules(self, request: Request) -> Response:
        """``P/placementrules``."""
        self._published.partition(request)
        check_sees_nodes(request)
        return await self._published.answer(request, ("rules",), partitions.placement_rules, is_small=True)

    # ---- queues

    async def all_queues(self, request: Request) -> Response:
        """``P/queues``."""
        return await self._published.answer(request, ("all queues",), queues.everything)

    async def queue(self, request: Request) -> Response:
        """``P/queue/{queue}``."""
        path = self._queue(request)
        is_tree = "subtree" in request.query_params
        kind, read = ("tree", queues.tree) if is_tree else ("queue", queues.one)
        return await self._published.answer(request, (kind, path), partial(_if_queue, path, read), NO_QUEUE, is_small=not is_tree)

    def _queue(self, request: Request) -> QueuePath:
        """The queue of the path, which is there, and which the caller may see."""
        self._published.partition(request)
        path = queue_path(request)
        self._published.check_queue(request, path)
        return path

    # ---- applications

    async def queue_applications(self, request: Request) -> Response:
        """``P/queue/{queue}/applications``."""
        queue_path(request)  # Apache YuniKorn checks it before the partition here
        return await self._applications_of(request, self._queue(request), "")

    async def queue_applications_in(self, request: Request) -> Response:
        """``P/queue/{queue}/applications/{state}``."""
        path, state = self._queue(request), request.path_params["state"].lower()
        if state != "active":
            raise RefusedError(400, f"Only following application states are allowed: active, found {state!r}")
        return await self._applications_of(request, path, status(request))

    async def _applications_of(self, request: Request, path: QueuePath, wanted: str) -> Response:
        """The applications of a queue, in a state or in any with "": none if it is no leaf."""
        queue = self._published.registry(request).queues[path]
        is_small = applications.are_small(queue.applications.values() if isinstance(queue, LeafCore) else ())
        read = partial(_if_leaf, path, partial(applications.live, queue=path, status=wanted))
        return await self._published.answer(request, ("live", path, wanted), read, NO_QUEUE, is_small=is_small)

    async def applications(self, request: Request) -> Response:
        """``P/applications/{state}``."""
        self._published.partition(request)
        state = request.path_params["state"].lower()
        match state:
            case "active":
                wanted = status(request)
                return await self._published.answer(request, ("live", wanted), partial(applications.live, status=wanted))
            case "completed":
                return await self._published.answer(request, (state,), applications.completed)
            case "rejected":
                return await self._published.answer(request, (state,), applications.rejected)
        raise RefusedError(400, f"Only following application states are allowed: active, completed, rejected, found {state!r}")

    async def application(self, request: Request) -> Response:
        """``P/application/{app}``."""
        return await self._application(request, None)

    async def queue_application(self, request: Request) -> Response:
        """``P/queue/{queue}/application/{app}``."""
        return await self._application(request, self._queue(request))

    async def _application(self, request: Request, path: QueuePath | None) -> Response:
        """An application, also only if it is in a queue."""
        name = ApplicationID(request.path_params["app"])
        found = self._published.seen_application(request, name)
        is_small = found is None or applications.are_small([found])
        read = partial(applications.one, application_id=name, queue=path)
        return await self._published.answer(request, ("application", path, name), read, _NO_APPLICATION, is_small=is_small)

    async def pending_asks(self, request: Request) -> Response:
        """``P/application/{app}/pending``."""
        name = ApplicationID(request.path_params["app"])
        read = partial(applications.pending_asks, application_id=name)
        return await self._published.answer(request, ("pending", name), read, _NO_APPLICATION)

    async def explanation(self, request: Request) -> Response:
        """``P/application/{app}/explanation/{ask}``."""
        name, key = ApplicationID(request.path_params["app"]), AllocationKey(request.path_params["ask"])
        read = partial(applications.explanation, application_id=name, key=key)
        return await self._published.answer(request, ("explanation", name, key), read, _NO_ASK)

    async def explain(self, request: Request) -> Response:
        """``/v1/explain/{kind}/{id}``."""
        kind, name, key = explain_kind(request), request.path_params["id"], request.query_params.get("ask", "")
        if kind == "node":
            check_sees_nodes(request)
        if flag(request, "changes") and kind not in ("application", "ask"):
            raise RefusedError(400, f"found kind {kind} with changes, expected application or ask")
        wanted = request.query_params.get("partition", "")
        match = await self._meaning(request, wanted, name, kind)
        match = match._replace(key=key or match.key)
        if flag(request, "changes"):
            return await self._with_changes(request, match)
        of_match = self._published.page(request, match.partition, ("explain", match), partial(explanations.one, match=match))
        if (page := await of_match).status == 404:
            raise RefusedError(404, no_task(match) if match.key else nothing_remembered(name, kind, []))
        return await reply(request, page, headers=age_of([page]))

    async def _meaning(self, request: Request, wanted: str, name: str, kind: Kind) -> Match:
        """The only meaning of a name, in the wanted partition, with "" in all of them."""
        read, found = partial(explanations.named, name=name, kind=kind), list[Match]()
        for partition in self._published.named_partitions(request, wanted):
            page = await self._published.page(request, partition, ("named", kind, name), read)
            found += json.decode(b"".join(page.parts), type=list[Match])
        if not found:
            raise RefusedError(404, nothing_remembered(name, kind, []))
        if len(found) > 1:
            raise RefusedError(409, several(name, found))
        return found[0]

    async def _with_changes(self, request: Request, match: Match) -> Response:
        """The explanation of an ask with the smallest changes, which a child computes on a copy of its partition."""
        with computing(request) as process:
            found = await computed(
                process, self._published.gateway, view_for(request), match, may_preempt=flag(request, "preempt")
            )
        if found is None:
            raise RefusedError(404, no_task(match))
        return await reply(request, Page(200, [encode(found)]))

    async def records(self, request: Request) -> Response:
        """``P/application/{app}/records``."""
        name = ApplicationID(request.path_params["app"])
        read = partial(applications.records, application_id=name)
        return await self._published.answer(request, ("records", name), read, _NO_APPLICATION)

    # ---- jobs

    async def jobs(self, request: Request) -> Response:
        """``/v1/jobs``."""
        wanted = request.query_params.get("partition", "")
        return await self._published.joined_lists(request, ("jobs",), jobs.newest, wanted)

    async def job(self, request: Request) -> Response:
        """``/v1/jobs/{job}``."""
        name, found = ApplicationID(request.path_params["job"]), dict[PartitionName, Page]()
        for partition in self._published.named_partitions(request, request.query_params.get("partition", "")):
            page = await self._published.page(request, partition, ("job", name), partial(jobs.one, job_id=name))
            if page.status != 404:
                found[partition] = page
        if not found:
            raise RefusedError(404, "Job not found")
        if len(found) > 1:
            raise RefusedError(409, f"job {name} is in the partitions {', '.join(found)}: add ?partition=NAME")
        (page,) = found.values()
        return await reply(request, page, headers=age_of([page]))

    # ---- nodes

    async def nodes(self, request: Request) -> Response:
        """``P/nodes``."""
        self._published.partition(request)
        check_sees_nodes(request)
        return await self._published.answer(request, ("nodes",), partitions.all_nodes)

    async def node_attributes(self, request: Request) -> Response:
        """``P/node-attributes``."""
        self._published.partition(request)
        check_sees_nodes(request)
        return await self._published.answer(request, ("attributes",), partitions.attributes)

    async def node(self, request: Request) -> Response:
        """``P/node/{node}``."""
        registry, node_id = self._published.registry(request), NodeID(request.path_params["node"])
        check_sees_nodes(request)
        is_small = partitions.is_small_node(registry.nodes.get(node_id))
        read = partial(partitions.node, node_id=node_id)
        return await self._published.answer(request, ("node", node_id), read, "Node not found", is_small=is_small)

    # ---- users and groups

    async def users(self, request: Request) -> Response:
        """``P/usage/users``."""
        return await self._published.answer(request, ("users",), usage.users)

    async def groups(self, request: Request) -> Response:
        """``P/usage/groups``."""
        return await self._published.answer(request, ("groups",), usage.groups)

    async def accounting(self, request: Request) -> Response:
        """``P/usage/accounting``."""
        by, wanted = columns(request), days(request)
        read = partial(usage.resource_seconds, columns=by, days=wanted)
        return await self._published.answer(request, ("accounting", by, wanted), read)

    async def user(self, request: Request) -> Response:
        """``P/usage/user/{user}``."""
        name = user_name(request)
        return await self._published.answer(request, ("user", name), partial(usage.user, name=name), "User not found")

    async def group(self, request: Request) -> Response:
        """``P/usage/group/{group}``."""
        name = group_name(request)
        return await self._published.answer(request, ("group", name), partial(usage.group, name=name), "Group not found")


def _if_queue(path: QueuePath, read: Callable[[Look, QueuePath], Any], look: Look) -> Any:
    return read(look, path) if path in look.core.registry.queues and look.shows(path) else None


def _if_leaf(path: QueuePath, read: Reading, look: Look) -> Any:
    queue = look.core.registry.queues.get(path)
    if queue is None or not look.shows(path):
        return None
    return read(look) if isinstance(queue, LeafCore) else []
