"""What a reader sees that is limited to queues or partitions (SE-80 to SE-86).

``view_of`` makes the ``View`` of an identity; its ``of_event`` and ``of_state`` say what is shown of an event and of the state
of a partition.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from msgspec import Struct

from ykactor.access.event_rules import IN_PARTITION, IN_QUEUE, OUT_OF_QUEUES, Rules
from ykactor.access.model import Identity, is_below
from ykactor.access.state_cut import cut, place_in_view
from ykactor.core.messages.pending_causes import PendingCause
from ykactor.core.messages.reasons import without_others
from ykactor.core.values.names import Names
from ykactor.core.values.parts import Pausing
from ykactor.core.values.resources import Resource
from ykactor.wire.si.messages import EventRecord

#: Places of which a view remembers what it shows there; more take 1 us for each event.
_PLACES_MAX = 10_000


class View(Struct, frozen=True, dict=True):
    """What is shown of events and states. Equal views show the same.

    Attributes:
        partitions: in lower case.
        queues: in lower case; these and what is below, and nothing that is in no queue. None: all of the partitions.
    """

    partitions: Names
    queues: frozenset[str] | None

    def of_event(self, event: EventRecord) -> EventRecord | None:
        """The event itself, a new one with less in it, or None: the event is hidden. Cost: 0.3 us for nearly all."""
        place = event.partition, event.queue_name
        rules = self._rules.get(place)
        if rules is None:
            rules = self._remember(*place)
        rule = rules.get((event.type, event.event_change_detail))
        return None if rule is None else rule(self, event)

    def of_state(self, state: dict[str, Any]) -> Pausing[dict[str, Any]]:
        """What is shown of the state of a partition, which has to be one that is shown; ``state`` stays as it is."""
        if self.queues is None:
            return state
        return (yield from cut(state, self.shows_queue))

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """Why an ask is pending that wants so much, base units, as far as it is shown (SE-84)."""
        place = None if cause.place is None else place_in_view(cause.place, self.shows_queue)
        return without_others(cause.code, place, wanted, cause.left_out)

    def shows_partition(self, partition: str) -> bool:
        """Whether anything of the partition is shown."""
        return partition.lower() in self.partitions

    def shows_queue(self, queue: str) -> bool:
        """Whether the queue is shown, a path in lower case, where its partition is; "" stands for what is in no queue."""
        return self.queues is None or is_below(queue, self.queues)

    def _remember(self, partition: str, queue: str) -> Rules:
        if len(self._rules) >= _PLACES_MAX:
            self._rules.clear()
        rules = self._rules[partition, queue] = self._find_rules(partition, queue)
        return rules

    def _find_rules(self, partition: str, queue: str) -> Rules:
        if not self.shows_partition(partition):
            return {}
        if self.queues is None:
            return IN_PARTITION
        return IN_QUEUE if self.shows_queue(queue) else OUT_OF_QUEUES

    @cached_property
    def _rules(self) -> dict[tuple[str, str], Rules]:
        """By partition and queue."""
        return {}


def view_of(identity: Identity) -> View | None:
    """What the identity sees as a reader; None: everything."""
    if identity.queues is None and identity.partitions.is_any:
        return None
    return View(identity.partitions, identity.queues)
