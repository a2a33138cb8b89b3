"""The work of the process that tries new work for ``/v1/dry-run``: copies of partitions, the asks, and what becomes of them.

It is a child of the daemon that may take little: it is nicer, and has a limit of memory.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

from msgspec import Struct, msgpack

from ykactor.access.view import View
from ykactor.core.records.base import decode_base, partition_from
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import ANY
from ykactor.core.values.parts import finished
from ykactor.sim.dry_run import dry_run
from ykactor.wire.rest.codec import encode
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

#: The bytes and the CPU seconds that the process may have, also without the daemon, and how much nicer it is.
MEMORY_MAX = 2**30
CPU_MAX_S = 30
NICE = 10


class Trial(Struct, frozen=True):
    """New work, and what it is tried on.

    Attributes:
        begin_ns: the Unix time at which all of it is sent.
        seconds: how long it is tried.
        bases: of the partitions.
        run_seconds: how long asks run, by their positions.
        queues: those that a limited reader sees, as of ``View``; None: all.
    """

    begin_ns: int
    seconds: float
    bases: Mapping[PartitionName, bytes]
    applications: si.ApplicationRequest
    asks: si.AllocationRequest
    run_seconds: Mapping[int, float]
    queues: tuple[str, ...] | None = None


def tried(data: bytes) -> bytes:
    """The answer to a trial, both encoded; for a process of its own."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MAX_S, CPU_MAX_S))
    return answer(msgpack.decode(data, type=Trial))


def answer(trial: Trial) -> bytes:
    """The answer to a trial."""

    def fork() -> dict[PartitionName, Cores]:
        return {name: finished(partition_from(decode_base(base))) for name, base in trial.bases.items()}

    asks = TimedRequest(0, trial.asks, run_seconds=dict(trial.run_seconds))
    scenario = Scenario("", "", trial.seconds, messages=[TimedRequest(0, trial.applications), asks])
    # Whether asks reserve nodes is for partitions that a configuration adds, and there is none: bases say it themselves.
    sight = None if trial.queues is None else View(ANY, frozenset(trial.queues))
    return encode(dry_run(fork, scenario, trial.begin_ns, sight, reserves=True))
