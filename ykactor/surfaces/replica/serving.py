"""The services of a replica: the REST API, metrics, the page and the feed, as those of a daemon, but for what acts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from msgspec import Struct

from ykactor.actors.pauses import collect_old, settle_memory
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.files.watcher import FileWatcher
from ykactor.surfaces.http.server import serve_rest
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.metrics.scrape import Sources
from ykactor.surfaces.net.doors import HTTP, WS, Door
from ykactor.surfaces.replica.following import Following
from ykactor.surfaces.replica.replica import Replica
from ykactor.surfaces.sessions.websocket import serve_websockets

if TYPE_CHECKING:  # needs libraries that take 0.1 s to load, which few replicas need
    from ykactor.surfaces.admission.access_control import AccessWatcher
    from ykactor.surfaces.daemon.tls_watcher import TlsWatcher

log = get_logger(__name__)


class ServiceSettings(Struct, frozen=True):
    """The settings of the services of a replica; each field as of ``daemon.Settings``."""

    host_names: tuple[str, ...] = ()
    web_root: Path | None = None
    has_old_metrics: bool = False


class Services:
    """Serves the readers of a replica.

    Args:
        access: follows the access file; None lets in who may be let in by its door without a proof.
        tls: follows the files of TLS.
    """

    def __init__(
        self,
        replica: Replica,
        following: Following,
        settings: ServiceSettings,
        access: AccessWatcher | None = None,
        tls: TlsWatcher | None = None,
    ) -> None:
        self._replica = replica
        self._following = following
        self._settings = settings
        self._access = access
        self._tls = tls

    @property
    def watchers(self) -> list[FileWatcher]:
        """The watchers of the files that others write."""
        return [watcher for watcher in (self._access, self._tls) if watcher is not None]

    async def run(self, doors: Sequence[Door], stopping: trio.Event) -> None:
        """Serve from when the daemon has told what it is, until ``stopping`` is set."""
        replica = self._replica
        await replica.is_known.wait()
        audit = replica.refusals
        async with trio.open_nursery() as inner:
            inner.start_soon(audit.run, name="audit")
            inner.start_soon(collect_old, lambda: not replica.copies.reading.locked(), name="collector")
            admission = self._admission(audit, inner)
            for watcher in (self._access, self._tls):
                if watcher is not None:
                    watcher.audit = audit
                    await inner.start(watcher.run, stopping, name=f"{watcher.name} watcher")
            async with trio.open_nursery() as edge:
                serve = partial(serve_websockets, [door for door in doors if door.service == WS], replica, admission)
                counts = replica.instruments.sessions
                await edge.start(partial(serve, acting=replica.url, counts=counts, stopping=stopping), name="websockets")
                if any(door.service == HTTP for door in doors):
                    serve = partial(serve_rest, doors, replica, admission, self._sources(), acting=replica.url, stopping=stopping)
                    await edge.start(partial(serve, web_root=self._settings.web_root), name="http")
                settle_memory()
                addresses = ", ".join(door.url for door in doors)
                log_event(log, logging.INFO, "replica_started", addresses=addresses, daemon=replica.url)
            inner.cancel_scope.cancel()

    def _admission(self, audit: AuditLog, nursery: trio.Nursery) -> Admission:
        if self._access is None:
            return Admission(audit, host_names=self._settings.host_names)
        control = self._access.control
        nursery.start_soon(control.run, name="access control")
        return Admission(audit, control.admit, self._settings.host_names, control.limits)

    def _sources(self) -> Sources:
        replica, expires_s = self._replica, None if self._tls is None else self._tls.expires_s
        return Sources(
            replica,
            replica.copies.of,
            replica.instruments,
            self._settings.has_old_metrics,
            expires_s,
            self._following,
            replica.measured,
        )
