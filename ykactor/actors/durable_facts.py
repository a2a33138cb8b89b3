"""Facts for an observer outside the daemon, which may see only what is durable."""

from collections import deque
from collections.abc import Callable

from ykactor.actors.journal import Journal
from ykactor.core.messages.facts import Fact


class DurableFacts:
    """Passes facts on when they are durable; without a journal at once.

    Args:
        observe: called with each fact, in order.
    """

    def __init__(self, observe: Callable[[Fact], object], journal: Journal | None) -> None:
        self._observe = observe
        self._journal = journal
        #: How many lists of facts were added, and those that are not durable yet.
        self._count = 0
        self._waiting: deque[list[Fact]] = deque()

    def add(self, facts: list[Fact]) -> None:
        """Pass these on after all before."""
        self._count += 1
        self._waiting.append(facts)
        if self._journal is None:
            self.raise_durable(self._count)
        else:
            self._journal.follow(self, self._count)

    def raise_durable(self, number: int) -> None:
        """The first ``number`` lists are durable (``journal.Reader``)."""
        while self._count - len(self._waiting) < number:
            for fact in self._waiting.popleft():
                self._observe(fact)
