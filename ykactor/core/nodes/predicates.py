"""What the resource manager says about where asks may run (SC-120, SC-154 to SC-156).

An ask names its class in a tag; asks of one class fare alike. The planner asks about a class and nodes when an ask has passed
all other checks there, goes on with others, and comes back when the answer is here: what it does with an answer does not depend
on how long that took. An answer holds until there is another one, the node changes or leaves, or the resource manager takes it
back. What is not answered in time counts as refused, so that a dead predicate service leaves its asks other nodes, and is
asked about again at growing distances.

Bounded: ``OPEN_MAX`` questions wait for an answer at a time; of answers the classes that were used last are kept.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable

from ykactor.core.values.ids import NodeID
from ykactor.core.values.times import S_NS

#: A class, and whether its asks are to run on the node as it is now (the SI's ``allocate``).
Question = tuple[str, bool]
#: Nodes asked about at a time for one question.
NODES_MAX = 16
#: Questions about one node each that wait for an answer; also how many classes are remembered.
OPEN_MAX = 4096
#: Answers remembered, about 100 bytes each without their reasons.
KNOWN_MAX = 200_000
#: Classes looked at, at a time, to find some whose answers can be forgotten.
LOOKS_MAX = 16
#: Longer reasons are cut.
REASON_MAX = 200
#: How long an answer may take. As long after that the question may be asked again, then after twice as long, doubled so often:
PATIENCE_NS = 10 * S_NS
DOUBLINGS_MAX = 6
NO_ANSWER = f"no answer from the resource manager within {PATIENCE_NS // S_NS} s"


class _Silence:
    """A node about which nothing was said in time: how often, and when it may be asked about again."""

    __slots__ = ("again_ns", "times")

    def __init__(self, again_ns: int, times: int) -> None:
        self.again_ns = again_ns
        self.times = times


class _Answers:
    """What is known of one question, by node."""

    __slots__ = ("asked", "passed", "refused", "silent")

    def __init__(self) -> None:
        #: Asked about, with the time at which that counts as refused.
        self.asked: dict[NodeID, int] = {}
        self.passed: set[NodeID] = set()
        #: With the reason.
        self.refused: dict[NodeID, str] = {}
        #: Those of the refused whose reason is ``NO_ANSWER``, even while they are asked about again.
        self.silent: dict[NodeID, _Silence] = {}

    def __len__(self) -> int:
        return len(self.asked) + len(self.passed) + len(self.refused)


class Predicates:
    """All answers of one partition, and the questions that are open.

    Attributes:
        is_answered: somebody is there who answers, which is assumed until somebody else says so. While nobody is, only what is
            known to pass does.
        readmissions: one higher whenever a node that did not pass may do so after all: whoever kept the others has to look anew.
    """

    def __init__(self) -> None:
        self.is_answered = True
        self.readmissions = 0
        #: The one that was used last is the last.
        #: One higher whenever something was answered or forgotten.
        self.changes = 0
        self._answers: OrderedDict[Question, _Answers] = OrderedDict()
        self._open_count = self._known_count = 0
        #: (when, question, node) of open questions and of when to ask again; entries that are no longer so are passed over.
        self._due: list[tuple[int, Question, NodeID]] = []

    # ---- what is known

    def verdict(self, question: Question, node_id: NodeID) -> bool | None:
        """Whether asks of the class may run on the node; None is not known yet. Whoever has no class may run anywhere."""
        if not question[0]:
            return True
        answers = self._answers.get(question)
        if answers is not None:
            if node_id in answers.passed:
                return True
            if node_id in answers.refused:
                return False
        return None if self.is_answered else False

    def refusals(self, question: Question) -> dict[NodeID, str]:
        """The nodes that are refused and why; to be read only."""
        answers = self._answers.get(question)
        return {} if answers is None else answers.refused

    def counts(self) -> list[tuple[Question, int, int, int]]:
        """Of each question on how many nodes it is open, passed and refused, in order."""
        return [
            (question, len(answers.asked), len(answers.passed), len(answers.refused))
            for question, answers in sorted(self._answers.items())
        ]

    # ---- asking

    def room(self, question: Question) -> int:
        """About how many nodes may be asked now."""
        answers = self._answers.get(question)
        open_count = 0 if answers is None else len(answers.asked)
        return min(NODES_MAX - open_count, OPEN_MAX - self._open_count) if self.is_answered else 0

    def is_open(self, question: Question, node_id: NodeID) -> bool:
        """Whether an answer is awaited."""
        answers = self._answers.get(question)
        return answers is not None and node_id in answers.asked

    def to_ask_again(self, now_ns: int, question: Question) -> list[NodeID]:
        """Nodes about which nothing was said in time, for which enough time has passed since."""
        answers = self._answers.get(question)
        if answers is None or not self.is_answered:
            return []
        return [it for it, silence in answers.silent.items() if silence.again_ns <= now_ns and it not in answers.asked]

    def ask(self, now_ns: int, question: Question, nodes: Iterable[NodeID]) -> None:
        """These nodes, no more than ``room``, are asked about from now on."""
        answers = self._use(question)
        for node_id in nodes:
            answers.asked[node_id] = now_ns + PATIENCE_NS
            self._open_count += 1
            self._known_count += 1
            self._wake_at(now_ns + PATIENCE_NS, question, node_id)

    # ---- being told

    def answer(self, question: Question, node_id: NodeID, error: str) -> bool:
        """The resource manager has answered, asked or not; answers whether that is news."""
        answers = self._use(question)
        error = error[:REASON_MAX]
        is_news = answers.refused.get(node_id) != error if error else node_id not in answers.passed
        self._drop(answers, node_id)
        if error:
            answers.refused[node_id] = error
        else:
            answers.passed.add(node_id)
        self._known_count += 1
        self.changes += is_news
        return is_news

    def forget(self, predicate: str, node_id: NodeID | str) -> None:
        """Nothing is known any more of this class on this node; each of them may be empty for all. O(classes)."""
        self.changes += 1
        for question, answers in list(self._answers.items()):
            if predicate and question[0] != predicate:
                continue
            for it in [NodeID(node_id)] if node_id else [*answers.asked, *answers.passed, *answers.refused]:
                self._drop(answers, it)
            if not answers:
                del self._answers[question]

    def set_answered(self, is_answered: bool) -> None:
        """Somebody who answers has come, or gone: what was asked will not be answered, and may be asked again."""
        self.is_answered = is_answered
        self.changes += 1
        self.readmissions += 1
        for answers in self._answers.values():
            for node_id in [*answers.asked, *answers.silent]:
                self._drop(answers, node_id)

    # ---- time

    def due_ns(self) -> int | None:
        """When ``expire`` will have something to do; None while nothing is to come."""
        while self._due and not self._is_due(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def expire(self, now_ns: int) -> bool:
        """Count as refused what should have been answered by now; answers whether there is something to ask or to place anew."""
        is_news = False
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            _, question, node_id = heapq.heappop(self._due)
            answers = self._answers[question]
            if node_id in answers.asked:
                self._give_up(now_ns, question, answers, node_id)
            is_news = True
        self.changes += is_news
        return is_news

    def _is_due(self, at_ns: int, question: Question, node_id: NodeID) -> bool:
        answers = self._answers.get(question)
        if answers is None:
            return False
        silence = answers.silent.get(node_id)
        return answers.asked.get(node_id) == at_ns or (silence is not None and silence.again_ns == at_ns)

    def _give_up(self, now_ns: int, question: Question, answers: _Answers, node_id: NodeID) -> None:
        silence = answers.silent.get(node_id)
        times = 0 if silence is None else silence.times
        self._drop(answers, node_id)
        again_ns = now_ns + (PATIENCE_NS << min(times, DOUBLINGS_MAX))
        answers.silent[node_id] = _Silence(again_ns, times + 1)
        answers.refused[node_id] = NO_ANSWER
        self._known_count += 1
        self._wake_at(again_ns, question, node_id)

    def _wake_at(self, at_ns: int, question: Question, node_id: NodeID) -> None:
        heapq.heappush(self._due, (at_ns, question, node_id))
        if len(self._due) > 2 * self._known_count + OPEN_MAX:  # most have been answered long ago
            self._due = sorted(it for it in self._due if self._is_due(*it))

    # ---- keeping it small

    def _use(self, question: Question) -> _Answers:
        """The answers of a question, which is the one that was used last from now on."""
        answers = self._answers.pop(question, None) or _Answers()
        self._make_room()
        self._answers[question] = answers
        return answers

    def _make_room(self) -> None:
        """Forget what was used longest ago, as far as there is too much; open questions stay, and count as used just now."""
        for _ in range(min(LOOKS_MAX, len(self._answers))):
            if self._known_count < KNOWN_MAX and len(self._answers) < OPEN_MAX:
                break
            question, answers = self._answers.popitem(last=False)
            self._forget_known(answers)
            if answers:
                self._answers[question] = answers

    def _forget_known(self, answers: _Answers) -> None:
        for node_id in [*answers.passed, *answers.refused]:
            if node_id not in answers.asked:
                self._drop(answers, node_id)

    def _drop(self, answers: _Answers, node_id: NodeID) -> None:
        before = len(answers)
        if answers.asked.pop(node_id, None) is not None:
            self._open_count -= 1
        answers.passed.discard(node_id)
        if answers.refused.pop(node_id, None) is not None:
            self.readmissions += 1
        answers.silent.pop(node_id, None)
        self._known_count -= before - len(answers)
