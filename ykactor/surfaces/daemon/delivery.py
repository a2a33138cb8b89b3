"""The delivery of the facts of a turn: as events, lines of the log, counts, and messages to the resource manager."""

from __future__ import annotations

import logging

from ykactor.actors.outbox import OutboxRegistry
from ykactor.core.messages.facts import ConfigurationChanged, Fact
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.wire.si.codec import Encoding
from ykactor.wire.si.events import events, mentioned
from ykactor.wire.si.responses import responses

log = get_logger(__name__)

#: The number of changes of one configuration that are logged one by one.
CHANGES_LOGGED_MAX = 200


def _log_changes(partition: PartitionName, facts: list[Fact]) -> None:
    """Log what a new configuration changes in a partition, if the facts tell of one: at most ``CHANGES_LOGGED_MAX`` changes."""
    for fact in facts:  # 20 ns each, nothing beside making their events
        if type(fact) is ConfigurationChanged:
            for change in fact.changes[:CHANGES_LOGGED_MAX]:
                log_event(log, logging.INFO, "config_change", partition=partition, change=change)
            if len(fact.changes) > CHANGES_LOGGED_MAX:
                more = len(fact.changes) - CHANGES_LOGGED_MAX
                log_event(log, logging.INFO, "config_change", partition=partition, change=f"and {more} more")


class Delivery:
    """Makes events of facts, and logs, counts and delivers facts (``actors.feed.Delivery``)."""

    render = staticmethod(events)
    mentioned = staticmethod(mentioned)

    def __init__(self, instruments: Instruments, outboxes: OutboxRegistry[Encoding]) -> None:
        self._instruments = instruments
        self._outboxes = outboxes

    def deliver(self, partition: PartitionName, facts: list[Fact]) -> None:
        """Log and count facts, and post what a resource manager is told of them."""
        _log_changes(partition, facts)
        self._instruments.facts.count(partition, facts)
        if self._outboxes.current is not None:
            self._outboxes.deliver(responses(facts, partition))
