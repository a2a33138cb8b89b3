"""Which rows of the state a turn changes (``records``): each place that writes something durable notes its key here.

What can be computed from other rows has no row of its own: usage, shares, orders, indexes. Noting a key twice, or without a
change, is harmless.
"""

from __future__ import annotations

from ykactor.core.messages.asks import Ask, AskID
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import PART_MAX, Pausing

#: The kind of a row, then what identifies the row within its partition.
Key = tuple[str | int, ...]


class Changed:
    """The keys of the rows that the present turn has changed, in order; ``turn`` clears them when it begins."""

    def __init__(self) -> None:
        #: Tasks come with their identity, because an arrival number finds no task; other rows with None.
        self.keys: dict[Key, AskID | None] = {}
        #: How many tasks there are; each is counted from when it is new until ``AskRemoved`` tells its end.
        self.tasks = 0

    def clear(self) -> None:
        """A turn begins."""
        self.keys.clear()

    def forget_most(self) -> Pausing[None]:
        """A turn may begin soon: to free the keys of a large one at once takes long."""
        while len(self.keys) > PART_MAX:
            for _ in range(PART_MAX):
                self.keys.popitem()
            yield ()

    # ---- what the partition owns

    def configuration(self) -> None:
        """Another configuration is in force."""
        self.keys["configuration",] = None

    def queue(self, path: QueuePath) -> None:
        """A queue is new, has other settings or another state, or was removed."""
        self.keys["queue", path] = None

    def node(self, node_id: NodeID) -> None:
        """A node is new, has another capacity, is drained or schedulable again, or was removed."""
        self.keys["node", node_id] = None

    def foreign(self, key: AllocationKey) -> None:
        """A foreign allocation began, changed, or ended."""
        self.keys["foreign", key] = None

    def user(self, name: str) -> None:
        """The groups of a user are known until a later time, or no longer."""
        self.keys["user", name] = None

    def ended(self, key: str) -> None:
        """An application has ended and stays visible, or is forgotten."""
        self.keys["ended", key] = None

    def rejected(self, application_id: ApplicationID) -> None:
        """A refused application stays visible, or is forgotten."""
        self.keys["rejected", application_id] = None

    def account(self, day: int, whose: tuple[str, ...]) -> None:
        """More was counted in an account of a day, or it is forgotten; ``whose``: queue, user, group, application."""
        self.keys["account", day, *whose] = None

    # ---- what leaves own, and what the scheduler knows in addition

    def application(self, application_id: ApplicationID) -> None:
        """An application is new or has gone, or something of it changed that is not one of its tasks."""
        self.keys["application", application_id] = None

    def use(self, application_id: ApplicationID) -> None:
        """More was counted of what an application has used or waited for, or it has gone."""
        self.keys["use", application_id] = None

    def task(self, ask: Ask) -> None:
        """An ask or allocation is new, changed, or has gone."""
        spec = ask.spec
        self.keys["task", ask.arrival] = spec.application_id, spec.allocation_key

    # ---- what the scheduler owns

    def reservation(self, identity: AskID) -> None:
        """A node was reserved for an ask, or is no longer."""
        self.keys["reservation", *identity] = None

    def attempt(self, identity: AskID) -> None:
        """An attempt to preempt began, changed, or ended."""
        self.keys["attempt", *identity] = None

    def victim(self, identity: AskID) -> None:
        """A task is being released by preemption, or that has ended."""
        self.keys["victim", *identity] = None

    def last_attempt(self, identity: AskID) -> None:
        """An ask has tried to preempt, or is no longer pending."""
        self.keys["last_attempt", *identity] = None

    def taken(self, victim: QueuePath, preemptor: QueuePath, name: str) -> None:
        """A leaf has taken a resource type from another one since the last external change, or this was forgotten."""
        self.keys["taken", victim, preemptor, name] = None

    def quota_clock(self, path: QueuePath) -> None:
        """The start of quota preemption of a queue is another one, or there is none."""
        self.keys["quota_clock", path] = None

    def answer(self, predicate: str, node_id: NodeID, *, allocate: bool) -> None:
        """What the predicate service has answered about a node, or was asked, or is forgotten."""
        self.keys["answer", predicate, int(allocate), node_id] = None
