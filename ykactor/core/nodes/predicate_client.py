"""What the scheduler asks the resource manager about nodes, and how it puts the answers into words (SC-120, SC-154).

``predicates`` remembers what was asked and answered; here is decided which nodes to ask about, when, and what the owner of an ask
is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice

from ykactor.core.messages.asks import PREDICATE_TAG, Ask, AskID, Shape, ask_id
from ykactor.core.messages.facts import AskCondition, Fact, PredicatesAsked
from ykactor.core.nodes.index import NodeIndex
from ykactor.core.values.ids import NodeID, QueuePath
from ykactor.core.values.times import S_NS

#: The owner of an ask is told no more often that nobody lets it run (SC-45), and of no more asks in this time.
CONDITION_NS = 15 * S_NS
CONDITIONS_MAX = 10_000

WAITS = "waits for the resource manager to say where it may run"
NOBODY = "no resource manager is connected that says whether it may run"


class PredicateClient:
    """Asks on behalf of waiting asks.

    Attributes:
        asked: the questions and remarks of the present plan; whoever plans takes them from here.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self.asked: list[Fact] = []
        self._nodes = nodes
        self._predicates = nodes.predicates
        #: When a remark was made about an ask, the oldest first.
        self._reported: dict[AskID, int] = {}

    def take(self) -> list[Fact]:
        """What was asked since this was last called."""
        taken, self.asked = self.asked, []
        return taken

    def may_run(self, ask: Ask, node_id: NodeID, *, allocate: bool) -> bool | None:
        """Whether the resource manager lets the ask run on the node; None is not known yet."""
        return self._predicates.verdict((ask.spec.tags.get(PREDICATE_TAG, ""), allocate), node_id)

    def about_first(self, now_ns: int, ask: Ask, shape: Shape, first: NodeID) -> None:
        """Nothing is known yet of the first node for an ask: ask about it and those behind it, unless that has been done."""
        question = shape[3], True
        if self._predicates.is_open(question, first):
            return
        others = (node.node_id for node in self._nodes.candidates(shape) if node.node_id != first)
        unknown = (it for it in others if self._predicates.verdict(question, it) is None)
        self._ask(now_ns, question, ask, chain([first], unknown))

    def about(self, now_ns: int, ask: Ask, nodes: Iterable[NodeID], *, allocate: bool) -> None:
        """Ask about these nodes, and again about those of which nothing was said in time."""
        question = ask.spec.tags.get(PREDICATE_TAG, ""), allocate
        self._ask(now_ns, question, ask, [*nodes, *self._predicates.to_ask_again(now_ns, question)])

    def refusal(self, now_ns: int, ask: Ask, queue: QueuePath, shape: Shape) -> str:
        """Why an ask of a class has no node although there is room for it, or "" when there is none.

        Its owner is told as well, and nodes about which nothing was said in time are asked about again.
        """
        if not shape[3]:
            return ""
        question = shape[3], True
        refusals = self._predicates.refusals(question)
        reasons = Counter(refusals.get(node.node_id, NOBODY) for node in self._nodes.candidates(shape))
        self._ask(now_ns, question, ask, self._predicates.to_ask_again(now_ns, question))
        if not reasons:
            return ""
        told = [f"{reason} ({count}x)" for reason, count in sorted(reasons.items())]
        self._report_condition(now_ns, ask, queue, f"Unschedulable request '{ask.spec.allocation_key}': {'; '.join(told)}; ")
        return f"no node that has room for it may run it: {'; '.join(told)}"

    def _ask(self, now_ns: int, question: tuple[str, bool], ask: Ask, nodes: Iterable[NodeID]) -> None:
        room = self._predicates.room(question)
        if room > 0:
            unasked = (it for it in nodes if not self._predicates.is_open(question, it))
            wanted = tuple(dict.fromkeys(islice(unasked, room)))
            if wanted:
                self._predicates.ask(now_ns, question, wanted)
                self.asked.append(PredicatesAsked(now_ns, question[0], ask, wanted, question[1]))

    def _report_condition(self, now_ns: int, ask: Ask, queue: QueuePath, message: str) -> None:
        while self._reported and next(iter(self._reported.values())) <= now_ns - CONDITION_NS:
            del self._reported[next(iter(self._reported))]
        identity = ask_id(ask)
        if identity not in self._reported and len(self._reported) < CONDITIONS_MAX:
            self._reported[identity] = now_ns
            self.asked.append(AskCondition(now_ns, ask, queue, message))
