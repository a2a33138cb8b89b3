"""Reports for owners of pending asks and applications: that quotas hold them back, and when that ends (EV-12, EV-71).

The walk tries an equivalence class once for all its members, so the result holds for each of them. It is reported when nothing
else is left to decide, a bounded number at a time: no placement is delayed by reports, and a result that held only for a moment
is not reported. That an ask fits is reported at once when it is placed or gets a reservation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from ykactor.core.messages import conditions
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import AskCondition, Fact, RunnableChanged
from ykactor.core.messages.kinds import Gate
from ykactor.core.queueing.equivalence import HELD_BY_LIMIT, HELD_BY_QUEUE, OVER_LIMIT, OVER_QUOTA, AskQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.queueing.tree import QueueNode, QueueTree
from ykactor.core.queueing.waiting_classes import WaitingGroup
from ykactor.core.quota import headroom
from ykactor.core.quota.limits import Tracker
from ykactor.core.values.parts import Steps

#: The most facts that one plan reports (about 3 us each, with their events).
CONDITIONS_MAX = 256

#: The most classes that one plan rechecks, and the cost of each in units of looking at one node (about 1 us against 0.2).
LOOKS_MAX = 500
_LOOK_WORK = 5

#: Watched classes before empty ones are searched for and dropped.
_CLEANUP_SIZE = 1000

_GATES = {HELD_BY_QUEUE: Gate.QUEUE, HELD_BY_LIMIT: Gate.QUOTA}
_HELD = HELD_BY_QUEUE | HELD_BY_LIMIT


class QuotaReports:
    """Keeps the applications that may have something to report, and reports it.

    Each application notes in which of its ask queues (``unreported``), and what was last reported of it.
    """

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        self._news: dict[PendingApplication, QueueNode] = {}
        #: Parked classes that quotas may hold back further when others use more; the walk does not try them again for that.
        #: Each has its leaf and the moment when it was last checked, in this order. Classes that wait for a node are watched
        #: by group.
        self._watched: OrderedDict[AskClass | WaitingGroup, tuple[QueueNode, int]] = OrderedDict()
        self._moment = 0
        self._cleanup_size = _CLEANUP_SIZE
        self._usage_grew = False
        #: True if the last report has offered classes again.
        self._has_woken = False

    def has_news(self) -> bool:
        """True if there may be something to decide or to report. Begins a new moment if usage has grown (see ``_now``)."""
        return self._has_woken or bool(self._news) or self._next_watched() is not None

    # ---- what has to be checked

    def usage_grew(self) -> None:
        """Note that more is in use: quotas may hold back what they did not hold back before."""
        self._usage_grew = True

    def note(self, leaf: QueueNode, application: PendingApplication) -> None:
        """Note that some ask queues of the application may be ``unreported``."""
        self._news[application] = leaf

    def forget(self, application: PendingApplication) -> None:
        """Forget an application that has left, with all its asks."""
        self._news.pop(application, None)

    def note_class(self, leaf: QueueNode, ask_class: AskClass) -> None:
        """Note which quotas hold back a class that was tried and is parked. O(1) if these are the same as the last time."""
        self._note_answer(leaf, ask_class)
        self._watch(leaf, ask_class)

    def _watch(self, leaf: QueueNode, ask_class: AskClass) -> None:
        """Watch a class that was checked at the present moment, if quotas may hold it back further."""
        self._watched.pop(ask_class, None)
        if not ask_class or not _may_worsen(ask_class):
            return
        if ask_class.waits_at is not None:
            self._watched.setdefault(leaf.applications.waiting.groups[ask_class.key[2]], (leaf, self._now()))
            return
        self._watched[ask_class] = leaf, self._now()
        if len(self._watched) > self._cleanup_size:
            for empty in [watched for watched in self._watched if not watched]:
                del self._watched[empty]
            self._cleanup_size = max(_CLEANUP_SIZE, 2 * len(self._watched))

    def _now(self) -> int:
        """The present moment: a counter that is increased if usage has grown since it was last read."""
        self._moment += self._usage_grew
        self._usage_grew = False
        return self._moment

    def forget_all_classes(self) -> None:
        """Stop watching: all orders are about to be rebuilt."""
        self._watched.clear()

    def forget_classes(self, leaf: QueueNode) -> None:
        """Stop watching the classes of a leaf, whose order is about to be rebuilt. O(classes)."""
        for ask_class in leaf.applications.classes.values():
            self._watched.pop(ask_class, None)
        for group in leaf.applications.waiting.groups.values():
            self._watched.pop(group, None)

    def watched(self) -> list[tuple[AskClass | WaitingGroup, QueueNode]]:
        """The classes and groups that are rechecked when usage grows, with their leaves."""
        return [(watched, leaf) for watched, (leaf, _) in self._watched.items()]

    def _note_answer(self, leaf: QueueNode, ask_class: AskClass) -> None:
        answer = self._answer(leaf, ask_class)
        if answer != ask_class.answer:
            ask_class.answer = answer
            for application in ask_class.places():
                queue = application.queues.get(ask_class.key[0])
                if queue is not None:
                    application.unreported[queue] = None
                    self._news[application] = leaf

    def _next_watched(self) -> AskClass | WaitingGroup | None:
        """The class or group that was checked longest ago, if that was before the present moment."""
        watched = next(iter(self._watched), None)
        return watched if watched is not None and self._is_old(watched) else None

    def _is_old(self, watched: AskClass | WaitingGroup) -> bool:
        """True if the class or group is watched and was last checked before the present moment."""
        known = self._watched.get(watched)
        return known is not None and known[1] != self._now()

    def _recheck_group(self, group: WaitingGroup) -> None:
        """Check a group whose classes have waited for a node: others use more, so quotas may hold back some of them."""
        leaf, _ = self._watched.pop(group)
        for ask_class in reversed(group.short()):
            leaf.applications.park_if_waiting(ask_class)
            self._watched[ask_class] = leaf, 0
            self._watched.move_to_end(ask_class, last=False)  # others may have been checked in this moment
        if group:
            self._watched[group] = leaf, self._now()

    def _recheck(self, ask_class: AskClass) -> None:
        """Check a class that has waited for a node or another quota: others use more, so a quota may hold it back."""
        self._tree.effort.spent += _LOOK_WORK
        leaf, _ = self._watched[ask_class]
        if ask_class and ask_class.parked:
            application, shape = ask_class.head(), ask_class.key[0][0]
            short = application.slot_shortage() or application.shortage(shape)
            if short is not None and ask_class.shortage is None and shape[3]:
                self._wake(leaf, ask_class)
                return
            if short is not None:
                leaf.applications.found_short(ask_class, headroom.shortage_code(short))
            ask_class.shortage = short or ask_class.shortage
            self._note_answer(leaf, ask_class)
        self._watch(leaf, ask_class)

    def _wake(self, leaf: QueueNode, ask_class: AskClass) -> None:
        """Offer a class again that has waited for answers about nodes, and so has not tried to preempt (SC-154)."""
        del self._watched[ask_class]
        leaf.applications.wake(ask_class)
        self._tree.wake(leaf)
        self._has_woken = True

    def _answer(self, leaf: QueueNode, ask_class: AskClass) -> int:
        if ask_class.shortage is None:
            return 0
        short, name = ask_class.shortage
        if name:
            return OVER_LIMIT if isinstance(short, Tracker) else OVER_QUOTA
        application = ask_class.head()
        queue_is_full = any(queue.lacks_slot(application.application_id) for queue in leaf.path_up)
        limit_is_reached = any(tracker.lacks_slot(application.application_id) for tracker in application.trackers)
        return queue_is_full * HELD_BY_QUEUE | limit_is_reached * HELD_BY_LIMIT

    # ---- reporting

    def fits(self, now_ns: int, leaf: QueueNode, application: PendingApplication, ask: Ask) -> list[Fact]:
        """The facts to report when quotas have room for an ask that is about to be placed or to get a reservation."""
        report = _Report(now_ns, leaf, application)
        if application.held:
            report.hold(0)
        queue = application.asks[ask.allocation_key][1]
        if queue is not None and queue.notified is not None:
            before = queue.notified.drop(ask)
            queue.notified.add(ask)
            if before:
                report.conditions(queue, before, 0, [ask])
        return report.facts

    def report(self, now_ns: int) -> Steps[list[Fact]]:
        """Report what has changed for pending asks and applications; to be called when nothing can be placed.

        Returns: about ``CONDITIONS_MAX`` facts at most; there may be more while ``has_news``.
        """
        self._has_woken = False
        for _ in range(LOOKS_MAX):
            watched = self._next_watched()
            if watched is None:
                break
            if isinstance(watched, WaitingGroup):
                self._recheck_group(watched)
            else:
                self._recheck(watched)
        facts: list[Fact] = []
        for application, leaf in list(self._news.items()):
            yield 1
            self._report_application(_Report(now_ns, leaf, application, facts))
            if len(facts) >= CONDITIONS_MAX:
                break
            del self._news[application]
        return facts

    def _report_application(self, report: _Report) -> None:
        application = report.application
        queues = sorted(application.unreported, key=lambda queue: queue.number)
        for queue in queues:  # check all of them first: each class says whether the application is held
            if queue.ask_class is not None and self._is_old(queue.ask_class):
                self._recheck(queue.ask_class)
        for queue in queues:
            ask_class = queue.ask_class
            if ask_class is None or not ask_class.parked or ask_class.answer is None:
                continue
            held = ask_class.answer & _HELD
            if held != application.held:
                report.hold(held)
            if not held:
                report.asks(queue, ask_class.answer)
            if len(report.facts) >= CONDITIONS_MAX:
                break
            del application.unreported[queue]


def _may_worsen(ask_class: AskClass) -> bool:
    """True if a quota that does not hold the class back now may do so later, and would be reported instead or in addition."""
    answer, (_, slots_needed, trackers, _) = ask_class.answer or 0, ask_class.key
    if not answer or (answer == OVER_QUOTA and trackers):
        return True
    return bool(slots_needed) and answer & _HELD != _HELD


class _Report:
    """Facts about one application and its asks, added to ``facts``."""

    __slots__ = ("application", "facts", "leaf", "now_ns")

    def __init__(self, now_ns: int, leaf: QueueNode, application: PendingApplication, facts: list[Fact] | None = None) -> None:
        self.now_ns = now_ns
        self.leaf = leaf
        self.application = application
        self.facts: list[Fact] = [] if facts is None else facts

    def hold(self, held: int) -> None:
        """Report by which of the bits ``HELD_BY_QUEUE`` and ``HELD_BY_LIMIT`` the application is held now."""
        application = self.application
        changed = application.report_held(held)
        for gate, name in _GATES.items():
            if changed & gate:
                can_run = not held & gate
                self.facts.append(RunnableChanged(self.now_ns, application.application_id, self.leaf.path, name, can_run))

    def asks(self, queue: AskQueue, answer: int) -> None:
        """Report the asks of a queue of which something else was last reported; ``answer`` is that of their class."""
        if queue.notified is None and not answer:
            return
        notified = self.application.report_asks(queue)
        for before, asks in enumerate(notified.asks):
            # an ask over a limit is not checked against the queue (SC-148)
            after = before | OVER_LIMIT if answer == OVER_LIMIT else answer
            if after != before and asks:
                moving = list(islice(asks.values(), max(0, CONDITIONS_MAX - len(self.facts))))
                notified.report(moving, before, after)
                self.conditions(queue, before, after, moving)

    def conditions(self, queue: AskQueue, before: int, after: int, asks: Iterable[Ask]) -> None:
        """Report that the bits of these asks of ``queue`` changed; limits of users and groups come first (QU-39)."""
        endings, wanted, leaf = [], dict(queue.needs), self.leaf
        if (before ^ after) & OVER_LIMIT:
            free = headroom.left_to(self.application.trackers)
            endings.append(conditions.over_limit(wanted, free) if after & OVER_LIMIT else conditions.WITHIN_LIMIT)
        if (before ^ after) & OVER_QUOTA:
            free = headroom.left_to(leaf.path_up, is_pinned=queue.required_node is not None)
            is_over = after & OVER_QUOTA
            endings.append(conditions.over_quota(leaf.path, wanted, free) if is_over else conditions.within_quota(leaf.path))
        for ask in asks:
            for ending in endings:
                message = conditions.of_request(ask.allocation_key, ending)
                self.facts.append(AskCondition(self.now_ns, ask, leaf.path, message))
