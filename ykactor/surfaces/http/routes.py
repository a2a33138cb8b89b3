"""All routes: paths, what answers them, and what their answers are; and the OpenAPI document of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response

from ykactor import __version__
from ykactor.access.model import Role
from ykactor.actors.gateway import Gateway, ReadGateway
from ykactor.core.inspection.explanation import AskExplanation
from ykactor.core.inspection.finding import Kind
from ykactor.sim.dry_run import DryRun
from ykactor.surfaces.admission.listener import LIVE_PATH
from ykactor.surfaces.http import parameters
from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.app import Endpoint, Route
from ykactor.surfaces.http.configuration import Configuration
from ykactor.surfaces.http.debug import Debug, moved
from ykactor.surfaces.http.dry_run import DryRuns, NewWork
from ykactor.surfaces.http.events import Events
from ykactor.surfaces.http.history import History
from ykactor.surfaces.http.monitoring import Health, Metrics
from ykactor.surfaces.http.published import Published
from ykactor.surfaces.http.replies import Page, reply
from ykactor.surfaces.http.session import Login, Websockets
from ykactor.surfaces.http.turns import Turns
from ykactor.surfaces.metrics.scrape import Sources
from ykactor.wire.rest import events, jobs, queues, types, usage
from ykactor.wire.rest.applications import Application, PendingAsk, TaskRecord
from ykactor.wire.rest.codec import encode
from ykactor.wire.rest.history import PartitionSample
from ykactor.wire.rest.nodes import Node, NodeUtilizations
from ykactor.wire.rest.partitions import Partition, PlacementRule
from ykactor.wire.si import messages as si

_JSON, _TEXT = "application/json", "text/plain"


def routes(to: Services) -> list[Route]:
    """All routes."""
    turns = Turns(to.gateway)
    found = [*map(turns.of, (*_of_partitions(to.api), *_of_events(to), *_of_daemon(to)))]
    document = partial(_openapi, openapi_document(found))
    return [*found, Route("/openapi.json", document, "The OpenAPI document of the other routes", role=None)]


def _of_partitions(api: Api) -> list[Route]:
    """The routes about what partitions have."""

    def of(path: str, endpoint: Endpoint, summary: str, answer: Any, known: dict[str, Any] | None = None) -> Route:
        return Route(f"/ws/v1/partition/{{partition}}/{path}", endpoint, summary, answer, known or {})

    applications, queue, status = list[Application], {"queue": parameters.QueueName}, {"status": parameters.Status}
    in_leaf, in_any = {**queue, "state": parameters.Active, **status}, {"state": parameters.Ended, **status}
    accounting = {"by": parameters.By, "since": parameters.Day, "until": parameters.Day}
    user, group = {"user": parameters.UserName}, {"group": parameters.GroupName}
    seconds = "Resource-seconds by day, queue, user, group or application"
    states = "Applications in a state: active, completed, rejected"
    return [
        Route("/ws/v1/clusters", api.clusters, "Partitions and their resource manager", list[types.Cluster]),
        Route("/ws/v1/partitions", api.partitions, "Partitions with their totals", list[Partition]),
        of("queues", api.all_queues, "The tree of queues", queues.Queue),
        of("queue/{queue}", api.queue, "A queue", queues.Queue, {**queue, "subtree": str}),
        of("queue/{queue}/applications", api.queue_applications, "Live applications of a leaf", applications, queue),
        of(
            "queue/{queue}/applications/{state}",
            api.queue_applications_in,
            "Applications of a leaf in a state: active",
            applications,
            in_leaf,
        ),
        of("queue/{queue}/application/{app}", api.queue_application, "An application", Application, queue),
        of("applications/{state}", api.applications, states, applications, in_any),
        of("application/{app}", api.application, "A live application", Application),
        of("application/{app}/pending", api.pending_asks, "Why each ask of a live application is pending", list[PendingAsk]),
        of("application/{app}/explanation/{ask}", api.explanation, "Why an ask waits", AskExplanation),
        of("application/{app}/records", api.records, "How tasks of an application have ended", list[TaskRecord]),
        of("nodes", api.nodes, "All nodes", list[Node]),
        of("node/{node}", api.node, "A node", Node),
        of("node-attributes", api.node_attributes, "The attributes of each node", dict[str, dict[str, str]]),
        of("placementrules", api.placement_rules, "Placement rules in their order", list[PlacementRule]),
        of("usage/users", api.users, "What users use", list[usage.UserUse]),
        of("usage/user/{user}", api.user, "What a user uses", usage.UserUse, user),
        of("usage/groups", api.groups, "What groups use", list[usage.GroupUse]),
        of("usage/group/{group}", api.group, "What a group uses", usage.GroupUse, group),
        of("usage/accounting", api.accounting, seconds, list[usage.ResourceSeconds], accounting),
        Route(
            "/v1/explain/{kind}/{id}",
            api.explain,
            "Why an ask waits, what waits in a queue, or what could run on a node",
            si.Explanation,
            {"kind": Kind, "ask": str, "partition": str, "changes": bool, "preempt": bool},
            refusals=(404, 409),
        ),
        Route("/v1/jobs", api.jobs, "Jobs, and how far they are", list[jobs.Job], {"partition": str}, refusals=(404,)),
        Route(
            "/v1/jobs/{job}",
            api.job,
            "A job with the attempts of its tasks",
            jobs.Job,
            {"partition": str},
            refusals=(404, 409),
        ),
        Route("/ws/v1/scheduler/node-utilizations", api.node_utilizations, "Nodes by use", list[NodeUtilizations]),
    ]


def _of_events(to: Services) -> list[Route]:
    """The routes about the past: events, and samples of the last day."""
    batch, stream = {"start": parameters.Start, "count": parameters.Count}, {"count": parameters.Start}
    after = {"after": parameters.Start}
    path, summary = "/ws/v1/partition/{partition}/history", "A partition by minute, of the last day"
    return [
        Route(path, to.history.of_partition, summary, list[PartitionSample], after),
        Route("/ws/v1/history/apps", to.history.applications, "Running applications by minute", list[usage.ApplicationSample]),
        Route("/ws/v1/history/containers", to.history.containers, "Allocations by minute", list[usage.ContainerSample]),
        Route("/ws/v1/events/batch", to.events.batch, "Events by id", events.Events, batch),
        Route("/ws/v1/events/stream", to.events.stream, "Events as they occur, one a line", None, stream, media_types=(_JSON,)),
    ]


def _of_daemon(to: Services) -> list[Route]:
    """The routes about the daemon, its configuration and the session of a page."""
    health, configuration, login = to.health, to.configuration, to.login
    in_force, forms = "The configuration in force, as YAML or JSON", ("application/x-yaml", _JSON)
    return [
        Route(
            "/ws/v1/scheduler/healthcheck",
            health.check,
            "Checks of the state",
            types.Health,
            other_success=(503,),
            has_any_host=True,
        ),
        Route("/ws/v1/config", configuration.config, in_force, media_types=forms),
        Route(
            "/ws/v1/validate-conf",
            configuration.validate,
            "Whether a configuration is valid",
            types.Verdict,
            refusals=(408, 413),
            method="POST",
            body="application/yaml",
        ),
        Route(
            "/v1/dry-run",
            to.dry_runs.answer,
            "The outcome of new work, of which nothing is submitted",
            DryRun,
            method="POST",
            role=Role.RM,
            refusals=(404, 408, 413),
            body=_JSON,
            asked=NewWork,
        ),
        Route("/ws/v1/stack", partial(moved, "/debug/stack"), "Leads to /debug/stack", success=301),
        Route("/ws/v1/fullstatedump", partial(moved, "/debug/fullstatedump"), "Leads to /debug/fullstatedump", success=301),
        Route("/debug/stack", to.debug.stack, "Where tasks and threads are", media_types=(_TEXT,)),
        Route("/debug/fullstatedump", to.debug.dump, "The whole state", media_types=(_JSON,)),
        Route(
            "/ws/v1/metrics",
            to.metrics.metrics,
            "Metrics for Prometheus, as a text",
            role=Role.METRICS,
            other_role=Role.READER,
            has_any_host=True,
            media_types=(_TEXT,),
        ),
        Route("/ws/v1/session", to.websockets.session, "Who asks, and where the websockets are", types.Session),
        Route("/ws/v1/login", login.log_in, "A cookie for the token of the request", types.Session, method="POST"),
        Route("/ws/v1/logout", login.log_out, "The end of the login of the cookie", types.Session, method="POST"),
        Route(LIVE_PATH, health.live, "Whether the daemon answers", role=None, media_types=(_TEXT,)),
        Route("/readyz", health.ready, "Whether the daemon serves", role=None, media_types=(_TEXT,)),
    ]


# ---- what answers the routes, made for one daemon


class Services:
    """One object for each subject.

    Args:
        sources: of metrics.
        stopping: set when the daemon stops.
        websockets: where they are.
        acting: as of ``serve_rest``.
    """

    def __init__(
        self, gateway: ReadGateway, sources: Sources, stopping: trio.Event, websockets: Websockets, acting: Gateway | str
    ) -> None:
        self.gateway = gateway
        published = Published(gateway)
        self.api = Api(published)
        self.events = Events(gateway, stopping)
        self.history = History(published, sources)
        self.configuration = Configuration(published)
        self.dry_runs = DryRuns(acting)
        self.health = Health(gateway.health)
        self.metrics = Metrics(sources)
        self.websockets = websockets
        self.login = Login(websockets)
        self.debug = Debug(published, self.api, self.history, self.configuration)


# ---- ``/openapi.json``: the document that is made of the routes and their types

_REF = "#/components/schemas/{name}"
#: The statuses of refusals.
_MEANINGS = {
    400: "a parameter is wrong",
    401: "no valid proof of an identity",
    403: "the identity may not read this",
    404: "there is no such object",
    408: "the body has not arrived in time",
    409: "several objects have this name",
    412: "the turn that the request names is of another history",
    413: "the body is too large",
    500: "an error of the daemon",
    503: "too much is asked, or the daemon does not serve",
}


async def _openapi(found: dict[str, Any], request: Request) -> Response:
    """``/openapi.json``."""
    return await reply(request, Page(200, [encode(found)]))


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document, as plain data."""
    kinds = [kind for route in routes for kind in (route.answer, route.asked) if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, types.Error], ref_template=_REF)
    left = iter(schemas)  # the last one is that of errors
    of_path = {route.path: [None if kind is None else next(left) for kind in (route.answer, route.asked)] for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {"title": "ykactor", "version": __version__, "description": "Apache YuniKorn's REST API, as ykactor serves it."},
        "paths": {route.path: {route.method.lower(): _operation(route, *of_path[route.path])} for route in routes},
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route, schema: dict[str, Any] | None, asked: dict[str, Any] | None) -> dict[str, Any]:
    plain = {kind: {"schema": {"type": "string"} if kind.startswith("text/") else {}} for kind in route.media_types}
    kinds = plain if schema is None else {_JSON: {"schema": schema}}
    content = {"content": kinds} if kinds else {}
    error = {"content": {_JSON: {"schema": {"$ref": _REF.format(name="Error")}}}} if route.role is not None else content
    responses = {str(route.success): {"description": "found", **content}}
    responses |= {str(status): {"description": _MEANINGS[status], **error} for status in _refusals(route)}
    for status in map(str, route.other_success):
        either = {"anyOf": [schema, {"$ref": _REF.format(name="Error")}]}
        responses[status] = responses[status] | {"content": {_JSON: {"schema": either}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": [*_parameters(route)],
        "responses": responses,
    }
    if route.body:
        operation["requestBody"] = {"required": True, "content": {route.body: {"schema": asked or {"type": "string"}}}}
    if route.role is not None:
        operation["security"] = [{"bearer": []}, {}]  # the second one without an access file
    return operation


def _refusals(route: Route) -> list[int]:
    """The statuses of its refusals: its own, those of all routes, and those that follow from what it needs."""
    proof, parameters, partition = route.role is not None, bool(route.parameters), "{partition}" in route.path
    shared = {400: parameters or proof, 401: proof, 403: proof, 404: partition, 412: proof, 500: True, 503: True}
    return sorted({*route.refusals, *(status for status, is_possible in shared.items() if is_possible)})


def _operation_id(route: Route) -> str:
    """Such as ``getQueueApplicationsByState`` or ``getJob``, one of the jobs: the method, and the words of the path without the
    partition, which most have.
    """
    path = route.path.removeprefix("/ws").removeprefix("/v1").removeprefix("/partition/{partition}")
    words = re.findall(r"[a-z]+", re.sub(r"s?/\{\w+\}", "", path.replace("{state}", "by-state")))
    return route.method.lower() + "".join(map(str.capitalize, words))


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", route.path)
    for name in names:
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": msgspec.json.schema(route.parameters.get(name, parameters.AnyName)),
        }
    for name, kind in route.parameters.items():
        if name not in names:
            schema = msgspec.json.schema(kind)
            form = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
            yield {"name": name, "in": "query", "schema": schema, **form}
