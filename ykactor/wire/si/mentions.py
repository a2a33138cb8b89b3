"""The objects that an event is about, by their names."""

from collections.abc import Iterable, Iterator

from ykactor.wire.si.messages import EventRecord, Preemption

#: The type of the events of the audit, which are also about the audit itself: so it is found by this name.
AUDIT = "AUDIT"


def mentioned(events: Iterable[EventRecord]) -> set[str]:
    """The names of all objects that some events are about.

    An event is about its object, its reference, its queue and all queues above it. A preemption is also about its node, its
    victims, and their applications and queues. One of the audit is also about ``AUDIT``.

    Cost: 0.2 us for each event.
    """
    names: set[str] = set()
    paths: set[str] = set()
    for event in events:
        names.add(event.object_id)
        names.add(event.reference_id)
        paths.add(event.queue_name)
        if event.preemption is not None:
            names.update(_preempted(event.preemption))
            paths.update(victim.queue_name for victim in event.preemption.victims)
        if event.type == AUDIT:
            names.add(AUDIT)
    for path in paths:
        while path:
            names.add(path)
            path = path.rpartition(".")[0]
    names.discard("")
    return names


def _preempted(entry: Preemption) -> Iterator[str]:
    yield entry.node_id
    for victim in entry.victims:
        yield victim.allocation_key
        yield victim.application_id
