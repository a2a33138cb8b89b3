"""The questions of the scheduler to the predicate service, and its reports of refusals (SC-120, SC-154).

``predicates`` remembers questions and answers; this module decides which nodes to ask about and when, and what is reported about
an ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice

from ykactor.core.messages.asks import PREDICATE_TAG, Ask, AskID, Shape, ask_id
from ykactor.core.messages.conditions import NO_PREDICATE_SERVICE, unschedulable
from ykactor.core.messages.facts import AskCondition, Fact, PredicatesAsked
from ykactor.core.nodes.index import NodeIndex
from ykactor.core.nodes.predicates import Question
from ykactor.core.values.ids import NodeID, QueuePath
from ykactor.core.values.times import S_NS

#: The shortest time between two reports that no node accepts an ask (SC-45), and the most asks reported in this time.
CONDITION_NS = 15 * S_NS
CONDITIONS_MAX = 10_000


class PredicateClient:
    """Asks the predicate service on behalf of pending asks.

    Attributes:
        asked: the questions and reports of the present plan, until the planner takes them.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self.asked: list[Fact] = []
        self._nodes = nodes
        self._predicates = nodes.predicates
        #: When an ask was last reported, the oldest first.
        self._reported: dict[AskID, int] = {}

    def take(self) -> list[Fact]:
        """The questions and reports since the last call."""
        taken, self.asked = self.asked, []
        return taken

    def may_run(self, ask: Ask, node_id: NodeID, *, allocate: bool) -> bool | None:
        """True if the predicate service lets the ask run on the node; None is not known yet."""
        return self._predicates.verdict((ask.tags.get(PREDICATE_TAG, ""), allocate), node_id)

    def about_first(self, now_ns: int, ask: Ask, shape: Shape, first: NodeID) -> None:
        """Ask about an ask's first node, whose answer is not known, and the nodes behind it, unless that was done."""
        question = shape[3], True
        if self._predicates.is_open(question, first):
            return
        others = (node.node_id for node in self._nodes.candidates(shape) if node.node_id != first)
        unknown = (node_id for node_id in others if self._predicates.verdict(question, node_id) is None)
        self._ask(now_ns, question, ask, chain([first], unknown))

    def about(self, now_ns: int, ask: Ask, nodes: Iterable[NodeID], *, allocate: bool) -> None:
        """Ask about these nodes, and again about those that were not answered in time."""
        question = ask.tags.get(PREDICATE_TAG, ""), allocate
        self._ask(now_ns, question, ask, [*nodes, *self._predicates.to_ask_again(now_ns, question)])

    def about_unknown(self, now_ns: int, ask: Ask, shape: Shape) -> None:
        """Ask about nodes without an answer on which the ask could run if victims made room (PE-45)."""
        needs, _, selector, predicate = shape
        question = predicate, True
        unknown = (
            node.node_id
            for node in self._nodes.nodes.values()
            if node.schedulable and self._predicates.verdict(question, node.node_id) is None and node.could_fit(needs, selector)
        )
        self._ask(now_ns, question, ask, chain(unknown, self._predicates.to_ask_again(now_ns, question)))

    def report_refusals(self, now_ns: int, ask: Ask, queue: QueuePath, shape: Shape) -> None:
        """Report that all nodes with room refuse an ask, and ask again about nodes that were not answered in time.

        Nothing is reported if no node has room, or if the ask has no predicate class. The nodes are looked at only for a report
        that is due: a full cluster is tried very often for the same ask.
        """
        if not shape[3]:
            return
        question = shape[3], True
        counts = self._refusals(question, shape) if self._may_report(now_ns, ask) else None
        self._ask(now_ns, question, ask, self._predicates.to_ask_again(now_ns, question))
        if counts:
            self._reported[ask_id(ask)] = now_ns
            message = unschedulable(ask.allocation_key, counts)
            self.asked.append(AskCondition(now_ns, ask, queue, message))

    def _refusals(self, question: Question, shape: Shape) -> Counter[str]:
        """The reasons of the nodes with room for the shape, each with the number of nodes."""
        refusals = self._predicates.refusals(question)
        return Counter(refusals.get(node.node_id, NO_PREDICATE_SERVICE) for node in self._nodes.candidates(shape))

    def _may_report(self, now_ns: int, ask: Ask) -> bool:
        """True if no node has been reported for the ask, nor for too many others, in the last ``CONDITION_NS``."""
        while self._reported and next(iter(self._reported.values())) <= now_ns - CONDITION_NS:
            del self._reported[next(iter(self._reported))]
        return len(self._reported) < CONDITIONS_MAX and ask_id(ask) not in self._reported

    def _ask(self, now_ns: int, question: Question, ask: Ask, nodes: Iterable[NodeID]) -> None:
        room = self._predicates.room(question)
        if room > 0:
            unasked = (node_id for node_id in nodes if not self._predicates.is_open(question, node_id))
            wanted = tuple(dict.fromkeys(islice(unasked, room)))
            if wanted:
                self._predicates.ask(now_ns, question, wanted)
                self.asked.append(PredicatesAsked(now_ns, question[0], ask, wanted, question[1]))
