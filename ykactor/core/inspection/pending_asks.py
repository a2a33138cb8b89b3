"""All pending asks of a partition by their keys, which a snapshot has on request: it otherwise names the first few of a group."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ykactor.core.messages.asks import Ask
from ykactor.core.queueing.equivalence import HAS_NODE
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Pace, Pausing, in_parts


def pending_asks(state: SchedulerState) -> Pausing[dict[str, Any]]:
    """The keys of all pending asks and when each was created (Unix ns), in numbered parts, each of one application."""
    found: dict[str, Any] = {}
    pace = Pace()
    for waiting in state.applications.values():
        for asks in in_parts(_asks_of(waiting)):
            found[str(len(found))] = {
                "applicationID": waiting.application_id,
                "allocationKeys": [ask.spec.allocation_key for ask in asks],
                "creationTimes": [ask.created_ns for ask in asks],
            }
            if pace.is_due(len(asks)):
                yield ()
    return found


def _asks_of(waiting: PendingApplication) -> Iterator[Ask]:
    """Those in queues, those that wait for placeholders, and those that a node is reserved for."""
    queues = (queue for queue in waiting.queues.values() if queue.key[1] != HAS_NODE)
    held = waiting.gang.held if waiting.gang is not None else ()
    return chain(chain.from_iterable(queues), held, waiting.reserving.values())
