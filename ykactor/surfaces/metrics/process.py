"""The process as the system sees it: the metrics that the official client libraries have too. Only on Linux."""

from __future__ import annotations

import os
import resource
import time
from functools import cache
from pathlib import Path

from ykactor.actors.clock import system_ns
from ykactor.core.values.times import S_NS
from ykactor.surfaces.metrics.exposition import Exposition

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
