"""The metrics that Apache YuniKorn does not have."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from ykactor import __version__
from ykactor.access.model import Role
from ykactor.actors.durations import TurnTimes
from ykactor.actors.feed import FeedActor
from ykactor.actors.gateway import ReadGateway
from ykactor.actors.journal import Journal
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.subscription import Subscription
from ykactor.core.inspection.process_status import StandbysStatus
from ykactor.core.messages.kinds import OF_NODES, AboveMaxCause, PendingCode
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps
from ykactor.core.values.times import S_NS
from ykactor.surfaces.metrics.exposition import Exposition, labels
from ykactor.surfaces.metrics.fact_counts import COUNTERS, FactCounts
from ykactor.surfaces.metrics.instruments import LoopHolds, SessionCounts
from ykactor.surfaces.metrics.reading import REASONS, PartitionFigures
from ykactor.surfaces.metrics.series import NAMES_MAX, ZEROS_MAX

#: The codes of AP-154.
WAITED_FOR = tuple(code for code in PendingCode if code not in OF_NODES)
#: Queues above their max that have series of their own.
ABOVE_MAX = 100


class Working(Protocol):
    """A partition that runs turns."""

    @property
    def cycles(self) -> int: ...
    @property
    def times(self) -> TurnTimes: ...


class Following(Protocol):
    """The progress of a replica.

    Attributes:
        is_connected: whether it has a connection to it.
        turns, mismatches: how many turns it has run, and how many of them were decided otherwise.
        lag_s: how long after the daemon the last one was run, in seconds; None before the first one.
    """

    @property
    def is_connected(self) -> bool: ...
    @property
    def turns(self) -> int: ...
    @property
    def mismatches(self) -> int: ...
    @property
    def lag_s(self) -> float | None: ...


def add_build(to: Exposition) -> None:
    """Add what runs."""
    build = to.gauge("ykactor_build_info", "Always 1; the labels say what runs.")
    build.add(1, labels(version=__version__, python=platform.python_version()))


def add_partitions(to: Exposition, actors: Mapping[PartitionName, Working]) -> None:
    """Add how partitions work."""
    cycles = to.counter("ykactor_cycles_total", "Cycles: attempts to place what is pending.")
    phases = to.histogram("ykactor_turn_phase_seconds", "Time of the phases of turns; other tasks may have run meanwhile.")
    for name, actor in actors.items():
        of_partition = labels(partition=name)
        cycles.add(actor.cycles, of_partition)
        for phase, times in actor.times.phases.items():
            phases.add_histogram(times.histogram, f'{of_partition},phase="{phase}"')


def add_waiting(to: Exposition, figures: Sequence[PartitionFigures]) -> None:
    """Add why asks are pending."""
    waiting = to.gauge("ykactor_pending_asks", "Pending asks by what they wait for.")
    for partition in figures:
        for reason in REASONS:
            waiting.add(partition.waiting[reason], labels(partition=partition.name, reason=reason))


def add_waited(to: Exposition, figures: Iterable[PartitionFigures], counts: FactCounts) -> Steps[None]:
    """Add for how long the asks of leaves, also of those that are gone, have waited for what."""
    waited = to.counter("ykactor_wait_seconds_total", "Time that asks have waited for something, when their wait has ended.")
    paths = (path for partition in figures for path, queue in partition.queues.items() if queue.is_leaf)
    leaves = [path for path in paths if counts.has_own_waits(path)]
    zeros = dict.fromkeys(WAITED_FOR, 0) if len(leaves) * len(WAITED_FOR) <= ZEROS_MAX else {}
    for path in dict.fromkeys([*counts.waited, *leaves]):  # a copy: more may end during a pause
        for code, ns in (zeros | counts.waited.get(path, Counter())).items():
            waited.add(ns / S_NS, labels(queue=path, code=code))
        yield len(WAITED_FOR)


def add_above_max(to: Exposition, figures: Sequence[PartitionFigures]) -> None:
    """Add how far queues are above their max, and what keeps them there; of the first ``ABOVE_MAX`` queues by how much."""
    queues = to.gauge("ykactor_queues_above_max", "Queues that use more than their max, by what keeps them there.")
    for partition in figures:
        causes = Counter(found.cause for found in partition.above_max.values())
        for cause in AboveMaxCause:
            queues.add(causes[cause], labels(partition=partition.name, cause=cause))
    amounts = to.gauge("ykactor_queue_above_max", "How much a queue uses above its max, in base units.")
    every = [(partition.name, *entry) for partition in figures for entry in partition.above_max.items()]
    for name, path, found in every[:ABOVE_MAX]:
        for resource, amount in islice(found.amounts.items(), NAMES_MAX):
            amounts.add(amount, labels(partition=name, queue=path, resource=resource, cause=found.cause))


def add_counts(to: Exposition, counts: FactCounts, queues_count: int) -> None:
    """Add what is counted of facts.

    Args:
        queues_count: the queues that there are.
    """
    to.histogram("ykactor_ask_wait_seconds", "Time from the creation of asks to their placement.").add_histogram(counts.waits)
    for name, metric in COUNTERS.items():
        family = to.counter(f"ykactor_{name}_total", metric.meaning)
        for value, count in counts.counters[name].items():
            family.add(count, f'{metric.label}="{value}"')
    refused = to.counter("ykactor_preemptions_refused_total", "Preemptions that would have closed a preemption cycle.")
    refused.add(counts.refused_preemptions)
    without = max(0, queues_count - counts.queues.queues_max)
    to.gauge("ykactor_metrics_queues_other", "Queues that share the series of the queue other.").add(without)


def add_actors(to: Exposition, gateway: ReadGateway) -> None:
    """Add mailboxes, the feed and the journal."""
    waiting = to.gauge("ykactor_mailbox_messages", "Messages that are not taken yet.")
    senders = to.gauge("ykactor_mailbox_senders_waiting", "Tasks that wait for room.")
    mailboxes: list[Mailbox[Any]] = [gateway.feed.inbox, *gateway.partitions.values()]
    for mailbox in mailboxes:
        own = labels(mailbox=mailbox.name)
        waiting.add(mailbox.messages_waiting(), own)
        senders.add(mailbox.senders_waiting(), own)
    _add_feed(to, gateway.feed)
    if gateway.feed.journal is not None:
        _add_journal(to, gateway.feed.journal)


def _add_feed(to: Exposition, feed: FeedActor) -> None:
    behind = [each.behind for each in feed.fan_out.waiting if isinstance(each, Subscription)]
    ring = feed.ring
    to.gauge("ykactor_feed_last_event", "Number of the newest event.").add(ring.sequence)
    to.gauge("ykactor_feed_events_not_durable", "Events that nobody may read yet.").add(ring.sequence - ring.durable)
    to.gauge("ykactor_feed_subscribers", "Followers that wait for events.").add(len(behind))
    slowest = to.gauge("ykactor_feed_slowest_subscriber_events", "Events that the slowest follower has not been sent.")
    slowest.add(max(behind, default=0))


def _add_journal(to: Exposition, journal: Journal) -> None:
    name = "ykactor_journal_"
    events_count, messages_count, size = journal.waiting()
    to.histogram(f"{name}commit_seconds", "Time until what was written was durable.").add_histogram(journal.commit_times)
    to.gauge(f"{name}waiting_events", "Events that are not durable.").add(events_count)
    to.gauge(f"{name}waiting_messages", "Messages to the resource manager that are not durable.").add(messages_count)
    to.gauge(f"{name}waiting_bytes", "Bytes that are not durable.").add(size)
    to.gauge(f"{name}has_room", "1 if input is taken, 0 if it waits for the disk.").add(int(journal.has_room))
    to.gauge(f"{name}stalled", "1 if the journal cannot be written, as on a full disk.").add(int(journal.stalled is not None))
    to.counter(f"{name}written_bytes_total", "History that was written, not compressed.").add(journal.history.written)
    if journal.tidied_ns is not None:
        tidied = to.gauge(f"{name}tidied_timestamp_seconds", "Unix time of the last checkpoint or deletion of old history.")
        tidied.add(journal.tidied_ns / S_NS)


def add_standbys(to: Exposition, standbys: StandbysStatus) -> None:
    """Add how far the standbys are; those of one identity on one machine are one, as far as the last of them."""
    to.gauge("ykactor_standbys_wanted", "How many standbys have to have everything.").add(standbys.wanted)
    alone = to.gauge("ykactor_standbys_missed_timestamp_seconds", "Unix time since when too few have everything; or 0.")
    alone.add(standbys.alone_since / S_NS)
    counts = to.gauge("ykactor_standby_counts", "1 if the standby has everything on its disk.")
    behind = to.gauge("ykactor_standby_behind_transactions", "Transactions that the standby does not have.")
    behind_s = to.gauge("ykactor_standby_behind_seconds", "The age of the oldest transaction that the standby does not have.")
    last = sorted(standbys.connected, key=lambda standby: standby.behind)
    for (name, host), standby in {(each.name, each.host): each for each in last}.items():
        own = labels(standby=name, host=host)
        counts.add(int(standby.counts), own)
        behind.add(standby.behind, own)
        behind_s.add(standby.behind_seconds, own)


def add_loop(to: Exposition, loop: LoopHolds) -> None:
    """Add for how long nobody else was served."""
    to.histogram(
        "ykactor_loop_hold_seconds", "How late a timer was: for so long the event loop has served nobody."
    ).add_histogram(loop.holds)
    to.gauge("ykactor_loop_hold_max_seconds", "The longest of them in the last one or two minutes.").add(loop.longest_s())


def add_sessions(to: Exposition, counts: SessionCounts) -> None:
    """Add who is connected, and how often somebody had to wait."""
    family = to.gauge("ykactor_connections", "Websocket connections by role.")
    for role in (Role.RM, Role.OPERATOR, Role.READER, Role.REPLICA):
        family.add(counts.open[role], labels(role=role))
    to.counter("ykactor_session_waits_total", "How often a websocket was not read because of its limits.").add(counts.waits)


def add_following(to: Exposition, following: Following) -> None:
    """Add how a replica follows its daemon."""
    name = "ykactor_replica_"
    to.gauge(f"{name}connected", "1 if the replica is connected to its daemon.").add(int(following.is_connected))
    to.counter(f"{name}turns_total", "Turns of the daemon that the replica has run.").add(following.turns)
    to.counter(f"{name}mismatches_total", "Turns that the replica has decided otherwise.").add(following.mismatches)
    lag = to.gauge(f"{name}lag_seconds", "How long after the daemon the replica has run the last turn.")
    if following.lag_s is not None:
        lag.add(following.lag_s)


def add_certificate(to: Exposition, expires_s: float) -> None:
    """Add when the certificate of the daemon expires."""
    to.gauge("ykactor_tls_certificate_expiry_timestamp_seconds", "Unix time at which the certificate expires.").add(expires_s)
