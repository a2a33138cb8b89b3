"""Users and groups for the reference (QU-60 to QU-78): who an application counts against, and how much is left of each limit."""

from __future__ import annotations

from queuetree import Amounts, Queue, total, usage

from ykactor.core.config.model import Limit
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, ApplicationAdded, AskAdded, AskRemoved, Fact, Released
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath


class People:
    """The users and groups of applications, and what they run. The key is the registration number, which is never reused."""

    def __init__(self) -> None:
        self.heard = 0
        #: Of every application that ever was: its number by its id, its user and groups.
        self.numbers: dict[ApplicationID, int] = {}
        self.who: dict[int, tuple[str, tuple[str, ...]]] = {}
        #: What waits and what runs of it.
        self.asks: dict[int, set[AllocationKey]] = {}
        self.allocations: dict[int, set[AllocationKey]] = {}
        #: Applications that count (QU-74).
        self.counted_as_running: set[int] = set()
        #: The group, if any, and the queue where it was found (QU-70).
        self.groups: dict[int, tuple[str, QueuePath] | None] = {}

    def hear(self, facts: list[Fact]) -> None:
        for fact in facts[self.heard :]:
            match fact:
                case ApplicationAdded(_, application_id, _, user, _, number, _, groups):
                    self.numbers[application_id] = number
                    self.who[number] = user, groups
                    self.asks[number], self.allocations[number] = set(), set()
                case AskAdded(_, ask):
                    self.begin(ask)
                    self.asks[self.numbers[ask.application_id]].add(ask.allocation_key)
                case AskRemoved(_, ask, _, True):
                    self.lose(self.asks, ask)
                case Allocated(_, ask, recovered=recovered):
                    if recovered:
                        self.begin(ask)
                    number = self.numbers[ask.application_id]
                    self.asks[number].discard(ask.allocation_key)
                    self.allocations[number].add(ask.allocation_key)
                    self.counted_as_running.add(number)
                case Released(_, ask, _, _, "SCHEDULING_FAILED_ON_RM"):  # it waits again (AP-144)
                    number = self.numbers[ask.application_id]
                    self.allocations[number].remove(ask.allocation_key)
                    self.asks[number].add(ask.allocation_key)
                case Released(_, ask):
                    self.lose(self.allocations, ask)
        self.heard = len(facts)

    def begin(self, ask: Ask) -> None:
        """QU-70: the choice is made anew if nothing was left."""
        number = self.numbers[ask.application_id]
        if not self.asks[number] and not self.allocations[number]:
            self.groups.pop(number, None)

    def lose(self, those: dict[int, set[AllocationKey]], ask: Ask) -> None:
        """QU-74: it stops to count when nothing waits or runs any more."""
        number = self.numbers[ask.application_id]
        those[number].remove(ask.allocation_key)
        if not self.asks[number] and not self.allocations[number]:
            self.counted_as_running.discard(number)

    def choose_groups(self, queue: Queue) -> None:
        """QU-70: at the first check or usage. QU-77: again, if the limit of the group is gone where it was found."""
        for child in queue.children:
            self.choose_groups(child)
        for application in queue.applications:
            number = application.arrival
            if number not in self.groups:
                if application.tasks.asks or application.tasks.allocations:
                    self.groups[number] = self.group_of(number, queue)
                continue
            choice = self.groups[number]
            if choice is not None and choice[0] not in self.listed_groups(queue, choice[1]):
                self.groups[number] = self.group_of(number, queue)

    def listed_groups(self, leaf: Queue, path: QueuePath) -> list[str]:
        (limits,) = [queue.config.limits for queue in leaf.path_up() if queue.path == path]
        return [group for limit in limits for group in limit.groups]

    def group_of(self, number: int, leaf: Queue) -> tuple[str, QueuePath] | None:
        """QU-67 to QU-69."""
        _, groups = self.who[number]
        for queue in leaf.path_up() if groups else []:
            listed = self.listed_groups(leaf, queue.path)
            for group in listed:
                if group in groups:
                    return group, queue.path
            if "*" in listed:
                return "*", queue.path
        return None

    def bounds(self, leaf: Queue, application: Application) -> list[tuple[Limit, list[Application]]]:
        """Every limit that the application is under, with all applications that share it (QU-60 to QU-64, QU-71)."""
        user = self.who[application.arrival][0]
        choice = self.groups[application.arrival]
        found = []
        for queue in leaf.path_up():
            listed = queue.config.limits
            inside = queue.inside()
            own = [limit for limit in listed if user in limit.users] or [limit for limit in listed if "*" in limit.users]
            found += [(limit, [ask for ask in inside if self.who[ask.arrival][0] == user]) for limit in own]
            if choice is not None:
                named = [limit for limit in listed if choice[0] in limit.groups]
                found += [(limit, [ask for ask in inside if self.is_in(ask, choice[0])]) for limit in named]
        return found

    def is_in(self, application: Application, group: str) -> bool:
        choice = self.groups.get(application.arrival)
        return choice is not None and choice[0] == group

    def can_run(self, leaf: Queue, application: Application) -> bool:
        """QU-73."""
        for limit, sharing in self.bounds(leaf, application):
            counted = {ask.arrival for ask in sharing} & self.counted_as_running
            is_new = application.arrival not in counted
            if limit.max_applications and is_new and len(counted) + 1 > limit.max_applications:
                return False
        return True

    def headroom(self, leaf: Queue, application: Application) -> Amounts:
        """QU-72; a type that is not in it is not limited."""
        room: Amounts = {}
        for limit, sharing in self.bounds(leaf, application):
            used = total(usage(ask) for ask in sharing)
            for name, quantity in (limit.max_resources or {}).items():
                left = quantity - used.get(name, 0)
                room[name] = min(left, room.get(name, left))
        return room
