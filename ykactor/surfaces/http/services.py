"""What answers the routes, made for one daemon."""

from __future__ import annotations

import trio

from ykactor.actors.gateway import Gateway
from ykactor.surfaces.http.api import Api
from ykactor.surfaces.http.configuration import Configuration
from ykactor.surfaces.http.debug import Debug
from ykactor.surfaces.http.events import Events
from ykactor.surfaces.http.health import Health
from ykactor.surfaces.http.history import History
from ykactor.surfaces.http.login import Login
from ykactor.surfaces.http.metrics import Metrics
from ykactor.surfaces.http.published import Published
from ykactor.surfaces.http.websockets import Websockets
from ykactor.surfaces.metrics.sources import Sources


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
