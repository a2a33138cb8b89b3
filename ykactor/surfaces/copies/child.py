"""The process that answers questions from copies of partitions: it is nicer than the daemon, and may take little."""

from __future__ import annotations

import os
import resource

from msgspec import msgpack

from ykactor.core.records.base import decode_base, partition_from
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.surfaces.copies import changes, dry_runs
from ykactor.surfaces.copies.questions import MEMORY_MAX, NewWork, Question

#: The CPU seconds that the process may have, also without the daemon, and how much nicer it is.
CPU_MAX_S = 30
NICE = 10


def answer(data: bytes) -> bytes:
    """The answer to a question with the bases of partitions."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MAX_S, CPU_MAX_S))
    question, bases = msgpack.decode(data, type=tuple[Question, dict[PartitionName, bytes]])

    def fork() -> dict[PartitionName, Cores]:
        return {name: finished(partition_from(decode_base(base))) for name, base in bases.items()}

    if isinstance(question, NewWork):
        return msgpack.encode(dry_runs.answer(question, fork))
    return msgpack.encode(changes.answer(question, fork))
