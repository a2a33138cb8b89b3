"""The rows of the state that a turn changes (``records``): each method that changes what a row contains notes its key here.

State that can be computed from other rows has no row of its own: usage, shares, orders, indexes. Noting a key twice, or without a
change, is harmless.
"""

from __future__ import annotations

from ykactor.core.messages.asks import Ask, AskID
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import PART_MAX, Steps

#: The kind of a row, then its key within the partition.
Key = tuple[str | int, ...]


class Changed:
    """The keys of the rows that the present turn has changed, in order; ``turn`` clears them when it begins."""

    def __init__(self) -> None:
        #: Tasks come with their identity, because an arrival number finds no task; other rows with None.
        self.keys: dict[Key, AskID | None] = {}
        #: The number of tasks; each is counted from its begin until its ``AskRemoved``.
        self.tasks = 0

    def clear(self) -> None:
        """Clear the keys: a turn begins."""
        self.keys.clear()

    def forget_most(self) -> Steps[None]:
        """Clear most keys in parts, before the next turn: freeing those of a large turn at once takes long."""
        while len(self.keys) > PART_MAX:
            for _ in range(PART_MAX):
                self.keys.popitem()
            yield PART_MAX

    # ---- what the partition owns

    def configuration(self) -> None:
        """Note that another configuration is in force."""
        self.keys["configuration",] = None

    def queue(self, path: QueuePath) -> None:
        """Note a queue that is new, has other settings or another state, or was removed."""
        self.keys["queue", path] = None

    def node(self, node_id: NodeID) -> None:
        """Note a node that is new, has another capacity, is drained or schedulable again, or was removed."""
        self.keys["node", node_id] = None

    def foreign(self, key: AllocationKey) -> None:
        """Note a foreign allocation that began, changed, or ended."""
        self.keys["foreign", key] = None

    def user(self, name: str) -> None:
        """Note a user whose groups are known until a later time, or no longer."""
        self.keys["user", name] = None

    def ended(self, key: str) -> None:
        """Note an application that has ended and stays visible, or is forgotten."""
        self.keys["ended", key] = None

    def rejected(self, application_id: ApplicationID) -> None:
        """Note a refused application that stays visible, or is forgotten."""
        self.keys["rejected", application_id] = None

    def account(self, day: int, whose: tuple[str, ...]) -> None:
        """Note an account of a day that has grown or is forgotten; ``whose``: queue, user, group, application."""
        self.keys["account", day, *whose] = None

    # ---- what leaves own, and what the scheduler knows in addition

    def application(self, application_id: ApplicationID) -> None:
        """Note an application that is new or has gone, or of which anything but its tasks has changed."""
        self.keys["application", application_id] = None

    def use(self, application_id: ApplicationID) -> None:
        """Note an application whose accounts have grown, or that has gone."""
        self.keys["use", application_id] = None

    def ask_class(self, path: QueuePath, name: str) -> None:
        """Note a class of asks in a leaf that waits for something else, or has gone."""
        self.keys["class", path, name] = None

    def ask_queue(self, application_id: ApplicationID, name: str) -> None:
        """Note asks of an application that wait with others from now on, or have gone."""
        self.keys["shape", application_id, name] = None

    def task(self, ask: Ask) -> None:
        """Note an ask or allocation that is new, changed, or has gone."""
        self.keys["task", ask.arrival] = ask.application_id, ask.allocation_key

    # ---- what the scheduler owns

    def reservation(self, identity: AskID) -> None:
        """Note a reservation that began or ended."""
        self.keys["reservation", *identity] = None

    def attempt(self, identity: AskID) -> None:
        """Note a preemption attempt that began, changed, or ended."""
        self.keys["attempt", *identity] = None

    def victim(self, identity: AskID) -> None:
        """Note a victim of preemption, or one that is no longer."""
        self.keys["victim", *identity] = None

    def last_attempt(self, identity: AskID) -> None:
        """Note an ask that has tried to preempt, or is no longer pending."""
        self.keys["last_attempt", *identity] = None

    def taken(self, victim: QueuePath, preemptor: QueuePath, name: str) -> None:
        """Note that a leaf has taken a resource type from another one since the last external change, or this is forgotten."""
        self.keys["taken", victim, preemptor, name] = None

    def quota_clock(self, path: QueuePath) -> None:
        """Note a queue whose quota preemption starts at another time, or not."""
        self.keys["quota_clock", path] = None

    def answer(self, predicate: str, node_id: NodeID, *, allocate: bool) -> None:
        """Note a change of what is known from the predicate service about a node."""
        self.keys["answer", predicate, int(allocate), node_id] = None
