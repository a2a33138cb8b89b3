"""A scrape: everything that is measured and counted, as one text."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf
from pathlib import Path

import trio
from msgspec import Struct

from ykactor.actors.clock import system_ns
from ykactor.actors.gateway import ReadGateway
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, finished
from ykactor.core.values.times import S_NS
from ykactor.surfaces.metrics import own, yunikorn
from ykactor.surfaces.metrics.exposition import Exposition
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.surfaces.metrics.reading import PartitionFigures


class Sources(Struct, frozen=True):
    """The sources that a scrape reads.

    Attributes:
        has_old_names: see ``yunikorn.add_queues``.
        expires_s: the Unix time at which the certificate of the daemon expires, in seconds; None without TLS.
        following: how a replica follows its daemon; None for the daemon itself.
        daemon: at a replica, the metrics of the process of its daemon (``Measured``).
    """

    gateway: ReadGateway
    actors: Mapping[PartitionName, own.Working]
    instruments: Instruments
    has_old_names: bool
    expires_s: Callable[[], float] | None = None
    following: own.Following | None = None
    daemon: Callable[[], bytes] = bytes


def scrape(sources: Sources, figures: Sequence[PartitionFigures]) -> Steps[list[bytes]]:
    """The text.

    Args:
        figures: what was read just now, of the partitions that have answered.
    """
    to, instruments = Exposition(), sources.instruments
    yunikorn.add_scheduler(to, figures, instruments.facts, [actor.times for actor in sources.actors.values()])
    yield from yunikorn.add_queues(to, figures, instruments.facts, has_old_names=sources.has_old_names)
    own.add_build(to)
    own.add_partitions(to, sources.actors)
    own.add_waiting(to, figures)
    yield from own.add_waited(to, figures, instruments.facts)
    own.add_above_max(to, figures)
    paths = {path for partition in figures for path in partition.queues}
    own.add_counts(to, instruments.facts, len(paths))
    if len(figures) == len(sources.gateway.partitions):
        instruments.facts.queues.end_scrape(paths)
    if sources.following is None:
        _add_standbys(to, sources.gateway)
    else:
        own.add_following(to, sources.following)
    _add_beside(to, sources)
    return [*(yield from to.encoded()), *filter(None, [sources.daemon()])]


def _add_standbys(to: Exposition, gateway: ReadGateway) -> None:
    if (standbys := gateway.standbys_status) is not None:
        own.add_standbys(to, standbys)


def _add_beside(to: Exposition, sources: Sources) -> None:
    """Add what is beside partitions."""
    own.add_actors(to, sources.gateway)
    own.add_loop(to, sources.instruments.loop)
    own.add_sessions(to, sources.instruments.sessions)
    if sources.expires_s is not None:
        own.add_certificate(to, sources.expires_s())
    add_process(to)


#: How long a replica is shown what was measured.
FRESH_S = 1.0


class Measured:
    """The metrics of the process of a daemon, as its replicas show them: ``ykactor_daemon_...``."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._text = b""
        self._fresh_until_s = -inf

    def text(self) -> bytes:
        """The metrics of the last second. Cost: 1 ms, once for all replicas."""
        if (now_s := trio.current_time()) >= self._fresh_until_s:
            to = Exposition(_of_daemon)
            own.add_build(to)
            own.add_partitions(to, self._sources.actors)
            _add_standbys(to, self._sources.gateway)
            _add_beside(to, self._sources)
            self._text, self._fresh_until_s = b"".join(finished(to.encoded())), now_s + FRESH_S
        return self._text


def _of_daemon(name: str) -> str:
    return f"ykactor_daemon_{name.removeprefix('ykactor_')}"


# ---- metrics of the process

_SELF = Path("/proc/self")
#: What other programs show where there is no limit.
_UNLIMITED = 2**64 - 1


def add_process(to: Exposition) -> None:
    """Add the metrics ``process_*``."""
    if not _SELF.exists():
        return
    fields = (_SELF / "stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    cpu_s = (int(fields[11]) + int(fields[12])) / ticks
    to.counter("process_cpu_seconds_total", "CPU time that was used.").add(cpu_s)
    started_s = _boot_s() + int(fields[19]) / ticks
    to.gauge("process_start_time_seconds", "Unix time of the start.").add(started_s)
    to.gauge("process_virtual_memory_bytes", "Size of the address space.").add(int(fields[20]))
    resident = int(fields[21]) * resource.getpagesize()
    to.gauge("process_resident_memory_bytes", "Memory that is present.").add(resident)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    virtual_max = _UNLIMITED if limit == resource.RLIM_INFINITY else limit
    to.gauge("process_virtual_memory_max_bytes", "Limit of the address space.").add(virtual_max)
    to.gauge("process_open_fds", "Open file descriptors.").add(len(os.listdir(_SELF / "fd")))
    to.gauge("process_max_fds", "Limit of file descriptors.").add(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@cache
def _boot_s() -> float:
    """The Unix time of the start of the system, always the same. ``/proc/stat``, which has it, ``ProcSubset=pid`` hides."""
    return system_ns() / S_NS - time.clock_gettime(time.CLOCK_BOOTTIME)
