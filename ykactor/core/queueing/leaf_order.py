"""The order of the applications in a leaf (PR-73): the keys of the policies, and the filter of ``stateaware``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ykactor.core.config.model import QueueConfig
from ykactor.core.config.properties import SORT_POLICIES
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.states import ApplicationState
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue, ClassKey, EquivalenceClass, SchedulingQueue, Turns, class_name
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.queueing.waiting_classes import OpenedNodes, WaitingClasses
from ykactor.core.queueing.waits import CodeHistory, Waits
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.resources import Resource
from ykactor.core.values.sorted_list import SortedList, SortKey

_STARTING, _ACCEPTED, _FAILING = ApplicationState.STARTING, ApplicationState.ACCEPTED, ApplicationState.FAILING
_NEXT, _HELD, _NODES = PendingCode.NEXT, PendingCode.HELD, PendingCode.NODES


def usage_key(allocated: Resource, guaranteed: Resource | None) -> tuple[float, ...]:
    """The usage of PR-74 as a sortable tuple: shares of the guarantee, or plain amounts without one, largest first.

    Zeros are left out and one 0.0 is appended, so that the shorter of two tuples compares as if it were filled up with zeros.
    (Negative amounts would break this; what is allocated is never negative.)
    """
    if guaranteed:
        usage = [
            float(amount) / float(guaranteed[name]) if guaranteed.get(name) else float(amount)
            for name, amount in allocated.items()
            if amount
        ]
    else:
        usage = [float(amount) for amount in allocated.values() if amount]
    usage.sort(reverse=True)
    return *usage, 0.0


def by_age(application: PendingApplication, rank: int, guaranteed: Resource | None, by_priority: bool) -> SortKey:
    """The oldest application first (PR-73)."""
    age, arrival = application.submission_ns, application.arrival
    return (rank, age, arrival) if by_priority else (age, rank, arrival)


def by_usage(application: PendingApplication, rank: int, guaranteed: Resource | None, by_priority: bool) -> SortKey:
    """The application that uses least first (PR-74)."""
    age, arrival = application.submission_ns, application.arrival
    real = application.real_usage() if application.reserved else application.allocated
    usage = usage_key(real, guaranteed)
    return (rank, usage, age, arrival) if by_priority else (usage, rank, age, arrival)


#: The place of an application in the order of its leaf, by policy; ``rank`` is that of its priority.
KEYS: dict[str, Callable[[PendingApplication, int, Resource | None, bool], SortKey]] = {
    "fifo": by_age,
    "fair": by_usage,
    "stateaware": by_age,
}


class LeafOrder:
    """The applications of one leaf in the order of its policy, grouped in equivalence classes.

    Under ``stateaware`` the applications that are Starting or Accepted are kept back in one list for each state, and only one of
    them is in classes (PR-75): the first Starting one or, while no application is Starting, with or without pending asks, the
    first Accepted one.
    """

    __slots__ = (
        "_ask_classes",
        "_backs_off",
        "_chosen",
        "_classes_made",
        "_generation",
        "_guaranteed",
        "_keeps_back",
        "_kept_back",
        "_key",
        "_path",
        "_places",
        "_repositioned",
        "_sorts_by_priority",
        "_sorts_by_usage",
        "_starting",
        "_stuck",
        "_waits",
        "classes",
        "untried_code",
        "waiting",
    )

    def __init__(self, config: QueueConfig, waits: Waits) -> None:
        self._path = config.path
        self._waits = waits
        #: What classes wait for that were not tried yet.
        self.untried_code = _NEXT
        self._guaranteed = config.guaranteed
        self._backs_off = config.properties.backoff_count > 0
        policy = SORT_POLICIES[config.properties.sort_policy]
        self._key = KEYS[config.properties.sort_policy]
        self._sorts_by_usage = policy.by_usage
        self._sorts_by_priority = config.properties.sort_by_priority
        self._keeps_back = policy.one_starts
        self.classes: dict[ClassKey, AskClass] = {}
        self._classes_made = 0
        self._ask_classes: SchedulingQueue[AskClass] = SchedulingQueue()
        #: The classes that wait for a node.
        self.waiting = WaitingClasses()
        self._generation = 0
        #: Classes that are stuck in this generation, and ask queues that are not at the position of their first ask.
        self._stuck: list[AskClass] = []
        self._repositioned: list[tuple[PendingApplication, AskQueue]] = []
        self._kept_back = {state: SortedList[PendingApplication]() for state in (_STARTING, _ACCEPTED)}
        self._places: dict[ApplicationID, tuple[ApplicationState, SortKey]] = {}
        self._starting: set[ApplicationID] = set()
        self._chosen: PendingApplication | None = None

    # ---- the next class

    def first(self, generation: int, opened: OpenedNodes[Any]) -> PendingApplication | None:
        """The head of the first class that is not parked; None if all are parked.

        Args:
            generation: parked classes are offered again if it has changed, those that wait for a node only if one ``opened``.
        """
        if generation != self._generation:
            self._generation = generation
            self._wake(opened)
        while True:
            first = self._ask_classes.first()
            if self.waiting.nodes:
                waiting = self.waiting.first(None if first is None else first.turn())
                if waiting is not None:
                    self.wake(waiting)
                    continue
            if first is None:
                return None
            application = first.head()
            assert first.sort_key is not None
            if first.sort_key[0] == application.sort_key:
                return application
            first.put(application)
            self._reorder(first)

    def _wake(self, opened: OpenedNodes[Any]) -> None:
        self._release()
        for ask_class in self.waiting.look(opened):
            self.wake(ask_class)
        for ask_class in self._ask_classes.wake_all():
            self._offer(ask_class)

    def park(self, ask_class: AskClass) -> None:
        """Do not offer a class until the generation changes."""
        self._ask_classes.park(ask_class)
        self._offer(ask_class)

    def wait(self, ask_class: AskClass) -> None:
        """Do not offer a class until a node opened for it. A leaf with back-off tries its classes whenever something grew."""
        if self._backs_off:
            self.park(ask_class)
            return
        self._ask_classes.park(ask_class, is_woken_alone=True)
        self.waiting.add(ask_class)
        self._offer(ask_class)

    def wake(self, ask_class: AskClass) -> None:
        """Offer a class again."""
        self.waiting.remove(ask_class)
        self._ask_classes.wake(ask_class)
        self._offer(ask_class)

    def park_if_waiting(self, ask_class: AskClass) -> None:
        """Park a class that has waited for a node: a quota holds it back now."""
        if ask_class.waits_at is not None:
            self.wake(ask_class)
            self.park(ask_class)

    def queued_applications(self) -> list[PendingApplication]:
        """All applications that are in a class."""
        return list(dict.fromkeys(application for ask_class in self.classes.values() for application in ask_class.places()))

    def has_ready(self) -> bool:
        """True if some class is not parked."""
        return self._ask_classes.has_ready()

    # ---- what classes wait for

    def found_short(self, ask_class: AskClass, code: PendingCode) -> None:
        """Note what a class was found short of; nothing if that has not changed, or if it is not tried anyway.

        Asks with a node have their own waits.
        """
        if ask_class.history.code is not code and self.untried_code is _NEXT and ask_class.key[0][1] != HAS_NODE:
            self._change_code(ask_class, code)

    def _change_code(self, ask_class: AskClass, code: PendingCode) -> None:
        ask_class.name = ask_class.name or class_name(ask_class.key)
        self._waits.change(self._path, ask_class.name, ask_class.history, code)

    def suspend(self, *, is_held: bool) -> None:
        """Let all classes wait for the end of a hold, or for a first node; without both they are tried anew."""
        self.untried_code = _HELD if is_held else _NEXT if self._waits.has_nodes else _NODES
        for ask_class in self.classes.values():
            if ask_class.history.code is not self.untried_code:
                self._change_code(ask_class, self.untried_code)

    def release_histories(self) -> None:
        """Let the histories of all classes be claimed again: the order is about to be rebuilt."""
        self._waits.release((self._path, ask_class.name) for ask_class in self.classes.values() if ask_class.name)

    # ---- classes that are stuck

    def mark_stuck(self, ask_class: AskClass) -> None:
        """Mark a class that has found no room: its asks can only reserve or preempt until the generation changes."""
        if not ask_class.stuck:
            ask_class.stuck = True
            self._stuck.append(ask_class)

    def hand_over(self, ask_class: AskClass, now_ns: int, turns: Turns) -> int:
        """Give the class the position of its first application with an ask that may reserve or preempt by now, if there is one.

        Returns: the time from which that ask may; without one, a later time, before which no ask of the class may.
        """
        at_ns = ask_class.find_representative(now_ns, turns)
        if at_ns <= now_ns:
            self._reorder(ask_class)
        return at_ns

    def reposition(self, application: PendingApplication, queue: AskQueue, key: SortKey) -> None:
        """Move a queue of a stuck class to the position of the ask whose turn it is, behind other asks of the application."""
        application.ask_queues.put(queue, key)
        self._repositioned.append((application, queue))

    def _release(self) -> None:
        for application, queue in self._repositioned:
            application.ask_queues.put(queue, queue.first_key())
        self._repositioned.clear()
        for ask_class in self._stuck:
            ask_class.stuck, ask_class.representative = False, None
            self._reorder(ask_class)
        self._stuck.clear()

    # ---- keeping the order

    def sort_key(self, application: PendingApplication) -> SortKey | None:
        """The application's position by the policy.

        None when nothing of it is pending (PR-29), it is failing (SC-25) or held (OP-1).
        """
        priority = application.priorities.highest
        if priority is None or application.state is _FAILING or application.hold is not None:
            return None
        return self._key(application, -priority, self._guaranteed, self._sorts_by_priority)

    def update(self, application: PendingApplication) -> None:
        """Bring the positions of ``application`` up to date with its asks, usage and state."""
        application.changed = application.used = False
        key = self.sort_key(application)
        if not self._keeps_back:
            self._place_in_classes(application, key)
            return
        self._keep_back(application, key)
        if application.state not in self._kept_back:
            self._place_in_classes(application, key)
        elif application is not self._chosen:
            self._place_in_classes(application, None)
        self._choose()

    def advance(self, application: PendingApplication) -> None:
        """Note that a running application uses more, in the same classes; it moves back in them when it comes to their front."""
        if self._sorts_by_usage:
            application.used = False
            application.sort_key = self.sort_key(application)

    def has_moved(self, application: PendingApplication) -> bool:
        """True if something other than its priority may have changed the position of ``application``."""
        return bool(
            application.changed or (application.used and self._sorts_by_usage) or application.closed or application.opened
        )

    def remove(self, application: PendingApplication) -> None:
        """Remove an application that leaves the queue."""
        self._keep_back(application, None)
        self._starting.discard(application.application_id)
        self._place_in_classes(application, None)
        self._choose()

    def _place_in_classes(self, application: PendingApplication, key: SortKey | None) -> None:
        """Put the application at ``key`` in the classes of all its asks; None takes it out of them."""
        before, application.sort_key = application.sort_key, key
        was_in_classes = application.in_classes is not None
        for queue in application.closed:
            self._leave(application, queue)
        application.closed.clear()
        wanted = None if key is None or application.backoff_ns else application.slots_needed()
        if application.in_classes != wanted:
            for queue in application.queues.values():
                if wanted is None or not self._rename(application, queue, wanted):
                    self._leave(application, queue)
                    if wanted is not None:
                        self._join(application, queue, wanted)
            application.in_classes = wanted
        elif wanted is not None:
            for queue in application.opened:
                if application.queues.get(queue.key) is queue:
                    self._join(application, queue, wanted)
            if before is not None and key is not None and key < before:
                for queue in application.queues.values():
                    self._join(application, queue, wanted)
        if wanted is None and application.queues:
            queues = application.queues.values() if was_in_classes else application.opened
            application.keep_back(queues, is_queue_held=self.untried_code is _HELD)
        application.opened.clear()

    def _join(self, application: PendingApplication, queue: AskQueue, slots_needed: int) -> None:
        key = self.class_key(application, queue, slots_needed)
        known = self.classes.get(key)
        ask_class = self._make_class(key) if known is None else known
        if queue.ask_class is not ask_class:
            queue.ask_class = ask_class
            application.follow(queue, ask_class.history)
            application.unreported[queue] = None
            ask_class.note_age(queue)
        ask_class.put(application)
        self._reorder(ask_class)

    def _rename(self, application: PendingApplication, queue: AskQueue, slots_needed: int) -> bool:
        """Give the class of ``queue`` another key, if it has no other member and is as good as new.

        Returns whether that was possible.
        """
        ask_class = queue.ask_class
        if ask_class is None or len(ask_class) > 1 or not ask_class.is_new():
            return False
        key = self.class_key(application, queue, slots_needed)
        if key in self.classes:
            return False
        del self.classes[ask_class.key]
        self.classes[key] = ask_class
        ask_class.rename(key, queue)
        ask_class.put(application)
        self._reorder(ask_class)
        return True

    def _make_class(self, key: ClassKey) -> AskClass:
        self._classes_made += 1
        # calling the alias of a generic type takes 1 us more
        ask_class: AskClass = EquivalenceClass(key, self._classes_made, CodeHistory(self.untried_code))
        if self._waits.is_rebuilding:
            self._claim_history(ask_class)
        self.classes[key] = ask_class
        return ask_class

    def _claim_history(self, ask_class: AskClass) -> None:
        name = class_name(ask_class.key)
        history = self._waits.claim(self._path, name)
        if history is not None:
            ask_class.history, ask_class.name = history, name

    def class_key(self, application: PendingApplication, queue: AskQueue, slots_needed: int) -> ClassKey:
        """The key of the class that the asks of ``queue`` belong to."""
        return queue.key, slots_needed, application.trackers, application.application_id if self._backs_off else None

    def _leave(self, application: PendingApplication, queue: AskQueue) -> None:
        ask_class, queue.ask_class = queue.ask_class, None
        application.ask_queues.put(queue, queue.first_key())
        if ask_class is not None:
            ask_class.leave(application)
            self._reorder(ask_class)
            if not ask_class:
                del self.classes[ask_class.key]
                if ask_class.name:
                    self._waits.drop(self._path, ask_class.name)

    def _reorder(self, ask_class: AskClass) -> None:
        """Reposition a class whose members, their positions or representative have changed."""
        self._ask_classes.put(ask_class, ask_class.head_key())
        if ask_class.waits_at is not None:
            self.waiting.move(ask_class)
        self._offer(ask_class)

    def _offer(self, ask_class: AskClass) -> None:
        """Let the head of a class that is not parked offer its asks, and no other application."""
        is_offered = bool(ask_class) and not ask_class.parked
        queue = ask_class.head().queues.get(ask_class.key[0]) if is_offered else None
        before = ask_class.offered
        if queue is before:
            return
        ask_class.offered = queue
        if before is not None and before.sort_key is not None and not before.parked:
            before.order.park(before)
        if queue is not None:
            queue.order.wake(queue)

    # ---- stateaware

    def _keep_back(self, application: PendingApplication, key: SortKey | None) -> None:
        old = self._places.pop(application.application_id, None)
        if old is not None:
            self._kept_back[old[0]].remove(old[1])
        if application.state is _STARTING:
            self._starting.add(application.application_id)
        else:
            self._starting.discard(application.application_id)
        if key is not None and application.state in self._kept_back:
            self._places[application.application_id] = application.state, key
            self._kept_back[application.state].add(key, application)

    def _choose(self) -> None:
        kept = self._kept_back[_STARTING if self._starting else _ACCEPTED]
        chosen = kept.peek()
        before, self._chosen = self._chosen, chosen
        if before is not None and before is not chosen and before.state in self._kept_back:
            self._place_in_classes(before, None)
        if chosen is not None:
            self._place_in_classes(chosen, kept.first_key())
