"""All routes: paths, what answers them, and what their answers are, for the application and for the OpenAPI document."""

from __future__ import annotations

from functools import partial

import trio

from ykactor.access.model import Role
from ykactor.actors.gateway import Gateway
from ykactor.surfaces.http import debug, openapi, schemas
from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.configuration import Configuration
from ykactor.surfaces.http.debug import Debug
from ykactor.surfaces.http.events import Events
from ykactor.surfaces.http.health import Health
from ykactor.surfaces.http.history import History
from ykactor.surfaces.http.login import Login
from ykactor.surfaces.http.metrics import Metrics
from ykactor.surfaces.http.published import Published
from ykactor.surfaces.http.route import Route
from ykactor.surfaces.http.websockets import Websockets
from ykactor.surfaces.metrics.sources import Sources
from ykactor.wire.rest import checks, events, queues, tasks, types, usage
from ykactor.wire.rest.applications import Application
from ykactor.wire.rest.nodes import Node, NodeUtilizations
from ykactor.wire.rest.partitions import Partition, PlacementRule

_P = "/ws/v1/partition/{partition}"
_JSON, _TEXT = "application/json", "text/plain"


def routes(to: Services) -> list[Route]:
    """All routes."""
    api = to.api
    applications, queue = list[Application], {"queue": schemas.QueueName}
    found = [
        Route("/ws/v1/clusters", api.clusters, "Partitions and their resource manager", list[types.Cluster]),
        Route("/ws/v1/partitions", api.partitions, "Partitions with their totals", list[Partition]),
        Route(f"{_P}/queues", api.all_queues, "The tree of queues", queues.Queue, (404,)),
        Route(f"{_P}/queue/{{queue}}", api.queue, "A queue", queues.Queue, (400, 404), {**queue, "subtree": str}),
        Route(
            f"{_P}/queue/{{queue}}/applications",
            api.queue_applications,
            "Live applications of a leaf",
            applications,
            (400, 404),
            queue,
        ),
        Route(
            f"{_P}/queue/{{queue}}/applications/{{state}}",
            api.queue_applications_in,
            "Applications of a leaf in a state: active",
            applications,
            (400, 404),
            {**queue, "state": schemas.Active, "status": schemas.Status},
        ),
        Route(
            f"{_P}/queue/{{queue}}/application/{{app}}",
            api.queue_application,
            "An application",
            Application,
            (400, 404),
            queue,
        ),
        Route(
            f"{_P}/applications/{{state}}",
            api.applications,
            "Applications in a state: active, completed, rejected",
            applications,
            (400, 404),
            {"state": schemas.Ended, "status": schemas.Status},
        ),
        Route(f"{_P}/application/{{app}}", api.application, "A live application", Application, (404,)),
        Route(
            f"{_P}/application/{{app}}/pending",
            api.pending_asks,
            "Why each ask of a live application is pending",
            list[tasks.PendingAsk],
            (404,),
        ),
        Route(
            f"{_P}/application/{{app}}/records",
            api.records,
            "How tasks of an application have ended",
            list[tasks.TaskRecord],
            (404,),
        ),
        Route(f"{_P}/nodes", api.nodes, "All nodes", list[Node], (404,)),
        Route(f"{_P}/node/{{node}}", api.node, "A node", Node, (404,)),
        Route(f"{_P}/placementrules", api.placement_rules, "Placement rules in their order", list[PlacementRule], (404,)),
        Route(f"{_P}/usage/users", api.users, "What users use", list[usage.UserUse], (404,)),
        Route(f"{_P}/usage/user/{{user}}", api.user, "What a user uses", usage.UserUse, (400, 404), {"user": schemas.UserName}),
        Route(f"{_P}/usage/groups", api.groups, "What groups use", list[usage.GroupUse], (404,)),
        Route(
            f"{_P}/usage/accounting",
            api.accounting,
            "Resource-seconds by day, queue, user, group or application",
            list[usage.ResourceSeconds],
            (400, 404),
            {"by": schemas.By, "since": schemas.Day, "until": schemas.Day},
        ),
        Route(
            f"{_P}/usage/group/{{group}}",
            api.group,
            "What a group uses",
            usage.GroupUse,
            (400, 404),
            {"group": schemas.GroupName},
        ),
        Route("/ws/v1/scheduler/node-utilizations", api.node_utilizations, "Nodes by use", list[NodeUtilizations]),
        Route(
            "/ws/v1/scheduler/healthcheck",
            to.health.check,
            "Checks of the state",
            checks.Health,
            other_success=(503,),
            has_any_host=True,
        ),
        Route("/ws/v1/history/apps", to.history.applications, "Running applications by minute", list[usage.ApplicationSample]),
        Route("/ws/v1/history/containers", to.history.containers, "Allocations by minute", list[usage.ContainerSample]),
        Route(
            "/ws/v1/events/batch",
            to.events.batch,
            "Events by id",
            events.Events,
            (400,),
            {"start": schemas.Start, "count": schemas.Count},
        ),
        Route(
            "/ws/v1/events/stream",
            to.events.stream,
            "Events as they occur, one a line",
            None,
            (400,),
            {"count": schemas.Start},
            media_types=(_JSON,),
        ),
        Route(
            "/ws/v1/config",
            to.configuration.config,
            "The configuration in force, as YAML or JSON",
            media_types=("application/x-yaml", _JSON),
        ),
        Route(
            "/ws/v1/validate-conf",
            to.configuration.validate,
            "Whether a configuration is valid",
            checks.Verdict,
            (408, 413),
            method="POST",
            body="application/yaml",
        ),
        Route("/ws/v1/stack", debug.to_stack, "Leads to /debug/stack", success=301),
        Route("/ws/v1/fullstatedump", debug.to_dump, "Leads to /debug/fullstatedump", success=301),
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
        Route("/ws/v1/login", to.login.log_in, "A cookie for the token of the request", types.Session, method="POST"),
        Route("/ws/v1/logout", to.login.log_out, "The end of the login of the cookie", types.Session, method="POST"),
        Route("/livez", to.health.live, "Whether the daemon answers", role=None, media_types=(_TEXT,)),
        Route("/readyz", to.health.ready, "Whether the daemon serves", statuses=(503,), role=None, media_types=(_TEXT,)),
    ]
    document = openapi.document(found)
    return [
        *found,
        Route("/openapi.json", partial(openapi.answer, document), "The OpenAPI document of the other routes", role=None),
    ]


# ---- what answers the routes, made for one daemon


class Services:
    """One object for each subject.

    Args:
        sources: of metrics.
        stopping: set when the daemon stops.
        websockets: where they are.
    """

    def __init__(self, gateway: Gateway, sources: Sources, stopping: trio.Event, websockets: Websockets) -> None:
        published = Published(gateway)
        self.api = Api(published, gateway.now_ns())
        self.events = Events(gateway, stopping)
        self.history = History(published)
        self.configuration = Configuration(published)
        self.health = Health(gateway.health)
        self.metrics = Metrics(sources)
        self.websockets = websockets
        self.login = Login(websockets)
        self.debug = Debug(published, self.api, self.history, self.configuration)
